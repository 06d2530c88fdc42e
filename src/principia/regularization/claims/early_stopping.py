r"""Early stopping: what is true of it, and what would refute it.

Knobs:
    dim: Number of weights.
    steps: Steps of gradient descent.
    start: Where descent begins; the formula is that of a start at 0.
    lr: Step size η.
    form: The matching strength as it is, or as it is misprinted.
    step: Step size of descent that stands for the flow; long steps are no flow.
    patience: Checks without a new best after which training stops.
    checks: Checks of the validation loss, if nothing stops them.
    restore_best: Whether the best weights are put back; else the last ones are kept.
    better: Which loss counts as better; told that more is, it waits for the worst.
    draws: Independent problems that are averaged.
    noise: Standard deviation of the noise on the targets.
    problem: What is fit; with few features and no noise there is nothing to overfit.
"""

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import EarlyStopping
from principia.lab.training.pairs import paired
from principia.regularization.early_stopping import equivalent_decay, stopped_shrinkage
from principia.regularization.weight_decay import shrinkage


@claim(control={"start": "elsewhere"}, source="Goodfellow, Bengio and Courville 2016, eq. 7.40")
def gd_path_in_eigenbasis(
    seed: Seed, *, dim: Annotated[int, Range(1, 30)] = 6,
    steps: Annotated[int, Range(1, 2000)] = 500, start: Literal["0", "elsewhere"] = "0",
) -> Evidence:
    r"""Descent on a quadratic from 0: $\theta_t=Q(I-(I-\eta\Lambda)^t)Q^\top\theta^*$."""
    rng, problems = seed.torch(), 20
    Q = torch.linalg.qr(randn(rng, problems, dim, dim)).Q
    lam = 10 ** (3 * rand(rng, problems, dim) - 3)  # between 0.001 and 1
    H = Q @ torch.diag_embed(lam) @ Q.mT
    best, lr = randn(rng, problems, dim, 1), 1.5  # at most 1.5 over the largest eigenvalue
    theta = torch.zeros_like(best) if start == "0" else randn(rng, problems, dim, 1)
    at = sorted({0, *(min(steps, round(1.2**k)) for k in range(42))})
    found, predicted = [], []
    for t in range(steps + 1):
        if t in at:
            found.append(theta.clone())
            share = stopped_shrinkage(lam, lr, t)[..., None]
            predicted.append(Q @ (share * (Q.mT @ best)))
        theta = theta - lr * H @ (theta - best)
    path, formula = torch.stack(found), torch.stack(predicted)
    descent, expected = ((Q[0].mT @ one[:, 0] / (Q[0].mT @ best[0]))[..., 0]
                         for one in (path, formula))
    drawn = []
    for k in range(min(3, dim)):
        name = f"λ = {float(lam[0, k]):.2g}"
        drawn += [
            Series(f"descent, {name}", at, descent[:, k], style="points"),
            Series(f"formula, {name}", at, expected[:, k], "predicted", "line"),
        ]
    return equal_to_rounding(path, formula).named("weights along the path").drawn(
        *drawn, x="steps", y="share of the way along an eigenvector", log="x"
    )


