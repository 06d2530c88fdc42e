"""Recordings of the Free Spoken Digit Dataset: 8 kHz, 16 bit, one digit each."""

import warnings
from pathlib import Path

import numpy as np
import torch
from scipy.io import wavfile
from torch import Tensor

from principia.lab.data.files import Remote, RemoteFolder, find, find_folder
from principia.lab.data.idx import Split
from principia.lab.params import UsageError, usage_error

__all__ = ["RATE", "spoken_digit", "spoken_digits"]

RATE = 8000  # samples a second
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
TAKES = {"test": range(5), "train": range(5, 20)}  # of the 50 of each digit and speaker

HOME = "https://raw.githubusercontent.com/Jakobovski/free-spoken-digit-dataset/master/recordings"
FILES = {
    name: Remote(f"{HOME}/{name}", size, sha256)
    for name, size, sha256 in (
        ("7_jackson_0.wav", 6958,
         "bd4f5fa8db9a8a8d14a88236da314cd38fce2370cc406181b2485e03437d55d3"),
    )
}

FOLDER = RemoteFolder(
    HOME,
    [f"{digit}_{who}_{take}.wav" for digit in range(10) for who in SPEAKERS for take in range(20)],
    "7ccb49841e006c17690de079c712925dd9aad65d9ca699c796391556fc039368",
)


def spoken_digits(
    split: Split, *, data_dir: Path | None = None
) -> tuple[list[Tensor], list[int]]:
    """Load 900 recordings to train with, or the official 300 to test with, and their digits."""
    folder = find_folder("fsdd", FOLDER, data_dir=data_dir)
    names = [
        (f"{digit}_{who}_{take}.wav", digit)
        for digit in range(10) for who in SPEAKERS for take in TAKES[split]
    ]
    return [_read(folder / name) for name, _ in names], [digit for _, digit in names]


def spoken_digit(name: str = "7_jackson_0.wav", *, data_dir: Path | None = None) -> Tensor:
    """Load one recording: a wave (T,) in float64, its largest swing 1."""
    return _read(find(f"fsdd/{name}", data_dir=data_dir, remote=FILES.get(name)))


def _read(path: Path) -> Tensor:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # SciPy only warns of a file that ends too early
            _, wave = wavfile.read(path)
    except (OSError, ValueError, EOFError, wavfile.WavFileWarning) as error:
        raise UsageError(f"speech: {path.name} is not a whole WAV file: {error}.") from error
    if wave.ndim != 1 or wave.dtype != np.int16 or not wave.any():
        raise usage_error("speech", path.name, "one channel of 16 bit, not silent", f"{wave.shape}")
    return torch.from_numpy(wave / np.abs(wave).max())
