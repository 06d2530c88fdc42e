r"""Linear dynamics: what is true of it, and what would refute it.

Knobs:
    inputs: Inputs of the network.
    condition: How many times more the inputs vary along one direction than another.
    method: How inputs are prepared; standardizing leaves them correlated.
    outputs: Outputs of the network.
    whiten: Whether the inputs are whitened; if not, the simple formulas are wrong.
    lr: The learning rate $\eta$.
    time: How long the flow runs.
    inverse: The factor of the speed in the solution; a half $\eta$ is no inverse.
    size: Units of each layer of the square network; the other one is wider.
    by_W: The order of the factors in the gradient by $W$; matrices do not commute.
    hidden: Hidden units of the network.
    left: Which matrix turns back to the outputs; its transpose is the misprint.
    a0: The strength of all modes at the start.
    spare: Hidden units beyond those that the modes need.
    modes: Modes of the problem, each with its own strength.
    ratio: How many times stronger the first mode is than the last.
    start: Whether modes start alike; starts can be tuned so that all arrive at once.
    between: What stands between the layers; with tanh the balance is not kept.
"""

import itertools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule, side_by_side
from principia.lab.seeds import Seed
from principia.networks.linear_dynamics import (
    TwoLayerLinear,
    Whitener,
    aligned_init,
    cross_moment,
    linear_flow,
    mode_flow,
    mode_strengths,
)

Weights = tuple[Tensor, ...]
Gradient = Callable[..., Weights]
Inputs = Annotated[int, Range(2, 40)]
Outputs = Annotated[int, Range(1, 12)]
SAMPLES = 300  # more than inputs, so that the second moment has full rank
STEP = 0.002  # of Euler's method where it stands for the flow
EULER = "Euler's method errs in proportion to its step"
COUNTS = (25, 50, 100, 200, 400)  # of steps up to one time: ever shorter ones


@claim(
    control={"method": "standardize"},
    refutes=["pca, centered", "pca, as it is", "zca, centered", "zca, as it is"],
    source="Kessy, Lewin and Strimmer 2018",
)
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
        parts[name] = equal(Z.T @ Z / len(Z), unit, tol=1e-8, why=why).pictured(side_by_side({
            "E[xx']": torch.from_numpy(X.T @ X / len(X)),
            f"behind {method}": torch.from_numpy(Z.T @ Z / len(Z))}))
        parts[f"{name}: and back"] = equal(model.inverse_transform(Z), X, tol=1e-8, why=why)
    root, moment = Whitener(kind="zca", center=False).fit(X).transform(unit), X.T @ X / len(X)
    parts["zca is the inverse root"] = equal(root @ root @ moment, unit, tol=1e-8, why=why)
    more = np.hstack([X, X[:, :1] - X[:, 1:2]])
    pca, zca = Whitener().fit(more), Whitener(kind="zca").fit(more)  # centered, without a word
    widths = [pca.transform(more).shape[1], zca.transform(more).shape[1]]
    named = [len(one.get_feature_names_out()) for one in (pca, zca)]
    parts["a dependent column is dropped"] = equal(
        [pca.dropped_, zca.dropped_, *widths, *named], [1, 1, *[inputs, inputs + 1] * 2], tol=0,
        why="counts: dropped columns, and those that come out",
    )
    new, start = X[:50] ** 2, X - X.mean(axis=0)
    by_inverse = (new - X.mean(axis=0)) @ np.linalg.inv(start.T @ start / len(X))
    scores = Whitener().fit(X).transform(new)
    parts["distances of new inputs"] = equal(
        scores @ scores.T / len(X), by_inverse @ (new - X.mean(axis=0)).T / len(X), tol=1e-8,
        why=why)
    return every({**parts, "what is dropped": _dropped(seed.child("dropped"))})


