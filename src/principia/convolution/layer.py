r"""The convolutional layer: one small kernel for every place.

An edge is an edge wherever in the picture it stands, so what looks for it should be learned once
and used everywhere. A unit of a convolutional layer sees a small window of the picture; all units
of a map look with the same kernel, each at its own place. A kernel has a slice for each channel
that comes in, and what the slices find is summed. Three nets connect a picture with a map: in the
dense one every unit sees every pixel; in the locally connected one it sees a window, with weights
of its own; in the convolutional one the windows share their weights. Each can do less than the
one before, with far fewer weights to learn. Since a shared weight acts at many places, its gradient
is the sum of what it would be at each of them; written out, that is a convolution again, as is the
gradient of the picture.

A stage of a network is such a layer, then a detector that cuts what is negative, then pooling,
which keeps the largest (or the mean, or something between) of each small window: what moves by a
pixel often stays within it. A stride keeps one place in so many, which loses nothing only where the
maps have no fine detail.

$$ y_{k,i,j} = b_k+\sum_{c,u,v}w_{k,c,u,v}\,x_{c,\,si+u,\,sj+v}, \quad
y_{k,i,j} = b_{k,i,j}+\sum_{c,u,v}w_{k,c,u,v}^{(i,j)}\,x_{c,\,si+u,\,sj+v} \ \text{(local)} $$

$$ \lfloor(n+2p_0-d(p-1)-1)/s\rfloor+1 \ \text{places}, \quad
K(pqc+1), \quad K(pqc+1)(m-p+1)(n-q+1), \quad K(mnc+1)(m-p+1)(n-q+1) \ \text{weights} $$

$$ \frac{\partial h}{\partial w} = \sum_{i,j}\frac{\partial h}{\partial w^{(i,j)}}, \quad
\nabla_wL = \mathrm{rot}_\pi(x)*\delta \ \text{for}\ x*w, \quad
\nabla_wL = x\star\delta \ \text{for}\ x\star w, \quad
\nabla_xL = \delta*w \ \text{(full)} $$

$$ \max_{k,l<r}x_{i+k,j+l}, \quad
\frac{\sum xe^{x/T}}{\sum e^{x/T}} \ \text{over a window}, \quad
T\to0: \max, \quad T\to\infty: \text{average} $$

Symbols:
    $x, y$: pictures (B, C, H, W) that come in, maps (B, K, H, W) that go out
    $w, b$: kernels (K, C, p, q) and biases of torch's layer; with $(i,j)$ those of one place
    $m, n, c$: height, width and channels of a picture, `parameter_counts`
    $p, q, K$: height and width of a kernel, and how many there are
    $s, p_0, d$: stride, zeros around the picture and dilation, `output_size`
    $\delta$: gradient $\partial L/\partial y$ of what is to be minimized, `delta`
    $*, \star$: convolution and correlation; torch's layer is the correlation of $x$ with $w$
    $r, T$: side of a window of pooling, and temperature of `SoftmaxPool2d`

References:
    LeCun (1989), Generalization and network design strategies. Connectionism in Perspective.
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proc. IEEE 86. doi:10.1109/5.726791
    Goodfellow, Bengio and Courville (2016), Deep learning, chap. 9. MIT Press.
        https://www.deeplearningbook.org
    Dumoulin and Visin (2016), A guide to convolution arithmetic for deep learning. arXiv:1603.07285
    Zhang (2019), Making convolutional networks shift-invariant again. ICML. arXiv:1904.11486
"""

__all__ = [
    "LocallyConnected2d", "SoftmaxPool2d", "MinPool2d", "output_size", "padding_for",
    "parameter_counts", "kernel_gradient", "input_gradient", "aliased_share", "multiply_adds",
]

from contextlib import ExitStack
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import NonNegativeInt, PositiveFloat, PositiveInt, checked, usage_error
from principia.lab.training import evaluated
from principia.regularization.initialization import initialize_

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Pair = int | tuple[int, int]
Operation = Literal["correlation", "convolution"]


