"""Shared by tests and examples: no outcome depends on what ran before, or on luck."""

import random

import pytest

pytest_plugins = ["reporting"]


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Start every test and every example from the same state of the global generators."""
    import numpy as np  # here, because tests/conftest.py says first how many threads they may use
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
