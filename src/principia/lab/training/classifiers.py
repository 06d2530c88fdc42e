"""How a network learns classes where the network is the subject, and not how it is trained."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from principia.lab.runs.experiments import Run
from principia.lab.training.callbacks import EMA, Callback, OneCycle
from principia.lab.training.loop import fit
from principia.lab.training.metrics import accuracy, evaluate
from principia.lab.training.objectives import Objective, Supervised

__all__ = ["learn_classes"]


def learn_classes(
    run: Run, model: nn.Module, data: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *,
    epochs: int, lr: float = 3e-3, weight_decay: float = 0.01, batch_size: int = 64,
    average: float = 0.999, callbacks: Sequence[Callback] = (), objective: Objective | None = None,
    name: str = "model",
) -> float:
    """Train with AdamW in one cycle, average the weights, and give the accuracy on test data.

    Args:
        run: Whose training it is; its seed draws the batches.
        model: Gives scores of the classes (B, K).
        data: Inputs and labels.
        test: Inputs and labels that choose nothing: they are measured once, at the end.
        epochs: How often the data is gone through.
        lr: Largest learning rate of the cycle.
        weight_decay: Of AdamW.
        batch_size: Rows of a step.
        average: Decay of the average of the weights; few steps need a shorter memory, so that it
            is at most 1 - 10 / steps.
        callbacks: What else takes part, such as an augmentation.
        objective: The loss; by default the cross-entropy of the scores.
        name: Of the training within its run.
    """
    steps = epochs * -(-len(data[0]) // batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=weight_decay)
    fit(
        model, data, objective or Supervised(F.cross_entropy), optimizer, epochs=epochs,
        batch_size=batch_size, run=run, name=name,
        callbacks=[OneCycle(lr), EMA(min(average, max(0.0, 1 - 10 / steps))), *callbacks],
    )
    return evaluate(model, test, {"accuracy": accuracy})["accuracy"]
