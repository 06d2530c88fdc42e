"""Races of the connectionism chapter: `python -m benchmarks connectionism`."""

import itertools
import warnings

import numpy as np
import torch
from scipy.optimize import linprog
from sklearn.linear_model import Perceptron as SklearnPerceptron

from benchmarks.race import Race
from principia.connectionism import Hopfield, ModernHopfield, Perceptron, dichotomies
from principia.lab.data.synthetic import separable_points

warnings.simplefilter("ignore")
torch.set_num_threads(1)

X, y, _ = separable_points(np.random.default_rng(0), 100_000, 100, 0.2)
EPOCHS = Perceptron().fit(X, y).n_epochs_

perceptron = Race(
    f"Perceptron, 100,000 x 100, {EPOCHS} epochs / scikit-learn's Perceptron",
    lambda: Perceptron().fit(X, y).coef_,
    lambda: SklearnPerceptron(shuffle=False, max_iter=EPOCHS, tol=None).fit(X, y).coef_,
    lambda ours, theirs: np.allclose(ours, theirs),
)

generator = torch.Generator().manual_seed(0)
patterns = 2.0 * torch.randint(0, 2, (100, 2000), generator=generator) - 1
noisy = patterns * (1 - 2.0 * (torch.rand(patterns.shape, generator=generator) < 0.1))
net = Hopfield(2000).store(patterns)


def recall_one_unit_at_a_time():
    """Update unit after unit with one row product each, the whole batch together."""
    states, weights = noisy.numpy().copy(), net.W.numpy()
    while True:
        before = states.copy()
        for unit in range(states.shape[1]):
            states[:, unit] = np.where(states @ weights[unit] >= 0, 1.0, -1.0)
        if (states == before).all():
            return states


hopfield = Race(
    "Hopfield recall, n = 2,000, 100 states / NumPy, one row product a unit",
    lambda: net.recall(noisy).states.numpy(),
    recall_one_unit_at_a_time,
    np.array_equal,
    pairs=5,
)

stored = torch.randn(5000, 64, generator=generator)
queries = torch.randn(1000, 64, generator=generator)
modern = ModernHopfield(stored, beta=0.5)

modern_hopfield = Race(
    "ModernHopfield, 5,000 patterns, 1,000 queries / softmax written out in torch",
    lambda: modern.recall(queries),
    lambda: torch.softmax(0.5 * queries @ stored.T, dim=-1) @ stored,
    lambda ours, theirs: torch.allclose(ours, theirs, atol=1e-4),
)

points = np.random.default_rng(1).normal(size=(10, 3))


def dichotomies_by_linear_programs():
    """Ask SciPy about every labeling."""
    found = []
    for labels in itertools.product((-1, 1), repeat=len(points)):
        sides = -np.array(labels)[:, None] * points
        if linprog(np.zeros(3), A_ub=sides, b_ub=-np.ones(10), bounds=(None, None)).status == 0:
            found.append(labels)
    return np.array(found)


cover = Race(
    "dichotomies of 10 points in 3-D / one SciPy linear program a labeling",
    lambda: dichotomies(points),
    dichotomies_by_linear_programs,
    np.array_equal,
    pairs=3,
)
