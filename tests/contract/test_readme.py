"""What the README shows works: its commands name things that exist, its Python runs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from principia.lab.cli.app import app
from principia.lab.course import catalog
from principia.lab.data.embedded import embedded_table
from principia.lab.data.schema import examples
from principia.lab.data.synthetic import random_signs, separable_points
from principia.lab.mutation import scores
from principia.lab.mutation.document import to_markdown
from principia.lab.mutation.equivalents import equivalents, outdated
from principia.lab.mutation.planting import possible
from principia.lab.params import settings
from principia.lab.racing.races import find, folder_of_races
from principia.lab.runs import ledger
from principia.lab.seeds import Seed
from principia.lab.training.learners import knobs_for, learner_of

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
    texts = dict(word.split("=") for word in rest if "=" in word)
    if command == "check":
        selection = catalog.select(keys)
        if texts:
            ((page, name),) = selection
            settings(name, page.claim(name).knobs, texts)
    elif command == "bench":
        find(keys, folder_of_races())
    elif "--data" in rest and texts:
        schema = examples(*embedded_table(rest[rest.index("--data") + 1]), seed=Seed(0)).schema
        settings(keys[0], knobs_for(learner_of(catalog.page(keys[0]), schema)), texts)
    else:
        for key in keys:
            catalog.page(key)


def test_the_python_of_the_readme_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    X, y, _ = separable_points(np.random.default_rng(0), 50, 3, 0.2)
    patterns = random_signs(torch.Generator().manual_seed(0), 5, 784)
    inputs, labels = torch.tensor(X).float(), torch.tensor(y > 0).long()
    names = {"X": X, "y": y, "patterns": patterns, "inputs": inputs, "labels": labels}
    exec(block, names)
    assert names["trained"].history[-1]["validation_accuracy"] > 0.9
    assert names["best"].margin_ >= 0.2
    assert torch.equal(names["net"].recall(patterns).states, patterns)
    assert names["cover_count"](20, 10) / 2**20 == 0.5


def test_links_lead_somewhere():
    for text in TEXTS:
        prose = re.sub(r"`[^`\n]+`", "", text.read_text())  # without code, which may index and call
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", prose):
            assert (text.parent / target).exists(), f"{text.name}: {target}"


def test_the_readme_lists_every_page():
    readme = (ROOT / "README.md").read_text()
    for chapter in catalog.chapters():
        if not chapter.package.startswith("principia."):
            continue
        for page in chapter.pages:
            if page.name in re.findall(r"`(\w+)`", chapter.docstring):  # named in the story
                assert f"| `{page.name}` |" in readme


def test_the_ledger_document_is_what_the_command_prints():
    text = ledger.to_markdown(ledger.experiments(), ledger.read())
    assert (ROOT / "docs/LEDGER.md").read_text() == text, (
        "run principia ledger --markdown > docs/LEDGER.md")


def test_the_document_of_planted_bugs_is_what_the_command_prints():
    assert (ROOT / "docs/MUTATION.md").read_text() == to_markdown(scores.read()), (
        "run principia mutate --markdown > docs/MUTATION.md")


def test_what_is_kept_of_planted_bugs_is_of_pages_that_there_are():
    pages = {page.key: page for chapter in catalog.chapters() for page in chapter.pages}
    assert scores.read().keys() <= pages.keys()
    for page in pages.values():  # a list that cannot be read, or is of nothing, is told
        assert not outdated(page, possible(page) if equivalents(page) else [])
