r"""Adagrad: a step for every coordinate, the smaller the more its gradients have added up to.

A word that occurs once in a thousand sentences moves its weight once in a thousand steps, and then
it should move far. Adagrad divides each coordinate by the root of the sum of its squared gradients:
rare coordinates keep long steps, frequent ones settle. Rates only fall, by themselves, like
$1/\sqrt t$, which gives a regret of $O(\sqrt T)$ against any fixed point, whoever chooses the
losses; an average that forgets, as RMSprop's, does not. The path does not change if coordinates are
rescaled, so that a diagonal condition number costs nothing; a rotated one costs what it always did.

$$ \gamma_i^t = \gamma_i^{t-1}+(g_i^t)^2, \quad
\theta_i^t = \theta_i^{t-1}-\frac\eta{\sqrt{\gamma_i^t}+\delta}\,g_i^t $$

$$ R_T = \sum_{t\le T}h_t(\theta^{t-1})-h_t(u) \le
\Big(\frac{D_\infty^2}{2\eta}+\eta\Big)\sum_i\sqrt{\gamma_i^T} $$

Symbols:
    $g^t$: gradient at $\theta^{t-1}$; $g_i$ is its coordinate $i$, not the whole gradient
    $\gamma$: sum of squared gradients, `sum` in the state of `torch.optim.Adagrad`
    $\eta/(\sqrt\gamma+\delta)$: `effective_lr`, with $\eta$ and $\delta$ as `lr` and `eps` of torch
    $R_T$: `online_regret` against a `comparator` $u$ in a box of width $D_\infty$

References:
    Duchi, Hazan and Singer (2011), Adaptive subgradient methods for online learning and stochastic
        optimization. Journal of Machine Learning Research 12(61).
    Zinkevich (2003), Online convex programming and generalized infinitesimal gradient ascent.
        International Conference on Machine Learning.
    Reddi, Kale and Kumar (2018), On the convergence of Adam and beyond. International Conference on
        Learning Representations. arXiv:1904.09237
    Pang and Lee (2005), Seeing stars: exploiting class relationships for sentiment categorization
        with respect to rating scales. Association for Computational Linguistics.
        doi:10.3115/1219840.1219855
"""

__all__ = ["effective_lr", "online_regret"]

import collections
import math
import re
from pydoc_data.topics import topics
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adagrad, Optimizer, RMSprop

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.reviews import reviews
from principia.lab.domains import Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.optimizers import fed
from principia.lab.relations import at_most, equal, every, never, slope
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy_logistic

Dim = Annotated[int, Range(1, 50)]
ACCUMULATORS = ("sum", "square_avg")  # in the states of Adagrad and of RMSprop
RATES = (0.1, 0.3, 1.0, 3.0, 10.0)  # of SGD, from which the best is taken
WORD = re.compile(r"[a-z]+")


def effective_lr(optimizer: Optimizer) -> list[Float[Tensor, "..."]]:
    r"""Gives $\eta/(\sqrt\gamma+\delta)$ for every coordinate of every parameter, as it is now.

    Args:
        optimizer: An Adagrad or RMSprop of torch that has stepped.

    Example:
        >>> p = nn.Parameter(torch.zeros(2))
        >>> adagrad = Adagrad([p], lr=0.1)
        >>> p.grad = torch.tensor([1.0, 2.0])
        >>> adagrad.step()
        >>> effective_lr(adagrad)
        [tensor([0.1000, 0.0500])]
    """
    found = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            state = optimizer.state.get(p, {})
            name = next((one for one in ACCUMULATORS if one in state), None)
            if name is None:
                domain = "an Adagrad or RMSprop that has stepped"
                raise refuse("effective_lr", "optimizer", domain, type(optimizer).__name__)
            lr = group["lr"]
            if decay := group.get("lr_decay", 0):
                lr = lr / (1 + (float(state["step"]) - 1) * decay)
            found.append(lr / (state[name].sqrt() + group["eps"]))
    return found


