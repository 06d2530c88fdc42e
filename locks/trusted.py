"""Refuses a build of PyTorch that is not one of the known ones, before anything of it has run.

    python locks/trusted.py REPORT

PyTorch comes in a dozen builds of one version, for graphics cards or without, and the machine
decides which one pip takes. pip reports the hash of what it installed; the locks know the builds.
"""

import json
import re
import sys
from pathlib import Path

LOCKS = Path(__file__).parent


def main(report: str) -> None:
    """Look at what pip installed."""
    known = {one for lock in LOCKS.glob("torch*.txt")
             for one in re.findall(r"--hash=sha256:([0-9a-f]{64})", lock.read_text())}
    for one in json.loads(Path(report).read_text())["install"]:
        file = one["download_info"]
        digest = _sha256(file.get("archive_info", {}))
        if digest not in known:
            sys.exit(
                f"make install: PyTorch must be one of the {len(known)} builds with hashes in "
                f"locks/torch*.txt; got {file['url'].rpartition('/')[2]} with sha256:{digest}. "
                "If you know where it comes from, add that hash to locks/torch-cpu.txt."
            )


def _sha256(archive: dict) -> str:
    """Read the hash of an archive, also as pip wrote it before version 23.1."""
    older = archive.get("hash", "").removeprefix("sha256=")
    return archive.get("hashes", {}).get("sha256") or older or "nothing"


if __name__ == "__main__":
    main(sys.argv[1])
