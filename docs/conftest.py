"""The rooms of the skeleton import a page that is not there yet: tests run them once copied."""

collect_ignore = ["skeleton/claims", "skeleton/experiments"]
