"""Models for other programs: ONNX, through torch's own exporter."""

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from principia.lab.params import UsageError

__all__ = ["onnx_bytes"]


def onnx_bytes(model: Any, example: Tensor | tuple[Tensor, ...] | None = None) -> bytes:
    """Give a module as an ONNX file that takes batches of any size.

    Args:
        model: The module.
        example: A batch of its input, or of each of its inputs; by default of what its first
            weights take, if they are a matrix.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"export: --to onnx needs a network; got {type(model).__name__}. Use --to safetensors."
        )
    try:
        import onnx  # type: ignore[import-not-found]
        import onnxscript  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        raise UsageError(
            "export: ONNX needs onnx and onnxscript; they are not installed. "
            "Run pip install 'principia[onnx]'."
        ) from None
    if example is None:
        example = _vector_for(model)
    inputs = example if isinstance(example, tuple) else (example,)
    twice = tuple(torch.cat([one, one]) for one in inputs)  # one row would become the only one
    rows = torch.export.Dim("rows", min=1)
    names = ["x"] if len(inputs) == 1 else [f"x{number}" for number in range(1, len(inputs) + 1)]
    exporter = logging.getLogger("torch.onnx")
    level = exporter.level
    exporter.setLevel(logging.ERROR)  # it reports every operator set that it looks at
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "model.onnx"
            torch.onnx.export(
                model.eval(), twice, path, input_names=names, output_names=["y"],
                dynamic_shapes=tuple({0: rows} for _ in inputs), verbose=False,
                external_data=False,
            )
            body = path.read_bytes()
    finally:
        exporter.setLevel(level)
    takes = onnx.load_from_string(body).graph.input
    if not all(one.type.tensor_type.shape.dim[0].dim_param for one in takes):
        raise UsageError(
            f"export: {type(model).__name__} must not ask how many rows it gets in evaluation "
            "mode; its ONNX file would take that many alone. Ask in training mode only."
        )
    return body


def _vector_for(model: nn.Module) -> Tensor:
    """Make an input of the width that the first weights take."""
    first = next((one for one in model.parameters() if one.ndim > 1), None)
    if first is None or first.ndim > 2:
        raise UsageError(
            f"export: --to onnx must know an input of {type(model).__name__}; its run kept none. "
            "Keep one with run.keep(model, example=x[:1])."
        )
    return torch.zeros(1, first.shape[1], dtype=first.dtype)
