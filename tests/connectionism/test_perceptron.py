import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import Perceptron as SklearnPerceptron
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.svm import SVC

from planting import assert_caught
from principia.connectionism import (
    KernelPerceptron,
    Perceptron,
    _perceptron_fast,
    mistake_bound,
    perceptron_epoch,
)
from principia.lab.course.catalog import page
from principia.lab.data.synthetic import separable_points
from principia.lab.params import UsageError

KEY = "connectionism/perceptron"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("ratio = float((X**2)", "ratio = 0.9 * float((X**2)", "mistake_bound"),
        ("np.mean(means, axis=0)", "means[-1]", "equals_sklearn"),
        ("if self.average else state", "if False else state", "equals_sklearn"),
        ("self.strategy == \"ovr\":\n            return [", "False:\n            return [",
         "many_classes"),
        ("np.where(codes[chosen] == b,", "np.where(codes[chosen] == 1,", "many_classes"),
        ("return votes + confidence", "return votes - confidence", "many_classes"),
        ("if coef_init is None else np.asarray", "if True else np.asarray", "weights_in_span"),
        ("np.ones(len(X))", "np.zeros(len(X))", "bias_needs_augmented_radius"),
        ("best = (scores >= 0)", "best = (scores > 0)", "scoring_rule"),
        ("w += label * point", "w -= label * point", "fast_form_is_the_rule"),
        ("+ b) <= 0", "+ b) < 0", "fast_form_is_the_rule"),
        ("b += label * fit_intercept", "b += label", "fast_form_is_the_rule"),
        ("bias=self.fit_intercept", "bias=True", "fast_form_is_the_rule"),
        ("if not epoch.mistakes", "if epoch.mistakes", "fast_form_is_the_rule"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("ratio = float((X**2)", "ratio = 0.9 * float((X**2)", "mistake_bound",
         ["mistakes", "bound"]),
        ("ratio = float((X**2)", "ratio = 0.9 * float((X**2)", "bias_needs_augmented_radius",
         ["bound"]),
        ("self.classes_[(scores >= 0).astype(int)]", "self.classes_[(scores < 0).astype(int)]",
         "kernel_is_feature_space", ["classes"]),
        ("counts[point] += 1", "counts[point] = 1", "kernel_is_feature_space",
         ["scores", "mistakes, epochs and convergence"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("w += y[position] * X", "w += 2 * y[position] * X", "weights_grow_slowly",
         ["orthogonal points attain it"]),
        ("+ b) <= 0", "+ b) >= 0", "xor_never_converges", ["weights stay bounded"]),
        ("made = round(ends[0][-2] / COUNTER)", "made = 1 + round(ends[0][-2])", "equals_sklearn",
         ["mistakes of every epoch"]),
    ],
)
def test_parts_catch_bugs_planted_in_the_fast_form(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, fast=True, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("w += y[position] * X[position]", "w -= y[position] * X[position]", "mistake_bound"),
        ("+ b) <= 0", "+ b) < 0", "bound_is_attained"),
        ("+ b) <= 0", "+ b) < 0", "fast_form_is_the_rule"),
        ("b += float(y[position]) * step", "b += 0.0 * step", "equals_sklearn"),
        ("b += float(y[position]) * step", "b += 0.0 * step", "fast_form_is_the_rule"),
        ("w += y[position] * X", "w += 2 * y[position] * X", "weights_grow_slowly"),
        ("made = round(ends[0][-2] / COUNTER)", "made = 1 + round(ends[0][-2])", "equals_sklearn"),
        ("COUNTER = 1e-200", "COUNTER = 1.0", "fast_form_is_the_rule"),
        ("fit_intercept=bias", "fit_intercept=True", "fast_form_is_the_rule"),
        ("np.append(state[:-1], 0.0)[None]", "0 * state[None]", "fast_form_is_the_rule"),
        ("size = position + size,", "size = position + size + 1,", "fast_form_is_the_rule"),
        ("return None", "break", "fast_form_is_the_rule"),
    ],
)
def test_claims_catch_bugs_planted_in_the_fast_form(old, new, claim):
    assert_caught(KEY, old, new, claim, fast=True)


