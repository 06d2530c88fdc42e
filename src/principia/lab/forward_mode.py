"""Forward-mode derivatives without torch's warning about itself."""

import functools
import warnings

import torch
from torch.func import jvp

__all__ = ["warm_up"]


@functools.cache
def warm_up() -> None:
    """Run forward mode once: torch then loads formulas by torch.jit, which it calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))
