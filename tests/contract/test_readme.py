"""What the README shows works: its commands name things that exist, its Python runs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from principia.lab import catalog
from principia.lab.cli.app import app
from principia.lab.data.synthetic import random_signs, separable_points
from principia.lab.knobs import settings

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    pytest.param(line.split("#")[0].strip(), id=f"{text.name}: {line.strip()[:60]}")
    for text in TEXTS
    for block in re.findall(r"```sh\n(.*?)```", text.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.startswith("principia ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_name_what_exists(line):
    _, command, *rest = shlex.split(line)
    assert command in {one.name or one.callback.__name__ for one in app.registered_commands}
    keys = [word for word in rest if "/" in word or word in ("connectionism", "regression")]
    if command == "check":
        selection = catalog.select(keys)
        pairs = [word.split("=") for word in rest if "=" in word]
        if pairs:
            ((page, name),) = selection
            settings(name, page.claim(name).knobs, dict(pairs))
    else:
        for key in keys:
            catalog.page(key)


def test_the_python_of_the_readme_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    X, y, _ = separable_points(np.random.default_rng(0), 50, 3, 0.2)
    patterns = random_signs(torch.Generator().manual_seed(0), 5, 784)
    names = {"X": X, "y": y, "patterns": patterns}
    exec(block, names)
    assert names["best"].margin_ >= 0.2
    assert torch.equal(names["net"].recall(patterns).states, patterns)
    assert names["cover_count"](20, 10) / 2**20 == 0.5


def test_links_lead_somewhere():
    for text in TEXTS:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text.read_text()):
            assert (text.parent / target).exists(), f"{text.name}: {target}"


def test_the_readme_lists_every_page_and_experiment():
    readme = (ROOT / "README.md").read_text()
    for chapter in catalog.chapters():
        if not chapter.package.startswith("principia."):
            continue
        for page in chapter.pages:
            if page.name in re.findall(r"`(\w+)`", chapter.docstring):  # named in the story
                assert f"| `{page.name}` |" in readme
                for name in page.experiment_names:
                    assert f"`{page.name}:{name}`" in readme
