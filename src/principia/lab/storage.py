"""Files that are whole or not there: written under a temporary name, then renamed."""

import os
import tempfile
from pathlib import Path

from principia.lab.params import UsageError

__all__ = ["cache_folder", "clear_leftovers", "need_writable", "write_bytes", "write_text"]

UNFINISHED = ".writing"  # the end of a temporary name


def cache_folder() -> Path:
    """Name the user's cache folder, or the one that PRINCIPIA_CACHE names."""
    import platformdirs

    named = os.environ.get("PRINCIPIA_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("principia")


def need_writable(owner: str, path: Path) -> None:
    """Refuse an output path that cannot be written, before the work is done."""
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{owner}: folder {folder} does not exist. Create it, or name another.")
    if path.is_dir():
        raise UsageError(f"{owner}: {path} is a folder. Name a file.")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"{owner}: {path} cannot be written: {reason}. Name a file elsewhere."
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text so that a crash leaves the old one, or the new one, but never half of it."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, body: bytes) -> None:
    """Write a file so that a crash leaves the old one, or the new one, but never half of it."""
    handle, temporary = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(body)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes it private; a report is not
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of a process that was killed; nobody else may be writing here."""
    for one in folder.rglob(f".*{UNFINISHED}"):
        one.unlink(missing_ok=True)
