r"""Landscape: what the loss of a network looks like, seen from where training goes.

It is not convex, and yet wide networks end at nearly the same loss from every start. Training does
not end because it nears a critical point: the gradient may grow while the loss falls. Two minima
that a straight line joins only over a barrier are joined by a curve without any. Sharpness, the
largest curvature, is no property of the function that the network computes, since rectifiers let
one layer grow while the next shrinks; but methods feel it: noise in the labels slides along a
valley to its flattest place, and gradient descent raises the sharpness until it is $2/\eta$, the
most that its step can bear. Inside a trained network there is a small one, a winning ticket: with
most weights gone and the others back at their first values it trains as well, and better than the
same small network from another start.

$$ \lambda_{\max}\big(\nabla^2L(\theta)\big), \qquad
\max_{\Vert\delta\Vert=\rho}L(\theta+\delta)\ \text{over random directions} $$

$$ f_{\alpha W_l,\,\alpha b_l,\,W_{l+1}/\alpha} = f_{W_l,\,b_l,\,W_{l+1}}, \quad
\nabla^2_{W_{l+1}}\mapsto\alpha^2\,\nabla^2_{W_{l+1}} $$

$$ \theta(t) = (1-t)^2a+2t(1-t)c+t^2b, \quad
\mathrm{barrier} = \max_tL(\theta(t))-(1-t)L(a)-tL(b) $$

$$ u^2-v^2\mapsto(1-\eta^2r^2)(u^2-v^2), \quad r = uv-y $$

Symbols:
    $L(\theta)$: loss of a network on the data `x`, `y` as a function of its parameters
    $\lambda_{\max}$: largest eigenvalue of the Hessian, `sharpness`
    $\rho, \delta$: length of a random step, and the step, for `perturbation_sharpness`
    $W_l, b_l, \alpha$: weights and bias of a layer, and the factor of `rescale_relu`
    $a, b, c$: ends of a `BezierPath` and the point, `middle`, that bends it; $t$ in [0, 1]
    $u, v, r$: weights of a `ScalarNet` and its error at a noisy label $y$
    $\eta$: step size, `lr`

References:
    Choromanska, Henaff, Mathieu, Ben Arous and LeCun (2015), The loss surfaces of multilayer
        networks. AISTATS. arXiv:1412.0233
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 8.2. MIT Press.
        deeplearningbook.org
    Garipov, Izmailov, Podoprikhin, Vetrov and Wilson (2018), Loss surfaces, mode connectivity, and
        fast ensembling of DNNs. NeurIPS. arXiv:1802.10026
    Dinh, Pascanu, Bengio and Bengio (2017), Sharp minima can generalize for deep nets. ICML.
        arXiv:1703.04933
    Keskar, Mudigere, Nocedal, Smelyanskiy and Tang (2017), On large-batch training for deep
        learning: generalization gap and sharp minima. ICLR. arXiv:1609.04836
    Blanc, Gupta, Valiant and Valiant (2020), Implicit regularization for deep neural networks
        driven by an Ornstein-Uhlenbeck like process. COLT. arXiv:1904.09080
    Frankle and Carbin (2019), The lottery ticket hypothesis: finding sparse, trainable neural
        networks. ICLR. arXiv:1803.03635
    Cohen, Kaur, Li, Kolter and Talwalkar (2021), Gradient descent on neural networks typically
        occurs at the edge of stability. ICLR. arXiv:2103.00065
"""

__all__ = [
    "sharpness", "perturbation_sharpness", "rescale_relu", "BezierPath", "barrier", "Ticket",
    "LotteryTicket",
]

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, prune
from torch.optim.swa_utils import update_bn

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import Objective, Part, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import ScalarNet, log_spaced
from principia.optimization.smoothness import hessian_extremes

Loss = Callable[[Tensor, Tensor], Tensor]
Share = Annotated[float, Range(0, 1, open="both")]
Networks = Annotated[int, Range(4, 12)]
PRUNED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers whose weights a lottery removes


def sharpness(
    model: nn.Module, loss: Loss, x: Shaped[Tensor, "B ..."], y: Shaped[Tensor, "B ..."]
) -> float:
    r"""Measures $\lambda_{\max}$ of the Hessian of the loss, by Lanczos' method.

    Args:
        model: The network; its parameters are where the curvature is measured.
        loss: Gives one number for outputs and targets.
        x: Inputs.
        y: Targets.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> sharpness(line, F.mse_loss, torch.tensor([[3.0]]), torch.tensor([[1.0]]))
        18.0
    """
    risk = _risk(model, loss, x, y)
    return float(hessian_extremes(risk, dict(model.named_parameters()))[1][0])


