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

import itertools
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import kendalltau
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn.functional import one_hot

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import at_most, equal, every, identical, never, slope
from principia.lab.seeds import Seed

Array = np.ndarray
Weights = tuple[Tensor, ...]
Gradient = Callable[..., Weights]
Inputs = Annotated[int, Range(2, 40)]
Outputs = Annotated[int, Range(1, 12)]
SAMPLES = 300  # more than inputs, so that the second moment has full rank
STEP = 0.002  # of Euler's method where it stands for the flow
EULER = "Euler's method errs in proportion to its step"
TINY_START = 1e-6  # scale of the weights that know nothing of the modes
COUNTS = (25, 50, 100, 200, 400)  # of steps up to one time: ever shorter ones
CHUNKS = 50  # of a long descent, between which its progress is told


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
            raise refuse("Whitener", "X", "inputs that vary", X[0].tolist(), "All are alike.")
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
    X: Float[Tensor, "N n"], Y: Float[Tensor, "N k"], *, tol: Positive = 1e-6
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
        raise refuse("cross_moment", "X", domain, float(f"{gap:.3g}"), hint)
    return Y.mT @ X / len(X)


@checked
def linear_flow(
    A0: Float[Tensor, "k n"], Gamma: Float[Tensor, "k n"], t: Float[Tensor, " T"], *,
    lr: Positive = 1.0,
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
            raise refuse("TwoLayerLinear", "Q and W", "of shapes (k, h) and (h, n)", got)
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
        self, Gamma: Float[Tensor, "k n"], *, lr: Positive, steps: Count, every: Count = 1,
        moment: Float[Tensor, "n n"] | None = None,
    ) -> tuple[Float[Tensor, "T k h"], Float[Tensor, "T h n"]]:
        r"""Take steps down the gradient, and give Q and W at the start and after each `every`.

        A step is a time `lr` of the flow; above $1/(4\sigma_1)$ it overshoots the strongest mode.
        `moment` is $E[xx^\top]$ where it is not the identity. The model stays as it is.
        """
        longest = 1 / (4 * float(torch.linalg.matrix_norm(Gamma, 2)) or np.finfo(float).tiny)
        if lr > longest:
            domain = f"in (0, 1/(4σ₁)] = (0, {longest:.3g}]"
            raise refuse("TwoLayerLinear.descend", "lr", domain, lr)
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
        raise refuse("aligned_init", "rotation", domain, tuple(R.shape), hint)
    root = _strengths("aligned_init", a0, s).sqrt()
    return TwoLayerLinear((U * root) @ R.mT, (R * root) @ Vh)


def _strengths(owner: str, a0: float | Tensor, s: Tensor) -> Tensor:
    """Give one strength for each mode, or refuse what no flow starts from."""
    start = torch.as_tensor(a0).to(s)
    if start.shape not in ((), s.shape) or not bool(((start > 0) & start.isfinite()).all()):
        domain = f"in (0, inf), one value or {len(s)}"
        hint = "A mode that starts at 0 is never learned."
        raise refuse(owner, "a0", domain, start.tolist(), hint)
    return start.expand_as(s)


@claim(control={"method": "standardize"}, source="Kessy, Lewin and Strimmer 2018")
def whitening(
    seed: Seed, *, inputs: Inputs = 6, condition: Annotated[float, Range(1, 1000)] = 30.0,
    method: Literal["whiten", "standardize"] = "whiten",
) -> Evidence:
    r"""Inputs $x\mapsto E[xx^\top]^{-1/2}x$, turned or not, have an identity second moment."""
    X, unit, parts = _correlated(seed, inputs, condition).numpy(), np.eye(inputs), {}
    why = "rounding, times the condition number of the inputs"
    for kind, center in itertools.product(("pca", "zca"), (True, False)):
        model: Any = Whitener(kind=kind, center=center)  # type: ignore[arg-type]
        model = (model if method == "whiten" else StandardScaler()).fit(X)
        Z, name = model.transform(X), f"{kind}, {'centered' if center else 'as it is'}"
        parts[name] = equal(Z.T @ Z / len(Z), unit, tol=1e-8, why=why)
        parts[f"{name}, and back"] = equal(model.inverse_transform(Z), X, tol=1e-8, why=why)
    root, moment = Whitener(kind="zca", center=False).fit(X).transform(unit), X.T @ X / len(X)
    parts["zca is the inverse root"] = equal(root @ root @ moment, unit, tol=1e-8, why=why)
    more = Whitener().fit(np.hstack([X, X[:, :1] - X[:, 1:2]]))
    parts["a dependent column is dropped"] = equal(more.dropped_, 1, tol=0, why="a count")
    return every(parts)


