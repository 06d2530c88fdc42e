r"""Linear dynamics: how a linear network learns, one singular mode after another.

Two layers $A=QW$ compute no more than one matrix, but they learn otherwise. With whitened inputs
the risk knows the data only through $\Gamma=E[yx^\top]$. One layer moves straight to it, all parts
at the same rate. Two layers that start small, balanced and along the singular vectors of $\Gamma$
learn every mode by itself and by a sigmoid: nothing happens for a long time, then all of it at
once, and the time to half strength falls as the singular value grows, so that strong structure is
learned first. What the two layers have in common, $Q^\top Q-WW^\top$, never changes on the way.

$$ R(A) = E\Vert y-Ax\Vert^2 = \mathrm{Tr}\,E[yy^\top]-2\,\mathrm{Tr}(A\Gamma^\top)
+\mathrm{Tr}(AA^\top), \quad E[xx^\top] = I $$

$$ \dot A = -\eta\nabla R(A) = 2\eta(\Gamma-A), \quad
A(t) = \Gamma+(A_0-\Gamma)e^{-2\eta t} $$

$$ \nabla_Q = 2(A-\Gamma)W^\top, \quad \nabla_W = 2Q^\top(A-\Gamma), \quad
\frac{d}{dt}(Q^\top Q-WW^\top) = 0 $$

$$ \dot a = 4a(s-a), \quad a(t) = \frac{s\,e^{4st}}{e^{4st}-1+s/a_0}, \quad
t_{1/2} = \frac{1}{4s}\ln\Big(\frac{s}{a_0}-1\Big) $$

Symbols:
    $x, y$: input and target, samples `X` (N, n) and `Y` (N, k), one a row
    $\Gamma$: moment between target and input (k, n), `cross_moment`
    $A_0, A(t)$: one layer at the start and at time $t$, `linear_flow`
    $\eta$: speed of the flow, or length of a step, `lr`
    $Q, W$: second layer (k, h) and first layer (h, n), `TwoLayerLinear`; $A=QW$
    $U, s, V$: singular vectors and values of $\Gamma=U\,\mathrm{diag}(s)\,V^\top$: the modes
    $a(t), a_0$: strength of a mode, `mode_strengths`, and its start; `mode_flow` is the formula
    $t_{1/2}$: time at which a mode has half its final strength

References:
    Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in
        deep linear neural networks. ICLR. arXiv:1312.6120
    Baldi and Hornik (1989), Neural networks and principal component analysis: learning from
        examples without local minima. Neural Networks 2(1). doi:10.1016/0893-6080(89)90014-2
    Arora, Cohen and Hazan (2018), On the optimization of deep networks: implicit acceleration by
        overparameterization. ICML. arXiv:1802.06509
    Kessy, Lewin and Strimmer (2018), Optimal whitening and decorrelation. The American Statistician
        72(4). doi:10.1080/00031305.2016.1277159
"""

__all__ = [
    "TwoLayerLinear", "Whitener", "aligned_init", "cross_moment", "linear_flow", "mode_flow",
    "mode_strengths",
]

from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from principia.lab.params import (
    PositiveFloat,
    PositiveInt,
    Range,
    check_params,
    checked,
    usage_error,
)

Array = np.ndarray


