"""What races of optimizers share: a network, its gradients, and sides that step along them.

Every side copies the start into the same parameters and makes a new optimizer, so that a call is
the same work each time. Of torch's own optimizers the fused ones race: they are the fastest here.
"""

import itertools

import torch
import torch.nn.functional as F

from principia.lab.racing import within
from principia.networks import MLP

PARAMETERS = (10_000, 100_000, 1_000_000)
STEPS, LR, BETA, PRICE = 20, 0.01, 0.9, 0.1
ROUNDING = within(1e-5, why="float32, and the same steps with sums in another order")


def network(parameters, *, bias=True):
    """Make an MLP of three layers and about so many parameters, and four gradients."""
    width, rng = round((parameters / 2) ** 0.5) - 3, torch.Generator().manual_seed(0)
    model = MLP([width, width, width, 10], bias=bias, rng=rng)
    gradients = [[torch.randn(p.shape, generator=rng) for p in model.parameters()] for _ in "1234"]
    return given(list(model.parameters()), gradients)


def given(params, gradients):
    """Give what `steps` needs: parameters, where they start, and the gradients that they meet."""
    return params, [p.detach().clone() for p in params], gradients


def steps(make, *, before=lambda optimizer, t: None, after=lambda params: None, count=STEPS):
    """Build the side that steps with the optimizer that `make` makes of the parameters."""

    def run(params, start, gradients, *more):
        with torch.no_grad():
            torch._foreach_copy_(params, start)
        optimizer = make(params, *more)
        for t, now in enumerate(itertools.islice(itertools.cycle(gradients), count), start=1):
            for p, gradient in zip(params, now, strict=True):
                p.grad = gradient
            before(optimizer, t)
            optimizer.step()
            after(params)
        moves = torch._foreach_sub([p.detach() for p in params], start)
        return torch.cat([move.flatten() for move in moves])

    return run


@torch.no_grad()
def shrink(params):
    """Move all parameters towards 0, and those that are near onto it."""
    for p in params:
        p.copy_(F.softshrink(p, LR * PRICE))
