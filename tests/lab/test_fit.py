"""The training loop: equal to a bare loop, exact when resumed, safe when the loss explodes."""

import functools
import itertools
import json
import math
import re
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import (
    EMA,
    SWA,
    Callback,
    ClipNorm,
    Diverged,
    EarlyStopping,
    OneCycle,
    Reconstruction,
    Supervised,
    accuracy,
    batches,
    checkpoints,
    evaluate,
    fit,
    rmse,
)

ROWS = 50
CROSS_ENTROPY = Supervised(F.cross_entropy)


@pytest.fixture
def data():
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, 4, generator=rng)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def network(*, seed=0):
    """A network with everything that has a state of its own: dropout and running averages."""
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2)]
    model = nn.Sequential(*layers)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape, generator=rng) / 2)
    return model


def same(first, second):
    states = first.state_dict(), second.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def bare_loop(model, data, optimizer, *, seed, epochs, after_step=lambda: None, clip=None):
    """What `fit` must be, written down without it."""
    x, y = data
    with torch.random.fork_rng([]):
        torch.manual_seed(int(seed.child("layers")))
        model.train()
        for epoch in range(epochs):
            rng = seed.child(f"epoch {epoch}").torch()
            for rows in torch.randperm(len(x), generator=rng).split(16):
                optimizer.zero_grad()
                F.cross_entropy(model(x[rows]), y[rows]).backward()
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                after_step()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_it_is_the_bare_loop_to_the_bit(data, kind):
    ours, theirs = network(), network()
    fit(ours, data, CROSS_ENTROPY, kind(ours.parameters(), lr=0.05), epochs=3, batch_size=16,
        seed=Seed(5), callbacks=[ClipNorm(0.5)])
    bare_loop(theirs, data, kind(theirs.parameters(), lr=0.05), seed=Seed(5), epochs=3, clip=0.5)
    assert same(ours, theirs)


def test_schedules_and_averages_are_those_of_torch(data):
    ours, theirs = network(), network()
    adam = torch.optim.Adam(ours.parameters(), lr=0.01)
    fit(ours, data, CROSS_ENTROPY, adam, epochs=3, batch_size=16, seed=Seed(5),
        callbacks=[OneCycle(0.1), EMA(0.9)])
    steps = 3 * math.ceil(ROWS / 16)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.01)
    schedule = OneCycleLR(optimizer, 0.1, total_steps=steps + 1)
    average = torch.optim.swa_utils.AveragedModel(
        theirs, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)

    def after_step():
        schedule.step()
        average.update_parameters(theirs)

    bare_loop(theirs, data, optimizer, seed=Seed(5), epochs=3, after_step=after_step)
    assert same(ours, average.module)
    assert not same(ours, theirs)


def parts():
    """All parts at once, for what must hold with every one of them."""
    return [OneCycle(0.05), ClipNorm(1.0), EMA(0.9), SWA(0.5), EarlyStopping(patience=2)]