@claim(control={"whiten": False}, source="Baldi and Hornik 1989, with whitened inputs")
def risk_expansion(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4, whiten: bool = True
) -> Evidence:
    r"""Whitened: $R(A)=\mathrm{Tr}\,E[yy^\top]-2\mathrm{Tr}(A\Gamma^\top)+\mathrm{Tr}(AA^\top)$."""
    X, Y, Gamma = _problem(seed, inputs, outputs, whiten)
    A = _normal(seed.child("A"), 20, outputs, inputs)  # twenty networks
    risks = torch.stack([_risk(X @ one.mT, Y) for one in A])
    constant = (Y.mT @ Y / len(Y)).trace()
    return identical(risks, constant - 2 * (A * Gamma).sum(dim=(1, 2)) + (A**2).sum(dim=(1, 2)))


@claim(control={"whiten": False}, source="Baldi and Hornik 1989, with whitened inputs")
def least_squares_solution(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4, whiten: bool = True
) -> Evidence:
    r"""The risk is least at $A^*=\Gamma=\frac1N\sum_iy_ix_i^\top$, and $\nabla R=2(A-\Gamma)$."""
    X, Y, Gamma = _problem(seed, inputs, outputs, whiten)
    A = _normal(seed.child("A"), outputs, inputs)
    return every({
        "minimizer": identical(Gamma, torch.linalg.lstsq(X, Y, driver="gelsd").solution.mT),
        "gradient": identical(_risk_gradient(X, Y)(A)[0], 2 * (A - Gamma)),
    })


@claim(control={"inverse": "η / 2"}, source="Saxe, McClelland and Ganguli 2014, sec. 1")
def exponential_flow(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4,
    lr: Annotated[float, Range(0.1, 0.8)] = 0.5, time: Annotated[float, Range(0.2, 2)] = 1.0,
    inverse: Literal["1 / (2η)", "η / 2"] = "1 / (2η)",
) -> Evidence:
    r"""$\dot A=2\eta(\Gamma-A)$, so $A=\Gamma-\dot A/(2\eta)=\Gamma+(A_0-\Gamma)e^{-2\eta t}$."""
    X, Y, Gamma = _problem(seed, inputs, outputs)
    start, gradient = _normal(seed.child("A"), outputs, inputs), _risk_gradient(X, Y)
    share = 1 / (2 * lr) if inverse == "1 / (2η)" else lr / 2
    times = torch.linspace(0, time, 5, dtype=X.dtype)
    path = linear_flow(start, Gamma, times, lr=1 / (2 * share))  # what A = Γ - share dA/dt implies
    velocity = -lr * torch.stack([gradient(A)[0] for A in path])
    ends = torch.stack([_euler(gradient, (start,), lr * time, count)[0] for count in COUNTS])
    lengths, errors = [time / count for count in COUNTS], (ends - path[-1]).norm(dim=(1, 2))
    return every({
        "descent errs as its step": slope(
            lengths, errors, 1.0, tol=0.05, labels=("length of a step", "error at the end"),
            why="Euler's method has order 1; the next order bends the line by a few percent",
        ),
        "equation of motion": identical(path, Gamma - share * velocity),
    })


