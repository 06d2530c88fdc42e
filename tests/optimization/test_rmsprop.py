import pytest
import torch
from torch.optim import RMSprop

from planting import assert_caught, passes, passes_on_sound_page
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.training.optimizers import steps_along
from principia.optimization import rmsprop_reference

KEY = "optimization/rmsprop"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("v = rho * v + (1 - rho) * g**2", "v = rho * v + g**2", "torch_is_the_formula"),
        ("else v.sqrt() + eps)", "else v.sqrt())", "torch_is_the_formula"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("rho: Annotated[float, Range(0, 1, open=\"high\")] = 0.99",
         "rho: Annotated[float, Range(0, 1, open=\"high\")] = 0.9", "torch_is_the_formula",
         ["defaults", "one gradient"]),
        ("((v + eps).sqrt() if", "(v.sqrt() if", "torch_is_the_formula",
         ["under the root, as a sum"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"momentum": 0.1}, "accumulator_is_an_average"),
        ({"eps": 1e-3}, "invariant_to_loss_scale"),
        ({"momentum": 0.1}, "is_adam_without_momentum"),
        ({"momentum": 0.1}, "forgets_old_gradients"),
    ],
)
def test_claims_about_torch_catch_another_method(change, claim, monkeypatch):
    def broken(params, **options):
        return RMSprop(params, **options | change)

    assert passes_on_sound_page(KEY, claim)
    monkeypatch.setattr(page(KEY).load("claims"), "RMSprop", broken)
    assert not passes(page(KEY).claim(claim))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.99])
def test_the_accumulator_is_the_weighted_sum_of_all_squares(rho):
    g = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    t = torch.arange(30)
    weights = (1 - rho) * rho ** (t[:, None] - t).clamp(min=0).double() * (t[:, None] >= t)
    steps = -0.1 * g / ((weights @ g**2).sqrt() + 1e-3)
    torch.testing.assert_close(rmsprop_reference(g, 0.1, rho, 1e-3), steps)
    theirs = steps_along(torch.optim.RMSprop, g, lr=0.1, alpha=rho, eps=1e-3)
    torch.testing.assert_close(theirs, steps)


def test_rho_must_be_below_one():
    with pytest.raises(UsageError, match=r"rmsprop_reference: rho must be in \[0, 1\); got 1"):
        rmsprop_reference(torch.ones(2, 1), rho=1.0)