def train(folder, data, *, chosen=parts, save_every=0.0, stop_after=math.inf, epochs=6, steps=None):
    """Train with checkpoints at every step; stop as a kill would after so many steps."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    taken = itertools.count(1)
    run = Run(Seed(1), folder=folder, save_every=save_every)
    run.asked_to_stop = lambda: next(taken) >= stop_after
    length = {"steps": steps} if steps else {"epochs": epochs}
    trained = fit(
        model, data, CROSS_ENTROPY, optimizer, **length, batch_size=16, callbacks=chosen(),
        validation=data, metrics={"accuracy": accuracy}, run=run, name="model",
    )
    return trained, run


class Witness(Callback):
    """Writes down a weight after every step."""

    def __init__(self):
        self.seen = []

    def after_step(self, model):
        self.seen.append(next(model.parameters()).flatten()[0].item())

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


def test_what_a_part_saw_outlives_its_training(tmp_path, data):
    """A run with several trainings goes on after the first, and still draws what it saw."""
    first, second = Witness(), Witness()
    train(tmp_path, data, chosen=lambda: [first])
    train(tmp_path, data, chosen=lambda: [second], stop_after=1)  # one step would raise
    assert len(first.seen) > 10
    assert second.seen == first.seen


@pytest.mark.parametrize("stop_after", range(1, 25))
def test_resume_is_exact_after_every_step(tmp_path, data, stop_after):
    whole, run = train(None, data)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, data, stop_after=stop_after)
    again, resumed = train(tmp_path, data)
    assert same(whole.model, again.model)
    assert (whole.history, whole.steps, whole.stopped) == (
        again.history, again.steps, again.stopped)
    assert run.curves == resumed.curves


def test_resume_is_exact_when_interrupted_again_and_again(tmp_path, data):
    whole, _ = train(None, data, steps=23)
    for stop_after in (1, 2, 3, 1, 5, 4):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, data, stop_after=stop_after, steps=23)
    again, _ = train(tmp_path, data, steps=23)
    assert same(whole.model, again.model)
    assert whole.history == again.history


def test_what_has_ended_is_not_trained_again(tmp_path, data):
    whole, _ = train(tmp_path, data)
    again, resumed = train(tmp_path, data, stop_after=1)  # one step would raise
    assert same(whole.model, again.model)
    assert resumed.curves["model"] == whole.history


@pytest.mark.parametrize("torn", [False, True])
def test_a_kill_before_earlier_checkpoints_are_gone_leaves_none_of_them(
    tmp_path, data, monkeypatch, torn
):
    class Killed(BaseException):
        pass

    def killed(folder, keep):
        if keep == 1:  # it has ended
            _, old = next(checkpoints.checkpoints(folder))
            if torn:
                (old / checkpoints.TENSORS).unlink()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "prune", killed)
        with pytest.raises(Killed):
            train(tmp_path, data)
    train(tmp_path, data)
    ((_, left),) = checkpoints.checkpoints(tmp_path / "checkpoints" / "model")
    assert checkpoints.load(left)[1]["finished"]


DAMAGE = {
    "a digit of a past accuracy": (rb'("validation_accuracy", 0\.\d)(\d)', rb"\g<1>x"),
    "an epoch": (rb'("epoch", )(\d)', rb"\g<1>x"),
    "that it has ended": (rb'("finished", )(false)', rb"\g<1>true"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_with_another_past_is_refused_and_the_one_before_is_used(
    tmp_path, data, damage
):
    whole, _ = train(None, data)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, data, stop_after=9)
    *_, (_, newest) = checkpoints.checkpoints(tmp_path / "checkpoints" / "model")
    manifest = newest / checkpoints.MANIFEST
    pattern, changed = DAMAGE[damage]
    found = re.search(pattern, manifest.read_bytes())
    other = b"%d" % (9 - int(found[2])) if found[2].isdigit() else None
    changed = found.expand(changed if other is None else changed.replace(b"x", other))
    manifest.write_bytes(manifest.read_bytes().replace(found[0], changed, 1))
    with pytest.raises(UsageError, match="does not have its check sum"):
        checkpoints.load(newest)
    again, _ = train(tmp_path, data)
    assert same(whole.model, again.model)
    assert whole.history == again.history


def test_a_checkpoint_of_another_run_is_refused(tmp_path, data):
    """Even where its training looks the same: runs differ in what they were asked, and of what."""
    for name, knob in (("one", 1), ("other", 2)):
        (tmp_path / name).mkdir()
        record = {"asked": {"knobs": {"pairs": knob}}, "code": "abc", "environment": {},
                  "command": name, "began": "2026-01-01T00:00:00+00:00", "git": ""}
        (tmp_path / name / "config.json").write_text(json.dumps(record))
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "one", data, stop_after=3)
    shutil.copytree(tmp_path / "one" / "checkpoints", tmp_path / "other" / "checkpoints")
    sentence = r"run.asked.knobs.pairs was 1, now it is 2. Remove .*model if it was copied here"
    with pytest.raises(UsageError, match=sentence):
        train(tmp_path / "other", data)


def test_another_network_of_the_same_shapes_is_refused(tmp_path, data):
    def go(model, stop_after=math.inf):
        run = Run(Seed(1), folder=tmp_path, save_every=0.0)
        taken = itertools.count(1)
        run.asked_to_stop = lambda: next(taken) >= stop_after
        fit(model, data, CROSS_ENTROPY, torch.optim.Adam(model.parameters()), run=run)

    with pytest.raises(KeyboardInterrupt):
        go(nn.Sequential(linear := nn.Linear(4, 2), nn.Tanh()), stop_after=2)
    with pytest.raises(UsageError, match=r"model.modules was .*'Tanh'.*now it is .*'ReLU'"):
        go(nn.Sequential(linear, nn.ReLU()))


def test_a_resumed_training_leaves_the_model_in_the_mode_of_a_whole_one(tmp_path, data):
    modes = [
        [one.training for one in train(folder, data)[0].model.modules()]
        for folder in (None, tmp_path, tmp_path)
    ]
    assert modes[0] == modes[1] == modes[2]


def test_lbfgs_searches_along_its_direction(data):
    """It needs the loss several times a step: one step of it goes further than one gradient."""
    model = nn.Linear(4, 1)
    target = data[0] @ torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    lbfgs = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    fit(model, (data[0], target), Supervised(F.mse_loss), lbfgs, steps=5, batch_size=ROWS)
    assert torch.allclose(model.weight, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), atol=1e-3)


def test_two_players_take_turns(data):
    """One lowers (a - b)^2, the other lowers (b - 3)^2: both end at 3."""
    model = nn.ParameterDict({"a": torch.zeros(1), "b": torch.zeros(1)})
    objectives = {
        "follower": lambda model, batch, rng: (model["a"] - model["b"].detach()).square().sum(),
        "leader": lambda model, batch, rng: (model["b"] - 3).square().sum(),
    }
    optimizers = {
        "follower": torch.optim.SGD([model["a"]], lr=0.2),
        "leader": torch.optim.SGD([model["b"]], lr=0.2),
    }
    trained = fit(model, data[0], objectives, optimizers, epochs=20)
    assert model["a"].item() == pytest.approx(3, abs=0.01)
    assert set(trained.history[0]) == {"epoch", "step", "follower", "leader"}


def test_an_objective_may_set_the_gradients_itself():
    """Without a graph nothing is differentiated: the gradient is taken as it is."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def objective(model, batch, rng):
        model.weight.grad = torch.full((1, 1), -1.0)
        return torch.tensor(0.0)

    fit(model, torch.ones(1, 1), objective, torch.optim.SGD(model.parameters(), lr=1.0), steps=3)
    assert model.weight.item() == 3


