r"""The perceptron: what is true of it, and what would refute it.

Knobs:
    problems: Separable sets of points on which a perceptron is trained.
    points: Points of a set that a perceptron is trained on.
    margin_scale: How many times the true margin the bound is told; above 1 it is broken.
    dim: Dimension of the points.
    strict: Whether mistakes shall stay below the bound, which they can attain.
    augmented: Whether the radius counts the coordinate 1 of the bias; without it the bound is
        broken.
    runs: Sets of points on which a perceptron is trained.
    flip: The chance that a label is turned; then progress falls short of the bound.
    update: When a point is added to the weights; always, and not after a mistake, they grow too
        fast.
    outside: Length of the part of the first weights outside of the span, which no mistake removes.
    epochs: Passes over the points.
    labels: Which function the four corners get; AND is separable, so that mistakes end.
    zero: The class of a score of 0; with none, accuracy counts such points as wrong.
    reference: Whether scikit-learn averages as we do; exchanged, one averages and one does not.
    classes: How many classes there are.
    exchanged: Whether the one takes a unit a class where the other takes one a pair of classes.
    width: How many times its default the width of the kernel is; only at 1 are they the same.
    tie: What a score of exactly 0 is in training: a mistake, unless the rule is changed.
"""

import itertools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.linear_model import Perceptron as SklearnPerceptron
from sklearn.linear_model import SGDClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils import check_random_state

