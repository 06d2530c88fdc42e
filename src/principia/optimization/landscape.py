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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, prune
from torch.optim.swa_utils import update_bn

from principia.lab.params import PositiveFloat, PositiveInt, Range, checked, usage_error
from principia.lab.training import Objective
from principia.networks.mlp import MLP, need_plain_units
from principia.optimization.smoothness import Loss, cut, flattened, hessian_extremes, risk_of

Share = Annotated[float, Range(0, 1, open="both")]
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
    risk = risk_of(model, loss, x, y)
    return float(hessian_extremes(risk, dict(model.named_parameters()))[1][0])


@checked
def perturbation_sharpness(
    model: nn.Module, loss: Loss, x: Shaped[Tensor, "B ..."], y: Shaped[Tensor, "B ..."],
    *, rho: PositiveFloat, directions: PositiveInt = 100, rng: torch.Generator | None = None,
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
    here, rebuild = flattened(dict(model.named_parameters()))
    risk = risk_of(model, loss, x, y)
    ways = torch.randn(directions, len(here), generator=rng, dtype=here.dtype)
    steps = rho * F.normalize(ways, dim=1).to(here.device)
    with torch.no_grad():
        moved = vmap(lambda step: risk(rebuild(here + step)), chunk_size=20)
        return float(moved(steps).max())


@checked
def rescale_relu(model: MLP, alpha: PositiveFloat, layer: PositiveInt = 1) -> MLP:
    r"""Multiplies a hidden layer by $\alpha$ and divides the next one: the function stays.

    Args:
        model: The network, without norms and with $\varphi(cz)=c\varphi(z)$ for $c>0$; it is left
            as it is.
        alpha: The factor.
        layer: Which hidden layer, from 1 to $L-1$.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(rescale_relu(mlp, 10.0)(x), mlp(x), atol=1e-5)
        True
    """
    need_plain_units("rescale_relu", "model", model)
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)
    if not torch.allclose(model.phi(2 * z), 2 * model.phi(z), rtol=1e-12, atol=0):
        hint = "ReLU is: it commutes with positive factors."
        owner, what = "rescale_relu", "the activation"
        raise usage_error(owner, what, "positively homogeneous", model.activation, hint)
    if layer >= len(model.layers):
        domain = f"a hidden layer, 1 to {len(model.layers) - 1}"
        raise usage_error("rescale_relu", "layer", domain, layer)
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
            raise usage_error("BezierPath", "b", domain, shapes[1])
        self.register_buffer("start", parameters_to_vector(a.parameters()).detach())
        self.register_buffer("end", parameters_to_vector(b.parameters()).detach())
        self.middle = copy.deepcopy(a).requires_grad_()
        with torch.no_grad():
            for c, one in zip(self.middle.parameters(), b.parameters(), strict=True):
                c.lerp_(one, 0.5)

    def point(self, t: float) -> dict[str, Tensor]:
        r"""Give the parameters $(1-t)^2a+2t(1-t)c+t^2b$ by name."""
        a, b, c = self.start, self.end, parameters_to_vector(self.middle.parameters())
        at = (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
        return cut(at, dict(self.middle.named_parameters()))

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
        >>> a, b = (MLP([1, 1], rng=torch.Generator().manual_seed(seed)) for seed in (0, 1))
        >>> barrier(BezierPath(a, b), F.mse_loss, torch.ones(1, 1), torch.ones(1, 1))  # convex
        0.0
    """
    t = torch.linspace(0, 1, points)
    return float(above_chord(path.losses(loss, x, y, t), t).max())


def above_chord(losses: Tensor, t: Tensor) -> Tensor:
    """Measure how far losses along a path rise above the line between its ends."""
    return losses - torch.lerp(losses[0], losses[-1], t.to(losses))


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


def _masked(model: nn.Module, masks: Mapping[str, Tensor]) -> nn.Module:
    twin = copy.deepcopy(model)
    for name, mask in masks.items():
        prune.custom_from_mask(twin.get_submodule(name.removesuffix(".weight")), "weight", mask)
    return twin


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
        self, model_factory: Callable[[], nn.Module], rounds: PositiveInt = 5, *,
        prune: Share = 0.3, scope: Literal["global", "layer"] = "global",
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