def online_regret(
    optimizer: Optimizer, losses: Float[Tensor, " T *shape"], comparator: Float[Tensor, "*shape"],
    box: tuple[float, float] | None = None,
) -> Float[Tensor, " T *shape"]:
    r"""Plays linear losses $g_t\cdot\theta$ one after the other, and sums up what was lost.

    Convex losses are bounded by linear ones with their gradients, so that these are the worst.

    Args:
        optimizer: Any, of one parameter, which is changed; where it is now is its first move.
        losses: The slopes $g_t$ of every round, of the shape of the parameter.
        comparator: The fixed point $u$ to compare with.
        box: Ends between which every coordinate is put back after each step.

    Returns:
        $\sum_{s\le t}g_s(\theta_s-u)$ for every round t, coordinate by coordinate.

    Example:
        >>> p = nn.Parameter(torch.zeros(1))
        >>> slopes = torch.tensor([[1.0], [1.0]])
        >>> online_regret(SGD([p], lr=0.5), slopes, torch.tensor([-1.0]), (-1.0, 1.0)).flatten()
        tensor([1.0000, 1.5000])
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if len(params) != 1 or params[0].shape != losses.shape[1:]:
        got = [tuple(p.shape) for p in params]
        domain = f"of one parameter of the shape of a loss, {tuple(losses.shape[1:])}"
        raise refuse("online_regret", "optimizer", domain, got)
    p, lost = params[0], torch.empty_like(losses)
    for t, slopes in enumerate(losses):
        lost[t] = slopes * (p.detach() - comparator)
        p.grad = slopes
        optimizer.step()
        if box is not None:
            p.detach().clamp_(*box)
    return lost.cumsum(dim=0)


@claim(control={"delta": "inside the root"}, source="Duchi, Hazan and Singer 2011, eq. 4")
def torch_is_the_formula(
    seed: Seed, *, dim: Dim = 8, eps: Annotated[float, Range(0, 1)] = 0.1,
    delta: Literal["beside the root", "inside the root"] = "beside the root",
) -> Evidence:
    r"""`torch.optim.Adagrad` is the formula, step for step, with $\delta$ beside the root."""
    risk = noisy_logistic(seed.torch(), dim=dim)
    trace = descend(
        risk, Adagrad(risk.parameters(), lr=0.2, eps=eps), 100, record=("theta",)
    )["theta"][:, 0]
    g, moved = risk.gradient(trace[:-1]), trace.diff(dim=0)
    total = (g**2).cumsum(dim=0)
    root = (total + eps).sqrt() if delta == "inside the root" else total.sqrt() + eps
    formula = -0.2 * g / root
    return equal(moved, formula, tol=1e-13, why="rounding of one step at a time").drawn(
        Series("torch.optim.Adagrad", range(1, 101), moved[:, 0]),
        Series("formula", range(1, 101), formula[:, 0], "predicted"),
        x="step t", y="step of the first coordinate",
    )


@claim(control={"optimizer": "RMSprop"}, source="Duchi, Hazan and Singer 2011, sec. 1.1")
def effective_rate_only_falls(
    seed: Seed, *, steps: Annotated[int, Range(50, 2000)] = 500,
    gradient: Annotated[float, Range(0.1, 10)] = 2.0,
    optimizer: Literal["Adagrad", "RMSprop"] = "Adagrad",
) -> Evidence:
    r"""The rate never rises; of a constant gradient $g$ it is $\eta/(\vert g\vert\sqrt t)$."""
    kind = Adagrad if optimizer == "Adagrad" else RMSprop
    g = torch.randn(steps, 20, generator=seed.torch(), dtype=torch.float64)
    g[steps // 2 :] *= 0.01  # gradients shrink
    g[:, 0] = gradient
    rates = torch.stack([effective_lr(one)[0] for one, _ in fed(kind, g, lr=0.1, eps=0.0)])
    t = torch.arange(1, steps + 1, dtype=g.dtype)
    constant = 0.1 / (gradient * t.sqrt())
    return every({
        "falls": never(rates.diff(dim=0) > 0, why="a sum of squares only grows").drawn(
            Series("coordinate whose gradients shrink", t, rates[:, 1], style="line"),
            Series("of a constant gradient", t, rates[:, 0], "other"),
            Series("η / (|g| √t)", t, constant, "predicted"),
            x="step t", y="effective learning rate", log="xy",
        ),
        "constant gradient": equal(
            rates[:, 0] / constant, 1, tol=1e-12, why="rounding of a sum of equal numbers"
        ),
    })


@claim(
    control={"degrees": 30.0}, source="Duchi, Hazan and Singer 2011, sec. 1.1",
    misprint="Adagrad is invariant to the condition number; to diagonal scaling alone",
)
def invariant_to_diagonal_scaling(
    seed: Seed, *, kappa: Annotated[float, Range(10, 1e6)] = 1e4,
    degrees: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""If each partial derivative is multiplied by a constant, the path stays ($\delta=0$)."""
    angle = math.radians(degrees)
    turn = torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    start = 1 + torch.rand(1, 2, generator=seed.torch(), dtype=turn.dtype)
    paths = []
    for eigenvalues in ([1.0, 1.0], [1.0, kappa]):
        bowl = Quadratic(eigenvalues, rotation=turn).at(start)
        adagrad = Adagrad(bowl.parameters(), lr=0.5, eps=0.0)
        paths.append(descend(bowl, adagrad, 100, record=("theta",))["theta"][:, 0])
    round_bowl, ravine = paths
    return equal(ravine, round_bowl, tol=1e-13, why="rounding of 100 steps").drawn(
        Series(f"κ = {kappa:g}", ravine[:, 0], ravine[:, 1]),
        Series("κ = 1", round_bowl[:, 0], round_bowl[:, 1], "predicted"),
        x="θ₁", y="θ₂",
    )


