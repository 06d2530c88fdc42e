r"""The running average: a memory that forgets at a chosen pace.

`principia new` copies this file and its two rooms into a chapter under the name of your idea, and
they are a page: it appears in `ls`, `show`, `check` and the tests with no other edit. The story
tells the idea in a few sentences, for somebody who has not seen it. A running average keeps one
number, pulls it a little toward every new one, and so remembers about $1/(1-\beta)$ of them;
because it starts at 0, it is too small at first.

$$ m_t = \beta\,m_{t-1} + (1-\beta)\,x_t, \quad m_0 = 0, \quad \hat m_t = \frac{m_t}{1-\beta^t} $$

Symbols:
    $x_t$: the series, `x`
    $\beta$: how much is kept, `decay`
    $\hat m_t$: the average without its pull toward 0, `corrected=True`

References:
    Brown (1959), Statistical forecasting for inventory control. McGraw-Hill.
    Kingma and Ba (2015), Adam: a method for stochastic optimization, sec. 3. arXiv:1412.6980
"""

__all__ = ["running_average"]

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from principia.lab.params import Range, checked

Decay = Annotated[float, Range(0, 1, open="high")]  # said once: flag, slider, check and message


@checked
def running_average(
    x: Float[Tensor, "... T"], *, decay: Decay = 0.9, corrected: bool = True
) -> Float[Tensor, "... T"]:
    r"""Averages a series with weights that fall by `decay` at every step back.

    Shapes:
        x: (..., T); returns (..., T)

    Args:
        x: The series, time last.
        decay: How much of the old average is kept.
        corrected: Whether to divide by the sum of the weights, $1-\beta^t$.

    Example:
        >>> running_average(torch.ones(3), decay=0.5).tolist()
        [1.0, 1.0, 1.0]
    """
    steps = x.shape[-1]
    lag = torch.arange(steps)[:, None] - torch.arange(steps)  # (T, T): how long ago
    weights = torch.where(lag >= 0, (1 - decay) * decay ** lag.clamp(min=0).to(x.dtype), 0.0)
    mean = x @ weights.to(x.dtype).T
    return mean / weights.sum(dim=1).to(x.dtype) if corrected else mean
