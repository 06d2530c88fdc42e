"""What the scikit-learn classifiers of the course share: labels, and fits that may not converge."""

import warnings
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from principia.lab.params import UsageError, usage_error

__all__ = ["class_codes", "fit_quietly", "two_classes"]

Model = TypeVar("Model")


def class_codes(owner: str, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give the classes, sorted, and the number of each label's class; one class is refused."""
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise usage_error(owner, "y", "of two classes or more", "one class")
    return classes, codes


def two_classes(owner: str, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give the two classes and the labels as -1 and +1, the second class being +1.

    Example:
        >>> two_classes("Model", ["no", "yes", "no"])[1].tolist()
        [-1.0, 1.0, -1.0]
    """
    classes, codes = class_codes(owner, y)
    if len(classes) > 2:  # with the words that scikit-learn's own checks look for
        raise UsageError(
            f"{owner}: y must have two classes; got {len(classes)}. Only binary classification is "
            f"supported. The type of the target is {type_of_target(y)}."
        )
    return classes, np.where(codes == 1, 1.0, -1.0)


def fit_quietly(model: Model, X: Any, y: Any) -> Model:
    """Fit where the steps are limited on purpose: not to have converged is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)  # type: ignore[attr-defined]
