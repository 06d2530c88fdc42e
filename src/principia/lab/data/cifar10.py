"""CIFAR-10, a part of it: the first 4,000 pictures to train with and the first 1,000 to test with.

In its binary format a picture is a label and 1,024 red, 1,024 green and 1,024 blue bytes.
"""

from pathlib import Path

import torch
from torch import Tensor

from principia.lab.data.files import Remote, find
from principia.lab.data.idx import Split
from principia.lab.params import UsageError, usage_error

__all__ = ["THINGS", "cifar10"]

THINGS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)
RECORD, SIDE = 1 + 3 * 32 * 32, 32
ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
FILES = {
    split: (name, Remote(ARCHIVE, size, sha256, 170052171, f"cifar-10-batches-bin/{member}"))
    for split, name, member, size, sha256 in (
        ("train", "data_batch_1.first4000.bin", "data_batch_1.bin", 12292000,
         "0993cf8b8e43bc207603aef9787006995746513f5e3fa5a52e06d1b069926330"),
        ("test", "test_batch.first1000.bin", "test_batch.bin", 3073000,
         "8314c96d7cd65618193bab23acdd5d4c4af15bf6dd00a1781d55beedf3be1ef5"),
    )
}


def cifar10(split: Split, *, data_dir: Path | None = None) -> tuple[Tensor, Tensor]:
    """Load pictures (N, 3, 32, 32) in [0, 1] and labels (N,), the places of their THINGS."""
    name, remote = FILES[split]
    path = find(f"cifar10/{name}", data_dir=data_dir, remote=remote)
    return read_records(path)


def read_records(path: Path) -> tuple[Tensor, Tensor]:
    """Read a file of records; refuse one that ends inside of a record, or has other labels."""
    body = path.read_bytes()
    if not body or len(body) % RECORD:
        raise UsageError(
            f"cifar10: {path.name} must hold records of {RECORD} bytes; got {len(body)} bytes. "
            "Download it again."
        )
    records = torch.frombuffer(bytearray(body), dtype=torch.uint8).view(-1, RECORD)
    labels = records[:, 0].long()
    if (largest := int(labels.max())) >= len(THINGS):
        raise usage_error("cifar10", f"a label of {path.name}", "0 to 9", largest)
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE).float() / 255, labels
