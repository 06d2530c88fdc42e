"""The playground itself: data, a model and its optimizer, moved by steps and seen in frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, final

import torch

from principia.lab.params import PositiveInt, Range, UsageError, checked, settings
from principia.lab.playground.models import Estimator, Network
from principia.lab.playground.pictures import Plane, packed, plain, unit_maps, value_range
from principia.lab.playground.registry import choices
from principia.lab.playground.setups import Setup
from principia.lab.playground.sources import OWNER
from principia.lab.playground.stepping import CPU
from principia.lab.seeds import Seed
from principia.lab.training.generators import seeded_generators

__all__ = ["Playground"]

GRID, UNIT_GRID = 48, 20  # points of a side: of the surface, and of the map of a unit
CURVE, UNIT_CURVE = 200, 50  # the same where there is one feature
MOST_STEPS = 10_000  # at a time: some seconds


@final
class Playground:
    """Lets a model learn points of the plane, forwards and backwards, and shows what it does.

    A module takes steps like `fit`; an estimator learns at once, which is one step.

    Example:
        >>> from principia.lab.playground import default_setup
        >>> playground = Playground(default_setup())
        >>> playground.advance(300)
        >>> frame = playground.frame()
        >>> frame["step"], frame["train_accuracy"] >= 0.97, len(frame["layers"])
        (300, True, 2)
        >>> playground.back(1000)
        >>> playground.frame()["step"]
        0
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, seed = setup, Seed(setup.seed)
        self.ready, self.note = setup.data.load(seed)
        self.schema = self.ready.schema
        model, task = choices().models[setup.page], self.schema.task
        if task not in model.tasks:
            raise UsageError(
                f"{OWNER}: {setup.page} learns {' and '.join(model.tasks)}; the data asks for "
                f"{task}. Choose another model, or other data."
            )
        way = model.tasks[task]
        knobs = settings(setup.page, way.knobs, setup.knobs)
        self._plane = Plane.around(self.ready)
        self._range = value_range(self.ready) if task == "regression" else (0.0, 1.0)
        kind = Network if way.stepwise else Estimator
        self._learner: Network | Estimator = kind(setup, self.ready, knobs)

    @property
    def step(self) -> int:
        """How many steps were taken."""
        return self._learner.step

    @property
    def model(self) -> Any:
        """The module in its present state, or the estimator."""
        return self._learner.model

    @checked
    def advance(self, steps: Annotated[int, Range(1, MOST_STEPS)]) -> None:
        """Take steps; after the loss was not finite once, nothing moves until it goes back."""
        self._learner.advance(steps)

    @checked
    def back(self, steps: PositiveInt) -> None:
        """Go back to exactly what was so many steps ago, at most to the beginning."""
        self._learner.back(steps)

    def look_at(self, bounds: Sequence[float]) -> None:
        """Show this part of the plane instead, so that it stands still while somebody draws.

        Args:
            bounds: Its ends x0, x1, y0, y1. A line of one feature stays as it is.
        """
        if len(self.schema.features) == 2:
            self._plane = replace(self._plane, bounds=tuple(bounds))

    def points(self) -> dict[str, Any]:
        """Give the points in the table's units, each row with its class or its value last."""
        ready = self.ready
        named = {"train": (ready.x, ready.y), "test": (ready.x_test, ready.y_test)}
        scale, mean = (
            torch.tensor([getattr(one, what) for one in self.schema.features], dtype=torch.float64)
            for what in ("scale", "mean")
        )
        return {
            name: [
                [*place, value]
                for place, value in zip(
                    (x.double() * scale + mean).tolist(), y.tolist(), strict=True
                )
            ]
            for name, (x, y) in named.items()
        }

    @torch.no_grad()
    def frame(self, units: bool = True) -> dict[str, Any]:
        """Show the present state as plain data, with maps of the hidden units or without.

        Numbers that are not finite are none.
        """
        learner, schema = self._learner, self.schema
        classification = schema.task == "classification"
        values = schema.target.values
        shown: dict[str, Any] = {
            "step": learner.step, "epoch": learner.epoch, "trained": learner.trained,
            "stepwise": learner.stepwise, "task": schema.task,
            "classes": [f"{one:g}" if isinstance(one, float) else str(one) for one in values],
            "features": [one.name for one in schema.features], "target": schema.target.name,
            "bounds": list((*self._plane.bounds, *self._range)[:4]), "range": list(self._range),
            "diverged": learner.diverged, "note": self.note,
            "surface": None, "curve": None, "layers": [], "gradients": [], "price": None,
        }
        measure = "accuracy" if classification else "rmse"
        for part in ("train", "test"):
            shown |= {f"{part}_loss": None, f"{part}_{measure}": None}
        if not learner.trained:
            return shown
        with seeded_generators(Seed(self.setup.seed).child("frame"), CPU):
            shown |= learner.measured()
            shown |= self._surface()
            if units:
                plane = len(schema.features) == 2
                shape = [UNIT_GRID, UNIT_GRID] if plane else [1, UNIT_CURVE]
                found = learner.layers(self._plane.lattice(shape[1]))
                shown["layers"] = [unit_maps(name, one, shape) for name, one in found]
        return shown

    def _surface(self) -> dict[str, Any]:
        answers = self._learner.answers
        if len(self.schema.features) == 2:
            found = answers(self._plane.lattice(GRID))  # (GRID², K) or (GRID²,)
            return {"surface": packed(found.movedim(-1, 0), *self._range)}
        x, found = self._plane.ticks(0, CURVE).tolist(), answers(self._plane.lattice(CURVE))
        if self.schema.task == "regression":
            return {"curve": {"x": x, "y": [plain(one) for one in found.tolist()]}}
        chances = found.nan_to_num().T.tolist()
        return {"curve": {"x": x, "probabilities": chances}}
