"""Races: the same work by us and by the best specialist library, as a ratio."""
