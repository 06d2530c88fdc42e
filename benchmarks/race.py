"""A race: two ways to do the same work, alternating in one process, compared as a ratio.

An absolute time on a shared machine means nothing; the ratio of neighbors does. The two sides
take turns, the order of each pair is random, and the interval is a bootstrap over the pairs.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Race:
    """The same work by us and by somebody else; `agree` checks that it is the same work."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    agree: Callable[[Any, Any], bool]
    pairs: int = 15

    def run(self) -> str:
        """Run both in turn and give the median ratio with its 95 % interval."""
        if not self.agree(self.ours(), self.theirs()):  # also the warm-up
            return f"{self.name}: the results differ, so there is nothing to compare"
        rng = np.random.default_rng(0)
        ratios = []
        for _ in range(self.pairs):
            seconds = {}
            for side in rng.permutation(["ours", "theirs"]):
                started = time.perf_counter()
                getattr(self, side)()
                seconds[str(side)] = time.perf_counter() - started
            ratios.append(seconds["ours"] / seconds["theirs"])
        samples = rng.choice(ratios, size=(2000, len(ratios)))
        low, high = np.quantile(np.median(samples, axis=1), [0.025, 0.975])
        middle = statistics.median(ratios)
        return f"{self.name}: {middle:.2g} (95 % interval {low:.2g} to {high:.2g})"
