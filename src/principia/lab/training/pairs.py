r"""Pairs: the effect of a method, measured with and without it on the same draws.

Both arms of a pair share their data, their initial weights and the order of their batches, so that
the difference between them is the effect and not the luck of the draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import torch
from scipy import stats
from torch import Tensor

from principia.lab.params import UsageError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["Paired", "paired"]

LEVEL = 0.95  # of the interval


@final
@dataclass(frozen=True)
class Paired:
    """The mean difference between the arms of several pairs, with its interval by Student's t."""

    with_method: Tensor
    without: Tensor

    @property
    def differences(self) -> Tensor:
        """The effect in each pair."""
        return self.with_method - self.without

    @property
    def mean(self) -> float:
        """The mean effect."""
        return float(self.differences.mean())

    @cached_property
    def error(self) -> float:
        """The standard error of the mean effect."""
        return float(self.differences.std()) / math.sqrt(len(self.differences))

    @property
    def in_errors(self) -> float:
        """The mean effect in standard errors; without any spread it is infinite, or 0."""
        if self.error > 0:
            return self.mean / self.error
        return math.copysign(math.inf, self.mean) if self.mean else 0.0

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self._half

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self._half

    @cached_property
    def _half(self) -> float:
        degrees = len(self.differences) - 1
        return float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * self.error

    def metrics(self, name: str) -> dict[str, float]:
        """Give the effect, its interval and its size in standard errors, ready to be recorded."""
        return {
            name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high,
            f"{name}_in_errors": self.in_errors,
        }

    def figure(self, what: str, arms: tuple[str, str] = ("without", "with")) -> Figure:
        """Draw each pair as a line from one arm to the other, and the interval in the title.

        Args:
            what: Name of the number that is compared.
            arms: What the left and the right arm are called: without the method, and with it.
        """
        import plotly.graph_objects as go

        figure = go.Figure()
        for number, (left, right) in enumerate(zip(self.without, self.with_method, strict=True)):
            figure.add_scatter(
                x=arms, y=[float(left), float(right)], mode="lines+markers", showlegend=False,
                line={"color": "rgba(31, 119, 180, 0.6)"}, name=f"pair {number + 1}",
            )
        figure.add_scatter(
            x=arms, y=[float(self.without.mean()), float(self.with_method.mean())],
            mode="lines+markers", line={"color": "#d62728", "width": 3}, name="mean",
            showlegend=False,
        )
        figure.update_layout(
            title=f"difference {self.mean:.3g}, 95 % between {self.low:.3g} and {self.high:.3g}",
            yaxis_title=what, xaxis={"range": [-0.3, 1.3]},
        )
        return figure


def paired(with_method: Sequence[float] | Tensor, without: Sequence[float] | Tensor) -> Paired:
    """Compare two arms pair by pair.

    Args:
        with_method: One number a pair, measured with the method.
        without: The same without it, in the same order.

    Example:
        >>> effect = paired([0.91, 0.93, 0.92], [0.90, 0.91, 0.90])
        >>> f"{effect.mean:.4f} between {effect.low:.4f} and {effect.high:.4f}"
        '0.0167 between 0.0023 and 0.0310'
    """
    ours, theirs = (torch.as_tensor(one, dtype=torch.float64) for one in (with_method, without))
    if ours.ndim != 1 or ours.shape != theirs.shape or len(ours) < 2:
        raise UsageError(
            "paired: with_method and without must be two lists of the same length >= 2; got "
            f"{len(ours)} and {len(theirs)}. Measure both arms of every pair."
        )
    return Paired(ours, theirs)
