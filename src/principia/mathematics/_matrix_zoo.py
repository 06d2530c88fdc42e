r"""A zoo of matrices whose signs, singular values and norms are known, for `linear_algebra`.

Its claims are statements about the members: matrices that are drawn with given eigenvalues or
singular values, or that lie at the edge of being positive; and what is known of them in closed
form.
"""

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab.draws import rand, randn

# the least and the greatest sign of the eigenvalues of a kind
SIGNS = {"PD": (1, 1), "PSD": (0, 1), "ND": (-1, -1), "NSD": (-1, 0), "indefinite": (-1, 1)}


def drawn_spectra(
    rng: torch.Generator, count: int, dim: int, *kinds: str
) -> tuple[list[str], Tensor]:
    """Draw eigenvalues (count, dim) for each kind in turn; the others have sizes of 0.3 to 1."""
    names = list(itertools.islice(itertools.cycle(kinds), count))
    ends = torch.tensor([SIGNS[name] for name in names], dtype=torch.float64)
    chosen = torch.randint(0, 2, (count, dim), generator=rng)
    chosen[:, 0], chosen[:, 1] = 0, 1  # both signs occur
    return names, ends.gather(1, chosen) * (0.3 + 0.7 * rand(rng, count, dim))


def turned(rng: torch.Generator, values: Tensor) -> Tensor:
    """Make symmetric matrices (B, n, n) with these eigenvalues (B, n) and random eigenvectors."""
    Q = torch.linalg.qr(randn(rng, *values.shape, values.shape[-1])).Q
    A = (Q * values[:, None, :]) @ Q.mT
    return (A + A.mT) / 2


def with_values(rng: torch.Generator, m: int, n: int, values: Tensor) -> Tensor:
    """Make a matrix (m, n) with these singular values and random singular vectors."""
    U, V = (torch.linalg.qr(randn(rng, size, len(values))).Q for size in (m, n))
    return (U * values.double()) @ V.mT


def shrunk(W: Tensor, rank: int, ridges: Tensor) -> Tensor:
    """Invert the singular values of W up to a rank, each d as d / (d² + ridge)."""
    U, values, Vh = torch.linalg.svd(W)
    inverted = values[:rank] / (values[:rank].square() + ridges[:, None])
    return (Vh[:rank].mT * inverted[:, None]) @ U[:, :rank].mT


def symmetric_functions(values: Tensor) -> Tensor:
    """Sum, for k = 1 to n, all products of k different ones of n numbers (B, n): (n, B)."""
    sums = torch.ones_like(values[:, :1]).mT
    for value in values.mT:
        sums = F.pad(sums, (0, 0, 0, 1)) + F.pad(value * sums, (0, 0, 1, 0))
    return sums[1:].real


def near_zero(n: int) -> Iterator[tuple[Tensor, dict[str, float], float]]:
    """Give diagonals with one entry of -1.25, -0.8, 0.8, 1.25 times what counts as 0.

    That is a share of the largest entry: the default, one that is asked for, or rounding, which is
    the least. With them come the tolerance to ask for, and how much is 0.
    """
    rounding = 10 * n * torch.finfo(torch.float64).eps
    for share, scale in itertools.product((1e-3, 1e-10, rounding), (1e-150, 1e150)):
        small = share * torch.tensor([[-1.25], [-0.8], [0.8], [1.25]], dtype=torch.float64)
        A = scale * torch.cat([small, torch.ones(4, n - 1)], dim=1).diag_embed()
        asked = {} if share == 1e-10 else {"tol": 0.0 if share == rounding else share}
        yield A, asked, share * scale


def grams(x: Tensor, power: float, offset: float) -> dict[str, Tensor]:
    """Give Gram matrices (B, N, N) of points (B, N, D), PSD for powers up to 2 and offsets >= 0."""
    apart = x[:, :, None] - x[:, None]
    return {
        "RBF": (-apart.square().sum(dim=-1) ** (power / 2) / 2).exp(),
        "Laplacian": (-apart.abs().sum(dim=-1) ** (power / 2)).exp(),
        "polynomial": (offset + x @ x.mT) ** 3,
    }


def after_powers(A: Tensor, steps: int, rng: torch.Generator) -> Tensor:
    """Say how A stretches what A'A makes of drawn vectors in so many steps, by singular values."""
    x = torch.randn((*A.shape[:-2], A.shape[-1]), generator=rng, dtype=A.dtype)
    _, values, Vh = torch.linalg.svd(A, full_matrices=False)
    parts = (Vh @ x[..., None])[..., 0] * (values / values[..., :1]) ** (2 * steps)
    return (parts * values).norm(dim=-1) / parts.norm(dim=-1)
