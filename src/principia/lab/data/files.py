r"""Where files of data sets lie, and how they get there.

Searched are `--data-dir`, then the folder that PRINCIPIA_DATA names, then the user's cache. What is
found there is used once its SHA-256 is right; that is computed once, until size or time of the file
change. What is in none of them is downloaded over https into the cache: at most as many bytes as it
must have, kept only if its SHA-256 is right, under its name only when it is whole. With
PRINCIPIA_OFFLINE=1 nothing is downloaded.
"""

import contextlib
import functools
import hashlib
import http.client
import json
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

from principia.lab.data.zips import DAMAGED, open_member
from principia.lab.params import UsageError
from principia.lab.progress import progress
from principia.lab.storage import cache_folder

__all__ = ["MissingData", "Remote", "RemoteFolder", "find", "find_folder", "folders"]

TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16
SCHEMES = ("https",)  # over which downloads come; redirects, too


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
        zipped: Bytes of an archive at the address, if the file is the beginning of its member.
        member: Name of the member of a .tar.gz archive; a zip archive has a single one.
    """

    url: str
    size: int
    sha256: str
    zipped: int = 0
    member: str = ""


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
        path = place / relative
        if path.is_file():
            if remote is not None:
                _verify(path, [path], remote.sha256, functools.partial(_sha256, path))
            return path
    if remote is None:
        raise _missing(relative, data_dir, "")
    with _incoming(relative, data_dir) as temporary:
        body = temporary / "body"
        limit = remote.zipped or remote.size
        digest = _download(remote.url, body, limit, relative, data_dir)
        if remote.zipped:
            digest = _unpack_beginning(body, remote)
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
            folder = place / relative
            paths = [folder / name for name in remote.names]
            _verify(folder, paths, remote.sha256, functools.partial(_sum_of_sums, paths))
            return folder
    with _incoming(relative, data_dir) as temporary:
        body = temporary / "body"
        body.mkdir()
        for name in remote.names:
            url = f"{remote.url}/{name}"
            _download(url, body / name, remote.largest, f"{relative}/{name}", data_dir)
        if _sum_of_sums([body / name for name in remote.names]) != remote.sha256:
            raise _changed(relative, data_dir)
        target = list(folders(data_dir))[-1] / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # it lacked a file
        os.replace(body, target)
    return target


def _verify(place: Path, paths: Sequence[Path], sha256: str, look: Callable[[], str]) -> None:
    """Refuse files that are not the known ones; those that were verified as they are, at once."""
    try:
        found = [(str(one.resolve()), one.stat()) for one in paths]
        stamps = [[path, one.st_size, one.st_mtime_ns] for path, one in found]
        name = hashlib.sha256(json.dumps([sha256, stamps]).encode()).hexdigest()
        note = cache_folder() / "verified" / name
        if note.exists():
            return
        right = look() == sha256
    except OSError as error:
        raise UsageError(f"data: {place} cannot be read: {error.strerror}.") from error
    if not right:
        raise UsageError(
            f"data: {place} must have its known SHA-256; it does not. "
            "Delete it, and it is downloaded again."
        )
    with contextlib.suppress(OSError):  # it is verified again the next time
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _sum_of_sums(paths: Sequence[Path]) -> str:
    lines = [f"{_sha256(one)}  {one.name}\n" for one in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


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
            _opened(url) as answer,
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
    except UsageError:
        raise
    except (
        urllib.error.URLError, http.client.HTTPException, OSError, ValueError, OverflowError
    ) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error).split())
        raise _missing(relative, data_dir, f" (downloading {url} failed: {reason})") from error
    return digest.hexdigest()


def _opened(url: str) -> Any:
    _need_safe(url)
    return _opener().open(url, timeout=TIMEOUT)


@functools.cache  # it reads the certificates that the system trusts
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_SafeRedirects)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects that stay where nobody on the way can change anything."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any,
                         newurl: str) -> Any:
        _need_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _need_safe(url: str) -> None:
    if urlsplit(url).scheme not in SCHEMES:
        raise urllib.error.URLError(f"it must come over {SCHEMES[0]}, not from {url}")


def _unpack_beginning(path: Path, remote: Remote) -> str:
    """Replace an archive by the first bytes of its member; return their SHA-256."""
    try:
        if remote.member:
            content = _beginning_in_tar(path, remote)
        else:
            with zipfile.ZipFile(path) as archive:
                content = open_member(archive, archive.infolist()[0]).read(remote.size)
    except (*DAMAGED, tarfile.TarError, OSError, IndexError, StopIteration):
        return ""  # which no file hashes to
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _beginning_in_tar(path: Path, remote: Remote) -> bytes:
    with tarfile.open(path, "r|gz") as archive:  # a stream: nothing before the member is kept
        member = next(one for one in archive if one.name == remote.member)
        stream = archive.extractfile(member)
        return stream.read(remote.size) if stream else b""


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
