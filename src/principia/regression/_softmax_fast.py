r"""Softmax regression, fast: the solver "lbfgs" of `SoftmaxRegression`.

Its loss is `SoftmaxRegression.risk`; only the way to the minimum is its own. The claim
`fast_form_finds_the_minimum` of the page holds the end equal to that of torch's own L-BFGS.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

__all__ = ["LBFGS"]

MOST_STEPS, HISTORY = 500, 20  # of L-BFGS
FLAT = 1e-9  # gradient at which it stops
STUCK = 10  # steps without a smaller loss: only rounding is left
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)


@final
class LBFGS(torch.optim.Optimizer):
    r"""Descends by L-BFGS, from the curvature at $W=0$ instead of a multiple of the identity.

    There it is $\frac1K(I-\frac1K\mathbf1\mathbf1^\top)\otimes\frac1sX^\top X+\lambda I$, with ones
    as last column of X: one small system for all classes. What the last moves tell is added at
    once, in the compact form of Byrd, Nocedal and Schnabel.
    """

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter, x: Tensor, *, l2: float) -> None:
        super().__init__([weight, bias], {"lr": 1.0})
        self.weight, self.bias = weight, bias
        (s, d), eps = x.shape, torch.finfo(x.dtype).eps
        curvature = x.new_ones(d + 1, d + 1)
        curvature[:d, :d], curvature[:d, d] = x.mT @ x / s, x.mean(0)
        curvature[d, :d] = curvature[:d, d]
        curvature /= len(bias)
        sizes = curvature.diagonal()  # a view: some more of it makes dependent columns regular
        sizes += eps**0.5 * sizes + eps * sizes.sum()
        sizes[:d] += l2
        self.factor = torch.linalg.cholesky_ex(curvature).L  # the loss tells of an X with a NaN

    @torch.no_grad()
    def step(self, closure: Callable[[], float]) -> float:  # type: ignore[override]
        """Descend until the gradient is as good as 0, or rounding; return the first loss."""
        start = torch.cat([self.weight, self.bias[:, None]], 1)
        loss, gradient = self._evaluate(closure, start, torch.zeros_like(start))
        first, since = loss, 0
        pairs: deque[tuple[Tensor, Tensor]] = deque(maxlen=HISTORY)
        for _ in range(MOST_STEPS):
            if float(gradient.abs().max()) <= FLAT or since >= STUCK:
                break
            move, rate = -self._newton(gradient, pairs), 1.0
            slope, eps = float(move @ gradient), torch.finfo(move.dtype).eps
            rounding = 16 * eps * max(abs(loss), 1.0)  # scores of some size are subtracted in it
            before, start = gradient, torch.cat([self.weight, self.bias[:, None]], 1)
            new, gradient = self._evaluate(closure, start, move)
            while new > loss + SUFFICIENT * rate * slope + rounding and rate > eps:
                rate /= 2
                new, gradient = self._evaluate(closure, start, rate * move)
            since, loss = 0 if new < loss - rounding else since + 1, new
            if float(move @ (gradient - before)) > 0:  # as it is, but for rounding
                pairs.append((rate * move, gradient - before))
        return first

    def _evaluate(
        self, closure: Callable[[], float], start: Tensor, move: Tensor
    ) -> tuple[float, Tensor]:
        """Move from a start; give the loss and its gradient, class by class, the bias last."""
        weight, bias = self.weight, self.bias
        at = start + move.view_as(start)
        weight.copy_(at[:, :-1])
        bias.copy_(at[:, -1])
        with torch.enable_grad():
            loss = closure()
        return float(loss), torch.cat([weight.grad, bias.grad[:, None]], 1).flatten()  # type: ignore[list-item,index]

    def _newton(self, gradient: Tensor, pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Multiply by the inverse Hessian as moves S and changes Y of the gradient tell it."""
        if not pairs:
            return self._first(gradient[None])[0]
        S, Y = (torch.stack(one) for one in zip(*pairs, strict=True))  # (pairs, parameters)
        SY, first = S @ Y.mT, self._first(torch.cat([Y, gradient[None]]))
        first *= SY[-1, -1] / (Y[-1] @ first[-2])  # the scale of the last move
        HY, guess = first[:-1], first[-1]
        u = torch.linalg.solve_triangular(SY, (S @ gradient)[:, None], upper=True)
        v = (SY.diagonal().diag() + HY @ Y.mT) @ u - (HY @ gradient)[:, None]
        v = torch.linalg.solve_triangular(SY.mT, v, upper=False)
        return guess + v[:, 0] @ S - u[:, 0] @ HY

    def _first(self, rows: Tensor) -> Tensor:
        """Multiply rows of parameters by the inverse of the curvature at W = 0."""
        columns = rows.view(-1, len(self.factor)).mT
        return torch.cholesky_solve(columns, self.factor.to(rows)).mT.reshape(rows.shape)
