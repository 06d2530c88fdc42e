"""Models for other programs: ONNX, through torch's own exporter."""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from principia.lab.params import UsageError

__all__ = ["onnx_bytes"]


def onnx_bytes(model: Any, shape: Sequence[int] = ()) -> bytes:
    """Give a module as an ONNX file that takes batches of any size.

    Args:
        model: The module.
        shape: Shape of one input; by default what its first matrix takes.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"export: --to onnx needs a network; got {type(model).__name__}. Use --to safetensors."
        )
    try:
        import onnx  # type: ignore[import-not-found]  # noqa: F401
        import onnxscript  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        raise UsageError(
            "export: ONNX needs onnx and onnxscript; they are not installed. "
            "Run pip install 'principia[onnx]'."
        ) from None
    first = next(one for one in model.parameters() if one.ndim == 2)
    example = torch.zeros(2, *(shape or first.shape[1:]), dtype=first.dtype)
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)  # it reports every operator set that it looks at
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "model.onnx"
            torch.onnx.export(
                model.eval(), (example,), path, input_names=["x"], output_names=["y"],
                dynamic_shapes=({0: torch.export.Dim("rows", min=1)},), verbose=False,
                external_data=False,
            )
            return path.read_bytes()
    finally:
        exporter.setLevel(level)