@claim(control={"method": "RMSprop"}, source="Duchi, Hazan and Singer 2011, thm. 5; Reddi 2018")
def regret_bound(
    seed: Seed, *, rounds: Annotated[int, Range(3000, 30_000)] = 5000,
    lr: Annotated[float, Range(0.5, 2)] = 1.0, method: Literal["Adagrad", "RMSprop"] = "Adagrad",
) -> Evidence:
    r"""In a box of width $D$ the regret is at most $(D^2/2\eta+\eta)\sum_i\sqrt{\gamma_i}$."""
    rng = seed.torch()
    random = torch.randn(rounds, 9, generator=rng, dtype=torch.float64)
    random += 0.05 * torch.arange(9)  # from pure noise to a clear direction
    t = torch.arange(rounds)
    alternating = torch.where(t % 3 == 0, 3.0, -1.0).to(random)[:, None]
    slopes = torch.cat([alternating, random], dim=1)
    p = nn.Parameter(torch.zeros(10, dtype=slopes.dtype))
    adagrad = method == "Adagrad"
    kind = Adagrad([p], lr=lr, eps=0.0) if adagrad else RMSprop([p], lr=lr, alpha=0.1, eps=0.0)
    best = -slopes.sum(dim=0).sign()
    regret = online_regret(kind, slopes, best, (-1.0, 1.0))
    bound = (4 / (2 * lr) + lr) * (slopes**2).cumsum(dim=0).sqrt()
    seen = torch.logspace(math.log10(300), math.log10(rounds), 25).long().unique() - 1
    return every({
        "regret / bound": at_most(
            regret[seen] / bound[seen], 1, why="a theorem, in every coordinate: no slack"
        ).drawn(
            Series(f"{method}, slopes 3, −1, −1", seen + 1, regret[seen, 0]),
            Series("bound", seen + 1, bound[seen, 0], "bound"),
            x="rounds T", y="regret", log="xy",
        ),
        "grows as √T": slope(
            seen + 1, regret[seen, 0], 0.5, tol=0.06,
            why="the way to the best point adds a constant, and three rounds make a cycle",
        ),
    })


