"""Commands of principia as a user types them.

`principia` runs in the process of the tests, where everything is loaded, and shapes and types are
checked. `process` starts a real one, for tests whose subject is the process: exit codes, signals,
closed pipes, start-up, other code on the path; `processed` does several commands in one such.
"""

import contextlib
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from principia.lab.cli import main

COMMAND = [sys.executable, "-m", "principia"]
SEVERAL = """
import contextlib, io, json, sys
from principia.lab.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    said, told = io.StringIO(), io.StringIO()
    sys.argv = ["principia", *words]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        try:
            main()
        except SystemExit as ended:
            answers.append({"returncode": ended.code})
    answers[-1].update(stdout=said.getvalue(), stderr=told.getvalue())
print(json.dumps(answers))
"""


def principia(*words, cwd=None, env=None):
    """Run a command here; give its exit code and what it said."""
    said, told = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(told),
    ):
        if cwd is not None:
            patch.chdir(cwd)
        for name, value in (env or {}).items():
            patch.setenv(name, str(value))
        patch.setattr(sys, "argv", ["principia", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return SimpleNamespace(
        returncode=ended.value.code, stdout=said.getvalue(), stderr=told.getvalue()
    )


def process(*words, **options):
    """Run a command in a process of its own; give its exit code and what it said."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        capture_output=True, text=True, timeout=600, check=False, **options,
    )


def processed(*commands, **options):
    """Run commands one after the other in one process of their own; give what each said."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)],
        capture_output=True, text=True, timeout=600, check=True, **options,
    )
    return [SimpleNamespace(**one) for one in json.loads(done.stdout)]
