r"""Activation functions: what is true of it, and what would refute it.

Knobs:
    points: Places at which the curves are compared.
    reach: How far from 0 the places lie, on both sides.
    formula: The formula that is held against the function; one of the two is wrong.
    name: The activation function whose derivative is looked at, or all of them.
    sigmoid: How the slope of $\sigma$ is written by tanh; without $1-$ it is wrong.
    width: Units of a layer.
    steps: Steps of training before the network is converted.
    shift: Whether the conversion corrects the biases behind tanh; without that, outputs move.
    x: The one place where the identity is computed by hand; curves reach up to it.
    sign: The sign between the two terms; with the other one the identity is wrong.
    alpha: How sharply the unit turns; 1 is torch's GELU.
    terms: Whether the derivative has both terms of the product rule; one alone is not enough.
    mask: Where the derivative is 1; it must end on both sides.
    units: Units of the layer, and its inputs.
    batch: Inputs that are sent through the layer.
    leak: The slope of a unit that is off.
    condition: Whose sign decides about the leak: that of the field $z$, or wrongly the input's.
    relu: The slopes that are stated for the kink of ReLU; beyond 1 they are none.
    depth: Layers that a gradient is sent through.
    chains: Random gradients that are sent.
    unit: The function of the units; the slope of tanh reaches 1, so that more is left.
    norm: How many times a layer of weights stretches a vector; above 1 gradients can grow.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Choice, Range, UsageError
from principia.lab.seeds import Seed
from principia.networks.activations import (
    ACTIVATIONS,
    AVU,
    LEAK,
    Activation,
    GELUAlpha,
    inverse_sigmoid,
    tanh_to_sigmoid,
)
from principia.networks.mlp import MLP

Points = Annotated[int, Range(100, 100_000)]
Reach = Annotated[float, Range(2, 100)]


@claim(control={"formula": "½(1 + tanh x)"}, source="by definition")
def tanh_sigmoid(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    formula: Literal["½(1 + tanh x/2)", "½(1 + tanh x)"] = "½(1 + tanh x/2)",
) -> Evidence:
    r"""$\tanh x=2\sigma(2x)-1$ and $\sigma(x)=\frac12(1+\tanh\frac x2)$: one curve, two scales."""
    x, scale = _stratified(seed, points, reach), 1 if formula == "½(1 + tanh x)" else 2
    tanh, sigmoid = ACTIVATIONS["tanh"].module(), ACTIVATIONS["sigmoid"].module()
    y = 0.5 + 0.49 * x / reach
    return every({
        "sigmoid": _same_curve(x, {formula: (1 + tanh(x / scale)) / 2, "σ(x)": sigmoid(x)}),
        "tanh": equal_to_rounding(2 * sigmoid(scale * x) - 1, tanh(x)),
        "inverse": equal_to_rounding(scale * torch.atanh(2 * y - 1), inverse_sigmoid(y)),
    })


def _stratified(seed: Seed, points: int, reach: float) -> Tensor:
    """Draw one place from each of equal parts of [-reach, reach], in order."""
    inside = torch.rand(points, generator=seed.torch(), dtype=torch.float64)
    return reach * (2 * (torch.arange(points) + inside) / points - 1)


def _same_curve(x: Tensor, curves: Mapping[str, Tensor]) -> Evidence:
    """Compare a formula with the truth, in this order, and draw both."""
    (formula, measured), (truth, expected) = curves.items()
    seen = torch.linspace(0, len(x) - 1, min(len(x), 300)).long()  # enough for a curve
    return equal_to_rounding(measured, expected).drawn(
        Series(formula, x[seen], measured[seen]),
        Series(truth, x[seen], expected[seen], "predicted"), x="x", y="height of the curve",
    )


@claim(
    control={"sigmoid": "¼ tanh²(x/2)"}, refutes=["σ' by tanh", "tanh' by σ"],
    source="the chain rule",
)
def derivatives(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    name: Annotated[str, Choice(("all", *ACTIVATIONS))] = "all",
    sigmoid: Literal["¼(1 - tanh²(x/2))", "¼ tanh²(x/2)"] = "¼(1 - tanh²(x/2))",
) -> Evidence:
    r"""Derivatives in closed form agree with autograd, and $\sigma^{-1}$ undoes $\sigma$."""
    x = _stratified(seed, points, reach)
    squares = torch.tanh(x / 2) ** 2, (2 * torch.sigmoid(2 * x) - 1) ** 2
    by_tanh, by_sigmoid = (
        one if sigmoid == "¼ tanh²(x/2)" else 1 - one for one in squares
    )
    ours, theirs = [], []
    for one in ACTIVATIONS if name == "all" else (name,):
        row = ACTIVATIONS[one]
        places = torch.cat([x, x.new_tensor(list(row.kinks))])  # there torch has to choose
        ours.append(row.derivative(places))
        theirs.append(_autograd_slope(row.module(), places))
    y, low = (x / reach + 1) / 2, -x.abs()  # near 1 the output has lost the digits of its field
    return every({
        "σ' by tanh": _same_curve(
            x, {sigmoid: by_tanh / 4, "σ'": _autograd_slope(nn.Sigmoid(), x)}),
        "tanh' by σ": equal_to_rounding(by_sigmoid, _autograd_slope(nn.Tanh(), x)),
        "table": equal_to_rounding(torch.cat(ours), torch.cat(theirs)),
        "σ(σ⁻¹(y)) = y": equal_to_rounding(inverse_sigmoid(y).sigmoid(), y),
        "σ⁻¹(σ(x)) = x": equal_to_rounding(inverse_sigmoid(low.sigmoid()), low),
        "no field gives 0, 1 or what lies beyond": never(
            [_has_field(one) for one in (-0.5, 0.0, 1.0, 1.5, math.nan)],
            why="σ maps onto the open interval"),
    })


def _has_field(y: float) -> bool:
    try:
        inverse_sigmoid(torch.tensor([0.5, y]))
    except UsageError:
        return False
    return True


def _autograd_slope(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Differentiate a function of one number at many places."""
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf).sum(), leaf)[0]


