"""Processes: the children that do all work, seen from the server and from inside."""