@claim(control={"by_W": "2(A - Γ)Qᵀ"}, source="Saxe, McClelland and Ganguli 2014, sec. 1")
def two_layer_gradients(
    seed: Seed, *, size: Annotated[int, Range(2, 12)] = 4,
    by_W: Literal["2Qᵀ(A - Γ)", "2(A - Γ)Qᵀ"] = "2Qᵀ(A - Γ)",
) -> Evidence:
    r"""$\nabla_QR=2(A-\Gamma)W^\top$ and $\nabla_WR=2Q^\top(A-\Gamma)$, where $A=QW$."""
    parts = {}
    for name, (k, h, n) in {"square": (size,) * 3, "not": (size, size + 1, size + 3)}.items():
        X, Y, Gamma = _problem(seed.child(name), n, k)
        model = TwoLayerLinear(_normal(seed.child("Q"), k, h), _normal(seed.child("W"), h, n))
        theirs = torch.autograd.grad(_risk(model(X), Y), [model.Q, model.W])
        ours = model.gradients(Gamma)
        if name == "square" and by_W == "2(A - Γ)Qᵀ":
            ours = ours[0], 2 * (model.matrix() - Gamma) @ model.Q.mT
        for letter, one, other in zip("QW", ours, theirs, strict=True):
            parts[f"{name}, by {letter}"] = identical(one, other)
    return every(parts)


@claim(
    control={"left": "Uᵀ"},
    source="Saxe, McClelland and Ganguli 2014, sec. 1",
    misprint=r"$R=\Vert U^\top\tilde Q\tilde WV^\top-\Gamma\Vert_F^2$, with $U$ transposed",
)
def svd_coordinates(
    seed: Seed, *, inputs: Inputs = 6, outputs: Annotated[int, Range(3, 12)] = 4,
    hidden: Annotated[int, Range(1, 20)] = 5, left: Literal["U", "Uᵀ"] = "U",
) -> Evidence:
    r"""With $\tilde Q=U^\top Q$, $\tilde W=WV$: $A-\Gamma=U(\tilde Q\tilde W-\Sigma)V^\top$."""
    X, Y, Gamma = _problem(seed, inputs, outputs)
    Q, W = _normal(seed.child("Q"), outputs, hidden), _normal(seed.child("W"), hidden, inputs)
    U, s, Vh = torch.linalg.svd(Gamma)  # all of U and V, also what Γ leaves out
    Sigma = torch.zeros_like(Gamma)
    Sigma.diagonal().copy_(s)
    model, turned = TwoLayerLinear(Q, W), TwoLayerLinear(U.mT @ Q, W @ Vh.mT)
    back = (U if left == "U" else U.mT) @ turned.matrix() @ Vh
    constant = (Y**2).sum(dim=1).mean() - (Gamma**2).sum()
    by_turned = torch.autograd.grad(((back - Gamma) ** 2).sum(), [turned.Q, turned.W])
    return every({
        "A - Γ": identical(model.matrix() - Gamma, U @ (turned.matrix() - Sigma) @ Vh),
        "risk": identical(_risk(model(X), Y), ((back - Gamma) ** 2).sum() + constant),
        "gradient by Q": identical(by_turned[0], U.mT @ model.gradients(Gamma)[0]),
        "gradient by W": identical(by_turned[1], model.gradients(Gamma)[1] @ Vh.mT),
        "strengths": identical(
            mode_strengths(Q, W, U[:, : len(s)], Vh[: len(s)].mT), turned.matrix().diagonal()
        ),
    })