@final
class Whitener(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Transforms inputs linearly so that their second moment $E[xx^\top]$ is the identity.

    Directions whose second moment is `eps` times the largest or less carry no signal and are
    dropped: `dropped_` counts them, `moments_` and the rows of `directions_` (r, D) are the others,
    the largest first. With dropped directions the second moment under "zca" is a projector.

    Shapes:
        X: (N, D); transform returns (N, r) with "pca", (N, D) with "zca"

    Args:
        kind: "pca" gives coordinates along the directions; "zca" turns them back, which moves the
            inputs least.
        eps: Share of the largest moment under which a direction is dropped.
        center: Whether to subtract the mean first, so that the covariance is meant.

    Example:
        >>> Z = Whitener().fit_transform([[0.0, 1.0], [2.0, 1.5], [4.0, 8.0]])
        >>> (Z.T @ Z / 3).round(8).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self, *, kind: Literal["pca", "zca"] = "pca",
        eps: Annotated[float, Range(0, 1, open="both")] = 1e-8, center: bool = True,
    ) -> None:
        self.kind = kind
        self.eps = eps
        self.center = center

    def fit(self, X: Any, y: Any = None) -> "Whitener":
        """Find the directions and their second moments."""
        check_params(self)
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.mean_ = X.mean(axis=0) if self.center else np.zeros(X.shape[1])
        # not from X'X, where rounding would cost the small moments half their digits
        triangle = np.linalg.qr(X - self.mean_, mode="r")
        _, values, directions = np.linalg.svd(triangle, full_matrices=False)
        moments = values**2 / len(X)
        rounding = (np.finfo(float).eps * max(X.shape) * np.abs(X).max()) ** 2  # of the mean
        kept = moments > max(self.eps * moments[0], rounding)
        if not kept.any():
            raise usage_error("Whitener", "X", "inputs that vary", X[0].tolist(), "All are alike.")
        self.moments_, self.directions_ = moments[kept], directions[kept]
        self.dropped_ = X.shape[1] - int(kept.sum())
        self._n_features_out = X.shape[1] if self.kind == "zca" else int(kept.sum())
        return self

    def transform(self, X: Any) -> Array:
        """Rotate, scale every direction to second moment 1, and with "zca" rotate back."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = (X - self.mean_) @ self.directions_.T / np.sqrt(self.moments_)
        return scores @ self.directions_ if self.kind == "zca" else scores

    def inverse_transform(self, X: Any) -> Array:
        """Undo `transform`, but for what was dropped."""
        check_is_fitted(self)
        Z = check_array(X, dtype=np.float64)
        scores = Z @ self.directions_.T if self.kind == "zca" else Z
        return scores * np.sqrt(self.moments_) @ self.directions_ + self.mean_


@checked
def cross_moment(
    X: Float[Tensor, "N n"], Y: Float[Tensor, "N k"], *, tol: PositiveFloat = 1e-6
) -> Float[Tensor, "k n"]:
    r"""Averages $\Gamma=E[yx^\top]$, all that a linear network learns of whitened inputs.

    Args:
        X: Inputs.
        Y: Targets.
        tol: How far $E[xx^\top]$ may be from the identity, in the Frobenius norm.

    Example:
        >>> cross_moment(torch.tensor([[1.0], [-1.0]]), torch.tensor([[3.0, 0.5], [-1.0, 0.5]]))
        tensor([[2.],
                [0.]])
    """
    gap = float((X.mT @ X / len(X) - torch.eye(X.shape[1]).to(X)).norm())
    if not gap <= tol:
        domain = f"whitened, ‖E[xx'] - I‖ in [0, {tol:g}]"
        hint = "Whitener().fit_transform(X) is."
        raise usage_error("cross_moment", "X", domain, float(f"{gap:.3g}"), hint)
    return Y.mT @ X / len(X)


@checked
def linear_flow(
    A0: Float[Tensor, "k n"], Gamma: Float[Tensor, "k n"], t: Float[Tensor, " T"], *,
    lr: PositiveFloat = 1.0,
) -> Float[Tensor, "T k n"]:
    r"""Follows one layer down the gradient: $A(t)=\Gamma+(A_0-\Gamma)e^{-2\eta t}$.

    Example:
        >>> half = torch.tensor(2.0).log()[None] / 2  # half of the way is left
        >>> linear_flow(torch.zeros(1, 2), torch.tensor([[4.0, 2.0]]), half)
        tensor([[[2., 1.]]])
    """
    return Gamma + (A0 - Gamma) * torch.exp(-2 * lr * t)[:, None, None]


def mode_flow(
    s: Float[Tensor, " r"], a0: float | Float[Tensor, " r"], t: Float[Tensor, " T"]
) -> Float[Tensor, "T r"]:
    r"""Follows the strengths of modes: $\dot a=4a(s-a)$, a sigmoid from $a_0$ to $s$.

    Args:
        s: Singular values; a mode without signal, $s=0$, decays as $a_0/(1+4a_0t)$.
        a0: Strengths at time 0, one for all or one for each.
        t: Times, of a balanced aligned start under the flow with $\eta=1$.

    Example:
        >>> mode_flow(torch.tensor([1.0, 2.0]), 0.5, torch.tensor([0.0, 100.0]))
        tensor([[0.5000, 0.5000],
                [1.0000, 2.0000]])
    """
    start, t = _strengths("mode_flow", a0, s), t[:, None]
    # divided by e^{4st}, which would overflow; the last term is 4t where s = 0
    grown = torch.where(s == 0, 4 * t, -torch.expm1(-4 * s * t) / torch.where(s == 0, 1, s))
    return start / (torch.exp(-4 * s * t) + start * grown)


def _strengths(owner: str, a0: float | Tensor, s: Tensor) -> Tensor:
    """Give one strength for each mode, or refuse what no flow starts from."""
    start = torch.as_tensor(a0, dtype=s.dtype, device=s.device)
    if start.shape not in ((), s.shape) or not bool(((start > 0) & start.isfinite()).all()):
        domain = f"in (0, inf), one value or {len(s)}"
        hint = "A mode that starts at 0 is never learned."
        raise usage_error(owner, "a0", domain, start.tolist(), hint)
    return start.expand_as(s)


@final
class TwoLayerLinear(nn.Module):
    r"""Maps inputs by two matrices in a row, $x\mapsto QWx$, and descends its risk exactly.

    Shapes:
        Q: (k, h); W: (h, n); x: (..., n); returns (..., k)

    Args:
        Q: Second layer, copied.
        W: First layer, copied.

    Example:
        >>> model = TwoLayerLinear(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 0.0]]))
        >>> output = model(torch.tensor([[1.0, 5.0]]))
        >>> output.tolist()
        [[3.0, 6.0]]
    """

    @checked
    def __init__(self, Q: Float[Tensor, "k h"], W: Float[Tensor, "h n"]) -> None:
        super().__init__()
        if Q.ndim != 2 or W.ndim != 2 or Q.shape[1] != len(W):
            got = (tuple(Q.shape), tuple(W.shape))
            raise usage_error("TwoLayerLinear", "Q and W", "of shapes (k, h) and (h, n)", got)
        self.Q, self.W = (nn.Parameter(part.detach().clone()) for part in (Q, W))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B k"]:
        """Apply both layers."""
        return x @ self.W.mT @ self.Q.mT

    def matrix(self) -> Float[Tensor, "k n"]:
        """Multiply the layers."""
        return self.Q @ self.W

    def gradients(
        self, Gamma: Float[Tensor, "k n"]
    ) -> tuple[Float[Tensor, "k h"], Float[Tensor, "h n"]]:
        """Differentiate the risk of whitened inputs by Q and by W."""
        return _gradients(self.Q.detach(), self.W.detach(), Gamma)

    @checked
    def descend(
        self, Gamma: Float[Tensor, "k n"], *, lr: PositiveFloat, steps: PositiveInt,
        every: PositiveInt = 1, moment: Float[Tensor, "n n"] | None = None,
    ) -> tuple[Float[Tensor, "T k h"], Float[Tensor, "T h n"]]:
        r"""Take steps down the gradient, and give Q and W at the start and after each `every`.

        A step is a time `lr` of the flow; above $1/(4\sigma_1)$ it overshoots the strongest mode.
        `moment` is $E[xx^\top]$ where it is not the identity. The model stays as it is.
        """
        longest = 1 / (4 * float(torch.linalg.matrix_norm(Gamma, 2)) or np.finfo(float).tiny)
        if lr > longest:
            domain = f"in (0, 1/(4σ₁)] = (0, {longest:.3g}]"
            raise usage_error("TwoLayerLinear.descend", "lr", domain, lr)
        Q, W = self.Q.detach(), self.W.detach()
        seen = [(Q, W)]
        for step in range(1, steps + 1):
            by_Q, by_W = _gradients(Q, W, Gamma, moment)
            Q, W = Q - lr * by_Q, W - lr * by_W
            if step % every == 0:
                seen.append((Q, W))
        Qs, Ws = zip(*seen, strict=True)
        return torch.stack(Qs), torch.stack(Ws)


def _gradients(
    Q: Tensor, W: Tensor, Gamma: Tensor, moment: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    A = Q @ W
    half = (A if moment is None else A @ moment) - Gamma  # half the gradient by A
    return 2 * half @ W.mT, 2 * Q.mT @ half


def mode_strengths(
    Q: Float[Tensor, "*T k h"], W: Float[Tensor, "*T h n"], U: Float[Tensor, "k r"],
    V: Float[Tensor, "n r"],
) -> Float[Tensor, "*T r"]:
    r"""Measures what a network has learned of each mode: the diagonal of $U^\top QWV$.

    Example:
        >>> Q, W = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 4.0]])
        >>> mode_strengths(Q, W, torch.eye(2), torch.eye(2))
        tensor([3., 8.])
    """
    return ((U.mT @ Q) * (W @ V).mT).sum(dim=-1)


def aligned_init(
    Gamma: Float[Tensor, "k n"], a0: float | Float[Tensor, " r"],
    rotation: Float[Tensor, "h r"] | None = None,
) -> TwoLayerLinear:
    r"""Builds layers that are balanced and lie along the modes, each at strength $a_0$.

    $Q=U\sqrt{a_0}R^\top$ and $W=R\sqrt{a_0}V^\top$, so that $Q^\top Q=WW^\top$.

    Args:
        Gamma: The cross moment, whose r = min(k, n) modes are meant.
        a0: Strengths, one for all or one for each mode.
        rotation: R, orthonormal columns, one a mode; if none, each mode has a hidden unit of its
            own.

    Example:
        >>> aligned_init(torch.diag(torch.tensor([3.0, 1.0])), 0.25).matrix().abs().tolist()
        [[0.25, 0.0], [0.0, 0.25]]
    """
    U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    R = torch.eye(len(s)).to(s) if rotation is None else rotation.to(s)
    overlaps = R.mT @ R
    if R.shape[1] != len(s) or not bool((overlaps - torch.eye(len(overlaps)).to(s)).norm() < 1e-5):
        domain = f"orthonormal columns, one for each of {len(s)} modes"
        hint = "torch.linalg.qr(...).Q has such columns."
        raise usage_error("aligned_init", "rotation", domain, tuple(R.shape), hint)
    root = _strengths("aligned_init", a0, s).sqrt()
    return TwoLayerLinear((U * root) @ R.mT, (R * root) @ Vh)