from principia.connectionism._perceptron_fast import counted, jump, sweep
from principia.connectionism.perceptron import (
    Array,
    KernelPerceptron,
    Perceptron,
    mistake_bound,
    perceptron_epoch,
)
from principia.lab.data.synthetic import separable_points
from principia.lab.evidence import (
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
from principia.lab.params import PositiveFloat, Range, UnitInterval
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly

EPOCHS = 3  # of the fast form and of the rule
UNIT: dict[str, Any] = {  # of scikit-learn, with the rule of this page
    "loss": "perceptron", "learning_rate": "constant", "eta0": 1.0, "penalty": None,
    "shuffle": False, "tol": None, "random_state": 0,
}


@claim(control={"margin_scale": 1.1}, refutes=["mistakes"], source="Novikoff 1962")
def mistake_bound_claim(
    seed: Seed, *, problems: Annotated[int, Range(50, 500)] = 200,
    points: Annotated[int, Range(20, 2000)] = 100, margin_scale: PositiveFloat = 1.0,
) -> Evidence:
    r"""Without bias at most $\lfloor R^2/\gamma^2\rfloor$ mistakes are made on separable data."""
    rng = seed.numpy()
    mistakes, bounds, ratios = [], [], []
    for number in range(problems):
        dim, gap = int(rng.integers(2, 51)), float(10 ** rng.uniform(-2, 0))
        if number % 2:
            X, y, target = separable_points(rng, points, dim, gap)
        else:  # orthogonal points of one length, every one a mistake: the bound is attained
            X = rng.uniform(1, 9) * np.linalg.qr(rng.normal(size=(dim, dim)))[0]
            y = (-1.0) ** np.arange(dim)
            target = y @ X
        model = Perceptron(fit_intercept=False).fit(X, y)
        mistakes.append(model.n_mistakes_)
        margin = (y * (X @ target)).min() / np.linalg.norm(target) / margin_scale
        ratios.append((X**2).sum(axis=1).max() / margin**2 * (1 + 1e-12))  # R = γ gives 1
        bounds.append(mistake_bound(X, y, 3 * target) // margin_scale**2)  # of any length
    return every({
        "mistakes": at_most(mistakes, bounds, why="a theorem: no slack").drawn(
            Series("problems", bounds, mistakes), Series("bound", bounds, bounds, role="bound"),
            x="bound R²/γ²", y="mistakes", log="xy"),
        "bound": equal(bounds, np.floor(ratios), tol=0, why="integers"),
    })


@claim(
    control={"strict": True}, source="Novikoff 1962",
    misprint=r"converges in less than $\lfloor R^2/\gamma^2\rfloor$ steps",
)
def bound_is_attained(
    seed: Seed, *, dim: Annotated[int, Range(1, 1000)] = 10, strict: bool = False
) -> Evidence:
    r"""The bound on the mistakes can be attained: one point up to sign, $R=\gamma$, one mistake."""
    point = seed.numpy().normal(size=dim)
    X, y = np.stack([point, -point]), np.array([1.0, -1.0])
    made = Perceptron(fit_intercept=False, trace=True).fit(X, y).n_mistakes_
    bound = mistake_bound(X, y, point)
    if strict:
        return at_most(made, bound - 1, why="below the bound, in integers").named("mistakes")
    return equal(made, bound, tol=0, why="integers").named("mistakes")


@claim(control={"augmented": False}, refutes=["mistakes"], source="Novikoff 1962, for (x, 1)")
def bias_needs_augmented_radius(
    seed: Seed, *, problems: Annotated[int, Range(10, 500)] = 200, augmented: bool = True
) -> Evidence:
    r"""With a learned bias the bound is the one of the points $(x,1)$, not of the raw points."""
    rng = seed.numpy()
    sets = [(np.array([[0.1], [-0.1]]), np.array([1.0, -1.0]), np.ones(1), 0.0)]  # R = gamma = 0.1
    for _ in range(problems - 1):
        dim, gap, shift = int(rng.integers(2, 51)), float(rng.uniform(0.05, 1)), rng.normal()
        X, y, target = separable_points(rng, 100, dim, gap)
        sets.append((X + shift * target, y, target, -shift))  # target.(x + shift target) - shift
    mistakes, raw, formulas, bounds = [], [], [], []
    for X, y, target, bias in sets:
        mistakes.append(Perceptron().fit(X, y).n_mistakes_)
        margin = (y * (X @ target + bias)).min() * (1 - 1e-12)  # R = γ shall give 1
        radius = (X**2).sum(axis=1).max()
        raw.append(np.floor(radius / margin**2))
        formulas.append(np.floor((radius + 1) * (target @ target + bias**2) / margin**2))
        bounds.append(mistake_bound(X, y, 2 * target, 2 * bias))
    return every({
        "mistakes": at_most(mistakes, bounds if augmented else raw, why="a theorem: no slack"),
        "bound": equal(bounds, formulas, tol=0, why="integers, of any length of (w, b)"),
    }).drawn(
        Series("mistakes", raw, mistakes), Series("bound", raw, bounds, "green", "points"),
        Series("without the 1", [1, max(raw)], [1, max(raw)], "bound"),
        x="R²/γ² of the points without the 1", y="mistakes", log="xy")


@claim(control={"flip": 0.2}, source="Novikoff 1962, first lemma")
def weights_grow_along_target(
    seed: Seed, *, runs: Annotated[int, Range(5, 100)] = 50, flip: UnitInterval = 0.0
) -> Evidence:
    r"""After $t$ mistakes $w_t\cdot w^*\ge t\gamma$ for every separator with $\Vert w^*\Vert=1$."""
    rng = seed.numpy()
    progress, least = [], []
    for _ in range(runs):
        X, y, target = separable_points(rng, 100, int(rng.integers(2, 51)), 0.1)
        gamma = float((y * (X @ target)).min())
        labels = np.where(rng.random(len(y)) < flip, -y, y)
        model = _fit_traced(X, labels)
        progress.append(model.weights_ @ target)
        least.append(gamma * np.arange(1, model.n_mistakes_ + 1))
    t, why = range(1, len(progress[0]) + 1), "a theorem; 10^4 floats of size 10 round by 1e-9"
    return at_least(
        np.concatenate(progress), np.concatenate(least), slack=1e-9, why=why
    ).named("progress along the separator").drawn(
        Series("w·w*", t, progress[0]), Series("tγ", t, least[0], role="bound"),
        x="mistakes t (first run)", y="progress along the target",
    )


def _fit_traced(X: Array, y: Array, **settings: Any) -> Perceptron:
    """Trace a perceptron without bias, unless told otherwise, whether it converges or not."""
    chosen = {"fit_intercept": False, "max_epochs": 100, **settings}
    return fit_quietly(Perceptron(trace=True, **chosen), X, y)


@claim(
    control={"update": "always"}, refutes=["squared norm below the sum", "squared norm below R²t"],
    source="Novikoff 1962, second lemma",
)
def weights_grow_slowly(
    seed: Seed, *, runs: Annotated[int, Range(5, 200)] = 50,
    update: Literal["mistake", "always"] = "mistake",
) -> Evidence:
    r"""$\Vert w_t\Vert^2\le\sum\Vert x_t\Vert^2\le R^2t$ over mistakes; equality at margin 0."""
    rng = seed.numpy()
    norms, sums, radii = [], [], []
    for _ in range(runs):
        X, y, _ = separable_points(rng, 100, int(rng.integers(2, 51)), 0.1)
        if update == "mistake":
            model = _fit_traced(X, y)
            used, weights = model.mistakes_, model.weights_
        else:
            used, weights = np.arange(len(y)), np.cumsum(y[:, None] * X, axis=0)
        squares = (X**2).sum(axis=1)
        norms.append((weights**2).sum(axis=1))
        sums.append(np.cumsum(squares[used]))
        radii.append(squares.max() * np.arange(1, len(used) + 1))
    # orthogonal points of different lengths: every one is a mistake of margin 0, once
    basis = np.linalg.qr(rng.normal(size=(20, 20)))[0] * rng.uniform(1, 2, size=(20, 1))
    orthogonal = _fit_traced(basis, rng.permutation(np.repeat([1.0, -1.0], 10)))
    attained = (orthogonal.weights_**2).sum(axis=1)
    longest = np.cumsum((basis**2).sum(axis=1)[orthogonal.mistakes_])
    together = [np.concatenate(one) for one in (norms, sums, radii)]
    rounding, t = 1e-9 * together[2], range(1, len(norms[0]) + 1)
    reason = "a theorem; rounding of sums of squares, relative to R²t"
    return every({
        "squared norm below the sum": at_most(*together[:2], slack=rounding, why=reason).drawn(
            Series("‖w‖²", t, norms[0]), Series("Σ‖x‖²", t, sums[0], role="bound"),
            Series("R²t", t, radii[0]), x="mistakes t (first run)", y="squared norm",
        ),
        "squared norm below R²t": at_most(*together[::2], slack=rounding, why=reason),
        "orthogonal points attain it": equal_to_rounding(attained, longest),
    })


@claim(control={"outside": 1.0}, source="by construction")
def weights_in_span(
    seed: Seed, *, dim: Annotated[int, Range(20, 500)] = 60,
    points: Annotated[int, Range(5, 15)] = 15, outside: Annotated[float, Range(0, 10)] = 0.0,
) -> Evidence:
    r"""Weights that start in the span of the points stay there: mistakes add nothing but points."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, points, dim, 0.1)
    basis = np.linalg.qr(X.T)[0]  # (dim, points), orthonormal
    away = rng.normal(size=dim)
    away -= basis @ (basis.T @ away)
    start = X.T @ rng.normal(size=points) + outside * away / np.linalg.norm(away)
    model = Perceptron(fit_intercept=False, trace=True).fit(X, y, coef_init=start)
    weights = np.vstack([model.weights_, model.coef_])
    outer = weights - weights @ basis @ basis.T
    left = np.linalg.norm(outer, axis=1) / np.linalg.norm(weights, axis=1)
    name = "share outside of the span"
    return at_most(left, 1e-12, why="rounding of projections").named(name).drawn(
        Series("weights", range(1, 1 + len(left)), left + 1e-17), Rule("rounding", y=1e-12),
        x="mistakes", y="share of the length outside of the span", log="y")


@claim(
    control={"labels": "and"},
    refutes=["mistakes in every epoch", "gives up by default when scikit-learn does"],
    source="Minsky and Papert 1969; Block and Levin 1970",
)
def xor_never_converges(
    seed: Seed, *, epochs: Annotated[int, Range(20, 5000)] = 500,
    labels: Literal["xor", "and"] = "xor",
) -> Evidence:
    r"""On XOR the mistakes never end, epoch after epoch, while the weights stay bounded."""
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = {"xor": np.array([-1.0, 1.0, 1.0, -1.0]), "and": np.array([-1.0, -1.0, -1.0, 1.0])}[labels]
    model = _fit_traced(
        X, y, max_epochs=epochs, fit_intercept=True, shuffle=True, random_state=int(seed)
    )
    made = np.zeros(epochs)
    made[: model.n_epochs_] = model.epoch_mistakes_
    norms = np.hypot(np.linalg.norm(model.weights_, axis=1), model.biases_)
    patient, theirs = (fit_quietly(m, X, y) for m in (Perceptron(), SklearnPerceptron(tol=None)))
    return every({
        "mistakes in every epoch": at_least(
            made, 1.0, why="integers: an epoch without a mistake would end the learning"
        ).drawn(Series("epochs", range(1, epochs + 1), made), x="epoch", y="mistakes"),
        "weights stay bounded": at_most(
            norms, _longest(X, y), slack=1e-12,
            why="the longest of all weights that some order of mistakes reaches; rounding",
        ),
        "gives up by default when scikit-learn does": equal(
            [patient.n_epochs_, patient.converged_], [theirs.n_iter_, labels == "and"], tol=0,
            why="integers",
        ),
    })


def _longest(X: Array, y: Array) -> float:
    """Follow the rule through every order of the points; give the largest norm of (w, b)."""
    steps = y[:, None] * np.column_stack([X, np.ones(len(X))])
    reached, new = {(0.0, 0.0, 0.0)}, [np.zeros(3)]
    while new:  # finitely many, by the cycling theorem
        moved = [w + step for w in new for step in steps if step @ w <= 0]
        new = [w for w in moved if tuple(w) not in reached]
        reached |= {tuple(w) for w in new}
    return float(np.linalg.norm([*reached], axis=1).max())


@claim(
    control={"zero": "no class"}, source="by construction",
    misprint=r"the update maps 0 to +1, but accuracy is mean(sign($X\theta$) == y)",
)
def scoring_rule(
    seed: Seed, *, points: Annotated[int, Range(10, 10000)] = 200,
    zero: Literal["+1", "no class"] = "+1",
) -> Evidence:
    r"""Training and scoring share one rule at 0: at $\theta=0$ accuracy is the share of +1."""
    X, y, _ = separable_points(seed.numpy(), points, 5, 0.1)
    kept = (y == -1) | (np.arange(points) % 3 == 0)  # unequal classes: else 1 - share = share
    X, y = X[kept], y[kept]
    model = Perceptron(fit_intercept=False).fit(X, y)
    model.coef_ = np.zeros_like(model.coef_)
    reported = model.score(X, y) if zero == "+1" else np.mean(np.sign(X @ model.coef_[0]) == y)
    return equal_to_rounding(reported, np.mean(y == 1)).named("accuracy")


@claim(
    control={"reference": "exchanged"}, refutes=[*map(", ".join, itertools.product(
        ("separable", "random"), ("last", "averaged"), ("traced", "not traced")))],
    source="Pedregosa et al. 2011, scikit-learn; Freund and Schapire 1999",
    no_figure="weights of two programs are equal, each in its place",
)
def equals_sklearn(
    seed: Seed, *, points: Annotated[int, Range(50, 5000)] = 500,
    reference: Literal["own", "exchanged"] = "own",
) -> Evidence:
    r"""Last or averaged, traced or not, weights are those of `SGDClassifier(loss="perceptron")`."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, points, 10, 0.02)
    labels = rng.choice([-1.0, 1.0], size=1000)  # of no pattern: most points are mistakes
    sets = {"separable": (X, y, 1000), "random": (rng.normal(size=(1000, 10)), labels, 5)}
    parts, counted, made = {}, [], []
    for (name, (inputs, signs, epochs)), average in itertools.product(sets.items(), (False, True)):
        for way in ("traced", "not traced"):
            model = Perceptron(trace=way == "traced", average=average, max_epochs=epochs)
            counted.append(fit_quietly(model, inputs, signs).epoch_mistakes_)
            w, b = np.zeros(10), 0.0
            for _ in counted[-1]:
                w, b, wrong = perceptron_epoch(inputs, signs, w, b)
                made.append(len(wrong))
            theirs = SGDClassifier(
                **UNIT, average=average == (reference == "own"), max_iter=model.n_epochs_
            ).fit(inputs, signs)
            parts[f"{name}, {'averaged' if average else 'last'}, {way}"] = equal_to_rounding(
                np.append(model.coef_, model.intercept_),
                np.append(theirs.coef_, theirs.intercept_),
            )
    parts["mistakes of every epoch"] = equal(
        np.concatenate(counted), made, tol=0, why="integers, counted by the rule point by point"
    )
    return every(parts)


@claim(control={"exchanged": True}, source="Pedregosa et al. 2011, scikit-learn")
def many_classes(
    seed: Seed, *, points: Annotated[int, Range(50, 1000)] = 150,
    classes: Annotated[int, Range(3, 8)] = 5, exchanged: bool = False,
) -> Evidence:
    r"""One unit a class decides by its score, one a pair of classes by votes, scores break ties."""
    rng = seed.numpy()
    centers = 2 * rng.normal(size=(classes, 3))  # of clouds that overlap: votes tie
    numbers = rng.integers(classes, size=2 * points)
    X = centers[numbers] + rng.normal(size=(2 * points, 3))
    names = np.array([f"class {number}" for number in numbers])
    unit, parts, shown = SGDClassifier(**UNIT, max_iter=7), {}, {}
    for strategy, wrapper in (("ovr", OneVsRestClassifier), ("ovo", OneVsOneClassifier)):
        chosen = {"ovr": "ovo", "ovo": "ovr"}[strategy] if exchanged else strategy
        more: dict[str, Any] = {"strategy": chosen} if chosen != "ovr" else {}  # the default
        model = fit_quietly(Perceptron(max_epochs=7, **more), X[:points], names[:points])
        theirs = wrapper(unit).fit(X[:points], names[:points])
        scores = theirs.decision_function(X)
        if strategy == "ovo":  # theirs counts votes for a class, ours less those against it
            scores = scores + np.round(scores) - (classes - 1)
        shown[strategy] = model.decision_function(X)[0], scores[0]
        parts[f"{strategy}, scores"] = equal_to_rounding(model.decision_function(X), scores)
        parts[f"{strategy}, classes"] = never(
            model.predict(X) != theirs.predict(X), why="the same decision for every point"
        )
    k, (ours, votes) = range(classes), shown["ovo"]
    return every(parts).drawn(
        Series("ours", k, ours), Series("scikit-learn", k, votes, "predicted"),
        x="class", y="score of one point after the votes of all pairs")


@claim(
    control={"width": 2.0}, refutes=["scores"],
    source="Aizerman, Braverman and Rozonoer 1964; Freund and Schapire 1999",
)
def kernel_is_feature_space(
    seed: Seed, *, points: Annotated[int, Range(20, 200)] = 40,
    dim: Annotated[int, Range(2, 10)] = 3, width: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""The kernel perceptron is a perceptron on features whose products the kernel gives."""
    rng = seed.numpy()
    X = rng.normal(size=(points + 30, dim))  # the last are new points
    y = np.where((X**2).sum(axis=1) > dim * np.log(2), "out", "in")[:points]
    products = X @ X.T
    squares = products.diagonal()[:, None] + products.diagonal() - 2 * products
    scale = width / dim  # the default is 1 / D
    grams: dict[Any, Array] = {
        "linear": products, "polynomial": (scale * products + 1) ** 3,
        "rbf": np.exp(-scale * squares),
    }
    scores, classes, numbers = ([], []), [], ([], [])  # of the kernel, and of the features
    for kernel, gram in grams.items():
        values, vectors = np.linalg.eigh(gram)
        features = vectors * np.sqrt(values.clip(0))  # whose products are the Gram matrix
        plain = Perceptron(fit_intercept=False, max_epochs=100)
        fit_quietly(plain, features[:points], y)
        model = KernelPerceptron() if kernel == "rbf" else KernelPerceptron(kernel=kernel)
        model.fit(X[:points], y)
        classes.append(model.predict(X) != plain.predict(features))
        for place, one, inputs in ((0, model, X), (1, plain, features)):
            scores[place].append(one.decision_function(inputs))
            numbers[place].extend([one.n_mistakes_, one.n_epochs_, one.converged_])
        numbers[0].append(np.abs(model.dual_coef_).sum())
        numbers[1].append(plain.n_mistakes_)
    classes.append(KernelPerceptron(kernel="linear").fit(X, X[:, 0] > 0).predict(0 * X[:1]) < 1)
    rounding, why = 1e-8 * (1 + np.abs(scores[1]).max()), "roots of eigenvalues that round to 0"
    return every({
        "scores": equal(*map(np.concatenate, scores), tol=rounding, why=why).drawn(
            Series("kernel", far := np.linalg.norm(X, axis=1), scores[0][-1]),
            Series("features", far, scores[1][-1], "predicted", "points"), Rule("", y=0.0),
            Rule("out", x=(dim * np.log(2)) ** 0.5), x="distance from the middle", y="score (rbf)"),
        "classes": never(np.concatenate(classes), why="signs of equal scores"),
        "mistakes, epochs and convergence": equal(*numbers, tol=0, why="integers"),
    })


@claim(control={"tie": "right"}, source="by construction", no_figure="whole numbers are equal")
def fast_form_is_the_rule(
    seed: Seed, *, points: Annotated[int, Range(1000, 3000)] = 2000,
    dim: Annotated[int, Range(2, 500)] = 200, tie: Literal["mistake", "right"] = "mistake",
) -> Evidence:
    r"""Jumping and compiled epochs make the mistakes of the rule, and so come to its weights."""
    rng = seed.numpy()
    inputs = rng.integers(-3, 4, size=(points, dim)).astype(float)  # whole: some scores are 0
    sides = np.where(inputs.sum(axis=1) >= 0, 1.0, -1.0)
    noisy = np.where(rng.random(points) < 0.03, -sides, sides)
    coins = rng.choice([-1.0, 1.0], size=points)
    plane = np.where(inputs @ rng.integers(-3, 4, size=dim) >= 0, 1.0, -1.0)
    sets = {  # with the last, epochs of many mistakes come before epochs of few
        "rare": (inputs + sides[:, None], noisy), "many": (inputs, coins), "fewer": (inputs, plane),
    }
    rule = perceptron_epoch if tie == "mistake" else _epoch_with_ties_right
    parts = {}
    for name, (X, y) in sets.items():
        for bias in (True, False):
            expected, ways = _run_all_ways(rule, X, y, bias)
            parts |= {
                f"{way}, {name} mistakes, {'a' if bias else 'no'} bias": equal(
                    found, expected, tol=0, why="whole numbers, of which float64 rounds none"
                )
                for way, found in ways.items()
            }
    return every(parts)


def _epoch_with_ties_right(
    X: Array, y: Array, w: Array, b: float, *, fit_intercept: bool
) -> tuple[Array, float, list[int]]:
    """Run the rule, but for scores of exactly 0, which are no mistakes here."""
    mistakes = []
    for index, (point, label) in enumerate(zip(X, y, strict=True)):
        if label * (w @ point + b) < 0:
            w, b = w + label * point, b + label * fit_intercept
            mistakes.append(index)
    return w, b, mistakes


def _run_all_ways(
    rule: Callable, X: Array, y: Array, bias: bool
) -> tuple[Array, dict[str, Array]]:
    """Run epochs, shuffled if there is a bias: weights, bias and mistakes of each, by all ways."""
    wider, draw = counted(np.column_stack([X, y]), y), check_random_state(0)
    state = jumped = swept = np.zeros(X.shape[1] + 1)
    expected = []
    ways: dict[str, list[Array]] = {"jumping": [], "compiled": [], "Perceptron": [], "traced": []}
    for epochs in range(1, EPOCHS + 1):
        order = draw.permutation(len(y)) if bias else np.arange(len(y))
        points, signs = X[order], y[order]
        w, b, wrong = rule(points, signs, state[:-1], float(state[-1]), fit_intercept=bias)
        state = np.append(w, b)
        expected.append(np.append(state, len(wrong)))
        jumped, wrong, _ = jump(points, signs, jumped, bias=bias)  # type: ignore[misc]
        ways["jumping"].append(np.append(jumped, len(wrong)))
        swept, _, made = sweep(wider[order], signs, swept, bias=bias)
        ways["compiled"].append(np.append(swept, made))
        for way in ("Perceptron", "traced"):
            settings: dict[str, Any] = {"max_epochs": epochs, "trace": way == "traced"}
            settings |= {"fit_intercept": bias, "shuffle": bias, "random_state": 0}
            model = fit_quietly(Perceptron(**settings), X, y)
            made = sum(model.epoch_mistakes_[epochs - 1 :])  # of this epoch, if there was one
            ways[way].append(np.concatenate([model.coef_[0], model.intercept_, [made]]))
    return np.stack(expected), {way: np.stack(rows) for way, rows in ways.items()}
