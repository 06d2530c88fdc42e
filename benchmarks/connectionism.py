"""Races of the connectionism chapter."""

import itertools
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linprog

from principia.connectionism import Hopfield, ModernHopfield, Perceptron, dichotomies
from principia.lab.data.synthetic import separable_points
from principia.lab.racing import race, within

COLUMNS = 50


@race(rows=(1_000, 10_000, 100_000, 1_000_000),
      agree=within(1e-9, why="the same corrections in the same order, float64"))
def perceptron(rows):
    """Train a perceptron on 50 columns of separable points until it makes no mistake."""
    X, y, _ = separable_points(np.random.default_rng(0), rows, COLUMNS, 0.2)
    return X, y, Perceptron().fit(X, y).n_epochs_


@perceptron.ours
def _(X, y, epochs):
    return Perceptron().fit(X, y).coef_.ravel()


@perceptron.peer(
    "sklearn.linear_model.Perceptron", package="scikit-learn",
    slower="Its loop over the points is compiled; ours makes ten NumPy calls a correction, and "
    "with few points the 188 to 320 corrections are most of the work.",
)
def _(X, y, epochs):
    from sklearn.linear_model import Perceptron

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it cannot know that it has converged
        model = Perceptron(shuffle=False, max_iter=epochs, tol=None).fit(X, y)
    return model.coef_.ravel()


@race(units=(500, 1_000, 2_000), agree=within(0, why="states are signs"))
def hopfield(units):
    """Recall 100 noisy patterns, all at once, unit after unit, until nothing changes."""
    rng = torch.Generator().manual_seed(0)
    patterns = 2.0 * torch.randint(0, 2, (units // 20, units), generator=rng) - 1
    noisy = patterns.repeat(100, 1)[:100]
    noisy = noisy * (1 - 2.0 * (torch.rand(noisy.shape, generator=rng) < 0.1))
    return Hopfield(units).store(patterns), noisy


@hopfield.ours
def _(net, noisy):
    return net.recall(noisy).states


TIE = -1e-9  # fields are multiples of 1/n up to rounding, and 0 gives +1


@hopfield.peer("NumPy, one row product a unit", package="numpy", up_to=1_000)
def _(net, noisy):
    states, weights = noisy.numpy().astype(float), net.W.numpy()
    while True:
        before = states.copy()
        for unit in range(states.shape[1]):
            states[:, unit] = np.where(states @ weights[unit] >= TIE, 1.0, -1.0)
        if (states == before).all():
            return states


@hopfield.peer("NumPy, fields kept up to date", package="numpy")
def _(net, noisy):
    states, weights = noisy.numpy().T.astype(float), net.W.numpy()  # (units, states)
    fields, flips = (weights @ states).T.copy(), True  # (states, units)
    while flips:
        flips = False
        for unit, row in enumerate(states):
            new = np.where(fields[:, unit] >= TIE, 1.0, -1.0)
            turned = np.flatnonzero(new != row)
            if len(turned):
                fields[turned] += (new - row)[turned, None] * weights[unit]
                row[:] = new
                flips = True
    return states.T


@race(patterns=(100, 1_000, 10_000), agree=within(1e-5, why="sums in float32"))
def modern_hopfield(patterns):
    """Recall 1,000 queries by one step of a modern Hopfield network of dimension 64."""
    rng = torch.Generator().manual_seed(0)
    stored = torch.randn(patterns, 64, generator=rng)
    return ModernHopfield(stored, beta=0.125), torch.randn(1000, 64, generator=rng)


@modern_hopfield.ours
def _(net, queries):
    return net.recall(queries)


@modern_hopfield.peer(
    "torch scaled_dot_product_attention", package="torch",
    slower="It is the call that ours makes, after a check of the arguments.",
)
def _(net, queries):
    stored = net.patterns[None, None]  # (1, 1, K, d), as its fast path needs it
    return F.scaled_dot_product_attention(queries[None, None], stored, stored, scale=0.125)[0, 0]


@modern_hopfield.peer("NumPy, softmax written out", package="numpy")
def _(net, queries):
    stored, queries = net.patterns.numpy(), queries.numpy()
    scores = 0.125 * queries @ stored.T
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True) @ stored


@race(points=(6, 12, 48, 192), agree=within(0, why="labels are signs"))
def cover(points):
    """List the dichotomies of points in three dimensions that a plane through zero separates."""
    return (np.random.default_rng(1).normal(size=(points, 3)),)


@cover.ours
def _(points):
    return dichotomies(points)


@cover.peer(
    "NumPy, planes through all pairs of points", package="numpy",
    slower="It takes general position for granted; ours sorts the angles in which planes cross, "
    "whatever their position, and gets a point inside every cell, which pays with many points.",
)
def _(points):
    one, two = np.triu_indices(len(points), 1)
    plus, rows = np.cross(points[one], points[two]) @ points.T > 0, np.arange(len(one))
    found = []
    for sides in itertools.product((False, True), repeat=2):  # the plane, tilted a little
        plus[rows, one], plus[rows, two] = sides
        found += [np.packbits(plus, axis=1), np.packbits(~plus, axis=1)]
    packed = np.concatenate(found)
    distinct = np.unique(packed.view(f"S{packed.shape[1]}"))  # strings are sorted fast
    bits = np.unpackbits(distinct.view(np.uint8).reshape(-1, packed.shape[1]), axis=1,
                         count=len(points))
    return 2 * bits.view(np.int8) - 1


@cover.peer("SciPy, a linear program a labeling", package="scipy", up_to=6)
def _(points):
    found = []
    for labels in itertools.product((-1, 1), repeat=len(points)):
        sides = -np.array(labels)[:, None] * points
        margin = -np.ones(len(points))
        if linprog(np.zeros(3), A_ub=sides, b_ub=margin, bounds=(None, None)).status == 0:
            found.append(labels)
    return np.array(found)