def test_reconstruction_needs_no_targets(data):
    model = nn.Linear(4, 4)
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    trained = fit(model, data[0], Reconstruction(F.mse_loss), adam, epochs=60)
    assert trained.history[-1]["loss"] < 0.01 * trained.history[0]["loss"]


def test_early_stopping_ends_with_the_best_weights(data):
    trained, _ = train(None, data, chosen=lambda: [EarlyStopping(patience=2)], epochs=200)
    assert "did not improve for 2 epochs" in trained.stopped
    losses = [row["validation_loss"] for row in trained.history]
    best = evaluate(trained.model, data, {"loss": F.cross_entropy})["loss"]
    assert best == pytest.approx(min(losses), rel=1e-6)
    assert losses.index(min(losses)) == len(losses) - 3


def scripted(numbers, **settings):
    """Let early stopping see numbers of my choice; give its part and the last epoch's reason."""
    part, model = EarlyStopping(**settings), nn.Linear(1, 1)
    part.begin(model, {}, 0)
    for epoch, number in enumerate(numbers):
        nn.init.constant_(model.weight, epoch)
        if reason := part.after_epoch(model, {"validation_loss": number}):
            break
    part.finish(model)
    return epoch, reason, model.weight.item()


def test_early_stopping_counts_only_what_is_better_by_enough():
    losses = [5.0, 4.0, 3.95, 3.91, 3.0, 2.99, 2.98, 2.97]
    assert scripted(losses, patience=3) == (7, "", 7.0)
    epoch, reason, best = scripted(losses, patience=3, min_delta=0.1)
    assert (epoch, best) == (7, 4.0)
    assert reason == "validation_loss did not improve for 3 epochs"
    assert scripted(losses, patience=3, min_delta=0.1, restore_best=False)[2] == 7.0


