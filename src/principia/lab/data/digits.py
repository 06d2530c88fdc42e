"""scikit-learn's 8 x 8 digits (embedded, 1,797 pictures) with one fixed stratified 80/20 split."""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

__all__ = ["digits"]

SPLIT_SEED = 0  # part of the definition of the split: every page sees the same test digits


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Load the digits: train pictures (1437, 8, 8) in [0, 1], labels, test pictures, labels.

    Example:
        >>> x_train, y_train, x_test, y_test = digits()
        >>> len(x_train), len(x_test), float(x_train.max())
        (1437, 360, 1.0)
    """
    raw = load_digits()
    parts = train_test_split(
        raw.images / 16, raw.target, test_size=0.2, stratify=raw.target, random_state=SPLIT_SEED
    )
    x_train, x_test, y_train, y_test = (torch.as_tensor(part) for part in parts)
    return x_train.float(), y_train.long(), x_test.float(), y_test.long()
