"""Races of the regularization chapter: constrained and sparse steps along given gradients."""

import torch

from benchmarks._steps import BETA, LR, PARAMETERS, PRICE, ROUNDING, network, shrink, steps
from principia.lab.racing import race
from principia.regularization import ProjectedSGD, ProximalL1

RADIUS = 5.0


@race(parameters=PARAMETERS, agree=ROUNDING)
def projected_sgd(parameters):
    """Take 20 steps of gradient descent along given gradients, each back into a ball."""
    return network(parameters)


@torch.no_grad()
def shorten(params):
    """Bring all parameters, as one vector, back into the ball."""
    length = torch.nn.utils.get_total_norm(params, foreach=True)
    if length > RADIUS:
        torch._foreach_mul_(params, RADIUS / length)


projected_sgd.ours(steps(lambda params: ProjectedSGD(params, lr=LR, radius=RADIUS)))
projected_sgd.peer("torch.optim.SGD, then a projection", package="torch")(
    steps(lambda params: torch.optim.SGD(params, LR, fused=True), after=shorten)
)


@race(parameters=PARAMETERS, agree=ROUNDING)
def proximal_l1(parameters):
    """Take 20 steps with momentum along given gradients, each with a soft threshold."""
    return network(parameters)


def descent(params, **options):
    """Make torch's fastest momentum, which both sides use."""
    return torch.optim.SGD(params, LR, BETA, fused=True, **options)


proximal_l1.ours(steps(lambda params: ProximalL1(params, descent, lam=PRICE)))
proximal_l1.peer(
    "torch.optim.SGD, then softshrink", package="torch",
    slower="Ours is an optimizer around an optimizer, so that torch's hooks and marks for its "
    "profiler run twice a step.",
)(steps(descent, after=shrink))
