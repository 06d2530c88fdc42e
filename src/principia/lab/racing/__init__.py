"""Races: the same work by us and by the best specialist library, side by side, as a ratio.

A lone absolute time on a shared machine means nothing; the ratio of neighbors does. `races` is how
a race is declared and found, `commands` run as whole processes, `clock` measures, `results` keeps
and compares what was measured, `pictures` draws how cost grows.
"""

from principia.lab.racing.commands import command
from principia.lab.racing.races import Race, race, within

__all__ = ["Race", "command", "race", "within"]
