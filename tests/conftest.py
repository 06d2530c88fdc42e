"""Shared by all tests: one thread, their own cache folder, shapes checked on every call."""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import hypothesis
import pytest
from jaxtyping import install_import_hook

# every jaxtyping annotation of the package is checked against the real arguments
install_import_hook("principia", "typechecking.checked")


# no test depends on how busy the machine is
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=1, help="on how many seeds claims are checked")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the tests away from the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PRINCIPIA_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def seeds(request):
    return range(request.config.getoption("--seeds"))


@pytest.fixture
def untouched():
    """Refuse a test that touches a global generator: everything random comes from a seed.

    Python's own is left out, because the type checker of the tests draws from it; pages may not
    even import it.
    """
    before = _generators()
    yield
    assert _generators() == before, "a global generator was touched"


def _generators():
    import numpy as np
    import torch

    _, keys, place, *_ = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), keys.tobytes(), place
