r"""Dropout: units are left out at random while a network learns, so that none relies on another.

At every step each unit is kept with probability $\pi$ and otherwise silent; the network that is
trained is one of $2^R$ that share their weights. At test time all units speak, each as loud as it
was on average: the outgoing weights are multiplied by the probability of *keeping* a unit, or, what
is the same, torch divides by it in training. For a linear network that is exactly the mean over all
subnetworks, for softmax regression their geometric mean, renormalized; for deep networks it is an
approximation, good in practice. In linear regression dropout is ridge regression with a price of
its own for each weight. A unit that cannot count on its neighbors has to be useful alone: a network
trained this way survives the loss of half its units.

$$ \tilde h = \frac{b\odot h}\pi, \quad p(b) = \prod_i\pi_i^{b_i}(1-\pi_i)^{1-b_i}, \quad
p(y\mid x) = \sum_bp(b)\,p(y\mid x,b), \quad \tilde w_{ij} = \pi_jw_{ij} $$

$$ p_{\mathrm{geo}}(y\mid x)\propto\prod_bp(y\mid x,b)^{p(b)}, \quad
\sum_{i=0}^R\binom Ri = 2^R $$

$$ E\Vert y-(X\odot B)w\Vert^2 = \Vert y-\pi Xw\Vert^2
+ \pi(1-\pi)\sum_j(X^\top X)_{jj}w_j^2 $$

Symbols:
    $\pi$: probability of keeping a unit, `keep`; torch's `p` is that of dropping it, $1-\pi$
    $b$: mask, 1 for each unit that is kept; `enumerate_subnets` takes all $2^R$ of them
    $R$: number of units that may be dropped
    $h, \tilde h$: activations of a layer, and what the next layer sees in training
    $w, \tilde w$: weights behind classic dropout, and those of `scale_weights` for the test
    $p(y\mid x)$: mean of the subnetworks, `arithmetic_ensemble`; `geometric_ensemble` is $p_{geo}$
    $X, B, w$: samples, one a row, independent masks of their entries, weights of a regression

References:
    Hinton, Srivastava, Krizhevsky, Sutskever and Salakhutdinov (2012), Improving neural networks by
        preventing co-adaptation of feature detectors. arXiv:1207.0580
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov (2014), Dropout: a simple way to
        prevent neural networks from overfitting. Journal of Machine Learning Research 15.
    Baldi and Sadowski (2013), Understanding dropout. Advances in Neural Information Processing
        Systems 26.
    Wager, Wang and Liang (2013), Dropout training as adaptive regularization. Advances in Neural
        Information Processing Systems 26. arXiv:1307.1493
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 7.12. MIT Press.
        https://www.deeplearningbook.org
    Gal and Ghahramani (2016), Dropout as a Bayesian approximation: representing model uncertainty
        in deep learning. International Conference on Machine Learning. arXiv:1506.02142
    Simard, Steinkraus and Platt (2003), Best practices for convolutional neural networks applied to
        visual document analysis. International Conference on Document Analysis and Recognition.
        doi:10.1109/ICDAR.2003.1227801
"""

__all__ = [
    "ClassicDropout", "with_dropout", "scale_weights", "enumerate_subnets", "arithmetic_ensemble",
    "geometric_ensemble", "mc_dropout",
]

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Annotated, Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from principia.lab.params import Range, UsageError, checked, usage_error
from principia.lab.seeds import Seed
from principia.lab.training import evaluated, seeded_generators
from principia.networks.mlp import ActivationName, Sizes
from principia.regularization.initialization import he_mlp

Keep = Annotated[float, Range(0, 1, open="low")]
MOST_UNITS = 14  # that can be enumerated: 16,384 subnetworks
ROWS = 2**15  # that a network computes at once


@checked
def with_dropout(
    sizes: Sizes, *, keep_input: Keep = 0.8, keep_hidden: Keep = 0.5,
    activation: ActivationName = "relu", rng: torch.Generator | None = None,
) -> nn.Sequential:
    r"""Puts dropout of the inputs in front of an `MLP` with dropout, and starts it by He's rule.

    Dropout is torch's: in training what is kept is divided by $\pi$, in evaluation nothing happens.

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        keep_input: Probability of keeping an input.
        keep_hidden: Probability of keeping a hidden unit.
        activation: Name of $\varphi$ in `ACTIVATIONS`, behind every layer but the last.
        rng: Draws the weights, of variance $2/n$ (He); biases start at 0. By default torch's
            global generator, which the masks always come from.

    Example:
        >>> net = with_dropout([784, 800, 800, 10], rng=torch.Generator().manual_seed(0))
        >>> x = torch.ones(64, 784)
        >>> torch.equal(net(x), net(x)), torch.equal(net.eval()(x), net(x))
        (False, True)
        >>> net[0].p, [one.p for one in net[1].drops]
        (0.1999..., [0.5, 0.5])
    """
    mlp = he_mlp(sizes, activation=activation, dropout=1 - keep_hidden, rng=rng)
    return nn.Sequential(nn.Dropout(1 - keep_input), mlp)


