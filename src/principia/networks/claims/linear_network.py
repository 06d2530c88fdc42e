r"""Linear networks: what is true of it, and what would refute it.

Knobs:
    depth: The most layers of weights that a network has.
    width: The most units that a layer has.
    between: What stands between the layers; anything bent breaks the one matrix.
    products: Random products of matrices whose ranks are counted.
    bound: Which widths bound the rank; without the inputs it is too large.
    rows: Rows of the matrix that is cut.
    columns: Columns of the matrix that is cut.
    k: The rank of the cut.
    competitors: Other matrices of low rank that try to come closer.
    extra: By how much competitors exceed the rank of the cut; then they can win.
    printed: Whether the cut or, as misprinted, $X$ itself has rank $k$.
    dim: Inputs of the autoencoder, and its outputs.
    hidden: Units of its bottleneck.
    gauges: Random invertible matrices $A$ that are tried.
    condition: The condition number of these matrices: how unevenly they stretch.
    encoder: How the encoder makes up for $A$; a transpose is no inverse.
    center: Whether inputs have their mean subtracted; if not, it is not PCA.
    chords: Random pairs of networks between which the loss is looked at.
    jointly: What is stated of decoder and encoder together; convexity is wrong.
    starts: Random starts of descent.
    activation: The function of the hidden units; with tanh there are bad minima.
"""

import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from principia.lab.data.digits import digits
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import side_by_side
from principia.lab.seeds import Seed
from principia.networks.linear_network import (
    LinearNetwork,
    autoencoder_from_svd,
    autoencoder_risk,
    critical_points,
    principal_angles,
    set_weights,
    truncated_svd,
)
from principia.networks.mlp import MLP

TILT = 0.3  # rad, some angle to measure
RANKED = 1e-12  # singular values below this share of the largest are rounding
SATURATING = 10.0  # size of inputs at which tanh units with weights of about 1 are nearly steps


@claim(
    control={"between": "relu"},
    refutes=["units between the layers: relu"],
    source="by associativity",
)
def depth_collapse(
    seed: Seed, *, depth: Annotated[int, Range(2, 8)] = 8,
    width: Annotated[int, Range(2, 100)] = 10,
    between: Literal["identity", "relu", "tanh"] = "identity",
) -> Evidence:
    r"""A linear network of any depth equals one layer, $x\mapsto Ax$, with $A=W^L\cdots W^1$."""
    rng = seed.torch()
    one_by_one, with_units, at_once = [], [], []
    shown, t = [], torch.linspace(-3, 3, 61, dtype=torch.float64)
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
        ray = t[:, None] * x[0]
        bent = MLP(sizes, activation="relu", bias=bias, rng=seed.child("bent").torch()).double()
        bent.load_state_dict(net.state_dict())
        shown = [  # of the deepest one, at last
            Series(f"{depth} layers, {between} between", t, mlp(ray)[:, 0]),
            Series("the one layer A", t, (ray @ net.matrix().mT + constant)[:, 0], "predicted"),
            Series("with ReLU between", t, bent(ray)[:, 0], "other"),
        ]
    one_by_one, with_units, at_once = map(torch.cat, (one_by_one, with_units, at_once))
    return every({
        f"units between the layers: {between}": equal_to_rounding(with_units, at_once).drawn(
            *shown, x="t, of inputs t x along a ray", y="first output",
        ),
        "layer by layer": equal_to_rounding(one_by_one, at_once),
    })


@claim(
    control={"bound": "widths without the inputs"},
    refutes=["Gaussian factors"],
    source="rank of a product",
)
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
        set_weights(net, *(randn(rng, m, n) for n, m in shapes))
        ranks.append(_rank(net.matrix()))
        narrowest.append(min(sizes if bound == "all widths" else sizes[1:]))
        inner = [int(torch.randint(1, min(pair) + 1, (), generator=rng)) for pair in shapes]
        factors = zip(shapes, inner, strict=True)
        set_weights(net, *(randn(rng, m, r) @ randn(rng, r, n) for (n, m), r in factors))
        poor_ranks.append(_rank(net.matrix()))
        poorest.append(min(map(_rank, weights_of(net))))
    return every({
        "Gaussian factors": equal(
            ranks, narrowest, tol=0, why="integers; below with chance 0"
        ).drawn(
            Series("Gaussian factors", narrowest, ranks),
            Series("factors of low rank", poorest, poor_ranks, "other", "points"),
            Series("bound", [0, max(narrowest)], [0, max(narrowest)], "bound"),
            x="narrowest layer, or least rank of a factor", y="rank of the product",
        ),
        "factors of low rank": at_most(poor_ranks, poorest, why="a theorem: no slack"),
    })


