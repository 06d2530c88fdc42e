r"""Muon: steps that move all directions of a matrix by the same length.

A weight matrix maps vectors to vectors, and the gradient by it is usually dominated by a few
singular directions: those of common inputs and frequent errors. Muon keeps the singular vectors of
the momentum and sets all its singular values to 1. Among all steps that change no output by more
than a given factor of its input this one lowers the loss most, to first order; and rare directions,
in which gradient descent barely moves, are learned as fast as common ones. The exact way is a
singular value decomposition; in practice a few products of matrices do: a polynomial, odd in the
matrix, acts on each singular value alone. The cubic one tends to exactly 1; the quintic one is
tuned to grow faster near 0, and only comes near 1. The factor $\sqrt{d_{out}/d_{in}}$ makes one
learning rate fit matrices of all shapes. Biases, gains, embeddings and the last layer are left to
AdamW. `torch.optim.Muon` is the one to train with; `Muon` here is the one to read.

$$ M_t = \mu M_{t-1}+\nabla L(W_t), \quad M_t = U\Sigma V^\top, \quad
W_{t+1} = W_t-\eta\sqrt{\frac{d_{out}}{d_{in}}}\,UV^\top $$

$$ UV^\top = \arg\max_{\Vert P\Vert_2\le1}\langle M,P\rangle
= \arg\min_{P\ \text{semi-orthogonal}}\Vert M-P\Vert_F, \quad
\langle M,UV^\top\rangle = \Vert M\Vert_* $$

$$ X_0 = \frac M{\Vert M\Vert_F}, \quad X\leftarrow\frac32X-\frac12XX^\top X \quad\text{or}\quad
X\leftarrow aX+b(XX^\top)X+c(XX^\top)^2X $$

Symbols:
    $W$: weight matrix with $d_{out}$ rows and $d_{in}$ columns; $L$ is the loss
    $M, \mu$: momentum, `momentum` of the state, and the weight `momentum` of its past
    $U, \Sigma, V$: thin singular value decomposition; $P=UV^\top$ is `orthogonalize(M)`
    $X$: iterate of the methods `"cubic"` and `"quintic"`; $a,b,c$ are 3.4445, -4.7750, 2.0315
    $\eta$: `lr`; the root is the `scale` named `"rms"`
    $\Vert\cdot\Vert_2, \Vert\cdot\Vert_F, \Vert\cdot\Vert_*$: largest singular value, root of the
        sum of their squares, and their sum

References:
    Jordan, Jin, Boza, You, Cesista, Newhouse and Bernstein (2024), Muon: an optimizer for hidden
        layers in neural networks. https://kellerjordan.github.io/posts/muon
    Bernstein and Newhouse (2024), Old optimizer, new norm: an anthology. arXiv:2409.20325
    Fan and Hoffman (1955), Some metric inequalities in the space of matrices. Proceedings of the
        American Mathematical Society 6(1). doi:10.1090/S0002-9939-1955-0067841-7
    Higham (1986), Computing the polar decomposition, with applications. SIAM Journal on Scientific
        and Statistical Computing 7(4). doi:10.1137/0907079
    Loshchilov and Hutter (2019), Decoupled weight decay regularization. International Conference on
        Learning Representations. arXiv:1711.05101
"""

__all__ = ["Muon", "orthogonalize", "split_parameters"]

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.params import PositiveFloat, PositiveInt, Range, UsageError, checked, usage_error
from principia.lab.training import GroupOptimizer

Method = Literal["svd", "cubic", "quintic"]
POLYNOMIALS = {  # factors of X, of its third and of its fifth power, and how often it is applied
    "cubic": (1.5, -0.5, 0.0, 30),
    "quintic": (3.4445, -4.7750, 2.0315, 5),
}
SCALES: dict[str, Callable[[int, int], float]] = {
    "rms": lambda rows, columns: math.sqrt(rows / columns),
    "torch": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "none": lambda rows, columns: 1.0,
}
NOT_MATRICES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)


