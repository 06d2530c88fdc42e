r"""Averaging the iterates: what it reaches on data."""

import copy
import math
from typing import Annotated, final

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, skip_init, vector_to_parameters
from torch.optim import SGD
from torch.optim.swa_utils import update_bn

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import EMA, SWA, Callback, Supervised, accuracy, callback, evaluate, fit
from principia.optimization.averaging import WeightAverage

ENDS = 5  # epoch ends that it averages
SEEDS = ("first", "second", "third")


@callback()
def exponential_average(
    run: Run, *, decay: Annotated[float, Range(0, 1, open="high")] = 0.999
) -> Callback:
    """Averages the weights of all steps, older ones less, and ends with the average.

    Args:
        decay: Weight of the average against the newest weights.
    """
    return EMA(decay)


@callback()
def weight_average(
    run: Run, *, start: Annotated[float, Range(0, 1, open="high")] = 0.75
) -> Callback:
    """Averages the weights at the ends of the last epochs, all alike, and ends with the average.

    Args:
        start: Share of the steps after which the averaging begins.
    """
    return SWA(start)


@experiment(
    reaches={"gain_in_errors": at_least_goal(1.0)}, floor={"gain": at_least_goal(0.0)},
    source="Izmailov et al. (2018), table 1: averages of epoch ends against the last weights; to "
    "beat is the last iterate at the same constant rate, by one standard error over three seeds",
)
def swa(
    run: Run, *, lr: Annotated[float, Range(0.001, 0.5)] = 0.2,
    epochs: Annotated[int, Range(ENDS, 30)] = 10,
    samples: Annotated[int, Range(500, 60_000)] = 20_000,
) -> None:
    """Averages the last five epoch ends of a small convolutional network at a constant rate."""
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    else:
        x, y, *test = digits()
    batch = 128 if run.full else 32  # the digits are soon fitted: less noise would leave no gain
    x, y, test = x[:samples, None], y[:samples], (test[0][:, None], test[1])
    errors = []
    for name in SEEDS:
        own = run.seed.child(name)
        model = _Ends(_network(x.shape[-1], own.child("init").torch()))
        sgd = SGD(model.parameters(), lr=lr, momentum=0.9)
        fit(
            model, (x, y), Supervised(F.cross_entropy), sgd, epochs=epochs, batch_size=batch,
            callbacks=[_KeepEnds()], validation=test, metrics=SCORE, seed=own, run=run, name=name,
        )
        model.cpu()
        average = WeightAverage(model.net)
        for end in model.ends:
            vector_to_parameters(end, model.net.parameters())
            average.update_parameters(model.net)
        update_bn(x.split(500), average)
        errors.append([1 - evaluate(one, test, SCORE)["accuracy"] for one in (model, average)])
        if name == SEEDS[0]:
            run.figure("plane", _plane(model, test))
    last, averaged = torch.tensor(errors, dtype=torch.float64).T
    gains = last - averaged
    noise = float(gains.std()) / len(SEEDS) ** 0.5
    gain = float(gains.mean())
    run.record(last_error=float(last.mean()), averaged_error=float(averaged.mean()), gain=gain)
    run.record(gain_in_errors=gain / max(noise, 1e-12))


def _network(side: int, rng: torch.Generator) -> nn.Sequential:
    """Build two normalized convolutions and a linear layer; all weights are of the generator."""
    net = nn.Sequential(
        skip_init(nn.Conv2d, 1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
        skip_init(nn.Conv2d, 8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), skip_init(nn.Linear, 16 * math.ceil(side / 4) ** 2, 10),
    )
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                p = layer.weight
                p.copy_((2 / p[0].numel()) ** 0.5 * torch.randn(p.shape, generator=rng))
                layer.bias.zero_()  # type: ignore[union-attr]
    return net


@final
class _KeepEnds(Callback):
    """Puts the weights at the end of every epoch behind the others."""

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        assert isinstance(model, _Ends)  # noqa: S101
        newest = parameters_to_vector(model.net.parameters()).detach()
        model.ends.copy_(torch.cat([model.ends[1:], newest[None]]))
        return ""


SCORE = {"accuracy": accuracy}


@final
class _Ends(nn.Module):
    """A network that carries its weights at the ends of the last epochs, one a row."""

    ends: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("ends", torch.zeros(ENDS, sum(p.numel() for p in net.parameters())))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@torch.no_grad()
def _plane(model: _Ends, data: tuple[Tensor, Tensor]) -> go.Figure:
    """Draw the loss on the plane through three epoch ends, with their mean in the middle."""
    net, (x, y) = copy.deepcopy(model.net).train(), (one[:1000] for one in data)
    a, b, c = model.ends[[0, ENDS // 2, -1]].double()
    right = (b - a) / (b - a).norm()
    up = c - a - (c - a) @ right * right
    axes = torch.stack([right, up / up.norm()])
    corners = torch.stack([a, b, c]) @ axes.T - a @ axes.T  # (3, 2)
    low, high = corners.amin(dim=0), corners.amax(dim=0)
    ticks = [
        torch.linspace(float(i - (j - i) / 3), float(j + (j - i) / 3), 17).double()
        for i, j in zip(low, high, strict=True)
    ]
    heights = []
    for place in torch.cartesian_prod(*ticks):
        vector_to_parameters((a + place @ axes).float(), net.parameters())
        heights.append(F.cross_entropy(net(x), y))  # with the statistics of these pictures
    mean = corners.mean(dim=0)
    figure = figures.draw(Plot((
        Series("epoch ends", corners[:, 0], corners[:, 1]),
        Series("their mean", mean[:1], mean[1:], "predicted", "points"),
    ), "along the first two ends", "across, toward the last end"))
    figure.add_trace(go.Contour(
        x=ticks[0].numpy(), y=ticks[1].numpy(), z=torch.stack(heights).view(17, 17).T.numpy(),
        colorscale="Greys", contours={"coloring": "lines"}, name="test loss", showscale=False,
    ))
    return figure.update_layout(height=480)
