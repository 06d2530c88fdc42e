"""Where data sets lie on disk: `--data-dir`, then PRINCIPIA_DATA, then the user's cache folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from principia.lab.errors import UsageError

__all__ = ["find", "folders"]


def folders(data_dir: Path | None = None) -> Iterator[Path]:
    """Name the folders that are searched, in their order."""
    import platformdirs

    if data_dir is not None:
        yield Path(data_dir)
    if named := os.environ.get("PRINCIPIA_DATA"):
        yield Path(named)
    yield platformdirs.user_cache_path("principia") / "data"


def find(relative: str, *, data_dir: Path | None = None) -> Path:
    """Find a file of a data set, or say where to put it."""
    places = list(folders(data_dir))
    for place in places:
        if (place / relative).is_file():
            return place / relative
    raise UsageError(
        f"data: {relative} must be in a data folder; found in none of "
        f"{', '.join(map(str, places))}. Put it there, or name its folder in PRINCIPIA_DATA."
    )
