r"""Information: what it reaches on data."""

import math
import re
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from principia.lab import figures
from principia.lab.data.documentation import documentation
from principia.lab.data.text8 import text8
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, experiment
from principia.mathematics.information import plug_in

SYMBOLS = 27  # a to z and blank
SHANNON = {0: 4.76, 1: 4.03, 2: 3.32}  # bits a letter, the table's row for 27 letters


@experiment(
    reaches={"F1": Range(3.88, 4.18), "F2": Range(3.17, 3.47)}, floor={"F1": Range(4.0, 4.2)},
    source="Shannon 1951, the row of 27 letters: F1 4.03 and F2 3.32 bits, each within 0.15",
)
def english_entropy(run: Run, *, longest: Annotated[int, Range(2, 8)] = 6) -> None:
    """Measures how many bits a letter of English carries once the N - 1 letters before are known.

    Args:
        longest: The largest N, letters of a block that is counted.
    """
    text = text8(data_dir=run.data_dir) if run.full else documentation()
    plain = re.sub("[^a-z]+", " ", text.lower()).encode("ascii")
    letters = (torch.frombuffer(bytearray(plain), dtype=torch.uint8).long() - 96).clamp(min=0)
    orders, curves = range(1, longest + 1), {}
    for parts in run.steps((1, 2, 8), "parts of the text"):
        curves[parts] = _letter_bits(letters, longest, parts)
    whole, halves = curves[1], curves[2]
    run.record(**{f"F{order}": bits for order, bits in zip(orders, whole, strict=True)})
    run.record(lost_by_halving=whole[-1] - halves[-1])
    shown = {1: "whole text", 2: "mean of its halves", 8: "mean of its eighths"}
    run.figure("letters", figures.draw(Plot(
        (*(Series(shown[parts], orders, bits, "measured" if parts == 1 else "other", "points")
           for parts, bits in curves.items()),
         Series("Shannon 1951", list(SHANNON), list(SHANNON.values()), "predicted", "points"),
         Series("log₂ 27", [0, longest], [math.log2(SYMBOLS)] * 2, role="bound")),
        "letters N", "F_N, bits a letter given the N - 1 before it",
    )))


def _letter_bits(letters: Tensor, longest: int, parts: int) -> list[float]:
    """Give F_1 to F_longest, each the growth of the entropy of blocks, averaged over the parts."""
    codes, entropies = torch.zeros_like(letters), [0.0]
    for order in range(longest):
        codes = SYMBOLS * codes[: len(letters) - order] + letters[order:]
        each = len(codes) // parts
        of_parts = plug_in(codes[: each * parts].reshape(parts, each))[0]
        entropies.append(float(of_parts.mean()) / math.log(2))
    return np.diff(entropies).tolist()