@claim(
    control={"whiten": False}, source="Saxe, McClelland and Ganguli 2014, sec. 1", headline=True
)
def modes_decouple(
    seed: Seed, *, inputs: Inputs = 8, outputs: Annotated[int, Range(2, 12)] = 4,
    a0: Annotated[float, Range(1e-4, 0.1)] = 0.001, spare: Annotated[int, Range(0, 20)] = 2,
    whiten: bool = True,
) -> Evidence:
    r"""From an aligned balanced start every mode follows $\dot a=4a(s-a)$, for itself."""
    X, _, Gamma = _problem(seed, inputs, outputs, whiten)
    U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    R = _frame(seed.child("R"), len(s) + spare, len(s))
    steps = round(np.log1p(1 / a0) / STEP)  # by then also the weakest mode, about 0.4, is learned
    Qs, Ws = aligned_init(Gamma, a0, R).descend(
        Gamma, lr=STEP, steps=steps, every=20, moment=X.mT @ X / len(X)
    )
    measured = mode_strengths(Qs, Ws, U, Vh.mT)
    times = 20 * STEP * torch.arange(len(measured), dtype=s.dtype)
    predicted = mode_flow(s, a0, times)
    mixed = U.mT @ Qs @ Ws @ Vh.mT - torch.diag_embed(measured)
    why = f"{EULER}, {STEP:g}: a hundredth of the mode leaves room"
    return every({
        "modes": at_most((measured - predicted).abs() / s, 0.01, why=why).drawn(
            *_curves(times, measured, predicted), x="time", y="strength of the modes"
        ),
        "nothing between the modes": equal(
            mixed, 0, tol=1e-8, why="rounding, that grows with a mode to 1/a₀ times its size"
        ),
        "balance at the start": identical(Qs[0].mT @ Qs[0], Ws[0] @ Ws[0].mT),
    })


