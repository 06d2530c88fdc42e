r"""Weight decay: a pull toward 0 that damps the directions in which the data say little.

A price on the squared weights shrinks each of them by the same share at every step. On a quadratic
risk the minimum moves along the eigenvectors of the Hessian: steep directions, which the data fix,
hardly notice; flat ones, which mostly hold noise, lose nearly all. A price on the absolute values
takes the same amount from each weight instead, and stops those that cost more than they are worth
at exactly 0. Small weights alone are no virtue: a rectifier network can be rescaled at will without
changing its function. With Adam the price and the pull are two methods, because Adam divides the
gradient of the price by its size, too; the decoupled pull, `torch.optim.AdamW`, is the one that
shrinks all weights alike.

$$ R_\Omega = R+\Omega, \quad \Omega = \frac12\sum_l\mu^l\Vert W^l\Vert_F^2, \quad
\theta^+ = (1-\eta\mu)\theta-\eta\nabla R, \quad \eta\mu<1 $$

$$ \theta_\mu = (H+\mu I)^{-1}H\theta^* = Q\,\mathrm{diag}\Big(\frac{\lambda_i}{\lambda_i+\mu}\Big)
Q^\top\theta^*, \quad \theta_d = (H+\mathrm{diag}\,d)^{-1}H\theta^* $$

$$ \theta^+ = S_{\eta\lambda}(\theta-\eta\nabla R), \quad
S_t(z) = \mathrm{sign}(z)\max(0,\lvert z\rvert-t) $$

Symbols:
    $R, \Omega$: empirical risk and the price of the weights; $\Omega=0$ leaves the risk
    $\mu, d$: strength of the decay, `mu`, and one for each weight; $\mu^l$ of each layer
    $\eta$: learning rate, `lr`
    $W^l$: weight matrices; `decay_groups` leaves biases and gains alone
    $H=Q\Lambda Q^\top$: Hessian at the minimum $\theta^*$ of the risk, with eigenvalues $\lambda_i$
    $\theta_\mu$: minimum of the regularized risk, `shrinkage(H, mu) @ theta`
    $\lambda, S_t$: price of the absolute values, `lam`, and soft threshold, in `ProximalL1`

References:
    Krogh and Hertz (1992), A simple weight decay can improve generalization. Advances in Neural
        Information Processing Systems 4.
    Hoerl and Kennard (1970), Ridge regression: biased estimation for nonorthogonal problems.
        Technometrics 12(1). doi:10.1080/00401706.1970.10488634
    Tibshirani (1996), Regression shrinkage and selection via the lasso. Journal of the Royal
        Statistical Society B 58(1). doi:10.1111/j.2517-6161.1996.tb02080.x
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 7.1. MIT Press.
    Loshchilov and Hutter (2019), Decoupled weight decay regularization. International Conference on
        Learning Representations. arXiv:1711.05101
    Dinh, Pascanu, Bengio and Bengio (2017), Sharp minima can generalize for deep nets.
        International Conference on Machine Learning. arXiv:1703.04933
"""

__all__ = ["decay", "decay_groups", "shrinkage", "ProximalL1", "l1_penalty"]

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim import Optimizer

from principia.lab.params import NonNegativeFloat, PositiveFloat, checked, suggestion, usage_error
from principia.regression.lasso import soft_threshold_

Strengths = float | Mapping[str, float]
NORMS = (nn.LayerNorm, nn.RMSNorm)  # their gains may have as many axes as a weight


@checked
def decay(
    theta: Float[Tensor, "*shape"], gradient: Float[Tensor, "*shape"], *, lr: PositiveFloat,
    mu: NonNegativeFloat,
) -> Float[Tensor, "*shape"]:
    r"""Takes one gradient step with weight decay, $(1-\eta\mu)\theta-\eta\nabla R$.

    It is what `torch.optim.SGD(lr=lr, weight_decay=mu)` does.

    Args:
        theta: Weights.
        gradient: Gradient of the risk alone.
        lr: Learning rate $\eta$.
        mu: Strength of the decay; its product with the rate must be below 1.

    Example:
        >>> decay(torch.tensor([1.0, -2.0]), torch.tensor([0.0, 1.0]), lr=0.5, mu=0.2)
        tensor([ 0.9000, -2.3000])
    """
    _need_sign("decay", lr, mu)
    return (1 - lr * mu) * theta - lr * gradient


