"""What learns in a playground: a module, step by step, or an estimator, at once.

Both answer alike: probabilities of the classes, or values in the units of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from principia.lab.course import catalog
from principia.lab.data.schema import Examples
from principia.lab.params import usage_error
from principia.lab.playground.pictures import gradients_of, hidden_layers, plain
from principia.lab.playground.recipes import INITIALIZATIONS, PENALTIES
from principia.lab.playground.registry import choices
from principia.lab.playground.setups import Setup
from principia.lab.playground.sources import OWNER
from principia.lab.playground.stepping import CPU, Stepper
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly
from principia.lab.training.generators import seeded_generators
from principia.lab.training.learners import Learner, learner_of

__all__ = ["Estimator", "Network"]

MOST_PARAMETERS = 200_000  # what still moves while one watches
LEAST_CHANCE = 1e-12  # of a class in a logarithm: an estimator may be sure and wrong


@final
class Network:
    """A module that learns by steps."""

    stepwise, trained = True, True

    def __init__(self, setup: Setup, ready: Examples, knobs: dict[str, Any]) -> None:
        schema, seed = ready.schema, Seed(setup.seed)
        kind: Any = learner_of(catalog.page(setup.page), schema)
        with seeded_generators(seed.child("build"), CPU):  # for what is drawn without the generator
            model: nn.Module = kind.function(
                schema.inputs, schema.outputs, seed.child("init").torch(), **knobs
            )
        size = sum(one.numel() for one in model.parameters())
        if size > MOST_PARAMETERS:
            domain = f"a network of at most {MOST_PARAMETERS:,} parameters here"
            hint = "Turn its knobs down; the command line has no such limit."
            raise usage_error(OWNER, setup.page, domain, size, hint)
        INITIALIZATIONS[setup.initialization].begin(model, seed.child("initialization").torch())
        self.ready, self.target = ready, schema.target
        self.classification = schema.task == "classification"
        self.loss = F.cross_entropy if self.classification else F.mse_loss
        self.y, self.y_test = self._scaled(ready.y), self._scaled(ready.y_test)
        optimizer = choices().optimizers[setup.optimizer].make(model.parameters(), setup.lr)
        penalty = PENALTIES[setup.regularization]
        self.steps = Stepper(
            model, (ready.x, self.y), self.loss, optimizer, batch_size=setup.batch_size, seed=seed,
            penalty=(penalty, setup.strength) if penalty and setup.strength else None,
        )
        self.model, self.advance, self.back = model, self.steps.advance, self.steps.back

    def _scaled(self, y: Tensor) -> Tensor:
        """Give the targets as the loss wants them; a number in standard deviations."""
        if self.classification:
            return y
        return ((y - self.target.mean) / (self.target.scale or 1.0))[:, None]

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return self.steps.step

    @property
    def epoch(self) -> int:
        """How often it went through all rows."""
        return self.step // self.steps.steps_per_epoch

    @property
    def diverged(self) -> str:
        """Why it takes no more steps, if so."""
        return self.steps.diverged

    def answers(self, x: Tensor) -> Tensor:
        """Give probabilities (N, K), or values (N,) in the table's units."""
        self.model.eval()
        return self._answers(self.model(x))

    def _answers(self, outputs: Tensor) -> Tensor:
        if self.classification:
            return outputs.softmax(1)
        return outputs[:, 0].double() * (self.target.scale or 1.0) + self.target.mean

    def layers(self, x: Tensor) -> list[tuple[str, Tensor]]:
        """Give what the units of each hidden layer answer."""
        self.model.eval()
        return hidden_layers(self.model, x)

    def measured(self) -> dict[str, Any]:
        """Measure losses, answers and gradients over all rows, in evaluation mode."""
        ready = self.ready
        self.model.eval()
        gradients, outputs, loss = gradients_of(self.model, self.loss, ready.x, self.y)
        outputs_test = self.model(ready.x_test)
        test_loss = self.loss(outputs_test, self.y_test).item()
        return {
            "train_loss": plain(loss), "test_loss": plain(test_loss), "gradients": gradients,
            "price": plain(self.steps.price),
            **_score("train", self._answers(outputs), ready.y, self.classification),
            **_score("test", self._answers(outputs_test), ready.y_test, self.classification),
        }