def _rank(matrix: Tensor) -> int:
    return int(torch.linalg.matrix_rank(matrix, rtol=RANKED))


def weights_of(net: LinearNetwork) -> list[Tensor]:
    """List the weights of the layers."""
    return [layer.weight.detach() for layer in net.layers]  # type: ignore[union-attr]


@claim(
    control=[
        Control(
            {"printed": "X = U_k Σ_k V_k'"}, ["error of the cut", "rank of the cut"],
            "X itself in place of its cut",
        ),
        Control(
            {"extra": 1}, ["competitors", "descent stays above", "descent arrives"],
            "competitors of rank k + 1",
        ),
    ],
    source="Eckart and Young 1936",
    misprint=r"$X=U_k\Sigma_kV_k^\top$ is the truncated SVD, with $\mathrm{rank}(\hat X)=k$",
)
def eckart_young(
    seed: Seed, *, rows: Annotated[int, Range(10, 40)] = 30,
    columns: Annotated[int, Range(10, 40)] = 20, k: Annotated[int, Range(1, 9)] = 4,
    competitors: Annotated[int, Range(10, 2000)] = 1000, extra: Annotated[int, Range(0, 5)] = 0,
    printed: Literal["X̂ = U_k Σ_k V_k'", "X = U_k Σ_k V_k'"] = "X̂ = U_k Σ_k V_k'",
) -> Evidence:
    r"""$\min_{\mathrm{rank}\le k}\Vert X-\hat X\Vert_F^2=\sum_{i>k}\sigma_i^2$, at the SVD cut."""
    rng, exact = seed.torch(), printed == "X̂ = U_k Σ_k V_k'"
    X = randn(rng, rows, columns)
    poor = randn(rng, rows, k - 1) @ randn(rng, k - 1, columns)
    tail = float(torch.linalg.eigvalsh(X.mT @ X)[: columns - k].sum())
    (U, s, Vh), (U2, s2, Vh2) = truncated_svd(X, k), truncated_svd(poor, k)
    best, of_poor = (U * s) @ Vh, (U2 * s2) @ Vh2
    U3, s3, Vh3 = truncated_svd(X, rows + columns)
    # from next to the best to far away, all of rank k
    near, rank = truncated_svd(X, k + extra), k + extra
    away = torch.logspace(-4, 1, competitors, dtype=X.dtype)[:, None, None]
    left = near[0] * near[1] + away * randn(rng, competitors, rows, rank)
    rivals = left @ (near[2] + away * randn(rng, competitors, rank, columns))
    gaps = (X - rivals).square().sum(dim=(1, 2))
    net = LinearNetwork((columns, rank, rows), rng=rng).double()
    descent = _descend(net, lambda: (X - net.matrix()).square().sum())
    theorem, rounding = "a theorem, up to rounding", 1e-12 * tail
    return every({
        "error of the cut": equal_to_rounding((X - best).square().sum(), tail if exact else 0.0),
        "rank of the cut": equal(
            [_rank(best), _rank(of_poor)], [k, k - 1 if exact else k], tol=0,
            why="an integer; X of rank k - 1 needs no more",
        ),
        "X of lower rank is kept": equal_to_rounding(of_poor, poor),
        "factors": equal_to_rounding(
            torch.cat([s, (U.mT @ U).flatten(), (Vh @ Vh.mT).flatten(), s3]),
            torch.cat([torch.linalg.svdvals(X)[:k], *[torch.eye(k).to(X).flatten()] * 2,
                       torch.linalg.svdvals(X)])),
        "no cut": equal_to_rounding((U3 * s3) @ Vh3, X),
        "competitors": at_least(gaps, tail, slack=rounding, why=theorem).drawn(
            Series("competitors", away.flatten(), gaps),
            Series("sum of the other σ²", [1e-4, 10], [tail, tail], "bound"),
            x="distance of the factors from the best", y="squared error", log="xy",
        ),
        "descent stays above": at_least(descent, tail, slack=rounding, why=theorem),
        "descent arrives": equal(
            descent[-1] / tail, 1, tol=1e-4, why="L-BFGS stops at a gradient of 1e-5"
        ),
    })


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