def _need_sign(owner: str, lr: float, mu: float) -> None:
    if lr * mu >= 1:
        raise usage_error(owner, "lr*weight_decay", "< 1", lr * mu, "Weights would change sign.")


@checked
def decay_groups(
    model: nn.Module, mu: Strengths, *, lr: PositiveFloat | None = None,
    name: Literal["weight_decay", "lam"] = "weight_decay",
) -> list[dict[str, Any]]:
    r"""Sorts the parameters of a model into groups for any optimizer, one for each strength.

    A single strength is for weights: biases, and the gains of normalizations and of normalized
    weights, have none.

    Args:
        model: Whose parameters are to be trained; frozen ones are left out.
        mu: Strength for all weights, or for parameters by name; those not named have none.
        lr: Learning rate of all groups, if the optimizer is not told.
        name: What the optimizer calls the strength; `ProximalL1` calls it lam.

    Example:
        >>> groups = decay_groups(nn.Linear(3, 2), 0.01)
        >>> [(group["weight_decay"], len(group["params"])) for group in groups]
        [(0.01, 1), (0.0, 1)]
        >>> optimizer = torch.optim.AdamW(groups, lr=1e-3)
    """
    groups: dict[float, list[Tensor]] = {}
    for p, strength in _strengths("decay_groups", "mu", model, mu):
        if lr is not None and name == "weight_decay":
            _need_sign("decay_groups", lr, strength)
        if p.requires_grad:
            groups.setdefault(strength, []).append(p)
    rate = {} if lr is None else {"lr": lr}
    return [{"params": params, name: strength, **rate} for strength, params in groups.items()]


def _strengths(
    owner: str, knob: str, model: nn.Module, given: Strengths
) -> list[tuple[Tensor, float]]:
    """Give every parameter its strength; `knob` is what the owner calls the strengths."""
    named = dict(model.named_parameters())
    for one in given.values() if isinstance(given, Mapping) else [given]:
        if not 0 <= one < math.inf:
            raise usage_error(owner, knob, "in [0, inf)", one)
    if isinstance(given, Mapping):
        for name in given:
            if name not in named:
                hint = suggestion(name, named)
                raise usage_error(owner, knob, "of parameters of the model", name, hint)
        strengths = {name: float(given.get(name, 0.0)) for name in named}
    else:
        free = _biases_and_gains(model)
        strengths = {name: 0.0 if p in free else float(given) for name, p in named.items()}
    return [(named[name], strength) for name, strength in strengths.items()]


def _biases_and_gains(model: nn.Module) -> set[Tensor]:
    """Collect what a strength for all weights leaves alone, however many axes it has."""
    free: set[Tensor] = {
        p for name, p in model.named_parameters()
        if p.ndim < 2 or name.rpartition(".")[2] in ("bias", "weight_g")  # g: torch's older gains
    }
    for one in model.modules():
        if isinstance(one, NORMS):
            free.update(one.parameters())
        elif isinstance(one, ParametrizationList) and isinstance(one[0], _WeightNorm):
            free.add(cast("Tensor", one.original0))
    return free


@checked
def shrinkage(
    H: Float[Tensor, "*B D D"], mu: float | Float[Tensor, "... D"]
) -> Float[Tensor, "... D D"]:
    r"""Computes the matrix that takes the minimum of a quadratic risk to that with decay.

    It is $(H+\mathrm{diag}\,d)^{-1}H$. One strength for all weights shrinks the coordinate along
    each eigenvector by $\lambda_i/(\lambda_i+\mu)$; several do not keep the eigenvectors.

    Args:
        H: Hessian of the risk at its minimum, symmetric.
        mu: Strength of the decay, or one for each weight; batches of both broadcast.

    Example:
        >>> shrinkage(torch.diag(torch.tensor([1.0, 3.0])), 1.0)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.7500]])
    """
    d = torch.as_tensor(mu, dtype=H.dtype, device=H.device)
    if not bool(((d >= 0) & d.isfinite()).all()):
        raise usage_error("shrinkage", "mu", "in [0, inf)", mu)
    rounding = 100 * torch.finfo(H.dtype).eps * H.abs().amax()
    if not bool(((H - H.mT).abs() <= rounding).all()):
        hint = "A Hessian is; take (H + H.mT) / 2 if only rounding made it otherwise."
        raise usage_error("shrinkage", "H", "symmetric", H, hint)
    try:
        d = d.expand(torch.broadcast_shapes(d.shape, H.shape[:-1]))
    except RuntimeError:
        domain = f"of a shape that broadcasts to {tuple(H.shape[:-1])}"
        hint = "The last axis has one strength for each weight."
        raise usage_error("shrinkage", "mu", domain, f"shape {tuple(d.shape)}", hint) from None
    factor, failed = torch.linalg.cholesky_ex(H + torch.diag_embed(d))
    if bool(failed.any()):
        hint = "Along some direction nothing stops the weights: raise mu."
        raise usage_error("shrinkage", "H + mu", "positive definite", H, hint)
    return torch.cholesky_solve(H, factor)


@final
class ProximalL1(Optimizer):
    r"""Trains with a price on absolute weights: a step of any optimizer, then the soft threshold.

    Weights become exactly 0, which a penalty that is added to the loss never achieves. With plain
    SGD the limit is the minimum of $R+\lambda\Vert\theta\Vert_1$. Momentum $\beta$ multiplies the
    gradient by $1/(1-\beta)$ in the long run, so that `lam` has to be multiplied, too; with Adam
    the threshold is decoupled from the size of the gradients, as the decay of AdamW is.

    Args:
        params: Parameters, or groups of them, which may have a `lam` of their own.
        base_optimizer: Makes the optimizer that takes the steps: a class of `torch.optim`, say.
        lam: Price of the absolute values; 0 is right for biases, see `decay_groups`.
        options: What else the optimizer is made with, such as `lr`.

    Example:
        >>> w = nn.Parameter(torch.tensor([1.0, 1.0]))
        >>> optimizer = ProximalL1([w], torch.optim.SGD, lam=1.0, lr=0.5)
        >>> w[0].backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.0, 0.5]
    """

    @checked
    def __init__(
        self, params: Any, base_optimizer: Callable[..., Optimizer], *, lam: NonNegativeFloat = 0.0,
        **options: Any,
    ) -> None:
        self.base = base_optimizer(params, **options)
        self.base.defaults["lam"] = lam
        super().__init__(self.base.param_groups, self.base.defaults)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters, with options of their own; the constructor's come here, too."""
        options = self.defaults | param_group
        if "lr" not in options:
            got = type(self.base).__name__
            raise usage_error("ProximalL1", "base_optimizer", "one with a learning rate lr", got)
        for name in ("lam", "lr"):
            if not 0 <= options[name] < math.inf:
                raise usage_error("ProximalL1", name, "in [0, inf)", options[name])
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Let the base optimizer step; threshold what it moved; return the loss, if any."""
        loss = self.base.step(closure)  # type: ignore[arg-type]
        for group in self.param_groups:
            if group["lam"] > 0:
                moved = (p for p in group["params"] if p.grad is not None)
                soft_threshold_(moved, group["lr"] * group["lam"])
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave: the memory and the groups of the base optimizer."""
        self.base.load_state_dict(state_dict)
        self._share()

    def __getstate__(self) -> dict[str, Any]:
        """Give what a copy needs."""
        return {**super().__getstate__(), "base": self.base}

    def _share(self) -> None:
        """Let schedules, which move our groups, move those of the base optimizer."""
        self.param_groups, self.state = self.base.param_groups, self.base.state


def l1_penalty(model: nn.Module, strengths: Strengths) -> Float[Tensor, ""]:
    r"""Adds up the absolute weights of a model, each times its strength, to add it to a loss.

    Its subgradient at 0 is 0, but no step of a plain optimizer ends there: `ProximalL1` does.

    Args:
        model: Whose parameters are counted.
        strengths: Strength for all weights, without biases and gains (see `decay_groups`), or for
            parameters by name.

    Example:
        >>> line = nn.Linear(2, 1)
        >>> line.weight.data = torch.tensor([[3.0, -1.0]])
        >>> l1_penalty(line, 0.5).item()
        2.0
    """
    priced = _strengths("l1_penalty", "strengths", model, strengths)
    return torch.stack([strength * p.abs().sum() for p, strength in priced]).sum()