@checked
def perturbation_sharpness(
    model: nn.Module, loss: Loss, x: Shaped[Tensor, "B ..."], y: Shaped[Tensor, "B ..."],
    *, rho: Positive, directions: Count = 100, rng: torch.Generator | None = None,
) -> float:
    r"""Measures the largest loss at distance $\rho$, over random directions of all parameters.

    Args:
        model: The network; it is left as it is.
        loss: Gives one number for outputs and targets.
        x: Inputs.
        y: Targets.
        rho: Length of the step.
        directions: How many are tried.
        rng: Draws them; by default torch's global generator.

    Example:
        >>> line = nn.Linear(1, 1, bias=False).requires_grad_(False)
        >>> x = torch.tensor([[2.0]])
        >>> round(perturbation_sharpness(line, F.mse_loss, x, line(x), rho=0.5), 5)
        1.0
    """
    here, risk = parameters_to_vector(model.parameters()).detach(), _risk(model, loss, x, y)
    ways = torch.randn(directions, len(here), generator=rng, dtype=here.dtype)
    steps = rho * F.normalize(ways, dim=1).to(here.device)
    with torch.no_grad():
        moved = vmap(lambda step: risk(_named(model, here + step)), chunk_size=20)
        return float(moved(steps).max())


@checked
def rescale_relu(model: MLP, alpha: Positive, layer: Count = 1) -> MLP:
    r"""Multiplies a hidden layer by $\alpha$ and divides the next one: the function stays.

    Args:
        model: The network, with $\varphi(cz)=c\varphi(z)$ for $c>0$; it is left as it is.
        alpha: The factor.
        layer: Which hidden layer, from 1 to $L-1$.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(rescale_relu(mlp, 10.0)(x), mlp(x), atol=1e-5)
        True
    """
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)
    if not torch.allclose(model.phi(2 * z), 2 * model.phi(z), rtol=1e-12, atol=0):
        hint = "ReLU is: it commutes with positive factors."
        owner, what = "rescale_relu", "the activation"
        raise refuse(owner, what, "positively homogeneous", model.activation, hint)
    if layer >= len(model.layers):
        domain = f"a hidden layer, 1 to {len(model.layers) - 1}"
        raise refuse("rescale_relu", "layer", domain, layer)
    scaled = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in scaled.layers[layer - 1].parameters():
            parameter *= alpha
        scaled.layers[layer].weight /= alpha
    return scaled