@claim(control={"frequencies": "all 1/2"}, source="Duchi, Hazan and Singer 2011, sec. 1.3")
def rare_features_keep_large_steps(
    seed: Seed, *, rows: Annotated[int, Range(200, 500)] = 200,
    steps: Annotated[int, Range(1500, 3000)] = 2000,
    frequencies: Literal["1 to 1/1000", "all 1/2"] = "1 to 1/1000",
) -> Evidence:
    r"""Features of frequency $p$ keep a rate like $p^{-1/2}$: rare ones are learned sooner."""
    rng, kind = seed.torch(), torch.float64
    rare_ones = frequencies == "1 to 1/1000"
    p = torch.logspace(0, -3, 8, dtype=kind) if rare_ones else torch.full((8,), 0.5, dtype=kind)
    x = (torch.rand(steps, rows, 8, generator=rng, dtype=kind) < p).to(kind)
    truth = torch.randn(rows, 8, generator=rng, dtype=kind)
    errors = {}
    for name, optimizer, lr in (("Adagrad", Adagrad, 0.3), ("SGD", SGD, 0.1)):
        theta = nn.Parameter(torch.zeros_like(truth))
        method = optimizer([theta], lr=lr)
        for features in x:
            residual = (features * (theta.detach() - truth)).sum(dim=1, keepdim=True)
            theta.grad = residual * features
            method.step()
        errors[name] = (theta.detach() - truth).abs()
    rare = {name: one[:, 5:].mean(dim=1) for name, one in errors.items()}  # the three rarest
    excess = rare["Adagrad"] - 0.75 * rare["SGD"]
    # gradients of one size, seen now and then: what the rate depends on is the frequency alone
    often = p * steps >= 20
    sparse = (x * torch.randn(x.shape, generator=rng, dtype=kind))[..., often]
    *_, (last, _) = fed(Adagrad, sparse, lr=1.0)
    parts = {
        "error on rare features, less 3/4 of SGD's": at_most(
            excess.mean() + 3 * excess.std() / rows**0.5, 0,
            why="three standard errors of the mean over rows are added",
        ).drawn(
            *(Series(name, p, one.mean(dim=0), role, "points")  # type: ignore[arg-type]
              for (name, one), role in zip(errors.items(), ("measured", "other"), strict=True)),
            x="frequency of the feature", y="mean error of its weight", log="x",
        ),
    }
    if rare_ones:
        parts["rate"] = slope(
            p[often], effective_lr(last)[0].mean(dim=0), -0.5, tol=0.05,
            why="1/√γ of 20 visits is 4 % more in the mean than of its mean",
            labels=("frequency of the feature", "effective learning rate"),
        )
    return every(parts)


