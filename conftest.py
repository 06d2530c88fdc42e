"""Shared by tests and examples: no outcome depends on what ran before, or on luck."""

import random

import pytest

pytest_plugins = ["reporting"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let whoever doubts it look whether an outcome is luck: `pytest src docs --luck 7`."""
    parser.addoption("--luck", type=int, default=0, help="seed of the global generators")


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Start every test and every example from the same state of the global generators."""
    luck = request.config.getoption("--luck")
    import numpy as np  # here, because tests/conftest.py says first how many threads they may use
    import torch

    random.seed(luck)
    np.random.seed(luck)
    torch.manual_seed(luck)