@final
class LocallyConnected2d(nn.Module):
    r"""Looks through the windows of a convolution, with weights of its own at every place.

    Its `weight[i, j]` is what `weight` is in `nn.Conv2d`, for the window at row i and column j of
    the map; `bias[i, j]` likewise. All windows are one batch of small matrix products.

    Shapes:
        x: (B, inputs, *size); returns (B, outputs, H, W)

    Args:
        inputs: Channels of the pictures.
        outputs: Maps that go out.
        kernel: Side of a window, or its height and width.
        size: Side of the pictures, or their height and width.
        stride: Steps from a window to the next, down and to the right.
        padding: Rows and columns of zeros that are put on each side.
        bias: Whether a number is added, another one at every place.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> local = LocallyConnected2d(3, 5, (3, 2), (8, 7))
        >>> y = local(torch.rand(4, 3, 8, 7))
        >>> y.shape, local.weight.shape
        (torch.Size([4, 5, 6, 6]), torch.Size([6, 6, 5, 3, 3, 2]))
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, outputs: PositiveInt, kernel: Pair, size: Pair, *,
        stride: Pair = 1, padding: Pair = 0, bias: bool = True,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        owner = "LocallyConnected2d"
        kernel, self.stride = _pair(owner, "kernel", kernel), _pair(owner, "stride", stride)
        self.padding = _pair(owner, "padding", padding, least=0)
        self.shape = inputs, *_pair(owner, "size", size)
        places = [
            output_size(*each, stride=s, padding=p)
            for *each, s, p in zip(self.shape[1:], kernel, self.stride, self.padding, strict=True)
        ]
        self.weight = nn.Parameter(torch.empty(*places, outputs, inputs, *kernel))
        self.bias = nn.Parameter(torch.zeros(*places, outputs)) if bias else None
        initialize_(self.weight.data.flatten(0, 2), "he", rng=rng)

    @classmethod
    def from_convolution(cls, layer: nn.Conv2d, size: Pair) -> "LocallyConnected2d":
        """Give each place its own copy of the kernels of a convolution, so that both agree.

        Args:
            layer: A convolution without groups and dilation, whose padding are zeros.
            size: Side of the pictures, or their height and width.
        """
        plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
        if not plain or isinstance(layer.padding, str):
            domain = "without groups and dilation, padded with a number of zeros"
            raise usage_error("LocallyConnected2d", "layer", domain, layer)
        local = cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, size, stride=layer.stride,  # type: ignore[arg-type]
            padding=layer.padding, bias=layer.bias is not None, rng=torch.Generator(),  # type: ignore[arg-type]
        ).to(layer.weight)
        with torch.no_grad():
            local.weight.copy_(layer.weight)
            if local.bias is not None:
                local.bias.copy_(layer.bias)  # type: ignore[arg-type]
        return local

    def forward(self, x: Float[Tensor, "B C h w"]) -> Float[Tensor, "B K H W"]:
        """Multiply every window with its own weights."""
        if x.shape[1:] != self.shape:
            domain = f"of shape (B, {', '.join(map(str, self.shape))})"
            raise usage_error("LocallyConnected2d", "x", domain, tuple(x.shape))
        H, W, K, _, *kernel = self.weight.shape
        down, right = self.padding
        x = F.pad(x, (right, right, down, down))
        for axis, side, step in zip((2, 3), kernel, self.stride, strict=True):
            x = x.unfold(axis, side, step)
        x = x.permute(2, 3, 0, 1, 4, 5).reshape(H * W, len(x), -1)  # (H W, B, C p q)
        weight = self.weight.reshape(H * W, K, -1).mT
        if self.bias is None:
            y = x @ weight
        else:
            y = torch.baddbmm(self.bias.view(H * W, 1, K), x, weight)
        return y.permute(1, 2, 0).unflatten(2, (H, W))

    def extra_repr(self) -> str:
        """Show what torch's convolution shows, and the size."""
        K, C, *kernel = self.weight.shape[2:]
        words = f"{C}, {K}, kernel={tuple(kernel)}, size={self.shape[1:]}, stride={self.stride}"
        return f"{words}, padding={self.padding}, bias={self.bias is not None}"