def _dropped(seed: Seed) -> Evidence:
    """Count directions of which too little is there, at all sizes of the inputs."""
    unit = frame(seed, SAMPLES, 5).numpy()
    unit = SAMPLES**0.5 * np.linalg.qr(unit - unit.mean(axis=0))[0]  # of mean 0 and moment 1
    shares = np.sqrt([1, 0.5, 0.02, 1.2e-8, 0.8e-8])
    asked: list[dict[str, Any]] = [{}, {"eps": 1e-2}, {"eps": 0.1}]
    counts = [Whitener(center=False, **options).fit(size * unit * shares).dropped_
              for size in (1e-4, 1.0, 1e4) for options in asked]
    # 2e7 and a little, with a constant that is off by rounding when its mean is subtracted
    far = np.column_stack([2e7 + 1e-2 * unit[:, 0], 1e-3 * unit[:, 1], np.full(SAMPLES, 2e7 / 3)])
    counts.append(Whitener(eps=1e-14).fit(far).dropped_)
    counts.append(Whitener(eps=0.25, center=False).fit(np.diag([2.0, 1.0])).dropped_)  # 1/4 itself
    moments = Whitener(center=False).fit(unit * shares).moments_
    few = normal(seed.child("few"), 3, 5).numpy()  # fewer samples than inputs
    scores = Whitener(center=False).fit_transform(few)
    return every({
        "how many": equal(counts, [1, 2, 3] * 3 + [1, 1], tol=0, why="a count"),
        "of few samples": equal_to_rounding(scores.T @ scores / 3, np.eye(3)),
        "moments of the others": equal_to_rounding(moments[:3], shares[:3] ** 2),
    })


def _correlated(seed: Seed, inputs: int, condition: float) -> Tensor:
    """Draw correlated inputs (N, n) with a mean that is not 0."""
    scales = torch.logspace(-0.5, 0.5, inputs, base=condition, dtype=torch.float64)
    turn = frame(seed.child("turn"), inputs, inputs)
    return 0.5 + normal(seed.child("X"), SAMPLES, inputs) @ (turn * scales) @ turn.mT


def frame(seed: Seed, size: int, columns: int) -> Tensor:
    """Draw orthonormal columns."""
    return torch.linalg.qr(normal(seed, size, columns)).Q


def normal(seed: Seed, *shape: int) -> Tensor:
    """Draw a normal matrix."""
    return torch.randn(*shape, generator=seed.torch(), dtype=torch.float64)


@claim(control={"whiten": False}, source="Baldi and Hornik 1989, with whitened inputs")
def risk_expansion(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4, whiten: bool = True
) -> Evidence:
    r"""Whitened: $R(A)=\mathrm{Tr}\,E[yy^\top]-2\mathrm{Tr}(A\Gamma^\top)+\mathrm{Tr}(AA^\top)$."""
    X, Y, Gamma = _problem(seed, inputs, outputs, whiten)
    A = normal(seed.child("A"), 20, outputs, inputs)  # twenty networks
    risks = torch.stack([_risk(X @ one.mT, Y) for one in A])
    constant = (Y.mT @ Y / len(Y)).trace()
    far = (A - Gamma).square().sum(dim=(1, 2)).sort()
    least = constant - Gamma.square().sum()
    return equal_to_rounding(
        risks, constant - 2 * (A * Gamma).sum(dim=(1, 2)) + (A**2).sum(dim=(1, 2))
    ).named("risks of random networks").drawn(
        Series("random networks", far.values, risks[far.indices]),
        Series("completed square", far.values, least + far.values, "predicted"),
        x="squared distance of A from Γ", y="risk",
    )


