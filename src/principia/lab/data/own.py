"""Finds the data that a user names: an embedded table, a file, or a folder of pictures."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from principia.lab.data.embedded import TABLES, embedded_table
from principia.lab.data.schema import Examples, examples
from principia.lab.data.table import FileTable, read_table
from principia.lab.params import UsageError
from principia.lab.seeds import Seed

if TYPE_CHECKING:
    from principia.lab.data.own_pictures import PictureExamples

__all__ = ["default_target", "load", "load_examples"]


def load(source: str) -> tuple[FileTable, str]:
    """Load a table and the hash of its file; an embedded one is known by its name."""
    if source in TABLES:
        return FileTable(source, embedded_table(source)[0]), source
    path = Path(source)
    if not path.is_file():
        raise UsageError(
            f"data: {source} must be a file, or one of {', '.join(TABLES)}; there is no such file."
        )
    table = read_table(path)
    return table, hashlib.sha256(path.read_bytes()).hexdigest()


def default_target(source: str) -> str | None:
    """Name the target of an embedded table; a file needs to be told."""
    return embedded_table(source)[1] if source in TABLES else None


def load_examples(
    source: str, target: str, *, seed: Seed, drop: Sequence[str] = (),
    knobs: Mapping[str, Any] | None = None,
) -> "tuple[Examples | PictureExamples, str]":
    """Load what a model learns from, split into training and test rows, and the hash of it.

    Args:
        source: A table, or a folder of pictures with one subfolder a class.
        target: Column of the table to predict; the subfolders name it themselves.
        seed: Draws the split.
        drop: Columns of the table to leave out.
        knobs: Those of the run: `side` is the pixels of a side of the pictures.
    """
    if source not in TABLES and Path(source).is_dir():
        from principia.lab.data.own_pictures import find_pictures, picture_examples

        found = find_pictures(Path(source))
        return picture_examples(found, seed=seed, side=(knobs or {}).get("side")), found.sha256
    table, sha256 = load(source)
    return examples(table, target, seed=seed, drop=drop), sha256