@final
class BezierPath(nn.Module):
    r"""Joins two networks by a parabola in the space of parameters, whose middle is trained.

    Before any training the middle lies halfway, and the path is the straight line.

    Shapes:
        x: (B, *shape), and t, a number in [0, 1]; returns the outputs of the network at t

    Args:
        a: The network at t = 0; the path holds a copy.
        b: The network at t = 1, with parameters of the same names and shapes.

    Example:
        >>> a, b, x = MLP([2, 3, 1]), MLP([2, 3, 1]), torch.randn(5, 2)
        >>> path = BezierPath(a, b)
        >>> torch.equal(path(x, 0.0), a(x)), torch.equal(path(x, 1.0), b(x))
        (True, True)
        >>> halfway = path(x, 0.5)
        >>> adam = torch.optim.Adam(path.parameters())  # for `fit` with `path.objective(loss)`
    """

    start: Tensor
    end: Tensor

    @checked
    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        shapes = [{name: tuple(p.shape) for name, p in one.named_parameters()} for one in (a, b)]
        if shapes[0] != shapes[1]:
            domain = f"a network with the parameters of a, {shapes[0]}"
            raise refuse("BezierPath", "b", domain, shapes[1])
        self.register_buffer("start", parameters_to_vector(a.parameters()).detach())
        self.register_buffer("end", parameters_to_vector(b.parameters()).detach())
        self.middle = copy.deepcopy(a).requires_grad_()
        with torch.no_grad():
            for c, one in zip(self.middle.parameters(), b.parameters(), strict=True):
                c.lerp_(one, 0.5)

    def point(self, t: float) -> dict[str, Tensor]:
        r"""Give the parameters $(1-t)^2a+2t(1-t)c+t^2b$ by name."""
        a, b, c = self.start, self.end, parameters_to_vector(self.middle.parameters())
        return _named(self.middle, (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b)

    def forward(self, x: Shaped[Tensor, "B ..."], t: float) -> Shaped[Tensor, "B ..."]:
        """Compute the outputs of the network at t."""
        return functional_call(self.middle, self.point(t), (x,))

    def objective(self, loss: Loss) -> Objective:
        """Give what training makes smaller: the loss of a batch at one t, uniform in [0, 1]."""

        def at_random(path: BezierPath, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
            return loss(path(batch[0], float(torch.rand((), generator=rng))), batch[1])

        return at_random

    @torch.no_grad()
    def losses(
        self, loss: Loss, x: Shaped[Tensor, "B ..."], y: Shaped[Tensor, "B ..."],
        t: Float[Tensor, " T"],
    ) -> Float[Tensor, " T"]:
        """Compute the loss at points of the path, each with batch statistics of its own."""
        model, found = copy.deepcopy(self.middle), []
        for one in t.tolist():
            model.load_state_dict(self.point(one), strict=False)
            update_bn([x], model)
            found.append(loss(model.eval()(x), y))
        return torch.stack(found)


@checked
def barrier(
    path: BezierPath, loss: Loss, x: Shaped[Tensor, "B ..."], y: Shaped[Tensor, "B ..."],
    *, points: Annotated[int, Range(3, math.inf)] = 21,
) -> float:
    r"""Measures how far the loss along a path rises above the chord between its ends.

    Args:
        path: The path, straight or trained.
        loss: Gives one number for outputs and targets.
        x: Inputs.
        y: Targets.
        points: How many points are looked at, the ends included.

    Example:
        >>> a, b = nn.Linear(1, 1), nn.Linear(1, 1)
        >>> barrier(BezierPath(a, b), F.mse_loss, torch.ones(1, 1), torch.ones(1, 1))  # convex
        0.0
    """
    t = torch.linspace(0, 1, points)
    return float(_above_chord(path.losses(loss, x, y, t), t).max())


@final
@dataclass(frozen=True, eq=False)
class Ticket:
    """Holds one round of a lottery: which weights are left, and where they begin.

    Attributes:
        masks: 1 where a weight is left, by the name of the weight.
        initial: The state of the network before any training.
        model: The network with the masks on, at its initial state: what is to be trained.

    Example:
        >>> ticket = next(iter(LotteryTicket(lambda: MLP([2, 3, 1]))))
        >>> ticket.sparsity, list(ticket.masks)
        (0.0, ['layers.0.weight', 'layers.1.weight'])
    """

    masks: Mapping[str, Tensor]
    initial: Mapping[str, Tensor]
    model: nn.Module

    @property
    def sparsity(self) -> float:
        """The share of the weights that are gone."""
        left = torch.cat([one.flatten() for one in self.masks.values()])
        return 1 - float(left.sum()) / len(left)

    def on(self, model: nn.Module) -> nn.Module:
        """Put the masks on a copy of another network, such as one with a new start."""
        return _masked(model, self.masks)


@final
class LotteryTicket:
    r"""Finds winning tickets: train, remove the smallest weights, rewind the others, again.

    Going through it gives a `Ticket` a round, at first the whole network. Whoever goes through it
    trains `ticket.model` in place; then the weights that are smallest after training are masked by
    `torch.nn.utils.prune`, and those left are back at their initial values in the next ticket.

    Args:
        model_factory: Builds the network; it is called once for each lottery.
        rounds: How often weights are removed.
        prune: Share of the weights still left that is removed in a round.
        scope: Whether the smallest of all weights go, or of each layer.

    Example:
        >>> for ticket in LotteryTicket(lambda: MLP([10, 10, 10]), 2, prune=0.5):
        ...     print(ticket.sparsity)  # and train ticket.model
        0.0
        0.5
        0.75
    """

    @checked
    def __init__(
        self, model_factory: Callable[[], nn.Module], rounds: Count = 5, *, prune: Share = 0.3,
        scope: Literal["global", "layer"] = "global",
    ) -> None:
        self.model_factory, self.rounds = model_factory, rounds
        self.prune, self.scope = prune, scope

    def __iter__(self) -> Iterator[Ticket]:
        """Give the tickets, one a round; the next one looks at how the last was trained."""
        start = self.model_factory()
        initial = copy.deepcopy(start.state_dict())
        masks = {
            f"{name}.weight": torch.ones_like(one.weight)
            for name, one in start.named_modules() if isinstance(one, PRUNED)
        }
        trained = start
        for number in range(self.rounds + 1):
            if number:
                masks = self._without_smallest(masks, trained)
            trained = _masked(start, masks)
            yield Ticket(masks, initial, trained)

    def _without_smallest(self, masks: dict[str, Tensor], trained: nn.Module) -> dict[str, Tensor]:
        state = trained.state_dict()  # the weight itself is only renewed by the next forward pass
        sizes = {name: state[f"{name}_orig"].abs().flatten() for name in masks}
        flat = {name: one.flatten() for name, one in masks.items()}
        if self.scope == "layer":
            left = [self._fewer(sizes[name], flat[name]) for name in masks]
        else:
            every_one = self._fewer(torch.cat(list(sizes.values())), torch.cat(list(flat.values())))
            left = every_one.split([one.numel() for one in masks.values()])
        pairs = zip(masks.items(), left, strict=True)
        return {name: new.view(one.shape) for (name, one), new in pairs}

    def _fewer(self, sizes: Tensor, mask: Tensor) -> Tensor:
        here, method = mask.bool(), prune.L1Unstructured(amount=self.prune)
        left = mask.clone()
        left[here] = method.compute_mask(sizes[here], mask[here])
        return left


def _risk(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Callable[..., Tensor]:
    return lambda parameters: loss(functional_call(model, parameters, (x,)), y)


def _named(model: nn.Module, flat: Tensor) -> dict[str, Tensor]:
    """Cut one vector into the parameters of a network."""
    named = dict(model.named_parameters())
    parts = flat.split([one.numel() for one in named.values()])
    pairs = zip(named.items(), parts, strict=True)
    return {name: part.view(one.shape) for (name, one), part in pairs}


def _above_chord(losses: Tensor, t: Tensor) -> Tensor:
    return losses - torch.lerp(losses[0], losses[-1], t.to(losses))


def _masked(model: nn.Module, masks: Mapping[str, Tensor]) -> nn.Module:
    twin = copy.deepcopy(model)
    for name, mask in masks.items():
        prune.custom_from_mask(twin.get_submodule(name.removesuffix(".weight")), "weight", mask)
    return twin


@claim(control={"wide": 3}, source="Choromanska et al. 2015, sec. 5")
def wide_nets_end_alike(
    seed: Seed, *, wide: Annotated[int, Range(3, 100)] = 64,
    narrow: Annotated[int, Range(3, 4)] = 3, networks: Networks = 8,
    steps: Annotated[int, Range(300, 600)] = 400,
) -> Evidence:
    r"""The wider a network, the less its final loss depends on where training began."""
    x, y, _, _ = _digits(400)
    found = []
    for width in (narrow, wide):
        nets = [
            MLP([64, width, 10], activation="tanh", rng=seed.child(one).torch())
            for one in range(networks)
        ]
        _train(nets, x, y, steps, seed.child("batches"), lr=0.02)
        found.append(torch.stack([F.cross_entropy(one(x), y) for one in nets]).detach())
    low, high = (one.std() for one in reversed(found))
    return at_most(
        low / high, 0.25, why="measured 0.01 or less; 8 networks give a deviation to about 30 %"
    ).drawn(
        *(
            Series(f"width {width}", [one] * networks, losses, role, "points")
            for one, width, losses, role in zip(
                ("narrow", "wide"), (narrow, wide), found, ("other", "measured"), strict=True
            )
        ),
        x="width of the hidden layer", y="final loss, a point a start", log="y",
    )


@claim(control={"problem": "convex quadratic"}, source="Goodfellow et al. 2016, fig. 8.1")
def gradient_norm_can_grow(
    seed: Seed, *, width: Annotated[int, Range(16, 64)] = 32,
    scale: Annotated[float, Range(0.25, 0.4)] = 0.3, lr: Annotated[float, Range(0.1, 0.2)] = 0.2,
    problem: Literal["network", "convex quadratic"] = "network",
) -> Evidence:
    r"""While the loss of a network falls, step by step, its gradient may become much longer."""
    steps = int(80 / lr)
    if problem == "network":
        x, y, _, _ = _digits(200, torch.float64)
        net = MLP([64, width, width, 10], activation="tanh", rng=seed.torch()).double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter *= scale
        path = list(_gradient_descent(net, F.cross_entropy, x, y, lr, steps))
        loss, norm = torch.tensor(path, dtype=torch.float64).T
    else:
        bowl = log_spaced(100)
        start = torch.randn(1, 100, generator=seed.torch(), dtype=torch.float64)
        bowl = bowl.at(start)
        trace = descend(
            bowl, torch.optim.SGD(bowl.parameters(), lr=lr), steps,
            record=("value", "gradient_norm"),
        )
        loss, norm = trace["value"][:, 0], trace["gradient_norm"][:, 0]
    longest = int(norm.argmax())
    when = range(len(norm))
    return every({
        "longest gradient / first": at_least(
            norm.max() / norm[0], 2, why="measured 3 and more; on a convex bowl it never exceeds 1"
        ).drawn(
            Series("length of the gradient / first", when, norm / norm[0], style="line"),
            Series("loss / first", when, loss / loss[0], "other"),
            Series("a convex bowl stays below", [0, steps], [1, 1], "bound"),
            x="step of gradient descent", y="relative to the start", log="y",
        ),
        "the loss rises until then": never(
            loss[: longest + 1].diff() > 0, of=max(longest, 1), why="it falls at every step"
        ),
    })


@claim(control={"train_steps": 0}, source="Garipov et al. 2018, sec. 3")
def modes_are_connected(
    seed: Seed, *, width: Annotated[int, Range(32, 80)] = 64,
    train_steps: Annotated[int, Range(0, 1000)] = 500,
) -> Evidence:
    r"""Between two trained networks the straight line has a barrier, a trained curve has none."""
    x, y, _, _ = _digits()
    ends = [MLP([64, width, width, 10], rng=seed.child(one).torch()) for one in "ab"]
    _train(ends, x, y, 200, seed.child("ends"))
    path, rng = BezierPath(*ends), seed.child("path").torch()
    straight, t = barrier(path, F.cross_entropy, x, y), torch.linspace(0, 1, 41)
    line = path.losses(F.cross_entropy, x, y, t)
    objective = path.objective(F.cross_entropy)
    adam = torch.optim.Adam(path.parameters(), 0.005)
    for _ in range(train_steps):
        rows = torch.randint(len(x), (64,), generator=rng)
        adam.zero_grad()
        objective(path, (x[rows], y[rows]), rng).backward()
        adam.step()
    curve = path.losses(F.cross_entropy, x, y, t)
    at_ends = torch.stack([F.cross_entropy(one(x), y) for one in ends])
    halfway = copy.deepcopy(ends[0])
    with torch.no_grad():
        for one, other in zip(halfway.parameters(), ends[1].parameters(), strict=True):
            one.add_(other).div_(2)
    return every({
        "barrier of the curve": at_most(
            barrier(path, F.cross_entropy, x, y), 0.03, why="measured 0 to 0.01"
        ).drawn(
            Series("curve", t, curve, style="line"), Series("straight line", t, line, "other"),
            Series("chord", [0, 1], at_ends.detach(), "bound"), x="t", y="loss",
        ),
        "barrier of the straight line": at_least(straight, 0.3, why="measured 0.5 and more"),
        "its height above the chord": equal(
            straight, _above_chord(line, t)[::2].max(), tol=1e-6, why="float32 rounding"
        ),
        "the ends are the networks": equal(
            curve[[0, -1]], at_ends, tol=1e-5, why="float32 rounding"
        ),
        "the line goes through the mean": equal(
            line[20], F.cross_entropy(halfway(x), y), tol=1e-5, why="float32 rounding"
        ),
    })


@claim(control={"alpha": 1.0}, source="Dinh et al. 2017, sec. 4")
def sharpness_is_not_invariant(
    seed: Seed, *, alpha: Annotated[float, Range(1, 100)] = 10.0,
    layer: Annotated[int, Range(1, 2)] = 1, width: Annotated[int, Range(8, 24)] = 12,
) -> Evidence:
    r"""Scaling ReLU layers by $\alpha$ and $1/\alpha$ keeps $f$ and changes $\lambda_{\max}$."""
    x, y, _, _ = _digits(150, torch.float64)
    net = MLP([64, width, width, 10], rng=seed.torch()).double()
    _train([net], x, y, 150, seed.child("batches"))
    factors = [alpha**share for share in (0, 0.5, 1)]
    nets = [rescale_relu(net, factor, layer) for factor in factors]
    found = torch.tensor([sharpness(one, F.cross_entropy, x, y) for one in nets])
    name = f"layers.{layer}.weight"  # of the next layer, whose curvature grows by alpha squared
    weight = {name: dict(net.named_parameters())[name]}
    block = float(hessian_extremes(_risk(net, F.cross_entropy, x, y), weight)[1][0])
    lowest = block * torch.tensor(factors) ** 2
    rng = seed.child("directions").torch()
    random = [
        perturbation_sharpness(one, F.cross_entropy, x, y, rho=0.1, rng=rng)
        - F.cross_entropy(one(x), y).item() for one in nets
    ]
    flat, axes = MLP([width, width], bias=False, rng=rng).double(), torch.eye(width).double()
    known = perturbation_sharpness(  # a parabola with the curvature 1 in every direction
        flat, lambda out, y: (out - y).square().sum() / 2, axes, flat(axes), rho=0.1, rng=rng
    )
    return every({
        "sharpness / before": at_least(
            found[-1] / found[0], 10, why="the next layer's curvature grows by the factor squared"
        ).drawn(
            Series("sharpness", factors, found),
            Series("that of the next layer, times α²", factors, lowest, "bound"),
            x="α", y="largest eigenvalue of the Hessian", log="xy",
        ),
        "outputs": identical(nets[-1](x), net(x)),
        "at least the next layer's": at_least(
            found, lowest, slack=1e-3 * lowest, why="a block of the Hessian; Lanczos to 1e-4"
        ),
        "rise in random directions": at_least(
            random[-1], 2 * random[0], why="most directions touch the sharp layer; measured 10"
        ),
        "rise of a round parabola": identical(known, 0.1**2 / 2),
    })


@claim(control={"noise": 0.0}, source="Blanc et al. 2020, sec. 3")
def label_noise_finds_flat_minima(
    seed: Seed, *, u: Annotated[float, Range(2, 6)] = 6.0,
    noise: Annotated[float, Range(0, 0.5)] = 0.5, steps: Annotated[int, Range(7000, 30_000)] = 7000,
    rows: Annotated[int, Range(200, 1000)] = 400,
) -> Evidence:
    r"""Label noise drives SGD along $uv=1$ to the flattest minimum: $u^2+v^2$ falls to 2."""
    lr, rng = 0.05, seed.torch()
    net = ScalarNet(label_noise=noise, rng=rng).at(torch.tensor([[u, 1 / u]]).expand(rows, 2))
    at = torch.linspace(0, steps, 101).long()
    trace = descend(
        net, torch.optim.SGD(net.parameters(), lr=lr), steps, record=("theta",), at=at
    )
    theta = trace["theta"]  # (T, rows, 2)
    flatness = theta.square().sum(dim=-1).median(dim=1).values
    skew = (u**2 - u**-2) * (-((lr * noise) ** 2) * trace.step.double()).exp()
    slide = (4 + skew**2).sqrt()  # (u² + v²)² = (u² - v²)² + 4 (uv)²
    return equal(
        flatness[-1], 2, tol=0.1,
        why="median of the rows: uv itself fluctuates by the root of the step size",
    ).drawn(
        Series("median sharpness", trace.step, flatness, style="line"),
        Series("u² − v² decays at the rate η²s²", trace.step, slide, "predicted"),
        Series("flattest minimum", [0, steps], [2, 2], "bound"),
        x="step", y="u² + v², the sharpness", log="y",
    )


@claim(control={"rewind": "random"}, source="Frankle and Carbin 2019, sec. 2")
def ticket_beats_reinitialization(
    seed: Seed, *, networks: Annotated[int, Range(6, 12)] = 10,
    rounds: Annotated[int, Range(3, 5)] = 3, steps: Annotated[int, Range(40, 70)] = 50,
    rewind: Literal["start", "random"] = "start",
) -> Evidence:
    r"""A pruned network trains better from its own start than from another random one."""
    x, y, x_test, y_test = _digits()

    def start(name: object) -> MLP:
        return MLP([64, 128, 64, 10], rng=seed.child(name).torch())

    share = 1 - 0.17 ** (1 / rounds)  # 17 % of the weights are left in the end
    lotteries = [
        iter(LotteryTicket(lambda one=one: start(one), rounds, prune=share))
        for one in range(networks)
    ]
    nets: list[Any] = []
    tickets: list[Ticket] = []
    for number in range(rounds + 1):
        tickets = [next(one) for one in lotteries]
        nets = [one.model for one in tickets]
        if number == rounds:
            if rewind == "random":
                nets = [one.on(start(f"own {k}")) for k, one in enumerate(tickets)]
            nets += [one.on(start(f"new {k}")) for k, one in enumerate(tickets)]
        _train(nets, x, y, steps, seed.child(f"batches {number}"))
    scores = torch.stack([accuracy(one(x_test), y_test) for one in nets]).view(2, networks)
    own, new = scores
    mean, error = _paired(own, new)
    return at_least(
        mean, 3 * error, why="3 standard errors of the mean of pairs with one mask",
        detail=f"{own.mean():.3f} against {new.mean():.3f} at "
        f"{1 - tickets[0].sparsity:.0%} of the weights",
    ).drawn(
        Series(f"rewound to: {rewind}", range(networks), own),
        Series("new start", range(networks), new, "other", "points"),
        x="network", y="test accuracy of the pruned network",
    )


@claim(control={"rewind": "late"}, source="Frankle and Carbin 2019, sec. 1")
def rewind_is_exact(
    seed: Seed, *, share: Annotated[float, Range(0.1, 0.6)] = 0.3,
    rounds: Annotated[int, Range(1, 5)] = 3, scope: Literal["global", "layer"] = "global",
    rewind: Literal["start", "late"] = "start",
) -> Evidence:
    r"""Weights that are left begin at their initial values; the others are 0 and stay 0."""
    x, y, _, _ = _digits(300)
    first = MLP([64, 32, 10], rng=seed.torch())
    begin = copy.deepcopy(first)
    if rewind == "late":
        _train([begin], x, y, 100, seed.child("early"))
    moved, stayed, largest, smallest, counts = [], [], [], [], []
    weights, before = [], []
    for ticket in LotteryTicket(lambda: begin, rounds, prune=share, scope=scope):
        net: Any = ticket.model
        masks = [one.bool() for one in ticket.masks.values()]
        for layer, own, mask in zip(net.layers, first.layers, masks, strict=True):
            moved.append(int((layer.weight != torch.where(mask, own.weight, 0)).sum()))
        counts.append([float(one.sum()) for one in masks])
        if weights:  # by what the training before this round left
            for trained, old, mask in zip(weights, before, masks, strict=True):
                largest.append(trained[old & ~mask].max())
                smallest.append(trained[mask].min())
        _train([net], x, y, 60, seed.child("batches"))
        net(x[:1])
        stayed += [int(one.weight[~mask].count_nonzero()) for one, mask in
                   zip(net.layers, masks, strict=True)]
        weights, before = [one.weight.detach().abs() for one in net.layers], masks
    left = torch.tensor(counts)
    whole = left if scope == "layer" else left.sum(dim=1, keepdim=True)
    expected = whole[0] * (1 - share) ** torch.arange(rounds + 1.0)[:, None]
    gone = torch.tensor(largest).view(rounds, -1)
    kept = torch.tensor(smallest).view(rounds, -1)
    if scope == "global":
        gone, kept = gone.max(dim=1).values, kept.min(dim=1).values
    return every({
        "surviving weights that differ": never(sum(moved), of=len(moved), why="copied bit by bit"),
        "pruned weights not 0 after training": never(
            sum(stayed), of=len(stayed), why="a product with a mask of 0"
        ),
        "weights left": equal(
            whole, expected, tol=rounds, why="each round rounds to a whole number"
        ).drawn(
            Series("weights left", range(rounds + 1), left.sum(dim=1)),
            Series("(1 − p)^k", range(rounds + 1), left[0].sum() * (1 - share)
                   ** torch.arange(rounds + 1.0), "predicted"),
            x="round k", y="weights", log="y",
        ),
        "the smallest went": at_most(gone, kept, why="sorted by size, without rounding"),
    })


@claim(control={"lr": 0.02}, source="Cohen et al. 2021, sec. 3")
def edge_of_stability(
    seed: Seed, *, lr: Annotated[float, Range(0.02, 0.3)] = 0.2,
    steps: Annotated[int, Range(2000, 6000)] = 2000, width: Annotated[int, Range(16, 32)] = 24,
) -> Evidence:
    r"""Gradient descent raises the sharpness to $2/\eta$, and there it stays."""
    x, y, _, _ = _digits(150, torch.float64)
    target = F.one_hot(y, 10).double()
    net = MLP([64, width, width, 10], activation="tanh", rng=seed.torch()).double()
    when, found, losses = range(0, steps + 1, steps // 10), [], []
    for step, (loss, _) in enumerate(_gradient_descent(net, _half_square, x, target, lr, steps)):
        if step in when:
            losses.append(loss)
            found.append(lr * sharpness(net, _half_square, x, target))
    late = torch.tensor(found[-5:])
    return equal(
        late.mean(), 2, tol=0.1, why="it swings around 2 by some percent, from above at first"
    ).drawn(
        Series("η times the sharpness", when, found),
        Series("loss", when, losses, "other"),
        Series("2: the edge of stability", [0, steps], [2, 2], "bound"),
        x="step of gradient descent", y="ηλmax, loss", log="y",
    )


@experiment(
    reaches={
        "below_dense": at_most_goal(0.003), "advantage_in_errors": at_least_goal(2.0),
        "weights_left": Range(0.1, 0.15),
    },
    floor={"advantage_in_errors": at_least_goal(2.0), "weights_left": Range(0.1, 0.2)},
    source="Frankle and Carbin (2019), sec. 2: tickets of LeNet-300-100 at this size train as well "
    "as the whole network; to beat is the same mask with a new start",
)
def lottery(
    run: Run, *, networks: Annotated[int, Range(2, 10)] = 3,
    epochs: Annotated[int, Range(1, 20)] = 3, images: Annotated[int, Range(500, 60_000)] = 10_000,
    rounds: Annotated[int, Range(1, 20)] = 10, share: Annotated[float, Range(0.1, 0.5)] = 0.283,
) -> None:
    """Prunes LeNet-300-100 round by round; each mask is trained from its start and a new one.

    Args:
        networks: Lotteries, each with its own start.
        epochs: Times through the images in each round.
        images: Pictures at full budget.
        rounds: How often weights are removed.
        share: Share of the weights left that is removed in a round.
    """
    x, y, x_test, y_test = handwriting(run)
    x, y, held = x[:images].flatten(1), y[:images], (x_test.flatten(1), y_test)
    hidden, rate, size = ([300, 100], 0.002, 100) if run.full else ([128, 64], 0.005, 50)
    rounds = rounds if run.full else (rounds + 1) // 2
    compared = list(range(rounds, 0, -2))[::-1]  # every other round, the last included
    chosen = min(compared, key=lambda k: abs((1 - share) ** k - (0.13 if run.full else 0)))

    def start(name: str) -> MLP:
        return MLP([x.shape[1], *hidden, 10], rng=run.seed.child(name).torch())

    def train(model: nn.Module, name: str, number: int) -> float:
        return fit(
            model, (x, y), Supervised(F.cross_entropy),
            torch.optim.Adam(model.parameters(), rate), epochs=epochs, batch_size=size,
            validation=held, metrics={"accuracy": accuracy},
            seed=run.seed.child(f"batches {number}"), run=run, name=f"{name}-{number}",
        ).history[-1]["validation_accuracy"]

    own, new = torch.zeros(2, networks, rounds + 1, dtype=torch.float64)
    left: list[float] = []
    for number in range(networks):
        tickets = LotteryTicket(lambda one=number: start(f"start {one}"), rounds, prune=share)
        left = []
        for k, ticket in enumerate(tickets):
            left.append(1 - ticket.sparsity)
            own[number, k] = train(ticket.model, f"round-{k}", number)
            if k in compared:
                other = ticket.on(start(f"new {k} {number}"))
                new[number, k] = train(other, f"new-{k}", number)
            if (number, k) == (0, chosen):
                run.keep(_unmasked(ticket, start("kept")))
    mean, error = _paired(own[:, chosen], new[:, chosen])
    dense, ticket_accuracy = own[:, [0, chosen]].mean(dim=0).tolist()
    run.record(
        dense_accuracy=dense, ticket_accuracy=ticket_accuracy, below_dense=dense - ticket_accuracy,
        new_start_accuracy=float(new[:, chosen].mean()), weights_left=left[chosen],
        advantage_in_errors=float(mean / error),
    )
    some = [left[k] for k in compared]
    curves = (
        Series("ticket, its own start", left, own.mean(dim=0), "measured", "line"),
        Series("same mask, new start", some, new[:, compared].mean(dim=0), "other"),
        Series("whole network", [left[-1], 1.0], [dense] * 2, "bound"),
        Series("each ticket", left * networks, own.flatten()),
        Series("each new start", some * networks, new[:, compared].flatten(), "other", "points"),
    )
    picture = Picture(curves, "share of the weights that is left", "test accuracy", log="x")
    run.figure("accuracy", figures.draw(picture))


@experiment(
    reaches={"loss_small": at_most_goal(0.05), "loss_large": at_most_goal(0.05)},
    floor={"loss_small": at_most_goal(0.05), "loss_large": at_most_goal(0.05)},
    source="Keskar et al. (2017), sec. 2: batches of either size reach the training loss; what "
    "they differ in, sharpness and test loss, is reported",
)
def small_vs_large_batch(
    run: Run, *, batch: Annotated[int, Range(2, 64)] = 8,
    images: Annotated[int, Range(200, 5000)] = 1000,
    loss: Annotated[float, Range(0.02, 0.05)] = 0.05,
) -> None:
    """Trains one start in small batches and in one large one, to the same training loss.

    Args:
        batch: Size of the small batches.
        images: Pictures to train with; the large batch has all of them.
        loss: Training loss at which both end.
    """
    x, y, x_test, y_test = handwriting(run)
    x, y, held = x[:images].flatten(1), y[:images], (x_test.flatten(1), y_test)
    nets, error = {}, {"loss": F.cross_entropy, "accuracy": accuracy}
    for name, size, lr in (("small", batch, 0.05), ("large", len(x), 0.5)):
        nets[name] = MLP([x.shape[1], 50, 10], rng=run.seed.child("init").torch())
        sgd = torch.optim.SGD(nets[name].parameters(), lr)
        fit(
            nets[name], (x, y), Supervised(F.cross_entropy), sgd, steps=20_000, batch_size=size,
            parts=[_Until(loss, x, y)], seed=run.seed.child(name), run=run, name=name,
        )
        train, test = evaluate(nets[name], (x, y), error), evaluate(nets[name], held, error)
        run.record(**{
            f"loss_{name}": train["loss"], f"test_loss_{name}": test["loss"],
            f"test_accuracy_{name}": test["accuracy"], f"gap_{name}": test["loss"] - train["loss"],
            f"sharpness_{name}": sharpness(nets[name], F.cross_entropy, x, y),
        })
    run.keep(nets["small"])
    path, t = BezierPath(nets["small"], nets["large"]), torch.linspace(0, 1, 41)
    series, sets = [], {"train": ((x, y), "line"), "test": (held, "points")}
    for name in ("straight line", "Bezier curve"):
        if name == "Bezier curve":
            adam = torch.optim.Adam(path.parameters(), 0.002)
            objective = path.objective(F.cross_entropy)
            fit(path, (x, y), objective, adam, steps=300, run=run, name="path")
        for which, (data, style) in sets.items():
            losses, kind = path.losses(F.cross_entropy, *data, t), "measured"
            kind = kind if name == "Bezier curve" else "other"
            series.append(Series(f"{name}, {which}", t, losses, kind, style))  # type: ignore[arg-type]
    picture = Picture(tuple(series), "t, from small batches (0) to the large one (1)", "loss")
    run.figure("between", figures.draw(picture))


@final
class _Until(Part):
    """Ends a training as soon as the loss of all its data is low enough."""

    def __init__(self, loss: float, x: Tensor, y: Tensor) -> None:
        self.loss, self.data = loss, (x, y)

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Measure the loss where the epoch ended; that of the row is of all its steps."""
        found = evaluate(model, self.data, {"loss": F.cross_entropy})["loss"]
        return f"the loss is {found:.4f}" if found <= self.loss else ""


def _digits(
    count: int | None = None, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Load the first so many digits to train with, flat, and all to test with."""
    x, y, x_test, y_test = digits()
    return x[:count].flatten(1).to(dtype), y[:count], x_test.flatten(1).to(dtype), y_test


def _train(
    nets: Sequence[Any], x: Tensor, y: Tensor, steps: int, seed: Seed, *, lr: float = 0.01,
    size: int = 64,
) -> None:
    """Train MLPs of one shape side by side, in place, by Adam on the same batches of digits."""
    alike, rng = list(zip(*(one.layers for one in nets), strict=True)), seed.torch()
    names = "weight_orig" if hasattr(alike[0][0], "weight_orig") else "weight", "bias"
    weights, biases = (
        [torch.stack([getattr(one, name).detach() for one in same]).requires_grad_()
         for same in alike] for name in names
    )
    masks = [torch.stack([getattr(one, "weight_mask", torch.ones(())) for one in same])
             for same in alike]
    adam = torch.optim.Adam([*weights, *biases], lr)
    for _ in range(steps):
        rows = torch.randint(len(x), (size,), generator=rng)
        out = x[rows].expand(len(nets), -1, -1)
        for k, (W, b, mask) in enumerate(zip(weights, biases, masks, strict=True)):
            W = W * mask if mask.ndim > 1 else W
            out = torch.baddbmm(b[:, None], out if k == 0 else nets[0].phi(out), W.mT)
        adam.zero_grad()
        mean = F.cross_entropy(out.flatten(0, 1), y[rows].repeat(len(nets)))
        (len(nets) * mean).backward()
        adam.step()
    with torch.no_grad():
        for name, stacks in zip(names, (weights, biases), strict=True):
            for same, stack in zip(alike, stacks, strict=True):
                for layer, one in zip(same, stack, strict=True):
                    getattr(layer, name).copy_(one)


def _gradient_descent(
    net: nn.Module, loss: Loss, x: Tensor, y: Tensor, lr: float, steps: int
) -> Iterator[tuple[float, float]]:
    """Go down on all data; before each step, and at the end, give the loss and its slope."""
    sgd = torch.optim.SGD(net.parameters(), lr)
    for _ in range(steps + 1):
        sgd.zero_grad()
        value = loss(net(x), y)
        value.backward()
        slopes = [one.grad for one in net.parameters() if one.grad is not None]
        yield value.item(), nn.utils.get_total_norm(slopes).item()
        sgd.step()


def _half_square(outputs: Tensor, target: Tensor) -> Tensor:
    return (outputs - target).square().sum(dim=-1).mean() / 2


def _paired(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Give the mean difference of pairs, and its standard error."""
    difference = a - b
    return difference.mean(), difference.std() / math.sqrt(len(difference))


def _unmasked(ticket: Ticket, like: MLP) -> MLP:
    """Give a ticket's network as an ordinary one, in which the pruned weights are 0."""
    state = ticket.model.state_dict()
    plain = {name: state[f"{name}_orig"] * mask for name, mask in ticket.masks.items()}
    like.load_state_dict({name: plain.get(name, state.get(name)) for name in like.state_dict()})
    return like
