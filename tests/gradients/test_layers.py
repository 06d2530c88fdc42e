import itertools

import pytest
import torch
from torch.nn import functional as F

from planting import assert_caught
from principia.gradients.layers import (
    LAYERS,
    BroadcastAddFn,
    ElementwiseFn,
    HardtanhFn,
    Layer,
    LayeredClassifier,
    LinearFn,
    MaxFn,
    ResidualFn,
    SoftmaxCrossEntropyFn,
    SquaredLossFn,
    check,
)
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks.activations import ACTIVATIONS

KEY = "gradients/layers"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def difference(function, operands, step=1e-6):
    """Differentiate a sum by brute force, number by number."""
    found = []
    for one in operands:
        gradient = torch.zeros_like(one)
        for place in itertools.product(*map(range, one.shape)):
            before = float(one[place])
            ends = []
            for moved in (before + step, before - step):
                one[place] = moved
                ends.append(function(*operands).sum())
            one[place] = before
            gradient[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(gradient)
    return found


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("delta @ W, delta.mT @ x,", "delta @ W, (delta.mT @ x) / len(x),", "linear_layer"),
        ("else delta.sum(dim=0)", "else delta.mean(dim=0)", "every_layer"),
        ("(delta * f.derivative(z), None)", "(delta * f.derivative(f.module()(z)), None)",
         "elementwise_layer"),
        ("delta * (z.abs() < 1)", "delta * (z < 1)", "every_layer"),
        ("z.argmax(dim=-1, keepdim=True)", "z.argmin(dim=-1, keepdim=True)", "every_layer"),
        ("z.softmax(dim=1) - (", "z.softmax(dim=1) + (", "fused_softmax"),
        ("z.softmax(dim=1) - (", "z.detach().softmax(dim=1) - (", "every_layer"),
        ("return z.logsumexp(dim=1) - z.gather", "return z.amax(dim=1) - z.gather",
         "fused_softmax"),
        ("delta[:, None] * (y - outputs)", "delta[:, None] * (outputs - y)", "every_layer"),
        ("(delta, delta))", "(delta, 0 * delta))", "every_layer"),
        ("delta.sum_to_size(ctx.shape)", "delta.sum_to_size(ctx.shape) / len(delta)",
         "broadcasting_sums"),
        ("delta.sum_to_size(ctx.shape)", "delta.cumsum(-1).sum_to_size(ctx.shape)",
         "broadcasting_sums"),
        ("ctx.save_for_backward(*(given for", "ctx.save_for_backward(*(given + 0.1 for",
         "relu_at_zero"),
        ("torch.autograd.gradcheck(layer.apply,", "not torch.autograd.gradcheck(layer.apply,",
         "every_layer"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    source = page(KEY).path.read_text(encoding="utf-8")
    assert source.count(old) == 1, old
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("else delta.sum(dim=0)", "else delta.mean(dim=0)", "linear_layer", ["b", "LinearFn"]),
        ("(delta * f.derivative(z), None)", "(delta * f.derivative(f.module()(z)), None)",
         "elementwise_layer", ["every activation"]),
        ("(delta * f.derivative(z), None)", "(delta + f.derivative(z), None)", "relu_at_zero",
         ["torch and the table at 0", "at 0 the choice shows", "gradients of torch"]),
        ("z.softmax(dim=1) - (", "z.softmax(dim=1) + (", "fused_softmax",
         ["p - e_y", "both steps, one after the other"]),
        ("delta.sum_to_size(ctx.shape)", "delta.sum_to_size(ctx.shape) / len(delta)",
         "broadcasting_sums", ["BroadcastAddFn"]),
        ('layer["hardtanh"](z)', 'layer["elementwise"](z)', "every_layer", ["a network"]),
        ("uniform_(-(n**-0.5), n**-0.5,", "uniform_(-(n**-0.5), 2 * n**-0.5,", "every_layer",
         ["its first weights"]),
        ("< CLEAR, z + 2 * CLEAR, z)", "< CLEAR, z, z)", "every_layer", ["draws on a kink"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("name", LAYERS)
def test_rules_agree_with_brute_force_and_torch(name):
    row = LAYERS[name]
    rng = torch.Generator().manual_seed(1)
    shapes = row.shapes(3, 4, 2)
    operands = row.draw(rng, shapes) if row.draw else [normal(*one) for one in shapes]
    floats = [one for one in operands if one.is_floating_point()]
    fixed = operands[len(floats) :]
    brute = difference(lambda *given: row.reference(*given, *fixed), floats)
    for one in floats:
        one.requires_grad_()
    outputs = row.apply(*operands)
    torch.testing.assert_close(outputs, row.reference(*operands))
    for ours, theirs in zip(torch.autograd.grad(outputs.sum(), floats), brute, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=1e-7)
    assert check(row, shapes)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_differentiated_twice(name):
    z = torch.linspace(-2.9, 2.9, 12, dtype=torch.float64).requires_grad_()
    assert min((z - kink).abs().min() for kink in (-1, 0, 1)) > 1e-3

    def apply(z):
        return ElementwiseFn.apply(z, ACTIVATIONS[name])

    assert torch.autograd.gradcheck(apply, z, atol=1e-6, rtol=1e-6)
    assert torch.autograd.gradgradcheck(apply, z, torch.ones_like(z).requires_grad_())


def test_check_sees_a_wrong_backward_and_a_wrong_second_derivative():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.square()

        @staticmethod
        def backward(ctx, delta):
            (z,) = ctx.saved_tensors
            return 2 * delta * (z.detach() if Doubled.forgets else 1.001 * z)

    row = Layer(Doubled.apply, torch.square, "z²", "2z δ", lambda B, n, m: ((B, n),))
    for Doubled.forgets in (False, True):
        assert not check(row, ((3, 2),))


def test_torch_func_maps_over_the_rules():
    net = LayeredClassifier(6, width=5, n_out=3, rng=torch.Generator().manual_seed(0)).double()
    x, y = normal(7, 6), torch.arange(7) % 3
    weights = {name: one.detach() for name, one in net.named_parameters()}

    def loss(weights, x, y):
        logits = torch.func.functional_call(net, weights, x[None])
        return SoftmaxCrossEntropyFn.apply(logits, y[None])[0]

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    whole = torch.autograd.grad(F.cross_entropy(net(x, by="reference"), y), [*net.parameters()])
    for ours, theirs in zip(each.values(), whole, strict=True):
        torch.testing.assert_close(ours.mean(dim=0), theirs)


def test_hard_logits_keep_torchs_digits_in_single_precision():
    z = torch.tensor([[60.0, -60.0, 0.0]], requires_grad=True)
    y = torch.tensor([1])
    ours = torch.autograd.grad(SoftmaxCrossEntropyFn.apply(z, y).sum(), z)[0]
    assert torch.equal(ours, torch.autograd.grad(F.cross_entropy(z, y), z)[0])
    unfused = torch.autograd.grad(-z.softmax(1).log()[0, 1], z)[0]
    assert not unfused.isfinite().all()


def test_quick_experiment_draws_the_table_with_all_lights_on():
    outcome = page(KEY).experiments()["layer_by_layer"](epochs=1)
    assert outcome.metrics["gradient_difference"] < 1e-12
    table = outcome.figures["layers"].data[0]
    assert list(table.cells.values[3]) == ["● passes"] * len(LAYERS)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: LinearFn.apply(normal(4, 3), normal(2, 3), normal(4)),
         r"LinearFn: b must be of shape \(2,\); got \(4,\)\. Any other shape would be broadcast"),
        (lambda: LinearFn.apply(normal(4, 2), normal(2, 3)),
         r"LinearFn: x must be of width 3, like W; got \(4, 2\)"),
        (lambda: LinearFn.apply(torch.ones(4, 3).long(), normal(2, 3)),
         r"LinearFn: x must be a tensor of floating-point numbers; got torch.int64\. Integers"),
        (lambda: ElementwiseFn.apply(torch.arange(3), ACTIVATIONS["tanh"]), "with z.double()"),
        (lambda: ElementwiseFn.apply(normal(3), "tanh"),
         r"ElementwiseFn: f must be an Activation; got 'tanh'\. Take a row of ACTIVATIONS"),
        (lambda: HardtanhFn.apply(torch.arange(3)), "HardtanhFn: z must be a tensor of floating"),
        (lambda: MaxFn.apply(torch.arange(3)), "MaxFn: z must be a tensor of floating"),
        (lambda: SoftmaxCrossEntropyFn.apply(torch.ones(2, 3).long(), torch.zeros(2).long()),
         "SoftmaxCrossEntropyFn: z must be a tensor of floating"),
        (lambda: SoftmaxCrossEntropyFn.apply(normal(4, 3), torch.zeros(4, 1).long()),
         r"y must be one class a sample, of shape \(4,\); got \(4, 1\)"),
        (lambda: SquaredLossFn.apply(normal(4, 1), normal(4)),
         r"SquaredLossFn: y must be of shape \(4, 1\); got \(4,\)\. A broadcast would pair"),
        (lambda: ResidualFn.apply(normal(4, 3), normal(3)), r"h must be of shape \(4, 3\); got"),
        (lambda: BroadcastAddFn.apply(normal(4, 1), normal(4)),
         r"a must be repeatable to the shape \(4, 1\) of x; got \(4,\)\. .*a bias of length B"),
        (lambda: BroadcastAddFn.apply(normal(3), normal(2, 3)), r"shape \(3,\) of x; got \(2, 3\)"),
        (lambda: check(LAYERS["linear"], ((4, 3), (2, 3))), "one for each of the 3 operands"),
        (lambda: check(LAYERS["max"], ((4, 0),)), r"check: shapes must be one or more values"),
        (lambda: LAYERS["dense"], "LAYERS: name must be one of 'linear', 'elementwise'"),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, sentence):
    with pytest.raises(UsageError, match=sentence):
        call()
