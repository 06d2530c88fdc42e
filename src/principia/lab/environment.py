"""What a result depends on beside the seed: versions, platform, threads and kernels."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import principia
from principia.lab.params import usage_error

__all__ = [
    "PACKAGES", "cores", "environment", "kernels", "need_device", "other_kernels", "processor",
    "use_threads",
]

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "plotly")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_CHOICES = (  # by which users have the libraries beneath torch, NumPy and SciPy choose others
    "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE",
)
_VECTORS = re.compile(r"(avx|amx|fma|f16c|sse4|asimd|sve|sme|bf16|i8mm|fphp)\w*")


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def processor() -> str:
    """Name the processor, on which times depend; the kind of machine where that is not told."""
    return _first_core().get("model name") or platform.processor() or platform.machine()


def _first_core() -> dict[str, str]:
    """Read what the system tells of its first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:  # not on every system
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def kernels() -> dict[str, str]:
    """Describe what decides which kernels compute here: others round in other places.

    Only what trains asks for it, because it loads torch.
    """
    import torch

    core = _first_core()
    flags = core.get("flags", core.get("Features", "")).split()
    return {
        "vendor": core.get("vendor_id", core.get("CPU implementer", platform.machine())),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "instructions": " ".join(sorted(one for one in flags if _VECTORS.fullmatch(one))),
        **{name: os.environ[name] for name in _CHOICES if os.environ.get(name)},
    }


def other_kernels(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Say in what the second choice of kernels differs from the first, or nothing.

    Example:
        >>> other_kernels({"capability": "AVX512", "instructions": "avx2 avx512f"},
        ...               {"capability": "AVX2", "instructions": "avx2 fma"})
        'capability AVX2 instead of AVX512, instructions with fma, without avx512f'
    """
    found = []
    for name in dict.fromkeys([*one, *other]):
        was, now = one.get(name, "none"), other.get(name, "none")
        if name == "instructions" and was != now:
            more, less = (sorted(set(a.split()) - set(b.split())) for a, b in
                          ((now, was), (was, now)))
            words = [f"with {' '.join(more)}"] * bool(more)
            words += [f"without {' '.join(less)}"] * bool(less)
            found.append(f"{name} {', '.join(words)}")
        elif was != now:
            found.append(f"{name} {now} instead of {was}")
    return ", ".join(found)


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
