r"""Adagrad: what it reaches on data."""

import collections
import re
from pydoc_data.topics import topics
from typing import Annotated, Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adagrad, Optimizer

from principia.lab import figures
from principia.lab.data.reviews import reviews
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import Supervised, fit
from principia.optimization.adagrad import effective_lr

RATES = (0.1, 0.3, 1.0, 3.0, 10.0)  # of SGD, from which the best is taken
WORD = re.compile(r"[a-z]+")


@experiment(
    reaches={"share_of_samples": at_most_goal(0.5)},
    floor={"first_epoch_ratio": Range(0, 1, open="high")},
    source="Duchi, Hazan and Singer (2011), sec. 6: adaptive rates on text; to beat is SGD with "
    "its best learning rate on the same sentences",
)
def sparse_text(
    run: Run, *, lr: Annotated[float, Range(0.01, 10)] = 0.1,
    batch_size: Annotated[int, Range(1, 256)] = 16,
) -> None:
    """Classifies sentences by their words, and counts the samples until SGD's best loss."""
    sentences, labels = reviews(data_dir=run.data_dir) if run.full else _topics()
    counts = collections.Counter(word for line in sentences for word in set(WORD.findall(line)))
    known = {word: k for k, word in enumerate(sorted(w for w, n in counts.items() if n >= 2))}
    x, classes, epochs = _bags(sentences, known), int(labels.max()) + 1, 12 if run.full else 3
    order = torch.randperm(len(x), generator=run.seed.child("split").torch())
    train, test = order[len(x) // 10 :], order[: len(x) // 10]

    def trained(name: str, kind: Any, lr: float) -> tuple[list[dict[str, float]], Optimizer]:
        model = _Bag(len(known), classes)
        optimizer = kind(model.parameters(), lr=lr)
        with torch.sparse.check_sparse_tensor_invariants(False):  # torch makes them, and warns
            found = fit(
                model, (x[train], labels[train]), Supervised(F.cross_entropy), optimizer,
                epochs=epochs, batch_size=batch_size, validation=(x[test], labels[test]),
                seed=run.seed.child("order"), run=run, name=f"{name}-{lr:g}",
            )
        return found.history, optimizer

    plain = {rate: trained("sgd", SGD, rate)[0] for rate in (RATES if run.full else RATES[1:4])}
    history, adagrad = trained("adagrad", Adagrad, lr)
    losses = {rate: [row["validation_loss"] for row in rows] for rate, rows in plain.items()}
    best = min(losses, key=lambda rate: min(losses[rate]))
    target = min(losses[best])
    needed = losses[best].index(target) + 1
    ours = [row["validation_loss"] for row in history]
    reached = next((t for t, loss in enumerate(ours, start=1) if loss <= target), epochs + 1)
    first = min(rows[0]["loss"] for rows in plain.values())
    run.record(
        share_of_samples=reached / needed, adagrad_epochs=reached, sgd_epochs=needed, sgd_lr=best,
        sgd_loss=target, adagrad_loss=min(ours), first_epoch_ratio=history[0]["loss"] / first,
    )
    run.figure("losses", figures.draw(Plot((
        Series(f"Adagrad, lr {lr:g}", range(1, epochs + 1), ours, style="line"),
        *(Series(f"SGD, lr {rate:g}", range(1, epochs + 1), one, "other")
          for rate, one in losses.items()),
    ), "epoch", "validation loss", "y")))
    rates = effective_lr(adagrad)[0][:-1].mean(dim=1)
    share = torch.tensor([counts[word] / len(sentences) for word in known], dtype=rates.dtype)
    shown = torch.randperm(len(rates), generator=run.seed.child("shown").torch())[:400]
    line = rates.median() * (share / share.median()) ** -0.5
    order = share.argsort()
    run.figure("rates", figures.draw(Plot((
        Series("words", share[shown], rates[shown]),
        Series("slope −1/2", share[order][::50], line[order][::50], "predicted"),
    ), "share of the sentences with the word", "effective learning rate", "xy")))


def _topics() -> tuple[list[str], Tensor]:
    """Cut the ten longest topics of Python's reference into sentences; the topic is the class."""
    longest = sorted(topics, key=lambda name: (-len(topics[name]), name))[:10]
    sentences, labels = [], []
    for label, name in enumerate(longest):
        for sentence in re.split(r"[.:]\s", topics[name].lower()):
            if len(WORD.findall(sentence)) >= 5:
                sentences.append(sentence)
                labels.append(label)
    return sentences, torch.tensor(labels)


def _bags(sentences: list[str], known: dict[str, int]) -> Tensor:
    """Write sentences as numbers of their different words, filled up to one length."""
    rows = [sorted({known[w] for w in WORD.findall(line) if w in known}) for line in sentences]
    filled = torch.full((len(rows), max(map(len, rows))), len(known))
    for place, row in enumerate(rows):
        filled[place, : len(row)] = torch.tensor(row, dtype=torch.long)
    return filled


@final
class _Bag(nn.Module):
    """A linear classifier of bags of words, with gradients for the words of a batch alone."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(words + 1, classes))  # the last is no word
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        """Sum up the weights of the words."""
        filler = len(self.weight) - 1
        bags = F.embedding_bag(x, self.weight, mode="sum", sparse=True, padding_idx=filler)
        return bags + self.bias
