"""Tables that need no download: scikit-learn's small sets, and points in the plane."""

from collections.abc import Callable

import numpy as np
import sklearn.datasets as sets

from principia.lab.data.synthetic import circles, gaussians, moons, sine, spirals
from principia.lab.data.table import Table
from principia.lab.seeds import Seed

__all__ = ["TABLES", "embedded_table"]

POINTS = 400  # of each synthetic set


def _of_scikit_learn(load: Callable[[], sets._base.Bunch], target: str) -> tuple[Table, str]:
    raw = load()
    names = [str(name).replace(" (cm)", "").replace(" ", "_") for name in raw.feature_names]
    table = dict(zip(names, np.asarray(raw.data, float).T, strict=True))
    if "target_names" in raw:
        classes = np.asarray(raw.target_names).astype(str).astype(object)
        table[target] = classes[raw.target]
    else:
        table[target] = np.asarray(raw.target, float)
    return table, target


def _of_the_plane(draw: Callable) -> tuple[Table, str]:
    x, y = draw(Seed(0).torch(), POINTS)
    table = {f"x{place + 1}": column.double().numpy() for place, column in enumerate(x.T)}
    return {**table, "y": y.double().numpy()}, "y"


TABLES: dict[str, Callable[[], tuple[Table, str]]] = {
    "iris": lambda: _of_scikit_learn(sets.load_iris, "species"),
    "wine": lambda: _of_scikit_learn(sets.load_wine, "cultivar"),
    "breast_cancer": lambda: _of_scikit_learn(sets.load_breast_cancer, "diagnosis"),
    "diabetes": lambda: _of_scikit_learn(sets.load_diabetes, "progression"),
    "digits": lambda: _of_scikit_learn(sets.load_digits, "digit"),
    "moons": lambda: _of_the_plane(moons),
    "circles": lambda: _of_the_plane(circles),
    "spirals": lambda: _of_the_plane(spirals),
    "gaussians": lambda: _of_the_plane(gaussians),
    "sine": lambda: _of_the_plane(sine),
}


def embedded_table(name: str) -> tuple[Table, str]:
    """Load an embedded table by its name, with the name of its target.

    Example:
        >>> table, target = embedded_table("iris")
        >>> len(table[target]), target, sorted(set(table[target].tolist()))
        (150, 'species', ['setosa', 'versicolor', 'virginica'])
    """
    return TABLES[name]()
