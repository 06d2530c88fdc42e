r"""Local gradients of layers: what it reaches on data."""

from collections.abc import Mapping
from typing import Annotated, Any, final

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.gradients.layers import LAYERS, LayeredClassifier, check
from principia.lab.data.handwriting import handwriting
from principia.lab.figures import VERDICT_COLORS
from principia.lab.params import PositiveFloat, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, OneCycle, accuracy, fit


@experiment(
    reaches={"mnist_accuracy": at_least_goal(0.97), "gradient_difference": at_most_goal(1e-6)},
    floor={"digits_accuracy": at_least_goal(0.93), "gradient_difference": at_most_goal(1e-6)},
    source="LeCun, Bottou, Bengio and Haffner 1998, fig. 9: 3.05 % error with 300 and 100 hidden "
    "units; the goal here is 3 % with 128 and 128",
)
def layer_by_layer(
    run: Run, *, epochs: Annotated[int, Range(1, 50)] | None = None, lr: PositiveFloat = 0.005
) -> None:
    """Reads digits by rows of the table alone; torch's own gradients are compared at every step."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1).double(), x_test.flatten(1).double()
    net = LayeredClassifier(
        x.shape[1], width=128 if run.full else 64, rng=run.seed.child("init").torch()
    ).double()
    row = fit(
        net, (x, y), _loss, torch.optim.Adam(net.parameters()),
        epochs=epochs or (5 if run.full else 12),
        batch_size=128 if run.full else 32, callbacks=[OneCycle(lr), _Comparison()],
        validation=(x_test, y_test), metrics={"accuracy": accuracy},
        seed=run.seed.child("batches"), run=run, name="layers",
    ).history[-1]
    run.keep(net)
    name = "mnist_accuracy" if run.full else "digits_accuracy"
    run.record(**{name: row["validation_accuracy"]}, gradient_difference=row["difference"])
    run.figure("layers", _table(run.seed))


def _loss(model: Any, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
    x, y = batch
    return LAYERS["softmax_cross_entropy"].apply(model(x), y).mean()


@final
class _Comparison(Callback):
    """Computes each gradient a second time by torch's own rules; keeps the largest difference."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._batch: Any = ()

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        self._batch = batch
        return batch

    def before_step(self, model: nn.Module) -> None:
        x, y = self._batch
        weights: Any = [*model.parameters()]
        exact = torch.autograd.grad(F.cross_entropy(model(x, by="reference"), y), weights)
        gaps = [
            (one.grad - right).abs().max() / right.abs().max().clamp(min=1e-300)
            for one, right in zip(weights, exact, strict=True)
        ]
        self._worst = max(self._worst, float(torch.stack(gaps).max()))

    def after_epoch(self, model: nn.Module, row: Any) -> str:
        row["difference"] = self._worst  # with the history it outlives the process
        return ""

    def state_dict(self) -> dict[str, Any]:
        return {"worst": self._worst}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._worst = state["worst"]


def _table(seed: Seed) -> Any:
    """Draw the layers with their formulas, each with the light of its gradcheck."""
    passed = [check(row, row.shapes(4, 3, 2), seed.child(name)) for name, row in LAYERS.items()]
    columns = {
        "layer": [name.replace("_", " ") for name in LAYERS],
        "forward": [row.forward for row in LAYERS.values()],
        "backward": [row.backward for row in LAYERS.values()],
        "gradcheck": ["● passes" if one else "● fails" for one in passed],
    }
    lights = [VERDICT_COLORS["holds" if one else "refuted"] for one in passed]
    cells = {"align": "left", "height": 30, "fill_color": "white", "line_color": "#e5e7eb"}
    figure = go.Figure(go.Table(
        columnwidth=[3, 4, 5, 2], header={**cells, "values": list(columns)},
        cells={**cells, "values": [*columns.values()], "font_color": ["#111827"] * 3 + [lights]},
    ))
    return figure.update_layout(height=340, margin={"l": 10, "r": 10, "t": 10, "b": 10})