@final
class ClassicDropout(nn.Module):
    r"""Masks units in training and multiplies them by $\pi$ afterwards, as dropout was proposed.

    Args:
        keep: Probability of keeping a unit; `nn.Dropout` takes $1-\pi$.

    Example:
        >>> dropout = ClassicDropout(0.8)
        >>> dropout.eval()(torch.ones(3))
        tensor([0.8000, 0.8000, 0.8000])
    """

    @checked
    def __init__(self, keep: Keep = 0.5) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """Mask, or scale."""
        return x * (torch.empty_like(x).bernoulli_(self.keep) if self.training else self.keep)

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"keep={self.keep}"


def scale_weights(model: nn.Sequential) -> nn.Sequential:
    r"""Turns `ClassicDropout` into `nn.Dropout`, with $\tilde w_{ij}=\pi_jw_{ij}$ behind it.

    The copy computes the same function, for every mask in training and in evaluation.

    Args:
        model: A sequence in which a linear layer follows every `ClassicDropout`; it stays as it is.

    Example:
        >>> classic = nn.Sequential(ClassicDropout(0.8), nn.Linear(2, 1)).eval()
        >>> x = torch.ones(1, 2)
        >>> torch.allclose(scale_weights(classic)(x), classic(x))
        True
    """
    parts = [*copy.deepcopy(model), None]
    for place, (drop, layer) in enumerate(itertools.pairwise(parts)):
        if isinstance(drop, ClassicDropout):
            if not isinstance(layer, nn.Linear) or parts.count(layer) > 1:
                domain = "a sequence in which an nn.Linear of its own follows every ClassicDropout"
                raise usage_error("scale_weights", "model", domain, layer)
            layer.weight.data.mul_(drop.keep)
            parts[place] = nn.Dropout(1 - drop.keep)
    scaled = nn.Sequential(*parts[:-1])  # type: ignore[arg-type]
    if any(isinstance(one, ClassicDropout) for one in scaled.modules()):
        domain = "a sequence that holds every ClassicDropout itself, not in a module of its own"
        raise usage_error(
            "scale_weights", "model", domain, model, "Flatten it into one nn.Sequential."
        )
    return scaled.train(model.training)


def enumerate_subnets(
    model: nn.Module, x: Float[Tensor, "B n"], units: Sequence[int] | None = None
) -> tuple[Float[Tensor, "M B m"], Float[Tensor, " M"]]:
    r"""Computes the outputs of all $M=2^R$ subnetworks and the probability $p(b)$ of each.

    Mask number $k$ keeps the unit $i$ of `units` where bit $i$ of $k$ is 1.

    Args:
        model: A module with `nn.Dropout` or `ClassicDropout` before layers that act on the last
            axis; in training mode or not.
        x: Inputs.
        units: Places of the units that may be dropped, where units are counted over all layers
            that drop, in the order of the computation; all by default. Others are never dropped.

    Example:
        >>> model = nn.Sequential(nn.Dropout(0.2), nn.Linear(2, 1))
        >>> outputs, weights = enumerate_subnets(model, torch.ones(5, 2))
        >>> outputs.shape, weights
        (torch.Size([4, 5, 1]), tensor([0.0400, 0.1600, 0.1600, 0.6400]))
    """
    with evaluated(model):
        keeps = _keeps(model, x[:1])
        pi = torch.cat(keeps)
        chosen = list(range(len(pi)) if units is None else units)
        if len(chosen) > MOST_UNITS:
            raise UsageError(
                f"dropout: at most {MOST_UNITS} units can be enumerated; got {len(chosen)}. Use "
                "mc_dropout."
            )
        if len({*chosen}) < len(chosen) or not {*chosen} <= {*range(len(pi))}:
            raise usage_error(
                "enumerate_subnets", "units", f"different, from 0 to {len(pi) - 1}", units
            )
        masks = (torch.arange(2 ** len(chosen))[:, None] >> torch.arange(len(chosen))) & 1
        masks, pi = masks.to(pi), pi[chosen]
        factors = masks.new_ones(len(masks), sum(map(len, keeps)))
        factors[:, chosen] = masks / pi  # times what the layer does in evaluation
        with multiplied(_drops(model), factors.split([len(one) for one in keeps], dim=1)):
            outputs = model(x.expand(len(masks), *x.shape))
    return outputs, torch.where(masks == 1, pi, 1 - pi).prod(dim=1)


