"""text8: English Wikipedia as the 27 symbols a to z and blank; here, its first 6,877,825 bytes."""

from pathlib import Path

from principia.lab.data.files import Remote, find

__all__ = ["text8"]

FILE = "word2vec/text8.prefix"
REMOTE = Remote(
    "https://mattmahoney.net/dc/text8.zip", 6877825,
    "8c5551457ad85e6f248e016443493f940756c7582473e6bbfcafcbe27fc98836", zipped=31344016,
)


def text8(*, data_dir: Path | None = None) -> str:
    """Load the beginning of text8, 1.17 million words."""
    return find(FILE, data_dir=data_dir, remote=REMOTE).read_text("ascii")
