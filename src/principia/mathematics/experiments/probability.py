r"""Probability: what it reaches on data."""

from typing import Annotated

import torch
from sklearn.naive_bayes import BernoulliNB
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.mathematics.probability import JointTable, bayes, mutual_nats


@experiment(
    reaches={
        "accuracy": at_least_goal(0.84), "agreement": at_least_goal(1.0),
        "neighbor_information": at_least_goal(0.01),
    },
    floor={
        "accuracy": at_least_goal(0.80), "agreement": at_least_goal(1.0),
        "neighbor_information": at_least_goal(0.01),  # 1437 pictures of independent pixels: 0.0035
    },
    source="scikit-learn's BernoulliNB on the same pixels: 0.843 on the MNIST test set",
)
def naive_bayes(run: Run, *, smoothing: Annotated[float, Range(0.01, 100)] = 1.0) -> None:
    """Reads digits by Bayes' rule, as if pixels were independent given the class; they are not."""
    x, y, x_test, y_test = handwriting(run)
    pixels, tests = ((part > 0.5).float() for part in (x, x_test))  # which counts exactly to 2^24
    members, flat = F.one_hot(y).float().mT, tests.flatten(1).double()  # (10, N)
    sizes, lit = members.sum(dim=1).double(), (members @ pixels.flatten(1)).double()
    on = (lit + smoothing) / (sizes[:, None] + 2 * smoothing)
    log_likelihood = flat @ on.log().mT + (1 - flat) @ (1 - on).log().mT
    confidence, answer = bayes((sizes / len(y)).log(), log_likelihood).exp().max(dim=1)
    right = (answer == y_test).double()
    baseline = BernoulliNB(alpha=smoothing, binarize=None).fit(pixels.flatten(1).numpy(), y.numpy())
    theirs = torch.from_numpy(baseline.predict(flat.numpy()))
    run.record(
        accuracy=float(right.mean()), agreement=float((answer == theirs).double().mean()),
        overconfidence=float(confidence.mean() - right.mean()),
        neighbor_information=mutual_nats(_neighbors(pixels, members), "a", "b", "place", "class"),
    )
    run.figure("pixels", figures.images(
        list(on.reshape(-1, *x.shape[1:])), [f"P(pixel on | {c})" for c in range(len(on))]
    ))
    bins = confidence.argsort(stable=True).tensor_split(10)
    stated, reached = ([float(of[part].mean()) for part in bins] for of in (confidence, right))
    run.figure("reliability", figures.draw(Plot(
        (Series("tenths of the test digits", stated, reached),
         Series("calibrated", [0, 1], [0, 1], role="predicted")),
        "mean confidence", "share that is right",
    )))


def _neighbors(pixels: Tensor, members: Tensor) -> JointTable:
    """Count the values of all pairs of neighboring pixels in each class; members are (10, N)."""
    tables = []
    for a, b in ((pixels[:, 1:], pixels[:, :-1]), (pixels[..., 1:], pixels[..., :-1])):
        count_a, count_b, both = (members @ part.flatten(1) for part in (a, b, a * b))
        neither = members.sum(dim=1, keepdim=True) - count_a - count_b + both
        tables.append(torch.stack([neither, count_b - both, count_a - both, both]))
    table = torch.cat(tables, dim=-1).reshape(2, 2, len(members), -1)
    return JointTable(table.double(), ("a", "b", "class", "place"), normalize=True)
