"""The playground moves: the steps of `fit`, exactly reversible, and safe when the loss explodes."""

import copy
import functools
import itertools
import json
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from principia.lab.course import catalog
from principia.lab.params import UsageError
from principia.lab.playground import Playground, Setup, choices
from principia.lab.playground.stepping import KEPT, STRIDE, Stepper
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.lab.training.learners import learner_of

SMALL = {"hidden": (8, 8), "activation": "tanh"}


def playground(**plain):
    return Playground(Setup.from_json({"data": "moons", "knobs": SMALL, "lr": 0.05, **plain}))


def state(one):
    return {name: value.clone() for name, value in one.model.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


# The law of training: it is fit

OPTIMIZERS = {
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
}
PAGES = {
    "networks/mlp": SMALL,
    "networks/residual": {"width": 8, "depth": 2},
    "networks/maxout": {"hidden": (8,), "dropout": 0.3},
    "regression/softmax": {},
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("page", "data"), [
    *((page, "moons") for page in PAGES), ("networks/mlp", "sine"), ("networks/maxout", "sine")])
def test_steps_are_those_of_fit_to_the_bit(page, data, optimizer):
    steps, seed = 37, Seed(3)  # over the end of an epoch, into the middle of the next
    ours = playground(page=page, knobs=PAGES[page], data=data, optimizer=optimizer,
                      batch_size=30, seed=int(seed))
    ours.advance(5)
    ours.advance(steps - 5)
    ready = ours.ready
    build = learner_of(catalog.page(page), ready.schema).function
    model = build(ready.schema.inputs, ready.schema.outputs, seed.child("init").torch(),
                  **PAGES[page])
    y, loss, target = ready.y, F.cross_entropy, ready.schema.target
    if data == "sine":
        y, loss = ((y - target.mean) / target.scale)[:, None], F.mse_loss
    begun = copy.deepcopy(model.state_dict())
    fit(model, (ready.x, y), Supervised(loss), OPTIMIZERS[optimizer](model.parameters()),
        steps=steps, batch_size=30, seed=seed)
    assert same(state(ours), model.state_dict())
    assert not same(begun, model.state_dict())


# The law of going back: a step has one state, however it was reached


def test_every_optimizer_goes_back_and_forth_exactly():
    for name, kind in choices().optimizers.items():
        one = playground(page="networks/maxout", knobs=PAGES["networks/maxout"], optimizer=name,
                         lr=kind.lr)
        seen = [state(one)]
        for steps in (21, 30):
            one.advance(steps)
            seen.append(state(one))
        assert not same(seen[1], seen[2]), name
        one.back(30)
        assert (one.step, same(state(one), seen[1])) == (21, True), name
        one.advance(30)
        assert same(state(one), seen[2]), name
        one.back(1000)
        assert (one.step, same(state(one), seen[0])) == (0, True), name


@functools.cache
def straight_walk():
    one = playground(page="networks/maxout", knobs=PAGES["networks/maxout"])
    return one, [state(one)]


def straight(step):
    """The state of a step, reached by single steps that nobody looks at."""
    one, states = straight_walk()
    while len(states) <= step:
        one.advance(1)
        states.append(state(one))
    return states[step]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-30, 40).filter(bool), max_size=12))
def test_a_step_has_one_state_whatever_the_way_to_it(moves):
    one = playground(page="networks/maxout", knobs=PAGES["networks/maxout"])
    for move in moves:
        expected = max(0, one.step + move)
        one.advance(move) if move > 0 else one.back(-move)
        one.frame()  # to look changes nothing
        assert one.step == expected
        assert same(straight(expected), state(one))


def stepper(counted):
    torch.manual_seed(0)
    model, x = nn.Linear(2, 1), torch.randn(32, 2)

    def loss(outputs, y):
        counted.append(1)
        return F.mse_loss(outputs, y)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Stepper(model, (x, x[:, :1]), loss, optimizer, batch_size=8)


@pytest.mark.parametrize("stride", [1, 7, 1200])
def test_far_back_costs_no_more_than_it_is_far(stride):
    """Few states are kept, and those so that the way back is shorter than the way it goes back."""
    counted = []
    one = stepper(counted)
    for _ in range(1200 // stride):
        one.advance(stride)
        assert len(one._kept) <= KEPT
    end = one.step
    for far in (1, 2, 10, 100, 400, 900):
        other = copy.deepcopy(one)
        counted.clear()
        other.back(far)
        assert other.step == end - far
        assert len(counted) <= max(STRIDE, far), far


# Losses that are not finite


@pytest.mark.parametrize("plain", [
    {"lr": 1000, "data": "sine", "knobs": {"hidden": [8], "activation": "relu"}},
    {"regularization": "l2", "strength": 100, "lr": 100, "initialization": "too large"}])
def test_divergence_stops_at_the_last_finite_weights(plain):
    one = playground(optimizer="SGD", **plain)
    one.advance(500)
    frame = one.frame()
    assert 0 <= one.step < 500
    assert "diverged" in frame["diverged"]
    assert "at step" in frame["diverged"]
    assert all(bool(value.isfinite().all()) for value in state(one).values())
    json.dumps(frame, allow_nan=False)
    stopped, step = state(one), one.step
    one.advance(3)
    assert (one.step, same(state(one), stopped)) == (step, True)
    one.back(1)
    assert (one.step, one.frame()["diverged"]) == (max(0, step - 1), "")
    one.advance(500)
    assert (one.step, same(state(one), stopped)) == (step, True)
    assert step == bare_steps_before_divergence(plain, decay=plain.get("strength", 0))


def bare_steps_before_divergence(plain, decay):
    """Walk on without looking until the loss is spoiled; tell when weights were finite last."""
    one = playground(optimizer="SGD", **plain)
    model, (x, y), loss = one.model, one._learner.steps.data, one._learner.loss
    weights = [p for p in model.parameters() if p.ndim >= 2]
    biases = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": weights, "weight_decay": decay}, {"params": biases}]
    optimizer = torch.optim.SGD(groups, lr=plain["lr"])
    finite = []
    for epoch in itertools.count():
        rng = Seed(0).child(f"epoch {epoch}").torch()
        for rows in torch.randperm(len(x), generator=rng).split(32):
            finite.append(all(bool(p.isfinite().all()) for p in model.parameters()))
            optimizer.zero_grad()
            value = loss(model(x[rows]), y[rows])
            if not math.isfinite(value.item()):
                return max(step for step, good in enumerate(finite) if good)
            value.backward()
            optimizer.step()
    return None


def test_steps_are_counted_from_one():
    one = playground()
    for wrong in (0, -1, 2.5, 10_001):
        with pytest.raises(UsageError, match="steps must be an integer in"):
            one.advance(wrong)
    with pytest.raises(UsageError, match="steps must be"):
        one.back(0)
