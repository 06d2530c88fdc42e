import math

import pytest
import torch
from torch import nn
from torch.func import grad, jacrev

from planting import assert_caught
from principia.gradients import DualNumber, best_mode, checkpointed, hvp, jacobian_cost
from principia.lab.params import UsageError
from principia.networks.mlp import MLP

KEY = "gradients/modes"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def network(*sizes, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return MLP(list(sizes), activation="tanh", rng=rng).double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("a.tangent * b.value + a.value * b.tangent", "a.tangent * b.value - a.value * b.tangent",
         "same_numbers"),
        ("(self.tangent - ratio * b.tangent)", "(self.tangent + ratio * b.tangent)",
         "same_numbers"),
        ("lambda a: 1.0 / a", "lambda a: 1.0 / (a * a)", "same_numbers"),
        ("1.0 - a.tanh() * a.tanh()", "1.0 - a.tanh()", "same_numbers"),
        ('"reverse" if m < n else "forward"', '"reverse" if m > n else "forward"',
         "forward_needs_inputs"),
        ('"forward": jacfwd, "reverse": jacrev', '"forward": jacrev, "reverse": jacfwd',
         "forward_needs_inputs"),
        ("return sum(seen), flops", "return len(seen), flops", "forward_needs_inputs"),
        ("count_flops(plain_jacobian, lambda",
         "count_flops(lambda *a: [plain_jacobian(*a) for _ in '12'], lambda",
         "gradient_is_cheap"),
        ("jvp(grad(f), (x.clone(),), (v.to(x),))[1]", "jvp(grad(f), (x.clone(),), (v.to(x),))[0]",
         "hessian_vector"),
        ("warm_up()\n    with _stateless",
         "f(plain_jacobian(f, x, 'forward'))\n    with _stateless",
         "hessian_vector"),
        ("round(math.sqrt(len(net)))", "len(net)", "memory_for_time"),
        ("list(self), self.segments", "list(self)[::-1], self.segments", "memory_for_time"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("self + -1.0 * _dual(other)", "self + 1.0 * _dual(other)", "same_numbers",
         ["values of the dual numbers"]),
        ("[mode](f)(x.clone())", "[mode](f)(0 * x)", "same_numbers", ["differences and reverse"]),
        ("return sum(seen), flops", "return len(seen), flops", "forward_needs_inputs",
         ["forward passes"]),
        ("return sum(seen), flops", "return len(seen), flops", "forward_needs_inputs",
         ["reverse passes"]),
        ("count_flops(plain_jacobian, lambda",
         "count_flops(lambda *a: [plain_jacobian(*a) for _ in '12'], lambda",
         "forward_needs_inputs", ["flops for an input"]),
        ("count_flops(plain_jacobian, lambda",
         "count_flops(lambda *a: [plain_jacobian(*a) for _ in '12'], lambda",
         "forward_needs_inputs", ["flops for an output"]),
        ("if m < n", "if m <= n", "forward_needs_inputs",
         ["fewer passes, and forward ones at a tie"]),
        ("(v.to(x),))[1]", "(v.to(x),))[0]", "hessian_vector", ["Hv"]),
        ("(v.to(x),))[1]", "(v.to(x),))[0]", "hessian_vector", ["differences of gradients"]),
        ("out = checkpoint_sequential(list(self)",
         "super().forward(input)\n        out = checkpoint_sequential(list(self)",
         "memory_for_time", ["operations, in those without"]),
        ("out = checkpoint_sequential(list(self)",
         "super().forward(input)\n        out = checkpoint_sequential(list(self)",
         "memory_for_time", ["forward passes more"]),
        ("checkpoint_sequential(list(self),", "checkpoint_sequential(list(self)[::-1],",
         "memory_for_time", ["gradient"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 7), (7, 1), (12, 5)])
def test_costs_are_those_counted_by_hand(n, m, device):
    A = normal(m, n).to(device)
    # A x takes n m multiply-adds, two operations each; so does a tangent, A v, or a row, u A
    for mode, passes in (("forward", n), ("reverse", m)):
        found, flops = jacobian_cost(lambda x: A @ x, normal(n, 1).to(device), mode)
        assert found == passes
        # forward mode may also multiply by the tangent of A, which is 0
        assert flops / (2 * n * m) - passes in ((1, 2) if mode == "forward" else (1,))


def test_costs_of_matrices_batches_and_derivatives_of_derivatives():
    net, X = network(4, 6, 3), normal(5, 4)
    assert jacobian_cost(net, X, "forward")[0] == 20
    assert jacobian_cost(net, X, "reverse")[0] == 15
    assert jacobian_cost(torch.vmap(net), X, "reverse")[0] == 15
    assert jacobian_cost(grad(lambda x: net(x).sum()), X[0], "forward")[0] == 4
    assert jacobian_cost(torch.tanh, X, "forward") == (20, 0)  # no products
    assert all(one.grad is None for one in net.parameters())


def test_the_best_mode_has_no_more_passes_than_the_other():
    for n, m in [(1, 1), (2, 9), (9, 2), (3, 4), (4, 3)]:
        net, x = network(n, 5, m), normal(n)
        passes = {mode: jacobian_cost(net, x, mode)[0] for mode in ("forward", "reverse")}
        assert passes[best_mode(n, m)] == min(passes.values())


def test_hessian_products_are_torchs():
    net, x, v = network(6, 9, 1), normal(6), normal(6, seed=1)
    exact = torch.autograd.functional.hvp(lambda x: net(x).sum(), x, v)[1]
    torch.testing.assert_close(hvp(lambda x: net(x).sum(), x, v), exact)
    torch.testing.assert_close(hvp(lambda x: (x**3).sum(), x.view(2, 3), v.view(2, 3)),
                               6 * (x * v).view(2, 3))
    single = net.float()
    found = hvp(lambda x: single(x).sum(), x.float(), v)  # v follows x
    torch.testing.assert_close(found, exact.float(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2 + x * x, lambda x: 2 - x, lambda x: x - 2, lambda x: 3 / (1 + x * x),
        lambda x: x / 4 + x / (x + 9), lambda x: (x * x + 1).log(), lambda x: (x * 2).tanh().exp(),
        lambda x: normal(3, 3) * x - normal(3, 3), lambda x: (normal(2, 3) @ x).exp(),
    ],
)
def test_dual_numbers_follow_every_rule_up_to_second_derivatives(f):
    x = normal(3, 1)
    one = torch.ones_like(x)
    along = torch.func.jvp(f, (x,), (one,))
    dual = f(DualNumber(x, one))
    torch.testing.assert_close((dual.value, dual.tangent), along)
    second = torch.func.jvp(lambda x: torch.func.jvp(f, (x,), (one,))[1], (x,), (one,))[1]
    nested = f(DualNumber(DualNumber(x, one), DualNumber(one, 0 * one)))
    torch.testing.assert_close(nested.tangent.tangent, second)


@pytest.mark.parametrize("layers", [1, 2, 7, 16])
def test_checkpointed_networks_have_the_same_names_outputs_and_gradients(layers):
    shared = nn.Tanh()  # one module in many places must run in all of them
    net = nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(3, 3), shared)))
    for number, one in enumerate(net.parameters()):
        one.data = normal(*one.shape, seed=number)
    x = normal(5, 3).requires_grad_()
    exact = torch.autograd.grad(net(x).square().sum(), [x, *net.parameters()])
    for segments in (None, 1, 2, 2 * layers):
        thrifty = checkpointed(net, segments)
        assert thrifty.state_dict().keys() == net.state_dict().keys()
        assert torch.equal(thrifty(x), net(x))
        found = torch.autograd.grad(thrifty(x).square().sum(), [x, *thrifty.parameters()])
        torch.testing.assert_close(found, exact)
    assert thrifty.segments == 2 * layers
    assert checkpointed(net).segments == round(math.sqrt(2 * layers))


