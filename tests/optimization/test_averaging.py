import warnings

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from torch import nn
from torch.optim import SGD
from torch.optim.swa_utils import AveragedModel, update_bn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.optimization.averaging import Averaged, WeightAverage, exponential, tail
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, ScalarNet, noisy

KEY = "optimization/averaging"
FORMULA = "torch_average_is_the_formula"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def path_of(rule, points):
    """Follow the average of weights that take these values, one update each."""
    line = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    average, seen = WeightAverage(line, rule), []
    for point in points:
        line.weight.data.fill_(float(point))
        average.update_parameters(line)
        seen.append(average.module.weight.item())
    return np.array(seen)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("_Toward(lambda n: beta)", "_Toward(lambda n: 1 - beta)", FORMULA),
        ("_Toward(lambda n: beta)", "_Toward(lambda n: 1 - (1 - beta) ** 2)", FORMULA),
        ("round(fraction * steps)\n", "round(fraction * steps) - 1\n", FORMULA),
        ("1 / max(n - first + 1, 1)", "1 / max(n - first, 1)", FORMULA),
        ("super().__init__(model, multi_avg_fn=rule.all_at_once)", "super().__init__(model)",
         FORMULA),
        ("WeightAverage(self._points, rule)", "WeightAverage(self._points)", FORMULA),
        ("self._average.update_parameters(self._points)", "self._average.n_averaged += 1", FORMULA),
        ("super().update_parameters(model)\n", "super().update_parameters(self.module)\n", FORMULA),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("fraction: Share = 0.5", "fraction: Share = 0.4", "torch_average_is_the_formula",
         ["tail, its default"]),
        (" steps -", " steps +", "torch_average_is_the_formula", ["tail, its rule alone"]),
        ("- round(fraction * steps)\n", "- max(round(fraction * steps), 2)\n",
         "torch_average_is_the_formula", ["tail of one"]),
        ("torch.lerp(averaged, current, self", "torch.lerp(current, averaged, self",
         "torch_average_is_the_formula", ["exponential, its rule alone"]),
        ("self.stale.fill_(False)", "pass", "average_needs_statistics_of_its_own",
         ["when it warns"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_averages_are_those_of_numpy_and_of_a_filter_of_scipy():
    points = torch.randn(40, generator=generator(), dtype=torch.float64).numpy()

    def expanding(points):
        return np.cumsum(points) / np.arange(1, len(points) + 1)

    np.testing.assert_allclose(path_of(None, points), expanding(points), atol=1e-13)
    fading, _ = lfilter([0.3], [1, -0.7], points, zi=[0.7 * points[0]])
    np.testing.assert_allclose(path_of(exponential(0.3), points), fading, atol=1e-13)
    late = path_of(tail(0.25, steps=40), points)
    np.testing.assert_allclose(late[:31], points[:31])  # until its part begins: the newest
    np.testing.assert_allclose(late[30:], expanding(points[30:]), atol=1e-13)


@pytest.mark.parametrize("rule", [None, exponential(1.0), tail(1.0, steps=3), tail(0.01, steps=3)])
def test_one_point_is_its_own_average(rule):
    np.testing.assert_allclose(path_of(rule, [2.5, 2.5, 2.5]), 2.5)


def test_rules_agree_with_the_simpler_thing_at_their_ends():
    points = np.arange(6.0) ** 2
    np.testing.assert_allclose(path_of(tail(1.0, steps=6), points), path_of(None, points))
    np.testing.assert_allclose(path_of(exponential(1.0), points), points)
    assert path_of(tail(0.01, steps=6), points)[-1] == points[-1]


def test_rows_of_a_problem_are_averaged_by_themselves():
    start = torch.randn(5, 3, generator=generator(), dtype=torch.float64)
    bowl = noisy(Quadratic([1.0, 2.0, 3.0]).at(start), 1.0, generator(1))
    mean = Averaged(bowl)
    torch.testing.assert_close(mean.theta, start)
    sgd = SGD(bowl.parameters(), lr=0.1)
    path = descend(bowl, sgd, 30, record=("theta",), after=mean.update)["theta"]
    torch.testing.assert_close(mean.theta, path[1:].mean(dim=0))
    assert not mean.theta.requires_grad


def test_problems_with_generators_and_hooks_can_be_averaged():
    net = ScalarNet(label_noise=0.1, rng=generator())
    mean = Averaged(net, exponential(0.5))
    descend(net, SGD(net.parameters(), lr=0.1), 3, after=mean.update)
    assert mean.theta.isfinite().all()


def batch_normalized():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    x = 5 + torch.randn(64, 3, generator=generator())
    return model, x


def test_stale_statistics_of_batch_normalization_warn_until_update_bn():
    model, x = batch_normalized()
    average = WeightAverage(model)
    average.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        average(x)  # nothing was averaged yet
    model(x)
    average.update_parameters(model)
    with pytest.warns(UserWarning, match=r"those of the last iterate.*Call .*update_bn"):
        average(x)
    again = WeightAverage(model)
    again.load_state_dict(average.state_dict())
    with pytest.warns(UserWarning, match="update_bn"):
        again.eval()(x)
    update_bn([x], average)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = average(x)
    torch.testing.assert_close(average.module[1].running_mean, average.module[0](x).mean(dim=0))
    reference = AveragedModel(model)
    reference.update_parameters(model)
    update_bn([x], reference)
    torch.testing.assert_close(found, reference.eval()(x))
    average.update_parameters(model)
    with pytest.warns(UserWarning, match="update_bn"):
        average(x)


def test_models_without_batch_normalization_never_warn():
    line = nn.Linear(3, 1)
    average = WeightAverage(line)
    average.update_parameters(line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        average.eval()(torch.ones(1, 3))


def test_an_average_resumes_where_it_was_saved():
    points = torch.randn(20, generator=generator(), dtype=torch.float64)
    line = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    whole, first, second = (WeightAverage(line, tail(0.5, steps=20)) for _ in range(3))
    for number, point in enumerate(points):
        if number == 13:
            second.load_state_dict(first.state_dict())
        line.weight.data.fill_(float(point))
        for one in (whole, first if number < 13 else second):
            one.update_parameters(line)
    assert torch.equal(whole.module.weight, second.module.weight)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: exponential(0.0), "exponential: beta must be in (0, 1]; got 0.0."),
        (lambda: exponential(1.5), "exponential: beta must be in (0, 1]; got 1.5."),
        (lambda: tail(0.0, steps=10), "tail: fraction must be in (0, 1]; got 0.0."),
        (lambda: tail(0.5, steps=0), "tail: steps must be an integer in [1, inf); got 0."),
    ],
)
def test_bad_input_gives_its_sentence(call, sentence):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
