r"""Barron's rate: what it reaches on data."""

from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from principia.lab import figures
from principia.lab.data.uci import uci
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, fit
from principia.networks.barron import greedy_network, sigmoid_network, sigmoid_pool
from principia.networks.mlp import MLP


@experiment(
    reaches={
        "ratio_5": at_most_goal(0.1), "ratio_10": at_most_goal(0.1),
        "energy_ratio": Range(0, 1, open="high"),
    },
    floor={"ratio_5": at_most_goal(0.2)},
    source="Barron (1993), Universal approximation bounds, sec. 1: adaptive units against a fixed "
    "basis; to beat are the best of ten draws of random features",
)
def adaptive_vs_fixed(
    run: Run, *, frequency: Annotated[float, Range(0.1, 1)] = 0.5,
    units: Annotated[int, Range(4, 256)] | None = None,
) -> None:
    """Learns a wave along an unknown direction, with trained, chosen and fixed units."""
    m, series = units or (64 if run.full else 16), []
    for n in (2, 5, 10) if run.full else (5,):
        rng = run.seed.child(n).torch()
        omega = frequency * F.normalize(torch.randn(n, generator=rng), dim=0)
        x = 2 * torch.rand(8000 if run.full else 4000, n, generator=rng) - 1
        y = torch.cos(2 * torch.pi * x @ omega)
        train, test = (x[::2], y[::2]), (x[1::2], y[1::2])
        network = MLP((n, m, 1), activation="tanh", rng=run.seed.child("init").torch())
        fit(
            network, (train[0], train[1][:, None]), Supervised(F.mse_loss),
            torch.optim.Adam(network.parameters()), steps=3000 if run.full else 600,
            batch_size=256, callbacks=[OneCycle(2e-2)], seed=run.seed.child("net"), run=run,
            name=f"n{n}",
        )
        trained = _mse(network, *test)
        few = sorted({min(m, 2**k) for k in range(2, 9)})
        fixed = [_fixed_mse(train, test, k, run.seed.child(k)) for k in few]
        run.record(**{f"trained_{n}": trained, f"fixed_{n}": fixed[-1]})
        run.record(**{f"ratio_{n}": trained / fixed[-1]})
        errors = greedy_network(train[0].double(), train[1].double(), m, rng=rng)[1]
        series += [
            Series(f"n = {n}, greedy", range(1, m + 1), errors[1:], role="other"),
            Series(f"n = {n}, fixed", few, fixed, role="other"),
            Series(f"n = {n}, trained", [m], [trained], role="other", style="points"),
        ]
        if n == 5:
            run.keep(network)
    picture = Plot(tuple(series), "units m", "mean squared error", log="xy")
    run.figure("error", figures.draw(picture))
    if run.full:
        run.record(**_energy(run, 32))


def _mse(network: MLP, x: Tensor, y: Tensor) -> float:
    return float((network(x)[:, 0].detach() - y).square().mean())


def _fixed_mse(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], units: int, seed: Seed
) -> float:
    """Fit outer weights of random units, ten times, and give the least error on the test."""
    errors, rng = [], seed.torch()
    for _ in range(10):
        W, b = sigmoid_pool(train[0], units, rng)
        features = torch.sigmoid(train[0] @ W.mT + b)
        columns = torch.cat([torch.ones_like(features[:, :1]), features], dim=1).double()
        outer = torch.linalg.lstsq(columns, train[1].double()[:, None], driver="gelsd").solution
        errors.append(_mse(sigmoid_network(W.double(), b.double(), outer[:, 0]), *(
            part.double() for part in test
        )))
    return min(errors)


def _energy(run: Run, units: int) -> dict[str, float]:
    """Predict heating loads of buildings with chosen and with fixed units, over all splits."""
    table, chosen, fixed = uci("energy", data_dir=run.data_dir), [], []
    X, y = torch.from_numpy(table.X), torch.from_numpy(table.y)
    for number, (rows, others) in enumerate(run.steps(table.splits, "energy splits")):
        mean, spread = X[rows].mean(dim=0), X[rows].std(dim=0)
        train, test = (((X[k] - mean) / spread, y[k]) for k in (rows, others))
        seed = run.seed.child(f"energy {number}")
        chosen.append(_mse(greedy_network(*train, units, rng=seed.torch())[0], *test))
        fixed.append(_fixed_mse(train, test, units, seed.child("fixed")))
    errors = [float(np.mean(one)) ** 0.5 for one in (chosen, fixed)]
    return {
        "energy_greedy_rmse": errors[0], "energy_fixed_rmse": errors[1],
        "energy_ratio": errors[0] / errors[1],
    }