def test_dropout_is_the_same_when_it_is_computed_again():
    net = nn.Sequential(*(part for _ in range(8) for part in (nn.Identity(), nn.Dropout(0.2))))
    x = torch.ones(50, requires_grad=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        out = checkpointed(net)(x)
        (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient, out)  # linear: the output for ones is the slope
    assert 0 < int((out == 0).sum()) < 50
    assert torch.equal(checkpointed(net.eval())(x), x)


def test_bad_input_is_told_in_one_sentence():
    whole, state = torch.arange(3), torch.zeros(3)

    def stateful(x):
        state.add_(x.detach())
        return (x * state).sum()

    for call in (lambda x: jacobian_cost(torch.sin, x, "forward"), lambda x: hvp(torch.sum, x, x)):
        with pytest.raises(UsageError, match=r"x must be a tensor of floats.*int64.*\.double\(\)"):
            call(whole)
    with pytest.raises(UsageError, match=r"DualNumber: value must be a tensor of floats"):
        DualNumber(whole, whole)
    with pytest.raises(UsageError, match="x must be a tensor of floats, not empty"):
        jacobian_cost(torch.sin, torch.zeros(0), "reverse")
    for mode in ("forward", "reverse"):
        with pytest.raises(UsageError, match=r"f must be a function that changes no .* net\.eval"):
            jacobian_cost(stateful, torch.ones(3), mode)
    with pytest.raises(UsageError, match=r"hvp: f must be a function that changes no tensor"):
        hvp(stateful, torch.ones(3), torch.ones(3))
    norm = nn.BatchNorm1d(3)
    with pytest.raises(UsageError, match=r"jacobian_cost: f must be a function that changes no"):
        jacobian_cost(norm, torch.ones(4, 3), "forward")
    assert jacobian_cost(norm.eval(), torch.ones(4, 3), "forward") == (12, 0)
    with pytest.raises(UsageError, match=r"mode must be one of 'forward', 'reverse'; got 'back'"):
        jacobian_cost(torch.sin, torch.ones(3), "back")
    with pytest.raises(UsageError, match=r"best_mode: n must be an integer in \[1, inf\); got 0"):
        best_mode(0, 3)
    with pytest.raises(UsageError, match=r"net must be an nn\.Sequential of layers; got 'MLP'"):
        checkpointed(network(3, 3))
    with pytest.raises(UsageError, match="segments must be at most the 1 layers; got 2"):
        checkpointed(nn.Sequential(nn.Tanh()), 2)
    with pytest.raises(UsageError, match=r"checkpointed: net must be free of state"):
        checkpointed(nn.Sequential(norm.train(), nn.Tanh()), 2)(torch.randn(4, 3))
    x = torch.ones(3)
    jacobian_cost(lambda x: x.mul_(2), x, "reverse")
    assert x.tolist() == [1, 1, 1], "what the function does to its input stays inside"
    with pytest.raises(RuntimeError, match="size"):  # other errors are the function's own
        jacobian_cost(lambda x: x @ torch.ones(4), x, "reverse")


def test_modes_agree_on_a_convolution():
    x = normal(1, 1, 5, 5)
    kernel = normal(2, 1, 3, 3)

    def f(x):
        return nn.functional.conv2d(x, kernel).tanh()

    exact = torch.autograd.functional.jacobian(f, x)
    torch.testing.assert_close(jacrev(f)(x), exact)
    assert jacobian_cost(f, x, "forward")[0] == 25
    assert jacobian_cost(f, x, "reverse")[0] == 18
