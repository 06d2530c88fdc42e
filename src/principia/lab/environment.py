"""What a result depends on beside the seed: versions, platform and threads."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import principia
from principia.lab.params import usage_error

__all__ = ["PACKAGES", "cores", "environment", "need_device", "processor", "use_threads"]

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "plotly")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def processor() -> str:
    """Name the processor, on which times depend; the kind of machine where that is not told."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not on every system
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), platform.processor() or platform.machine())


def use_threads(count: int) -> None:
    """Let this process compute with so many threads: sums depend on how they are divided.

    The variables work on libraries that are not loaded yet, the calls on those that are.
    """
    os.environ.update(dict.fromkeys(_THREADS, str(count)))
    import threadpoolctl
    import torch

    torch.set_num_threads(count)
    threadpoolctl.threadpool_limits(count)


def need_device(owner: str, device: str) -> None:
    """Refuse a device that this machine does not have, or that torch does not know."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise usage_error(owner, "--device", "a device of this machine", device, reason) from None


def environment(threads: int = 1) -> dict[str, Any]:
    """Describe versions, platform and threads, without importing the packages."""
    return {
        "principia": principia.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }
