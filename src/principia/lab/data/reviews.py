"""Movie review sentences, positive and negative (Pang and Lee 2005)."""

from pathlib import Path

import torch
from torch import Tensor

from principia.lab.data.files import Remote, find

__all__ = ["reviews"]

HOME = "https://raw.githubusercontent.com/yoonkim/CNN_sentence/master"
FILES = {  # negative first: its place is its label
    name: Remote(f"{HOME}/{name}", size, sha256)
    for name, size, sha256 in (
        ("rt-polarity.neg", 612256,
         "4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca"),
        ("rt-polarity.pos", 626139,
         "2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0"),
    )
}


def reviews(*, data_dir: Path | None = None) -> tuple[list[str], Tensor]:
    """Load 10,662 sentences, 5,331 of each kind, and their labels: 1 for positive ones."""
    sentences, labels = [], []
    for label, (name, remote) in enumerate(FILES.items()):
        path = find(f"mr/{name}", data_dir=data_dir, remote=remote)
        body = path.read_bytes()
        # split at line feeds alone: the text has other bytes that look like the end of a line
        lines = [line.strip() for line in body.decode("cp1252").split("\n") if line.strip()]
        sentences += lines
        labels += [label] * len(lines)
    return sentences, torch.tensor(labels)
