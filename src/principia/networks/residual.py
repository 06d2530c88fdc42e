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

import math
from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.params import NonNegativeFloat, NonNegativeInt, PositiveInt, checked, usage_error
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import ActivationName

LONGEST = 20  # layers of a path expansion: 2^20 matrices, a million


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
        self, n: PositiveInt, *, m: PositiveInt | None = None, activation: ActivationName = "relu",
        project: bool = False, zero: bool = False, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        m = m or n
        if m != n and not project:
            hint = "Pass project=True, or an m that equals n."
            raise usage_error(
                "ResidualLayer", "project", f"true from width {n} to {m}", project, hint
            )
        self.branch = Branch(n, m, activation, rng)
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


def _need_width(owner: str, n: int, x: Tensor) -> None:
    """Refuse inputs of another width; pictures that nobody flattened are the usual reason."""
    if x.shape[-1:] != (n,):
        hint = "Flatten pictures with x.flatten(1)." if math.prod(x.shape[1:]) == n else ""
        raise usage_error(owner, "x", f"of width {n}", f"shape {tuple(x.shape)}", hint)


@final
class Branch(nn.Module):
    r"""A layer that gives 0 where its weights are 0: $\varphi(Wx+b)-\varphi(0)$."""

    def __init__(self, n: int, m: int, activation: str, rng: torch.Generator | None) -> None:
        super().__init__()
        self.linear = he_linear(n, m, rng)
        self.phi = ACTIVATIONS[activation].module()
        self.at_zero = float(self.phi(torch.zeros(1, dtype=torch.float64)))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        outputs = self.phi(self.linear(x))
        return outputs - self.at_zero if self.at_zero else outputs


def he_linear(n: int, m: int, rng: torch.Generator | None) -> nn.Linear:
    """Make a linear layer with He's weights, drawn once."""
    empty: Any = nn.utils.skip_init(nn.Linear, n, m)
    return he_init(empty, rng)


def he_init(linear: nn.Linear, rng: torch.Generator | None) -> nn.Linear:
    """Draw weights behind whose rectifiers signals keep their size: variance 2/n, biases 0."""
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu", generator=rng)
    nn.init.zeros_(linear.bias)
    return linear


@final
class SkipNetwork(nn.Module):
    r"""Adds one branch after the other to its state: $y_k=y_{k-1}+\alpha f(y_{k-1},\Theta_k)$.

    Args:
        branches: One a layer, a module that keeps the shape of its input.
        alpha: Factor of all branches; with $1/\sqrt{\text{depth}}$ the sum of random branches with
            mean 0 stays of the size of one, however many there are.

    Example:
        >>> from principia.networks.mlp import MLP
        >>> rng = torch.Generator().manual_seed(0)
        >>> net = SkipNetwork([MLP([4, 8, 4], rng=rng) for _ in range(3)], alpha=0.5)
        >>> y = net(torch.ones(2, 4))
        >>> y.shape, len(net.branches)
        (torch.Size([2, 4]), 3)
    """

    @checked
    def __init__(
        self, branches: Sequence[nn.Module], *, alpha: NonNegativeFloat = 1.0
    ) -> None:
        super().__init__()
        if not len(branches):
            raise usage_error("SkipNetwork", "branches", "one module or more", branches)
        self.alpha, self.branches = alpha, nn.ModuleList(branches)

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
                raise usage_error("SkipNetwork", "branches", domain, tuple(step.shape), hint)
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
        self, n_in: PositiveInt, *, width: PositiveInt, depth: PositiveInt, n_out: PositiveInt,
        alpha: NonNegativeFloat = 1.0,
        activation: ActivationName = "relu", rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.enter = he_linear(n_in, width, rng)
        branches = [Branch(width, width, activation, rng) for _ in range(depth)]
        self.body = SkipNetwork(branches, alpha=alpha)
        self.leave = he_linear(width, n_out, rng)

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
        self, n: PositiveInt, *, growth: PositiveInt, depth: PositiveInt,
        activation: ActivationName = "relu", rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.widths = tuple(n + number * growth for number in range(depth + 1))
        self.layers = nn.ModuleList(he_linear(width, growth, rng) for width in self.widths[:-1])
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
        raise usage_error("path_expansion", "L", f"at most {LONGEST}", len(matrices), hint)
    paths = torch.eye(matrices.shape[-1]).to(matrices)[None]
    for W in matrices:
        paths = torch.cat([paths, W @ paths])
    return paths


@checked
def skip_jacobian(
    net: SkipNetwork, x: Float[Tensor, "*B n"], *, since: NonNegativeInt = 0
) -> Float[Tensor, "*B n n"]:
    r"""Multiplies the derivatives of the layers: $\partial y_L/\partial y_k$, the last one first.

    Args:
        net: The network, whose states are vectors.
        x: Inputs $y_0$.
        since: The state $y_k$ that is varied; by default the input.

    Example:
        >>> net = SkipNetwork([torch.nn.Tanh(), torch.nn.Tanh()])
        >>> skip_jacobian(net, torch.zeros(3)).diagonal()
        tensor([4., 4., 4.])
    """
    if since > len(net.branches):
        domain = f"one of the states, 0 to {len(net.branches)}"
        raise usage_error("skip_jacobian", "since", domain, since)
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
