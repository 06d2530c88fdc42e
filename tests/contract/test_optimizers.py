"""Every optimizer, torch's and the course's: a training that is stopped and goes on is the same."""

import inspect
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from principia.lab.course import catalog
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Schedule, Supervised, fit

STEPS = 5
# what is not the default: so that there is a state to lose, or because there is no default
SETTINGS = {
    "SGD": {"momentum": 0.9},
    "ProximalL1": {"base_optimizer": torch.optim.Adam, "lam": 0.01},
    "ProximalSGD": {"l1": 0.01},
    "Nesterov": {"restart": True},
    "Newton": {"damping": 1.0},
}
SPARSE = {torch.optim.SparseAdam}  # dense gradients are refused, and fit has dense ones


def every_optimizer():
    theirs = {kind for kind in vars(torch.optim).values() if inspect.isclass(kind)}
    ours = {
        one.thing for chapter in catalog.chapters() for page in chapter.pages
        for one in page.components() if inspect.isclass(one.thing)
    }
    kinds = {kind for kind in theirs | ours if issubclass(kind, torch.optim.Optimizer)}
    found = kinds - SPARSE - {torch.optim.Optimizer}
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def train(kind, folder, stop_after=math.inf):
    """Train a matrix, since Muon takes matrices alone; stop as a kill would after so many steps."""
    model = nn.Linear(4, 2, bias=False)
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        model.weight.copy_(torch.randn(2, 4, generator=rng))
    x = torch.randn(40, 4, generator=rng)
    taken = itertools.count(1)
    run = Run(Seed(1), folder=folder, save_every=0.0)
    run.asked_to_stop = lambda: next(taken) >= stop_after
    optimizer = kind(model.parameters(), lr=0.05, **SETTINGS.get(kind.__name__, {}))
    fit(
        model, (x, (x[:, 0] > x[:, 1]).long()), Supervised(F.cross_entropy), optimizer,
        steps=STEPS, batch_size=20, run=run, callbacks=[Schedule(CosineAnnealingLR)],
    )
    return model.weight


def named(kind):
    return f"{kind.__module__}.{kind.__name__}"


@pytest.mark.parametrize("kind", every_optimizer(), ids=named)
def test_it_resumes_exactly_from_every_step(kind, tmp_path):
    whole = train(kind, None)
    assert bool(whole.isfinite().all())
    for folder, stops in (("slowly", [1] * (STEPS - 1)), ("jumping", [3])):
        for stop_after in stops:
            with pytest.raises(KeyboardInterrupt):
                train(kind, tmp_path / folder, stop_after)
        assert torch.equal(train(kind, tmp_path / folder), whole)
