"""Training: what a run needs to be stopped at any instant and to go on as if it never was."""