def test_early_stopping_takes_no_number_for_no_improvement():
    epoch, reason, best = scripted([2.0, 1.0, math.nan, math.inf, math.nan], patience=3)
    assert (epoch, best) == (4, 1.0)
    assert reason.endswith("for 3 epochs, and was not finite in 3 of them")
    epoch, reason, best = scripted([2.0, -math.inf, -math.inf], patience=2)  # nor is it the best
    assert (epoch, best) == (2, 0.0)
    assert reason.endswith("for 2 epochs, and was not finite in 2 of them")


@pytest.mark.parametrize(
    ("numbers", "patience", "told", "best"),
    [
        ([2.0, math.nan, math.inf], 3, 2, 0.0),  # the epochs run out
        ([2.0, math.nan, 3.0], None, 1, 0.0),
        ([math.nan, 2.0, 1.0], 3, 1, 2.0),  # it recovers
        ([math.nan, 2.0, math.nan, math.nan], 2, 1, 1.0),  # a reason tells of the last two
        ([math.nan, math.nan], None, 2, 1.0),  # there is no best: the last weights stay
    ],
)
def test_early_stopping_warns_of_numbers_that_no_reason_tells_of(numbers, patience, told, best):
    sentence = f"validation_loss was not finite in {told} epochs, which count as no improvement"
    with pytest.warns(UserWarning, match=sentence):
        assert scripted(numbers, patience=patience)[2] == best


def test_early_stopping_needs_validation_data(data):
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"got 'validation_loss'. Give fit validation data."):
        fit(model, data, CROSS_ENTROPY, sgd, epochs=2, callbacks=[EarlyStopping()])


def test_a_part_may_change_what_is_made_smaller(data):
    class Doubled(Callback):
        def wrap(self, objective):
            return lambda model, batch, rng: 2 * objective(model, batch, rng)

    found = []
    for chosen, lr in [([Doubled()], 0.1), ([], 0.2)]:
        model = network()
        sgd = torch.optim.SGD(model.parameters(), lr=lr)
        found.append(
            fit(model, data, CROSS_ENTROPY, sgd, epochs=2, batch_size=16, callbacks=chosen,
                validation=data, seed=Seed(5))
        )
    ours, theirs = found
    for one, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert one["loss"] == pytest.approx(2 * other["loss"], rel=1e-4)
        assert one["validation_loss"] == pytest.approx(other["validation_loss"], rel=1e-4)


def test_a_run_may_add_parts_to_every_training(data):
    model, run = network(), Run(Seed(1), more_callbacks=lambda: [EarlyStopping(patience=1)])
    sgd = torch.optim.SGD(model.parameters(), lr=0.5)
    trained = fit(model, data, CROSS_ENTROPY, sgd, epochs=300, validation=data, run=run)
    assert "did not improve" in trained.stopped


def test_one_cycle_gives_no_momentum_to_plain_descent(data):
    for momentum in (0.0, 0.9):
        model = network()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        fit(model, data, CROSS_ENTROPY, sgd, epochs=2, batch_size=16, callbacks=[OneCycle(0.1)])
        assert (sgd.param_groups[0]["momentum"] > 0) == (momentum > 0)


def test_a_part_may_add_a_number_to_the_epoch(data):
    class Counts(Callback):
        def after_epoch(self, model, row):
            row["parameters"] = sum(one.numel() for one in model.parameters())
            return ""

    trained, run = train(None, data, chosen=lambda: [Counts()], epochs=1)
    assert run.curves["model"][0]["parameters"] == trained.history[0]["parameters"] == 74


