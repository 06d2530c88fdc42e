r"""The perceptron: what it reaches on data."""

import functools
from typing import Annotated, Any

import numpy as np

from principia.connectionism.perceptron import Perceptron, mistake_bound
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Arrows, Label, Panels, Regions, Rule
from principia.lab.pictures.marks import Color
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly

MOST = 14  # mistakes of the moving picture
SIDES: dict[int, Color] = {1: "blue", -1: "orange"}  # the color of a class
SHOWN, HIGH = 48.0, 7.4  # ends of the axes of the scissors: 1 / 0.15**2 mistakes fit


@hero(moves="mistakes", frames=MOST + 1)
def scissors(
    seed: Seed, *, mistakes: Annotated[int, Range(0, MOST)] = 3,
    margin: Annotated[float, Range(0.15, 0.5)] = 0.15, liars: Annotated[int, Range(0, 3)] = 0,
) -> Panels:
    """Every mistake turns the line; but the arrow must grow faster than it can, so mistakes end.

    Args:
        mistakes: How many mistakes the unit has learned from.
        margin: How far all points stay away from the best line; the longest point has length 1.
        liars: Points with a wrong label; with one, no line parts the classes, and it never ends.
    """
    points, labels, path, wrong = _mistakes(seed, margin, liars)
    k = min(mistakes, len(wrong))
    w, lengths, steps = path[k], np.linalg.norm(path[: k + 1], axis=1), np.arange(k + 1)
    missed, last = labels * (points @ w) <= 0, wrong[max(k - 1, 0) : k]
    added = path[max(k - 1, 0) : k]
    ahead = 9 * w / max(lengths[-1], 1e-9)
    aside = ahead @ [[0, 1], [-1, 0]]
    halves = [[aside, -aside, side * ahead - aside, side * ahead + aside] for side in (1, -1)]
    short = lengths < margin * steps - 1e-9
    state = "red" if short[-1] else "ink"
    title = f"mistake {k}: no end" if short[-1] else f"mistake {k}"
    all_steps, tip = np.linspace(0, SHOWN, 97), 0.6 * min(SHOWN, HIGH / margin)
    return Panels((
        Plot((
            Regions(halves if k else [], (0, 1) if k else ()),
            *(Series("", points[labels == sign, 0], points[labels == sign, 1], color, "points")
              for sign, color in SIDES.items()),
            Label("✕", points[missed, 0], points[missed, 1], "red", size=16),
            Arrows(added, w[None][: len(added)], width=3,
                   role=SIDES[int(labels[last].sum()) or 1]),
            Label("◯", points[last, 0], points[last, 1], size=22),
            Arrows(np.zeros((min(k, 1), 2)), w[None][: min(k, 1)], role=state, width=3),
        ), x="each mistake is added", y="", square=True,
            title=title if missed.any() else f"done after {k} mistakes",
            x_range=(-1.8, 1.8), y_range=(-1.8, 1.8)),
        Plot((
            Series("", all_steps, np.sqrt(all_steps), "purple"),
            Series("", all_steps, margin * all_steps, "green"),
            Rule("", x=margin**-2),
            Label("at most √k", 22, 5.2, "purple", side="left"),
            Label("at least γk", tip, margin * tip - 0.2, "green", side="right"),
            Series("", steps[~short], lengths[~short], "ink", "points"),
            Series("", steps[short], lengths[short], "red", "points"),
        ), x="mistakes k", y="length of the arrow", title=f"scissors close at {margin**-2:.0f}",
            x_range=(0, SHOWN), y_range=(0, HIGH)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one training
def _mistakes(
    seed: Seed, margin: float, liars: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Let a unit learn points, visited from one end of the line to the other; trace its way."""
    rng, count = seed.numpy(), 40
    along = np.sort(rng.uniform(-1, 1, count)) * (1 - margin**2) ** 0.5
    depth = margin + (np.sqrt(1 - along**2) - margin) * rng.uniform(0, 1, count) ** 2
    turn = rng.uniform(0, 2 * np.pi)
    best = np.array([np.cos(turn), np.sin(turn)])
    labels = np.where(np.arange(count) % 2, 1.0, -1.0)
    points = np.outer(labels * depth, best) + np.outer(labels * along, [-best[1], best[0]])
    labels[np.argsort(-depth)[:liars]] *= -1
    model = Perceptron(fit_intercept=False, max_epochs=MOST + 2, trace=True)
    fit_quietly(model, points, labels)
    path = np.concatenate([np.zeros((1, 2)), model.weights_])
    return points, labels, path, model.mistakes_


@experiment(
    reaches={"ovr_test_accuracy": at_least_goal(0.887), "ovo_test_accuracy": at_least_goal(0.94)},
    floor={"ovr_test_accuracy": at_least_goal(0.90), "bound_minus_mistakes": at_least_goal(0)},
    source="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, Table 3: best Perceptron on MNIST 0.887; "
    "the 0.94 of one unit a pair is a floor of our own",
)
def digits(run: Run, *, epochs: PositiveInt = 5, pair_epochs: PositiveInt = 10) -> None:
    """Reads handwritten digits with averaged perceptrons: MNIST, or 8 x 8 digits when quick."""
    x, y, x_test, y_test = handwriting(run)
    side = x.shape[-1]
    X, X_test = (part.flatten(1).double().numpy() for part in (x, x_test))
    labels, labels_test = y.numpy(), y_test.numpy()

    settings: dict[str, Any] = {"shuffle": True, "random_state": int(run.seed)}
    per_class = fit_quietly(Perceptron(max_epochs=epochs, average=True, **settings), X, labels)
    run.record(ovr_test_accuracy=per_class.score(X_test, labels_test))
    run.keep(per_class)
    plain = fit_quietly(Perceptron(max_epochs=epochs, **settings), X, labels)
    run.record(ovr_without_averaging=plain.score(X_test, labels_test))
    pairwise = Perceptron(max_epochs=pair_epochs, average=True, strategy="ovo", **settings)
    run.record(ovo_test_accuracy=fit_quietly(pairwise, X, labels).score(X_test, labels_test))

    pair = labels < 2
    X_pair, y_pair = X[pair], np.where(labels[pair] == 1, 1.0, -1.0)
    model = Perceptron().fit(X_pair, y_pair)
    bound = mistake_bound(X_pair, y_pair, model.coef_[0], float(model.intercept_[0]))
    run.record(zero_one_mistakes=model.n_mistakes_, bound_minus_mistakes=bound - model.n_mistakes_)

    weights = [row.reshape(side, side) for row in per_class.coef_]
    run.figure("weights", figures.images(weights, [str(k) for k in range(10)], signed=True))
    margins = y_pair * model.decision_function(X_pair) / np.linalg.norm(model.coef_)
    counts, edges = np.histogram(margins, bins=40)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    histogram = Series("points", middles, counts.tolist(), style="bars")
    run.figure("margins", figures.draw(Plot((histogram,), "margin, 0 against 1", "points")))
    series = Series("mistakes", range(1, len(plain.epoch_mistakes_) + 1), plain.epoch_mistakes_)
    run.figure("mistakes", figures.draw(Plot((series,), "epoch", "mistakes of ten units")))
