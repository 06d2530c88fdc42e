"""Races of the machinery: the training loop, the command line, and the checking of claims."""

import json
import os
import re
import tempfile
from pathlib import Path

import torch
from torch import nn

from benchmarks._loops import SAME_STEPS, Batches, compare_loops, weights
from principia.lab.course import catalog
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.environment import cores
from principia.lab.evidence import equal_to_rounding
from principia.lab.racing import command, race, within
from principia.networks import MLP


def network(x, width):
    return MLP([x.shape[1], width, 10], rng=torch.Generator().manual_seed(0))


def by_skorch(x, y, width, epochs, batch_size):
    import skorch

    loader = Batches(x, y, batch_size)
    net = skorch.NeuralNet(
        network(x, width), criterion=nn.CrossEntropyLoss, optimizer=torch.optim.SGD, lr=0.01,
        optimizer__momentum=0.9, max_epochs=epochs, train_split=None, callbacks=None, verbose=0,
        batch_size=batch_size, iterator_train=lambda *_, **__: loader,
    )
    net.set_params(callbacks__print_log=None)
    net.fit(x, y)
    return weights(net.module_)


def by_keras(x, y, width, epochs, batch_size):
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    loader, start = Batches(x, y, batch_size), network(x, width)
    model = keras.Sequential([
        keras.Input((x.shape[1],)), keras.layers.Dense(width, activation="relu"),
        keras.layers.Dense(10),
    ])
    model.set_weights([one.detach().numpy().T for one in start.parameters()])
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.01, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

    def batches():
        while True:
            yield from loader

    model.fit(batches(), steps_per_epoch=len(loader), epochs=epochs, verbose=0,
              shuffle=False)
    return torch.cat([torch.from_numpy(one.T.copy()).flatten() for one in model.get_weights()])


@race(hidden_units=(32, 128, 512), agree=SAME_STEPS)
def fit_digits(hidden_units):
    """Train an MLP on the 8 x 8 digits: 10 epochs, batches of 64, SGD with momentum."""
    x, y, _, _ = digits()
    return x.flatten(1), y, hidden_units, 10, 64


@race(rows=(6_000, 20_000, 60_000), agree=SAME_STEPS)
def fit_fashion(rows):
    """Train an MLP with 128 hidden units on Fashion-MNIST: 1 epoch, batches of 128, momentum."""
    x, y = fashion("train")
    return x[:rows].flatten(1), y[:rows], 128, 1, 128


for loop in (fit_digits, fit_fashion):
    compare_loops(loop, network)
    loop.peer("skorch", package="skorch")(by_skorch)
    loop.peer("Keras on torch", package="keras", fresh=True)(by_keras)  # it sets torch up its way


def both_answered(ours, theirs):
    return equal_to_rounding(
        [ours, theirs], [1.0, 1.0], why="each printed all that it was asked for"
    )


@race(command=(1,), agree=both_answered)
def start_help(command):
    """Start the command line and print its help, beside what any program with torch pays first."""
    return (("check", "run", "bench"),)


@race(command=(1,), agree=both_answered)
def start_ls(command):
    """Start the command line and list all pages, beside what any program with torch pays first."""
    return ([page.key for chapter in catalog.chapters() for page in chapter.pages],)


@start_help.ours
def _(words):
    text = command("-m", "principia", "--help")
    return all(word in text for word in words)


@start_ls.ours
def _(keys):
    text = command("-m", "principia", "ls")
    return all(key in text for key in keys)


@start_help.peer("python -c 'import torch'", package="torch")
@start_ls.peer("python -c 'import torch'", package="torch")
def _(_):
    return torch.__version__ in command("-c", "import torch; print(torch.__version__)")


PAGE, COURSE = (
    [f"{page.key}:{name}" for page, name in catalog.select(keys)]
    for keys in (["mathematics/group"], [one.name for one in catalog.chapters()])
)


@race(claims=(len(PAGE), len(COURSE)), agree=within(0, why="a claim passes or it does not"))
def check_course(claims):
    """Check claims from a cold start: of a page in one process, of the course with one a core."""
    return (PAGE if claims == len(PAGE) else COURSE,)


@check_course.ours
def _(keys):
    jobs = 1 if keys == PAGE else cores()
    found = json.loads(command("-m", "principia", "check", *keys, "--json", "--jobs", str(jobs)))
    return [one["passed"] for one in found["claims"]]


TESTS = """
import pytest
from principia.lab.course.catalog import page

@pytest.mark.parametrize("key", {keys})
def test_claim(key):
    place, _, name = key.partition(":")
    assert page(place).claim(name).check([0]).passed
"""


@check_course.peer("pytest, a test a claim", package="pytest", up_to=len(PAGE))
def _(keys):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "test_claims.py"
        file.write_text(TESTS.format(keys=keys))
        said = command("-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", folder,
                       str(file), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    passed = re.findall(r"^PASSED .*test_claim\[(.*)\]$", said, re.MULTILINE)
    return [key in passed for key in keys]