@final
class Estimator:
    """An estimator of scikit-learn, which learns everything in one step."""

    stepwise = False

    def __init__(self, setup: Setup, ready: Examples, knobs: dict[str, Any]) -> None:
        self.setup, self.ready, self.knobs = setup, ready, knobs
        self.kind = learner_of(catalog.page(setup.page), ready.schema)
        self.classification = ready.schema.task == "classification"
        self.back(1)

    def back(self, steps: int) -> None:
        """Forget everything."""
        self.model, self.diverged = self._new(), ""
        self.step = self.epoch = 0

    @property
    def trained(self) -> bool:
        """Whether it has learned."""
        return self.step > 0

    def _new(self) -> Any:
        schema, seed = self.ready.schema, Seed(self.setup.seed)
        if isinstance(self.kind, Learner):
            rng = seed.child("init").torch()
            model: Any = self.kind.function(schema.inputs, schema.outputs, rng, **self.knobs)
        else:
            model = self.kind(**self.knobs)
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=int(seed))
        return model

    def advance(self, steps: int) -> None:
        """Learn, if it has not; what cannot be learned is told in a sentence."""
        if self.trained or self.diverged:
            return
        x, y = self.ready.x.double().numpy(), self.ready.y.numpy()
        try:
            with np.errstate(all="ignore"), seeded_generators(Seed(self.setup.seed), CPU):
                fit_quietly(self.model, x, y)
                finite = bool(self.answers(self.ready.x).isfinite().all())
        except ValueError as error:  # data that it cannot learn, such as classes that overlap
            self.model, self.diverged = self._new(), " ".join(str(error).split())
            return
        if not finite:
            self.model = self._new()
            self.diverged = "What it predicts is no longer finite. Turn its knobs down."
            return
        self.step = self.epoch = 1

    def answers(self, x: Tensor) -> Tensor:
        """Give probabilities (N, K), 0 and 1 if it knows none, or values (N,) of the table."""
        inputs = x.double().numpy()
        if not self.classification:
            return torch.as_tensor(np.asarray(self.model.predict(inputs), float).reshape(-1))
        classes = self.ready.schema.outputs
        estimate = self._estimate_chances
        if estimate is None:
            places = torch.as_tensor(np.asarray(self.model.predict(inputs)).astype(int))
            return F.one_hot(places, classes).double()
        chances = torch.zeros(len(x), classes, dtype=torch.float64)  # a class may have no row
        known = torch.as_tensor(np.asarray(self.model.classes_).astype(int))
        chances[:, known] = torch.as_tensor(np.asarray(estimate(inputs), float))
        return chances

    @property
    def _estimate_chances(self) -> Callable[[Any], Any] | None:
        return getattr(self.model, "predict_proba", None)

    def layers(self, x: Tensor) -> list[tuple[str, Tensor]]:
        """Give none: what is inside an estimator is its own."""
        return []

    def measured(self) -> dict[str, Any]:
        """Measure losses and answers over all rows."""
        ready, found = self.ready, {}
        for part, x, y in (("train", ready.x, ready.y), ("test", ready.x_test, ready.y_test)):
            answers = self.answers(x)
            found |= _score(part, answers, y, self.classification)
            if not self.classification:
                scale = ready.schema.target.scale or 1.0
                loss = ((answers - y.double()) / scale).square().mean()
            elif self._estimate_chances is not None:
                loss = F.nll_loss(answers.clamp_min(LEAST_CHANCE).log(), y)
            else:
                continue  # hard answers have no cross-entropy
            found[f"{part}_loss"] = plain(loss.item())
        return found


def _score(part: str, answers: Tensor, y: Tensor, classification: bool) -> dict[str, float | None]:
    if classification:
        return {f"{part}_accuracy": (answers.argmax(1) == y).double().mean().item()}
    error = (answers - y.double()).square().mean().sqrt().item()
    return {f"{part}_rmse": plain(error)}
