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
    "DropoutMLP", "ClassicDropout", "scale_weights", "enumerate_subnets", "arithmetic_ensemble",
    "geometric_ensemble", "mc_dropout",
]

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Range
from principia.lab.draws import randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.pairs import paired
from principia.lab.relations import at_least, at_most, equal, estimates, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, evaluate, fit
from principia.lab.training.dice import own_dice
from principia.lab.training.metrics import evaluated
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import ActivationName, Sizes
from principia.regularization.initialization import initialize_

Keep = Annotated[float, Range(0, 1, open="low")]
Often = Annotated[float, Range(0.6, 0.95)]  # kept, for claims: at 1/2 the controls would be right
COURSE, PLAIN = (0.8, 0.5), (1.0, 1.0)  # inputs and hidden units: with dropout and without
SCORE = {"accuracy": accuracy}
CPU = torch.device("cpu")
MOST_UNITS = 14  # that can be enumerated: 16,384 subnetworks
ROWS = 2**15  # that a network computes at once


@final
class DropoutMLP(nn.Module):
    r"""Composes layers $x\mapsto\varphi(Wx+b)$; the inputs of each are dropped in training.

    Dropout is torch's: in training what is kept is divided by $\pi$, in evaluation nothing happens.

    Shapes:
        x: (..., sizes[0]); returns (..., sizes[-1])

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        keep_input: Probability of keeping an input.
        keep_hidden: Probability of keeping a hidden unit.
        activation: Name of $\varphi$ in `ACTIVATIONS`, behind every layer but the last.
        rng: Draws the weights, of variance $2/n$ (He); biases start at 0. By default torch's
            global generator, which the masks always come from.

    Example:
        >>> mlp = DropoutMLP([784, 800, 800, 10], rng=torch.Generator().manual_seed(0))
        >>> x = torch.ones(64, 784)
        >>> logits = mlp(x)
        >>> torch.equal(mlp(x), logits), torch.equal(mlp.eval()(x), mlp(x))
        (False, True)
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, keep_input: Keep = 0.8, keep_hidden: Keep = 0.5,
        activation: ActivationName = "relu", rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and that of the output."
            raise refuse("DropoutMLP", "sizes", "two or more values", sizes, hint)
        self.activation, self.phi = activation, ACTIVATIONS[activation].module()
        keeps = [keep_input, *[keep_hidden] * (len(sizes) - 2)]
        self.drops = nn.ModuleList(nn.Dropout(1 - keep) for keep in keeps)
        # what a list of modules gives back, its type does not tell
        self.layers: Sequence[nn.Linear] = nn.ModuleList(  # type: ignore[assignment]
            nn.utils.skip_init(nn.Linear, n, m) for n, m in itertools.pairwise(sizes)
        )
        initialize_(self, "he", rng=rng)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The widths of input, hidden layers and output."""
        return (self.layers[0].in_features, *(one.out_features for one in self.layers))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*C m"]:
        """Compute the output of the last layer: in training, that of one random subnetwork."""
        if x.shape[-1] != self.sizes[0]:
            domain = f"of shape (..., {self.sizes[0]})"
            raise refuse("DropoutMLP", "x", domain, tuple(x.shape))
        *hidden, last = zip(self.drops, self.layers, strict=True)
        for drop, layer in hidden:
            x = self.phi(layer(drop(x)))
        drop, layer = last
        return layer(drop(x))


