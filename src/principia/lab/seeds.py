"""Seeds: everything random comes from one number, and no global generator is touched."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["Seed"]


@final
class Seed(int):
    """A seed that hands out generators; being an `int`, it is also a `random_state`.

    Example:
        >>> import torch
        >>> first, again = (torch.rand(3, generator=Seed(7).torch()) for _ in range(2))
        >>> torch.equal(first, again)
        True
    """

    def torch(self) -> torch.Generator:
        """Make a new torch generator (on the CPU) that starts at this seed."""
        import torch

        return torch.Generator().manual_seed(int(self))

    def numpy(self) -> np.random.Generator:
        """Make a new NumPy generator that starts at this seed."""
        import numpy as np

        return np.random.default_rng(int(self))

    def child(self, name: object) -> Seed:
        """Derive an independent seed: the same name gives the same child."""
        digest = hashlib.sha256(f"{int(self)}/{name}".encode()).digest()
        return Seed(int.from_bytes(digest[:4], "big"))
