"""Teachers: the trained model of an earlier run, for a run that learns from it."""

from pathlib import Path

from torch import nn

from principia.lab.params import UsageError, suggestion, usage_error
from principia.lab.runs.experiments import Run
from principia.lab.runs.folders import RunFolder, names_of_runs
from principia.lab.runs.models import load_model

__all__ = ["teacher_of"]


def teacher_of(run: Run, name: str) -> nn.Module:
    """Load the network that an earlier run kept, ready to be asked.

    Only runs that lie beside this one are found: their names may come from a browser.

    Args:
        run: The run that wants to learn.
        name: Name of the run that taught itself.
    """
    runs_dir = Path("runs") if run.folder is None else run.folder.parent
    # by name alone: a neighbor that cannot be read is no reason to refuse another
    others = names_of_runs(runs_dir)
    if name not in others or (run.folder is not None and name == run.folder.name):
        known = suggestion(name, others)
        raise usage_error("run", "teacher", f"the name of a run in {runs_dir.name}", name, known)
    found = RunFolder(runs_dir / name)
    if found.result is None:
        raise UsageError(f"run: teacher {name} must have ended. Resume it first.")
    model = load_model(found.model)[0] if found.model.is_dir() else None
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"run: teacher {name} must have kept a network; it has not. Train one: principia run "
            "regularization/dropout."
        )
    return model.requires_grad_(False).eval()
