"""Times of jobs, side by side."""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["fastest"]


def fastest(*jobs: Callable[[], Any], repeats: int) -> list[float]:
    """Time jobs in turn on one thread; other work on the machine can only make a time longer."""
    best, threads = [math.inf] * len(jobs), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _, (place, job) in itertools.product(range(repeats), enumerate(jobs)):
            began = time.process_time()
            job()
            best[place] = min(best[place], time.process_time() - began)
    finally:
        torch.set_num_threads(threads)
    return best
