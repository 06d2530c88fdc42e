r"""Counting dichotomies: what it reaches on data."""

import math
from typing import Annotated

import numpy as np
from scipy.stats import binom, norm
from sklearn.decomposition import PCA

from principia.connectionism.claims.cover import one_sided
from principia.connectionism.cover import Array, cover_fraction
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment


@experiment(
    reaches={"gaussian_worst_error": at_most_goal(5), "images_crossing": Range(1.9, 2.1)},
    floor={"gaussian_worst_error": at_most_goal(5), "images_crossing": Range(1.9, 2.1)},
    source="Cover (1965): the capacity of a threshold unit is two random patterns per weight",
)
def capacity_curve(run: Run, *, problems: Annotated[int, Range(100, 2000)] = 400) -> None:
    """Separates random labels on Gaussian points and on images: a step at twice the dimension."""
    rng, dims = run.seed.numpy(), (5, 20, 60) if run.full else (5, 20)
    x = handwriting(run)[0]
    pictures = x.flatten(1).double().numpy()
    scores = PCA(dims[-1], whiten=True, svd_solver="covariance_eigh").fit_transform(pictures)
    for cloud in ("gaussian", "images"):
        series, errors, crossing = [], [], math.nan
        for n in dims:
            sizes = np.arange(round(1.2 * n), round(2.8 * n) + 1, max(1, n // 10))
            solved = []
            for s in run.steps(sizes, f"{cloud}, n = {n}, points"):
                if cloud == "gaussian":
                    X = rng.normal(size=(problems, s, n))
                else:
                    rows = [rng.choice(len(scores), s, replace=False) for _ in range(problems)]
                    X = scores[np.stack(rows), :n]
                y = rng.choice([-1.0, 1.0], size=(problems, s))
                solved.append(int(one_sided(y[..., None] * X).sum()))
            chance = np.array([cover_fraction(int(s), n) for s in sizes])
            share, crossing = np.array(solved) / problems, _crossing(sizes / n, solved, problems)
            errors.append(_standard_errors(solved, problems, chance).max())
            run.record(**{f"{cloud}_crossing_{n}": crossing})
            series += [
                Series(f"n = {n}", sizes / n, share, role="other", style="points"),
                Series(f"exact, n = {n}", sizes / n, chance, role="predicted"),
            ]
        run.record(**{f"{cloud}_worst_error": max(errors), f"{cloud}_crossing": crossing})
        picture = Plot(tuple(series), "points per dimension s / n", "share separable")
        run.figure(cloud, figures.draw(picture))


def _crossing(ratios: Array, solved: list[int], problems: int) -> float:
    """Find where the share crosses 1/2: by the CLT sqrt(s) times its probit is a line in s."""
    share = (np.array(solved) + 0.5) / (problems + 1)  # never 0 or 1
    probit, root = norm.ppf(share), np.sqrt(ratios)
    weight = norm.pdf(probit) / np.sqrt(share * (1 - share)) / root  # one over its standard error
    line, offset = np.polyfit(ratios, root * probit, 1, w=weight)
    return float(-offset / line)


def _standard_errors(solved: list[int], problems: int, chance: Array) -> Array:
    """Give how unlikely the counts are, from exact binomial tails, in normal standard errors."""
    law = binom(problems, chance)
    return norm.isf(np.minimum(law.cdf(solved), law.sf(np.array(solved) - 1)))
