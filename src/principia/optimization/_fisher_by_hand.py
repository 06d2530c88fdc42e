r"""Fisher information by hand: what claims hold the component of preconditioning against."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.optimization.preconditioning import Law
from principia.optimization.sgd import per_sample_gradients

__all__ = ["expected_squares", "surprise"]


def surprise(outputs: Tensor, y: Tensor, law: Law) -> Tensor:
    """Average the negative log-likelihood by torch's own losses."""
    if law == "normal":
        return F.mse_loss(outputs, y, reduction="sum") / (2 * len(outputs))
    if outputs.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs))
    return F.cross_entropy(outputs, y)


def expected_squares(model: nn.Module, x: Tensor, law: Law) -> Tensor:
    """Sum the squared scores over all y, weighted as the model predicts: what Fisher defined."""
    z = model(x).detach()
    if law == "normal":  # two values one standard deviation from one mean have the same moments
        cases = [(z + sign * one, z.new_full((len(z),), 0.5))
                 for one in torch.eye(z.shape[1]).to(z) for sign in (-1, 1)]
    else:
        p = torch.cat([1 - z.sigmoid(), z.sigmoid()], 1) if z.shape[1] == 1 else z.softmax(1)
        cases = [(torch.full((len(z),), k), p[:, k]) for k in range(p.shape[1])]
    total = 0
    for y, weight in cases:
        scores = per_sample_gradients(model, lambda out, y: surprise(out, y, law), x, y)
        total = total + scores.mT @ (weight[:, None] * scores)
    return cast("Tensor", total) / len(x)