@claim(
    control={"encoder": "A' U'"},
    refutes=["loss", "loss from second moments", "map", "weights"],
    source="Bourlard and Kamp 1988",
)
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
    losses, risks, maps, angles, units, decoders = [], [], [], [], [], []
    for one, two in torch.linalg.qr(randn(rng, gauges, 2, hidden, hidden)).Q:
        A = (one * sizes) @ two
        net = autoencoder_from_svd(X, hidden, gauge=A)
        E, D = weights_of(net)
        if encoder == "A' U'":
            set_weights(net, E := A.mT @ A @ E, D)
        losses.append((net(X) - X).square().sum(dim=1).mean().item() / 2)
        risks.append(float(autoencoder_risk(D, E, S)))
        maps.append(net.matrix())
        decoders.append(D)
        freed = torch.linalg.solve(A, D, left=False)  # of the gauge: orthonormal columns
        units.append(torch.stack([freed.mT @ freed, A @ E @ freed]))
        angles.append(float(principal_angles(net.layers[1].weight, tilted)[0]))
    shift = 6e-5 * S.trace().sqrt() * torch.nn.functional.normalize(randn(rng, dim), dim=0)
    asked: list[dict[str, Any]] = [{}, {"centered": False}]
    codes, spans = [], []
    for data, options in zip((X + shift, X + 1.0), asked, strict=True):
        E, D = weights_of(autoencoder_from_svd(data, hidden, **options))
        largest = torch.linalg.eigh(data.mT @ data).eigenvectors[:, -hidden:]
        codes.append(torch.cat([E.mT @ E, D @ D.mT, (E @ data.mT @ data @ D).tril(-1) @ D.mT]))
        spans.append(torch.cat([largest @ largest.mT] * 2 + [torch.zeros(hidden, dim).to(X)]))
    tail = float(eigenvalues[:-hidden].sum()) / 2
    return every({
        "loss": equal_to_rounding(losses, tail),
        "loss from second moments": equal_to_rounding(risks, tail),
        "map": equal_to_rounding(
            torch.stack(maps), (U @ U.mT).expand(gauges, -1, -1)
        ).pictured(side_by_side({
            "D": decoders[0], "another D": decoders[1], "DE": maps[0], "another DE": maps[1]})),
        "weights": equal_to_rounding(
            torch.stack(units), torch.eye(hidden).to(X).expand(gauges, 2, -1, -1)),
        "angle of the decoder to a tilted span": equal_to_rounding(angles, TILT),
        "principal components by default": equal_to_rounding(
            torch.cat(codes), torch.cat(spans)),
        "data off the center": never(
            [_has_code(data, hidden) for data in (X + 3 * shift, X + 1.0)],
            why="without a word, it is refused: its best code is not that of its deviations"),
    })


def _has_code(X: Tensor, hidden: int) -> bool:
    try:
        autoencoder_from_svd(X, hidden)
    except UsageError:
        return False
    return True


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
    losses = _descend(net, lambda: autoencoder_risk(net.matrix(), unit, S))
    angles = principal_angles(weights_of(net)[1], U)
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


@claim(control={"jointly": "convex"}, refutes=["in both"], source="Baldi and Hornik 1989")
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
        first, last = autoencoder_risk(D, E, S), autoencoder_risk(D2, E2, S)
        D3, E3 = (torch.lerp(a, b, t[:, None, None]) for a, b in ((D, D2), (E, E2)))
        return autoencoder_risk(D3, E3, S) > torch.lerp(first, last, t) + 1e-12 * (first + last)

    both, why = above(D2, E2), "convexity allows no exception"
    found = at_least(both.sum(), 1, why="one chord below the loss disproves convexity")
    return every({
        "in D": never(above(D2, E), why=why),
        "in E": never(above(D, E2), why=why),
        "in both": found if jointly == "not convex" else never(both, why=why),
    })


@claim(
    control={"activation": "tanh"},
    refutes=["starts agree", "starts reach the best loss"],
    source="Baldi and Hornik 1989, fact 4",
)
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

    listed = [critical_points(S, hidden, **one)  # all units are used, without a word
              for one in ({}, *({"rank": rank} for rank in range(hidden - 1, -1, -1)))]
    D, E = (torch.cat([one[place] for one in listed]) for place in (1, 2))
    points = torch.cat([D.flatten(1), E.flatten(1)], dim=1)

    def risk(point: Tensor) -> Tensor:
        D, E = point.split(dim * hidden)
        return autoencoder_risk(D.reshape(dim, hidden), E.reshape(hidden, dim), S)

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
        "losses are sums of the others": equal_to_rounding(
            autoencoder_risk(D, E, S),
            [float(eigenvalues.sum() - eigenvalues[list(one)].sum()) / 2
             for places, *_ in listed for one in places.tolist()],
        ),
    })


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