def _pair(owner: str, name: str, value: Any, least: int = 1) -> tuple[int, int]:
    """Take one number for both axes, or two."""
    both = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or not all(type(one) is int and one >= least for one in both):
        domain = f"an integer of {least} or more, or two of them"
        raise usage_error(owner, name, domain, value)
    return both


@checked
def output_size(
    n: PositiveInt, kernel: PositiveInt, *, stride: PositiveInt = 1, padding: NonNegativeInt = 0,
    dilation: PositiveInt = 1,
) -> int:
    r"""Counts the places of a window along an axis: $\lfloor(n+2p_0-d(p-1)-1)/s\rfloor+1$.

    Args:
        n: Pixels along the axis.
        kernel: Pixels of the window, p.
        stride: Steps from a window to the next, s.
        padding: Zeros that are put on each side, $p_0$.
        dilation: Steps from a pixel of the window to the next, d.

    Example:
        >>> output_size(28, 5), output_size(7, 3, stride=2), output_size(28, 5, padding=2)
        (24, 3, 28)
    """
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        domain = f"at least {n + 2 * padding - room} for such a window"
        hint = "Take a smaller kernel, or more padding."
        raise usage_error("output_size", "n + 2 padding", domain, n + 2 * padding, hint)
    return room // stride + 1


