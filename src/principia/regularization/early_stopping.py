r"""Early stopping: descent that ends before it has learned the noise.

Gradient descent from 0 learns the directions that the data determine well first, and those that
are mostly noise last. Stopped after $t$ steps, each eigenvector of the Hessian has got the share
$1-(1-\eta\lambda)^t$ of its way, much as with weight decay, whose share is $\lambda/(\lambda+\mu)$:
stopping at $t=1/(\eta\mu)$ shrinks the weak directions alike. In the limit of small steps, as a
gradient flow, its risk is never more than 1.69 times that of ridge regression; longer steps have no
such bound: one of length $1/\lambda$ learns four times the variance of ridge regression. When to
stop, a few data held out decide: after so many checks without a better one, the best weights are
the result (`EarlyStopping` of the training loop).

$$ \theta_t = Q\big(I-(I-\eta\Lambda)^t\big)Q^\top\theta^*, \quad
1-(1-\eta\lambda)^t\approx\frac\lambda{\lambda+\mu} \quad\text{at}\quad t = \frac1{\eta\mu}, \quad
\lambda\ll\mu,\ \eta\lambda\ll1 $$

$$ \frac{R(\text{flow at }t)}{R(\text{ridge at }1/t)} \le
\sup_{x>0}\Big(\frac{(1-e^{-x})(1+x)}x\Big)^2 = 1.6859\ldots < 1.6862 $$

Symbols:
    $\Lambda, Q$: eigenvalues $\lambda$ and eigenvectors of the Hessian of a quadratic risk; its
        minimum is $\theta^*$
    $\eta, t$: learning rate, `lr`, and number of steps, `t`; for the flow, of which the bound
        speaks, $t$ is the time, $\eta$ times the number of steps
    $\mu$: decay that shrinks weak directions alike, `equivalent_decay`
    $1-(1-\eta\lambda)^t$: `stopped_shrinkage`, the share of the way
    $R$: estimation risk: mean squared distance of the estimate from the true weights

References:
    Morgan and Bourlard (1990), Generalization and parameter estimation in feedforward nets: some
        experiments. Advances in Neural Information Processing Systems 2.
    Prechelt (1998), Early stopping, but when? Neural Networks: Tricks of the Trade.
        doi:10.1007/3-540-49430-8_3
    Ali, Kolter and Tibshirani (2019), A continuous-time view of early stopping for least squares
        regression. Artificial Intelligence and Statistics. arXiv:1810.10082
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 7.8. MIT Press.
    Li, Soltanolkotabi and Oymak (2020), Gradient descent with early stopping is provably robust to
        label noise for overparameterized neural networks. Artificial Intelligence and Statistics.
        arXiv:1903.11680
"""

__all__ = ["stopped_shrinkage", "equivalent_decay"]

import torch
from jaxtyping import Float
from torch import Tensor

from principia.lab.params import NonNegativeFloat, PositiveFloat, checked, usage_error


@checked
def stopped_shrinkage(
    lam: Float[Tensor, "*n"], lr: PositiveFloat, t: NonNegativeFloat
) -> Float[Tensor, "*n"]:
    r"""Computes $1-(1-\eta\lambda)^t$: how far descent from 0 gets along each eigenvector.

    Args:
        lam: Eigenvalues of the Hessian, between 0 and $2/\eta$.
        lr: Learning rate.
        t: Number of steps.

    Example:
        >>> stopped_shrinkage(torch.tensor([0.0, 0.5, 1.0]), 0.5, 2)
        tensor([0.0000, 0.4375, 0.7500])
    """
    step = lr * lam
    if bool((lam < 0).any()) or bool((step >= 2).any()):
        hint = "Descent diverges beyond; lower lr."
        raise usage_error("stopped_shrinkage", "lam", f"in [0, {2 / lr:g})", lam.tolist(), hint)
    long = step > 1  # every step changes the sign: there is nothing between two steps
    if not float(t).is_integer() and bool(long.any()):
        raise usage_error("stopped_shrinkage", "t", "an integer where lr * lam > 1", t)
    # 1 - step would round away what a weak direction moves
    share = -torch.expm1(torch.special.xlog1py(t, -step))
    return torch.where(long, 1 - (1 - step) ** t, share)


@checked
def equivalent_decay(lr: PositiveFloat, t: PositiveFloat) -> float:
    r"""Gives the weight decay $\mu=1/(\eta t)$ that shrinks weak directions as $t$ steps do.

    Example:
        >>> equivalent_decay(0.01, 100)
        1.0
    """
    return 1 / (lr * t)