def test_swa_is_the_mean_of_the_last_epochs(data):
    kept = []

    class Notes(Callback):
        def after_epoch(self, model, row):
            kept.append(model[0].weight.detach().clone())
            return ""

    trained, _ = train(None, data, chosen=lambda: [Notes(), SWA(0.5)], epochs=6)
    mean = torch.stack(kept[2:]).mean(0)
    assert torch.allclose(trained.model[0].weight, mean, atol=1e-6)


def test_a_loss_that_is_not_finite_stops_with_finite_weights(data):
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=1e30)
    with pytest.raises(Diverged, match=r"fit: the loss is \S+ at step \d+ \(epoch 1, batch \d+\)"):
        fit(model, data, CROSS_ENTROPY, sgd, batch_size=8)
    assert all(bool(one.isfinite().all()) for one in model.state_dict().values())


def test_weights_that_a_step_has_spoiled_are_put_back(data):
    model = nn.Linear(4, 2)
    before = model.weight.detach().clone()

    def objective(model, batch, rng):
        if bool(model.weight.isnan().any()):
            return model(batch[0]).sum()
        return model(batch[0]).sum() * 0 + model.weight.sum().sub(model.weight.sum()).sqrt()

    with pytest.raises(Diverged, match="its weights of the beginning of epoch 1"):
        fit(model, data, objective, torch.optim.SGD(model.parameters(), lr=0.1))
    assert torch.equal(model.weight, before)


class Counting(nn.Module):
    """Writes down how many rows it is asked for at once."""

    def __init__(self, model):
        super().__init__()
        self.model, self.rows = model, []

    def forward(self, *inputs):
        self.rows.append(len(inputs[0]))
        return self.model(*inputs)


def learn(model, data, held, loss=F.cross_entropy, **more):
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    return fit(model, data, Supervised(loss), adam, epochs=2, batch_size=8, validation=held,
               seed=Seed(5), **more).history


def test_validation_takes_large_pictures_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(batches, "NUMBERS", 9 * 3 * 32 * 32 * batches.MAPS)  # 9 of these are large
    rng = torch.Generator().manual_seed(3)
    x, y = torch.randn(41, 3, 32, 32, generator=rng), torch.randint(4, (41,), generator=rng)
    model = Counting(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4)))
    metrics = {"accuracy": accuracy, "rmse": lambda o, t: rmse(o[:, 0], t)}
    row = learn(model, (x[:8], y[:8]), (x, y), metrics=metrics)[-1]
    assert max(model.rows) == 9
    with torch.no_grad():
        outputs = model(x)
    assert row["validation_loss"] == pytest.approx(float(F.cross_entropy(outputs, y)), rel=1e-6)
    assert row["validation_accuracy"] == float(accuracy(outputs, y))
    assert row["validation_rmse"] == pytest.approx(float(rmse(outputs[:, 0], y)), rel=1e-6)


def test_validation_of_one_part_has_the_bits_of_one_forward(data):
    model = network()
    row = learn(model, data, data)[-1]
    with torch.no_grad():
        assert row["validation_loss"] == float(F.cross_entropy(model.eval()(data[0]), data[1]))


def test_sequences_are_learned():
    words = torch.randint(7, (30, 5), generator=torch.Generator().manual_seed(3))
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2))

    def loss(outputs, target):
        return F.cross_entropy(outputs.mT, target)

    history = learn(model, (words, words % 2), (words, words % 2), loss,
                    metrics={"accuracy": accuracy})
    assert history[-1]["loss"] < history[0]["loss"]
    assert 0.5 < history[-1]["validation_accuracy"] <= 1


