"""What can be seen of a model in the plane: lattices, hidden units, gradients, as plain data."""

from __future__ import annotations

import base64
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from principia.lab.data.schema import Column, Examples

__all__ = [
    "Plane", "gradients_of", "hidden_layers", "packed", "plain", "unit_maps", "value_range",
]

MARGIN = 0.1  # of the range of the points, on each side
UNITS = 16  # of each layer that are drawn


@final
@dataclass(frozen=True)
class Plane:
    """The part of the plane, or of the line, where the points of a setup lie."""

    features: tuple[Column, ...]
    bounds: tuple[float, ...]  # x0, x1, and y0, y1 if there are two features; in the table's units

    @classmethod
    def around(cls, ready: Examples) -> Plane:
        """Surround all points with a margin."""
        features = ready.schema.features
        found = []
        for one, cells in zip(features, torch.cat([ready.x, ready.x_test]).T, strict=True):
            found += _with_margin(cells.double() * one.scale + one.mean)
        return cls(features, tuple(found))

    def ticks(self, axis: int, count: int) -> Tensor:
        """Divide an axis evenly, in the table's units."""
        low, high = self.bounds[2 * axis : 2 * axis + 2]
        return torch.linspace(low, high, count, dtype=torch.float64)

    def lattice(self, count: int) -> Tensor:
        """Give inputs of a model at the points of a lattice, row by row from the lowest y."""
        axes = [
            (self.ticks(axis, count) - one.mean) / one.scale
            for axis, one in enumerate(self.features)
        ]
        if len(axes) == 1:
            return axes[0][:, None].float()
        across, up = axes
        return torch.cartesian_prod(up, across).flip(1).float()


def _with_margin(cells: Tensor) -> tuple[float, float]:
    low, high = float(cells.min()), float(cells.max())
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def value_range(ready: Examples) -> tuple[float, float]:
    """Surround all values of a target that is a number."""
    return _with_margin(torch.cat([ready.y, ready.y_test]).double())


def plain(value: float) -> float | None:
    """Give a number that JSON knows, or none."""
    return float(value) if math.isfinite(value) else None


def packed(values: Tensor, low: float = 0.0, high: float = 1.0) -> str:
    """Write values between two ends as bytes 0 to 255 in base64; what is no number is 0."""
    share = (values.double() - low) / ((high - low) or 1.0)
    scaled = share.nan_to_num(0.0).clamp(0, 1).mul(255).round()
    return base64.b64encode(scaled.to(torch.uint8).contiguous().numpy().tobytes()).decode()


def hidden_layers(model: nn.Module, x: Tensor) -> list[tuple[str, Tensor]]:
    """Compute what each linear layer hands to the next, through whatever stands between them.

    A layer has the name of the linear map that it begins with; the output is not hidden.

    Shapes:
        x: (N, inputs); each layer (N, width)

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> [(name, one.shape) for name, one in hidden_layers(model, torch.zeros(5, 2))]
        [('0', torch.Size([5, 3]))]
    """
    calls: list[tuple[str, Tensor]] = []

    def heard(name: str, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        calls.append((name, arguments[0]))

    linear = [(name, one) for name, one in model.named_modules() if isinstance(one, nn.Linear)]
    hooks = [
        one.register_forward_pre_hook(functools.partial(heard, name)) for name, one in linear
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return [
        (name, entering)
        for (name, before), (_, entering) in itertools.pairwise(calls)
        # two maps side by side hear the same, and a shortcut hears the input again
        if entering is not before and entering is not x and entering.shape[:-1] == x.shape[:1]
    ]


def unit_maps(name: str, activity: Tensor, shape: list[int]) -> dict[str, Any]:
    """Draw the first units of a layer, each between its own least and largest value."""
    maps = activity[:, :UNITS].T.double().nan_to_num()
    low, high = maps.amin(1).tolist(), maps.amax(1).tolist()
    units = [packed(*one) for one in zip(maps, low, high, strict=True)]
    return {
        "name": name, "width": activity.shape[1], "shape": shape, "units": units,
        "low": low, "high": high,
    }


def gradients_of(
    model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> tuple[list[dict[str, Any]], Tensor, float]:
    """Measure the gradient of the loss by each weight, without leaving a trace in the model.

    Returns:
        For each weight with two axes or more its name, the norm of its gradient and the mean of its
        absolute values; the outputs of the model; the loss.
    """
    weights = {name: one for name, one in model.named_parameters() if one.ndim >= 2}
    with torch.enable_grad():
        outputs = model(x)
        value = loss(outputs, y)
        found = torch.autograd.grad(value, list(weights.values()), allow_unused=True)
    rows = [
        {
            "name": name,
            "gradient": plain(0.0 if gradient is None else gradient.norm().item()),
            "weight": plain(weight.detach().abs().mean().item()),
        }
        for (name, weight), gradient in zip(weights.items(), found, strict=True)
    ]
    return rows, outputs.detach(), value.item()
