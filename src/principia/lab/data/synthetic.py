"""Synthetic problems whose answers are known: shared by claims, tests, races and figures."""

import math

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "circles", "gaussians", "moons", "random_signs", "separable_points", "sine", "spirals",
]


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


def moons(rng: torch.Generator, points: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Draw two half circles that grip each other: x (points, 2) and classes (points,).

    Example:
        >>> x, y = moons(torch.Generator().manual_seed(0), 5)
        >>> x.shape, y.tolist()
        (torch.Size([5, 2]), [0, 1, 0, 1, 0])
    """
    y = _alternating(points)
    angle = math.pi * torch.rand(points, generator=rng)
    sign = 1.0 - 2 * y
    x = torch.stack([sign * angle.cos() + y - 0.5, sign * angle.sin() + 0.5 * y - 0.25], 1)
    return x + noise * torch.randn(points, 2, generator=rng), y


def circles(rng: torch.Generator, points: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Draw two circles around 0, the inner half as large: x (points, 2) and classes (points,)."""
    y = _alternating(points)
    angle = 2 * math.pi * torch.rand(points, generator=rng)
    x = (1 - 0.5 * y)[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return x + noise * torch.randn(points, 2, generator=rng), y


def spirals(
    rng: torch.Generator, points: int, noise: float = 0.03, turns: float = 1.5
) -> tuple[Tensor, Tensor]:
    """Draw two arms that wind around each other: x (points, 2) and classes (points,)."""
    y = _alternating(points)
    radius = torch.rand(points, generator=rng).sqrt()  # as many points wherever on the arm
    angle = 2 * math.pi * turns * radius + math.pi * y
    x = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return x + noise * torch.randn(points, 2, generator=rng), y


def gaussians(
    rng: torch.Generator, points: int, classes: int = 3, spread: float = 0.3
) -> tuple[Tensor, Tensor]:
    """Draw one round cloud a class around the unit circle: x (points, 2) and classes (points,)."""
    y = torch.arange(points) % classes
    angle = 2 * math.pi * y / classes
    centers = torch.stack([angle.cos(), angle.sin()], 1)
    return centers + spread * torch.randn(points, 2, generator=rng), y


def sine(
    rng: torch.Generator, points: int, noise: float = 0.1, waves: float = 1.5
) -> tuple[Tensor, Tensor]:
    """Draw noisy values of a sine: x (points, 1) in [-1, 1] and y (points,)."""
    x = 2 * torch.rand(points, 1, generator=rng) - 1
    y = (math.pi * waves * x[:, 0]).sin()
    return x, y + noise * torch.randn(points, generator=rng)


def _alternating(points: int) -> Tensor:
    return torch.arange(points) % 2
