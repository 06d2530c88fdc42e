"""UCI regression sets with the twenty fixed splits of Hernandez-Lobato and Adams (2015).

A folder holds `data.txt` (numbers apart by blanks, one row an example), `index_features.txt` and
`index_target.txt` (columns), and `index_train_<k>.txt`, `index_test_<k>.txt` (rows) of each split.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from principia.lab.data.files import find
from principia.lab.errors import UsageError

__all__ = ["SETS", "UCI", "uci"]

SETS = ("bostonHousing", "concrete", "energy", "wine-quality-red", "yacht")
SPLITS = 20


@final
@dataclass(frozen=True)
class UCI:
    """Features (N, D), targets (N,), and row numbers (train, test) of each split."""

    X: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]


def uci(name: str, *, data_dir: Path | None = None) -> UCI:
    """Load one of the sets by the name of its folder."""
    table = _numbers(f"uci/{name}/data.txt", data_dir, 2)
    features, target = (
        _indices(f"uci/{name}/index_{part}.txt", data_dir, table.shape[1])
        for part in ("features", "target")
    )
    rows = [
        tuple(
            _indices(f"uci/{name}/index_{part}_{split}.txt", data_dir, len(table))
            for part in ("train", "test")
        )
        for split in range(SPLITS)
    ]
    splits = tuple((train, test) for train, test in rows)
    return UCI(table[:, features], table[:, target[0]], splits)


def _indices(relative: str, data_dir: Path | None, end: int) -> np.ndarray:
    values = _numbers(relative, data_dir, 1)
    indices = values.astype(int)
    if (indices != values).any() or (indices < 0).any() or (indices >= end).any():
        raise UsageError(f"uci: {relative} must hold integers from 0 to {end - 1}; it does not.")
    return indices


def _numbers(relative: str, data_dir: Path | None, ndim: Literal[1, 2]) -> np.ndarray:
    path = find(relative, data_dir=data_dir)
    try:
        values = np.loadtxt(path, ndmin=ndim)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"uci: {relative} must be a table of numbers: {reason}.") from error
    if not values.size or not np.isfinite(values).all():
        raise UsageError(f"uci: {relative} must hold finite numbers; it is empty or holds others.")
    return values