@claim(
    control={"shift": False},
    refutes=["2 layers", "3 layers"],
    source="tanh and sigmoid are one curve, layer by layer",
)
def network_conversion(
    seed: Seed, *, width: Annotated[int, Range(1, 200)] = 16,
    steps: Annotated[int, Range(0, 300)] = 50, shift: bool = True,
) -> Evidence:
    r"""A tanh network is a sigmoid network: `tanh_to_sigmoid` leaves every output unchanged."""
    rng, parts = seed.torch(), {}
    x = torch.randn(64, 3, generator=rng, dtype=torch.float64)
    y = torch.stack([x.sin().sum(dim=1), x.prod(dim=1)], dim=1)
    for hidden in ([width], [width] * 2):
        biased = len(hidden) > 1  # without biases, those of the sigmoid network come from W alone
        last = "softplus" if biased else None  # what stands behind the last layer stays
        net = MLP((3, *hidden, 2), activation="tanh", out_activation=last, bias=biased, rng=rng)
        net = net.double()
        adam = torch.optim.Adam(net.parameters(), lr=0.02, fused=True)
        for _ in range(steps):
            adam.zero_grad()
            F.mse_loss(net(x), y).backward()
            adam.step()
        other: Any = tanh_to_sigmoid(net)
        if not shift:
            other.layers[-1].bias.data = net.layers[-1].bias.detach() if biased else x.new_zeros(2)
        layers = other.activations(x)
        t = torch.linspace(-3, 3, 61, dtype=x.dtype)
        ray = t[:, None] * x[0]
        parts[f"{len(hidden) + 1} layers"] = equal_to_rounding(layers[-1], net(x)).drawn(
            Series("sigmoid network", t, other(ray)[:, 0]),
            Series("tanh network", t, net(ray)[:, 0], "predicted"),
            x="t, of inputs t x along a ray", y="first output",
        )
        parts[f"{len(hidden) + 1} layers: hidden outputs"] = at_least(
            torch.cat(layers[1:-1]), 0, why="those of sigmoid units; tanh has both signs"
        )
    return every(parts)