@experiment(
    reaches={"share_of_samples": at_most_goal(0.5)},
    floor={"first_epoch_ratio": Range(0, 1, open="high")},
    source="Duchi, Hazan and Singer (2011), sec. 6: adaptive rates on text; to beat is SGD with "
    "its best learning rate on the same sentences",
)
def sparse_text(
    run: Run, *, lr: Annotated[float, Range(0.01, 10)] = 0.1,
    batch_size: Annotated[int, Range(1, 256)] = 16,
) -> None:
    """Classifies sentences by their words, and counts the samples until SGD's best loss."""
    sentences, labels = reviews(data_dir=run.data_dir) if run.full else _topics()
    counts = collections.Counter(word for line in sentences for word in set(WORD.findall(line)))
    known = {word: k for k, word in enumerate(sorted(w for w, n in counts.items() if n >= 2))}
    x, classes, epochs = _bags(sentences, known), int(labels.max()) + 1, 12 if run.full else 3
    order = torch.randperm(len(x), generator=run.seed.child("split").torch())
    train, test = order[len(x) // 10 :], order[: len(x) // 10]

    def trained(name: str, kind: Any, lr: float) -> tuple[list[dict[str, float]], Optimizer]:
        model = _Bag(len(known), classes)
        optimizer = kind(model.parameters(), lr=lr)
        with torch.sparse.check_sparse_tensor_invariants(False):  # torch makes them, and warns
            found = fit(
                model, (x[train], labels[train]), Supervised(F.cross_entropy), optimizer,
                epochs=epochs, batch_size=batch_size, validation=(x[test], labels[test]),
                seed=run.seed.child("order"), run=run, name=f"{name}-{lr:g}",
            )
        return found.history, optimizer

    plain = {rate: trained("sgd", SGD, rate)[0] for rate in (RATES if run.full else RATES[1:4])}
    history, adagrad = trained("adagrad", Adagrad, lr)
    losses = {rate: [row["validation_loss"] for row in rows] for rate, rows in plain.items()}
    best = min(losses, key=lambda rate: min(losses[rate]))
    target = min(losses[best])
    needed = losses[best].index(target) + 1
    ours = [row["validation_loss"] for row in history]
    reached = next((t for t, loss in enumerate(ours, start=1) if loss <= target), epochs + 1)
    first = min(rows[0]["loss"] for rows in plain.values())
    run.record(
        share_of_samples=reached / needed, adagrad_epochs=reached, sgd_epochs=needed, sgd_lr=best,
        sgd_loss=target, adagrad_loss=min(ours), first_epoch_ratio=history[0]["loss"] / first,
    )
    run.figure("losses", figures.draw(Picture((
        Series(f"Adagrad, lr {lr:g}", range(1, epochs + 1), ours, style="line"),
        *(Series(f"SGD, lr {rate:g}", range(1, epochs + 1), one, "other")
          for rate, one in losses.items()),
    ), "epoch", "validation loss", "y")))
    rates = effective_lr(adagrad)[0][:-1].mean(dim=1)
    share = torch.tensor([counts[word] / len(sentences) for word in known], dtype=rates.dtype)
    shown = torch.randperm(len(rates), generator=run.seed.child("shown").torch())[:400]
    line = rates.median() * (share / share.median()) ** -0.5
    order = share.argsort()
    run.figure("rates", figures.draw(Picture((
        Series("words", share[shown], rates[shown]),
        Series("slope −1/2", share[order][::50], line[order][::50], "predicted"),
    ), "share of the sentences with the word", "effective learning rate", "xy")))


@final
class _Bag(nn.Module):
    """A linear classifier of bags of words, with gradients for the words of a batch alone."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(words + 1, classes))  # the last is no word
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        """Sum up the weights of the words."""
        filler = len(self.weight) - 1
        bags = F.embedding_bag(x, self.weight, mode="sum", sparse=True, padding_idx=filler)
        return bags + self.bias


def _bags(sentences: list[str], known: dict[str, int]) -> Tensor:
    """Write sentences as numbers of their different words, filled up to one length."""
    rows = [sorted({known[w] for w in WORD.findall(line) if w in known}) for line in sentences]
    filled = torch.full((len(rows), max(map(len, rows))), len(known))
    for place, row in enumerate(rows):
        filled[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    return filled


def _topics() -> tuple[list[str], Tensor]:
    """Cut the ten longest topics of Python's reference into sentences; the topic is the class."""
    longest = sorted(topics, key=lambda name: (-len(topics[name]), name))[:10]
    sentences, labels = [], []
    for label, name in enumerate(longest):
        for sentence in re.split(r"[.:]\s", topics[name].lower()):
            if len(WORD.findall(sentence)) >= 5:
                sentences.append(sentence)
                labels.append(label)
    return sentences, torch.tensor(labels)
