"""Commands of principia as a user types them.

`principia` runs in the process of the tests, where everything is loaded, and shapes and types are
checked. `process` starts a real one, for tests whose subject is the process: exit codes, signals,
closed pipes, start-up, other code on the path.
"""

import contextlib
import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

from principia.lab.cli import main

COMMAND = [sys.executable, "-m", "principia"]


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