@learner
def network(
    inputs: Count, outputs: Count, rng: torch.Generator, *, hidden: tuple[Count, ...] = (128, 128),
    keep_input: Keep = 0.8, keep_hidden: Keep = 0.5,
) -> nn.Module:
    """Builds an MLP with dropout for any table.

    Args:
        hidden: Widths of the hidden layers.
        keep_input: Probability of keeping an input.
        keep_hidden: Probability of keeping a hidden unit.
    """
    sizes = [inputs, *hidden, outputs]
    return DropoutMLP(sizes, keep_input=keep_input, keep_hidden=keep_hidden, rng=rng)


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
                raise refuse("scale_weights", "model", domain, layer)
            layer.weight.data.mul_(drop.keep)
            parts[place] = nn.Dropout(1 - drop.keep)
    scaled = nn.Sequential(*parts[:-1])  # type: ignore[arg-type]
    if any(isinstance(one, ClassicDropout) for one in scaled.modules()):
        domain = "a sequence that holds every ClassicDropout itself, not in a module of its own"
        raise refuse("scale_weights", "model", domain, model, "Flatten it into one nn.Sequential.")
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
            raise refuse("enumerate_subnets", "units", f"different, from 0 to {len(pi) - 1}", units)
        masks = (torch.arange(2 ** len(chosen))[:, None] >> torch.arange(len(chosen))) & 1
        masks, pi = masks.to(pi), pi[chosen]
        factors = masks.new_ones(len(masks), sum(map(len, keeps)))
        factors[:, chosen] = masks / pi  # times what the layer does in evaluation
        with _multiplied(_drops(model), factors.split([len(one) for one in keeps], dim=1)):
            outputs = model(x[None])
    return outputs, torch.where(masks == 1, pi, 1 - pi).prod(dim=1)


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
        >>> mlp = DropoutMLP([4, 100, 3], rng=torch.Generator().manual_seed(0))
        >>> mean, variance = mc_dropout(mlp, torch.ones(2, 4), head=nn.Softmax(dim=-1))
        >>> mean.shape, bool((variance > 0).all())
        (torch.Size([2, 3]), True)
    """
    drops = [one for one in model.modules() if isinstance(one, _DropoutNd | ClassicDropout)]
    if not drops:
        raise refuse("mc_dropout", "model", "a module with a dropout layer", model)
    drawn = nullcontext()
    if rng is not None:
        drawn = own_dice(Seed(int(torch.randint(2**31, (), generator=rng))), x.device)
    outputs = []
    with evaluated(model), torch.no_grad(), drawn:
        for one in drops:
            one.train()
        for some in torch.arange(samples).split(max(1, ROWS // len(x))):
            rows = model(x.expand(len(some), *x.shape).flatten(0, 1))
            outputs.append((head or nn.Identity())(rows).unflatten(0, (len(some), len(x))))
    variance, mean = torch.var_mean(torch.cat(outputs), dim=0)
    return mean, variance


def _drops(model: nn.Module) -> list[nn.Module]:
    kinds = (nn.Dropout, ClassicDropout)
    return [one for one in model.modules() if isinstance(one, kinds) and _keep(one) < 1]


def _keep(drop: Any) -> float:
    return drop.keep if isinstance(drop, ClassicDropout) else 1 - drop.p


def _keeps(model: nn.Module, x: Tensor) -> list[Tensor]:
    """List the probability of keeping each unit: a vector for each layer that drops, in order."""
    found = []

    def look(drop: nn.Module, inputs: Any, output: Tensor) -> None:
        found.append(torch.full_like(output[0], _keep(drop)))

    handles = [one.register_forward_hook(look) for one in _drops(model)]
    try:
        model(x)
    finally:
        for one in handles:
            one.remove()
    if not found or not all(bool((keep > 0).all()) for keep in found):
        domain = "a module with a layer that drops units, and none that drops all of them"
        raise refuse("enumerate_subnets", "model", domain, model)
    return found


@contextmanager
def _multiplied(layers: Sequence[nn.Module], factors: Sequence[Tensor]) -> Iterator[None]:
    """Multiply what layers put out by factors (M, units), in the order in which they are called."""
    left = iter(factors)

    def multiply(layer: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output * next(left)[:, None]

    handles = [one.register_forward_hook(multiply) for one in layers]
    try:
        yield
    finally:
        for one in handles:
            one.remove()


@claim(control={"p": "π"}, source="Srivastava et al. 2014, sec. 10; PyTorch")
def torch_dropout_is_inverted(
    seed: Seed, *, keep: Often = 0.8, masks: Annotated[int, Range(1000, 200_000)] = 100_000,
    p: Literal["1 - π", "π"] = "1 - π",
) -> Evidence:
    r"""`nn.Dropout` of $1-\pi$ gives $b\odot x/\pi$, of mean $x$, and leaves $x$ in evaluation."""
    x = randn(seed.torch(), 8)
    inverted, classic = nn.Dropout(1 - keep if p == "1 - π" else keep), ClassicDropout(keep)
    with own_dice(seed, CPU):
        ours, theirs = (one(x.expand(masks, 8)) for one in (classic, inverted))
    noise = (keep * (1 - keep) / masks) ** 0.5  # of a share
    shares = torch.stack([(one != 0).double().mean(dim=0) for one in (ours, theirs)])
    mean, error, units = theirs.mean(dim=0), theirs.std(dim=0) / masks**0.5, range(1, 9)
    return every({
        "mean": estimates(mean, x, error=error, k=4, why="mean over masks").drawn(
            Series("mean over masks", units, mean, error=4 * error),
            Series("x", units, x, "predicted", "points"),
            Series("what is kept", units, theirs.sum(dim=0) / (theirs != 0).sum(dim=0), "other",
                   "points"),
            x="unit", y="value",
        ),
        "what is kept": identical(theirs, (theirs != 0) * x / keep),
        "what is kept, classic": identical(ours, (ours != 0) * x),
        "share that is kept": estimates(shares, keep, error=noise, k=4, why="share of the masks"),
        "evaluation": equal(inverted.eval()(x), x, tol=0, why="nothing is done"),
        "evaluation, classic": identical(classic.eval()(x), keep * x),
    })


@claim(control={"average": "unweighted"}, source="Srivastava et al. 2014, sec. 4")
def mask_law(
    seed: Seed, *, units: Annotated[int, Range(6, 12)] = 10, keep: Often = 0.8,
    average: Literal["by p(b)", "unweighted"] = "by p(b)",
) -> Evidence:
    r"""$p(b)=\prod_i\pi_i^{b_i}(1-\pi_i)^{1-b_i}$ sums to 1; $p(y\mid x)=\sum_bp(b)p(y|x,b)$."""
    rng, samples = seed.torch(), 100_000
    sizes = [3, units - 3, 4]
    mlp = DropoutMLP(sizes, keep_input=0.9, keep_hidden=keep, activation="tanh", rng=rng).double()
    x = 2 * randn(rng, 1, 3)
    logits, weights = enumerate_subnets(mlp, x)
    keeps = [keep] * (units - 3) + [0.9] * 3  # the last bit runs fastest: the first input
    law = [
        math.prod(pi if bit else 1 - pi for pi, bit in zip(keeps, bits, strict=True))
        for bits in itertools.product((0, 1), repeat=units)
    ]
    share = weights if average == "by p(b)" else torch.full_like(weights, 1 / len(weights))
    mixture = arithmetic_ensemble(logits, share)
    moments = [torch.tensordot(share, (logits.softmax(-1) - mixture) ** k, 1) for k in (2, 4)]
    mean, variance = mc_dropout(mlp, x, samples, head=nn.Softmax(dim=-1), rng=rng)
    errors = (variance / samples).sqrt()
    unsure = ((moments[1] - moments[0] ** 2) / samples).sqrt()
    return every({
        "mixture": estimates(mixture, mean, error=errors, k=4, why="mean over masks").drawn(
            Series(f"all {len(weights):,} masks, {average}", range(4), mixture[0]),
            Series(f"{samples:,} random masks", range(4), mean[0], "predicted", "points"),
            Series("one subnetwork: all units", range(4), logits[-1, 0].softmax(0), "other",
                   "points"),
            x="class", y="probability",
        ),
        "variance": estimates(variance, moments[0], error=unsure, k=4, why="variance over masks"),
        "probabilities": identical(weights, law),
        "their sum": equal(weights.sum(), 1, tol=1e-14, why="rounding of a sum of positive terms"),
    })


@claim(
    control={"form": "printed"}, source="binomial theorem; Srivastava et al. 2014, sec. 1",
    misprint=r"$\sum_{i=1}^n\binom ni=2^n$",
)
def subnet_count(
    seed: Seed, *, units: Annotated[int, Range(1, MOST_UNITS)] = 5,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$R$ units give $2^R=\sum_{i=0}^R\binom Ri$ subnetworks, one of which has no unit at all."""
    rng = seed.torch()
    counter, any_net = (
        DropoutMLP([1, units, 1], keep_input=1.0, activation=name, rng=rng).double()
        for name in ("identity", "tanh")
    )
    for layer in counter.layers:
        nn.init.ones_(layer.weight)
    kept = enumerate_subnets(counter, torch.full((1, 1), 0.5).double())[0]  # each counts 0.5 / π
    of_size = kept.flatten().round().long().bincount(minlength=units + 1)
    binomials = [math.comb(units, i) for i in range(units + 1)]
    functions = enumerate_subnets(any_net, randn(rng, 1, 1))[0].unique()
    total = sum(binomials[form == "printed":])
    return every({
        "subnetworks": equal(len(kept), total, tol=0, why="a count").drawn(
            Series("subnetworks", range(units + 1), of_size, style="bars"),
            Series("binomial coefficient", range(units + 1), binomials, "predicted", "points"),
            x="units that are kept", y="subnetworks",
        ),
        "2^R": equal(total, 2**units, tol=0, why="the binomial theorem"),
        "of each size": equal(of_size, binomials, tol=0, why="a count"),
        "different functions": equal(len(functions), total, tol=0, why="a count"),
    })


