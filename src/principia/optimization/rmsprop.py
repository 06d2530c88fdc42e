r"""RMSprop: every coordinate is divided by the size that its gradients lately had.

Adagrad's sum of squares never forgets, so that its steps only shrink. RMSprop takes an average that
forgets: with a weight $1-\rho$ for what is new, the root of the average is the size of the gradient
itself, steps are about as long as the learning rate, and they recover when gradients shrink. The
weight matters: without it the sum is $\frac1{1-\rho}$ times as large, and called an average it is
wrong. Multiplying the loss by a constant changes nothing. It is Adam without momentum and without
the correction of the start at 0. `torch.optim.RMSprop` is it, with $\varepsilon$ beside the root.

$$ v^t = \rho v^{t-1}+(1-\rho)(g^t)^2 = (1-\rho)\sum_{s\le t}\rho^{t-s}(g^s)^2, \quad
\theta^t = \theta^{t-1}-\eta\frac{g^t}{\sqrt{v^t}+\varepsilon} $$

$$ \frac\eta{\sqrt{v^{t+k}}} = \frac\eta{\sqrt{1+(c^2-1)\rho^k}} \quad
\text{after the gradient falls from } c \text{ to } 1 $$

Symbols:
    $g^t$: gradient at $\theta^{t-1}$; squares and roots are taken in each coordinate
    $v$: average of squared gradients, `square_avg` in the state of torch's optimizer
    $\rho, \eta, \varepsilon$: `rho` (torch says `alpha`), `lr`, `eps`

References:
    Tieleman and Hinton (2012), Lecture 6.5: RMSprop. Coursera, Neural Networks for Machine
        Learning.
    Graves (2013), Generating sequences with recurrent neural networks. arXiv:1308.0850
    Kingma and Ba (2015), Adam: a method for stochastic optimization. International Conference on
        Learning Representations. arXiv:1412.6980
"""

__all__ = ["rmsprop_reference"]

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from principia.lab.params import NonNegativeFloat, PositiveFloat, Range, checked


@checked
def rmsprop_reference(
    gradients: Float[Tensor, " T *shape"], lr: PositiveFloat = 0.01,
    rho: Annotated[float, Range(0, 1, open="high")] = 0.99, eps: NonNegativeFloat = 1e-8, *,
    eps_inside: bool = False,
) -> Float[Tensor, " T *shape"]:
    r"""Gives the steps of RMSprop along given gradients, as the formula has them.

    Args:
        gradients: One a row.
        lr: $\eta$.
        rho: Weight of the past.
        eps: $\varepsilon$.
        eps_inside: Whether it stands under the root, $\sqrt{v+\varepsilon}$, as in some texts.

    Example:
        >>> rmsprop_reference(torch.tensor([3.0, 3.0]), lr=0.1, rho=0.75, eps=0.0)
        tensor([-0.2000, -0.1512])
    """
    v, steps = torch.zeros_like(gradients[0]), []
    for g in gradients:
        v = rho * v + (1 - rho) * g**2
        steps.append(-lr * g / ((v + eps).sqrt() if eps_inside else v.sqrt() + eps))
    return torch.stack(steps)
