"""The user's own pictures: a folder with one subfolder a class, read as tensors of one size."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.model_selection import train_test_split
from torch import Tensor

from principia.lab.data.schema import Column
from principia.lab.params import UsageError, usage_error
from principia.lab.progress import progress
from principia.lab.seeds import Seed

__all__ = [
    "PictureExamples", "PictureFolder", "PictureSchema", "find_pictures", "picture_examples",
    "pictures_in",
]

SUFFIXES = (".png", ".jpg", ".jpeg")
FORMATS = ("PNG", "JPEG")
USUAL_SIDE, SMALLEST_SIDE = 64, 8  # pixels, where nobody names another
MOST_NUMBERS = 2**29  # of all pictures together: 2 GB in float32
FEWEST = 10  # pictures
BROKEN = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


@final
@dataclass(frozen=True)
class PictureSchema:
    """What a model of pictures takes, (C, H, W) with values in [0, 1], and its classes."""

    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    task: Literal["classification"] = "classification"

    @property
    def target(self) -> Column:
        """The classes, as the column that they would be in a table."""
        return Column("class", self.classes)

    @property
    def takes(self) -> tuple[int, int, int]:
        """What a model is built for."""
        return self.shape

    @property
    def outputs(self) -> int:
        """How many numbers a model gives: one a class."""
        return len(self.classes)

    def encode(self, files: Sequence[Path]) -> Tensor:
        """Read pictures (N, C, H, W), their middle cut to the shape of the model's."""
        return _decoded(tuple(files), self.shape)

    def to_json(self) -> dict[str, Any]:
        """Give the schema as plain data."""
        return {"pictures": list(self.shape), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> PictureSchema:
        """Take the schema back from plain data; refuse what is none."""
        try:
            channels, height, width = plain["pictures"]
            classes = tuple(plain["classes"])
            right = (
                channels in (1, 3) and all(isinstance(one, int) for one in (height, width))
                and min(height, width) > 0 and all(isinstance(one, str) for one in classes)
                and len(set(classes)) == len(classes) > 1
            )
            if not right:
                raise ValueError("no picture, or classes that are not different names")
        except (LookupError, TypeError, ValueError) as error:
            raise UsageError(
                "data: the schema of the model does not have its form. Was its file changed?"
            ) from error
        return cls((channels, height, width), classes)


@final
@dataclass(frozen=True)
class PictureExamples:
    """Pictures ready to learn from: those to train with and those to test with, and classes."""

    schema: PictureSchema
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


@final
@dataclass(frozen=True)
class PictureFolder:
    """The pictures of a folder: their files, the places of their classes, and one hash of all."""

    classes: tuple[str, ...]
    files: tuple[Path, ...]
    labels: tuple[int, ...]
    sha256: str


def pictures_in(folder: Path) -> list[Path]:
    """List the PNG and JPEG files in a folder and its subfolders; hidden ones are left out."""
    found = []
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [
            Path(place, name) for name in sorted(names)
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
    return found


def find_pictures(folder: Path) -> PictureFolder:
    """Find the pictures of every class, or say what a folder of pictures must look like."""
    rule = f"{folder.name} must have one subfolder a class, with PNG or JPEG pictures in each"
    if not folder.is_dir():
        raise UsageError(f"data: {rule}; there is no such folder.")
    homes = sorted(
        one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")
    )
    of_class = {home.name: pictures_in(home) for home in homes}
    loose = [one for one in folder.iterdir() if one.name.lower().endswith(SUFFIXES)]
    if loose:
        raise UsageError(f"data: {rule}; {min(loose).name} lies beside them. Move it into one.")
    for name, files in of_class.items():
        if len(files) < 2:
            raise UsageError(
                f"data: class {name!r} must have 2 pictures or more, to learn from and to test "
                f"with; got {len(files)}."
            )
    if len(of_class) < 2:
        raise UsageError(f"data: {rule}, of two classes or more; got {sorted(of_class)}.")
    files = tuple(one for its in of_class.values() for one in its)
    if len(files) < FEWEST:
        raise usage_error("data", "the folder", f"of {FEWEST} pictures or more", len(files))
    labels = tuple(place for place, its in enumerate(of_class.values()) for _ in its)
    return PictureFolder(tuple(of_class), files, labels, _sha256(folder, files))


def _sha256(folder: Path, files: Sequence[Path]) -> str:
    """Hash the names and the bytes of all files."""
    digest = hashlib.sha256()
    for file in files:
        body = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(folder).as_posix()} {body}\n".encode())
    return digest.hexdigest()


def picture_examples(
    found: PictureFolder, *, seed: Seed, side: int | None = None, test_share: float = 0.2
) -> PictureExamples:
    """Read all pictures of a folder, and split them so that every class is in both parts.

    Args:
        found: The folder.
        seed: Draws the split.
        side: Pixels of a side; by default the smallest side of all pictures, from 8 to 64.
        test_share: Share of the pictures that are held out.
    """
    looks = [_look(file) for file in found.files]
    if side is None:
        side = min(max(min(shorter for shorter, _ in looks), SMALLEST_SIDE), USUAL_SIDE)
    gray = all(gray for _, gray in looks)
    schema = PictureSchema((1 if gray else 3, side, side), found.classes)
    if (numbers := len(found.files) * schema.shape[0] * side**2) > MOST_NUMBERS:
        domain = f"small enough that {len(found.files)} pictures fit into 2 GB"
        raise usage_error("data", "side", domain, f"{side}, which takes {numbers / 2**28:.1f} GB")
    x, y = schema.encode(found.files), torch.tensor(found.labels)
    held = max(len(found.classes), round(test_share * len(y)))
    train, test = train_test_split(
        torch.arange(len(y)).numpy(), stratify=y.numpy(), test_size=min(held, len(y) // 2),
        random_state=int(seed.child("split")),
    )
    return PictureExamples(schema, x[train], y[train], x[test], y[test])


def _look(file: Path) -> tuple[int, bool]:
    """Read the shorter side of a picture, and whether it is gray, from its header alone."""
    with _opened(file) as image:
        return min(image.size), image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _opened(file: Path) -> Image.Image:
    try:
        return Image.open(file, formats=FORMATS)
    except BROKEN as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: BaseException) -> UsageError:
    name, reason = f"{file.parent.name}/{file.name}", " ".join(str(error).split())
    reason = "it is no PNG or JPEG file" if "cannot identify" in reason else reason.rstrip(".")
    return UsageError(
        f"data: {name} must be a whole PNG or JPEG picture; {reason}. Replace or remove it."
    )


@functools.lru_cache(maxsize=1)  # a run reads its data when it is asked for, and when it begins
def _decoded(files: tuple[Path, ...], shape: tuple[int, int, int]) -> Tensor:
    with progress(len(files), "reading pictures") as advance, ThreadPoolExecutor() as pool:
        arrays = []
        for array in pool.map(lambda file: _decode(file, shape), files):
            arrays.append(array)
            advance("")
    return torch.from_numpy(np.stack(arrays)).float() / 255


def _decode(file: Path, shape: tuple[int, int, int]) -> np.ndarray:
    """Read one picture as bytes (C, H, W)."""
    channels, height, width = shape
    with _opened(file) as image:
        try:
            image.draft(None, (4 * width, 4 * height))  # of a large JPEG, a smaller one is read
            upright = ImageOps.exif_transpose(image)
        except BROKEN as error:
            raise _unreadable(file, error) from error
    if upright.mode.startswith("I"):  # 16 bits, which a conversion would cut off
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    if "A" in upright.mode or "transparency" in upright.info:
        paper = Image.new("RGBA", upright.size, "white")
        upright = Image.alpha_composite(paper, upright.convert("RGBA"))
    fitted = ImageOps.fit(
        upright.convert("L" if channels == 1 else "RGB"), (width, height), Image.Resampling.LANCZOS
    )
    return np.asarray(fitted).reshape(height, width, channels).transpose(2, 0, 1)
