r"""A zoo of functions whose derivatives are known, for the claims of `taylor`.

Some send back gradients that are wrong by a known share, so that a check of gradients must say so.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import randn
from principia.mathematics.taylor import Function

KNOWN: dict[str, tuple[Function, Callable[[Tensor, int], Tensor]]] = {  # f and its coefficient k
    "exp": (torch.exp, lambda a, k: a.exp() / math.factorial(k)),
    "sin": (torch.sin, lambda a, k: (a + k * math.pi / 2).sin() / math.factorial(k)),
    "log(1+x)": (torch.log1p, lambda a, k: -((-1 - a) ** -k) / k if k else a.log1p()),
    "1/(1-x)": (lambda x: 1 / (1 - x), lambda a, k: (1 - a) ** -(k + 1)),
}
WRONG: tuple[Function, ...] = (  # half of the gradient is sent back; and of a fall 1 too much
    lambda x: x * x.detach(), lambda x: x.detach() - x * x - x,
)
ZEROS = torch.zeros(()), torch.zeros((), dtype=torch.float64)
# for a root of 1 + x²: from 1 - 1e-4 on, a whole step keeps too little of the promised decrease
FAR = 1 - torch.tensor([[2e-4], [1.25e-4], [0.8e-4], [0], [-0.5], [-2], [-9]], dtype=torch.float64)


def root(x: Tensor) -> Tensor:
    """Compute the root of 1 + x², whose whole Newton steps lead from x to -x³."""
    return (1 + x @ x).sqrt()


def searched(x: float) -> float:
    """Take a step for the root of 1 + x², of a length that Armijo's condition allows."""
    way, value, lengths = -x * (1 + x * x), (1 + x * x) ** 0.5, (0.5**k for k in range(60))
    return x + way * next(
        a for a in lengths if (1 + (x + a * way) ** 2) ** 0.5 <= value - 1e-4 * a * x * x * value
    )


def logistic(rng: torch.Generator, samples: int, dim: int, l2: float) -> Function:
    """Draw a classification problem and give the logistic loss of its weights."""
    X, noise = randn(rng, samples, dim), randn(rng, samples)
    X = X * (X[:, 0] + noise).sign()[:, None]  # times the labels
    return lambda w: F.softplus(-X @ w).mean() + l2 * w @ w / 2


def layers(rng: torch.Generator, X: Tensor) -> tuple[nn.Module, nn.Module, float]:
    """Make a layer, one that sends back 1 too much to its weights, and the error of these for X."""
    made = []
    for more in (0.0, 1.0):
        layer = nn.utils.skip_init(nn.Linear, X.shape[1], 2, dtype=X.dtype)
        layer.weight.data, layer.bias.data = randn(rng, 2, X.shape[1]), randn(rng, 2)
        layer.register_forward_hook(  # it adds a 0 whose derivative by each weight is 1
            lambda layer, _, y, more=more: y + more * _nothing(layer.weight)  # type: ignore[arg-type]
        )
        made.append(layer)
    largest = torch.cat([one.flatten() for one in (X, X + 1, made[1].weight.detach(), X**0)])
    return made[0], made[1], 1 / float(largest.abs().max())


def _nothing(weights: Tensor) -> Tensor:
    return (weights - weights.detach()).sum()


class Restless(nn.Module):
    """Sends back gradients that differ, by less than anybody measures, from call to call."""

    def forward(self, x: Tensor) -> Tensor:
        """Give x itself."""
        return _Restless.apply(x)  # type: ignore[return-value]


class _Restless(torch.autograd.Function):
    generate_vmap_rule = True
    calls = 0

    @staticmethod
    def forward(x: Tensor) -> Tensor:  # type: ignore[override]
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, sent: Tensor) -> Tensor:  # type: ignore[override]
        _Restless.calls += 1
        return sent * (1 + 1e-9 * _Restless.calls)
