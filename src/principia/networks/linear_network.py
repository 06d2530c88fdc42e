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
from collections.abc import Callable
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float, Int
from scipy.linalg import subspace_angles
from torch import Tensor, nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Natural, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Reconstruction, fit
from principia.lab.training.metrics import outputs_of
from principia.networks.mlp import MLP

CENTERED = 1e-4  # a mean this short, in units of the data, turns directions by 1e-8
TILT = 0.3  # rad, some angle to measure
MANY = 10_000  # critical points that a caller surely does not want
RANKED = 1e-12  # singular values below this share of the largest are rounding
SATURATING = 10.0  # size of inputs at which tanh units with weights of about 1 are nearly steps


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
        self, sizes: tuple[Count, ...], *, bias: bool = False, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the inputs and that of the outputs."
            raise refuse("LinearNetwork", "sizes", "two or more values", sizes, hint)
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
    X: Float[Tensor, "p q"], k: Natural
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
    X: Float[Tensor, "B n"], m: Count, *, gauge: Float[Tensor, "m m"] | None = None,
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
        raise refuse("autoencoder_from_svd", "X", "centered", got, hint)
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
        raise refuse("autoencoder_from_svd", "gauge", f"invertible, ({m}, {m})", got, hint)
    directions = truncated_svd(X, m)[2].mT  # (n, m), or as many as there are
    directions = functional.pad(directions, (0, m - directions.shape[1]))
    net = LinearNetwork((n, m, n), rng=torch.Generator()).to(X)
    _set(net, torch.linalg.solve(gauge, directions.mT), directions @ gauge)
    return net


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
        raise refuse("principal_angles", "A and B", "nonzero, of equal height", got, hint)
    return A.new_tensor(subspace_angles(*(one.detach().cpu().double().numpy() for one in (A, B))))


