r"""The npz format: arrays by name in a zip archive, as `numpy.savez` writes them.

What an archive promises is counted before anything of it is inflated. Nothing is ever unpickled.
"""

import math
import tokenize
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from principia.lab.data.cells import NUMBER, TEXT, need_names, need_room
from principia.lab.data.zips import DAMAGED, open_member
from principia.lab.params import UsageError, usage_error

__all__ = ["read_npz"]


def read_npz(path: Path) -> dict[str, Any]:
    """Read the cells of arrays of one length; a matrix becomes columns `name0`, `name1`, ..."""
    try:
        with zipfile.ZipFile(path) as archive:
            columns = list(_columns(path.name, archive))
    except UsageError:
        raise
    except DAMAGED as error:
        reason = " ".join(str(error).split()).rstrip(".") or "it ends too early"
        raise UsageError(f"data: {path.name} is not an npz file: {reason}.") from error
    need_names(path.name, (name for name, _ in columns))
    lengths = {len(one) for _, one in columns}
    if len(lengths) > 1:
        raise usage_error("data", path.name, "arrays of one length", sorted(lengths))
    return dict(columns)


def _columns(file: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, Any]]:
    need_room(file, sum(member.file_size for member in archive.infolist()))
    total = 0
    for member in archive.infolist():
        with open_member(archive, member) as stream:
            shape, by_columns, kind = _header(member.filename, stream)
            name = member.filename.removesuffix(".npy")
            if kind.hasobject:
                raise UsageError(f"data: {name} of {file} must hold no Python objects; it does.")
            if len(shape) not in (1, 2) or min(shape) < 0 or kind.kind not in "fiubU":
                got = f"{kind} of shape {shape}"
                domain = "numbers or texts with 1 or 2 axes"
                raise usage_error("data", f"{name} of {file}", domain, got)
            cells = math.prod(shape)
            total += cells * (kind.itemsize + (TEXT if kind.kind == "U" else NUMBER))
            need_room(file, total)
            body = stream.read(cells * kind.itemsize + 1)
        if len(body) != cells * kind.itemsize:
            raise UsageError(
                f"data: {member.filename} must hold the {cells * kind.itemsize} bytes of its "
                "header; it does not."
            )
        array = np.frombuffer(body, kind).reshape(shape, order="F" if by_columns else "C")
        if len(shape) == 1:
            yield name, _cells(array)
        else:
            yield from ((f"{name}{place}", _cells(one)) for place, one in enumerate(array.T))


def _header(name: str, stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the header of an array: its shape, whether it lies by columns, and its kind."""
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"an array of version {version}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of literals that it may refuse one day
            return read(stream)
    except (SyntaxError, tokenize.TokenError, TypeError, LookupError) as error:
        # NumPy reads a header as a literal of Python
        raise ValueError(f"the header of {name} cannot be read") from error


def _cells(array: np.ndarray) -> Any:
    """Give numbers as they are, and texts as objects: one long text widens no other."""
    if array.dtype.kind != "U":
        return array
    texts = array.tolist()
    "".join(texts).encode()  # a text that cannot be written is refused
    return texts