def test_a_model_may_take_several_inputs(tmp_path, data):
    x, y = data
    pairs = (x[:, :2], x[:, 2:]), y

    def go(folder, stop_after=math.inf):
        taken, run = itertools.count(1), Run(Seed(5), folder=folder, save_every=0.0)
        run.asked_to_stop = lambda: next(taken) >= stop_after
        model = Counting(nn.Bilinear(2, 2, 2))
        for one in model.parameters():
            nn.init.constant_(one, 0.1)
        history = learn(model, pairs, pairs, metrics={"accuracy": accuracy}, run=run)
        assert max(model.rows) == ROWS
        assert history[-1]["validation_accuracy"] == evaluate(model, pairs, {"a": accuracy})["a"]
        return history

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, 5)
    assert go(tmp_path) == go(None)
    with pytest.raises(UsageError, match="fit: data must be tensors with the same number of rows"):
        learn(nn.Bilinear(2, 2, 2), ((x[:, :2], x[1:, 2:]), y), pairs)


def test_validation_sees_the_average(data):
    """With an average, what is measured after an epoch is the average and not the weights."""
    seen = []

    class Notes(Callback):
        def after_epoch(self, model, row):
            seen.append(evaluate(model, data, {"loss": F.cross_entropy})["loss"])
            return ""

    trained, _ = train(None, data, chosen=lambda: [EMA(0.9), Notes()], epochs=3)
    assert [row["validation_loss"] for row in trained.history] == pytest.approx(seen, rel=1e-6)
    last = evaluate(trained.model, data, {"loss": F.cross_entropy})["loss"]
    assert last == pytest.approx(seen[-1], rel=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler uses torch.jit
def test_a_compiled_model_learns_the_same(data, monkeypatch, request):
    """What torch makes of it is run as a graph; with --whole, as the C++ that becomes of that."""
    if not request.config.getoption("--whole"):
        graph = functools.partial(torch.compile, backend="aot_eager")
        monkeypatch.setattr(torch, "compile", graph)
    elif not shutil.which("g++"):
        pytest.skip("torch compiles with a C++ compiler")
    ours, theirs = nn.Linear(4, 2), nn.Linear(4, 2)
    theirs.load_state_dict(ours.state_dict())
    for model, compiled in ((ours, True), (theirs, False)):
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        fit(model, data, CROSS_ENTROPY, sgd, epochs=2, batch_size=25, compile=compiled)
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-6)


def test_global_generators_are_left_as_they_were(data):
    model = network()
    before = torch.get_rng_state()
    fit(model, data, CROSS_ENTROPY, torch.optim.SGD(model.parameters(), lr=0.1), epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_another_training_is_refused(tmp_path, data):
    """What was saved is of one training; nothing that changes it may go on from there."""
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, data, stop_after=3)
    x, y = data
    changes = {
        r"data was": lambda: train(tmp_path, (x + 1, y)),
        r"steps was 24, now it is 8": lambda: train(tmp_path, data, epochs=2),
        r"callbacks was": lambda: train(tmp_path, data, chosen=lambda: [ClipNorm(2.0)]),
    }
    for sentence, change in changes.items():
        with pytest.raises(UsageError, match=f"must be of the same training; {sentence}"):
            change()


def test_bad_input_gets_a_sentence(data):
    model = nn.Linear(4, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data
    with pytest.raises(UsageError, match="fit: data must be tensors with the same number of rows"):
        fit(model, (x, y[:-1]), CROSS_ENTROPY, sgd)
    with pytest.raises(UsageError, match="epochs and steps must not both be given"):
        fit(model, data, CROSS_ENTROPY, sgd, epochs=1, steps=1)
    with pytest.raises(UsageError, match="optimizer must be a mapping with the names"):
        fit(model, data, {"a": CROSS_ENTROPY}, sgd)
    with pytest.raises(UsageError, match=r"fit: epochs must be an integer in \[1, inf\)"):
        fit(model, data, CROSS_ENTROPY, sgd, epochs=0)
    with pytest.raises(UsageError, match="EarlyStopping: metric must be one of epoch, step, loss"):
        fit(model, data, CROSS_ENTROPY, sgd, callbacks=[EarlyStopping("validation_loss")])
    run = Run()
    fit(model, data, CROSS_ENTROPY, sgd, epochs=1, run=run, name="one")
    with pytest.raises(UsageError, match="fit: name must be new"):
        fit(model, data, CROSS_ENTROPY, sgd, epochs=1, run=run, name="one")