@claim(control={"start": "tuned"}, source="Saxe, McClelland and Ganguli 2014, sec. 1")
def stronger_modes_first(
    seed: Seed, *, modes: Annotated[int, Range(3, 10)] = 5,
    ratio: Annotated[float, Range(2, 5)] = 4.0, a0: Annotated[float, Range(1e-6, 0.01)] = 0.001,
    start: Literal["common", "tuned"] = "common",
) -> Evidence:
    r"""Half strength comes at $\frac1{4s}\ln(s/a_0-1)$: from one $a_0$ strong modes are first."""
    s = 0.3 * torch.logspace(0, 1, modes, base=ratio, dtype=torch.float64).flip(0)
    U, V = _frame(seed.child("U"), modes, modes), _frame(seed.child("V"), modes + 2, modes)
    Gamma, halves = (U * s) @ V.mT, _half_time(s, a0)
    tuned = s / (1 + torch.exp(4 * s * halves[modes // 2]))  # all as late as the middle one
    model = aligned_init(Gamma, tuned if start == "tuned" else a0)
    steps = round(1.2 * float(halves.max()) / STEP)
    strengths = mode_strengths(*model.descend(Gamma, lr=STEP, steps=steps, every=10), U, V)
    measured = _crossings(strengths, s / 2, 10 * STEP)
    why = f"{EULER}: it is late by a share lr s, {STEP * float(s[0]):.1g} at most"
    return every({
        "half times": equal(measured, halves, tol=0.02 * halves, why=why).drawn(
            Series("measured", s, measured), Series("formula", s, halves, role="predicted"),
            x="singular value s", y="time to half strength", log="xy",
        ),
        "stronger ones earlier": never(measured[1:] <= measured[:-1], why="the modes are sorted"),
        "but for the logarithm": slope(s, measured / (s / a0 - 1).log(), -1.0, tol=0.02, why=why),
    })


@claim(control={"between": "tanh"}, source="Saxe et al. 2014; Arora, Cohen and Hazan 2018")
def conservation(
    seed: Seed, *, inputs: Annotated[int, Range(2, 20)] = 6, outputs: Outputs = 4,
    hidden: Annotated[int, Range(2, 20)] = 5, time: Annotated[float, Range(0.1, 0.5)] = 0.3,
    between: Literal["nothing", "tanh"] = "nothing",
) -> Evidence:
    r"""$Q^\top Q-WW^\top$ is constant under the flow; steps $\eta$ let it drift by $O(\eta)$."""
    X, Y, _ = _problem(seed, inputs, outputs)
    apply = torch.tanh if between == "tanh" else nn.Identity()
    Q, W = _normal(seed.child("Q"), outputs, hidden), _normal(seed.child("W"), hidden, inputs)
    start = Q / (outputs + hidden) ** 0.5, W / (hidden + inputs) ** 0.5
    gradient = torch.func.grad(lambda Q, W: _risk(apply(X @ W.mT) @ Q.mT, Y), argnums=(0, 1))
    ends = [start, *(_euler(gradient, start, time, count) for count in COUNTS)]
    balances = torch.stack([Q.mT @ Q - W @ W.mT for Q, W in ends])
    lengths, drifts = [time / n for n in COUNTS], (balances[1:] - balances[0]).norm(dim=(1, 2))
    return slope(
        lengths, drifts, 1.0, tol=0.1, labels=("length of a step", "drift at the end"),
        why="a step changes it by the square of its length; higher orders bend the line",
    )


@experiment(
    reaches={
        "deviation": at_most_goal(0.01), "order": at_least_goal(0.9),
        "mnist_deviation": at_most_goal(0.01), "mnist_order": at_least_goal(0.9),
    },
    floor={"deviation": at_most_goal(0.01), "order": at_least_goal(0.9)},
    source="Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of "
    "learning in deep linear neural networks, sec. 1, here on handwritten digits",
)
def digit_modes(
    run: Run, *, a0: Annotated[float, Range(1e-5, 0.05)] = 0.001,
    hidden: Annotated[int, Range(10, 50)] = 20, starts: Annotated[int, Range(1, 20)] = 5,
    lr: Annotated[float, Range(0.001, 0.05)] = STEP,
) -> None:
    """Learns classes of whitened digits mode by mode, from aligned and from tiny random weights."""
    x, labels, x_more, labels_more = digits()
    problems: dict[str, tuple[Tensor, Tensor, int | None]] = {
        "": (torch.cat([x, x_more]), torch.cat([labels, labels_more]), None)
    }
    if run.full:
        problems["mnist_"] = (*mnist("train", data_dir=run.data_dir), 50)
    for name, (pictures, classes, directions) in problems.items():
        # no layer has a bias, so that the second moment counts and not the covariance
        whitener = Whitener(center=False).fit(pixels := pictures.flatten(1).double().numpy())
        X, Y = torch.from_numpy(whitener.transform(pixels)[:, :directions]), one_hot(classes)
        Gamma = cross_moment(X, Y - Y.double().mean(dim=0))
        U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
        r = int((s > 1e-8 * s[0]).sum())  # centered classes add up to 0, which costs one mode
        U, s, V = U[:, :r], s[:r], Vh[:r].mT

        R = _frame(run.seed.child(f"{name}R"), hidden, len(Gamma))
        model, end = aligned_init(Gamma, a0, R), 2 * float(_half_time(s[-1], a0))
        times, measured = _descent(run, model, Gamma, U, V, end, lr, f"{name}aligned start")
        predicted = mode_flow(s, a0, times)
        picture = Picture(_curves(times, measured, predicted), "time", "strength of the modes")
        run.figure(f"{name}modes", figures.draw(picture))

        shapes = {"Q": (len(Gamma), hidden), "W": (hidden, X.shape[1])}
        end, orders, curves = 1.3 * float(_half_time(s[-1], TINY_START**2)), [], ()
        for start in range(1, starts + 1):  # chance may swap two modes of nearly one strength
            seeds = run.seed.child(f"{name}{start}")
            model = TwoLayerLinear(*(TINY_START * _normal(seeds.child(side), *shape)
                                     for side, shape in shapes.items()))
            what = f"{name}random start {start}"  # an order needs no fine steps
            times, found = _descent(run, model, Gamma, U, V, end, 5 * lr, what)
            halves = _crossings(found, s / 2, float(times[1]))
            orders.append(kendalltau(s, -halves).statistic)  # type: ignore[attr-defined]
            curves = tuple(Series(f"s = {s[k]:.3f}", times, found[:, k], "other") for k in range(r))
        run.figure(f"{name}random_start", figures.draw(Picture(curves, "time", picture.y)))
        run.record(**{
            f"{name}modes": r, f"{name}dropped": whitener.dropped_,
            f"{name}strongest": float(s[0]), f"{name}weakest": float(s[-1]),
            f"{name}deviation": float(((measured - predicted).abs() / s).max()),
            f"{name}order": float(np.mean(orders)),
        })


def _descent(
    run: Run, model: TwoLayerLinear, Gamma: Tensor, U: Tensor, V: Tensor, end: float, lr: float,
    what: str,
) -> tuple[Tensor, Tensor]:
    """Descend up to a time, and give times and strengths, some 400 of them."""
    every = max(1, round(end / lr / CHUNKS / 8))
    found = [mode_strengths(model.Q, model.W, U, V)[None].detach()]
    for _ in run.steps(range(CHUNKS), what):
        Qs, Ws = model.descend(Gamma, lr=lr, steps=8 * every, every=every)
        found.append(mode_strengths(Qs, Ws, U, V)[1:])
        model = TwoLayerLinear(Qs[-1], Ws[-1])
    strengths = torch.cat(found)
    return lr * every * torch.arange(len(strengths), dtype=Gamma.dtype), strengths


def _normal(seed: Seed, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=seed.torch(), dtype=torch.float64)


def _frame(seed: Seed, size: int, columns: int) -> Tensor:
    """Draw orthonormal columns."""
    return torch.linalg.qr(_normal(seed, size, columns)).Q


def _correlated(seed: Seed, inputs: int, condition: float) -> Tensor:
    """Draw correlated inputs (N, n) with a mean that is not 0."""
    scales = torch.logspace(-0.5, 0.5, inputs, base=condition, dtype=torch.float64)
    turn = _frame(seed.child("turn"), inputs, inputs)
    return 0.5 + _normal(seed.child("X"), SAMPLES, inputs) @ (turn * scales) @ turn.mT


def _problem(
    seed: Seed, inputs: int, outputs: int, whiten: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw inputs, whitened or not, targets that they explain in part, and the cross moment."""
    X = _correlated(seed, inputs, 4.0)
    white = torch.from_numpy(Whitener(kind="zca").fit_transform(X.numpy()))
    rank = min(inputs, outputs)
    U, V = _frame(seed.child("U"), outputs, rank), _frame(seed.child("V"), inputs, rank)
    truth = (U * torch.linspace(1.2, 0.4, rank, dtype=X.dtype)) @ V.mT
    Y = white @ truth.mT + 0.3 * _normal(seed.child("noise"), SAMPLES, outputs)
    X = white if whiten else X
    return X, Y, cross_moment(X, Y, tol=1e-6 if whiten else 1e6)


def _risk(outputs: Tensor, Y: Tensor) -> Tensor:
    return ((outputs - Y) ** 2).sum(dim=1).mean()


def _risk_gradient(X: Tensor, Y: Tensor) -> Gradient:
    """Differentiate the risk of one layer, sample by sample, knowing nothing of moments."""
    return torch.func.grad(lambda A: _risk(X @ A.mT, Y), argnums=(0,))


def _euler(gradient: Gradient, weights: Weights, time: float, steps: int) -> Weights:
    for _ in range(steps):
        slopes = gradient(*weights)
        weights = tuple(w - time / steps * g for w, g in zip(weights, slopes, strict=True))
    return weights


def _half_time(s: Tensor, a0: float) -> Tensor:
    return (s / a0 - 1).log() / (4 * s)


def _crossings(curves: Tensor, levels: Tensor, every: float) -> Tensor:
    """Interpolate when each curve (T, r), sampled at equal times, first reaches its level."""
    above = curves >= levels
    last = above.int().argmax(dim=0).clamp(min=1)[None]  # the first sample above
    after, before = curves.gather(0, last)[0], curves.gather(0, last - 1)[0]
    times = every * (last[0] - (after - levels) / (after - before))
    return torch.where(above.any(dim=0), times, torch.nan)


def _curves(times: Tensor, measured: Tensor, predicted: Tensor) -> tuple[Series, ...]:
    """Draw each mode's measured points, not too many, over its formula."""
    seen = torch.linspace(0, len(times) - 1, min(len(times), 50)).long()
    pairs = [
        (Series(f"mode {k}", times[seen], measured[seen, k - 1]),
         Series(f"formula {k}", times, predicted[:, k - 1], role="predicted"))
        for k in range(1, measured.shape[1] + 1)
    ]
    return tuple(series for pair in pairs for series in pair)
