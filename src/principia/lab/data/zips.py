"""What reading a damaged zip archive raises: from zipfile, and from what inflates for it."""

import lzma
import struct
import zipfile
import zlib

__all__ = ["DAMAGED"]

DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError,
    RuntimeError, ValueError,
)