@claim(
    control={"form": "printed"}, source="Goodfellow, Bengio and Courville 2016, eq. 7.44",
    misprint=r"stopping after $t\approx\eta/\mu$ steps is like weight decay $\mu$",
)
def stopping_is_decay(
    seed: Seed, *, lr: Annotated[float, Range(0.001, 0.02)] = 0.01,
    steps: Annotated[int, Range(50, 500)] = 100,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$\lambda\ll\mu$, $\eta\lambda\ll1$: stopping at $t=1/(\eta\mu)$ shrinks like decay $\mu$."""
    rng, dim = seed.torch(), 8
    decay = equivalent_decay(lr, steps) if form == "correct" else lr / steps
    # directions that t steps hardly move: both shares are near x = ηλt, up to 1 %
    x = 0.002 + 0.008 * rand(rng, dim).sort().values
    lam, Q, best = x / (lr * steps), torch.linalg.qr(randn(rng, dim, dim)).Q, randn(rng, dim)
    H = Q @ torch.diag(lam) @ Q.mT
    theta = torch.zeros_like(best)
    for _ in range(steps):
        theta = theta - lr * H @ (theta - best)
    by_descent, by_decay = (Q.mT @ one for one in (theta, shrinkage((H + H.mT) / 2, decay) @ best))
    shares = stopped_shrinkage(lam, lr, steps), shrinkage(torch.diag(lam), decay).diagonal()
    wide = torch.logspace(-3, 1, 41, dtype=torch.float64) / (lr * steps)
    wide = wide[lr * wide < 1]
    return every({
        name: equal(
            stopped / decayed, 1 + x / 2 + lr * lam / 2, tol=x**2,
            why="both are x less a share of x: half of it, and all of it; what is left is of "
            "second order, x²/3",
        )
        for name, stopped, decayed in (
            ("weights", by_descent, by_decay), ("shares", *shares)
        )
    }).drawn(
        Series("stopping", wide / decay, stopped_shrinkage(wide, lr, steps), style="line"),
        Series("weight decay", wide / decay, wide / (wide + decay), "predicted", "line"),
        x="λ / μ", y="share of the way", log="xy",
    )


@claim(control={"step": 1.0}, source="Ali, Kolter and Tibshirani 2019, theorem 1")
def stopping_risk_inflation(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 20,
    step: Annotated[float, Range(1e-7, 1)] = 1e-6,
) -> Evidence:
    r"""The risk of gradient flow at time $t$ is at most 1.6862 times that of ridge at $1/t$."""
    rng, problems, bound = seed.torch(), 2000, 1.6862
    width = 4.5 * rand(rng, problems, 1) ** 2  # in decades below the largest eigenvalue, 1
    spectra = 10 ** (-width * rand(rng, problems, dim))
    spectra = spectra / spectra.amax(dim=1, keepdim=True)
    signals, noise = randn(rng, problems, dim), 10 ** (6 * rand(rng, problems, 1) - 3)
    times = torch.logspace(-3, 5, 40, dtype=torch.float64).tolist()

    def risk(share: Tensor) -> Tensor:
        """Add squared bias and variance over the coordinates."""
        return (signals**2 * (1 - share) ** 2 + noise * share**2 / spectra).sum(dim=-1)

    def shares(lam: Tensor, time: float) -> tuple[Tensor, Tensor]:
        """Give those of descent in short steps, which is the flow, and those of ridge."""
        price = equivalent_decay(step, time / step)
        return stopped_shrinkage(lam, step, time / step), lam / (lam + price)

    found = [shares(spectra, time) for time in times]
    ratio = torch.stack([risk(flow) / risk(ridge) for flow, ridge in found])
    # one direction, of noise alone: λ = 1, then x = t
    alone = [shares(torch.ones(1).double(), 10 ** (k / 1000)) for k in range(-1000, 1000)]
    limit = max(float((flow / ridge) ** 2) for flow, ridge in alone)
    return every({
        "risk": at_most(ratio.max(), bound, why="a theorem: no slack").drawn(
            Series("worst of 2000 problems", times, ratio.amax(dim=1), style="line"),
            Series("supremum", [times[0], times[-1]], [limit, limit], "predicted", "line"),
            Series("bound", [times[0], times[-1]], [bound, bound], "bound", "line"),
            x="time t", y="risk of the flow / risk of ridge", log="x",
        ),
        "supremum": equal(limit, 1.68595, tol=5e-5, why="the digits that are stated: 1.6859..."),
    })


@claim(
    control=[
        Control({"restore_best": False}, ["weights"], "the last weights are kept"),
        Control({"better": "higher"}, ["check of the stop", "weights"], "told that more is better"),
    ],
    source="Prechelt 1998, sec. 2",
    no_component="it runs EarlyStopping, a part of the training loop",
)
def patience_semantics(
    seed: Seed, *, patience: Annotated[int, Range(1, 10)] = 3,
    checks: Annotated[int, Range(12, 200)] = 40, restore_best: bool = True,
    better: Literal["lower", "higher"] = "lower",
) -> Evidence:
    r"""It stops at the first check with `patience` checks since the best, and returns the best."""
    rng, scripts = seed.torch(), 30
    # losses that fall and rise again, on a grid so that some are equal
    falls = (torch.arange(checks) / checks - 0.5) ** 2
    losses = ((falls + 0.1 * randn(rng, scripts, checks)) * 50).round() / 50
    ends, weights, expected_ends, expected_weights = [], [], [], []
    for script in losses.tolist():
        model: Any = skip_init(nn.Linear, 1, 1, bias=False)
        stopping = EarlyStopping(patience=patience, better=better, restore_best=restore_best)
        stopping.begin(model, {}, checks)
        end = checks - 1
        for check, loss in enumerate(script):
            model.weight.data.fill_(float(check))
            if stopping.after_epoch(model, {"validation_loss": loss}):
                end = check
                break
        stopping.finish(model)
        ends.append(end)
        weights.append(model.weight.item())
        # the definition, read off the script: no state, no counting
        bests = [script.index(min(script[: check + 1])) for check in range(checks)]
        waits = [check for check in range(checks) if check - bests[check] >= patience]
        expected_ends.append(waits[0] if waits else checks - 1)
        expected_weights.append(bests[expected_ends[-1]])
    first = losses[0, : ends[0] + 1]
    return every({
        "check of the stop": never(
            torch.tensor(ends) != torch.tensor(expected_ends), why="a rule, no estimate"
        ),
        "weights": equal(
            weights, expected_weights, tol=0, why="weights are copied"
        ).drawn(
            Series("validation loss", range(len(first)), first, style="line"),
            Series("returned", [weights[0]], [losses[0, int(weights[0])]], "predicted", "points"),
            x="check", y="validation loss",
        ),
    })


@claim(control={"problem": "well-posed"}, source="Li, Soltanolkotabi and Oymak 2020; Prechelt 1998")
def stopping_beats_the_end(
    seed: Seed, *, draws: Annotated[int, Range(20, 100)] = 40,
    noise: Annotated[float, Range(0.2, 2)] = 0.5,
    problem: Literal["noisy", "well-posed"] = "noisy",
) -> Evidence:
    r"""Noisy targets, more features than points: the test error is lower at the stop."""
    rng, points, held, test = seed.torch(), 100, 100, 500
    features, sigma = (200, noise) if problem == "noisy" else (40, 0.0)
    x = randn(rng, draws, points + held + test, 5)
    W, phase = randn(rng, draws, 5, features), 2 * math.pi * rand(rng, draws, 1, features)
    Phi = math.sqrt(2 / features) * torch.cos(x @ W + phase)
    clean = (Phi @ randn(rng, draws, features, 1))[..., 0]
    y = clean + sigma * randn(rng, *clean.shape)
    U, s, Vh = torch.linalg.svd(Phi[:, :points], full_matrices=False)
    lam = s**2 / points
    lr = 1 / float(lam.max())
    # far enough that descent has learned all it will
    at = torch.logspace(0, 9, 60, dtype=torch.float64).round()
    goal = (U.mT @ y[:, :points, None])[..., 0] / s
    shares = torch.stack([stopped_shrinkage(lam, lr, float(t)) for t in at])  # (times, draws, n)
    paths = torch.einsum("sni,tsn->tsi", Vh, shares * goal)
    guesses = torch.einsum("spi,tsi->tsp", Phi, paths)
    of_held = (guesses - y)[..., points : points + held].square().mean(dim=-1)
    of_test = (guesses - clean)[..., points + held :].square().mean(dim=-1)
    stop = of_held.argmin(dim=0)
    saved = paired(of_test[-1], of_test[stop, torch.arange(draws)])
    return every({
        "in standard errors": at_least(
            saved.in_errors, 3.0, why="the statement: three standard errors over the draws"
        ).drawn(
            Series("test error", at, of_test.mean(dim=1), style="line"),
            Series("error on held-out data, noise included", at, of_held.mean(dim=1), "other",
                   "line"),
            Series("median stop", [float(at[stop].median())], [float(saved.without.mean())],
                   "predicted", "points"),
            x="steps", y="mean squared error", log="xy",
        ),
        "against the variance of the targets": at_least(
            saved.mean / float(clean.var()), 1e-3,
            why="differences below that are rounding, or a descent that has not ended",
        ),
    })