@claim(
    control={"sign": "+"},
    source="the definitions by exponentials",
    misprint=r"$1=\sinh^2x+\cosh^2x$, which is $\cosh 2x$: 6.77 at $x=1.3$",
)
def hyperbolic_identity(
    seed: Seed, *, points: Points = 1000, x: Annotated[float, Range(0.1, 5)] = 1.3,
    sign: Literal["-", "+"] = "-",
) -> Evidence:
    r"""$\cosh^2-\sinh^2=1$, so $\tanh'=1/\cosh^2$; $\sinh'=\cosh$ and $\cosh'=\sinh$."""
    z = torch.cat([_stratified(seed, points, x), torch.tensor([x], dtype=torch.float64)])
    sinh, cosh, one = z.sinh(), z.cosh(), torch.ones_like(z)
    squares = cosh**2 - sinh**2 if sign == "-" else cosh**2 + sinh**2
    odd, even = (lambda t, s=s: (t.exp() + s * (-t).exp()) / 2 for s in (-1, 1))
    return every({
        f"at x = {x:g}": equal_to_rounding(squares[-1], 1),
        "everywhere": _same_curve(z, {f"cosh² {sign} sinh²": squares, "1": one}),
        "tanh'": equal_to_rounding(
            _autograd_slope(lambda t: odd(t) / even(t), z), squares / cosh**2),
        "tanh' of the table": equal_to_rounding(
            ACTIVATIONS["tanh"].derivative(z), squares / cosh**2),
        "σ⁻¹ at ½(1 + tanh)": equal_to_rounding(  # the slope 1/(y(1 - y)) undoes that of σ
            _autograd_slope(inverse_sigmoid, z.exp() / cosh / 2) * squares, 4 * cosh**2),
        "sinh' and cosh'": equal_to_rounding(  # with a plus sign they would be those of a circle
            torch.cat([_autograd_slope(odd, z), _autograd_slope(even, z)]),
            torch.cat([cosh, sinh if sign == "-" else -sinh]),
        ),
    })


@claim(
    control={"sign": "+"}, source="Euler's formula, real and imaginary part",
    no_component="it is about sines, of which later pages make positions and rotations",
)
def angle_addition(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0, sign: Literal["-", "+"] = "-"
) -> Evidence:
    r"""$\cos(a+b)=\cos a\cos b-\sin a\sin b$, likewise the sine, and $\tan'=1/\cos^2$."""
    a, b = _stratified(seed.child("a"), points, reach), _stratified(seed.child("b"), points, reach)
    b = b[torch.randperm(points, generator=seed.torch())]
    turn = 1 if sign == "-" else -1  # the other sign is that of a - b
    slopes = _autograd_slope(lambda z: z.sin() / z.cos(), a)
    both, by_parts = a + b, a.cos() * b.cos() - turn * a.sin() * b.sin()
    ends = torch.linspace(float(both.min()), float(both.max()), 300)
    return every({
        "cosine": equal_to_rounding(by_parts, both.cos()).drawn(
            Series(f"cos a cos b {sign} sin a sin b", both[:300], by_parts[:300]),
            Series("cosine", ends, ends.cos(), "predicted"),
            x="a + b", y="cosine of the sum",
        ),
        "sine": equal_to_rounding(a.sin() * b.cos() + turn * a.cos() * b.sin(), (a + b).sin()),
        "tan' cos²": equal_to_rounding(
            slopes * a.cos() ** 2, a.cos() ** 2 + turn * a.sin() ** 2),
    })


@claim(control={"terms": "Φ(αx) alone"}, refutes=["derivative"], source="Hendrycks and Gimpel 2016")
def gelu_derivative(
    seed: Seed, *, points: Points = 1000, reach: Reach = 4.0,
    alpha: Annotated[float, Range(0.1, 10)] = 1.7, terms: Literal["both", "Φ(αx) alone"] = "both",
) -> Evidence:
    r"""$(x\Phi(\alpha x))'=\alpha x\,\phi(\alpha x)+\Phi(\alpha x)$; torch's GELU is $\alpha=1$."""
    x = _stratified(seed, points, reach)
    unit, torchs = GELUAlpha(alpha=alpha), nn.GELU()
    slopes = unit.derivative(x) if terms == "both" else torch.special.ndtr(alpha * x)
    return every({
        "derivative": _same_curve(x, {terms: slopes, "autograd": _autograd_slope(unit, x)}),
        "torch's, α = 1": equal_to_rounding(GELUAlpha()(x), torchs(x)),
        "torch's, rescaled": equal_to_rounding(unit(x), torchs(alpha * x) / alpha),
    })


