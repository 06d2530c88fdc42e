r"""Label smoothing: targets that leave some probability to the other classes.

A label asks for certainty, and a network that can separate its training data answers with logits
that grow for ever. A confusion matrix $\Pi$ turns each label into a distribution; with the uniform
one the logits have a finite best gap, and the network's confidence stays nearer to how often it is
right. The minimizer is then the smoothed posterior $\Pi p$, no longer $p$ itself. The same matrix
tells how labels were corrupted: a network whose *output* is smoothed by it, trained on the noisy
labels, finds the clean posterior.

$$ y\mapsto\Pi e_y, \quad \Pi = (1-\varepsilon)I+\frac\varepsilon K11^\top, \quad
CE(\Pi e_y,q) = (1-\varepsilon)\,CE(e_y,q)+\varepsilon\,CE(u,q) $$

$$ G_y-G_{y'} = \ln\frac{1-\varepsilon+\varepsilon/K}{\varepsilon/K}, \quad
\arg\min_q E\,CE(\Pi e_y,q) = \Pi p, \quad \arg\min_q E\,CE(e_{\tilde y},\Pi q) = p $$

$$ \mathrm{ECE} = \sum_b\frac{n_b}n\,\big|\mathrm{acc}_b-\mathrm{conf}_b\big| $$

Symbols:
    $\Pi$: column-stochastic matrix, `Pi`; column $y$ is the target of class $y$
    $\varepsilon, K$: how much is taken from the label, `eps`, and number of classes
    $u$: the uniform distribution; $e_y$ the label as a corner of the simplex
    $p, q$: true posterior $p(\cdot\mid x)$ and the model's
    $\tilde y$: a label that was corrupted with probabilities $\Pi_{\tilde yy}$
    $\mathrm{acc}_b, \mathrm{conf}_b, n_b$: accuracy, mean confidence and size of a bin

References:
    Szegedy, Vanhoucke, Ioffe, Shlens and Wojna (2016), Rethinking the inception architecture for
        computer vision. Computer Vision and Pattern Recognition. arXiv:1512.00567
    Müller, Kornblith and Hinton (2019), When does label smoothing help? Advances in Neural
        Information Processing Systems 32. arXiv:1906.02629
    Patrini, Rozza, Menon, Nock and Qu (2017), Making deep neural networks robust to label noise: a
        loss correction approach. Computer Vision and Pattern Recognition. arXiv:1609.03683
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks. International
        Conference on Machine Learning. arXiv:1706.04599
    Soudry, Hoffer, Nacson, Gunasekar and Srebro (2018), The implicit bias of gradient descent on
        separable data. Journal of Machine Learning Research 19. arXiv:1710.10345
"""

__all__ = [
    "SoftCrossEntropy", "LabelSmoothing", "uniform_confusion", "forward_correction",
    "expected_calibration_error", "reliability",
]

from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import PositiveInt, Range, UsageError, checked, usage_error
from principia.lab.training import Callback, Objective, Once

Batch = tuple[Tensor, ...]
Rate = Annotated[float, Range(0, 1, open="high")]
Classes = Annotated[int, Range(2)]


@checked
def uniform_confusion(classes: Classes, eps: Rate) -> Float[Tensor, "K K"]:
    r"""Builds $\Pi=(1-\varepsilon)I+\frac\varepsilon K11^\top$: each class alike.

    Example:
        >>> uniform_confusion(2, 0.2)
        tensor([[0.9000, 0.1000],
                [0.1000, 0.9000]], dtype=torch.float64)
    """
    return (1 - eps) * torch.eye(classes, dtype=torch.float64) + eps / classes


