"""Everything that determines a playground, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, final

from principia.lab.params import Range, SeedNumber, UsageError, knobs_of, settings, usage_error
from principia.lab.playground.registry import choices, described
from principia.lab.playground.sources import MOST_POINTS, OWNER, Data, Fields, need_one_of

__all__ = ["Setup", "default_setup"]


@final
@dataclass(frozen=True)
class Setup(Fields):
    """Everything that determines a playground; two that are equal do the same to the bit.

    Args:
        data: Where the points come from.
        page: Which model of the catalog learns.
        knobs: How the model is built; what is not named is as the page has it.
        optimizer: What takes the steps.
        lr: Learning rate.
        batch_size: Rows of a step.
        initialization: How weights begin.
        regularization: What large weights cost.
        strength: How much they cost.
        seed: Where everything random comes from.

    Example:
        >>> Setup.from_json({"data": "moons", "lr": -1})
        Traceback (most recent call last):
        principia.lab.params.errors.UsageError: Playground: lr must be in (0, 1000]; got -1.
    """

    data: Data = field(default_factory=Data)
    page: str = "networks/mlp"
    knobs: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "Adam"
    lr: Annotated[float, Range(0, 1000, open="low")] = 0.03
    batch_size: Annotated[int, Range(1, MOST_POINTS)] = 32
    initialization: str = "as declared"
    regularization: str = "none"
    strength: Annotated[float, Range(0, 100)] = 0.0
    seed: SeedNumber = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        known = choices()
        need_one_of("page", self.page, known.models)
        for name in ("optimizer", "initialization", "regularization"):
            need_one_of(name, getattr(self, name), getattr(known, f"{name}s"))
        if not isinstance(self.knobs, Mapping):
            raise usage_error(OWNER, "knobs", "an object with names and values", self.knobs)
        # a page may learn its tasks in different ways; which one it is, only the data tells
        refused = None
        for way in known.models[self.page].tasks.values():
            try:
                object.__setattr__(self, "knobs", settings(self.page, way.knobs, self.knobs))
                return
            except UsageError as error:
                refused = refused or error
        raise refused or UsageError(f"{OWNER}: {self.page} learns nothing here.")

    @classmethod
    def from_json(cls, plain: Any) -> Setup:
        """Take a setup from plain data; what is missing has its default."""
        try:
            taken = cls.taken("the setup", plain)
            if "data" in taken:
                taken["data"] = Data.from_json(taken["data"])
            return cls(**taken)
        except RecursionError:  # an error cannot even show the value
            raise UsageError(f"{OWNER}: the setup is nested too deeply.") from None

    def to_json(self) -> dict[str, Any]:
        """Give the setup as plain data."""
        return asdict(self)

    @classmethod
    def form(cls) -> list[dict[str, Any]]:
        """Describe the numbers that can be turned, beside those of the model, as plain data."""
        knobs = knobs_of(cls.__init__).values()
        return described(one for one in knobs if isinstance(one.domain, Range))


def default_setup() -> Setup:
    """Give a setup that separates the two spirals within some hundred steps."""
    return Setup(knobs={"hidden": (16, 16), "activation": "tanh"})
