"""Handwritten digits for an experiment: all of MNIST, or the embedded 8 x 8 digits when quick."""

from torch import Tensor

from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.runs.experiments import Run

__all__ = ["handwriting"]


def handwriting(run: Run) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Load train pictures (N, side, side) in [0, 1], their labels, test pictures, their labels."""
    if not run.full:
        return digits()
    return (*mnist("train", data_dir=run.data_dir), *mnist("test", data_dir=run.data_dir))
