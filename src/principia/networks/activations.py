r"""Activation functions: what a unit makes of its field, and how much gradient it lets through.

Between linear layers stands a function of one number, $z=w^\top x+b$. The sigmoid and the
hyperbolic tangent are one function up to scale and shift, so that a network of one kind is a
network of the other with other weights; but the sigmoid's derivative never exceeds $\frac14$, and
$L$ such layers shrink a gradient at least $4^L$ times where no weight makes up for it. The
rectifier and the absolute value are linear on either side of a kink, where any slope between the
two one-sided ones is a subgradient; torch takes 0. GELU weighs its input by a Gaussian probability.

$$ \tanh x = 2\sigma(2x)-1, \quad \sigma' = \sigma(1-\sigma) = \tfrac14\big(1-\tanh^2\tfrac x2\big),
\quad \tanh' = 1-\tanh^2 = 4\sigma(2x)\big(1-\sigma(2x)\big), \quad
\sigma^{-1}(y) = \ln\frac y{1-y} $$

$$ W_1' = 2W_1, \quad b_1' = 2b_1, \quad W_2' = 2W_2, \quad b_2' = b_2-W_2\mathbf 1 $$

$$ (z)_+ = \tfrac12(z+|z|), \quad \partial(z)_+\big|_0 = [0,1], \quad \partial|z|\big|_0 = [-1,1],
\quad \frac d{dx}x\Phi(\alpha x) = \frac{\alpha x}{\sqrt{2\pi}}e^{-(\alpha x)^2/2}+\Phi(\alpha x) $$

Symbols:
    $z, x$: field of a unit, which its activation gets
    $\sigma, \sigma^{-1}$: logistic function, `nn.Sigmoid`, and its inverse, `inverse_sigmoid`
    $\varphi'$: derivative of an activation, `ACTIVATIONS[name].derivative`
    $W_l, b_l; W_l', b_l'$: weights of a tanh network and of the sigmoid one, `tanh_to_sigmoid`
    $(z)_+, |z|$: `nn.ReLU` and `AVU`
    $\partial$: subdifferential, the slopes of all lines that stay below, in `Activation.kinks`
    $\Phi, \alpha$: standard normal distribution function and its sharpness in `GELUAlpha`

References:
    Rockafellar (1970), Convex analysis. Princeton University Press. doi:10.1515/9781400873173
    Bengio, Simard and Frasconi (1994), Learning long-term dependencies with gradient descent is
        difficult. IEEE Transactions on Neural Networks 5(2). doi:10.1109/72.279181
    Maas, Hannun and Ng (2013), Rectifier nonlinearities improve neural network acoustic models.
        ICML workshop on deep learning for audio, speech and language processing.
    Hendrycks and Gimpel (2016), Gaussian error linear units (GELUs). arXiv:1606.08415
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["AVU", "Activation", "GELUAlpha", "inverse_sigmoid", "tanh_to_sigmoid"]

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from plotly.subplots import make_subplots
from torch import Tensor, nn
from torch.nn import functional as F

from principia.connectionism.delta_rule import ACTIVATIONS as UNITS
from principia.connectionism.delta_rule import EXACT
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.fashion import fashion
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Choice, Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked, knobs_of
from principia.lab.relations import at_least, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.regression.logistic import logit

Points = Annotated[int, Range(100, 100_000)]
Reach = Annotated[float, Range(2, 100)]
LEAK = 0.01  # slope of torch's leaky ReLU where the field is negative


@final
class AVU(nn.Module):
    r"""Takes the absolute value of its field, $|z|$: two rectifiers back to back.

    Example:
        >>> avu = AVU()
        >>> avu(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([2., 0., 3.])
    """

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the absolute values."""
        return z.abs()


@final
class GELUAlpha(nn.Module):
    r"""Weighs its field by a Gaussian probability, $x\Phi(\alpha x)$; at $\alpha=1$ torch's GELU.

    Args:
        alpha: Sharpness: towards 0 it is $x/2$, towards infinity the rectifier.

    Example:
        >>> gelu = GELUAlpha(alpha=1.0)
        >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    @checked
    def __init__(self, *, alpha: Positive = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the weighted fields."""
        return x * torch.special.ndtr(self.alpha * x)

    def derivative(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""Compute $\alpha x\,\varphi(\alpha x)+\Phi(\alpha x)$, $\varphi$ the normal density."""
        z = self.alpha * x
        return z * (-z.square() / 2).exp() / math.sqrt(2 * math.pi) + torch.special.ndtr(z)


@final
@dataclass(frozen=True)
class Activation:
    """Describes an activation function: a row of the table `ACTIVATIONS`.

    Args:
        module: Makes the torch module, without arguments.
        derivative: Its derivative in closed form; at a kink the one that torch takes.
        sup: Supremum of the absolute value of the derivative.
        kinks: Where the slope jumps, each with the interval between the one-sided slopes.

    Example:
        >>> relu = ACTIVATIONS["relu"]
        >>> relu.module(), relu.derivative(torch.tensor([-1.0, 2.0])), relu.sup, relu.kinks
        (ReLU(), tensor([0., 1.]), 1.0, {0.0: (0.0, 1.0)})
    """

    module: Callable[[], nn.Module]
    derivative: Callable[[Tensor], Tensor]
    sup: Positive = 1.0
    kinks: Mapping[float, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        knobs_of(type(self).__init__)["sup"].accept("Activation", self.sup)


class _Table(dict[str, Activation]):
    """A table that names all its rows when it is asked for one that it does not have."""

    def __missing__(self, name: Any) -> Activation:
        raise refuse("ACTIVATIONS", "name", f"one of {', '.join(map(repr, self))}", name)


ACTIVATIONS: Mapping[str, Activation] = _Table(
    identity=Activation(nn.Identity, UNITS["identity"].slope),
    sigmoid=Activation(nn.Sigmoid, UNITS["sigmoid"].slope, 0.25),
    tanh=Activation(nn.Tanh, UNITS["tanh"].slope),
    relu=Activation(nn.ReLU, UNITS["relu"].slope, kinks={0.0: (0.0, 1.0)}),
    leaky_relu=Activation(
        functools.partial(nn.LeakyReLU, LEAK), lambda z: torch.ones_like(z).where(z > 0, LEAK),
        kinks={0.0: (LEAK, 1.0)},
    ),
    hardtanh=Activation(
        nn.Hardtanh, lambda z: (z.abs() < 1).to(z), kinks={-1.0: (0.0, 1.0), 1.0: (0.0, 1.0)}
    ),
    gelu=Activation(
        nn.GELU, GELUAlpha().derivative,
        float(GELUAlpha().derivative(torch.tensor(2.0, dtype=torch.float64).sqrt())),
    ),
    softplus=Activation(functools.partial(nn.Softplus, threshold=EXACT), UNITS["softplus"].slope),
    avu=Activation(AVU, torch.sign, kinks={0.0: (-1.0, 1.0)}),
)


def inverse_sigmoid(y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Finds the field behind the output of a sigmoid unit, $\ln\frac y{1-y}$.

    Example:
        >>> inverse_sigmoid(torch.tensor([0.5, 0.75]))
        tensor([0.0000, 1.0986])
    """
    outside = ~((y > 0) & (y < 1))
    if outside.any():
        hint = "No finite field gives it: clamp y, or keep the field."
        raise refuse("inverse_sigmoid", "y", "in (0, 1)", float(y[outside][0]), hint)
    return logit(y)


@torch.no_grad()
def tanh_to_sigmoid(mlp: nn.Module) -> nn.Module:
    r"""Converts a tanh `MLP` into a sigmoid `MLP` with the same outputs, layer by layer.

    As $\tanh z=2\sigma(2z)-1$, a layer that hears hidden units gets the weights $2W$ and the bias
    $b-W\mathbf 1$, and a layer of hidden units is doubled as a whole. What stands behind the last
    layer stays.

    Example:
        >>> from principia.networks.mlp import MLP
        >>> net = MLP([2, 5, 5, 1], activation="tanh", rng=torch.Generator().manual_seed(0))
        >>> other, x = tanh_to_sigmoid(net), torch.tensor([[0.3, -0.7]])
        >>> other.activation, torch.allclose(other(x), net(x), atol=1e-6)
        ('sigmoid', True)
    """
    from principia.networks.mlp import MLP  # that page imports this one

    if not isinstance(mlp, MLP) or mlp.activation != "tanh":
        got = getattr(mlp, "activation", type(mlp).__name__)
        hint = "Only tanh is a sigmoid up to scale and shift."
        raise refuse("tanh_to_sigmoid", "mlp", "an MLP with activation='tanh'", got, hint)
    kept = {"out_activation": mlp.out_activation, "rng": torch.Generator()}
    made = MLP(mlp.sizes, activation="sigmoid", **kept).to(next(mlp.parameters()))
    pairs: Any = zip(mlp.layers, made.layers, strict=True)
    for number, (old, new) in enumerate(pairs, start=1):
        W, b = old.weight, 0 if old.bias is None else old.bias
        if number > 1:
            W, b = 2 * W, b - W.sum(dim=1)  # it hears 2s - 1 no more, but s
        if number < len(mlp.layers):
            W, b = 2 * W, 2 * b
        new.weight.copy_(W)
        new.bias.copy_(torch.as_tensor(b))
    return made


@claim(control={"formula": "½(1 + tanh x)"}, source="by definition")
def tanh_sigmoid(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    formula: Literal["½(1 + tanh x/2)", "½(1 + tanh x)"] = "½(1 + tanh x/2)",
) -> Evidence:
    r"""$\tanh x=2\sigma(2x)-1$ and $\sigma(x)=\frac12(1+\tanh\frac x2)$: one curve, two scales."""
    x = _grid(seed, points, reach)
    shifted = (1 + torch.tanh(x if formula == "½(1 + tanh x)" else x / 2)) / 2
    return every({
        "sigmoid": _same_curve(x, {formula: shifted, "σ(x)": x.sigmoid()}),
        "tanh": identical(2 * torch.sigmoid(2 * x) - 1, x.tanh()),
    })


@claim(control={"sigmoid": "¼ tanh²(x/2)"}, source="the chain rule")
def derivatives(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    name: Annotated[str, Choice(("all", *ACTIVATIONS))] = "all",
    sigmoid: Literal["¼(1 - tanh²(x/2))", "¼ tanh²(x/2)"] = "¼(1 - tanh²(x/2))",
) -> Evidence:
    r"""Derivatives in closed form agree with autograd, and $\sigma^{-1}$ undoes $\sigma$."""
    x = _grid(seed, points, reach)
    square, s = torch.tanh(x / 2) ** 2, torch.sigmoid(2 * x)
    by_tanh = (square if sigmoid == "¼ tanh²(x/2)" else 1 - square) / 4
    parts = {
        "σ' by tanh": _same_curve(x, {sigmoid: by_tanh, "σ'": _autograd(nn.Sigmoid(), x)}),
        "tanh' by σ": identical(4 * s * (1 - s), _autograd(nn.Tanh(), x)),
    }
    for one in ACTIVATIONS if name == "all" else (name,):
        row = ACTIVATIONS[one]
        places = torch.cat([x, x.new_tensor(list(row.kinks))])  # there torch has to choose
        parts[one] = identical(row.derivative(places), _autograd(row.module(), places))
    y, low = (x / reach + 1) / 2, -x.abs()  # near 1 the output has lost the digits of its field
    return every(parts | {
        "σ(σ⁻¹(y)) = y": identical(inverse_sigmoid(y).sigmoid(), y),
        "σ⁻¹(σ(x)) = x": identical(inverse_sigmoid(low.sigmoid()), low),
    })


@claim(control={"shift": False}, source="tanh and sigmoid are one curve, layer by layer")
def network_conversion(
    seed: Seed, *, width: Annotated[int, Range(1, 200)] = 16,
    steps: Annotated[int, Range(0, 300)] = 50, shift: bool = True,
) -> Evidence:
    r"""A tanh network is a sigmoid network: `tanh_to_sigmoid` leaves every output unchanged."""
    from principia.networks.mlp import MLP

    rng, parts = seed.torch(), {}
    x = torch.randn(64, 3, generator=rng, dtype=torch.float64)
    y = torch.stack([x.sin().sum(dim=1), x.prod(dim=1)], dim=1)
    for hidden in ([width], [width] * 2):
        net = MLP((3, *hidden, 2), activation="tanh", rng=rng).double()
        adam = torch.optim.Adam(net.parameters(), lr=0.02, fused=True)
        for _ in range(steps):
            adam.zero_grad()
            F.mse_loss(net(x), y).backward()
            adam.step()
        other: Any = tanh_to_sigmoid(net)
        if not shift:
            other.layers[-1].bias = net.layers[-1].bias
        layers = other.activations(x)
        parts[f"{len(hidden) + 1} layers"] = identical(layers[-1], net(x))
        parts[f"{len(hidden) + 1} layers, hidden outputs"] = at_least(
            torch.cat(layers[1:-1]), 0, why="those of sigmoid units; tanh has both signs"
        )
    return every(parts)


@claim(
    control={"sign": "+"}, source="the definitions by exponentials",
    misprint=r"$1=\sinh^2x+\cosh^2x$, which is $\cosh 2x$: 6.77 at $x=1.3$",
)
def hyperbolic_identity(
    seed: Seed, *, points: Points = 1000, x: Annotated[float, Range(0.1, 5)] = 1.3,
    sign: Literal["-", "+"] = "-",
) -> Evidence:
    r"""$\cosh^2-\sinh^2=1$, so $\tanh'=1/\cosh^2$; $\sinh'=\cosh$ and $\cosh'=\sinh$."""
    z = torch.cat([_grid(seed, points, x), torch.tensor([x], dtype=torch.float64)])
    sinh, cosh, one = z.sinh(), z.cosh(), torch.ones_like(z)
    squares = cosh**2 - sinh**2 if sign == "-" else cosh**2 + sinh**2
    odd, even = (lambda t, s=s: (t.exp() + s * (-t).exp()) / 2 for s in (-1, 1))
    return every({
        f"at x = {x:g}": identical(squares[-1], 1),
        "everywhere": _same_curve(z, {f"cosh² {sign} sinh²": squares, "1": one}),
        "tanh'": identical(_autograd(lambda t: odd(t) / even(t), z), cosh**-2),
        "tanh' of the table": identical(ACTIVATIONS["tanh"].derivative(z), cosh**-2),
        "sinh'": identical(_autograd(odd, z), cosh),
        "cosh'": identical(_autograd(even, z), sinh),
    })


@claim(control={"sign": "+"}, source="Euler's formula, real and imaginary part")
def angle_addition(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0, sign: Literal["-", "+"] = "-"
) -> Evidence:
    r"""$\cos(a+b)=\cos a\cos b-\sin a\sin b$, likewise the sine, and $\tan'=1/\cos^2$."""
    a, b = _grid(seed.child("a"), points, reach), _grid(seed.child("b"), points, reach)
    b = b[torch.randperm(points, generator=seed.torch())]
    crossed = a.sin() * b.sin() * (-1 if sign == "-" else 1)
    slopes = _autograd(lambda z: z.sin() / z.cos(), a)
    return every({
        "cosine": identical(a.cos() * b.cos() + crossed, (a + b).cos()),
        "sine": identical(a.sin() * b.cos() + a.cos() * b.sin(), (a + b).sin()),
        "tan' cos²": identical(slopes * a.cos() ** 2, torch.ones_like(a)),
    })


@claim(control={"terms": "Φ(αx) alone"}, source="Hendrycks and Gimpel 2016")
def gelu_derivative(
    seed: Seed, *, points: Points = 1000, reach: Reach = 4.0,
    alpha: Annotated[float, Range(0.1, 10)] = 1.7, terms: Literal["both", "Φ(αx) alone"] = "both",
) -> Evidence:
    r"""$(x\Phi(\alpha x))'=\alpha x\,\phi(\alpha x)+\Phi(\alpha x)$; torch's GELU is $\alpha=1$."""
    x = _grid(seed, points, reach)
    unit, torchs = GELUAlpha(alpha=alpha), nn.GELU()
    slopes = unit.derivative(x) if terms == "both" else torch.special.ndtr(alpha * x)
    return every({
        "derivative": _same_curve(x, {terms: slopes, "autograd": _autograd(unit, x)}),
        "torch's, α = 1": identical(GELUAlpha()(x), torchs(x)),
        "torch's, rescaled": identical(unit(x), torchs(alpha * x) / alpha),
    })


@claim(control={"mask": "x > -1"}, source="by cases")
def hardtanh(
    seed: Seed, *, points: Points = 1000, reach: Reach = 3.0,
    mask: Literal["-1 <= x <= 1", "x > -1"] = "-1 <= x <= 1",
) -> Evidence:
    r"""Hardtanh is $x$ inside $[-1,1]$, else the sign of $x$; its derivative masks $[-1,1]$."""
    x = _grid(seed, points, reach)
    x = x[x.abs() != 1]  # at a kink there is no derivative
    inside = (x.abs() <= 1).to(x)
    slopes = inside if mask == "-1 <= x <= 1" else (x > -1).to(x)
    return every({
        "derivative": _same_curve(x, {mask: slopes, "autograd": _autograd(nn.Hardtanh(), x)}),
        "value": identical(x * inside + x.sign() * (1 - inside), nn.Hardtanh()(x)),
        "table": identical(ACTIVATIONS["hardtanh"].derivative(x), inside),
    })


@claim(
    control={"condition": "x"}, source="Maas, Hannun and Ng 2013",
    misprint=r"$z=w^\top x+b$ is multiplied by $\epsilon$ for $x\le0$",
)
def leaky_relu_condition(
    seed: Seed, *, units: Annotated[int, Range(1, 500)] = 20,
    batch: Annotated[int, Range(50, 1000)] = 50, leak: Annotated[float, Range(0, 0.9)] = LEAK,
    condition: Literal["z", "x"] = "z",
) -> Evidence:
    r"""A unit leaks where its own field $z=w^\top x+b\le0$, whatever signs the inputs have."""
    draw = functools.partial(torch.randn, generator=seed.torch(), dtype=torch.float64)
    W, b, x = draw(units, units), draw(units), draw(batch, units)
    layer = nn.utils.skip_init(nn.Linear, units, units, dtype=torch.float64)
    layer.load_state_dict({"weight": W, "bias": b})
    z = torch.einsum("mn,Bn->Bm", W, x) + b
    chosen = torch.where((z if condition == "z" else x) > 0, z, leak * z)
    return identical(chosen, nn.LeakyReLU(leak)(layer(x)))


@claim(control={"formula": "2 (x)₊"}, source="by cases")
def relu_and_absolute_value(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    formula: Literal["2 (x)₊ - x", "2 (x)₊"] = "2 (x)₊ - x",
) -> Evidence:
    r"""$(x)_+=\frac12(x+|x|)$ and $|x|=(x)_++(-x)_+=2(x)_+-x$: each rectifier makes the other."""
    x = _grid(seed, points, reach)
    relu, avu = nn.ReLU(), AVU()
    folded = 2 * relu(x) - (x if formula == "2 (x)₊ - x" else 0)
    return every({
        "absolute value": _same_curve(x, {formula: folded, "|x|": avu(x)}),
        "two rectifiers": identical(relu(x) + relu(-x), avu(x)),
        "rectifier": identical((x + avu(x)) / 2, relu(x)),
    })


@claim(control={"relu": "[0, 2]"}, source="Rockafellar 1970, sec. 23")
def kinks(
    seed: Seed, *, points: Points = 1000, reach: Reach = 3.0,
    relu: Literal["[0, 1]", "[0, 2]"] = "[0, 1]",
) -> Evidence:
    r"""At 0 the subgradients of $(z)_+$ are $[0,1]$, those of $|z|$ $[-1,1]$; torch takes 0."""
    x, parts, few = _grid(seed, points, reach), {}, torch.tensor([-1.0, 0.0, 1.0])
    for name in ("relu", "avu", "leaky_relu"):
        row = ACTIVATIONS[name]
        phi, stated = row.module(), (0, 2) if (name, relu) == ("relu", "[0, 2]") else row.kinks[0]
        # a subgradient g keeps the line gz below the function: g <= phi(z)/z at z > 0, else >=
        ratio = phi(x) / x
        ends = [ratio[x < 0].max(), ratio[x > 0].min()]
        parts[name] = equal(ends, stated, tol=1e-12, why="rounding of quotients").drawn(
            Series(name, few, phi(few), style="line"),
            *(Series(f"slope {g:g}", few, g * few, "bound") for g in stated), x="z", y="",
        )
        taken, choice = _autograd(phi, x.new_zeros(1)), LEAK if name == "leaky_relu" else 0
        parts[f"torch's for {name}"] = equal(taken, choice, tol=0, why="torch's choice of one")
    for name, row in ACTIVATIONS.items():
        for at, ends in row.kinks.items():  # hardtanh is not convex: the slopes on either side
            sides = row.derivative(x.new_tensor([at - 1e-6, at + 1e-6])).sort().values
            parts[f"{name} at {at:g}, sides"] = identical(sides, ends)
    return every(parts)


@claim(control={"unit": "tanh"}, source="Bengio, Simard and Frasconi 1994")
def sensitivity_bound(
    seed: Seed, *, depth: Annotated[int, Range(1, 100)] = 20,
    width: Annotated[int, Range(1, 100)] = 20, chains: Annotated[int, Range(20, 200)] = 100,
    unit: Literal["sigmoid", "tanh"] = "sigmoid",
) -> Evidence:
    r"""$\sigma'\le\frac14$ and $\tanh'\le1$: $L$ sigmoid layers shrink a gradient $4^L$ times."""
    x = torch.arange(-40_000, 40_001, dtype=torch.float64) / 1000
    rows = ACTIVATIONS.values()
    layers = torch.arange(1, depth + 1, dtype=torch.float64)
    bound, why = 4.0**-layers, "a theorem, where no layer of weights stretches a vector"
    left = _gradients(seed, unit, depth, width, chains)  # (depth, chains)
    parts = {
        f"{unit} layers": never(left > bound[:, None] * (1 + 1e-12), why=why).drawn(
            Series("largest gradient", layers, left.amax(dim=1)),
            Series("4 to the -L", layers, bound, "bound"), x="layers L", y="share left", log="y",
        ),
        "steepest": equal(
            [row.derivative(x).abs().max() for row in rows], [row.sup for row in rows], tol=1e-6,
            why="the squared spacing of the places",
        ),
        "σ' at 0": identical(_autograd(nn.Sigmoid(), x.new_zeros(1)), x.new_tensor([0.25])),
        "ReLU' other than 0, 1": never(
            ~torch.isin(_autograd(nn.ReLU(), x), x.new_tensor([0, 1])), why="by cases"
        ),
    }
    for name in ("tanh", "relu"):
        grown = _gradients(seed, name, depth, width, chains) > 1 + 1e-12
        parts[f"{name} layers that stretch"] = never(grown, why=why)
    return every(parts)


@experiment(
    reaches={"relu_accuracy": at_least_goal(0.871), "tanh_accuracy": at_least_goal(0.868)},
    floor={f"{name}_accuracy": at_least_goal(0.93) for name in ACTIVATIONS if name != "identity"},
    source="Xiao, Rasul and Vollgraf (2017), Table 3: MLPClassifier, 100 hidden units",
)
def activation_table(
    run: Run, *, epochs: Count = 10, width: Count = 100, batch: Count = 64, lr: Positive = 0.003
) -> None:
    """Trains one hidden layer with each activation: Fashion-MNIST, or 8 x 8 digits when quick."""
    from principia.networks.mlp import MLP

    clothes = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    x, y, x_test, y_test = itertools.chain(*clothes) if run.full else handwriting(run)
    sizes, scores = (x[0].numel(), width, 10), {}
    peak = lr if run.full else 3 * lr  # the digits are 40 times fewer: fewer steps, longer ones
    for name in ACTIVATIONS:
        model = MLP(sizes, activation=name, rng=run.seed.child("init").torch())
        adam = torch.optim.Adam(model.parameters())
        trained = fit(
            model, (x.flatten(1), y), Supervised(F.cross_entropy), adam, epochs=epochs,
            batch_size=batch, parts=[OneCycle(peak)], validation=(x_test.flatten(1), y_test),
            metrics={"accuracy": accuracy}, seed=run.seed.child("fit"), run=run, name=name,
        )
        scores[name] = trained.history[-1]["validation_accuracy"]
        run.record(**{f"{name}_accuracy": scores[name]})
        if name == "relu":
            run.keep(model)
    bars = Series("test accuracy", list(scores), list(scores.values()), style="bars")
    figure = figures.draw(Picture((bars,), "activation", "test accuracy"))
    figure.update_yaxes(range=[min(scores.values()) - 0.01, max(scores.values()) + 0.01])
    run.figure("accuracy", figure)
    run.figure("functions", _gallery())


def _gallery() -> Any:
    """Draw every activation with its derivative."""
    x, figure = torch.linspace(-3, 3, 301), make_subplots(3, 3, subplot_titles=list(ACTIVATIONS))
    for place, row in enumerate(ACTIVATIONS.values()):
        value = Series("function", x, row.module()(x), style="line")
        picture = Picture((value, Series("derivative", x, row.derivative(x), "bound")))
        for trace in figures.draw(picture).data:
            trace.showlegend = place == 0
            figure.add_trace(trace, row=place // 3 + 1, col=place % 3 + 1)
    return figure.update_layout(template="plotly_white", height=640)


def _grid(seed: Seed, points: int, reach: float) -> Tensor:
    """Draw one place from each of equal parts of [-reach, reach], in order."""
    inside = torch.rand(points, generator=seed.torch(), dtype=torch.float64)
    return reach * (2 * (torch.arange(points) + inside) / points - 1)


def _same_curve(x: Tensor, curves: Mapping[str, Tensor]) -> Evidence:
    """Compare a formula with the truth, in this order, and draw both."""
    (formula, measured), (truth, expected) = curves.items()
    seen = torch.linspace(0, len(x) - 1, min(len(x), 300)).long()  # enough for a curve
    return identical(measured, expected).drawn(
        Series(formula, x[seen], measured[seen]),
        Series(truth, x[seen], expected[seen], "predicted"), x="x", y="",
    )


def _autograd(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Differentiate a function of one number at many places."""
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


def _gradients(seed: Seed, name: str, depth: int, width: int, chains: int) -> Tensor:
    """Send unit gradients back through orthogonal layers: their norms behind 1 .. depth layers."""
    draw = functools.partial(torch.randn, generator=seed.torch(), dtype=torch.float64)
    phi, signals = ACTIVATIONS[name].module(), [draw(chains, width).requires_grad_()]
    for W in torch.linalg.qr(draw(depth, width, width)).Q:
        signals.append(phi(signals[-1] @ W.mT + draw(chains, width)))
    sent = F.normalize(draw(chains, width))
    arrived = torch.autograd.grad(signals[-1], signals[:-1], sent)
    return torch.stack(arrived[::-1]).norm(dim=2)
