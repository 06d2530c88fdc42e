r"""Learners: how a page learns from any table, `principia run PAGE --data mine.csv --target y`.

A page whose model is a module declares how to build it with `@learner`; scikit-learn estimators
need no declaration. A learner whose first argument is the `shape` (C, H, W) of a picture learns
from a folder with one subfolder a class, `principia run PAGE --data FOLDER`. Training, splitting,
scaling and measuring are the same for all of them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from torch import Tensor, nn

from principia.lab.course.catalog import Page
from principia.lab.course.rooms import page_key
from principia.lab.data.own_pictures import PictureExamples, PictureSchema
from principia.lab.data.schema import Examples, Schema
from principia.lab.figures import confusion, images, predicted
from principia.lab.params import (
    Knob,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    UsageError,
    knobs_of,
    settings,
)
from principia.lab.runs.experiments import Run, at_least_goal, at_most_goal
from principia.lab.training import EarlyStopping, OneCycle, Supervised, accuracy, fit
from principia.lab.training.estimators import fit_quietly
from principia.lab.training.metrics import outputs_of

__all__ = [
    "Learner", "Predictions", "knobs_for", "learn", "learner", "learner_of", "picture_learner",
    "predictions", "trains",
]

MISTAKES = 15  # pictures that are drawn


@final
@dataclass(frozen=True)
class Learner:
    """A function that builds a model for so many inputs and outputs, declared on its page.

    What learns pictures takes their `shape` in place of `inputs`.
    """

    function: Callable[..., nn.Module | BaseEstimator]

    @property
    def builds_estimator(self) -> bool:
        """Whether the model is a scikit-learn estimator, which trains itself."""
        made = typing.get_type_hints(self.function)["return"]
        return inspect.isclass(made) and issubclass(made, BaseEstimator)

    @property
    def takes_pictures(self) -> bool:
        """Whether it learns pictures, not rows of a table."""
        return "shape" in inspect.signature(self.function).parameters

    @property
    def plan(self) -> Mapping[str, Knob]:
        """What can be turned in its training."""
        return _OF_PICTURES if self.takes_pictures else _TRAINING

    @property
    def page(self) -> str:
        """The key of the page that declares it."""
        return page_key(self.function.__module__)

    @property
    def statement(self) -> str:
        """What it builds, in words."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """What can be turned: the model's knobs and those of the training."""
        own = {name: one for name, one in knobs_of(self.function).items() if name not in _GIVEN}
        return own if self.builds_estimator else {**own, **self.plan}


_GIVEN = ("inputs", "shape", "outputs", "rng")


def learner(function: Callable[..., nn.Module | BaseEstimator]) -> Learner:
    """Declare how the page's model is built: `(inputs, outputs, rng, *, knobs) -> model`."""
    return Learner(function)


def picture_learner(page: Page) -> Learner:
    """Find what learns pictures on a page."""
    for one in _declared(page):
        if one.takes_pictures:
            return one
    raise UsageError(
        f"run: {page.key} does not learn from pictures. Name a table, or try convolution/resnet."
    )


def _declared(page: Page) -> list[Learner]:
    rooms = vars(page.load("experiments")).values()
    return [one for one in rooms if isinstance(one, Learner) and one.page == page.key]


def learner_of(page: Page, schema: Schema | PictureSchema) -> Learner | type[BaseEstimator]:
    """Find what learns such data on a page: a declared learner, or the first fitting estimator."""
    if isinstance(schema, PictureSchema):
        return picture_learner(page)
    declared = [one for one in _declared(page) if not one.takes_pictures]
    kinds: list[Any] = [one.thing for one in page.components() if _is_estimator(one.thing)]
    kinds = declared or kinds
    right = is_classifier if schema.task == "classification" else is_regressor
    for kind in kinds:
        if isinstance(kind, Learner) and not kind.builds_estimator:
            return kind  # a network learns either
        if right(kind.function(1, 1, torch.Generator()) if isinstance(kind, Learner) else kind()):
            return kind
    if kinds:
        other = "regression" if schema.task == "classification" else "classification"
        raise UsageError(
            f"run: {page.key} learns {other}; the target asks for {schema.task}. Name another "
            "page, such as networks/mlp."
        )
    raise UsageError(
        f"run: {page.key} does not learn from a table. Leave --data out, or try networks/mlp."
    )


def knobs_for(kind: Learner | type[BaseEstimator]) -> Mapping[str, Knob]:
    """Give what can be turned in a learner or an estimator."""
    return kind.knobs if isinstance(kind, Learner) else knobs_of(kind.__init__)


def trains(kind: Learner | type[BaseEstimator]) -> bool:
    """Whether it is trained by the training loop; scikit-learn's estimators train themselves."""
    return isinstance(kind, Learner) and not kind.builds_estimator


def _is_estimator(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, BaseEstimator)


def learn(
    run: Run, page: Page, ready: Examples | PictureExamples, knobs: Mapping[str, Any]
) -> dict[str, Range]:
    """Train what the page learns with, measure it beside a guess, and draw it; return the goals."""
    schema = ready.schema
    kind = learner_of(page, schema)
    chosen = settings(page.key, knobs_for(kind), knobs)
    if trains(kind):
        model = _train_module(run, kind, ready, chosen)
    else:
        model = _fit_estimator(run, kind, ready, chosen)
    run.keep(model, example=ready.x_test[:1])
    answered = predictions(model, schema, ready.x_test)
    found = answered.answers
    if schema.task == "classification":
        right = float((found == ready.y_test).double().mean())
        guess = float((ready.y_test == ready.y.mode().values).double().mean())
        run.record(test_accuracy=right, accuracy_of_the_commonest_class=guess)
        names = [str(one) for one in schema.target.values]
        run.figure("confusion", confusion(ready.y_test, found, names))
        if isinstance(ready, PictureExamples):
            _draw_mistakes(run, ready, answered, names)
        return {"test_accuracy": at_least_goal(guess)}
    error, spread = (
        float((one - ready.y_test).double().square().mean().sqrt())
        for one in (found, ready.y.mean())
    )
    run.record(test_rmse=error, rmse_of_the_mean=spread)
    run.figure("predicted", predicted(ready.y_test, found, schema.target.name))
    return {"test_rmse": at_most_goal(spread)}


def _draw_mistakes(
    run: Run, ready: PictureExamples, answered: Predictions, names: list[str]
) -> None:
    """Draw the test pictures whose class was missed, those first of which the model was surest."""
    found = answered.answers
    missed = (found != ready.y_test).nonzero()[:, 0]
    if not len(missed):
        return
    worst = missed[answered.sure[missed].argsort(descending=True)][:MISTAKES].tolist()
    shown = [ready.x_test[one].permute(1, 2, 0).squeeze(-1) for one in worst]
    titles = [f"{names[ready.y_test[one]]}, not {names[found[one]]}" for one in worst]
    run.figure("mistakes", images(shown, titles))


@final
@dataclass(frozen=True)
class Predictions:
    """Classes (their places) or numbers, and the probability that a network gives each class.

    Numbers and the answers of an estimator have none.
    """

    answers: Tensor
    sure: Tensor


def predictions(model: Any, schema: Schema | PictureSchema, x: Tensor) -> Predictions:
    """Predict classes, or numbers in the units of the table, for inputs."""
    if not isinstance(model, nn.Module):
        found = torch.as_tensor(model.predict(x.double().numpy()))
        found = found.long() if schema.task == "classification" else found.float()
        return Predictions(found, torch.empty(0))
    outputs = outputs_of(model, x.to(next(model.parameters()).dtype)).cpu()
    if schema.task == "classification":
        sure, found = outputs.softmax(dim=1).max(dim=1)
        return Predictions(found, sure)
    numbers = outputs[:, 0].float() * schema.target.scale + schema.target.mean
    return Predictions(numbers, torch.empty(0))


def _train_module(
    run: Run, kind: Any, ready: Examples | PictureExamples, chosen: dict[str, Any]
) -> nn.Module:
    """Train a module with AdamW in one cycle; a tenth of the rows chooses the best weights."""
    own = {name: value for name, value in chosen.items() if name not in kind.plan}
    plan = {name: chosen.get(name, one.default) for name, one in kind.plan.items()}
    schema = ready.schema
    model = kind.function(schema.takes, schema.outputs, run.seed.child("init").torch(), **own)
    loss, y, metrics = F.cross_entropy, ready.y, {"accuracy": accuracy}
    if schema.task == "regression":
        loss, metrics = F.mse_loss, {}
        y = ((ready.y - schema.target.mean) / schema.target.scale)[:, None]
    held = max(1, len(y) // 10)
    order = torch.randperm(len(y), generator=run.seed.child("held out").torch())
    rest, few = order[held:], order[:held]
    if kind.takes_pictures and len(rest) % plan["batch_size"] == 1:
        rest = rest[1:]  # batch normalization cannot take a last batch of one
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=plan["lr"], weight_decay=plan["weight_decay"]
    )
    fit(
        model, (ready.x[rest], y[rest]), Supervised(loss), optimizer, epochs=plan["epochs"],
        batch_size=plan["batch_size"], validation=(ready.x[few], y[few]), metrics=metrics,
        callbacks=[OneCycle(plan["lr"]), EarlyStopping(patience=None)], run=run, name="model",
    )
    return model


def _plan(
    *, epochs: PositiveInt = 60, batch_size: PositiveInt = 32, lr: PositiveFloat = 0.01,
    weight_decay: NonNegativeFloat = 0.01,
) -> None:
    """Name what can be turned in every training of a module.

    Args:
        epochs: How often to go through the training rows.
        batch_size: Rows of a step.
        lr: Largest learning rate of the cycle.
        weight_decay: How strongly weights are pulled to 0.
    """


def _plan_of_pictures(
    *, side: Annotated[int, Range(4, 512)] | None = None, epochs: PositiveInt = 20,
    batch_size: Annotated[int, Range(2, 4096)] = 32, lr: PositiveFloat = 3e-3,
    weight_decay: NonNegativeFloat = 0.01,
) -> None:
    """Name what can be turned in every training on pictures.

    Args:
        side: Pixels of a side, to which the middle of every picture is brought; by default the
            smallest side of all pictures, from 8 to 64.
        epochs: How often to go through the training pictures.
        batch_size: Pictures of a step.
        lr: Largest learning rate of the cycle.
        weight_decay: How strongly weights are pulled to 0.
    """


_TRAINING = dict(knobs_of(_plan))
_OF_PICTURES = dict(knobs_of(_plan_of_pictures))


def _fit_estimator(
    run: Run, kind: Any, ready: Examples | PictureExamples, chosen: dict[str, Any]
) -> Any:
    if isinstance(kind, Learner):
        rng, schema = run.seed.child("init").torch(), ready.schema
        estimator: Any = kind.function(schema.takes, schema.outputs, rng, **chosen)
    else:
        estimator = kind(**chosen)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=int(run.seed))
    return fit_quietly(estimator, ready.x.double().numpy(), ready.y.numpy())
