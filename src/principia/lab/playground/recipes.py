"""How weights begin, and what large weights cost: small tables of named recipes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

__all__ = ["INITIALIZATIONS", "PENALTIES", "Initialization", "Penalty"]

TOO_LARGE = 3.0  # standard deviation that saturates units of standardized inputs


@final
@dataclass(frozen=True)
class Initialization:
    """How weights begin: a function draws them in place; without one the model's own stay."""

    help: str
    draw: Callable[[Tensor, torch.Generator], Any] | None = None

    def begin(self, model: nn.Module, rng: torch.Generator) -> None:
        """Draw all weights (tensors with two axes or more) again, and set biases to 0."""
        if self.draw is None:
            return
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                self.draw(parameter, rng)
            else:
                nn.init.zeros_(parameter)


INITIALIZATIONS: Mapping[str, Initialization] = {
    "as declared": Initialization("What the page of the model draws."),
    "xavier_uniform": Initialization(
        "Uniform with variance 2/(inputs + outputs): keeps signals and gradients alike in size.",
        lambda w, rng: nn.init.xavier_uniform_(w, generator=rng),
    ),
    "xavier_normal": Initialization(
        "Normal with variance 2/(inputs + outputs).",
        lambda w, rng: nn.init.xavier_normal_(w, generator=rng),
    ),
    "kaiming_uniform": Initialization(
        "Uniform with variance 2/inputs: makes up for the half that a rectifier cuts off.",
        lambda w, rng: nn.init.kaiming_uniform_(w, nonlinearity="relu", generator=rng),
    ),
    "kaiming_normal": Initialization(
        "Normal with variance 2/inputs.",
        lambda w, rng: nn.init.kaiming_normal_(w, nonlinearity="relu", generator=rng),
    ),
    "orthogonal": Initialization(
        "A random rotation: a linear layer keeps all lengths.",
        lambda w, rng: nn.init.orthogonal_(w, generator=rng),
    ),
    "zeros": Initialization(
        "All weights 0: the units of a layer stay equal for ever.",
        lambda w, rng: nn.init.zeros_(w),
    ),
    "too large": Initialization(
        f"Normal with standard deviation {TOO_LARGE:g}: units saturate, or signals explode.",
        lambda w, rng: nn.init.normal_(w, std=TOO_LARGE, generator=rng),
    ),
}


@final
@dataclass(frozen=True)
class Penalty:
    """A price of large weights: its value for a strength of 1, and its gradient."""

    help: str
    value: Callable[[Tensor], Tensor]
    gradient: Callable[[Tensor], Tensor]


PENALTIES: Mapping[str, Penalty | None] = {
    "none": None,
    "l1": Penalty("Strength times the sum of |w|: many weights go to 0.",
                  lambda w: w.abs().sum(), torch.sign),
    "l2": Penalty("Strength times half the sum of w²: all weights shrink.",
                  lambda w: w.square().sum() / 2, lambda w: w),
}
