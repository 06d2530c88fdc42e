r"""Gradients through many layers: what it reaches on data."""

import copy
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.gradients.depth import gradient_profile, jacobian_spectrum
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Cloud, Label, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, accuracy, fit
from principia.networks.linear_network import LinearNetwork
from principia.networks.mlp import MLP
from principia.networks.residual import ResidualMLP

KINDS = ("sigmoid", "tanh", "relu", "linear", "residual")
DEPTHS = (2, 5, 10, 20, 40, 64)
GAINS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)
HEADLINE = 20  # the depth that is trained even when there is little time
SHOWN = 256  # samples whose gradient is taken
DEEPEST = 16  # layers of the moving picture
NEEDLE = 100.0  # ratio of the axes from which on a ball is a needle
LOST = 1e-3  # share of a gradient below which it is lost, and above whose inverse it explodes


@hero(moves="layers", frames=DEEPEST + 1)
def needle(
    seed: Seed, *, layers: Annotated[int, Range(0, DEEPEST)] = 8,
    gain: Annotated[float, Range(0.5, 2)] = 1.0,
    kind: Literal["gaussian", "orthogonal"] = "gaussian",
) -> Panels:
    """Random layers squash a ball of gradients to a needle; the gain only changes its size.

    Args:
        layers: How many layers the gradients have come back through.
        gain: The factor by which a layer stretches lengths on average.
        kind: Whether the weights are normal, or orthogonal, which turn and do not squash.
    """
    balls, axes = _squashed(seed, gain, kind)
    longest, shortest = float(axes[layers, 0]), float(axes[layers, 2])
    thin, small, large = longest > NEEDLE * shortest, longest < LOST, longest > 1 / LOST
    word = "vanished" if small else "exploded" if large else "a needle" if thin else "still round"
    if word == "still round" and longest > 3 * shortest:
        word = "getting thin"
    color = "red" if thin or small or large else "green"
    turn = torch.linspace(0, 2 * math.pi, 49, dtype=torch.float64)
    circle = torch.stack([turn.cos(), turn.sin(), 0 * turn], dim=1)
    rings = [Cloud("", circle.roll(shift, 1), role="gray", style="line") for shift in range(3)]
    lines = [
        Series("", range(layers + 1), axes[: layers + 1, place], role, "line")
        for place, role in enumerate(("orange", "gray", "purple"))
    ]
    names = ("longest", "shortest") if longest > 3 * shortest else ("all three", "")
    return Panels((
        Plot((*rings, Cloud("gradients", balls[layers] / longest, balls[0][:, 2], size=4.0)),
             title=f"after {layers} layers: {word}", bare=True, square=True),
        Plot((
            *lines, Series("", [layers] * 3, axes[layers], color, "points"),
            Label(f" {names[0]}", layers, longest, "orange", side="right"),
            Label(f" {names[1]}", layers, shortest, "purple", side="right"),
        ), x="layers", y="axes of the ball", log="y",
            title=f"longest to shortest, {longest / shortest:.0f} : 1",
            x_range=(0, DEEPEST + 5), y_range=(1e-10, 1e6)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one way back
def _squashed(seed: Seed, gain: float, kind: str) -> tuple[list[Tensor], Tensor]:
    """Send a ball of gradients back through random layers; give it and its axes after each."""
    rng = seed.torch()
    ball = F.normalize(randn(rng, 300, 3), dim=1)
    drawn = randn(rng, DEEPEST, 3, 3)
    Ws = gain * (drawn / 3**0.5 if kind == "gaussian" else torch.linalg.qr(drawn).Q)
    balls = [*itertools.accumulate(Ws, torch.matmul, initial=ball)]  # rows: W'v of the next
    axes = [
        jacobian_spectrum(lambda x, below=Ws[:layers]: functools.reduce(torch.matmul, below, x),
                          ball[0])
        for layers in range(DEEPEST + 1)
    ]
    return balls, torch.stack(axes)


@experiment(
    reaches={"sigmoid_ratio": at_least_goal(1e6), "residual_ratio": at_most_goal(1e2)},
    floor={"sigmoid_ratio": at_least_goal(1e6), "residual_ratio": at_most_goal(1e2)},
    source="Glorot and Bengio (2010), sec. 4, and He, Zhang, Ren and Sun (2016), ECCV, sec. 2, on "
    "handwritten digits: gradients vanish in deep sigmoid networks and survive in residual ones",
)
def profiles(
    run: Run, *, width: Annotated[int, Range(8, 128)] = 32,
    gain: Annotated[float, Range(0.5, 2)] = 1.0, lr: Annotated[float, Range(1e-4, 0.1)] = 1e-3,
) -> None:
    """Measures the gradient at each layer of deep networks, before and after 200 steps."""
    x, y, x_test, y_test = handwriting(run)
    data, held = (x.flatten(1), y), (x_test.flatten(1), y_test)
    few, n = (data[0][:SHOWN].double(), y[:SHOWN]), data[0].shape[1]
    found: dict[str, dict[float, Any]] = {"initial": {}, "trained": {}}
    for depth in run.steps(DEPTHS, "depths"):
        nets = _deep_nets(n, width, depth, gain, run.seed.child(depth).torch())
        found["initial"][depth] = _profiles(nets, few)
        if depth != HEADLINE and not run.full:
            continue
        for kind, net in nets.items():
            trained = fit(
                net, data, Supervised(F.cross_entropy),
                torch.optim.Adam(net.parameters(), lr=lr, fused=True), steps=200,
                validation=held, metrics={"accuracy": accuracy}, seed=run.seed.child(kind), run=run,
                name=f"{kind}-{depth}",
            )
            if depth == HEADLINE:
                run.record(**{f"{kind}_accuracy": trained.history[-1]["validation_accuracy"]})
        found["trained"][depth] = _profiles(nets, few)
        if depth == HEADLINE:
            run.keep(nets["residual"])
    for kind in KINDS:
        before, after = (_ratio(found[when][HEADLINE][kind]) for when in found)
        run.record(**{f"{kind}_ratio": before, f"{kind}_ratio_after_training": after})
    by_gain = {}
    for factor in GAINS:  # the same draws at every gain
        rng = run.seed.child(HEADLINE).torch()
        by_gain[factor] = _profiles(_deep_nets(n, width, HEADLINE, factor, rng), few)
    run.figure("initial", _sliding("hidden layers: ", found["initial"]))
    run.figure("trained", _sliding("hidden layers: ", found["trained"]))
    run.figure("gains", _sliding(f"{HEADLINE} hidden layers, gain: ", by_gain))
    series = (
        Series(kind, DEPTHS, [_ratio(one[kind]) for one in found["initial"].values()], "other")
        for kind in KINDS
    )
    axes = "hidden layers", "gradient of the last layer / of the first"
    run.figure("ratios", figures.draw(Plot(tuple(series), *axes, "xy")))


def _deep_nets(n: int, width: int, depth: int, gain: float, rng: torch.Generator) -> dict[str, Any]:
    """Build a network of each kind with so many hidden layers and Xavier Glorot's weights."""
    sizes, nets = (n, *[width] * depth, 10), {}
    for kind in KINDS:
        if kind == "residual":
            alpha = depth**-0.5  # all branches together weigh like one
            net = ResidualMLP(n, width=width, depth=depth - 1, n_out=10, alpha=alpha, rng=rng)
        elif kind == "linear":
            net = LinearNetwork(sizes, bias=True, rng=rng)
        else:
            net = MLP(sizes, activation=kind, rng=rng)
        for layer in net.layers:
            nn.init.xavier_normal_(layer.weight, gain, generator=rng)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nets[kind] = net
    return nets


def _profiles(nets: Mapping[str, nn.Module], data: tuple[Tensor, Tensor]) -> dict[str, list[float]]:
    """List the norms in float64: those of 64 sigmoid layers are no numbers of float32."""
    copies = {kind: copy.deepcopy(net).double() for kind, net in nets.items()}
    return {kind: [*gradient_profile(net, *data).values()] for kind, net in copies.items()}


def _ratio(profile: Sequence[float]) -> float:
    """Divide the last norm by the first, which is 0 where a layer of rectifiers is dead."""
    return profile[-1] / profile[0] if profile[0] else math.inf


def _sliding(prefix: str, states: Mapping[float, Mapping[str, list[float]]]) -> Any:
    """Draw a profile for each kind; one slider moves through the states, one picks a kind."""
    series = tuple(
        Series(kind, range(1, len(norms) + 1), norms, "other")
        for kind, norms in [*states.values()][-1].items()
    )
    figure = figures.draw(Plot(series, "layer", "norm of the gradient", "y"))
    picks = {"all": True, **{kind: [kind == other for other in KINDS] for kind in KINDS}}
    turns: dict[str, Any] = {}
    for state, by_kind in states.items():
        norms = [[float(f"{one:.4g}") for one in by_kind[kind]] for kind in KINDS]
        turns[f"{state:g}"] = {"x": [[*range(1, len(one) + 1)] for one in norms], "y": norms}
    sliders = [
        {
            "steps": [
                {"method": "restyle", "label": label, "args": [change]}
                for label, change in changes.items()
            ],
            "active": active, "currentvalue": {"prefix": before}, "x": x, "len": 0.45, "y": -0.2,
        }
        for before, changes, active, x in (
            (prefix, turns, len(turns) - 1, 0),
            ("network: ", {kind: {"visible": seen} for kind, seen in picks.items()}, 0, 0.55),
        )
    ]
    legend = {"orientation": "h", "y": 1.12}
    return figure.update_layout(sliders=sliders, legend=legend, height=480)
