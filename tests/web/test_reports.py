"""Reports of tables that strangers wrote, opened as files: their words are words."""

import json
import re

import pytest

from commands import principia
from principia.lab.runs import report
from principia.lab.runs.folders import RunFolder

SCRIPT = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>"
HOSTILE = [
    rf"$\text{{{SCRIPT}}}$", f"`{SCRIPT}`", f"<!--<script>{SCRIPT}", r"$\frac{a$", "a$b`c$d",
    '<a href="javascript:alert(1)">x</a>', "<b>bold</b> &amp;",
]


def learned(folder, target, classes):
    """Train on a table with such a target; give the folder of the run."""
    lines = [f"size,{quoted(target)}"]
    lines += [f"{row},{quoted(classes[row % len(classes)])}" for row in range(40)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    done = principia(
        "run", "networks/mlp", "--data", "table.csv", "--target", target, "--threads", "1",
        "--set", "epochs=2", "--set", "hidden=4", cwd=folder,
    )
    assert done.returncode in (0, 1), done.stderr
    return RunFolder(folder / "runs/networks-mlp-1"), done.stdout


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


@pytest.mark.parametrize("place", range(4))
def test_the_words_of_a_table_stay_words(tmp_path, chromium, place):
    header, *classes = (HOSTILE[(place + more) % len(HOSTILE)] for more in (0, 3, 4))
    folder, _ = learned(tmp_path, header, classes)
    assert json.loads(folder.result_file.read_text())["metrics"]
    tab = chromium.new_page()
    complaints, asked = [], []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda said: complaints.append(said.text))
    tab.on("request", lambda one: asked.append(one.url))
    tab.goto(folder.report_file.as_uri())
    tab.locator(".figure .main-svg").nth(2).wait_for()
    assert f"predicting {header}." in tab.locator(".statement").inner_text()
    shown = tab.locator(".ytick text").all_text_contents()
    assert {*classes} <= {*shown}
    assert tab.locator(".ytick a, .xtick a, .statement a, .statement script").count() == 0
    assert tab.title() != "ran"
    assert (complaints, asked) == ([], [folder.report_file.as_uri()])
    tab.close()


def test_a_script_that_got_into_a_report_would_not_run(tmp_path, chromium):
    """The policy of the file names the two scripts that may."""
    folder, _ = learned(tmp_path, "kind", ["a", "b"])
    text = folder.report_file.read_text()
    assert "unsafe-inline" not in re.search(r"script-src[^;]*", text)[0]
    folder.report_file.write_text(text.replace("</main>", f"{SCRIPT}</main>"))
    tab = chromium.new_page()
    tab.goto(folder.report_file.as_uri())
    tab.locator(".figure .main-svg").first.wait_for()
    assert tab.title() != "ran"
    tab.close()


def test_a_report_that_cannot_be_drawn_loses_no_training(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("no such\npicture")

    monkeypatch.setattr(report, "run_report", broken)
    folder, said = learned(tmp_path, "kind", ["a", "b"])
    assert folder.result["metrics"]
    assert not folder.report_file.exists()
    assert "The report cannot be drawn: ValueError: no such picture." in said
    assert "Report:" not in said
    monkeypatch.undo()
    assert principia("report", folder.name, cwd=tmp_path).returncode == 0
    assert folder.report_file.is_file()