@claim(
    control={"form": "printed"},
    source="Srivastava et al. 2014, sec. 1, fig. 2; Baldi and Sadowski 2013",
    misprint="drop with probability $\\pi$, then scale by the dropout probability",
)
def scaling_is_exact_for_linear(
    seed: Seed, *, keep: Often = 0.8, hidden: Annotated[int, Range(1, 8)] = 6,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Linear: $\tilde w_{ij}=\pi_jw_{ij}$, $\pi$ of keeping, is the mean over all subnetworks."""
    rng = seed.torch()
    first, second, x = randn(rng, hidden, 4), randn(rng, 3, hidden), randn(rng, 50, 4)
    classic = nn.Sequential(
        ClassicDropout(keep), _linear(first), ClassicDropout(0.5), _linear(second)
    )
    scaled = scale_weights(classic).eval()
    outputs, weights = enumerate_subnets(classic, x)
    mean = torch.tensordot(weights, outputs, dims=1)
    factor = keep if form == "correct" else 1 - keep
    by_hand = x @ (factor * first).mT @ (0.5 * second).mT
    mlp = DropoutMLP([4, hidden, 3], keep_input=keep, activation="identity", rng=rng).double()
    subnets = torch.tensordot(weights, enumerate_subnets(mlp, x)[0], dims=1)
    tol = 1e-13 * (1 + float(outputs.abs().max()))
    return every({
        name: equal(*both, tol=tol, why="an identity: float64 rounding of sums of outputs")
        for name, *both in (
            ("scaled weights", by_hand, mean), ("scale_weights", scaled(x), mean),
            ("scale_weights, each subnetwork", enumerate_subnets(scaled, x)[0], outputs),
            ("ClassicDropout", classic.eval()(x), mean), ("DropoutMLP", mlp.eval()(x), subnets),
            ("all units", outputs[-1], x @ first.mT @ second.mT),
        )
    })


@claim(control={"depth": 0}, source="Srivastava et al. 2014, sec. 7.5; Baldi and Sadowski 2013")
def scaling_is_approximate_for_deep(
    seed: Seed, *, depth: Annotated[int, Range(0, 4)] = 2,
    width: Annotated[int, Range(32, 128)] = 64, units: Annotated[int, Range(6, 12)] = 10,
) -> Evidence:
    """ReLU: the scaled net is not the mean over masks, but off by less than one mask's spread."""
    mlp = _digits_net(seed, [64, *[width] * depth, 10], epochs=10).double()
    x = digits()[2].flatten(1)[:20].double()
    some = torch.randperm(64 + width * depth, generator=seed.torch())[:units].tolist()
    outputs, weights = enumerate_subnets(mlp, x, some)
    mean = torch.tensordot(weights, outputs, dims=1)
    spread = torch.tensordot(weights, (outputs - mean) ** 2, dims=1).mean().sqrt()
    scaled = mlp.eval()(x).detach()
    average, variance = mc_dropout(mlp, x, 1000, rng=seed.child("masks").torch())
    gaps = torch.stack([(scaled - one).square().mean().sqrt() for one in (mean, average)])
    gaps = gaps / torch.stack([spread, variance.mean().sqrt()])
    ends = [float(scaled.min()), float(scaled.max())]
    return every({
        "off": at_least(gaps[0], 1e-6, why="far above rounding, in units of the spread").drawn(
            Series("mean over masks, ± spread", scaled[:4].flatten(), average[:4].flatten(),
                   error=variance[:4].sqrt().flatten()),
            Series("equal", ends, ends, "predicted"),
            x="logit of the scaled network", y="logit of subnetworks",
        ),
        "less than the spread": at_most(gaps, 0.5, why="half of one mask's standard deviation"),
    })


@claim(
    control={"form": "printed"}, source="Goodfellow, Bengio and Courville 2016, sec. 7.12",
    misprint=r"$\sqrt[d]{\prod_\mu P(\mu)P(y\mid x,\mu)}$, with $d$ units", headline=True,
)
def scaling_is_geometric_mean(
    seed: Seed, *, dim: Annotated[int, Range(2, 12)] = 8,
    classes: Annotated[int, Range(2, 10)] = 4, keep: Often = 0.8,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Softmax regression: the scaled network is $\prod_bp(y\mid x,b)^{p(b)}$, renormalized."""
    rng = seed.torch()
    net, x = DropoutMLP([dim, classes], keep_input=keep, rng=rng).double(), randn(rng, 20, dim)
    logits, weights = enumerate_subnets(net, x)
    scaled = net.eval()(x).softmax(dim=-1)
    geometric = geometric_ensemble(logits, weights)
    if form == "printed":  # the factors P(μ) are the same for all classes
        geometric = (logits.log_softmax(dim=-1).sum(dim=0) / dim).softmax(dim=-1)
    rows = range(1, classes + 1)
    return equal(
        geometric, scaled, tol=1e-13, why="an identity: float64 rounding of sums of logits"
    ).drawn(
        Series("geometric mean", rows, geometric[0], style="bars"),
        Series("scaled weights", rows, scaled[0], "predicted", "points"),
        Series("arithmetic mean", rows, arithmetic_ensemble(logits, weights)[0], "other", "points"),
        x="class", y="probability",
    )


@claim(control={"penalty": "w²"}, source="Srivastava et al. 2014, sec. 9.1; Wager et al. 2013")
def dropout_is_adaptive_ridge(
    seed: Seed, *, dim: Annotated[int, Range(1, 10)] = 4,
    samples: Annotated[int, Range(2, 100)] = 20,
    penalty: Literal["(X'X) w²", "w²"] = "(X'X) w²",
) -> Evidence:
    r"""$E\Vert y-(X\odot B)w\Vert^2=\Vert y-\pi Xw\Vert^2+\pi(1-\pi)\sum_j(X^\top X)_{jj}w_j^2$."""
    rng = seed.torch()
    X, w, y = randn(rng, samples, dim), randn(rng, 1, dim), randn(rng, samples)
    prices = X.square().sum(dim=0) if penalty == "(X'X) w²" else torch.ones(dim)
    keeps = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    risks, shares = [], []
    for keep in keeps.tolist():
        masked, weights = enumerate_subnets(nn.Sequential(ClassicDropout(keep), _linear(w)), X)
        risks.append(weights @ (y - masked[..., 0]).square().sum(dim=1))
        fit_term = (y - keep * X @ w[0]).square().sum()
        shares.append((fit_term, keep * (1 - keep) * (prices * w[0] ** 2).sum()))
    risk, (square, price) = torch.stack(risks), torch.tensor(shares, dtype=torch.float64).T
    return equal(
        risk, square + price, tol=1e-12 * (1 + float(risk.abs().max())),
        why="an identity: float64 rounding",
    ).drawn(
        Series("mean over all masks", keeps, risk),
        Series("residual + penalty", keeps, square + price, "predicted"),
        Series("residual", keeps, square, "other"), Series("penalty", keeps, price, "other"),
        x="probability π of keeping an input", y="squared error",
    )


@claim(control={"training": "plain"}, source="Hinton et al. 2012; Srivastava et al. 2014, sec. 7.1")
def dropout_breaks_coadaptation(
    seed: Seed, *, cut: Annotated[float, Range(0.3, 0.7)] = 0.5,
    width: Annotated[int, Range(64, 192)] = 128, epochs: Annotated[int, Range(20, 60)] = 40,
    training: Literal["dropout", "plain"] = "dropout",
) -> Evidence:
    """A network trained with dropout loses less when half of its hidden units are cut."""
    sizes, cuts = [64, width, width, 10], 20
    arms = COURSE if training == "dropout" else PLAIN, PLAIN
    nets = {keeps: _digits_net(seed, sizes, epochs=epochs, keeps=keeps) for keeps in arms}
    *_, x, y = digits()
    shares = torch.tensor([*(k / 10 for k in range(10)), cut])
    with_dropout, without = (
        torch.stack([
            _cut_accuracy(nets[keeps], x.flatten(1), y, share, cuts, seed.child("cuts").torch())
            for share in shares.tolist()
        ])
        for keeps in arms
    )  # (shares, cuts), the same cuts in both
    gain = with_dropout[-1] - without[-1]
    error = float(gain.std()) / cuts**0.5
    return at_least(
        gain.mean() - 3 * error, 1 / len(y),
        why="3 standard errors over cuts below the mean gain; less than one digit is no gain",
        detail=f"{with_dropout[-1].mean():.3f} against {without[-1].mean():.3f}",
    ).drawn(
        Series(f"trained with {training}", shares[:-1], with_dropout[:-1].mean(dim=1),
               error=with_dropout[:-1].std(dim=1)),
        Series("trained plainly", shares[:-1], without[:-1].mean(dim=1), "other", "points",
               error=without[:-1].std(dim=1)),
        x="share of hidden units that is cut", y="test accuracy",
    )


@experiment(
    reaches={"mnist_error": at_most_goal(0.016), "gain_low": at_least_goal(0.0)},
    floor={"digits_accuracy": at_least_goal(0.95)},
    source="Simard et al. (2003), two layers of 800 units without dropout: 1.6 %, as listed in "
    "Srivastava et al. (2014), table 2; to beat besides are our own networks without dropout, "
    "trained on 5,000 pictures",
)
def mnist_dropout(
    run: Run, *, units: Annotated[int, Range(16, 1024)] = 800,
    epochs: Annotated[int, Range(1, 40)] = 16, few: Annotated[int, Range(100, 60_000)] = 5000,
    few_epochs: Annotated[int, Range(1, 200)] = 40,
    pairs: Annotated[int, Range(2, 10)] | None = None,
) -> None:
    """Reads digits with dropout, and compares with runs without it on 5,000 pictures.

    Dropout learns slowly: after sixteen epochs of all 60,000 pictures, where the papers take
    hundreds, a plain network makes no more errors, and neither after sixteen epochs of 5,000. The
    pairs show what dropout is for with forty epochs of 5,000 pictures, which a plain network learns
    by heart.

    Args:
        units: Width of both hidden layers; a quarter of it for the small digits of a quick run.
        epochs: How often the training on all pictures goes through them.
        few: Pictures of a training of a pair.
        few_epochs: How often a training of a pair goes through them; a quick run takes `epochs`.
        pairs: How many pairs, each of other pictures and other first weights; none is 5, in a
            quick run 3.
    """
    # not above: that page uses DropoutMLP
    from principia.regularization.norm_constraint import MaxNorm

    x, y, x_test, y_test = handwriting(run)
    x, test = x.flatten(1), (x_test.flatten(1), y_test)
    width, peak = (units, 0.002) if run.full else (math.ceil(units / 4), 0.01)
    pairs = pairs or (5 if run.full else 3)

    def trained(name: str, seed: Seed, rows: Tensor, keeps: tuple[float, float]) -> DropoutMLP:
        sizes, rng = [x.shape[1], width, width, 10], seed.child("init").torch()
        mlp = DropoutMLP(sizes, keep_input=keeps[0], keep_hidden=keeps[1], rng=rng)
        fit(
            mlp, (x[rows], y[rows]), Supervised(F.cross_entropy),
            torch.optim.Adam(mlp.parameters(), fused=True),
            epochs=few_epochs if run.full and len(rows) < len(x) else epochs,
            batch_size=min(200, max(48, len(rows) // 50)), parts=[OneCycle(peak), MaxNorm(3.0)],
            validation=tuple(one[:1000] for one in test), metrics=SCORE, seed=seed, run=run,
            name=name,
        )
        return mlp

    nets: dict[str, list[DropoutMLP]] = {"dropout": [], "plain": []}
    for pair in range(1, pairs + 1):
        seed = run.seed.child(f"pair {pair}")
        rows = torch.randperm(len(x), generator=seed.child("rows").torch())[:few]
        for arm, keeps in (("dropout", COURSE), ("plain", PLAIN)):
            nets[arm].append(trained(f"{arm}-{pair}", seed, rows, keeps))
    best = nets["dropout"][0]
    if few < len(x):
        best = trained("all", run.seed.child("all"), torch.arange(len(x)), COURSE)
    run.keep(best)
    ours, theirs = (
        [evaluate(one, test, SCORE)["accuracy"] for one in nets[arm]] for arm in nets
    )
    right, gain = evaluate(best, test, SCORE)["accuracy"], paired(ours, theirs)
    run.record(**({"mnist_error": 1 - right} if run.full else {"digits_accuracy": right}))
    run.record(accuracy_of_pairs=sum(ours) / pairs, accuracy_without=sum(theirs) / pairs)
    run.record(**gain.metrics("gain"))
    run.figure("pairs", gain.figure("test accuracy", ("without dropout", "with dropout")))
    run.figure("errors", _errors({arm: run.curves[f"{arm}-1"] for arm in nets}))
    first = {arm: those[0] for arm, those in nets.items()}
    run.figure("cuts", _cuts(first, test[0][:1000], y_test[:1000], run.seed.child("cuts")))


def _errors(curves: Mapping[str, list[dict[str, float]]]) -> Any:
    """Draw losses of training beside those of test pictures, of the first pair."""
    series = [
        Series(f"{arm}, {what}", [row["epoch"] for row in rows], [row[name] for row in rows], role,
               "line")
        for (arm, rows), role in zip(curves.items(), ("measured", "other"), strict=True)
        for what, name in (("in training", "loss"), ("1,000 test pictures", "validation_loss"))
    ]
    return figures.draw(Picture(tuple(series), "epoch", "cross entropy", log="y"))  # type: ignore[arg-type]


def _cuts(nets: Mapping[str, DropoutMLP], x: Tensor, y: Tensor, seed: Seed) -> Any:
    """Draw how networks fare when more and more of their hidden units are cut."""
    shares = [k / 10 for k in range(10)]
    series = [
        Series(f"training: {arm}", shares, [
            _cut_accuracy(mlp.cpu(), x, y, share, 5, seed.torch()).mean() for share in shares
        ], "measured" if arm == "dropout" else "other", "line")
        for arm, mlp in nets.items()
    ]
    picture = Picture(tuple(series), "share of hidden units that is cut", "test accuracy")
    return figures.draw(picture)


@torch.no_grad()
def _cut_accuracy(
    mlp: DropoutMLP, x: Tensor, y: Tensor, share: float, cuts: int, rng: torch.Generator
) -> Tensor:
    """Measure the accuracy, for several random cuts, without a share of each hidden layer.

    What is left speaks louder, so that the sums stay as large as they were.
    """
    masks = []
    for n in mlp.sizes[1:-1]:
        order = torch.rand(cuts, n, generator=rng).argsort(dim=1).argsort(dim=1)
        kept = (order >= round(share * n)).float()
        masks.append(kept / kept.mean(dim=1, keepdim=True))
    with evaluated(mlp), _multiplied(list(mlp.drops[1:]), masks):
        return (mlp(x[None]).argmax(dim=-1) == y).double().mean(dim=1)


def _digits_net(
    seed: Seed, sizes: Sequence[int], *, epochs: int, keeps: tuple[float, float] = COURSE
) -> DropoutMLP:
    """Train a network on the embedded digits; `keeps` are for inputs and hidden units."""
    x, y, *_ = digits()
    rng = seed.child("init").torch()
    mlp = DropoutMLP(sizes, keep_input=keeps[0], keep_hidden=keeps[1], rng=rng)
    fit(
        mlp, (x.flatten(1), y), Supervised(F.cross_entropy),
        torch.optim.Adam(mlp.parameters(), fused=True), epochs=epochs, batch_size=128,
        parts=[OneCycle(0.01)], seed=seed,
    )
    return mlp


def _linear(weight: Tensor) -> nn.Linear:
    layer: Any = nn.utils.skip_init(nn.Linear, weight.shape[1], len(weight), bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer
