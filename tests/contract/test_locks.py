"""What is installed is what the locks say: these versions, in these files, and nothing else."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"


def pins(path):
    """Read the requirements of a file, each with the hashes that stand behind it."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        found.append((Requirement(requirement), hashes))
    return found


def words(path):
    return {str(requirement) for requirement, _ in pins(path)}


def here(path):
    """The names and exact versions that a file means for this Python on this system."""
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==")
            for one, _ in pins(path) if one.marker is None or one.marker.evaluate()}


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.txt")), ids=lambda one: one.name)
def test_every_file_that_may_be_installed_has_its_hash(path):
    for requirement, hashes in pins(path):
        assert re.fullmatch(r"==[^=,*]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes), requirement


def test_constraints_are_the_versions_of_the_locks():
    assert words(ROOT / "constraints.txt") == words(LOCKS / "dev.txt") | words(LOCKS / "torch.txt")
    assert words(LOCKS / "torch.txt") == words(LOCKS / "torch-cpu.txt")
    known = {one.name: hashes for one, hashes in pins(LOCKS / "dev.txt")}
    for one, hashes in pins(LOCKS / "core.txt"):
        assert hashes == known[one.name] or str(one) in words(LOCKS / "dev.txt")


def test_the_locks_have_all_that_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    core, everything = (here(LOCKS / "torch.txt") | here(LOCKS / f"{name}.txt")
                        for name in ("core", "dev"))
    asked = {core_or_all: [Requirement(text) for text in texts] for core_or_all, texts in (
        ("core", project["dependencies"] + extras["digits"]),
        ("all", [text for one in extras.values() for text in one]))}
    for which, locked in (("core", core), ("all", everything)):
        for one in asked[which]:
            if one.name != "principia":
                assert one.specifier.contains(locked[canonicalize_name(one.name)]), one


@pytest.mark.skipif(not (Path(sys.prefix) / ".dev").exists(), reason="not set up by make")
def test_what_is_installed_is_what_is_locked():
    installed = {canonicalize_name(one.metadata["Name"]): one.version
                 for one in metadata.distributions()}
    installed["torch"] = installed["torch"].partition("+")[0]  # the build, which a hash decides
    locked = here(LOCKS / "dev.txt") | here(LOCKS / "torch.txt")
    assert locked.items() <= installed.items()


def test_make_installs_nothing_without_its_hash(tmp_path):
    """But what the build of PyTorch itself names, once that is known; and our own sources."""
    done = subprocess.run(["make", "-n", f"VENV={tmp_path}/v", f"{tmp_path}/v/.dev"], cwd=ROOT,
                          capture_output=True, text=True, check=True)
    steps = [line.split("--disable-pip-version-check ")[1]
             for line in done.stdout.splitlines() if "pip install" in line]
    assert len(steps) == 5
    first, locked, own_needs, ours, dev = steps
    assert re.fullmatch(r"--no-deps --report \S+ torch==[\d.]+", first)
    assert "locks/trusted.py" in done.stdout.split(first)[1].split(locked)[0]
    assert [locked, dev] == [f"--no-deps --require-hashes -r locks/{one}.txt"
                             for one in ("core", "dev")]
    assert own_needs == first.split()[-1]
    assert ours == "--no-deps --no-build-isolation --editable ."


def report_of(tmp_path, *digests, older=False):
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"install": [
        {"download_info": {"url": "file:///somewhere/torch-9-cp311.whl",
                           "archive_info": {"hash": f"sha256={one}"} if older else
                           {"hashes": {"sha256": one}}}} for one in digests]}))
    return subprocess.run([sys.executable, str(LOCKS / "trusted.py"), str(report)],
                          capture_output=True, text=True, check=False)


def test_a_build_of_pytorch_that_nobody_knows_is_refused(tmp_path):
    (_, hashes), (_, cpu) = *pins(LOCKS / "torch.txt"), *pins(LOCKS / "torch-cpu.txt")
    known = [hashes[0], hashes[-1], cpu[0]]
    for digests in (known, []):
        assert report_of(tmp_path, *digests).returncode == 0
        assert report_of(tmp_path, *digests, older=True).returncode == 0  # by pip before 23.1
    assert report_of(tmp_path, "0" * 64, older=True).returncode != 0
    done = report_of(tmp_path, known[0], known[1][:-1] + ("0" if known[1][-1] != "0" else "1"))
    assert done.returncode != 0
    assert f"the {len(hashes) + len(cpu)} builds" in done.stderr
    assert "got torch-9-cp311.whl with sha256:" in done.stderr
    assert "Traceback" not in done.stderr