@checked
def padding_for(
    kind: Literal["same", "valid", "full"], kernel: PositiveInt, *, dilation: PositiveInt = 1
) -> int:
    """Says how many zeros each side needs for maps as large as the picture, smaller, or larger.

    Args:
        kind: As large (same), where the window fits (valid), or where it touches a pixel (full).
        kernel: Pixels of the window along an axis.
        dilation: Steps from a pixel of the window to the next.

    Example:
        >>> [output_size(28, 5, padding=padding_for(one, 5)) for one in ("same", "valid", "full")]
        [28, 24, 32]
    """
    reach = dilation * (kernel - 1)
    if kind == "same" and reach % 2:
        domain = "odd for 'same', so that both sides get as many zeros"
        hint = "nn.Conv2d(..., padding='same') puts one more on the right and below."
        raise usage_error("padding_for", "kernel", domain, kernel, hint)
    return {"same": reach // 2, "valid": 0, "full": reach}[kind]


@final
class SoftmaxPool2d(nn.Module):
    r"""Averages each window with weights $e^{x/T}$: between the average and the maximum.

    Args:
        r: Side of a window.
        T: Temperature: near 0 the maximum, if large the average.
        stride: Steps from a window to the next; by default r.

    Example:
        >>> pool = SoftmaxPool2d(2, 1.0)
        >>> pool(torch.tensor([[[[0.0, 0.0], [0.0, 3.0]]]]))
        tensor([[[[2.6101]]]])
    """

    @checked
    def __init__(
        self, r: PositiveInt, T: PositiveFloat = 1.0, *, stride: PositiveInt | None = None
    ) -> None:
        super().__init__()
        self.r, self.T, self.stride = r, T, stride or r

    def forward(self, x: Float[Tensor, "*B h w"]) -> Float[Tensor, "*B H W"]:
        """Pool."""
        _fits("SoftmaxPool2d", x, self.r)
        windows = x.unfold(-2, self.r, self.stride).unfold(-2, self.r, self.stride).flatten(-2)
        return (windows * (windows / self.T).softmax(dim=-1)).sum(dim=-1)


def _fits(owner: str, x: Tensor, r: int) -> None:
    if min(x.shape[-2:]) < r:
        hint = "The window must fit into the picture."
        raise usage_error(owner, "x", f"{r} or more pixels high and wide", tuple(x.shape), hint)


@final
class MinPool2d(nn.Module):
    """Keeps the smallest value of each window.

    Args:
        r: Side of a window.
        stride: Steps from a window to the next; by default r.

    Example:
        >>> pool = MinPool2d(2)
        >>> pool(torch.tensor([[[[4.0, 2.0], [3.0, 5.0]]]]))
        tensor([[[[2.]]]])
    """

    @checked
    def __init__(self, r: PositiveInt, *, stride: PositiveInt | None = None) -> None:
        super().__init__()
        self.r, self.stride = r, stride or r

    def forward(self, x: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C H W"]:
        """Pool."""
        _fits("MinPool2d", x, self.r)
        return -F.max_pool2d(-x, self.r, self.stride)


@checked
def parameter_counts(
    m: PositiveInt, n: PositiveInt, c: PositiveInt, p: PositiveInt, q: PositiveInt, K: PositiveInt
) -> dict[str, int]:
    """Counts weights and biases of three layers with the same units, without padding and stride.

    Args:
        m: Height of the pictures.
        n: Their width.
        c: Their channels.
        p: Height of a window.
        q: Its width.
        K: Maps that go out.

    Example:
        >>> parameter_counts(8, 7, 3, 3, 2, 5)
        {'shared': 95, 'local': 3420, 'dense': 30420}
    """
    units = K * output_size(m, p) * output_size(n, q)
    window, picture = p * q * c + 1, m * n * c + 1  # with a bias
    return {"shared": K * window, "local": units * window, "dense": units * picture}


@checked
def kernel_gradient(
    x: Float[Tensor, "B C m n"], delta: Float[Tensor, "B_ K h w"], *, op: Operation = "correlation"
) -> Float[Tensor, "K C p q"]:
    r"""Writes the gradient of the kernels as a convolution of what came in with $\delta$.

    Args:
        x: Pictures that came in.
        delta: Gradient of each place of the maps, without padding and stride.
        op: What the layer does: torch's correlation, $x\star\delta$, or a true convolution,
            $\mathrm{rot}_\pi(x)*\delta$.

    Example:
        >>> x, w = torch.rand(2, 3, 6, 5), torch.rand(4, 3, 3, 2, requires_grad=True)
        >>> F.conv2d(x, w).square().sum().backward()
        >>> torch.allclose(kernel_gradient(x, 2 * F.conv2d(x, w)), w.grad, rtol=1e-4)
        True
    """
    if len(x) != len(delta) or any(x.shape[axis] < delta.shape[axis] for axis in (2, 3)):
        domain = f"maps of {len(x)} pictures, no larger than these"
        raise usage_error("kernel_gradient", "delta", domain, tuple(delta.shape))
    if op == "convolution":  # of rot(x) with δ: what correlates slides δ turned by 180 degrees
        x, delta = x.flip(-2, -1), delta.flip(-2, -1)
    return F.conv2d(x.transpose(0, 1), delta.transpose(0, 1)).transpose(0, 1)


@checked
def input_gradient(
    delta: Float[Tensor, "B K h w"], w: Float[Tensor, "K_ C p q"], *, op: Operation = "correlation",
    stride: PositiveInt = 1, size: tuple[PositiveInt, ...] | None = None,
) -> Float[Tensor, "B C m n"]:
    r"""Writes the gradient of the pictures as a full convolution of $\delta$ with the kernels.

    With a stride, $\delta$ gets zeros where the windows were left out.

    Args:
        delta: Gradient of each place of the maps.
        w: Kernels.
        op: What the layer does: torch's correlation, or a true convolution.
        stride: Steps from a window to the next.
        size: Height and width of the pictures; by default no more than the windows cover.

    Example:
        >>> delta, w = torch.rand(2, 4, 3, 2), torch.rand(4, 3, 3, 2)
        >>> theirs = F.conv_transpose2d(delta, w, stride=2)
        >>> torch.allclose(input_gradient(delta, w, stride=2), theirs, rtol=1e-4)
        True
    """
    if delta.shape[1] != w.shape[0]:
        raise usage_error("input_gradient", "delta", f"{w.shape[0]} maps", tuple(delta.shape))
    covered = [(n - 1) * stride + p for n, p in zip(delta.shape[2:], w.shape[2:], strict=True)]
    size = covered if size is None else size  # type: ignore[assignment]
    left = [n - one for n, one in zip(size, covered, strict=True)]  # type: ignore[arg-type]
    if not all(0 <= one < stride for one in left):
        domain = f"from {covered} to less than {stride} more along each axis"
        raise usage_error("input_gradient", "size", domain, size)
    spread = delta.new_zeros(*delta.shape[:2], *((n - 1) * stride + 1 for n in delta.shape[2:]))
    spread[..., ::stride, ::stride] = delta
    p, q = w.shape[2:]
    spread = F.pad(spread, (q - 1, q - 1 + left[1], p - 1, p - 1 + left[0]))
    return F.conv2d(spread, (w.flip(-2, -1) if op == "correlation" else w).transpose(0, 1))


@checked
def aliased_share(
    x: Float[Tensor, "..."], *, stride: PositiveInt = 2, axes: PositiveInt = 2
) -> Float[Tensor, "..."]:
    """Measures the share of the energy in waves that are too short to survive a stride.

    Of every `stride`-th place only waves of more than two such steps can be told from others.

    Args:
        x: Signals along the last axes, which are taken to go on periodically.
        stride: One place in so many is kept, along each axis.
        axes: How many of the last axes are space.

    Example:
        >>> rows = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
        >>> aliased_share(rows, axes=1)
        tensor([1., 0.])
    """
    if axes > x.ndim:
        raise usage_error("aliased_share", "axes", f"at most {x.ndim} for such x", axes)
    space = tuple(range(-axes, 0))
    energy = torch.fft.fftn(x, dim=space).abs().square()
    kept = energy
    for axis in space:
        cycles = torch.fft.fftfreq(x.shape[axis], dtype=x.dtype, device=x.device)
        low = (2 * stride * cycles.abs() < 1).view(-1, *(1,) * (-axis - 1))
        kept = kept * low
    return 1 - kept.sum(dim=space) / energy.sum(dim=space)


@checked
@torch.no_grad()
def multiply_adds(model: nn.Module, shape: tuple[int, ...]) -> dict[str, int]:
    """Counts the multiplications of one sample in each layer with weights, by its name.

    A weight of a convolution is used once at every place of its map: of the outputs, or of the
    inputs where it is transposed. Nothing is counted for biases, normalization and pooling. A
    model on the meta device costs no memory.

    Args:
        model: The network.
        shape: Of one sample, (C, H, W).

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 10))
        >>> multiply_adds(net, (3, 8, 8))
        {'0': 7776, '2': 2880}
    """
    found: dict[str, int] = {}
    with ExitStack() as hooks:
        for name, layer in model.named_modules():
            if isinstance(layer, Convolution | Transposed | nn.Linear | LocallyConnected2d):

                def look(
                    layer: Any, inputs: tuple[Tensor, ...], y: Tensor, name: str = name
                ) -> None:
                    uses = _uses(layer, inputs[0], y)
                    found[name] = found.get(name, 0) + layer.weight.numel() * uses

                hooks.enter_context(layer.register_forward_hook(look))
        first = next(model.parameters())
        with evaluated(model):
            model(torch.zeros(1, *shape, dtype=first.dtype, device=first.device))
    return found


def _uses(layer: nn.Module, x: Tensor, y: Tensor) -> int:
    """Count how often one weight is used for a sample."""
    if isinstance(layer, LocallyConnected2d):
        return 1
    if isinstance(layer, nn.Linear):
        return y.numel() // layer.out_features
    places = x if isinstance(layer, Transposed) else y
    return places[0, 0].numel()