def _keeps(model: nn.Module, x: Tensor) -> list[Tensor]:
    """List the probability of keeping each unit: a vector for each layer that drops, in order."""
    found = []

    def look(drop: nn.Module, inputs: Any, output: Tensor) -> None:
        found.append(torch.full_like(output[0], _keep(drop)))

    with ExitStack() as hooks:
        for drop in _drops(model):
            hooks.enter_context(drop.register_forward_hook(look))
        model(x)
    if not found or not all(bool((keep > 0).all()) for keep in found):
        domain = "a module with a layer that drops units, and none that drops all of them"
        raise usage_error("enumerate_subnets", "model", domain, model)
    return found


def _keep(drop: Any) -> float:
    return drop.keep if isinstance(drop, ClassicDropout) else 1 - drop.p


def _drops(model: nn.Module) -> list[nn.Module]:
    kinds = (nn.Dropout, ClassicDropout)
    return [one for one in model.modules() if isinstance(one, kinds) and _keep(one) < 1]


@contextmanager
def multiplied(layers: Sequence[nn.Module], factors: Sequence[Tensor]) -> Iterator[None]:
    """Multiply what layers put out by factors (M, units), in the order in which they are called."""
    left = iter(factors)

    def multiply(layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output * next(left)[:, None]

    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(multiply))
        yield


def arithmetic_ensemble(
    logits: Float[Tensor, "M *B k"], weights: Float[Tensor, " M"]
) -> Float[Tensor, "*B k"]:
    r"""Averages the class probabilities of the subnetworks: $\sum_bp(b)\,p(y\mid x,b)$.

    Args:
        logits: Outputs of the subnetworks, from `enumerate_subnets`.
        weights: Probabilities of the subnetworks.

    Example:
        >>> logits = torch.tensor([[0.0, 0.0], [0.0, 50.0]])
        >>> arithmetic_ensemble(logits, torch.tensor([0.5, 0.5]))
        tensor([0.2500, 0.7500])
    """
    return torch.tensordot(weights, logits.softmax(dim=-1), dims=1)


def geometric_ensemble(
    logits: Float[Tensor, "M *B k"], weights: Float[Tensor, " M"]
) -> Float[Tensor, "*B k"]:
    r"""Takes the geometric mean $\prod_bp(y\mid x,b)^{p(b)}$, renormalized, in log space.

    The arguments are those of `arithmetic_ensemble`.

    Example:
        >>> logits = torch.tensor([[0.0, 0.0], [0.0, 50.0]])
        >>> geometric_ensemble(logits, torch.tensor([0.5, 0.5]))[1] > 0.99
        tensor(True)
    """
    return torch.tensordot(weights, logits.log_softmax(dim=-1), dims=1).softmax(dim=-1)


@checked
def mc_dropout(
    model: nn.Module, x: Float[Tensor, " B *n"], samples: Annotated[int, Range(2)] = 100, *,
    head: Callable[[Tensor], Tensor] | None = None, rng: torch.Generator | None = None,
) -> tuple[Float[Tensor, " B *m"], Float[Tensor, " B *m"]]:
    r"""Leaves dropout on and gives the mean and the variance of the outputs over random masks.

    Only dropout is on; other layers, such as batch normalization, act as in evaluation.

    Args:
        model: A module with dropout.
        x: Inputs.
        samples: How many masks for each input.
        head: What to average instead of the outputs, such as their softmax.
        rng: Decides on the masks; by default torch's global generator.

    Example:
        >>> net = with_dropout([4, 100, 3], rng=torch.Generator().manual_seed(0))
        >>> mean, variance = mc_dropout(net, torch.ones(2, 4), head=nn.Softmax(dim=-1))
        >>> mean.shape, bool((variance > 0).all())
        (torch.Size([2, 3]), True)
    """
    drops = [one for one in model.modules() if isinstance(one, _DropoutNd | ClassicDropout)]
    if not drops:
        raise usage_error("mc_dropout", "model", "a module with a dropout layer", model)
    drawn = nullcontext()
    if rng is not None:
        drawn = seeded_generators(Seed(int(torch.randint(2**31, (), generator=rng))), x.device)
    outputs = []
    with evaluated(model), torch.no_grad(), drawn:
        for one in drops:
            one.train()
        for some in torch.arange(samples).split(max(1, ROWS // len(x))):
            rows = model(x.expand(len(some), *x.shape).flatten(0, 1))
            outputs.append((head or nn.Identity())(rows).unflatten(0, (len(some), len(x))))
    variance, mean = torch.var_mean(torch.cat(outputs), dim=0)
    return mean, variance
