from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, RMSprop

from planting import assert_caught, passes, passes_on_sound_page
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.optimization import effective_lr, online_regret

KEY = "optimization/adagrad"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("lr / (state[name].sqrt() + group", "lr / (state[name] + group",
         "effective_rate_only_falls"),
        ('("sum", "square_avg")', '("step", "square_avg")', "effective_rate_only_falls"),
        ("p.detach().clamp_(*box)", "pass", "regret_bound"),
        ("slopes * (p.detach() - comparator)", "slopes * (p.detach() + comparator)",
         "regret_bound"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("lr / (state[name].sqrt() + group", "lr / (state[name] + group",
         "rare_features_keep_large_steps", ["rate"]),
        ("slopes * (p.detach() - comparator)", "slopes * p.detach()", "regret_bound",
         ["the sum of what is lost"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("claim", ["torch_is_the_formula", "invariant_to_diagonal_scaling"])
def test_claims_about_torch_catch_a_sum_that_does_not_begin_at_0(claim, monkeypatch):
    broken = partial(Adagrad, initial_accumulator_value=1.0)
    assert passes_on_sound_page(KEY, claim)
    monkeypatch.setattr(page(KEY).load("claims"), "Adagrad", broken)
    assert not passes(page(KEY).claim(claim))


def test_only_the_rows_of_words_that_were_seen_move():
    words = nn.Embedding(5, 2, sparse=True)
    before, adagrad = words.weight.detach().clone(), Adagrad(words.parameters(), lr=0.1)
    with torch.sparse.check_sparse_tensor_invariants(False):
        words(torch.tensor([1, 3])).sum().backward()
        adagrad.step()
    moved = (words.weight.detach() != before).any(dim=1)
    assert moved.tolist() == [False, True, False, True, False]
    torch.testing.assert_close(effective_lr(adagrad)[0][1], torch.full((2,), 0.1))


def test_the_effective_rate_is_what_a_step_is_multiplied_by():
    rng = torch.Generator().manual_seed(0)
    for kind, options in ((Adagrad, {"lr_decay": 0.1}), (Adagrad, {}), (RMSprop, {"alpha": 0.9})):
        p = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        optimizer = kind([p], lr=0.3, **options)
        for _ in range(5):
            before, p.grad = p.detach().clone(), torch.randn(4, generator=rng).double()
            optimizer.step()
            torch.testing.assert_close(
                p.detach() - before, -effective_lr(optimizer)[0] * p.grad, atol=1e-12, rtol=0
            )


def test_regret_is_the_sum_of_differences():
    p = nn.Parameter(torch.zeros(3))
    slopes = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    u, theta, lost = torch.tensor([0.5, -0.5, 1.0]), torch.zeros(3), torch.zeros(3)
    found = online_regret(SGD([p], lr=0.2), slopes, u, (-1.0, 1.0))
    for t, g in enumerate(slopes):
        lost = lost + g * (theta - u)
        theta = (theta - 0.2 * g).clamp(-1, 1)
        torch.testing.assert_close(found[t], lost)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda p: effective_lr(SGD([p], lr=1.0)), "effective_lr: optimizer must be an Adagrad"),
        (lambda p: effective_lr(Adagrad([p], lr=1.0)), None),
        (lambda p: online_regret(SGD([p], lr=1.0), torch.ones(4, 2), torch.ones(2)),
         "online_regret: optimizer must be of one parameter"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    p = nn.Parameter(torch.ones(3))
    if sentence is None:  # torch makes the sums at once: the rate is infinite up to eps
        assert (wrong(p)[0] > 1e9).all()
        return
    with pytest.raises(UsageError, match=sentence):
        wrong(p)


def test_torch_refuses_what_it_cannot_do():
    p = nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="lr_decay"):
        Adagrad([p], lr_decay=-1.0)
    words = nn.Embedding(5, 2, sparse=True)
    words(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="weight_decay"):
        Adagrad(words.parameters(), weight_decay=0.1).step()
