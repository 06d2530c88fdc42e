r"""Residual networks: layers that add to their input, so that depth costs no gradient.

A residual layer passes its input on and adds a correction, which is 0 where its weights are 0: what
a network can do, a deeper one can do by adding nothing. The derivative of a layer is the identity
plus that of its branch, so that the product of many does not vanish. Without an activation the
product is a sum over $2^L$ paths, each through some of the layers and around the others, most of
them half as long as the network is deep; with one, the sum is no longer exact, but a trained
network still loses little with any one layer. Dense blocks do not add but concatenate: each layer
reads what all the earlier ones have made, and the input itself.

$$ F(x) = Vx+[\varphi(Wx+b)-\varphi(0)], \quad V = I \ \text{where}\ m = n $$

$$ y_k = y_{k-1}+\alpha f(y_{k-1},\Theta_k), \quad
\frac{\partial\ell}{\partial\Theta_k} = \frac{\partial\ell}{\partial y_L}
\prod_{j=L}^{k+1}\Big(I+\alpha\frac{\partial f}{\partial y_{j-1}}\Big)\,
\alpha\frac{\partial f(y_{k-1},\Theta_k)}{\partial\Theta_k} $$

$$ (I+W_L)\cdots(I+W_1) = \sum_{S\subseteq\{1,\dots,L\}}\prod_{l\in S}W_l, \quad
x^{l+1} = F^{l+1}([x^l,\dots,x^1,x]) $$

Symbols:
    $F$: layer from width $n$ to $m$, `ResidualLayer`, with branch weights $W, b$ and shortcut $V$
    $y_k$: state behind layer $k$, entry `k` of `SkipNetwork.states`; $y_0$ is the input
    $f, \Theta_k$: the branches, `SkipNetwork.branches`, and the weights of the one of layer $k$
    $\alpha$: factor of all branches, `alpha`
    $\prod_{j=L}^{k+1}$: product in decreasing order of $j$, `skip_jacobian(net, x, since=k)`
    $S$: a path: the layers whose branch it takes; `path_expansion` lists all products
    $[x^l,\dots,x]$: outputs of all layers so far and the input, side by side, in `DenseBlock`

References:
    He, Zhang, Ren and Sun (2015), Delving deep into rectifiers: surpassing human-level performance
        on ImageNet classification. ICCV. doi:10.1109/ICCV.2015.123
    He, Zhang, Ren and Sun (2016), Deep residual learning for image recognition. CVPR.
        doi:10.1109/CVPR.2016.90
    He, Zhang, Ren and Sun (2016), Identity mappings in deep residual networks. ECCV.
        doi:10.1007/978-3-319-46493-0_38
    Veit, Wilber and Belongie (2016), Residual networks behave like ensembles of relatively shallow
        networks. NeurIPS. arXiv:1605.06431
    Huang, Liu, van der Maaten and Weinberger (2017), Densely connected convolutional networks.
        CVPR. doi:10.1109/CVPR.2017.243
"""

__all__ = [
    "ResidualMLP", "ResidualLayer", "SkipNetwork", "DenseBlock", "path_expansion", "skip_jacobian",
]

import copy
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Natural, NonNegative, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Role, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.relations import at_least, at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, accuracy, fit
from principia.lab.training.metrics import evaluate
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, ActivationName

Dim = Annotated[int, Range(2, 50)]
Points = Annotated[int, Range(10, 10_000)]
SIGMOID_FIRST = sorted(ACTIVATIONS, key=lambda name: name != "sigmoid")  # its φ(0) is not 0
COLORS: Mapping[str, Role] = {"plain": "predicted", "residual": "measured", "dense": "other"}
LONGEST = 20  # layers of a path expansion: 2^20 matrices, a million


@final
class _Branch(nn.Module):
    r"""A layer that gives 0 where its weights are 0: $\varphi(Wx+b)-\varphi(0)$."""

    def __init__(self, n: int, m: int, activation: str, rng: torch.Generator | None) -> None:
        super().__init__()
        self.linear = _linear(n, m, rng)
        self.phi = ACTIVATIONS[activation].module()
        self.at_zero = float(self.phi(torch.zeros(1, dtype=torch.float64)))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        outputs = self.phi(self.linear(x))
        return outputs - self.at_zero if self.at_zero else outputs


