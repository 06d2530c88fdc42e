"""The course: finds chapters and pages, reads their docstrings, and sets their formulas."""