def _problem(
    seed: Seed, inputs: int, outputs: int, whiten: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw inputs, whitened or not, targets that they explain in part, and the cross moment."""
    X = _correlated(seed, inputs, 4.0)
    white = torch.from_numpy(Whitener(kind="zca").fit_transform(X.numpy()))
    rank = min(inputs, outputs)
    U, V = frame(seed.child("U"), outputs, rank), frame(seed.child("V"), inputs, rank)
    truth = (U * torch.linspace(1.2, 0.4, rank, dtype=X.dtype)) @ V.mT
    Y = white @ truth.mT + 0.3 * normal(seed.child("noise"), SAMPLES, outputs)
    X = white if whiten else X
    return X, Y, cross_moment(X, Y, tol=1e-6 if whiten else 1e6)


def _risk(outputs: Tensor, Y: Tensor) -> Tensor:
    return ((outputs - Y) ** 2).sum(dim=1).mean()


@claim(control={"whiten": False}, source="Baldi and Hornik 1989, with whitened inputs")
def least_squares_solution(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4, whiten: bool = True
) -> Evidence:
    r"""The risk is least at $A^*=\Gamma=\frac1N\sum_iy_ix_i^\top$, and $\nabla R=2(A-\Gamma)$."""
    X, Y, Gamma = _problem(seed, inputs, outputs, whiten)
    A = normal(seed.child("A"), outputs, inputs)
    shares = torch.linspace(-0.5, 0.5, 41, dtype=X.dtype)
    risks = [_risk(X @ (Gamma + t * (A - Gamma)).mT, Y) for t in shares]
    bowl = _risk(X @ Gamma.mT, Y) + shares**2 * (A - Gamma).square().sum()
    return every({
        "minimizer": equal_to_rounding(
            Gamma, torch.linalg.lstsq(X, Y, driver="gelsd").solution.mT
        ).drawn(
            Series("risk", shares, risks),
            Series("parabola over Γ", shares, bowl, "predicted"), Rule("A = Γ", x=0.0),
            x="t, of networks Γ + t (A - Γ)", y="risk",
        ),
        "gradient": equal_to_rounding(_risk_gradient(X, Y)(A)[0], 2 * (A - Gamma)),
    })


def _risk_gradient(X: Tensor, Y: Tensor) -> Gradient:
    """Differentiate the risk of one layer, sample by sample, knowing nothing of moments."""
    return torch.func.grad(lambda A: _risk(X @ A.mT, Y), argnums=(0,))


@claim(control={"inverse": "η / 2"}, source="Saxe, McClelland and Ganguli 2014, sec. 1")
def exponential_flow(
    seed: Seed, *, inputs: Inputs = 6, outputs: Outputs = 4,
    lr: Annotated[float, Range(0.1, 0.8)] = 0.5, time: Annotated[float, Range(0.2, 2)] = 1.0,
    inverse: Literal["1 / (2η)", "η / 2"] = "1 / (2η)",
) -> Evidence:
    r"""$\dot A=2\eta(\Gamma-A)$, so $A=\Gamma-\dot A/(2\eta)=\Gamma+(A_0-\Gamma)e^{-2\eta t}$."""
    X, Y, Gamma = _problem(seed, inputs, outputs)
    start, gradient = normal(seed.child("A"), outputs, inputs), _risk_gradient(X, Y)
    share = 1 / (2 * lr) if inverse == "1 / (2η)" else lr / 2
    times = torch.linspace(0, time, 5, dtype=X.dtype)
    path = linear_flow(start, Gamma, times, lr=1 / (2 * share))  # what A = Γ - share dA/dt implies
    velocity = -lr * torch.stack([gradient(A)[0] for A in path])
    ends = torch.stack([_euler(gradient, (start,), lr * time, count)[0] for count in COUNTS])
    lengths, errors = [time / count for count in COUNTS], (ends - path[-1]).norm(dim=(1, 2))
    return every({
        "lr = 1 by default": equal_to_rounding(linear_flow(start, Gamma, lr * times), path),
        "descent errs as its step": slope(
            lengths, errors, 1.0, tol=0.05, labels=("length of a step", "error at the end"),
            why="Euler's method has order 1; the next order bends the line by a few percent",
        ),
        "equation of motion": equal_to_rounding(path, Gamma - share * velocity),
    })


def _euler(gradient: Gradient, weights: Weights, time: float, steps: int) -> Weights:
    for _ in range(steps):
        slopes = gradient(*weights)
        weights = tuple(w - time / steps * g for w, g in zip(weights, slopes, strict=True))
    return weights


@claim(
    control={"by_W": "2(A - Γ)Qᵀ"},
    refutes=["square, by W"],
    source="Saxe, McClelland and Ganguli 2014, sec. 1",
)
def two_layer_gradients(
    seed: Seed, *, size: Annotated[int, Range(2, 12)] = 4,
    by_W: Literal["2Qᵀ(A - Γ)", "2(A - Γ)Qᵀ"] = "2Qᵀ(A - Γ)",
) -> Evidence:
    r"""$\nabla_QR=2(A-\Gamma)W^\top$ and $\nabla_WR=2Q^\top(A-\Gamma)$, where $A=QW$."""
    parts = {}
    for name, (k, h, n) in {"square": (size,) * 3, "not": (size, size + 1, size + 3)}.items():
        X, Y, Gamma = _problem(seed.child(name), n, k)
        given = normal(seed.child("Q"), k, h), normal(seed.child("W"), h, n)
        model = TwoLayerLinear(*given)
        for one in given:
            one.zero_()  # the model has copies
        theirs = torch.autograd.grad(_risk(model(X), Y), [model.Q, model.W])
        ours = model.gradients(Gamma)  # no graph hangs on them
        if name == "square" and by_W == "2(A - Γ)Qᵀ":
            ours = ours[0], (2 * (model.matrix() - Gamma) @ model.Q.mT).detach()
        for letter, one, other in zip("QW", ours, theirs, strict=True):
            parts[f"{name}, by {letter}"] = equal_to_rounding(one.numpy(), other)
        if name == "square":  # where a wrong order has the right shape
            parts["square, by W"] = parts["square, by W"].pictured(
                side_by_side({by_W: ours[1], "autograd": theirs[1]}))
    return every(parts)


@claim(
    control={"left": "Uᵀ"},
    refutes=["risk", "A - Γ", "gradient by Q", "gradient by W"],
    source="Saxe, McClelland and Ganguli 2014, sec. 1",
    misprint=r"$R=\Vert U^\top\tilde Q\tilde WV^\top-\Gamma\Vert_F^2$, with $U$ transposed",
)
def svd_coordinates(
    seed: Seed, *, inputs: Inputs = 6, outputs: Annotated[int, Range(3, 12)] = 4,
    hidden: Annotated[int, Range(1, 20)] = 5, left: Literal["U", "Uᵀ"] = "U",
) -> Evidence:
    r"""With $\tilde Q=U^\top Q$, $\tilde W=WV$: $A-\Gamma=U(\tilde Q\tilde W-\Sigma)V^\top$."""
    X, Y, Gamma = _problem(seed, inputs, outputs)
    Q, W = normal(seed.child("Q"), outputs, hidden), normal(seed.child("W"), hidden, inputs)
    U, s, Vh = torch.linalg.svd(Gamma)  # all of U and V, also what Γ leaves out
    Sigma = torch.zeros_like(Gamma)
    Sigma.diagonal().copy_(s)
    model, turned = TwoLayerLinear(Q, W), TwoLayerLinear(U.mT @ Q, W @ Vh.mT)
    printed = U if left == "U" else U.mT
    back = printed @ turned.matrix() @ Vh
    constant = (Y**2).sum(dim=1).mean() - (Gamma**2).sum()
    shown = {"A - Γ": model.matrix() - Gamma, "Q̃W̃ - Σ": turned.matrix() - Sigma,
             f"{left} (Q̃W̃ - Σ) Vᵀ": printed @ (turned.matrix() - Sigma) @ Vh}
    by_turned = torch.autograd.grad(((back - Gamma) ** 2).sum(), [turned.Q, turned.W])
    return every({
        "A - Γ": equal_to_rounding(
            model.matrix() - Gamma, printed @ (turned.matrix() - Sigma) @ Vh
        ).pictured(side_by_side(shown)),
        "risk": equal_to_rounding(_risk(model(X), Y), ((back - Gamma) ** 2).sum() + constant),
        "gradient by Q": equal_to_rounding(by_turned[0], U.mT @ model.gradients(Gamma)[0]),
        "gradient by W": equal_to_rounding(by_turned[1], model.gradients(Gamma)[1] @ Vh.mT),
        "strengths": equal_to_rounding(
            mode_strengths(Q, W, U[:, : len(s)], Vh[: len(s)].mT), turned.matrix().diagonal()
        ),
    })


@claim(
    control={"whiten": False},
    refutes=["modes", "nothing between the modes"],
    source="Saxe, McClelland and Ganguli 2014, sec. 1",
    headline=True,
    sees="Points of each mode lie on its S-shaped curve; strong modes rise before weak ones.",
)
def modes_decouple(
    seed: Seed, *, inputs: Inputs = 8, outputs: Annotated[int, Range(2, 12)] = 4,
    a0: Annotated[float, Range(1e-4, 0.1)] = 0.001, spare: Annotated[int, Range(0, 20)] = 2,
    whiten: bool = True,
) -> Evidence:
    r"""From an aligned balanced start every mode follows $\dot a=4a(s-a)$, for itself."""
    X, _, Gamma = _problem(seed, inputs, outputs, whiten)
    U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    R = frame(seed.child("R"), len(s) + spare, len(s))
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
            *mode_curves(times, measured, predicted), x="time", y="strength of the modes"
        ),
        "nothing between the modes": equal(
            mixed, 0, tol=1e-8, why="rounding, that grows with a mode to 1/a₀ times its size"
        ),
        "balance at the start": equal_to_rounding(  # of numbers, on which no graph hangs
            (Qs[0].mT @ Qs[0]).numpy(), (Ws[0] @ Ws[0].mT).numpy()),
        "layers at the start": equal_to_rounding(
            torch.cat([Qs[0], Ws[0].mT]), a0**0.5 * torch.cat([U, Vh.mT]) @ R.mT),
        "equation of motion": _moves(seed.child("flow")),
        "the longest step": _longest_step(Gamma, a0),
    })


def _moves(seed: Seed) -> Evidence:
    """Differentiate strengths by time, of a mode without signal, too."""
    s = torch.tensor([0.0, 0.3, 1.0, 5.0], dtype=torch.float64)
    a0 = torch.rand(4, generator=seed.torch(), dtype=torch.float64) + 0.01
    t = torch.linspace(0, 2, 30, dtype=torch.float64, requires_grad=True)
    a, end = mode_flow(s, a0, t), mode_flow(s, a0, s.new_tensor([1e6]))
    speed = torch.stack([
        torch.autograd.grad(one.sum(), t, retain_graph=True)[0] for one in a.unbind(dim=1)
    ], dim=1)
    return every({
        "speed": equal_to_rounding(speed, 4 * a * (s - a)),
        "start": equal_to_rounding(a[0], a0),
        "end": equal(end[0], s, tol=1e-6, why="what has no signal is 1/(4t) after a time t"),
    })


def _longest_step(Gamma: Tensor, a0: float) -> Evidence:
    """Take steps that are nearly too long: each mode still comes from below."""
    U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    lr = (1 - 1e-9) / (4 * float(s[0]))
    steps = 1000
    run = mode_strengths(*aligned_init(Gamma, a0).descend(Gamma, lr=lr, steps=steps), U, Vh.mT)
    return every({
        "no mode overshoots": at_most(
            run - s, 0, slack=1e-12, why="q(1 + 2η(s - q²)) rises up to √s"),
        "all arrive": equal(run[-1], s, tol=1e-9, why="a share η 4s of the rest goes with a step"),
    })


def mode_curves(times: Tensor, measured: Tensor, predicted: Tensor) -> tuple[Series, ...]:
    """Draw each mode's measured points, not too many, over its formula."""
    seen = torch.linspace(0, len(times) - 1, min(len(times), 50)).long()
    pairs = [
        (Series(f"mode {k}", times[seen], measured[seen, k - 1]),
         Series(f"formula {k}", times, predicted[:, k - 1], role="predicted"))
        for k in range(1, measured.shape[1] + 1)
    ]
    return tuple(series for pair in pairs for series in pair)


@claim(control={"start": "tuned"}, source="Saxe, McClelland and Ganguli 2014, sec. 1")
def stronger_modes_first(
    seed: Seed, *, modes: Annotated[int, Range(3, 10)] = 5,
    ratio: Annotated[float, Range(2, 5)] = 4.0, a0: Annotated[float, Range(1e-6, 0.01)] = 0.001,
    start: Literal["common", "tuned"] = "common",
) -> Evidence:
    r"""Half strength comes at $\frac1{4s}\ln(s/a_0-1)$: from one $a_0$ strong modes are first."""
    s = 0.3 * torch.logspace(0, 1, modes, base=ratio, dtype=torch.float64).flip(0)
    U, V = frame(seed.child("U"), modes, modes), frame(seed.child("V"), modes + 2, modes)
    Gamma, halves = (U * s) @ V.mT, half_time(s, a0)
    tuned = s / (1 + torch.exp(4 * s * halves[modes // 2]))  # all as late as the middle one
    model = aligned_init(Gamma, tuned if start == "tuned" else a0)
    steps = round(1.2 * float(halves.max()) / STEP)
    strengths = mode_strengths(*model.descend(Gamma, lr=STEP, steps=steps, every=10), U, V)
    measured = crossings(strengths, s / 2, 10 * STEP)
    why = f"{EULER}: it is late by a share lr s, {STEP * float(s[0]):.1g} at most"
    return every({
        "half times": equal(measured, halves, tol=0.02 * halves, why=why).drawn(
            Series("measured", s, measured), Series("formula", s, halves, role="predicted"),
            x="singular value s", y="time to half strength", log="xy",
        ),
        "stronger ones earlier": never(measured[1:] <= measured[:-1], why="the modes are sorted"),
        "but for the logarithm": slope(s, measured / (s / a0 - 1).log(), -1.0, tol=0.02, why=why),
    })


def half_time(s: Tensor, a0: float) -> Tensor:
    """Give the time at which a mode has reached half its strength."""
    return (s / a0 - 1).log() / (4 * s)


def crossings(curves: Tensor, levels: Tensor, every: float) -> Tensor:
    """Interpolate when each curve (T, r), sampled at equal times, first reaches its level."""
    above = curves >= levels
    last = above.int().argmax(dim=0).clamp(min=1)[None]  # the first sample above
    after, before = curves.gather(0, last)[0], curves.gather(0, last - 1)[0]
    times = every * (last[0] - (after - levels) / (after - before))
    return torch.where(above.any(dim=0), times, torch.nan)


@claim(control={"between": "tanh"}, source="Saxe et al. 2014; Arora, Cohen and Hazan 2018")
def conservation(
    seed: Seed, *, inputs: Annotated[int, Range(2, 20)] = 6, outputs: Outputs = 4,
    hidden: Annotated[int, Range(2, 20)] = 5, time: Annotated[float, Range(0.1, 0.5)] = 0.3,
    between: Literal["nothing", "tanh"] = "nothing",
) -> Evidence:
    r"""$Q^\top Q-WW^\top$ is constant under the flow; steps $\eta$ let it drift by $O(\eta)$."""
    X, Y, Gamma = _problem(seed, inputs, outputs)
    apply = torch.tanh if between == "tanh" else nn.Identity()
    Q, W = normal(seed.child("Q"), outputs, hidden), normal(seed.child("W"), hidden, inputs)
    start = Q / (outputs + hidden) ** 0.5, W / (hidden + inputs) ** 0.5
    gradient = torch.func.grad(lambda Q, W: _risk(apply(X @ W.mT) @ Q.mT, Y), argnums=(0, 1))
    model = TwoLayerLinear(*start)
    ends: list[Weights] = [start]
    for count in COUNTS:
        if between == "nothing":
            Qs, Ws = model.descend(Gamma, lr=time / count, steps=count, every=count)
            ends.append((Qs[-1], Ws[-1]))
        else:
            ends.append(_euler(gradient, start, time, count))
    balances = torch.stack([Q.mT @ Q - W @ W.mT for Q, W in ends])
    lengths, drifts = [time / n for n in COUNTS], (balances[1:] - balances[0]).norm(dim=(1, 2))
    return slope(
        lengths, drifts, 1.0, tol=0.1, labels=("length of a step", "drift at the end"),
        why="a step changes it by the square of its length; higher orders bend the line",
    ).named("order of the drift")