def test_the_claim_about_the_fast_form_enters_both_of_its_ways(monkeypatch):
    taken = []
    for way in (_perceptron_fast.jump, _perceptron_fast.sweep):
        def spied(*args, way=way, **settings):
            passed = way(*args, **settings)
            taken.append((way.__name__, passed is not None))
            return passed

        monkeypatch.setattr(_perceptron_fast, way.__name__, spied)
    assert page(KEY).claim("fast_form_is_the_rule").observe(0, {}).verdict == "holds"
    assert {("jump", True), ("jump", False), ("sweep", True)} == set(taken)


@pytest.mark.parametrize("bias", [False, True])
def test_traced_mistakes_are_those_of_the_rule(bias):
    X, y, _ = separable_points(np.random.default_rng(8), 300, 5, 0.02)
    model = Perceptron(fit_intercept=bias, trace=True).fit(X, y)
    w, b, made = np.zeros(5), 0.0, []
    for _ in range(model.n_epochs_):
        w, b, wrong = perceptron_epoch(X, y, w, b, fit_intercept=bias)
        made += wrong
    assert made == model.mistakes_.tolist()
    np.testing.assert_allclose(w, model.coef_[0], atol=1e-12)
    assert b == model.intercept_[0]


def test_equals_sklearns_own_perceptron():
    X, y, _ = separable_points(np.random.default_rng(3), 300, 6, 0.05)
    ours = Perceptron().fit(X, y)
    theirs = SklearnPerceptron(shuffle=False, max_iter=ours.n_epochs_, tol=None).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_traced_and_compiled_epochs_agree(average, shuffle):
    X, y, _ = separable_points(np.random.default_rng(4), 20_000, 8, 0.01)
    settings = {"average": average, "shuffle": shuffle, "random_state": 5}
    compiled, traced = (Perceptron(trace=trace, **settings).fit(X, y) for trace in (False, True))
    np.testing.assert_allclose(compiled.coef_, traced.coef_, rtol=1e-7)
    assert compiled.n_mistakes_ == traced.n_mistakes_ == len(traced.mistakes_)
    assert compiled.epoch_mistakes_.tolist() == traced.epoch_mistakes_.tolist()


def test_linear_kernel_is_the_perceptron():
    X, y, _ = separable_points(np.random.default_rng(6), 200, 4, 0.05)
    dual = KernelPerceptron(kernel="linear", max_epochs=1000).fit(X, y)
    primal = Perceptron(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(dual.dual_coef_ @ dual.support_vectors_, primal.coef_[0], atol=1e-9)
    assert dual.n_mistakes_ == primal.n_mistakes_


def test_mistakes_stay_below_the_bound_of_the_best_separator():
    X, y, _ = separable_points(np.random.default_rng(7), 200, 3, 0.1)
    best = SVC(kernel="linear", C=1e8).fit(X, y)
    bound = mistake_bound(X, y, best.coef_[0], float(best.intercept_[0]))
    assert Perceptron().fit(X, y).n_mistakes_ <= bound


def test_bad_input_is_told_in_one_sentence():
    points = np.eye(3)
    with pytest.raises(UsageError, match="y must be of two classes or more; got 'one class'"):
        Perceptron().fit(points, [1, 1, 1])
    with pytest.raises(UsageError, match="Trace one pair of classes at a time"):
        Perceptron(trace=True).fit(points, [0, 1, 2])
    with pytest.raises(UsageError, match="must be the normal of a separating hyperplane"):
        mistake_bound(points, np.array([1.0, -1.0, 1.0]), np.ones(3))


def test_data_that_cannot_be_separated_gives_a_warning_that_names_the_test():
    with pytest.warns(UserWarning, match=r"after 30 epochs.*separable\(X, y\)"):
        Perceptron(max_epochs=30).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0])


@pytest.mark.filterwarnings("ignore:Perceptron. still making mistakes")
@pytest.mark.parametrize(
    ("strategy", "wrapper"), [("ovr", OneVsRestClassifier), ("ovo", OneVsOneClassifier)]
)
def test_many_classes_are_decided_as_scikit_learn_would(strategy, wrapper):
    X, y = make_blobs(400, centers=6, cluster_std=3.0, random_state=1)  # they overlap: votes tie
    ours = Perceptron(strategy=strategy, max_epochs=20).fit(X, y)
    theirs = wrapper(Perceptron(max_epochs=20)).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