@final
class ResidualLayer(nn.Module):
    r"""Adds a correction to its input: $x+[\varphi(Wx+b)-\varphi(0)]$, or $Vx$ instead of $x$.

    Shapes:
        x: (..., n); returns (..., m)

    Args:
        n: Width of the input.
        m: Width of the output; by default that of the input.
        activation: Name of $\varphi$ in `ACTIVATIONS`.
        project: Whether the shortcut is a matrix $V$, as it must be where the widths differ. It
            starts as the identity: coordinates are copied, what is missing is 0.
        zero: Whether $W=0$ to begin with, so that the layer is its shortcut.
        rng: Draws $W$, normal with variance $2/n$; by default torch's global generator.

    Example:
        >>> layer = ResidualLayer(3, m=5, project=True, activation="sigmoid", zero=True)
        >>> y = layer(torch.tensor([1.0, 2.0, 3.0]))
        >>> y.tolist()
        [1.0, 2.0, 3.0, 0.0, 0.0]
    """

    @checked
    def __init__(
        self, n: Count, *, m: Count | None = None, activation: ActivationName = "relu",
        project: bool = False, zero: bool = False, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        m = m or n
        if m != n and not project:
            hint = "Pass project=True, or an m that equals n."
            raise refuse("ResidualLayer", "project", f"true from width {n} to {m}", project, hint)
        self.branch = _Branch(n, m, activation, rng)
        self.shortcut: Any = None
        if project:
            self.shortcut = nn.utils.skip_init(nn.Linear, n, m, bias=False)
            nn.init.eye_(self.shortcut.weight)
        if zero:
            nn.init.zeros_(self.branch.linear.weight)

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Add the branch to the shortcut."""
        _need_width("ResidualLayer", self.branch.linear.in_features, x)
        return (x if self.shortcut is None else self.shortcut(x)) + self.branch(x)


@final
class SkipNetwork(nn.Module):
    r"""Adds one branch after the other to its state: $y_k=y_{k-1}+\alpha f(y_{k-1},\Theta_k)$.

    Args:
        f: Makes a branch, a module that keeps the shape of its input; called once a layer.
        depth: Number of layers.
        alpha: Factor of all branches; with $1/\sqrt{\text{depth}}$ the sum of random branches with
            mean 0 stays of the size of one, however many there are.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> net = SkipNetwork(lambda: MLP([4, 8, 4], rng=rng), depth=3, alpha=0.5)
        >>> y = net(torch.ones(2, 4))
        >>> y.shape, len(net.branches)
        (torch.Size([2, 4]), 3)
    """

    @checked
    def __init__(
        self, f: Callable[[], nn.Module], *, depth: Count, alpha: NonNegative = 1.0
    ) -> None:
        super().__init__()
        self.alpha, self.branches = alpha, nn.ModuleList(f() for _ in range(depth))

    def forward(self, y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the last state."""
        return self.states(y)[-1]

    def states(self, y: Float[Tensor, "*shape"]) -> list[Float[Tensor, "*shape"]]:
        r"""List every state from the input $y_0$ to the last: entry `k` is $y_k$."""
        states = [y]
        for number, branch in enumerate(self.branches, start=1):
            step = branch(y)
            if step.shape != y.shape:  # a sum would broadcast
                domain = f"of shape {tuple(y.shape)} behind branch {number}, like its input"
                hint = "A layer that changes the width needs ResidualLayer(..., project=True)."
                raise refuse("SkipNetwork", "f", domain, tuple(step.shape), hint)
            y = torch.add(y, step, alpha=self.alpha)
            states.append(y)
        return states


@final
class ResidualMLP(nn.Module):
    r"""Maps inputs to a width, adds branches $\varphi(Wy+b)-\varphi(0)$ there, and reads out.

    Shapes:
        x: (..., n_in); returns (..., n_out)

    Args:
        n_in: Width of the input.
        width: Width of the states.
        depth: Number of residual layers, between two linear ones.
        n_out: Width of the output.
        alpha: Factor of the branches; at 1 the states of deep networks explode with the depth $L$,
            at $1/\sqrt L$ they grow like $e^{c\sqrt L}$ with rectifiers, whose mean is not 0.
        activation: Name of $\varphi$ in `ACTIVATIONS`.
        rng: Draws weights, normal with variance $2/n$; by default torch's global generator.

    Example:
        >>> net = ResidualMLP(64, width=32, depth=50, n_out=10, alpha=50**-0.5)
        >>> logits = net(torch.zeros(7, 64))
        >>> logits.shape, len(net.layers)
        (torch.Size([7, 10]), 52)
    """

    @checked
    def __init__(
        self, n_in: Count, *, width: Count, depth: Count, n_out: Count, alpha: NonNegative = 1.0,
        activation: ActivationName = "relu", rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.enter = _linear(n_in, width, rng)
        branch = functools.partial(_Branch, width, width, activation, rng)
        self.body = SkipNetwork(branch, depth=depth, alpha=alpha)
        self.leave = _linear(width, n_out, rng)

    @property
    def layers(self) -> Sequence[nn.Linear]:
        """All linear maps, from the input to the output."""
        inner: Any = self.body.branches
        return [self.enter, *(branch.linear for branch in inner), self.leave]

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute the outputs."""
        _need_width("ResidualMLP", self.enter.in_features, x)
        return self.leave(self.body(self.enter(x)))


@final
class DenseBlock(nn.Module):
    r"""Lets every layer read all earlier ones: $x^{l+1}=\varphi(W[x^l,\dots,x^1,x]+b)$.

    Shapes:
        x: (..., n); returns (..., n + depth * growth), the input last

    Args:
        n: Width of the input.
        growth: Units of each layer.
        depth: Number of layers.
        activation: Name of $\varphi$ in `ACTIVATIONS`.
        rng: Draws weights, normal with variance $2/n$; by default torch's global generator.

    Example:
        >>> block = DenseBlock(3, growth=2, depth=4)
        >>> y = block(torch.tensor([1.0, 2.0, 3.0]))
        >>> block.widths, y[-3:].tolist()
        ((3, 5, 7, 9, 11), [1.0, 2.0, 3.0])
    """

    @checked
    def __init__(
        self, n: Count, *, growth: Count, depth: Count, activation: ActivationName = "relu",
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.widths = tuple(n + number * growth for number in range(depth + 1))
        self.layers = nn.ModuleList(_linear(width, growth, rng) for width in self.widths[:-1])
        self.phi = ACTIVATIONS[activation].module()

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Put what each layer makes before all that it has read."""
        _need_width("DenseBlock", self.widths[0], x)
        for layer in self.layers:
            x = torch.cat([self.phi(layer(x)), x], dim=-1)
        return x


@checked
def path_expansion(matrices: Float[Tensor, "L n n"]) -> Float[Tensor, "P n n"]:
    r"""Lists the $2^L$ products that sum to $(I+W_L)\cdots(I+W_1)$, one a path.

    Path number $s$ takes the branch of layer $l$ if bit $l-1$ of $s$ is set: the first path is $I$,
    the last takes all. With branches scaled by $\alpha$, pass $\alpha W_l$.

    Example:
        >>> path_expansion(torch.tensor([[[2.0]], [[3.0]]])).flatten().tolist()
        [1.0, 2.0, 3.0, 6.0]
    """
    if len(matrices) > LONGEST:
        hint = "Multiply the factors I + W instead; there are 2^L paths."
        raise refuse("path_expansion", "L", f"at most {LONGEST}", len(matrices), hint)
    paths = torch.eye(matrices.shape[-1]).to(matrices)[None]
    for W in matrices:
        paths = torch.cat([paths, W @ paths])
    return paths


@checked
def skip_jacobian(
    net: SkipNetwork, x: Float[Tensor, "*B n"], *, since: Natural = 0
) -> Float[Tensor, "*B n n"]:
    r"""Multiplies the derivatives of the layers: $\partial y_L/\partial y_k$, the last one first.

    Args:
        net: The network, whose states are vectors.
        x: Inputs $y_0$.
        since: The state $y_k$ that is varied; by default the input.

    Example:
        >>> net = SkipNetwork(lambda: torch.nn.Tanh(), depth=2)
        >>> skip_jacobian(net, torch.zeros(3)).diagonal()
        tensor([4., 4., 4.])
    """
    if since > len(net.branches):
        domain = f"one of the states, 0 to {len(net.branches)}"
        raise refuse("skip_jacobian", "since", domain, since)
    n = x.shape[-1]
    states, identity = net.states(x.detach().reshape(-1, n)), torch.eye(n).to(x)
    product = identity.expand(len(states[0]), n, n)
    for branch, y in list(zip(net.branches, states[:-1], strict=True))[since:]:
        copies = y.detach().repeat(n, 1, 1).requires_grad_()  # (n, B, n): one for each output
        with torch.enable_grad():
            outputs = branch(copies)
        rows = torch.autograd.grad(outputs, copies, identity[:, None].expand_as(copies))[0]
        product = (identity + net.alpha * rows.transpose(0, 1)) @ product
    return product.reshape(*x.shape, n)


@learner
def network(
    inputs: Count, outputs: Count, rng: torch.Generator, *, width: Count = 64, depth: Count = 8
) -> nn.Module:
    """Builds a residual network with branches scaled by 1/√depth for any table.

    Args:
        width: Width of the states.
        depth: Number of residual layers.
    """
    return ResidualMLP(inputs, width=width, depth=depth, n_out=outputs, alpha=depth**-0.5, rng=rng)


def _he(linear: nn.Linear, rng: torch.Generator | None) -> nn.Linear:
    """Draw weights behind whose rectifiers signals keep their size: variance 2/n, biases 0."""
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu", generator=rng)
    nn.init.zeros_(linear.bias)
    return linear


def _linear(n: int, m: int, rng: torch.Generator | None) -> nn.Linear:
    empty: Any = nn.utils.skip_init(nn.Linear, n, m)
    return _he(empty, rng)


def _need_width(owner: str, n: int, x: Tensor) -> None:
    """Refuse inputs of another width; pictures that nobody flattened are the usual reason."""
    if x.shape[-1:] != (n,):
        hint = "Flatten pictures with x.flatten(1)." if math.prod(x.shape[1:]) == n else ""
        raise refuse(owner, "x", f"of width {n}", f"shape {tuple(x.shape)}", hint)


@claim(control={"offset": "none"}, source="He, Zhang, Ren and Sun 2016, CVPR, sec. 3.1")
def identity_at_zero(
    seed: Seed, *, dim: Dim = 10, points: Points = 100, offset: Literal["φ(0)", "none"] = "φ(0)"
) -> Evidence:
    r"""With $W=0$ and $b=0$ a residual layer is the identity, exactly, for every $\varphi$."""
    rng, parts = seed.torch(), {}
    x = randn(rng, points, dim)
    for name in SIGMOID_FIRST:
        kept = ACTIVATIONS[name].module()(x.new_zeros(1)) if offset == "none" else 0
        for extra in (None, 0, 3):
            layer = ResidualLayer(
                dim, m=dim + (extra or 0), activation=name, project=extra is not None, zero=True,
                rng=rng,
            ).double()
            shortcut = "x" if extra is None else f"Vx, {extra} more outputs"
            parts[f"{name}, {shortcut}"] = equal(
                layer(x) + kept, functional.pad(x, (0, extra or 0)), tol=0,
                why="exact: φ(0) - φ(0) is 0",
            )
    net = ResidualMLP(dim, width=dim, depth=5, n_out=dim, alpha=0.0, rng=rng).double()
    affine = net.leave(net.enter(x))
    return every({**parts, "branches times α = 0": equal(net(x), affine, tol=0, why="exact")})


@claim(
    control={"offset": "none"}, source="He, Zhang, Ren and Sun 2016, CVPR, eq. 2",
    misprint=r"$\varphi(Wx+b)+Vx$, residual for $V=I$: $\frac12$ off for $\sigma$",
)
def projected_residual(
    seed: Seed, *, n: Dim = 10, m: Dim = 6, points: Points = 100,
    offset: Literal["φ(0)", "none"] = "φ(0)",
) -> Evidence:
    r"""$Vx+[\varphi(Wx+b)-\varphi(0)]$ changes the width; $V=I$ recovers the residual layer."""
    rng, parts = seed.torch(), {}
    x = randn(rng, points, n)
    for name in SIGMOID_FIRST:
        phi = ACTIVATIONS[name].module()
        rest = phi(x.new_zeros(1)) if offset == "φ(0)" else 0
        layers = {
            "V = I": ResidualLayer(n, activation=name, rng=rng),
            f"from {n} to {m}": ResidualLayer(n, m=m, activation=name, project=True, rng=rng),
        }
        for kind, layer in layers.items():
            for parameter in layer.double().parameters():
                _set(parameter, randn(rng, *parameter.shape))
            linear = layer.branch.linear
            V = torch.eye(n).to(x) if layer.shortcut is None else layer.shortcut.weight
            bent = phi(torch.einsum("mn,bn->bm", linear.weight, x) + linear.bias)
            parts[f"{name}, {kind}"] = identical(
                torch.einsum("mn,bn->bm", V, x) + bent - rest, layer(x)
            )
    return every(parts)


@claim(
    control={"activation": "tanh"}, source="Veit, Wilber and Belongie 2016, sec. 3",
    misprint=r"$x+\varphi(W_1x)+\varphi(W_2x)+\varphi(W_2\varphi(W_1x))$ for nonlinear $\varphi$",
)
def path_count(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 8, dim: Annotated[int, Range(2, 30)] = 8,
    activation: Literal["identity", "tanh", "relu"] = "identity",
) -> Evidence:
    r"""$L$ linear layers are a sum over $2^L$ paths, $\binom Lk$ of them through $k$ branches."""
    rng, phi = seed.torch(), ACTIVATIONS[activation].module()
    net, x = _bent_network(rng, dim, depth, activation, gain=1.0), randn(rng, 50, dim)
    Ws = torch.stack([one.detach() for one in net.parameters() if one.ndim == 2])
    walked = x[None]
    for W in Ws:
        walked = torch.cat([walked, phi(walked @ W.mT)])  # around the layer, and through it
    paths = path_expansion(Ws)
    lengths = path_expansion(x.new_full((depth, 1, 1), 2)).flatten().log2().long()
    counts, steps = torch.bincount(lengths), range(depth + 1)
    binomial = [math.comb(depth, k) for k in steps]
    return every({
        "number of paths": equal(len(paths), 2**depth, tol=0, why="a count"),
        "paths of each length": equal(counts, binomial, tol=0, why="a count").drawn(
            Series("paths", steps, counts, style="bars"),
            Series("L over k", steps, binomial, "predicted", "points"),
            x="branches k on the path", y="number of paths",
        ),
        "network = sum over paths": identical(walked.sum(dim=0), net(x)),
        "product = sum of products": identical(
            paths.sum(dim=0), torch.linalg.multi_dot([*(Ws + torch.eye(dim).to(Ws)).flip(0)])
        ),
        "each path": identical(x @ paths.mT, walked),
    })


@claim(control={"order": "increasing j"}, source="the chain rule; He et al. 2016, ECCV, eq. 5")
def skip_gradient_product(
    seed: Seed, *, depth: Annotated[int, Range(3, 20)] = 6, dim: Annotated[int, Range(2, 30)] = 8,
    alpha: Annotated[float, Range(0.05, 1)] = 0.7,
    order: Literal["decreasing j", "increasing j"] = "decreasing j",
) -> Evidence:
    r"""$\partial\ell/\partial\Theta_k$ has the factors $I+\alpha\,\partial f/\partial y_{j-1}$."""
    rng = seed.torch()
    net = _bent_network(rng, dim, depth, "tanh", gain=1.0, alpha=alpha)
    for bias in [*net.parameters()][1::2]:
        _set(bias, randn(rng, dim))
    (x, target), one = randn(rng, 2, dim), torch.eye(dim, dtype=torch.float64)
    states = net.states(x)
    exact = torch.autograd.grad((states[-1] - target).square().sum() / 2, [*net.parameters()])
    weights = [parameter.detach() for parameter in net.parameters()]
    W, b, y = torch.stack(weights[::2]), torch.stack(weights[1::2]), torch.stack(states).detach()
    slope = ACTIVATIONS["tanh"].derivative(torch.einsum("kmn,kn->km", W, y[:-1]) + b)
    factors, formula, products = one + alpha * slope[..., None] * W, [], []  # factors (L, n, n)
    for k in range(1, depth + 1):
        product = one
        for factor in factors[k:]:
            product = factor @ product if order == "decreasing j" else product @ factor
        down = (y[-1] - target) @ product * alpha * slope[k - 1]
        formula += [torch.outer(down, y[k - 1]), down]
        products.append(product)
    found = [skip_jacobian(net, x, since=k) for k in range(1, depth + 1)]
    flat = [torch.cat([part.flatten() for part in all_parts]) for all_parts in (exact, formula)]
    jacobian: Any = torch.autograd.functional.jacobian(net, x)
    return every({
        "gradients of all Θ": identical(*flat),
        "skip_jacobian since k": identical(torch.stack(found), torch.stack(products)),
        "skip_jacobian since the input": identical(skip_jacobian(net, x[None])[0], jacobian),
    })


@claim(control={"skip": False}, source="He, Zhang, Ren and Sun 2016, ECCV, sec. 2")
def gradient_survives_depth(
    seed: Seed, *, width: Annotated[int, Range(32, 128)] = 32,
    gain: Annotated[float, Range(0.3, 0.9)] = 0.8, networks: Annotated[int, Range(2, 10)] = 5,
    skip: bool = True,
) -> Evidence:
    r"""With skips the gradient at the input does not decay with depth; without, exponentially."""
    depths, kept, lost = torch.tensor([5, 10, 20, 40, 60, 80, 100]), [], []
    for number in range(networks):
        rng = seed.child(number).torch()
        net = _bent_network(rng, width, int(depths[-1]), "tanh", gain)
        x, readout = randn(rng, 20, width).requires_grad_(), randn(rng, width)
        plain = [x]
        for branch in net.branches:
            plain.append(branch(plain[-1]))
        lost.append(_gradient_norms(plain, readout, depths))
        kept.append(_gradient_norms(net.states(x), readout, depths) if skip else lost[-1])
    rates = [_rates(depths, torch.stack(one)) for one in (kept, lost)]  # a layer, of each network
    noise = (6 / 5 / (2 * width) / float(depths[-1] - depths[0])) ** 0.5
    return every({
        "decay with skips": at_least(
            rates[0], -0.01, why="chance may take 1/e in 100 layers; on average the norm grows"
        ).drawn(
            Series("with skips" if skip else "skip=False", depths, torch.stack(kept).mean(0).exp()),
            Series("without", depths, torch.stack(lost).mean(dim=0).exp(), "other", "points"),
            Series("√n gain to the depth", depths, width**0.5 * gain ** depths.double(), "bound"),
            x="layers", y="norm of the gradient at the input", log="y",
        ),
        "decay without": at_most(
            rates[1], math.log(gain), slack=5 * noise,
            why="5 standard errors of a line through a random walk: a layer changes the log of the "
            "norm by ln(gain) or less on average, with a spread of 1/√(2n)",
        ),
    })


@claim(control={"join": "add"}, source="Huang, Liu, van der Maaten and Weinberger 2017, sec. 3")
def dense_width(
    seed: Seed, *, n: Dim = 6, growth: Annotated[int, Range(1, 20)] = 4,
    depth: Annotated[int, Range(1, 20)] = 5, join: Literal["concatenate", "add"] = "concatenate",
) -> Evidence:
    r"""A dense block of growth $g$ has width $n+lg$ behind layer $l$; its Jacobian contains $I$."""
    rng = seed.torch()
    x = randn(rng, n)
    block: Any = DenseBlock(n, growth=growth, depth=depth, activation="tanh", rng=rng).double()
    made, widths = [x], [n]
    for layer in block.layers:
        _set(layer.bias, randn(rng, growth))
        made.insert(0, torch.tanh(layer.weight @ torch.cat(made) + layer.bias))
        widths.append(sum(len(one) for one in made))
    joined, joined_widths = block, block.widths
    if join == "add":
        joined, joined_widths = _bent_network(rng, n, depth, "tanh", 1.0), [n] * (depth + 1)
    jacobian: Any = torch.autograd.functional.jacobian(joined, x)
    return every({
        "block ∂x/∂x": identical(jacobian[-n:], torch.eye(n)),
        "widths": equal(
            joined_widths, [n + layer * growth for layer in range(depth + 1)], tol=0, why="a count"
        ),
        "widths of the outputs": equal(widths, block.widths, tol=0, why="a count"),
        "recursion": identical(block(x), torch.cat(made)),
    })


@experiment(
    reaches={"loss_ratio_at_50": at_most_goal(0.5)},
    floor={"loss_ratio_at_50": at_most_goal(0.1), "loss_factor_at_5": at_most_goal(3)},
    source="He, Zhang, Ren and Sun 2016, CVPR, fig. 1 and 6, in small: with more layers the "
    "training error of plain networks rises, that of residual networks does not",
)
def deep_mlp(
    run: Run, *, width: Annotated[int, Range(8, 128)] = 32,
    seeds: Annotated[int, Range(1, 10)] = 3, lr: Annotated[float, Range(1e-4, 0.1)] = 3e-3,
) -> None:
    """Trains plain, residual and dense networks of up to 50 hidden layers to read digits."""
    x, y = handwriting(run)[:2]
    data, means, models = (x.flatten(1), y), {}, {}
    depths, steps = ((5, 10, 20, 50), 1000) if run.full else ((5, 50), 300)
    repeats = seeds if run.full else min(seeds, 2)  # a third would take the seconds of quick
    for kind, depth in itertools.product(COLORS, depths):
        losses = []
        for number in range(1 if kind == "dense" else repeats):
            seed = run.seed.child(number)
            model = _reader(kind, x[0].numel(), width, depth, seed.child("init").torch())
            fit(
                model, data, Supervised(functional.cross_entropy),
                torch.optim.Adam(model.parameters(), lr=lr, fused=True), steps=steps,
                batch_size=128, seed=seed, run=run, name=f"{kind}-{depth}-{number}",
            )
            losses.append(evaluate(model, data, {"loss": functional.cross_entropy})["loss"])
            models[kind] = model  # in the end one of the deepest
        means.setdefault(kind, {})[depth] = sum(losses) / len(losses)
        run.record(**{f"{kind}_loss_at_{depth}": means[kind][depth]})
    run.keep(models["residual"])
    shallow, deep = (means["residual"][depth] / means["plain"][depth] for depth in (5, 50))
    run.record(loss_ratio_at_50=deep, loss_factor_at_5=max(shallow, 1 / shallow))
    run.figure("depth", _drawn(means, "hidden layers", "training loss", log="xy"))
    places, few = range(1, 50, 1 if run.full else 6), (data[0][:1000], y[:1000])
    lesions = {kind: _lesions(models[kind], few, places) for kind in ("plain", "residual")}
    for kind, found in lesions.items():
        run.record(**{f"{kind}_accuracy_without_a_layer": sum(found.values()) / len(found)})
    run.figure("one_layer_removed", _drawn(lesions, "layer taken out of 50", "training accuracy"))


def _reader(kind: str, n: int, width: int, depth: int, rng: torch.Generator) -> nn.Module:
    """Build a network with so many hidden layers; plain and residual ones have equal weights."""
    if kind == "residual":
        return ResidualMLP(n, width=width, depth=depth - 1, n_out=10, alpha=depth**-0.5, rng=rng)
    if kind == "dense":
        block = DenseBlock(n, growth=max(1, width // 8), depth=depth, rng=rng)
        return nn.Sequential(block, _linear(block.widths[-1], 10, rng))
    plain = MLP([n, *[width] * depth, 10], rng=rng)
    for layer in plain.layers:
        _he(layer, rng)
    return plain


def _lesions(
    model: nn.Module, data: tuple[Tensor, Tensor], places: Sequence[int]
) -> dict[int, float]:
    """Take one hidden layer out of a trained network, then another, and measure the accuracy."""
    found = {}
    for place in places:
        rest: Any = copy.deepcopy(model)
        if isinstance(model, MLP):
            del rest.layers[place]  # number 0 maps from the inputs
        else:
            del rest.body.branches[place - 1]
        found[place] = evaluate(rest, data, {"accuracy": accuracy})["accuracy"]
    return found


def _drawn(curves: dict[str, dict[int, float]], x: str, y: str, log: Any = "") -> Any:
    """Draw one line a kind of network, with its points."""
    series = [
        Series(kind, [*one], [*one.values()], COLORS[kind], "line") for kind, one in curves.items()
    ]
    figure = figures.draw(Picture(tuple(series), x, y, log))
    return figure.update_traces(mode="lines+markers")


def _set(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


def _bent_network(
    rng: torch.Generator, dim: int, depth: int, activation: str, gain: float, alpha: float = 1.0
) -> SkipNetwork:
    """Build layers y + α φ(Wy) with weights of variance gain²/n."""
    net = SkipNetwork(lambda: _Branch(dim, dim, activation, rng), depth=depth, alpha=alpha).double()
    for parameter in net.parameters():
        _set(parameter, gain / 2**0.5 * parameter)
    return net


def _gradient_norms(states: list[Tensor], readout: Tensor, depths: Tensor) -> Tensor:
    """Give the mean log norm of the gradient at the input for outputs behind several depths."""
    gradients = [
        torch.autograd.grad((states[depth] @ readout).sum(), states[0], retain_graph=True)[0]
        for depth in depths
    ]
    return torch.stack(gradients).norm(dim=2).log().mean(dim=1)


def _rates(x: Tensor, y: Tensor) -> Tensor:
    """Fit a line through each row of y and give its slope."""
    centered = x.double() - x.double().mean()
    return y @ centered / centered.square().sum()
