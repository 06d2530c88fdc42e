r"""The perceptron: what it reaches on data."""

from typing import Any

import numpy as np

from principia.connectionism.perceptron import Perceptron, mistake_bound
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training.estimators import fit_quietly


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
