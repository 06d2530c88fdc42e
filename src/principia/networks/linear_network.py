r"""Linear networks: layers without an activation, which depth does not make stronger.

A product of matrices is a matrix, so a linear network computes what one layer computes, except that
its narrowest layer, inputs and outputs included, bounds the rank. The best map of a given rank is a
truncated singular value decomposition, and the autoencoder with $m$ linear hidden units finds it:
it learns the span of the first $m$ principal directions of centered data, in any basis of it. Its
loss is convex in either layer but not in both, and yet descent cannot fail: all critical points but
the best are saddles. It is the one network whose loss surface is known completely.

$$ W^L\cdots W^1x = Ax, \quad \mathrm{rank}\,A \le \min_{l=0,\dots,L} m_l $$

$$ \min_{\mathrm{rank}\,\hat X\le k}\Vert X-\hat X\Vert_F^2 = \sum_{i>k}\sigma_i^2 \quad
\text{at}\quad \hat X = U_k\Sigma_kV_k^\top $$

$$ \min_{D,E}\ \frac12\mathrm E\Vert x-DEx\Vert^2 = \frac12\sum_{i>m}\lambda_i \quad \text{at}\quad
D = U_mA,\ E = A^{-1}U_m^\top $$

Symbols:
    $W^l$: weights (m_l, m_{l-1}) of layer l, `layers[l - 1].weight`
    $A$: product of the weights, `LinearNetwork.matrix`; for an autoencoder its `gauge` (m, m)
    $m_l$: widths, `sizes`, from the inputs $m_0=n$ to the outputs $m_L$
    $U_k, \Sigma_k, V_k$: first k singular vectors and values $\sigma_i$ of $X$, `truncated_svd`
    $E, D$: encoder (m, n) and decoder (n, m), the two layers of `LinearNetwork([n, m, n])`
    $\lambda_i, u_i$: eigenvalues, falling, and eigenvectors of $S=\mathrm E[xx^\top]$
    $U_m$: the first m of the eigenvectors; other subsets give the other `critical_points`

References:
    Eckart and Young (1936), The approximation of one matrix by another of lower rank.
        Psychometrika 1(3). doi:10.1007/BF02288367
    Bourlard and Kamp (1988), Auto-association by multilayer perceptrons and singular value
        decomposition. Biological Cybernetics 59(4). doi:10.1007/BF00332918
    Baldi and Hornik (1989), Neural networks and principal component analysis: learning from
        examples without local minima. Neural Networks 2(1). doi:10.1016/0893-6080(89)90014-2
"""

__all__ = [
    "LinearNetwork", "autoencoder_from_svd", "truncated_svd", "principal_angles", "critical_points",
]

import itertools
import math
import warnings
from typing import final

import torch
from jaxtyping import Float, Int
from scipy.linalg import subspace_angles
from torch import Tensor, nn
from torch.nn import functional

from principia.lab.params import NonNegativeInt, PositiveInt, checked, usage_error
from principia.networks.mlp import MLP

CENTERED = 1e-4  # a mean this short, in units of the data, turns directions by 1e-8
MANY = 10_000  # critical points that a caller surely does not want


