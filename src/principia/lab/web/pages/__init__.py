"""Pages: what the course, its claims and the playground look like, and their JSON."""
