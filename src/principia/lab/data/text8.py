"""text8: English Wikipedia as the 27 symbols a to z and blank; here, its first 6,877,825 bytes."""

import hashlib
from pathlib import Path

from principia.lab.data.files import Remote, find
from principia.lab.params import UsageError

__all__ = ["text8"]

FILE = "word2vec/text8.prefix"
REMOTE = Remote(
    "http://mattmahoney.net/dc/text8.zip", 6877825,
    "8c5551457ad85e6f248e016443493f940756c7582473e6bbfcafcbe27fc98836", zipped=31344016,
)


def text8(*, data_dir: Path | None = None) -> str:
    """Load the beginning of text8, 1.17 million words, once its SHA-256 is right."""
    path = find(FILE, data_dir=data_dir, remote=REMOTE)
    body = path.read_bytes()
    if hashlib.sha256(body).hexdigest() != REMOTE.sha256:
        raise UsageError(
            f"text8: {path} must have {REMOTE.size} bytes and its known SHA-256; it does not. "
            "Delete it, and it is downloaded again."
        )
    return body.decode("ascii")