@final
class SoftCrossEntropy(nn.Module):
    r"""Computes the mean cross-entropy between the targets $\Pi e_y$ and the model's softmax.

    Shapes:
        logits: (B, K); target: labels (B,); returns a scalar

    Args:
        Pi: Column-stochastic matrix (K, K); column y is the soft target of class y.

    Example:
        >>> loss = SoftCrossEntropy(uniform_confusion(3, 0.1).float())
        >>> logits, y = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
        >>> loss(logits, y), F.cross_entropy(logits, y, label_smoothing=0.1)
        (tensor(0.5076), tensor(0.5076))
    """

    Pi: Tensor

    @checked
    def __init__(self, Pi: Float[Tensor, "K K"]) -> None:
        super().__init__()
        self.register_buffer("Pi", _column_stochastic("SoftCrossEntropy", Pi))

    def forward(
        self, logits: Float[Tensor, "B K"], target: Int[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch."""
        return F.cross_entropy(logits, self.Pi.mT[target].to(logits))


def _column_stochastic(owner: str, Pi: Tensor) -> Tensor:
    """Refuse a matrix whose columns are no distributions; say so if its rows are."""
    if Pi.ndim != 2 or Pi.shape[0] != Pi.shape[1]:
        raise usage_error(owner, "Pi", "a square matrix", tuple(Pi.shape))
    sums, nonnegative = Pi.sum(dim=0), bool((Pi >= 0).all())  # NaN is not
    if nonnegative and bool(((sums - 1).abs() <= 1e-5).all()):
        return Pi
    worst = int((sums - 1).abs().argmax())  # NaN counts as the largest
    got, hint = f"column {worst} with the sum {float(sums[worst]):.4g}", ""
    if bool((Pi < 0).any()):
        got = "a negative entry"
    elif nonnegative and bool(((Pi.sum(dim=1) - 1).abs() <= 1e-5).all()):
        hint = "Its rows do: pass its transpose."
    elif bool(((sums > 0) & sums.isfinite()).all()):
        hint = "Divide each column by its sum."
    raise usage_error(owner, "Pi", "nonnegative with columns that sum to 1", got, hint)


@checked
def forward_correction(
    logits: Float[Tensor, "*B K"], Pi: Float[Tensor, "K K"]
) -> Float[Tensor, "*B K"]:
    r"""Computes $\log(\Pi\,\mathrm{softmax}(G))$: the model's opinion of corrupted labels.

    Its negative log-likelihood, `F.nll_loss`, is trained against noisy labels.

    Args:
        logits: Of the clean classes.
        Pi: Probability $\Pi_{ij}$ that a label j is turned into i; columns sum to 1.

    Example:
        >>> noise = torch.tensor([[0.9, 0.3], [0.1, 0.7]])
        >>> forward_correction(torch.tensor([[50.0, 0.0]]), noise).exp()
        tensor([[0.9000, 0.1000]])
    """
    Pi = _column_stochastic("forward_correction", Pi).to(logits)
    # a class that no label is turned into has a row of zeros, and no gradient through log 0
    log_Pi = Pi.clamp_min(torch.finfo(Pi.dtype).tiny).log()
    return torch.logsumexp(log_Pi + logits.log_softmax(dim=-1)[..., None, :], dim=-1)


@checked
def reliability(
    p: Float[Tensor, "N K"], y: Int[Tensor, " N"], bins: PositiveInt = 15
) -> tuple[Float[Tensor, " bins"], Float[Tensor, " bins"], Num[Tensor, " bins"]]:
    """Collects predictions in bins of equal width by their confidence, the largest probability.

    Args:
        p: Probabilities of the classes.
        y: True classes.
        bins: Number of bins between 0 and 1.

    Returns:
        Mean confidence and accuracy of each bin (0 in an empty one), and how many there are in it.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
        >>> confidence, accuracy, count = reliability(p, torch.tensor([0, 1]), bins=2)
        >>> confidence, accuracy, count
        (tensor([0.0000, 0.8500]), tensor([0.0000, 0.5000]), tensor([0, 2]))
    """
    if not bool((p >= 0).all() and ((p.sum(dim=1) - 1).abs() <= 1e-4).all()):  # nor NaN
        got, hint = ("NaN", "") if bool(p.isnan().any()) else ("others", "Apply softmax to logits.")
        raise usage_error("reliability", "p", "probabilities that sum to 1", got, hint)
    confidence, found = p.max(dim=1)
    places = (confidence * bins).long().clamp_max(bins - 1)
    count = torch.bincount(places, minlength=bins)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(places, values, minlength=bins) / count.clamp_min(1)

    return mean(confidence), mean((found == y).to(p)), count


@checked
def expected_calibration_error(
    p: Float[Tensor, "N K"], y: Int[Tensor, " N"], bins: PositiveInt = 15
) -> Float[Tensor, ""]:
    r"""Computes $\sum_b\frac{n_b}n|\mathrm{acc}_b-\mathrm{conf}_b|$ over bins of confidence.

    Args:
        p: Probabilities of the classes.
        y: True classes.
        bins: Number of bins between 0 and 1.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2]])  # right once, at a confidence of 0.85
        >>> expected_calibration_error(p, torch.tensor([0, 1]), bins=2)
        tensor(0.3500)
    """
    confidence, accuracy, count = reliability(p, y, bins)
    return (count.to(p) / len(p) * (accuracy - confidence).abs()).sum()


@final
class LabelSmoothing(Callback):
    r"""Gives any training with class labels the targets $(1-\varepsilon)e_y+\varepsilon u$.

    The loss of the training must take probabilities as targets, as `F.cross_entropy` does; the
    validation loss is that of the labels.

    Args:
        eps: How much of the label's probability is spread over all classes.

    Example:
        >>> model = nn.Linear(2, 3)
        >>> x, y = torch.randn(8, 2), torch.zeros(8, dtype=torch.long)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> from principia.lab.training import Supervised, fit
        >>> cross_entropy = Supervised(F.cross_entropy)
        >>> trained = fit(model, (x, y), cross_entropy, sgd, callbacks=[LabelSmoothing(0.1)])
    """

    @checked
    def __init__(self, eps: Rate = 0.1) -> None:
        self.eps = eps

    def wrap(self, objective: Objective) -> Objective:
        """Give the objective soft targets in place of labels."""
        proven = False  # that the loss takes them: what it says later is about something else

        def smoothed(model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
            nonlocal proven
            x, y, *rest = batch
            once = Once(model)
            soft = self._softened(y, once(x))
            try:
                loss = objective(once, (x, soft, *rest), rng)
            except (RuntimeError, IndexError) as error:
                if proven or not _computes(objective, once, batch, rng):
                    raise
                reason = str(error).splitlines()[0].rstrip(".")
                raise UsageError(
                    "LabelSmoothing: the loss must take probabilities as targets, as "
                    f"cross-entropy does; it says: {reason}. Leave the part out."
                ) from error
            proven = True
            return loss

        return smoothed

    def _softened(self, y: Tensor, outputs: Tensor) -> Tensor:
        classes = outputs.shape[-1]
        if y.shape == outputs.shape and y.is_floating_point():
            soft = y  # distributions already
        elif y.shape == outputs.shape[:-1] and not y.is_floating_point() and classes > 1:
            if y.numel() and not (y.min() >= 0 and y.max() < classes):
                got = f"labels from {int(y.min())} to {int(y.max())}"
                hint = "Leave out samples without a label." if y.min() < 0 else ""
                raise usage_error("LabelSmoothing", "targets", f"in [0, {classes - 1}]", got, hint)
            soft = F.one_hot(y.long(), classes).to(outputs)
        else:
            got = f"{y.dtype} of shape {tuple(y.shape)} for outputs {tuple(outputs.shape)}"
            hint = "Regression has nothing to smooth."
            raise usage_error("LabelSmoothing", "targets", "labels of classes", got, hint)
        return (1 - self.eps) * soft + self.eps / classes


def _computes(objective: Objective, model: Any, batch: Batch, rng: torch.Generator) -> bool:
    """Tell whether an objective computes a loss with these targets."""
    try:
        objective(model, batch, rng)
    except (RuntimeError, IndexError):
        return False
    return True
