r"""Reverse mode on any graph: what it reaches on data."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.gradients.claims.graph import recorded_loss
from principia.gradients.graph import backward, to_networkx, users_first
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot
from principia.lab.params import PositiveFloat, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import Callback, OneCycle, accuracy, fit
from principia.networks.mlp import MLP

GOALS = {"xor_solved": at_least_goal(8), "gradient_gap": at_most_goal(1e-10)}


@experiment(
    reaches={"mnist_accuracy": at_least_goal(0.93), **GOALS},
    floor={"digits_accuracy": at_least_goal(0.90), **GOALS},
    source="torch.autograd, whose gradients are to be matched; XOR as in Rumelhart, Hinton and "
    "Williams 1986; the accuracies are floors of our own",
)
def micro_autograd(
    run: Run, *, epochs: Annotated[int, Range(1, 50)] | None = None, lr: PositiveFloat = 0.01,
    xor_units: Annotated[int, Range(1, 50)] = 8,
) -> None:
    """Trains networks on the tape alone: XOR from ten seeds, and handwritten digits."""
    corners = torch.cartesian_prod(torch.arange(2.0), torch.arange(2.0)).double()
    answers = torch.tensor([0, 1, 1, 0])
    many = corners.repeat(125, 1), answers.repeat(125)  # 25 batches of 20
    solved, gaps = 0, []
    for k in range(10):
        mlp, last = _trained(
            run, f"xor-{k}", [2, xor_units, 2], "tanh", many, (corners, answers),
            epochs=6, batch_size=20, peak=0.1,
        )
        solved += last["validation_accuracy"] == 1
        gaps.append(last["validation_gradient_gap"])
        if k == 0:
            run.figure("graph", _film(mlp.cpu(), corners, answers))
    x, y, x_test, y_test = handwriting(run)
    sizes = [x[0].numel(), 64 if run.full else 32, 10]
    mlp, last = _trained(
        run, "digits", sizes, "relu", (x.flatten(1), y), (x_test.flatten(1).double(), y_test),
        epochs=epochs or (2 if run.full else 10), batch_size=64 if run.full else 32, peak=lr,
    )
    run.record(**{f"{'mnist' if run.full else 'digits'}_accuracy": last["validation_accuracy"]})
    run.record(xor_solved=solved, gradient_gap=max(*gaps, last["validation_gradient_gap"]))
    run.keep(mlp)


def _trained(
    run: Run, name: str, sizes: Sequence[int], activation: str, data: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor], *, epochs: int, batch_size: int, peak: float,
) -> tuple[MLP, dict[str, float]]:
    """Train a network with gradients from the tape; give it with the numbers of its last epoch."""
    seed, matched = run.seed.child(name), _Matched(50)
    mlp = MLP(sizes, activation=activation, rng=seed.child("init").torch()).double()
    trained = fit(
        mlp, data, _on_tape, torch.optim.Adam(mlp.parameters(), fused=True), epochs=epochs,
        batch_size=batch_size, callbacks=[OneCycle(peak), matched], validation=held,
        metrics={"accuracy": accuracy, "gradient_gap": matched.gap}, seed=seed, run=run, name=name,
    )
    return mlp, trained.history[-1]


class _Matched(Callback):
    """Compares gradients with those of torch every so many steps, and remembers the worst."""

    def __init__(self, steps: int) -> None:
        self.steps, self._step, self._gap = steps, 0, 0.0
        self._batch: tuple[Tensor, ...] = ()

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        self._batch = batch
        return batch

    def before_step(self, model: nn.Module) -> None:
        if self._step % self.steps == 0:
            x, y = self._batch
            parameters = list(model.parameters())
            exact = torch.autograd.grad(F.cross_entropy(model(x.double()), y), parameters)
            for parameter, truth in zip(parameters, exact, strict=True):
                difference = torch.as_tensor(parameter.grad) - truth
                self._gap = max(self._gap, float(difference.abs().max() / (1 + truth.abs().max())))
        self._step += 1

    def gap(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Give the worst difference as a metric, so that it outlives the process with the curve."""
        return torch.tensor(self._gap, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "gap": self._gap}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._gap = state["step"], state["gap"]


def _on_tape(model: MLP, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
    """Compute the loss on a tape, and set the gradients while the model is trained."""
    loss, parameters = recorded_loss(model, *batch)
    if model.training:
        gradients = backward(loss)
        for parameter, var in zip(model.parameters(), parameters, strict=True):
            parameter.grad = gradients[var]
    return loss.value


def _film(mlp: MLP, x: Tensor, y: Tensor) -> go.Figure:
    """Draw the tape of a loss: a slider lets values appear one by one, and then derivatives."""
    import networkx as nx

    loss = recorded_loss(mlp, x, y)[0]
    gradients, numbers = backward(loss), {node: k for k, node in enumerate(loss.tape.nodes)}
    visits = [numbers[node] for node in users_first(loss) if node in gradients]
    graph = to_networkx(loss.tape, gradients)
    spots = {
        node: (-column, row - len(layer) / 2 + 0.15 * (column % 2))
        for column, layer in enumerate(nx.topological_generations(graph.reverse()))
        for row, node in enumerate(sorted(layer))
    }

    def look(step: int) -> tuple[list[str], list[str]]:
        known = visits[: max(step - len(graph), 0)]
        text = [
            f"<b>{one['op']}</b><br>{_size(one['value']) if k < step else ''}"
            f"<br>{_size(one['gradient']) if k in known else ''}"
            for k, one in graph.nodes(data=True)
        ]
        roles = ["bound" if k in known else "measured" if k < step else "" for k in graph]
        return text, [figures.COLORS.get(role, "#d1d5db") for role in roles]

    labels = [f"value {k + 1}" for k in range(len(graph))]
    labels += [f"derivative {k + 1}" for k in range(len(visits))]
    looks = [look(step) for step in range(1, len(labels) + 1)]
    moves = [
        {"method": "restyle", "label": label,
         "args": [{"text": [text], "marker.color": [colors]}, [1]]}
        for label, (text, colors) in zip(labels, looks, strict=True)
    ]
    figure = figures.draw(Plot(()))
    ends = [(*spots[a], *spots[b]) for a, b in graph.edges()]
    figure.add_scatter(
        x=[at for ax, _, bx, _ in ends for at in (ax, bx, None)],
        y=[at for _, ay, _, by in ends for at in (ay, by, None)], line={"color": "#9ca3af"},
    )
    (across, up), (text, colors) = zip(*(spots[k] for k in graph), strict=True), looks[-1]
    figure.add_scatter(
        x=across, y=up, mode="markers+text", text=text, textposition="bottom center",
        textfont={"size": 10}, marker={"size": 15, "color": colors, "opacity": 1},
    )
    figure.update_traces(hoverinfo="skip", showlegend=False)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, range=[min(up) - 1, max(up) + 0.5])
    slider = {"steps": moves, "active": len(moves) - 1, "currentvalue": {"prefix": "up to "}}
    title = {"text": "operation, value, derivative of the loss; |.| is a norm", "font_size": 13}
    return figure.update_layout(height=560, sliders=[slider], title=title)


def _size(tensor: Tensor) -> str:
    """Show a number, or the shape and the norm of a tensor."""
    if tensor.numel() == 1:
        return f"{tensor.item():.3g}"
    return f"{'×'.join(map(str, tensor.shape))}: |{tensor.norm():.2g}|"