@claim(control={"mask": "x > -1"}, source="by cases")
def hardtanh(
    seed: Seed, *, points: Points = 1000, reach: Reach = 3.0,
    mask: Literal["-1 <= x <= 1", "x > -1"] = "-1 <= x <= 1",
) -> Evidence:
    r"""Hardtanh is $x$ inside $[-1,1]$, else the sign of $x$; its derivative masks $[-1,1]$."""
    x = _stratified(seed, points, reach)
    x = x[x.abs() != 1]  # at a kink there is no derivative
    inside = (x.abs() <= 1 if mask == "-1 <= x <= 1" else x > -1).to(x)
    row: Activation = ACTIVATIONS["hardtanh"]
    phi = row.module()
    return every({
        "derivative": _same_curve(x, {mask: inside, "autograd": _autograd_slope(phi, x)}),
        "value": equal_to_rounding(x * inside + x.sign() * (1 - inside), phi(x)),
        "table": equal_to_rounding(row.derivative(x), inside),
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
    field = z if condition == "z" else x
    ends = torch.stack([z[:, 0].min(), z.new_zeros(()), z[:, 0].max()])
    chosen = torch.where(field > 0, z, leak * z)
    row: Activation = ACTIVATIONS["leaky_relu"]
    by_row = torch.ones_like(z).where(field > 0, LEAK)  # the slopes of a unit of the table
    return every({
        "layer": equal_to_rounding(chosen, nn.LeakyReLU(leak)(layer(x))).drawn(
            Series(f"leaks where {condition} ≤ 0", z[:, 0], chosen[:, 0]),
            Series("leaky ReLU", ends, nn.LeakyReLU(leak)(ends), "predicted"),
            x="field z of a unit", y="output of the unit",
        ),
        "slopes of the table": equal_to_rounding(row.derivative(layer(x)), by_row),
        "unit of the table": equal_to_rounding(row.module()(layer(x)), z * by_row),
    })


@claim(control={"formula": "2 (x)₊"}, refutes=["absolute value"], source="by cases")
def relu_and_absolute_value(
    seed: Seed, *, points: Points = 1000, reach: Reach = 10.0,
    formula: Literal["2 (x)₊ - x", "2 (x)₊"] = "2 (x)₊ - x",
) -> Evidence:
    r"""$(x)_+=\frac12(x+|x|)$ and $|x|=(x)_++(-x)_+=2(x)_+-x$: each rectifier makes the other."""
    x = _stratified(seed, points, reach)
    relu, avu = nn.ReLU(), AVU()
    folded = 2 * relu(x) - (x if formula == "2 (x)₊ - x" else 0)
    return every({
        "absolute value": _same_curve(x, {formula: folded, "|x|": avu(x)}),
        "two rectifiers": equal_to_rounding(relu(x) + relu(-x), avu(x)),
        "rectifier": equal_to_rounding((x + avu(x)) / 2, relu(x)),
    })


@claim(control={"relu": "[0, 2]"}, refutes=["relu"], source="Rockafellar 1970, sec. 23")
def kinks(
    seed: Seed, *, points: Points = 1000, reach: Reach = 3.0,
    relu: Literal["[0, 1]", "[0, 2]"] = "[0, 1]",
) -> Evidence:
    r"""At 0 the subgradients of $(z)_+$ are $[0,1]$, those of $|z|$ $[-1,1]$; torch takes 0."""
    x, parts, few = _stratified(seed, points, reach), {}, torch.tensor([-1.0, 0.0, 1.0])
    taken, origin = [], x.new_zeros(1)
    rows: Mapping[str, Activation] = ACTIVATIONS
    for name in ("relu", "avu", "leaky_relu"):
        row = rows[name]
        phi, stated = row.module(), (0, 2) if (name, relu) == ("relu", "[0, 2]") else row.kinks[0]
        # a subgradient g keeps the line gz below the function: g <= phi(z)/z at z > 0, else >=
        ratio = phi(x) / x
        ends = [ratio[x < 0].max(), ratio[x > 0].min()]
        parts[name] = equal(ends, stated, tol=1e-12, why="rounding of quotients").drawn(
            Series(name, few, phi(few), style="line"),
            *(Series(f"slope {g:g}", few, g * few, "bound") for g in stated), x="z", y="φ(z)",
        )
        taken += [_autograd_slope(phi, origin), row.derivative(origin)]
    sides, stated = [], []
    for row in rows.values():
        for at, ends in row.kinks.items():  # hardtanh is not convex: the slopes on either side
            sides.append(row.derivative(x.new_tensor([at - 1e-6, at + 1e-6])).sort().values)
            stated.append(x.new_tensor(ends))
        jumps = (row.derivative(x).diff().abs() > 0.5).sum()  # no other slope changes so fast
        sides.append(jumps.double()[None])
        stated.append(x.new_tensor([len(row.kinks)]))
    return every({
        **parts,
        "torch's choices": equal(
            torch.cat(taken), [0, 0, 0, 0, *[nn.LeakyReLU().negative_slope] * 2], tol=0,
            why="torch's choice of one"),
        "slopes on either side": equal_to_rounding(torch.cat(sides), torch.cat(stated)),
    })


@claim(
    control=[
        Control({"unit": "tanh"}, ["layers"], "units whose slope reaches 1"),
        Control({"norm": 6.0}, ["layers", "layers of tanh and ReLU that stretch"],
                "weights that stretch a vector six times"),
    ],
    source="Bengio, Simard and Frasconi 1994",
)
def sensitivity_bound(
    seed: Seed, *, depth: Annotated[int, Range(1, 100)] = 20,
    width: Annotated[int, Range(1, 100)] = 20, chains: Annotated[int, Range(20, 200)] = 100,
    unit: Literal["sigmoid", "tanh"] = "sigmoid", norm: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""$\sigma'\le\frac14$, $\tanh'\le1$: with $\|W\|\le1$, $L$ sigmoid layers leave $4^{-L}$."""
    x = torch.arange(-40_000, 40_001, dtype=torch.float64) / 1000
    rows: Collection[Activation] = ACTIVATIONS.values()
    layers = torch.arange(1, depth + 1, dtype=torch.float64)
    bound, why = 4.0**-layers, "a theorem, where no layer of weights stretches a vector"
    left = _gradients(seed, unit, depth, width, chains, norm)  # (depth, chains)
    others = [_gradients(seed, name, depth, width, chains, norm) for name in ("tanh", "relu")]
    return every({
        "layers": never(left > bound[:, None] * (1 + 1e-12), why=why).drawn(
            Series(f"largest gradient, {unit}", layers, left.amax(dim=1)),
            Series("4 to the -L", layers, bound, "bound"), x="layers L", y="share left", log="y",
        ),
        "steepest": equal(
            [row.derivative(x).abs().max() for row in rows], [row.sup for row in rows], tol=1e-6,
            why="the squared spacing of the places",
        ),
        "layers of tanh and ReLU that stretch": never(torch.stack(others) > 1 + 1e-12, why=why),
    })


def _gradients(
    seed: Seed, name: str, depth: int, width: int, chains: int, norm: float
) -> Tensor:
    """Send unit gradients back through layers of a norm: their norms behind 1 .. depth layers."""
    draw = functools.partial(torch.randn, generator=seed.torch(), dtype=torch.float64)
    phi, signals = ACTIVATIONS[name].module(), [draw(chains, width).requires_grad_()]
    for Q in torch.linalg.qr(draw(depth, width, width)).Q:
        signals.append(phi(norm * (signals[-1] @ Q.mT) + draw(chains, width)))
    sent = F.normalize(draw(chains, width))
    arrived = torch.autograd.grad(signals[-1], signals[:-1], sent)
    return torch.stack(arrived[::-1]).norm(dim=2)
