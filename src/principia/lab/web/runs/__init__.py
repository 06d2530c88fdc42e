"""Runs: the queue of experiments, what is on disk, and who follows them."""
