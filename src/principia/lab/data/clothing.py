"""Clothes for an experiment: all of Fashion-MNIST, or the embedded 8 x 8 digits when quick."""

from torch import Tensor

from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.runs.experiments import Run

__all__ = ["clothing"]


def clothing(run: Run) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Load train pictures (N, 1, side, side) in [0, 1], their labels, test pictures and labels."""
    if run.full:
        x, y = fashion("train", data_dir=run.data_dir)
        x_test, y_test = fashion("test", data_dir=run.data_dir)
    else:
        x, y, x_test, y_test = digits()
    return x[:, None], y, x_test[:, None], y_test