@checked
def critical_points(
    S: Float[Tensor, "n n"], m: Count, *, rank: Natural | None = None
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
        raise refuse("critical_points", "S", "square and symmetric", tuple(S.shape), hint)
    if not rank <= min(m, n) or math.comb(n, rank) > MANY:
        domain = f"at most m = {m} and n = {n}, with at most {MANY} subsets"
        raise refuse("critical_points", "rank", domain, rank, "Take fewer units or inputs.")
    U = torch.linalg.eigh(S).eigenvectors.flip(1)  # largest eigenvalue first
    subsets = torch.tensor(list(itertools.combinations(range(n), rank)), dtype=torch.long)
    D = functional.pad(U[:, subsets].movedim(1, 0), (0, m - rank))  # (P, n, m)
    return subsets, D, D.mT


@claim(control={"between": "relu"}, source="by associativity")
def depth_collapse(
    seed: Seed, *, depth: Annotated[int, Range(2, 8)] = 8,
    width: Annotated[int, Range(2, 100)] = 10,
    between: Literal["identity", "relu", "tanh"] = "identity",
) -> Evidence:
    r"""A linear network of any depth equals one layer, $x\mapsto Ax$, with $A=W^L\cdots W^1$."""
    rng = seed.torch()
    one_by_one, with_units, at_once = [], [], []
    for layers, bias in itertools.product(range(1, depth + 1), (False, True)):
        sizes = tuple(torch.randint(1, width + 1, (layers + 1,), generator=rng).tolist())
        net = LinearNetwork(sizes, bias=bias, rng=rng).double()
        mlp = MLP(sizes, activation=between, bias=bias, rng=rng).double()
        mlp.load_state_dict(net.state_dict())
        x = randn(rng, 20, sizes[0])
        one_by_one.append(net(x).flatten())
        with_units.append(mlp(x).flatten())
        constant = net(torch.zeros(sizes[0], dtype=x.dtype))
        at_once.append((x @ net.matrix().mT + constant).flatten())
    one_by_one, with_units, at_once = map(torch.cat, (one_by_one, with_units, at_once))
    return every({
        f"units between the layers: {between}": identical(with_units, at_once),
        "layer by layer": identical(one_by_one, at_once),
    })


@claim(control={"bound": "widths without the inputs"}, source="rank of a product")
def rank_bottleneck(
    seed: Seed, *, products: Annotated[int, Range(10, 500)] = 200,
    depth: Annotated[int, Range(1, 6)] = 5, width: Annotated[int, Range(2, 30)] = 10,
    bound: Literal["all widths", "widths without the inputs"] = "all widths",
) -> Evidence:
    r"""$\mathrm{rank}(W^L\cdots W^1)\le\min_{l=0..L}m_l$ with $m_0=n$, and $\le$ each factor's."""
    rng = seed.torch()
    ranks, narrowest, poor_ranks, poorest = [], [], [], []
    for number in range(products):
        layers = 1 + number % depth
        sizes = tuple(torch.randint(2, width + 1, (layers + 1,), generator=rng).tolist())
        if number % 2:  # the inputs are the narrowest layer
            sizes = (min(sizes[1:]) - 1, *sizes[1:])
        net, shapes = LinearNetwork(sizes, rng=rng).double(), list(itertools.pairwise(sizes))
        _set(net, *(randn(rng, m, n) for n, m in shapes))
        ranks.append(_rank(net.matrix()))
        narrowest.append(min(sizes if bound == "all widths" else sizes[1:]))
        inner = [int(torch.randint(1, min(pair) + 1, (), generator=rng)) for pair in shapes]
        factors = zip(shapes, inner, strict=True)
        _set(net, *(randn(rng, m, r) @ randn(rng, r, n) for (n, m), r in factors))
        poor_ranks.append(_rank(net.matrix()))
        poorest.append(min(map(_rank, _weights(net))))
    return every({
        "Gaussian factors": equal(ranks, narrowest, tol=0, why="integers; below with chance 0"),
        "factors of low rank": at_most(poor_ranks, poorest, why="a theorem: no slack"),
    })


@claim(
    control={"printed": "X = U_k Σ_k V_k'"}, source="Eckart and Young 1936",
    misprint=r"$X=U_k\Sigma_kV_k^\top$ is the truncated SVD, with $\mathrm{rank}(\hat X)=k$",
)
def eckart_young(
    seed: Seed, *, rows: Annotated[int, Range(10, 40)] = 30,
    columns: Annotated[int, Range(10, 40)] = 20, k: Annotated[int, Range(1, 9)] = 4,
    competitors: Annotated[int, Range(10, 2000)] = 1000,
    printed: Literal["X̂ = U_k Σ_k V_k'", "X = U_k Σ_k V_k'"] = "X̂ = U_k Σ_k V_k'",
) -> Evidence:
    r"""$\min_{\mathrm{rank}\le k}\Vert X-\hat X\Vert_F^2=\sum_{i>k}\sigma_i^2$, at the SVD cut."""
    rng, exact = seed.torch(), printed == "X̂ = U_k Σ_k V_k'"
    X = randn(rng, rows, columns)
    poor = randn(rng, rows, k - 1) @ randn(rng, k - 1, columns)
    tail = float(torch.linalg.eigvalsh(X.mT @ X)[: columns - k].sum())
    (U, s, Vh), (U2, s2, Vh2) = truncated_svd(X, k), truncated_svd(poor, k)
    best, of_poor = (U * s) @ Vh, (U2 * s2) @ Vh2
    # from next to the best to far away, all of rank k
    away = torch.logspace(-4, 1, competitors, dtype=X.dtype)[:, None, None]
    left = U * s + away * randn(rng, competitors, rows, k)
    rivals = left @ (Vh + away * randn(rng, competitors, k, columns))
    gaps = (X - rivals).square().sum(dim=(1, 2))
    net = LinearNetwork((columns, k, rows), rng=rng).double()
    descent = _descend(net, lambda: (X - net.matrix()).square().sum())
    theorem, rounding = "a theorem, up to rounding", 1e-12 * tail
    return every({
        "error of the cut": identical((X - best).square().sum(), tail if exact else 0.0),
        "rank of the cut": equal(
            [_rank(best), _rank(of_poor)], [k, k - 1 if exact else k], tol=0,
            why="an integer; X of rank k - 1 needs no more",
        ),
        "X of lower rank is kept": identical(of_poor, poor),
        "competitors": at_least(gaps, tail, slack=rounding, why=theorem).drawn(
            Series("competitors", away.flatten(), gaps),
            Series("sum of the other σ²", [1e-4, 10], [tail, tail], "bound"),
            x="distance of the factors from the best", y="squared error", log="xy",
        ),
        "descent stays above": at_least(descent, tail, slack=rounding, why=theorem),
        "descent arrives": at_most(
            descent[-1] / tail - 1, 1e-4, why="L-BFGS stops at a gradient of 1e-5"
        ),
    })


@claim(control={"encoder": "A' U'"}, source="Bourlard and Kamp 1988")
def gauge_freedom(
    seed: Seed, *, dim: Annotated[int, Range(6, 50)] = 8,
    hidden: Annotated[int, Range(1, 5)] = 3, gauges: Annotated[int, Range(2, 200)] = 20,
    condition: Annotated[float, Range(1.5, 1e4)] = 10.0,
    encoder: Literal["A⁻¹ U'", "A' U'"] = "A⁻¹ U'",
) -> Evidence:
    r"""$D=U_mA$, $E=A^{-1}U_m^\top$ is an optimal autoencoder for every invertible $A$."""
    rng = seed.torch()
    X = randn(rng, 2 * dim, dim)
    X = X - X.mean(dim=0)
    S = X.mT @ X / len(X)
    eigenvalues, U = torch.linalg.eigh(S)
    least, U = U[:, :1], U[:, -hidden:]
    tilted = torch.cat([math.cos(TILT) * U[:, :1] + math.sin(TILT) * least, U[:, 1:]], dim=1)
    sizes = torch.logspace(math.log10(condition), 0, hidden, dtype=X.dtype)
    losses, risks, maps, angles = [], [], [], []
    for one, two in torch.linalg.qr(randn(rng, gauges, 2, hidden, hidden)).Q:
        A = (one * sizes) @ two
        net = autoencoder_from_svd(X, hidden, gauge=A)
        E, D = _weights(net)
        if encoder == "A' U'":
            _set(net, E := A.mT @ A @ E, D)
        losses.append((net(X) - X).square().sum(dim=1).mean().item() / 2)
        risks.append(float(_risk(D, E, S)))
        maps.append(net.matrix())
        angles.append(float(principal_angles(D, tilted)[0]))
    tail = float(eigenvalues[:-hidden].sum()) / 2
    return every({
        "loss": identical(losses, tail),
        "loss from second moments": identical(risks, tail),
        "map": identical(torch.stack(maps), (U @ U.mT).expand(gauges, -1, -1)),
        "angle of the decoder to a tilted span": identical(angles, TILT),
    })


@claim(control={"center": False}, source="Bourlard and Kamp 1988; Baldi and Hornik 1989")
def autoencoder_is_pca(
    seed: Seed, *, hidden: Annotated[int, Range(1, 20)] = 8, center: bool = True
) -> Evidence:
    r"""A trained linear autoencoder of digits spans their first $m$ principal directions."""
    X = digits()[0].flatten(1).double()
    covariance = torch.cov(X.mT, correction=0)
    eigenvalues, U = torch.linalg.eigh(covariance)
    U, tail = U[:, -hidden:], float(eigenvalues[:-hidden].sum()) / 2
    S = covariance if center else X.mT @ X / len(X)
    net = LinearNetwork((64, hidden, 64), rng=seed.torch()).double()
    unit = torch.eye(64, dtype=X.dtype)
    losses = _descend(net, lambda: _risk(net.matrix(), unit, S))
    angles = principal_angles(_weights(net)[1], U)
    return every({
        "largest angle": at_most(
            angles, 0.02, why="L-BFGS stops at a gradient of 1e-5, some 0.01 rad from the end"
        ),
        "loss": equal(
            losses[-1] / tail, 1, tol=1e-3, why="quadratic in the angle: far less than 0.02"
        ).drawn(
            Series("descent", range(1, len(losses) + 1), losses, style="line"),
            Series("principal components", [1, len(losses)], [tail, tail], "predicted"),
            x="evaluation", y="loss", log="xy",
        ),
    })


@claim(control={"jointly": "convex"}, source="Baldi and Hornik 1989")
def separately_convex(
    seed: Seed, *, chords: Annotated[int, Range(1000, 50_000)] = 10_000,
    dim: Annotated[int, Range(2, 10)] = 5, hidden: Annotated[int, Range(1, 5)] = 2,
    jointly: Literal["not convex", "convex"] = "not convex",
) -> Evidence:
    r"""$\mathrm E\Vert x-DEx\Vert^2$ is convex in $D$ and convex in $E$, but not in both."""
    rng = seed.torch()
    X = randn(rng, 2 * dim, dim)
    S, reach = X.mT @ X / len(X), dim**-0.5
    D, D2 = reach * randn(rng, 2, chords, dim, hidden)
    E, E2 = reach * randn(rng, 2, chords, hidden, dim)
    t = torch.rand(chords, generator=rng, dtype=X.dtype)
    # a good autoencoder and its mirror image, which is the same map: between them lies 0
    D[0], E[0] = (part[0] for part in critical_points(S, hidden, rank=1)[1:])
    D2[0], E2[0], t[0] = -D[0], -E[0], 0.5

    def above(D2: Tensor, E2: Tensor) -> Tensor:
        """Tell where the loss between (D, E) and the other end exceeds its chord."""
        first, last = _risk(D, E, S), _risk(D2, E2, S)
        D3, E3 = (torch.lerp(a, b, t[:, None, None]) for a, b in ((D, D2), (E, E2)))
        return _risk(D3, E3, S) > torch.lerp(first, last, t) + 1e-12 * (first + last)

    both, why = above(D2, E2), "convexity allows no exception"
    found = at_least(both.sum(), 1, why="one chord below the loss disproves convexity")
    return every({
        "in D": never(above(D2, E), why=why),
        "in E": never(above(D, E2), why=why),
        "in both": found if jointly == "not convex" else never(both, why=why),
    })


@claim(control={"activation": "tanh"}, source="Baldi and Hornik 1989, fact 4")
def no_bad_minima(
    seed: Seed, *, dim: Annotated[int, Range(3, 6)] = 5, hidden: Annotated[int, Range(1, 2)] = 2,
    starts: Annotated[int, Range(10, 100)] = 50,
    activation: Literal["identity", "tanh"] = "identity",
) -> Evidence:
    r"""All critical points of a linear autoencoder but the best are saddles: descent succeeds."""
    rng = seed.torch()
    eigenvalues = torch.arange(dim, 0.0, -1, dtype=torch.float64)
    X = randn(rng, 10 * dim, dim)
    X = torch.linalg.qr(X - X.mean(dim=0)).Q * (len(X) * eigenvalues).sqrt()
    X = X @ torch.linalg.qr(randn(rng, dim, dim)).Q
    S, tail = X.mT @ X / len(X), float(eigenvalues[hidden:].sum()) / 2

    listed = [critical_points(S, hidden, rank=rank) for rank in range(hidden, -1, -1)]
    D, E = (torch.cat([one[place] for one in listed]) for place in (1, 2))
    points = torch.cat([D.flatten(1), E.flatten(1)], dim=1)

    def risk(point: Tensor) -> Tensor:
        D, E = point.split(dim * hidden)
        return _risk(D.reshape(dim, hidden), E.reshape(hidden, dim), S)

    gradients = torch.func.vmap(torch.func.grad(risk))(points)
    hessians = torch.func.vmap(torch.func.jacrev(torch.func.grad(risk)))(points)
    lowest = torch.linalg.eigvalsh(hessians)[:, 0]
    losses = _ends_of_descent(SATURATING * X, hidden, starts, activation, rng) / SATURATING**2
    why = "descent ends before it is exact"
    return every({
        "starts agree": equal(losses / losses.min(), 1, tol=1e-4, why=why),
        "starts reach the best loss": equal(losses / tail, 1, tol=1e-4, why=why),
        "gradient at the critical points": equal(
            gradients, 0, tol=1e-10 * dim, why="rounding of entries of the size of S"
        ),
        "curvature at the saddles": at_most(
            lowest[1:], -1e-3, why="below 0, beyond rounding"
        ).drawn(
            Series("lowest curvature", range(1, len(points) + 1), lowest, style="bars"),
            Series("flat", [1, len(points)], [0, 0], "bound"),
            x="critical point, the best first", y="lowest eigenvalue of the Hessian",
        ),
        "curvature at the best": at_least(
            lowest[0], 0, slack=1e-8, why="0 along the gauge, up to rounding"
        ),
    })


@experiment(
    reaches={"test_error_over_pca": at_most_goal(1.02), "error_over_pca": at_most_goal(1.02)},
    floor={"test_error_over_pca": at_most_goal(1.03), "error_over_pca": at_most_goal(1.03)},
    source="Bourlard and Kamp 1988: the optimum is that of principal component analysis",
)
def pca_by_gradient(run: Run, *, epochs: Annotated[int, Range(1, 200)] = 10) -> None:
    """Learns principal components by gradient steps: MNIST, or 8 x 8 digits when quick."""
    parts = handwriting(run)
    side, hidden = parts[0].shape[1], 32 if run.full else 8
    mean = parts[0].flatten(1).mean(dim=0)
    x, x_test = (part.flatten(1) - mean for part in parts[::2])
    net = LinearNetwork((side**2, hidden, side**2), rng=run.seed.child("init").torch())
    trained = fit(
        net, (x,), Reconstruction(functional.mse_loss),
        torch.optim.Adam(net.parameters(), lr=1e-3), epochs=epochs if run.full else 12 * epochs,
        batch_size=256 if run.full else 64, parts=[OneCycle(1e-2)], validation=(x_test,),
        seed=run.seed.child("fit"), run=run, name="autoencoder",
    )
    run.keep(net.cpu())
    best = autoencoder_from_svd(x, hidden)
    errors = (functional.mse_loss(outputs_of(model, one), one)
              for one in (x, x_test) for model in (net, best))
    error, pca, test_error, test_pca = map(float, errors)
    run.record(error_over_pca=error / pca, test_error_over_pca=test_error / test_pca)
    run.record(test_error=test_error, test_error_of_pca=test_pca)
    learned, components = _weights(net)[1], _weights(best)[1]
    run.record(largest_angle=float(principal_angles(learned, components)[0]))
    curve = [row["validation_loss"] for row in trained.history]
    falling = Series("autoencoder", range(1, len(curve) + 1), curve, style="line")
    line = Series("principal components", [1, len(curve)], [test_pca] * 2, "bound")
    run.figure("loss", figures.draw(Picture((falling, line), "epoch", "test error", "y")))
    inside = torch.linalg.qr(learned).Q
    rows = {"learned": learned, "component": components, "in span": inside @ inside.mT @ components}
    shown = [one[:, k].reshape(side, side) for one in rows.values() for k in range(8)]
    titles = [f"{name} {k}" for name in rows for k in range(1, 9)]
    run.figure("directions", figures.images(shown, titles, columns=8, signed=True))


def _set(net: LinearNetwork, *weights: Tensor) -> None:
    """Give the layers these weights."""
    with torch.no_grad():
        for layer, weight in zip(net.layers, weights, strict=True):
            layer.weight.copy_(weight)  # type: ignore[operator, union-attr]


def _weights(net: LinearNetwork) -> list[Tensor]:
    return [layer.weight.detach() for layer in net.layers]  # type: ignore[union-attr]


def _rank(matrix: Tensor) -> int:
    return int(torch.linalg.matrix_rank(matrix, rtol=RANKED))


def _risk(D: Tensor, E: Tensor, S: Tensor) -> Tensor:
    """Give half the mean of |x - DEx|^2 (...) from the second moments S of x."""
    rest = torch.eye(len(S), dtype=S.dtype) - D @ E
    return (rest @ S * rest).sum(dim=(-2, -1)) / 2


def _descend(net: LinearNetwork, loss: Callable[[], Tensor]) -> list[float]:
    """Minimize a loss of the network by L-BFGS from a small start; give all losses on the way."""
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(0.1)  # layers of unequal size make the problem ill-conditioned
    seen = []
    optimizer = torch.optim.LBFGS(
        net.parameters(), max_iter=1000, tolerance_grad=1e-5, tolerance_change=0, history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        seen.append(value.item())
        return value

    optimizer.step(closure)  # type: ignore[arg-type]
    return [*seen, loss().item()]


def _ends_of_descent(
    X: Tensor, hidden: int, starts: int, activation: str, rng: torch.Generator, steps: int = 800
) -> Tensor:
    """Train autoencoders from many starts at once, and give their last losses."""
    dim, bend = X.shape[1], torch.tanh if activation == "tanh" else nn.Identity()
    D = (0.5 * randn(rng, starts, dim, hidden)).requires_grad_()
    E = (0.5 * randn(rng, starts, hidden, dim)).requires_grad_()
    optimizer = torch.optim.Adam([D, E], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = X.new_empty(starts)
    for _ in range(steps):
        losses = (bend(X @ E.mT) @ D.mT - X).square().sum(dim=2).mean(dim=1) / 2
        optimizer.zero_grad()
        losses.sum().backward()  # Adam treats every weight apart: the starts do not meet
        optimizer.step()
        schedule.step()
    return losses.detach()
