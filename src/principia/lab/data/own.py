"""Finds the data that a user names: an embedded table by its name, or a file."""

import hashlib
from pathlib import Path

from principia.lab.data.embedded import TABLES, embedded_table
from principia.lab.data.table import FileTable, read_table
from principia.lab.params import UsageError

__all__ = ["default_target", "load"]


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
