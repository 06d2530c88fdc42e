"""Zip archives of others: what may be inflated, and what a damaged one raises."""

import lzma
import struct
import zipfile
import zlib
from typing import cast

__all__ = ["DAMAGED", "open_member"]

DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError,
    RuntimeError, ValueError,
)
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # LZMA takes as much memory as a file asks for


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> zipfile.ZipExtFile:
    """Open a member that is stored or deflated, as NumPy and the official sources have theirs."""
    if member.compress_type not in PACKED:
        raise zipfile.BadZipFile(f"{member.filename} must be stored or deflated")
    return cast("zipfile.ZipExtFile", archive.open(member))
