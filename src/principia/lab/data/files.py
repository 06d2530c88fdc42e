r"""Where files of data sets lie, and how they get there.

Searched are `--data-dir`, then the folder that PRINCIPIA_DATA names, then the user's cache. What is
in none of them is downloaded into the cache: at most as many bytes as it must have, kept only if
its SHA-256 is right, under its name only when it is whole. With PRINCIPIA_OFFLINE=1 nothing is
downloaded.
"""

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from principia.lab.params import UsageError
from principia.lab.progress import progress
from principia.lab.storage import cache_folder

__all__ = ["MissingData", "Remote", "RemoteFolder", "find", "find_folder", "folders"]

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16


@final
class MissingData(UsageError):
    """A file of a data set is in none of the data folders, and cannot be downloaded.

    Args:
        relative: Its place in a data folder.
        sentence: What to do about it.
    """

    def __init__(self, relative: str, sentence: str) -> None:
        super().__init__(sentence)
        self.relative = relative


@final
@dataclass(frozen=True)
class Remote:
    """A file at its official source: its address, its size and what it must hash to.

    Args:
        url: Where it is.
        size: Its bytes.
        sha256: What they hash to.
        zipped: Bytes of a zip archive at the address, if the file is the beginning of its member.
    """

    url: str
    size: int
    sha256: str
    zipped: int = 0


@final
@dataclass(frozen=True)
class RemoteFolder:
    """Small files at one official source, known by one SHA-256 over all their sums and names."""

    url: str
    names: Sequence[str]
    sha256: str
    largest: int = 1 << 20  # bytes that no file of it exceeds


def folders(data_dir: Path | None = None) -> Iterator[Path]:
    """Name the folders that are searched, in their order; the last one takes downloads."""
    if data_dir is not None:
        yield Path(data_dir)
    if named := os.environ.get("PRINCIPIA_DATA"):
        yield Path(named)
    yield cache_folder() / "data"


def find(relative: str, *, data_dir: Path | None = None, remote: Remote | None = None) -> Path:
    """Find a file of a data set, download it, or say where to put it."""
    for place in folders(data_dir):
        if (place / relative).is_file():
            return place / relative
    if remote is None:
        raise _missing(relative, data_dir, "")
    with _incoming(relative, data_dir) as temporary:
        body = temporary / "body"
        limit = remote.zipped or remote.size
        digest = _download(remote.url, body, limit, relative, data_dir)
        if remote.zipped:
            digest = _unzip_beginning(body, remote.size)
        if digest != remote.sha256:
            raise _changed(relative, data_dir)
        target = list(folders(data_dir))[-1] / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(body, target)
    return target


def find_folder(relative: str, remote: RemoteFolder, *, data_dir: Path | None = None) -> Path:
    """Find a folder of a data set that has all its files, download it, or say where to put it."""
    for place in folders(data_dir):
        if all((place / relative / name).is_file() for name in remote.names):
            return place / relative
    with _incoming(relative, data_dir) as temporary:
        body = temporary / "body"
        body.mkdir()
        sums = hashlib.sha256()
        for name in remote.names:
            url = f"{remote.url}/{name}"
            found = _download(url, body / name, remote.largest, f"{relative}/{name}", data_dir)
            sums.update(f"{found}  {name}\n".encode())
        if sums.hexdigest() != remote.sha256:
            raise _changed(relative, data_dir)
        target = list(folders(data_dir))[-1] / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # it lacked a file
        os.replace(body, target)
    return target


@contextmanager
def _incoming(relative: str, data_dir: Path | None) -> Iterator[Path]:
    """Give a folder for what is not whole yet, beside the final place; it does not stay."""
    home = list(folders(data_dir))[-1]
    try:
        home.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=home, prefix=".incoming-"))
    except OSError as error:
        reason = f" (it cannot be downloaded: {error.strerror})"
        raise _missing(relative, data_dir, reason) from error
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _download(url: str, path: Path, limit: int, relative: str, data_dir: Path | None) -> str:
    """Write what an address gives into a file, never more than the limit; return its SHA-256."""
    if os.environ.get("PRINCIPIA_OFFLINE"):
        raise _missing(relative, data_dir, " (PRINCIPIA_OFFLINE forbids to download it)")
    digest, left = hashlib.sha256(), limit
    try:
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT) as answer,
            path.open("wb") as stream,
            progress(limit, f"downloading {relative}") as advance,
        ):
            while chunk := answer.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise _changed(relative, data_dir)
                stream.write(chunk)
                digest.update(chunk)
                advance("", len(chunk))
            stream.flush()
            os.fsync(stream.fileno())
    except (urllib.error.URLError, OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = getattr(error, "reason", None) or error
        raise _missing(relative, data_dir, f" (downloading {url} failed: {reason})") from error
    return digest.hexdigest()


def _unzip_beginning(path: Path, size: int) -> str:
    """Replace a zip archive by the first bytes of its only member; return their SHA-256."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as member:
            content = member.read(size)
    except (zipfile.BadZipFile, IndexError):
        return ""  # which no file hashes to
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _missing(relative: str, data_dir: Path | None, reason: str) -> MissingData:
    places = ", ".join(map(str, folders(data_dir)))
    return MissingData(
        relative,
        f"data: {relative} must be in a data folder; found in none of {places}{reason}. "
        "Put it there, or name its folder in PRINCIPIA_DATA.",
    )


def _changed(relative: str, data_dir: Path | None) -> UsageError:
    place = list(folders(data_dir))[-1]
    return UsageError(
        f"data: the download of {relative} must have its known size and SHA-256; it does not. "
        f"Nothing was kept; put the right file into {place}."
    )
