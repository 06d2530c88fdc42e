"""The idx format of MNIST and its successors: a big-endian header, then unsigned bytes.

Such a set has pictures and labels, each for training and for testing, in four gzipped files.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from principia.lab.data.files import Remote, find
from principia.lab.params import UsageError, usage_error

__all__ = ["Split", "read_idx", "read_pictures"]

Split = Literal["train", "test"]

LARGEST = 1 << 30  # no idx file of the course holds a gigabyte: a header that says so is wrong


def read_pictures(
    folder: str, split: Split, files: Mapping[str, Remote], data_dir: Path | None
) -> tuple[Tensor, Tensor]:
    """Read one split of a set: pictures (N, H, W) in [0, 1] and labels (N,)."""
    stem = {"train": "train", "test": "t10k"}[split]
    pictures, labels = (
        read_idx(find(f"{folder}/{name}", data_dir=data_dir, remote=files[name]))
        for name in (f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz")
    )
    if len(pictures) != len(labels):
        got = f"{len(pictures)} and {len(labels)}"
        raise usage_error(folder, split, "as many pictures as labels", got, "Download it again.")
    return pictures.to(torch.float32) / 255, labels.to(torch.int64)


def read_idx(path: Path) -> Tensor:
    """Read an idx file of unsigned bytes, gzipped or not; refuse what the header does not match."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            magic = stream.read(4)
            if len(magic) < 4 or magic[:3] != b"\x00\x00\x08" or not 1 <= magic[3] <= 4:
                raise usage_error("idx", path.name, "an idx file of unsigned bytes", magic)
            header = stream.read(4 * magic[3])
            if len(header) < 4 * magic[3]:
                raise UsageError(f"idx: {path.name} ends inside its header. Download it again.")
            shape = struct.unpack(f">{magic[3]}I", header)
            size = math.prod(shape)
            if not 0 < size <= LARGEST:
                domain = f"of 1 to {LARGEST} bytes of data"
                raise usage_error("idx", path.name, domain, size)
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
