r"""The delta rule: what it reaches on data."""

from typing import Annotated

from torch import Tensor
from torch.nn import functional as F

from principia.connectionism.claims.delta_rule import mirrored
from principia.connectionism.delta_rule import (
    DeltaLayer,
    Layer,
    generalized_delta,
    half_squared_error,
    layer_transfer,
)
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment


@experiment(
    reaches={"test_error": at_most_goal(0.12)},
    floor={"test_accuracy": at_least_goal(0.88)},
    source="LeCun, Bottou, Bengio and Haffner (1998), Fig. 9: linear classifier, 12.0 % error",
)
def one_layer(
    run: Run, *, epochs: PositiveInt = 3, batch: PositiveInt = 32,
    lr: Annotated[float, Range(0.01, 5)] = 0.5
) -> None:
    """Reads digits with ten sigmoid units: MNIST, or 8 x 8 digits in ten times the epochs."""
    x, y, x_test, y_test = handwriting(run)
    side = x.shape[-1]
    x, x_test = x.flatten(1), x_test.flatten(1)
    model = DeltaLayer(
        lr=lr, batch=batch, random_state=int(run.seed),
        epochs=epochs if run.full else 10 * epochs,  # 40 times fewer pictures than MNIST has
    ).fit(x.numpy(), y.numpy())
    accuracy = model.score(x_test.numpy(), y_test.numpy())
    run.record(test_accuracy=accuracy, test_error=1 - accuracy)
    run.keep(model)

    weights = [row.reshape(side, side) for row in model.coef_]
    run.figure("weights", figures.images(weights, [str(k) for k in range(10)], signed=True))
    few, targets = x[:1000], F.one_hot(y[:1000], 10).to(x)
    right, wrong = (_losses(few, targets, lr, mirror) for mirror in (False, True))
    run.record(right_sign_loss=right[-1], wrong_sign_loss=wrong[-1])
    series = (
        Series("step -ηδφ'x, downhill", range(len(right)), right, style="line"),
        Series("step +ηδφ'x, uphill", range(len(wrong)), wrong, role="bound"),
    )
    run.figure("sign", figures.draw(Plot(series, "steps", "loss of 1000 pictures")))


def _losses(x: Tensor, y: Tensor, lr: float, mirror: bool) -> list[float]:
    """Trace the loss along 60 steps of a sigmoid layer on the whole batch, with either sign."""
    m = y.shape[1]
    layers: list[Layer] = [(x.new_zeros(m, x.shape[1]), x.new_zeros(m), "sigmoid")]
    losses = []
    for _ in range(60):
        losses.append(half_squared_error(layer_transfer(*layers[0][:2], x, "sigmoid"), y))
        moved = generalized_delta(layers, x, y, lr=lr)
        layers = mirrored(layers, moved) if mirror else moved
    return losses