@final
class LinearNetwork(nn.Module):
    r"""Applies layers without an activation: $x\mapsto W^L\cdots W^1x$, plus biases if there are.

    The linear autoencoder $x\mapsto DEx$ is `LinearNetwork([n, m, n])`.

    Shapes:
        x: (..., sizes[0]); returns (..., sizes[-1])

    Args:
        sizes: Widths of all layers, from the inputs to the outputs.
        bias: Whether every layer adds a bias.
        rng: Draws weights and biases like those of `MLP`; by default torch's global generator.

    Example:
        >>> net = LinearNetwork([3, 2, 4], rng=torch.Generator().manual_seed(0))
        >>> y = net(torch.ones(5, 3))
        >>> y.shape, net.matrix().shape
        (torch.Size([5, 4]), torch.Size([4, 3]))
    """

    @checked
    def __init__(
        self, sizes: tuple[PositiveInt, ...], *, bias: bool = False,
        rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the inputs and that of the outputs."
            raise usage_error("LinearNetwork", "sizes", "two or more values", sizes, hint)
        self.layers = MLP(sizes, activation="identity", bias=bias, rng=rng).layers

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Send inputs through the layers, one by one."""
        for layer in self.layers:
            x = layer(x)
        return x

    def matrix(self) -> Float[Tensor, "m n"]:
        """Multiply the weights, in the cheapest order; biases only add a constant, `self(0)`."""
        factors: list[Tensor] = [layer.weight for layer in self.layers][::-1]  # type: ignore[misc]
        return torch.linalg.multi_dot(factors) if len(factors) > 1 else factors[0]


@checked
def truncated_svd(
    X: Float[Tensor, "p q"], k: NonNegativeInt
) -> tuple[Float[Tensor, "p r"], Float[Tensor, " r"], Float[Tensor, "r q"]]:
    r"""Finds the best approximation of rank k or less: $\hat X=U_k\Sigma_kV_k^\top$, in factors.

    Returns $U_k$, the singular values and $V_k^\top$; $r=k$, or all there are.

    Example:
        >>> U, s, Vh = truncated_svd(torch.diag(torch.tensor([1.0, 3.0, 2.0])), 2)
        >>> s, ((U * s) @ Vh).diagonal()
        (tensor([3., 2.]), tensor([0., 3., 2.]))
    """
    U, s, Vh = torch.linalg.svd(X, full_matrices=False)
    return U[:, :k], s[:k], Vh[:k]


@checked
def autoencoder_from_svd(
    X: Float[Tensor, "B n"], m: PositiveInt, *, gauge: Float[Tensor, "m m"] | None = None,
    centered: bool = True,
) -> LinearNetwork:
    r"""Builds the best linear autoencoder of the data, without training.

    Args:
        X: Samples, one a row.
        m: Number of hidden units; with more than n the code is longer than what it encodes.
        gauge: The invertible $A$ of $D=U_mA$, $E=A^{-1}U_m^\top$; by default $I$, and the code is
            the principal components.
        centered: Whether to insist on data of mean 0, without which $U_m$ are not the principal
            directions.

    Example:
        >>> X = torch.tensor([[3.0, 0.1], [-3.0, 0.1], [3.0, -0.1], [-3.0, -0.1]])
        >>> autoencoder_from_svd(X, 1)(X).round(decimals=4).abs()[0]
        tensor([3., 0.], grad_fn=<SelectBackward0>)
    """
    n, mean = X.shape[1], X.mean(dim=0)
    if centered and mean.norm() > CENTERED * X.square().mean(0).sum().sqrt():
        hint = "Subtract X.mean(dim=0), or pass centered=False for the best code of raw data."
        got = f"a mean of length {float(mean.norm()):.3g}"
        raise usage_error("autoencoder_from_svd", "X", "centered", got, hint)
    if m > n:
        warnings.warn(
            f"autoencoder_from_svd: m = {m} hidden units for n = {n} inputs are no bottleneck: the "
            "autoencoder copies its input. Take m < n.", stacklevel=3,
        )
    if gauge is None:
        gauge = torch.eye(m).to(X)
    if gauge.shape != (m, m) or int(torch.linalg.matrix_rank(gauge)) < m:
        got = f"shape {tuple(gauge.shape)} and rank {int(torch.linalg.matrix_rank(gauge))}"
        hint = "A code that loses a direction cannot be decoded."
        raise usage_error("autoencoder_from_svd", "gauge", f"invertible, ({m}, {m})", got, hint)
    directions = truncated_svd(X, m)[2].mT  # (n, m), or as many as there are
    directions = functional.pad(directions, (0, m - directions.shape[1]))
    net = LinearNetwork((n, m, n), rng=torch.Generator()).to(X)
    set_weights(net, torch.linalg.solve(gauge, directions.mT), directions @ gauge)
    return net


def set_weights(net: LinearNetwork, *weights: Tensor) -> None:
    """Give the layers these weights."""
    with torch.no_grad():
        for layer, weight in zip(net.layers, weights, strict=True):
            layer.weight.copy_(weight)  # type: ignore[operator, union-attr]


@checked
def principal_angles(A: Float[Tensor, "n p"], B: Float[Tensor, "n q"]) -> Float[Tensor, " k"]:
    """Measures the angles between two column spans, in radians, the largest first.

    All are 0 if one span contains the other. The columns need not be orthonormal.

    Example:
        >>> principal_angles(torch.eye(3)[:, :2], torch.eye(3)[:, 1:]).rad2deg()
        tensor([90.,  0.])
    """
    if len(A) != len(B) or not bool(A.any()) or not bool(B.any()):
        got = f"shapes {tuple(A.shape)} and {tuple(B.shape)}"
        hint = "Put one basis vector a column."
        raise usage_error("principal_angles", "A and B", "nonzero, of equal height", got, hint)
    return A.new_tensor(subspace_angles(*(one.detach().cpu().double().numpy() for one in (A, B))))


def autoencoder_risk(
    D: Float[Tensor, "*P n m"], E: Float[Tensor, "*P m n"], S: Float[Tensor, "n n"]
) -> Float[Tensor, "*P"]:
    r"""Give $\frac12\mathrm E\Vert x-DEx\Vert^2$ of autoencoders from the second moments S."""
    rest = torch.eye(len(S), dtype=S.dtype) - D @ E
    return (rest @ S * rest).sum(dim=(-2, -1)) / 2


@checked
def critical_points(
    S: Float[Tensor, "n n"], m: PositiveInt, *, rank: NonNegativeInt | None = None
) -> tuple[Int[Tensor, "P r"], Float[Tensor, "P n m"], Float[Tensor, "P m n"]]:
    r"""Lists where the gradient of the autoencoder's loss is 0: $D=U_I$, $E=U_I^\top$ for all $I$.

    Up to the gauge, and if all eigenvalues differ, there are no others of this rank.

    Args:
        S: Second moments $\mathrm E[xx^\top]$.
        m: Number of hidden units.
        rank: Number of eigenvectors in $I$; by default m. The other units are 0.

    Returns:
        The subsets $I$, the best (that of the largest eigenvalues) first, and all $D$ and $E$.

    Example:
        >>> I, D, E = critical_points(torch.diag(torch.tensor([1.0, 5.0, 3.0])), 2)
        >>> I.tolist(), (D @ E)[0].diagonal()
        ([[0, 1], [0, 2], [1, 2]], tensor([0., 1., 1.]))
    """
    n, rank = len(S), m if rank is None else rank
    if S.shape != (n, n) or not torch.allclose(S, S.mT):
        hint = "Pass X.T @ X / len(X)."
        raise usage_error("critical_points", "S", "square and symmetric", tuple(S.shape), hint)
    if not rank <= min(m, n) or math.comb(n, rank) > MANY:
        domain = f"at most m = {m} and n = {n}, with at most {MANY} subsets"
        raise usage_error("critical_points", "rank", domain, rank, "Take fewer units or inputs.")
    U = torch.linalg.eigh(S).eigenvectors.flip(1)  # largest eigenvalue first
    subsets = torch.tensor(list(itertools.combinations(range(n), rank)), dtype=torch.long)
    D = functional.pad(U[:, subsets].movedim(1, 0), (0, m - rank))  # (P, n, m)
    return subsets, D, D.mT
