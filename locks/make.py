"""Writes the locks: which files of which versions may be installed, by their hashes.

    make lock

The versions are those of constraints.txt, as far as pyproject.toml allows them; edit one there, or
remove its line for the newest. Afterwards constraints.txt has the versions of the locks again.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS, CONSTRAINTS = ROOT / "locks", ROOT / "constraints.txt"
GROUPS = {"core": "digits", "dev": "dev"}
WRITTEN = "# Written by `make lock`.\n"
HEAD = WRITTEN + """\
# Exact versions of everything that is installed; locks/ has the hashes of their files. Some
# packages have no current release for Python 3.10; there the last one is used.
"""
# What every build of PyTorch needs. Those for graphics cards need more, in versions that they name
# themselves: pip brings it once the build is chosen (see Makefile).
TORCH = """
[[dependency-metadata]]
name = "torch"
version = "{version}"
requires-python = ">=3.10"
requires-dist = ["filelock", "fsspec>=0.8.5", "jinja2", "networkx>=2.5.1", "setuptools>=77.0.3",
                 "sympy>=1.13.3", "typing-extensions>=4.10.0"]
"""


def main() -> None:
    """Resolve, then put all files in their places."""
    pins = "".join(line for line in CONSTRAINTS.open() if not line.startswith("#"))
    version = re.search(r"^torch==(\S+)", pins, re.MULTILINE)[1]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "uv.toml").write_text(TORCH.format(version=version))
        (work / "torch.in").write_text(f"torch=={version}\n")
        for name, extra in GROUPS.items():
            (work / f"{name}.txt").write_text(pins)  # what stands in the output is kept if it may
            resolved(work, name, str(ROOT / "pyproject.toml"), "--extra", extra,
                     "--constraints", str(work / "torch.in"), "--no-emit-package", "torch")
        resolved(work, "torch", str(work / "torch.in"), "--no-deps")
        lines = [line.rstrip("\\ \n") for name in ("dev", "torch")
                 for line in (work / f"{name}.txt").open() if "==" in line]
        (work / "constraints.txt").write_text(HEAD + "\n".join(sorted(lines)) + "\n")
        for name in (*GROUPS, "torch"):
            moved(work / f"{name}.txt", LOCKS / f"{name}.txt")
        moved(work / "constraints.txt", CONSTRAINTS)


def resolved(work: Path, name: str, *words: str) -> None:
    """Write one lock, for every system and every Python that we support."""
    out = work / f"{name}.txt"
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--config-file", str(work / "uv.toml"),
         "--universal", "--python-version", "3.10", "--generate-hashes", "--no-annotate",
         "--no-header", "--quiet", "--output-file", str(out), *words], check=False)
    if done.returncode:
        sys.exit(f"make lock: the versions of {name} do not go together, as told above. "
                 "Change or remove lines of constraints.txt.")
    out.write_text(WRITTEN + out.read_text())


def moved(made: Path, place: Path) -> None:
    """Put a file in its place at once, from whatever disk."""
    beside = place.with_name(f".{place.name}")
    shutil.copyfile(made, beside)
    beside.replace(place)


if __name__ == "__main__":
    main()
