"""Recordings of the Free Spoken Digit Dataset: 8 kHz, 16 bit, one digit each."""

import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.io import wavfile
from torch import Tensor

from principia.lab.data.files import Remote, find
from principia.lab.params import UsageError, usage_error

__all__ = ["spoken_digit"]

HOME = "https://raw.githubusercontent.com/Jakobovski/free-spoken-digit-dataset/master/recordings"
FILES = {
    name: Remote(f"{HOME}/{name}", size, sha256)
    for name, size, sha256 in (
        ("7_jackson_0.wav", 6958,
         "bd4f5fa8db9a8a8d14a88236da314cd38fce2370cc406181b2485e03437d55d3"),
    )
}


def spoken_digit(name: str = "7_jackson_0.wav", *, data_dir: Path | None = None) -> Tensor:
    """Load one recording: a wave (T,) in float64, its largest swing 1."""
    path = find(f"fsdd/{name}", data_dir=data_dir, remote=FILES.get(name))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # SciPy only warns of a file that ends too early
            _, wave = wavfile.read(path)
    except (OSError, ValueError, EOFError, wavfile.WavFileWarning) as error:
        raise UsageError(f"speech: {name} is not a whole WAV file: {error}.") from error
    if wave.ndim != 1 or wave.dtype != np.int16 or not wave.any():
        raise usage_error("speech", name, "one channel of 16 bit, not silent", f"{wave.shape}")
    return torch.from_numpy(wave / np.abs(wave).max())
