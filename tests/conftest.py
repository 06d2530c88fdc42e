"""Shared by all tests: one thread, their own cache folder, shapes checked on every call."""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
os.environ["PRINCIPIA_OFFLINE"] = "1"  # a data set that is missing is not downloaded

import hypothesis
import pytest

import typechecking

typechecking.install()

import choosing  # noqa: E402 - behind the hook, because they import the package
import needs  # noqa: E402
import planting  # noqa: E402
import reporting  # noqa: E402

# no test depends on how busy the machine is, or on luck; --whole looks for new examples
for name, looking in (("busy", False), ("whole", True)):
    hypothesis.settings.register_profile(
        name, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow],
        derandomize=not looking,
    )
hypothesis.settings.load_profile("busy")


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, default=1, help="on how many seeds claims are checked")
    parser.addoption("--require", help="kinds without which tests fail: browser,data (all in CI)")
    parser.addoption("--whole", action="store_true", help="take all cases of sampled tests")
    parser.addoption("--quick", action="store_true", help="the lab, and pages that have changed")
    parser.addoption("--since", default="HEAD", help="a revision: what has changed after it")


def pytest_configure(config):
    config.addinivalue_line("markers", "sampled(size): `make test` takes so many of its cases")
    needs.require(config.getoption("--require"))
    if config.getoption("--whole"):
        hypothesis.settings.load_profile("whole")
    for outer in ("PYTEST_ADDOPTS", "PRINCIPIA_DEBUG", "COLUMNS"):
        os.environ.pop(outer, None)  # what the tests start does not know how they were started


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    chosen = items
    if not config.getoption("--whole"):
        chosen = choosing.sampled(chosen, choosing.touched(config.getoption("--since")))
        config.stash[reporting.LEFT_OUT] = len(items) - len(chosen)
    if config.getoption("--quick"):
        chosen = choosing.quick(chosen, config.getoption("--since"))
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = choosing.by_page(chosen)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the tests away from the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PRINCIPIA_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def sound_claims(tmp_path_factory):
    """Let all processes of this run of the suite know which claims pass where no bug is planted."""
    base = tmp_path_factory.getbasetemp()
    planting.SOUND = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sound"
    planting.SOUND.mkdir(exist_ok=True)


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
