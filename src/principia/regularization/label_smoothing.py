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

import math
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.func import grad
from torch.nn import functional as F
from torch.optim import LBFGS, Adam

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Count, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import paired
from principia.lab.relations import equal, every
from principia.lab.seeds import Seed
from principia.lab.training import Objective, Once, OneCycle, Part, Supervised, fit, part
from principia.lab.training.metrics import outputs_of
from principia.networks.mlp import MLP

Batch = tuple[Tensor, ...]
Rate = Annotated[float, Range(0, 1, open="high")]
Classes = Annotated[int, Range(2)]
Smoothed = Annotated[float, Range(0.05, 0.9)]  # for claims: neither hard labels nor none at all
FewClasses = Annotated[int, Range(2, 20)]
RATES = (0.0, 0.05, 0.1, 0.2)  # arms of the experiment


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

    def __init__(self, Pi: Float[Tensor, "K K"]) -> None:
        super().__init__()
        self.register_buffer("Pi", _column_stochastic("SoftCrossEntropy", Pi))

    def forward(
        self, logits: Float[Tensor, "B K"], target: Int[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch."""
        return F.cross_entropy(logits, self.Pi.mT[target].to(logits))


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
    p: Float[Tensor, "N K"], y: Int[Tensor, " N"], bins: Count = 15
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
        raise refuse("reliability", "p", "probabilities that sum to 1", got, hint)
    confidence, found = p.max(dim=1)
    places = (confidence * bins).long().clamp_max(bins - 1)
    count = torch.bincount(places, minlength=bins)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(places, values, minlength=bins) / count.clamp_min(1)

    return mean(confidence), mean((found == y).to(p)), count


@checked
def expected_calibration_error(
    p: Float[Tensor, "N K"], y: Int[Tensor, " N"], bins: Count = 15
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
class LabelSmoothing(Part):
    r"""Gives any training with class labels the targets $(1-\varepsilon)e_y+\varepsilon u$.

    The loss of the training must take probabilities as targets, as `F.cross_entropy` does; the
    validation loss is that of the labels.

    Args:
        eps: How much of the label's probability is spread over all classes.

    Example:
        >>> model = nn.Linear(2, 3)
        >>> x, y = torch.randn(8, 2), torch.zeros(8, dtype=torch.long)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> cross_entropy = Supervised(F.cross_entropy)
        >>> trained = fit(model, (x, y), cross_entropy, sgd, parts=[LabelSmoothing(0.1)])
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
                raise refuse("LabelSmoothing", "targets", f"in [0, {classes - 1}]", got, hint)
            soft = F.one_hot(y.long(), classes).to(outputs)
        else:
            got = f"{y.dtype} of shape {tuple(y.shape)} for outputs {tuple(outputs.shape)}"
            hint = "Regression has nothing to smooth."
            raise refuse("LabelSmoothing", "targets", "labels of classes", got, hint)
        return (1 - self.eps) * soft + self.eps / classes


def _computes(objective: Objective, model: Any, batch: Batch, rng: torch.Generator) -> bool:
    """Tell whether an objective computes a loss with these targets."""
    try:
        objective(model, batch, rng)
    except (RuntimeError, IndexError):
        return False
    return True


@part()
def label_smoothing(run: Run, *, eps: Rate = 0.1) -> Part:
    """Takes some of the probability of each label and spreads it over all classes.

    Args:
        eps: How much is taken from the label.
    """
    return LabelSmoothing(eps)


@claim(control={"over": "the others"}, source="Szegedy et al. 2016, sec. 7")
def torch_is_the_uniform_case(
    seed: Seed, *, classes: FewClasses = 10, eps: Smoothed = 0.1,
    over: Literal["all classes", "the others"] = "all classes",
) -> Evidence:
    r"""Torch's `label_smoothing` is $\Pi=(1-\varepsilon)I+\frac\varepsilon K11^\top$."""
    rng, rows = seed.torch(), 50
    logits, y = 3 * randn(rng, rows, classes), torch.randint(classes, (rows,), generator=rng)
    Pi = uniform_confusion(classes, eps)
    if over == "the others":
        label = torch.eye(classes, dtype=torch.float64)
        Pi = (1 - eps) * label + eps / (classes - 1) * (1 - label)
    ours, theirs = SoftCrossEntropy(Pi), nn.CrossEntropyLoss(label_smoothing=eps)
    logits.requires_grad_()
    pairs = [[loss(logits, y), torch.autograd.grad(loss(logits, y), logits)[0]]
             for loss in (ours, theirs)]
    # as a part of any training it is the same targets
    asked = LabelSmoothing(eps).wrap(Supervised(F.cross_entropy))
    within = asked(nn.Identity(), (logits, y), rng)
    return every({
        name: equal(one.detach(), other.detach(), tol=1e-12, why="float64 rounding")
        for name, one, other in [
            ("value", pairs[0][0], pairs[1][0]), ("gradient", pairs[0][1], pairs[1][1]),
            ("as a part", within, pairs[1][0]),
        ]
    })


@claim(control={"weights": "swapped"}, source="Szegedy et al. 2016, sec. 7")
def loss_decomposes(
    seed: Seed, *, classes: FewClasses = 10, eps: Annotated[float, Range(0.01, 0.45)] = 0.1,
    weights: Literal["1-ε, ε", "swapped"] = "1-ε, ε",
) -> Evidence:
    r"""$CE(\Pi e_y,q)=(1-\varepsilon)\,CE(e_y,q)+\varepsilon\,CE(u,q)$, with the uniform $u$."""
    rng, rows = seed.torch(), 50
    logits, y = 3 * randn(rng, rows, classes), torch.randint(classes, (rows,), generator=rng)
    of_labels = F.cross_entropy(logits, y)
    of_uniform = -logits.log_softmax(dim=1).mean()
    a, b = (1 - eps, eps) if weights == "1-ε, ε" else (eps, 1 - eps)
    smoothed = SoftCrossEntropy(uniform_confusion(classes, eps))(logits, y)
    rates = torch.linspace(0, 0.95, 20, dtype=torch.float64)
    seen = [SoftCrossEntropy(uniform_confusion(classes, float(one)))(logits, y) for one in rates]
    return equal(smoothed, a * of_labels + b * of_uniform, tol=1e-12, why="rounding").drawn(
        Series("smoothed cross-entropy", rates, seen, style="points"),
        Series("between labels and uniform", [0, 1], [float(of_labels), float(of_uniform)],
               "predicted", "line"),
        x="ε", y="cross-entropy",
    )


@claim(control={"labels": "hard"}, source="Szegedy et al. 2016, sec. 7; Soudry et al. 2018")
def logit_gap_is_finite(
    seed: Seed, *, classes: FewClasses = 10, eps: Smoothed = 0.1,
    labels: Literal["smoothed", "hard"] = "smoothed",
) -> Evidence:
    r"""The best gap between logits is $\ln\frac{1-\varepsilon+\varepsilon/K}{\varepsilon/K}$."""
    lr = 2.0  # 1 over the largest curvature of a softmax; the least near the minimum is about ε/K
    steps = 200 + round(10 * classes / eps)
    loss = SoftCrossEntropy(uniform_confusion(classes, eps if labels == "smoothed" else 0.0))
    y = torch.randint(classes, (1,), generator=seed.torch())
    logits = (0.1 * randn(seed.child("start").torch(), 1, classes)).requires_grad_()
    at = sorted({min(steps, round(1.25**k)) for k in range(40)})
    seen = []
    for step in range(1, steps + 1):
        (slopes,) = torch.autograd.grad(loss(logits, y), logits)
        logits.data.sub_(lr * slopes)
        if step in at:
            seen.append(_gaps(logits, y).mean())
    gap = math.log((1 - eps + eps / classes) / (eps / classes))
    return equal(
        _gaps(logits, y), gap, tol=1e-6, why="the statement: descent has converged to this"
    ).drawn(
        Series("gap of the logits", at, seen, style="line"),
        Series("finite gap", [1, steps], [gap, gap], "predicted"),
        Series("ln t", at, [math.log(one) for one in at], "other"),
        x="step t of gradient descent", y="true logit - other logits", log="x",
    )


@claim(control={"minimizer": "p"}, source="Gibbs' inequality; Szegedy et al. 2016, sec. 7")
def minimizer_is_smoothed_posterior(
    seed: Seed, *, classes: Annotated[int, Range(2, 8)] = 3,
    minimizer: Literal["Π p", "p"] = "Π p",
) -> Evidence:
    r"""The expected smoothed loss is least at the smoothed posterior $\Pi p(\cdot\mid x)$."""
    Pi, posterior = _confused(seed, classes)
    loss, labels = SoftCrossEntropy(Pi), torch.arange(classes)
    of_label = torch.vmap(lambda row, label: loss(row[None], label[None]), in_dims=(None, 0))

    def expected(logits: Tensor) -> Tensor:
        """Weigh the losses of all labels by their probability, and add over inputs."""
        return (posterior * torch.vmap(of_label, in_dims=(0, None))(logits, labels)).sum()

    found = _minimized(expected, posterior.shape).softmax(dim=1)
    wanted = posterior @ Pi.mT if minimizer == "Π p" else posterior
    return equal(
        found, wanted, tol=1e-8, why="the statement; Newton's last step ends at rounding"
    ).drawn(
        Series("minimizer", range(classes), found[0], style="bars"),
        Series("Π p", range(classes), (posterior @ Pi.mT)[0], "predicted", "points"),
        Series("p", range(classes), posterior[0], "other", "points"),
        x="class", y="probability, at one input",
    )


@claim(control={"correction": False}, source="Patrini et al. 2017, theorem 2")
def forward_correction_recovers(
    seed: Seed, *, classes: Annotated[int, Range(2, 8)] = 3, correction: bool = True
) -> Evidence:
    r"""Labels corrupted by $\Pi$: the cross-entropy of $\Pi q$ is least at the clean posterior."""
    Pi, posterior = _confused(seed, classes)
    noisy = posterior @ Pi.mT  # of the labels that are seen

    def expected(logits: Tensor) -> Tensor:
        said = forward_correction(logits, Pi) if correction else logits.log_softmax(dim=1)
        return -(noisy * said).sum()

    found = _minimized(expected, posterior.shape).softmax(dim=1)
    return equal(
        found, posterior, tol=1e-6,
        why="the statement; Newton's last step ends at rounding, through Π's inverse",
    ).drawn(
        Series("trained on noisy labels", range(classes), found[0], style="bars"),
        Series("clean posterior", range(classes), posterior[0], "predicted", "points"),
        Series("posterior of the noisy labels", range(classes), noisy[0], "other", "points"),
        x="class", y="probability, at one input",
    )


@experiment(
    reaches={
        "gain_in_errors": at_least_goal(2.0), "accuracy_change": at_least_goal(-0.005),
    },
    floor={"accuracy": at_least_goal(0.9)},
    source="Müller, Kornblith and Hinton (2019), table 3: smoothing calibrates; to beat is the "
    "same network with labels, by two standard errors over five pairs",
)
def calibration(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 5, epochs: Count = 40,
    hidden: tuple[Count, ...] = (256, 256),
) -> None:
    """Trains networks on 1000 pictures until they know them by heart, and asks how sure they are.

    Args:
        pairs: How many draws of the pictures and of the first weights.
        epochs: How often a network goes through them.
        hidden: Widths of its hidden layers.
    """
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        rates, peak = RATES, 2e-3
    else:
        x, y, *test = digits()
        rates, peak, pairs, epochs = (0.0, 0.1), 1e-2, min(pairs, 2), min(epochs, 15)
    x, test = x.flatten(1), (test[0].flatten(1), test[1])
    seen: dict[tuple[float, int], dict[str, Tensor]] = {}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        order = torch.randperm(len(x), generator=own.child("data").torch())
        train, held = order[:1000], order[1000:4000]
        for eps in rates:
            model = MLP([x.shape[1], *hidden, 10], rng=own.child("init").torch())
            fit(
                model, (x[train], y[train]), Supervised(F.cross_entropy),
                Adam(model.parameters(), lr=1e-3), epochs=epochs, batch_size=50,
                parts=[OneCycle(peak), *([LabelSmoothing(eps)] if eps else [])],
                validation=(x[held], y[held]), seed=own, run=run, name=f"eps-{eps}-{number}",
            )
            model.cpu()
            seen[eps, number] = {
                "held": outputs_of(model, x[held]).softmax(dim=1),
                "held_y": y[held], "test": outputs_of(model, test[0]).softmax(dim=1),
            }
            if (eps, number) == (0.1, 0):
                run.keep(model)

    def errors(eps: float, of: str) -> Tensor:
        truth = [seen[eps, k]["held_y"] if of == "held" else test[1] for k in range(pairs)]
        found = [seen[eps, k][of] for k in range(pairs)]
        return torch.stack(list(map(expected_calibration_error, found, truth)))

    def right(eps: float) -> Tensor:
        found = [(seen[eps, k]["test"].argmax(1) == test[1]).double().mean() for k in range(pairs)]
        return torch.stack(found)

    best = min(rates[1:], key=lambda eps: float(errors(eps, "held").mean()))
    gain = paired(errors(0.0, "test"), errors(best, "test"))
    change = paired(right(best), right(0.0))
    run.record(
        eps=best, ece=float(errors(best, "test").mean()),
        ece_of_labels=float(errors(0.0, "test").mean()), accuracy=float(right(best).mean()),
        **gain.metrics("gain"), accuracy_change=change.mean, accuracy_change_low=change.low,
        accuracy_change_high=change.high,
    )
    lowered = paired(errors(best, "test"), errors(0.0, "test"))
    run.figure("pairs", lowered.figure("calibration error", ("labels", f"ε = {best:g}")))
    run.figure("reliability", _diagram({
        eps: reliability(
            torch.cat([seen[eps, k]["test"] for k in range(pairs)]), test[1].repeat(pairs), 10
        )
        for eps in rates
    }))


def _diagram(found: dict[float, tuple[Tensor, Tensor, Tensor]]) -> go.Figure:
    """Draw accuracy against confidence for every rate of smoothing."""
    series = [Series("as sure as right", [0, 1], [0, 1], "predicted", "line")]
    for eps, (confidence, accuracy, count) in found.items():
        filled = count >= 20  # a mean over fewer says nothing
        series.append(
            Series(f"ε = {eps:g}", confidence[filled], accuracy[filled], "other", "line")
        )
    return figures.draw(Picture(tuple(series), "confidence", "accuracy"))


def _gaps(logits: Tensor, y: Tensor) -> Tensor:
    """Give how far the true logit is above each other one."""
    others = torch.ones(logits.shape[1], dtype=torch.bool)
    others[y] = False
    return (logits[0, y] - logits[0, others]).detach()


def _confused(seed: Seed, classes: int) -> tuple[Tensor, Tensor]:
    """Draw an invertible confusion matrix and the posteriors of five inputs."""
    rng = seed.torch()
    other = rand(rng, classes, classes) + 0.1
    Pi = 0.6 * torch.eye(classes, dtype=torch.float64) + 0.4 * other / other.sum(dim=0)
    return Pi, randn(rng, 5, classes).softmax(dim=1)


def _minimized(function: Any, shape: torch.Size) -> Tensor:
    """Minimize a convex function of logits from 0, until its gradient is rounding."""
    logits = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    lbfgs = LBFGS([logits], max_iter=500, tolerance_grad=1e-11, tolerance_change=1e-16,
                  line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        lbfgs.zero_grad()
        value = function(logits)
        value.backward()
        return value

    lbfgs.step(closure)  # type: ignore[arg-type]
    found = logits.detach()
    # a line search stops where differences of values are rounding, Newton's steps only where
    # gradients are; a constant added to a row of logits changes nothing, hence the pseudoinverse
    for _ in range(2):
        slopes = grad(function)(found).flatten()
        curvature: Any = hessian(lambda flat: function(flat.view(shape)), found.flatten())
        inverse = torch.linalg.pinv(curvature, rtol=1e-9, hermitian=True)
        found = found - (inverse @ slopes).view(shape)
    return found


def _column_stochastic(owner: str, Pi: Tensor) -> Tensor:
    """Refuse a matrix whose columns are no distributions; say so if its rows are."""
    if Pi.ndim != 2 or Pi.shape[0] != Pi.shape[1]:
        raise refuse(owner, "Pi", "a square matrix", tuple(Pi.shape))
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
    raise refuse(owner, "Pi", "nonnegative with columns that sum to 1", got, hint)
