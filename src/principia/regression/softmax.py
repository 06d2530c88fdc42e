r"""Softmax regression: one score a class, turned into probabilities that add up to 1.

The largest score wins, and how far it leads says how sure. What counts are differences: a constant
added to all scores, or one vector to all rows of the weights, changes nothing. The loss of a label
is its negative log-probability, a difference of the log-sum-exp and the label's own score; its
gradient is the probabilities minus the truth, the same simple form as for the squared loss. The
loss is convex, its minimum over all data is the true posterior, and its mean on the training data
flatters: only data that the fit has not seen measure the risk.

$$ p_i = \mathrm{softmax}_i(z) = \frac{e^{z_i}}{\sum_je^{z_j}}, \quad
\frac{\partial p_i}{\partial z_j} = p_i(\delta_{ij}-p_j) $$

$$ \ell(y;z) = -z_y+\ln\sum_je^{z_j}, \quad \frac{\partial\ell}{\partial z} = p-e_y, \quad
\max_jz_j \le \ln\sum_je^{z_j} \le \max_jz_j+\ln K $$

$$ h(W,b) = \frac1s\sum_i\ell(y_i;Wx_i+b)+\frac\lambda2\Vert W\Vert_F^2 $$

Symbols:
    $z$: scores (logits), one for each of $K$ classes; $p$ their probabilities
    $y$: number of the class, $e_y$ its unit vector
    $\ell$: loss of one sample in nats, `cross_entropy`; in bits `cross_entropy_bits`
    $h$: what `SoftmaxRegression` minimizes over $s$ samples; the bias $b$ costs nothing
    $\lambda$: price of large weights, `l2`
    $T$: divides the scores before the softmax, `temperature`

References:
    Bridle (1990), Probabilistic interpretation of feedforward classification network outputs, with
        relationships to statistical pattern recognition. Neurocomputing, NATO ASI Series 68.
        doi:10.1007/978-3-642-76153-9_28
    Boyd and Vandenberghe (2004), Convex optimization. Cambridge University Press, sec. 3.1.5.
    Stone (1974), Cross-validatory choice and assessment of statistical predictions. Journal of the
        Royal Statistical Society B 36(2). doi:10.1111/j.2517-6161.1974.tb00994.x
    Byrd, Nocedal and Schnabel (1994), Representations of quasi-Newton matrices and their use in
        limited memory methods. Mathematical Programming 63. doi:10.1007/BF01582063
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = [
    "SoftmaxRegression", "cross_entropy", "cross_entropy_bits", "cross_validated_risk",
    "empirical_risk", "probability_cross_entropy", "softmax_jacobian", "squared_loss",
    "temperature",
]

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    checked,
    usage_error,
)
from principia.lab.training import OneCycle, Trained, accuracy, fit
from principia.regression._softmax_fast import LBFGS

if TYPE_CHECKING:
    from principia.lab.runs import Run
else:
    Run = Any  # annotations are read at run time, and components know no runs

Model = Callable[[Tensor], Tensor]
MOST_AT_ONCE = 1_000_000  # samples whose full gradient is still cheap


def cross_entropy(
    z: Float[Tensor, "*batch K"], y: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    r"""Measures how surprised scores are by their label, in nats: $-z_y+\ln\sum_je^{z_j}$.

    Args:
        z: Scores of the classes; probabilities are suspected where they add up to 1, with a note.
        y: Numbers of the true classes.

    Example:
        >>> cross_entropy(torch.tensor([[0.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0]))
        tensor([0.6931, 2.1269])
    """
    classes = z.shape[-1]
    if y.numel() and not (int(y.min()) >= 0 and int(y.max()) < classes):
        wrong = int(y[(y < 0) | (y >= classes)][0])
        raise usage_error("cross_entropy", "y", f"classes from 0 to {classes - 1}", wrong)
    if z.numel() and float(z.detach().min()) >= 0 and bool(((z.sum(-1) - 1).abs() < 1e-5).all()):
        note = "cross_entropy: z looks like probabilities; it wants scores, before the softmax."
        warnings.warn(note, stacklevel=2)
    return torch.logsumexp(z, -1) - z.gather(-1, y[..., None].long())[..., 0]


def cross_entropy_bits(
    z: Float[Tensor, "*batch K"], y: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    r"""Measures the same surprise in bits: one for a fair coin.

    Example:
        >>> cross_entropy_bits(torch.tensor([[3.0, 3.0]]), torch.tensor([0]))
        tensor([1.])
    """
    return cross_entropy(z, y) / math.log(2)


def probability_cross_entropy(
    p: Float[Tensor, "*batch K"], q: Float[Tensor, "*batch K"]
) -> Float[Tensor, "*batch"]:
    r"""Measures probabilities q by probabilities p: $-\sum_ip_i\ln q_i$, where $0\ln0=0$.

    Example:
        >>> probability_cross_entropy(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5]))
        tensor(0.6931)
    """
    return -torch.special.xlogy(p, q).sum(-1)


def squared_loss(
    output: Float[Tensor, "*batch K"], target: Float[Tensor, "*batch K"]
) -> Float[Tensor, "*batch"]:
    r"""Measures half the squared distance, whose gradient is the difference.

    Example:
        >>> squared_loss(torch.tensor([3.0, 4.0]), torch.zeros(2))
        tensor(12.5000)
    """
    return (output - target).square().sum(-1) / 2


def softmax_jacobian(z: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K K"]:
    r"""Differentiates the softmax: $\mathrm{diag}(p)-pp^\top$.

    Example:
        >>> softmax_jacobian(torch.zeros(2))
        tensor([[ 0.2500, -0.2500],
                [-0.2500,  0.2500]])
    """
    p = z.softmax(-1)
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


@checked
def temperature(z: Float[Tensor, "*batch K"], T: PositiveFloat) -> Float[Tensor, "*batch K"]:
    r"""Softens ($T>1$) or sharpens ($T<1$) the probabilities: $\mathrm{softmax}(z/T)$.

    Example:
        >>> temperature(torch.tensor([0.0, 2.0]), 1000.0).round(decimals=2)
        tensor([0.5000, 0.5000])
    """
    return (z / T).softmax(-1)


@final
class SoftmaxRegression(nn.Module):
    r"""Learns one row of weights a class by the cross-entropy, from weights 0.

    Shapes:
        x: (..., D); returns scores (..., K)

    Args:
        inputs: Number of features D.
        classes: Number of classes K.
        l2: Price of large weights, $\frac\lambda2\Vert W\Vert^2$; the bias is free.
        solver: "lbfgs" takes all samples at once, up to a million; "adam" takes batches.
        batch_size: Samples of a batch of "adam".

    Example:
        >>> x, y = torch.tensor([[-1.0], [0.0], [2.0], [3.0]]), torch.tensor([0, 0, 1, 1])
        >>> model = SoftmaxRegression(1, 2, l2=0.01)
        >>> _ = model.fit(x, y)
        >>> scores = model(x)
        >>> scores.argmax(-1).tolist()
        [0, 0, 1, 1]
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, classes: Annotated[int, Range(2, 10**6)], *,
        l2: NonNegativeFloat = 0.0,
        solver: Literal["lbfgs", "adam"] = "lbfgs", batch_size: PositiveInt = 128,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, inputs))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.l2, self.solver, self.batch_size = l2, solver, batch_size

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch K"]:
        """Give the scores."""
        return F.linear(x, self.weight, self.bias)

    def risk(self, model: Model, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
        """Give the mean loss of a batch and the price of the weights: the objective of a fit."""
        x, y = batch
        return cross_entropy(model(x), y).mean() + self.l2 / 2 * self.weight.square().sum()

    @checked
    def fit(
        self, x: Float[Tensor, "N D"], y: Int[Tensor, " N"], *, epochs: PositiveInt = 10,
        lr: PositiveFloat = 0.01, run: Run | None = None, name: str = "",
        validation: tuple[Tensor, Tensor] | None = None,
    ) -> Trained:
        """Learn from samples; `epochs` and the largest learning rate `lr` are those of "adam"."""
        shared: dict[str, Any] = {
            "validation": validation, "metrics": {"accuracy": accuracy}, "run": run, "name": name,
        }
        if self.solver == "adam":
            return fit(
                self, (x, y), self.risk, torch.optim.Adam(self.parameters(), lr=lr),
                epochs=epochs, batch_size=self.batch_size, callbacks=[OneCycle(lr)], **shared,
            )
        if len(x) > MOST_AT_ONCE:
            hint = 'Take solver="adam".'
            raise usage_error(
                "SoftmaxRegression", "x", f"at most {MOST_AT_ONCE} rows", len(x), hint
            )
        optimizer = LBFGS(self.weight, self.bias, x, l2=self.l2)
        return fit(self, (x, y), self.risk, optimizer, steps=1, batch_size=len(x), **shared)


def empirical_risk(
    model: Model, x: Float[Tensor, "*batch N D"], y: Int[Tensor, "*batch N"]
) -> Float[Tensor, "*batch"]:
    """Averages the cross-entropy of a model over samples.

    Example:
        >>> empirical_risk(lambda x: x, torch.zeros(3, 2), torch.tensor([0, 1, 1]))
        tensor(0.6931)
    """
    return cross_entropy(model(x), y).mean(-1)


@checked
def cross_validated_risk(
    make: Callable[[Tensor, Tensor], Model], x: Float[Tensor, "*batch N D"],
    y: Int[Tensor, "*batch N"], *, folds: Annotated[int, Range(2, 1000)] = 5,
) -> Float[Tensor, "*batch"]:
    """Averages the loss of every sample under a model that was made from the other folds.

    Args:
        make: Learns a model from samples and labels.
        x: Samples in random order; leading axes are problems of their own.
        y: Labels.
        folds: How many parts the samples are cut into.

    Example:
        >>> x, y = torch.zeros(4, 1), torch.tensor([0, 1, 0, 1])
        >>> cross_validated_risk(lambda x, y: lambda x: x.expand(*x.shape[:-1], 2), x, y, folds=2)
        tensor(0.6931)
    """
    if folds > x.shape[-2]:
        raise usage_error(
            "cross_validated_risk", "folds", f"at most {x.shape[-2]}, the samples", folds
        )
    losses = []
    for held in torch.arange(x.shape[-2]).chunk(folds):
        rest = torch.ones(x.shape[-2], dtype=torch.bool)
        rest[held] = False
        model = make(x[..., rest, :], y[..., rest])
        losses.append(cross_entropy(model(x[..., held, :]), y[..., held]))
    return torch.cat(losses, -1).mean(-1)