@final
class Muon(GroupOptimizer):
    r"""Steps along the momentum with all its singular values set to 1.

    Args:
        params: Matrices, or groups of them; tensors of more axes, such as the weights of a
            convolution, count as matrices of their first axis by the others.
        lr: $\eta$.
        momentum: $\mu$.
        nesterov: Whether to step along $\nabla L+\mu M$ in place of $M$.
        scale: What the step is multiplied by: `"rms"` $\sqrt{d_{out}/d_{in}}$, `"torch"` the same
            but never below 1, `"none"` 1.
        method: How singular values are set to 1, of `orthogonalize`.

    Example:
        >>> W = nn.Parameter(torch.zeros(2, 2))
        >>> W.grad = torch.tensor([[3.0, 0.0], [0.0, 0.001]])
        >>> Muon([W], lr=0.1, method="svd").step()  # both directions move alike
        >>> W.detach() + 0.0
        tensor([[-0.1000,  0.0000],
                [ 0.0000, -0.1000]])
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.02,
        momentum: Annotated[float, Range(0, 1, open="high")] = 0.95, *, nesterov: bool = False,
        scale: Literal["rms", "torch", "none"] = "rms", method: Method = "quintic",
    ) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "nesterov": nesterov, "scale": scale, "method": method
        })

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take one more group of parameters, if all of them are matrices."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim < 2:
                self.param_groups.pop()
                raise UsageError(
                    f"Muon: every parameter must be a matrix; got shape {tuple(p.shape)}. "
                    "Use split_parameters."
                )

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Take the gradients into the momentum and step along its singular directions."""
        mu, M = group["momentum"], self.memory(params, "momentum")
        torch._foreach_mul_(M, mu)
        torch._foreach_add_(M, gradients)
        ahead = torch._foreach_add(gradients, M, alpha=mu) if group["nesterov"] else M
        for p, along in zip(params, ahead, strict=True):
            step = _orthogonalized(along.flatten(1), group["method"])
            length = group["lr"] * SCALES[group["scale"]](*step.shape)
            p.add_(step.reshape(p.shape), alpha=-length)


def _orthogonalized(M: Tensor, method: Method, steps: int | None = None) -> Tensor:
    """Set all singular values to 1."""
    X = M.to(torch.promote_types(M.dtype, torch.float32))
    largest = X.abs().amax(dim=(-2, -1), keepdim=True)
    X = X / largest.where(largest > 0, 1)  # so that squares neither overflow nor underflow
    if method == "svd":
        U, sigma, Vh = torch.linalg.svd(X, full_matrices=False)
        rounding = torch.finfo(X.dtype).eps * max(X.shape[-2:]) * sigma[..., :1]
        return ((U * (sigma > rounding)[..., None, :]) @ Vh).to(M.dtype)
    a, b, c, default = POLYNOMIALS[method]
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X  # the smaller of both Gram matrices
    X = X / torch.linalg.matrix_norm(X, keepdim=True).clamp(min=1)  # only that of 0 is below 1
    X = X.flatten(0, -3) if X.ndim > 3 else X
    sum_product = torch.addmm if X.ndim == 2 else torch.baddbmm
    for _ in range(steps or default):
        gram = X @ X.mT
        factor = sum_product(gram, gram, gram, beta=b, alpha=c)  # bG + cGG
        X = sum_product(X, factor, X, beta=a)  # aX + (bG + cGG)X
    return (X.mT if tall else X).reshape(M.shape).to(M.dtype)


@checked
def orthogonalize(
    M: Float[Tensor, "*B m n"], method: Method = "svd", *, steps: PositiveInt | None = None
) -> Float[Tensor, "*B m n"]:
    r"""Sets all singular values to 1: $UV^\top$ of $M=U\Sigma V^\top$.

    Singular values that are 0 stay 0, up to rounding: no direction is made up, and 0 gives 0.

    Shapes:
        M: (..., m, n), a matrix or several; returns the same

    Args:
        M: What is orthogonalized.
        method: `"svd"` is exact; `"cubic"` tends to it; `"quintic"` ends in [0.68, 1.21] where it
            starts from 0.002 of $\Vert M\Vert_F$ or more, and costs least.
        steps: How often the polynomial is applied; by default 30 times the cubic, 5 the quintic.

    Example:
        >>> M = torch.tensor([[0.0, 5.0], [0.1, 0.0]])
        >>> orthogonalize(M)
        tensor([[0., 1.],
                [1., 0.]])
        >>> orthogonalize(M, "quintic")
        tensor([[0.0000, 0.6966],
                [0.6818, 0.0000]])
    """
    if M.ndim < 2:
        raise usage_error("orthogonalize", "M", "a matrix, or several", tuple(M.shape))
    return _orthogonalized(M, method, steps)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Splits the parameters of a model into matrices for Muon and the rest for AdamW.

    The rest are biases, gains, embeddings and the head: the matrix that was registered last, also
    where it is tied to an embedding.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3))
        >>> matrices, rest = split_parameters(model)
        >>> [tuple(p.shape) for p in matrices], [tuple(p.shape) for p in rest]
        ([(16, 8)], [(16,), (16,), (16,), (3, 16), (3,)])
    """
    others = {
        id(p) for module in model.modules() if isinstance(module, NOT_MATRICES)
        for p in module.parameters()
    }
    uses = [p for _, p in model.named_parameters(remove_duplicate=False) if p.ndim >= 2]
    others |= {id(p) for p in uses[-1:]}
    inner = {id(p) for p in uses} - others
    params = list(model.parameters())
    return [p for p in params if id(p) in inner], [p for p in params if id(p) not in inner]
