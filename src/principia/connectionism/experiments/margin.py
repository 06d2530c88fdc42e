r"""Margin and version space: what it reaches on data."""

from typing import Annotated, Any

import numpy as np

from principia.connectionism.margin import Array, MaxMargin, VersionSpace, geometric_margin
from principia.connectionism.perceptron import Perceptron
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import separable_points
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed


@experiment(
    reaches={"margin": at_least_goal(0.42), "test_accuracy": at_least_goal(0.998)},
    floor={"margin": at_least_goal(0.60), "test_accuracy": at_least_goal(0.98)},
    source="scikit-learn, SVC(kernel='linear', C=1e8): margin 0.4245 with 84 support vectors",
)
def zero_one(run: Run, *, toy_points: Annotated[int, Range(2, 40)] = 12) -> None:
    """Tells 0 from 1 with the widest margin: MNIST, or 8 x 8 digits when quick."""
    parts = handwriting(run)
    (X, y), (X_test, y_test) = (
        (x[labels < 2].flatten(1).double().numpy(), np.where(labels[labels < 2] == 1, 1.0, -1.0))
        for x, labels in (parts[:2], parts[2:])
    )
    best = MaxMargin().fit(X, y)
    run.keep(best)
    run.record(margin=best.margin_, support_vectors=len(best.support_))
    run.record(test_accuracy=best.score(X_test, y_test))
    for name, average in (("perceptron", False), ("averaged_perceptron", True)):
        other = Perceptron(average=average).fit(X, y)
        margin = geometric_margin(other.coef_[0], float(other.intercept_[0]), X, y)
        accuracy = other.score(X_test, y_test)
        run.record(**{f"{name}_margin": margin, f"{name}_test_accuracy": accuracy})
    run.figure("margin_band", _band_figure(best, X, y))
    run.figure("version_space", _disc_figure(run.seed, toy_points))


def _band_figure(model: MaxMargin, X: Array, y: Array) -> Any:
    """Draw distances against the main direction inside the hyperplane, with the margin."""
    normal, seen = model.coef_[0], np.linspace(0, len(y) - 1, min(len(y), 1000)).astype(int)
    inside = X - X.mean(axis=0) - ((X - X.mean(axis=0)) @ normal)[:, None] * normal
    main = np.linalg.svd(inside[seen], full_matrices=False)[2][0]
    distances, height = model.decision_function(X), inside @ main
    ends = [float(height.min()), float(height.max())]
    clouds = [("0", seen[y[seen] < 0]), ("1", seen[y[seen] > 0]), ("touching", model.support_)]
    lines = [("margin", -model.margin_), ("hyperplane", 0.0), ("margin", model.margin_)]
    series = [Series(name, distances[k], height[k], "other", "points") for name, k in clouds]
    series += [Series(name, [at, at], ends, "bound") for name, at in lines]
    return figures.draw(Plot(tuple(series), "distance from the hyperplane", "main direction"))


def _disc_figure(seed: Seed, points: int) -> Any:
    """Draw samples of the version space of ever more points on an equal-area map of all (w, b)."""
    X, y, target = separable_points(seed.numpy(), points, 2, 0.1)
    axes = np.array([[*target, 0.0], [-target[1], target[0], 0.0], [0.0, 0.0, 1.0]])
    series = []
    for seen in sorted({1, 2, 4, 8, 16, 32, points} & set(range(1, points + 1))):
        planes = np.column_stack(VersionSpace(X[:seen], y[:seen]).sample(400, seed.child(seen)))
        series.append(Series(f"{seen} points", *_equal_area(planes @ axes.T), "other", "points"))
    best = MaxMargin().fit(X, y)
    plane = np.column_stack([best.coef_, best.intercept_]) @ axes.T
    series.append(Series("widest margin", *_equal_area(plane / np.linalg.norm(plane))))
    angle = np.linspace(0, 2 * np.pi, 200)
    series.append(Series("all directions", 2 * np.cos(angle), 2 * np.sin(angle), "bound"))
    figure = figures.draw(Plot(tuple(series), "w across the true normal", "bias b"))
    return figure.update_yaxes(scaleanchor="x").update_layout(height=520)


def _equal_area(directions: Array) -> tuple[Array, Array]:
    """Map unit vectors (N, 3) onto a disc of radius 2 by Lambert's azimuthal projection."""
    stretch = np.sqrt(2 / (1 + directions[:, 0]))
    return directions[:, 1] * stretch, directions[:, 2] * stretch
