"""Synthetic problems whose answers are known: shared by claims, tests, races and figures."""

import numpy as np
import torch
from torch import Tensor

__all__ = ["random_signs", "separable_points"]


def separable_points(
    rng: np.random.Generator, points: int, dim: int, gap: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw Gaussian points at distance `gap` or more from a random hyperplane through 0.

    Shapes:
        returns X (points, dim), labels +1 and -1 (points,), the unit normal (dim,)

    Example:
        >>> X, y, normal = separable_points(np.random.default_rng(0), 50, 3, gap=0.2)
        >>> bool((y * (X @ normal) > 0.19).all())
        True
    """
    normal = rng.normal(size=dim)
    normal /= np.linalg.norm(normal)
    y = rng.permutation(np.where(np.arange(points) % 2 == 0, 1.0, -1.0))  # both classes, always
    X = rng.normal(size=(points, dim))
    along = X @ normal
    return X + (y * (gap + np.abs(along)) - along)[:, None] * normal, y, normal


def random_signs(rng: torch.Generator, *shape: int) -> Tensor:
    """Draw independent fair signs +1 and -1, in float64.

    Example:
        >>> random_signs(torch.Generator().manual_seed(0), 2, 3).abs().tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    return torch.randint(0, 2, shape, generator=rng).double().mul_(2).sub_(1)
