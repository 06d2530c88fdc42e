"""Python calls, and what a notebook draws of their results."""

import inspect
import json
import pydoc
import subprocess
import sys

import pytest
import torch

import commands
import principia
from principia.connectionism import Hopfield
from principia.lab.evidence import Finding, at_most
from principia.lab.params import UsageError

PLOTLY = "application/vnd.plotly.v1+json"
CLAIM = "connectionism/hopfield:energy_never_rises"
CELLS = [
    "import principia",
    "page = principia.page('connectionism/hopfield')\npage",
    f"found = principia.check('{CLAIM}', nets=3)\nfound",
    "principia.check('connectionism/margin', jobs=1)",
    "found[0].measures[0].evidence",
    "page.claim('energy_never_rises')",
    "run = principia.run('gradients/backprop', seed=3)\nrun",
    "list(run.figures().values())[0]",
    f"principia.check('{CLAIM}', nets=-1)",
    "from principia.connectionism import Hopfield\nhelp(Hopfield)",
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of a notebook that was executed, with what each gave."""
    import nbclient  # here, because it builds grammars for a second
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    client.execute()
    nbformat.validate(notebook)
    return notebook.cells


def result(cell):
    """The forms of what a cell gave; none failed, and nothing else was said."""
    (output,) = cell.outputs
    assert output.output_type in ("execute_result", "display_data"), output
    return output.data


def title(figure):
    return figure["layout"]["title"]["text"]


def test_a_page_is_a_story_with_its_mathematics(cells):
    shown = result(cells[1])
    assert shown["text/plain"].startswith("<Page connectionism/hopfield: The Hopfield network")
    text = shown["text/markdown"]
    for part in ("### The Hopfield network", r"$$ E(X) = -\tfrac12", f"- `{CLAIM}`: "):
        assert part in text


def test_a_finding_is_a_figure_with_its_numbers(cells):
    figure = result(cells[2])[PLOTLY]
    assert len({one["xaxis"] for one in figure["data"]}) == 2, "measure and control"
    for part in (CLAIM, "measure: holds", "control: refuted"):
        assert part in title(figure)
    assert result(cells[2])["text/plain"] == (
        f"<Finding {CLAIM}: holds, and its controls are refuted>")


def test_several_findings_are_a_table(cells):
    shown, names = result(cells[3]), principia.page("connectionism/margin").claim_names
    assert shown["text/plain"] == f"<Findings: {len(names)} of {len(names)} claims pass>"
    assert all(f"connectionism/margin:{one}" in shown["text/html"] for one in names)


def test_evidence_claims_and_runs_show_themselves(cells):
    evidence, claim, run = map(result, cells[4:7])
    assert title(evidence[PLOTLY]).startswith("holds: ")
    assert claim["text/plain"] == f"<Claim {CLAIM}>"
    assert "`nets=" in claim["text/markdown"]
    assert run["text/plain"] == "<Run gradients-backprop-train_digits-1: reached>"
    assert "gradients/backprop:train_digits</b>: reached" in title(run[PLOTLY])
    assert "(goal " in title(run[PLOTLY])
    assert PLOTLY in result(cells[7])


def test_a_mistake_is_the_sentence_of_the_terminal(cells):
    (error,) = cells[8].outputs
    assert error.ename == "UsageError"
    assert error.evalue.startswith(f"{CLAIM}: nets must be ")


def test_help_begins_with_what_a_component_is(cells):
    (said,) = cells[9].outputs
    lines = said.text.splitlines()
    purpose = inspect.getdoc(Hopfield).splitlines()[0]
    assert next(place for place, line in enumerate(lines) if purpose in line) < 8
    assert "Annotated" not in said.text
    assert "Range(" not in said.text


def test_the_help_of_a_claim_is_its_statement():
    claim = principia.page("connectionism/hopfield").claim("energy_never_rises")
    told = pydoc.render_doc(claim, renderer=pydoc.plaintext)
    assert claim.statement.split("$")[0] in " ".join(told.split())


def test_a_run_is_that_of_the_command_it_names(tmp_path):
    found = principia.run("gradients/backprop", runs_dir=str(tmp_path / "mine"), seed=2)
    command = found.record["command"].split()
    assert command[:3] == ["principia", "run", "gradients/backprop:train_digits"]
    assert commands.principia(*command[1:], cwd=tmp_path).returncode == 0
    (again,) = (tmp_path / "runs").iterdir()
    assert (again / "result.json").read_bytes() == found.result_file.read_bytes()


def test_calls_leave_the_threads_of_the_caller():
    torch.set_num_threads(2)
    try:
        principia.check(CLAIM, nets=2, jobs=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_calls_refuse_what_the_commands_refuse(tmp_path):
    for keys, knobs, sentence in (
        ((), {}, "check: name a chapter"),
        (("connectionism/hopfeild",), {}, "Did you mean 'connectionism/hopfield'?"),
        (("connectionism",), {"load": 0.1}, "knobs need one claim"),
        ((CLAIM,), {"lode": 1}, "there is no knob 'lode'"),
    ):
        with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
            principia.check(*keys, **knobs)
    with pytest.raises(UsageError, match="there is no knob"):
        principia.run("networks/mlp", runs_dir=str(tmp_path / "runs"), unknown=1)
    assert not (tmp_path / "runs").exists()


def test_words_of_findings_are_text():
    evidence = at_most(2.0, 1.0, why="<b>no</b>")
    shown = evidence._repr_mimebundle_()
    assert shown["text/plain"] == "<Evidence: refuted: 2 > 1>"
    assert "2 &gt; 1" in title(shown[PLOTLY])
    json.dumps(shown)
    finding = Finding("connectionism/hopfield", "energy_never_rises", (), ())
    assert repr(finding) == f"<Finding {CLAIM}: nothing was measured>"


def test_importing_the_package_loads_nothing():
    asked = "import sys, principia; principia.check; print('torch' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
    assert {"check", "page", "run"} <= set(dir(principia))
