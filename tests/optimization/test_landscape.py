import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, prune

from planting import assert_caught
from principia.lab.params import UsageError
from principia.networks.mlp import MLP
from principia.optimization import (
    BezierPath,
    LotteryTicket,
    barrier,
    perturbation_sharpness,
    rescale_relu,
    sharpness,
)

KEY = "optimization/landscape"


def mlp(*sizes, seed=0, **options):
    return MLP(sizes, rng=torch.Generator().manual_seed(seed), **options).double()


def problem(*shape, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return (torch.randn(one, generator=rng, dtype=torch.float64) for one in shape)


def step_once(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("named_parameters()))[1][0])", "named_parameters()))[0][0])",
         "sharpness_is_not_invariant"),
        ("method.compute_mask(sizes[here], mask[here])", "mask[here]", "rewind_is_exact"),
        ("twin = copy.deepcopy(model)\n", "twin = model\n", "rewind_is_exact"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("rho * F.normalize(ways, dim=1)", "0 * F.normalize(ways, dim=1)",
         "sharpness_is_not_invariant", ["rise of a round parabola"]),
        ("scaled.layers[layer].weight /= alpha", "scaled.layers[layer].weight *= 1",
         "sharpness_is_not_invariant", ["outputs", "at least the next layer's"]),
        ("compute_mask(sizes[here], mask", "compute_mask(1 / sizes[here], mask", "rewind_is_exact",
         ["the smallest go"]),
        ('"weight", mask)', '"weight", mask.clamp(min=0.5))', "rewind_is_exact",
         ["the others after training"]),
        ("c.lerp_(one, 0.5)", "c.lerp_(one, 0.0)", "modes_are_connected",
         ["points of a path, by hand"]),
        ("float(torch.rand((), generator=rng))", "float(torch.rand((), generator=rng)) ** 2",
         "modes_are_connected", ["t is uniform"]),
        ("torch.lerp(losses[0], losses[-1], t.to(losses))", "losses[0] - 1", "modes_are_connected",
         ["barrier of the straight line"]),
        ("parameter *= alpha", "parameter *= alpha**0.5", "sharpness_is_not_invariant", ["units"]),
        ("float(moved(steps).max())", "float(moved(steps).mean())", "sharpness_is_not_invariant",
         ["of 500 ways from one that is not, and of a plane"]),
        ("directions: PositiveInt = 100", "directions: PositiveInt = 20",
         "sharpness_is_not_invariant", ["100 ways by default"]),
        ("1, points", "points, 1", "modes_are_connected", ["points of a path, by hand"]),
        ("parameters_to_vector(a.parameters()).detach()", "parameters_to_vector(a.parameters())",
         "modes_are_connected", ["training of the ends"]),
        ("ways = torch.randn(", "ways = torch.rand(", "sharpness_is_not_invariant",
         ["of 500 ways from one that is not, and of a plane"]),
        ("layer: PositiveInt = 1)", "layer: PositiveInt = 2)", "sharpness_is_not_invariant",
         ["units"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_sharpness_is_the_top_of_the_dense_hessian():
    model, (x, y) = mlp(4, 5, 3, activation="tanh"), problem((20, 4), (20, 3))
    shapes = {name: one.shape for name, one in model.named_parameters()}

    def loss(flat):
        parts = flat.split([one.numel() for one in shapes.values()])
        named = {name: p.view(s) for (name, s), p in zip(shapes.items(), parts, strict=True)}
        return F.mse_loss(torch.func.functional_call(model, named, (x,)), y)

    dense = torch.autograd.functional.hessian(loss, parameters_to_vector(model.parameters()))
    top = torch.linalg.eigvalsh(dense)[-1].item()
    assert sharpness(model, F.mse_loss, x, y) == pytest.approx(top, rel=1e-3)


def test_random_directions_of_a_parabola_rise_by_what_the_eigenvalues_allow():
    line, (x,) = nn.Linear(2, 1, bias=False).double(), problem((50, 2))
    y = line(x).detach()
    low, high = torch.linalg.eigvalsh(x.mT @ x / 50) * 0.3**2
    rng = torch.Generator().manual_seed(0)
    found = perturbation_sharpness(line, F.mse_loss, x, y, rho=0.3, directions=500, rng=rng)
    assert found == pytest.approx(high.item(), rel=1e-3)  # some of 500 directions in the plane
    single = perturbation_sharpness(line, F.mse_loss, x, y, rho=0.3, directions=1, rng=rng)
    assert low.item() <= single <= high.item()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "identity"])
@pytest.mark.parametrize("layer", [1, 2])
def test_rescaling_multiplies_the_units_and_keeps_the_function(activation, layer):
    model, (x,) = mlp(3, 6, 5, 2, activation=activation), problem((10, 3))
    scaled = rescale_relu(model, 7.0, layer)
    torch.testing.assert_close(scaled(x), model(x))
    units, before = scaled.activations(x)[layer], model.activations(x)[layer]
    torch.testing.assert_close(units, 7 * before)


def test_a_path_is_bernsteins_parabola_and_straight_before_training():
    a, b = mlp(3, 4, 2, seed=1), mlp(3, 4, 2, seed=2)
    path, (x,) = BezierPath(a, b), problem((10, 3))
    ends = list(zip(a.parameters(), b.parameters(), strict=True))
    for t in (0.0, 0.3, 1.0):
        for found, (one, other) in zip(path.point(t).values(), ends, strict=True):
            torch.testing.assert_close(found, (1 - t) * one + t * other)
    middle = [torch.randn_like(one) for one in path.middle.parameters()]
    with torch.no_grad():
        for one, c in zip(path.middle.parameters(), middle, strict=True):
            one.copy_(c)
    for found, (one, other), c in zip(path.point(0.25).values(), ends, middle, strict=True):
        first, last = 0.75 * one + 0.25 * c, 0.75 * c + 0.25 * other  # de Casteljau
        torch.testing.assert_close(found, 0.75 * first + 0.25 * last)
    path(x, 0.5).sum().backward()
    assert all(one.grad is not None for one in path.middle.parameters())
    assert all(one.grad is None for one in a.parameters())
    assert all(name.startswith("middle.") for name, _ in path.named_parameters())


def test_batch_statistics_are_those_of_the_point():
    def net(seed):
        return nn.Sequential(mlp(3, 4, seed=seed), nn.BatchNorm1d(4), nn.Tanh(), mlp(4, 1, seed=9))

    a, b = net(1).double(), net(2).double()
    (x, y), path, t = problem((200, 3), (200, 1)), BezierPath(a, b), torch.tensor([0.0, 0.3, 1.0])
    found = path.losses(F.mse_loss, x, y, t)
    for one, loss in zip(t.tolist(), found, strict=True):
        model = copy.deepcopy(path.middle)
        model.load_state_dict(path.point(one), strict=False)
        out = model.train()(x)  # normalizes by the batch itself, up to n / (n - 1)
        assert loss.item() == pytest.approx(F.mse_loss(out, y).item(), rel=0.01)
    assert not path.middle[1].running_mean.any()


def test_the_barrier_of_a_double_well():
    class Well(nn.Module):
        def __init__(self, place):
            super().__init__()
            self.place = nn.Parameter(torch.tensor([place], dtype=torch.float64))

        def forward(self, x):
            return (self.place**2 - 1) ** 2 * x

    one = torch.ones(1, dtype=torch.float64)
    path = BezierPath(Well(-1.0), Well(1.0))
    assert barrier(path, F.l1_loss, one, 0 * one) == pytest.approx(1.0)
    assert barrier(BezierPath(Well(1.0), Well(1.0)), F.l1_loss, one, 0 * one) == 0


@pytest.mark.parametrize("scope", ["global", "layer"])
def test_masks_are_those_of_torch_prune(scope):
    x, y = problem((30, 6), (30, 3))
    lottery = LotteryTicket(lambda: mlp(6, 20, 3), 3, prune=0.4, scope=scope)
    theirs = None
    for ticket in lottery:
        if theirs is not None:
            for mine, mask in zip(ticket.masks.values(), theirs, strict=True):
                assert torch.equal(mine, mask)
        step_once(ticket.model, x, y)
        ticket.model(x)
        twin = mlp(6, 20, 3)
        pairs = [(one, "weight") for one in twin.layers]
        with torch.no_grad():
            for layer, trained in zip(twin.layers, ticket.model.layers, strict=True):
                layer.weight.copy_(trained.weight)
        for (layer, name), mask in zip(pairs, ticket.masks.values(), strict=True):
            prune.custom_from_mask(layer, name, mask)
        if scope == "global":
            prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.4)
        else:
            for layer, name in pairs:
                prune.l1_unstructured(layer, name, amount=0.4)
        theirs = [layer.weight_mask for layer, _ in pairs]


def test_tickets_stay_as_they_were_and_masks_fit_another_start():
    x, y = problem((30, 6), (30, 3))
    tickets = []
    for ticket in LotteryTicket(lambda: mlp(6, 20, 3), 2, prune=0.5):
        step_once(ticket.model, x, y)  # weight decay, too, leaves pruned weights at 0
        tickets.append(ticket)
    assert [round(one.sparsity, 2) for one in tickets] == [0, 0.5, 0.75]
    for ticket, left in zip(tickets, (180, 90, 45), strict=True):
        ticket.model(x)
        weights = torch.cat([one.weight.flatten() for one in ticket.model.layers])
        assert weights.count_nonzero() == left
        other = mlp(6, 20, 3, seed=5)
        masked = ticket.on(other)
        layers = zip(masked.layers, other.layers, ticket.masks.values(), strict=True)
        assert all(torch.equal(one.weight, own.weight * mask) for one, own, mask in layers)
    fresh = mlp(6, 20, 3).state_dict()
    assert all(torch.equal(tickets[-1].initial[name], one) for name, one in fresh.items())


def test_convolutions_are_pruned_and_norms_are_not():
    def net():
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))

    first, second = LotteryTicket(net, 1)
    assert list(first.masks) == ["0.weight", "3.weight"]
    assert second.sparsity == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: rescale_relu(mlp(2, 3, 1, activation="tanh"), 2.0),
         "rescale_relu: the activation must be positively homogeneous; got 'tanh'. ReLU is"),
        (lambda: rescale_relu(mlp(2, 3, 1), 2.0, 2), "layer must be a hidden layer, 1 to 1; got 2"),
        (lambda: rescale_relu(mlp(2, 3, 1), 0.0), r"alpha must be in \(0, inf\); got 0"),
        (lambda: LotteryTicket(MLP, prune=1.0), r"LotteryTicket: prune must be in \(0, 1\); got 1"),
        (lambda: LotteryTicket(MLP, prune=0.0), r"LotteryTicket: prune must be in \(0, 1\); got 0"),
        (lambda: BezierPath(mlp(2, 3, 1), mlp(2, 4, 1)),
         "BezierPath: b must be a network with the parameters of a"),
        (lambda: BezierPath(mlp(2, 1), mlp(2, 1, 1)), "BezierPath: b must be"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong()
