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
from principia.lab.heroes import hero
from principia.lab.params import Range, UnitInterval
from principia.lab.pictures import Label, Panels, Regions, Role, Rule
from principia.lab.runs import Run, experiment
from principia.lab.seeds import Seed
from principia.mathematics.information import cross_entropy, entropy, kl, plug_in

SYMBOLS = 27  # a to z and blank
SHANNON = {0: 4.76, 1: 4.03, 2: 3.32}  # bits a letter, the table's row for 27 letters

TRUTH = (0.5, 0.25, 0.125, 0.0625, 0.0625)  # of five letters, whose codes have 1, 2, 3, 4, 4 bits
STEPS = torch.linspace(0, 3, 31, dtype=torch.float64)
CEILING, MOST = 8.0, 1.9  # bits that are shown, of a letter and on average
GRAY, WASTED, SAVED, ENDLESS = 9, 1, 0, 7  # numbers of colors


@hero(moves="sharpness")
def waste(
    seed: Seed, *, sharpness: Annotated[float, Range(0, 3)] = 2.2, forgotten: UnitInterval = 0.0,
    swapped: bool = False,
) -> Panels:
    """A code for the wrong belief wastes more on some letters than it saves on all others.

    Args:
        sharpness: How strongly the belief prefers frequent letters; 0 is flat, 1 is the truth.
        forgotten: Share of the last letter that the belief leaves out; at 1 it costs no end.
        swapped: Whether the letters follow the belief, and the code the truth.
    """
    truth, belief = torch.tensor(TRUTH).double(), _belief(torch.tensor([sharpness]), forgotten)[0]
    p, q = (belief, truth) if swapped else (truth, belief)
    right = p.cumsum(0)
    left = right - p
    own, paid = (-one.log2().clamp(min=-CEILING) for one in (p, q))
    low, high = torch.minimum(own, paid), torch.maximum(own, paid)
    endless = (q == 0) & (p > 0)
    kinds = torch.where(endless, ENDLESS, torch.where(paid > own, WASTED, SAVED)).tolist()
    boxes = [_box(*one) for one in zip(left, right, torch.zeros(5), low, strict=True)]
    boxes += [_box(*one) for one in zip(left, right, low, high, strict=True)]
    needed, cost, lost = (
        float(one) for one in (entropy(p, base=2), cross_entropy(p, q, base=2), kl(p, q, base=2))
    )
    broken = bool(endless.any())
    sentence = f"{cost:.2f} bits paid = {needed:.2f} needed + {lost:.2f} wasted"
    beliefs = _belief(torch.cat([STEPS, torch.tensor([sharpness])]), forgotten)  # the last is now
    pairs = (beliefs, truth.expand_as(beliefs)) if swapped else (truth.expand_as(beliefs), beliefs)
    surplus = torch.xlogy(pairs[0], pairs[0] / pairs[1]) / math.log(2)
    areas: dict[Role, Tensor] = {"orange": surplus.clamp(min=0).sum(-1),
                                 "blue": (-surplus).clamp(min=0).sum(-1),
                                 "red" if broken else "ink": kl(*pairs, base=2)}
    shown: dict[Role, Tensor] = {name: area.clamp(max=MOST) for name, area in areas.items()}
    wide = p > 0.04
    return Panels((
        Plot((
            Regions(boxes, [GRAY] * 5 + kinds),
            Label([one for one, keep in zip("abcde", wide, strict=True) if keep],
                  ((left + right) / 2)[wide], torch.full((5,), -0.35)[wide], "ink"),
            Label("∞" if broken else "", 0.97, CEILING - 0.6, "red", 24),
        ), x="how often each letter happens", y="bits that it costs",
            title=sentence.replace("inf", "∞"), x_range=(0, 1), y_range=(-0.8, CEILING)),
        Plot((
            *(Series("", STEPS, area[:-1], name, "line") for name, area in shown.items()),
            *(Series("", [sharpness], area[-1:], name, "points")
              for name, area in shown.items()),
            Label("no end" if broken else "", 2.9, MOST - 0.1, "red", side="left"),
            Rule("the truth", x=1.0, role="gray"),
        ), x="sharpness of the belief", y="bits a letter",
            title="wasted = orange − blue, never < 0", x_range=(0, 3), y_range=(-0.1, 2.0)),
    ))


def _belief(sharpness: Tensor, forgotten: float) -> Tensor:
    """Sharpen or flatten the truth, and leave out a share of the last letter."""
    belief = torch.tensor(TRUTH).double() ** sharpness[:, None]
    belief[:, -1] *= 1 - forgotten
    return belief / belief.sum(dim=-1, keepdim=True)


def _box(left: Tensor, right: Tensor, low: Tensor, high: Tensor) -> list[list[float]]:
    a, b, c, d = float(left), float(right), float(low), float(high)
    return [[a, c], [b, c], [b, d], [a, d]]


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
