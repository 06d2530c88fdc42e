import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.alexnet import (
    TORCHVISION,
    AlexNet,
    alexnet_features,
    response_norm,
    small_alexnet,
)
from principia.convolution.experiments.alexnet import areas, pictures
from principia.convolution.layer import multiply_adds
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.runs.models import load_model, save_model
from principia.lab.seeds import Seed

KEY = "convolution/alexnet"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(**settings):
    features = alexnet_features(2, (4, 8, 12, 8, 4), kernel=5, stride=2)
    return AlexNet(features, size=60, hidden=16, classes=3, **settings)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("alpha=maps * alpha", "alpha=alpha", "lrn_is_the_formula"),
        ("second, third, 3, padding=1)", "second, third, 3, padding=1, groups=columns)",
         "parameter_count"),
        ("*norms[0], nn.MaxPool2d(3, 2),\n        undrawn(nn.Conv2d, first",
         "*norms[0], nn.MaxPool2d(2, 2),\n        undrawn(nn.Conv2d, first",
         "overlapping_pool_size"),
        ("hidden: PositiveInt = 4096", "hidden: PositiveInt = 256", "dense_layers_dominate"),
        ("stride: PositiveInt = 4", "stride: PositiveInt = 5", "first_map_needs_227"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("classes: PositiveInt = 1000", "classes: PositiveInt = 1001", "parameter_count",
         ["by default", "one column", "names and shapes of torchvision"]),
        ("width // shrink", "width // 4", "parameter_count", ["small pictures"]),
        ("kernel=5, stride=1", "kernel=7, stride=1", "parameter_count", ["small pictures"]),
        ("undrawn(nn.Linear, hidden, hidden), nn.ReLU()",
         "undrawn(nn.Linear, hidden, hidden), nn.Identity()", "parameter_count",
         ["column by column"]),
        ("nn.Dropout(dropout), undrawn(nn.Linear, inputs",
         "nn.Dropout(0.5), undrawn(nn.Linear, inputs", "parameter_count", ["dropout"]),
        ('initialize_(self, "he", rng=rng)', 'initialize_(self, "lecun", rng=rng)',
         "parameter_count", ["variance of the start"]),
        ("stride=stride, padding=padding)", "stride=stride)", "first_map_needs_227",
         ["torchvision, padded by 2"]),
        ("size: PositiveInt = 227", "size: PositiveInt = 228", "first_map_needs_227",
         ["by default"]),
        ("stride: PositiveInt = 4", "stride: PositiveInt = 2", "first_map_needs_227",
         ["smallest pictures"]),
        ("beta=beta, k=k", "beta=beta", "lrn_is_the_formula", ["other constants"]),
        ("1000 if bias is None else len(bias)", "1000", "parameter_count", []),
        ("normalize=False\n            )\n            net = cls(features, size=224",
         "normalize=False\n            )\n            net = cls(features, size=225",
         "parameter_count", ["taken from torchvision, with 7 classes"]),
        ('initialize_(self, "he", rng=rng)', 'initialize_(self, "he")', "parameter_count",
         ["drawn where it is said"]),
        ("5, stride=1, padding=2,\n        normalize=False", "5, stride=1, padding=2",
         "parameter_count", ["normalizations"]),
        ("window - 2 * padding\n    return side", "window - padding\n    return side",
         "first_map_needs_227", []),
        ("if x.shape[1:] != self.shape", "if x.shape[1:3] != self.shape[:2]",
         "first_map_needs_227", ["what is refused"]),
        ("if size < smallest", "if size < smallest - 1", "first_map_needs_227", []),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_columns_do_not_see_each_other_until_the_third_convolution():
    features = alexnet_features(3, (8, 16, 24, 16, 8), normalize=False)
    for one in features.parameters():
        nn.init.uniform_(one, -0.1, 0.1, generator=generator())
    x = torch.rand(1, 3, 227, 227, generator=generator())
    middle = features[:3](x[:, :, :99, :99]).detach().requires_grad_()  # two columns of 4 maps
    up = features[3:6](middle.clone())
    up[:, :8].sum().backward()
    assert middle.grad[:, :4].any()
    assert not middle.grad[:, 4:].any()
    middle.grad = None
    features[6](features[3:6](middle.clone()))[:, :12].sum().backward()
    assert middle.grad[:, 4:].any()


def test_response_norm_of_one_map_is_a_power():
    a = torch.linspace(-3, 3, 7, dtype=torch.float64).view(1, 7, 1)
    found = response_norm(1, alpha=2.0, beta=0.5, k=3.0)(a)
    torch.testing.assert_close(found, a / (3 + 2 * a**2).sqrt())


@pytest.mark.parametrize("as_file", [False, True])
def test_weights_of_torchvision_are_taken(tmp_path, as_file):
    given, ends = {}, zip((0, 3, 6, 8, 10), (3, *TORCHVISION[:4]), TORCHVISION, (11, 5, 3, 3, 3),
                          strict=True)
    for place, before, after, window in ends:
        given[f"features.{place}.weight"] = torch.full((after, before, window, window), 0.01)
        given[f"features.{place}.bias"] = torch.full((after,), float(place))
    for place, before, after in ((1, 9216, 4096), (4, 4096, 4096), (6, 4096, 7)):
        given[f"classifier.{place}.weight"] = torch.zeros(after, before)
        given[f"classifier.{place}.bias"] = torch.arange(float(after))
    source = given
    if as_file:
        source = tmp_path / "alexnet.safetensors"
        save_file(given, source)
    before = torch.get_rng_state()
    net = AlexNet.from_torchvision(source)
    assert torch.equal(torch.get_rng_state(), before)
    state = net.state_dict()
    assert all(torch.equal(state[name], one) for name, one in given.items())
    assert net.eval()(torch.rand(1, 3, 224, 224)).tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    del given["features.3.bias"]
    with pytest.raises(UsageError, match=r"^AlexNet\.from_torchvision: weights must be the 16 "
                       r"tensors of the model; got '1 missing, first features\.3\.bias'\.$"):
        AlexNet.from_torchvision(given)


def test_counting_takes_no_memory_and_draws_nothing():
    before = torch.get_rng_state()
    with torch.device("meta"):
        net = AlexNet()
    assert all(one.is_meta for one in net.parameters())
    assert torch.equal(torch.get_rng_state(), before)
    uses = multiply_adds(net, (3, 227, 227))
    assert uses["features.0"] == 96 * 3 * 11**2 * 55**2
    assert uses["features.4"] == 256 * 48 * 5**2 * 27**2  # half of the maps for each column


def test_dropout_acts_in_training_only_and_a_generator_draws_the_weights():
    net, again = (tiny(rng=generator(3)) for _ in range(2))
    assert all(map(torch.equal, net.state_dict().values(), again.state_dict().values()))
    before = torch.get_rng_state()
    tiny(rng=generator())
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.rand(8, 2, 60, 60)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_gradients_reach_every_parameter():
    net = tiny(rng=generator(), dropout=0.0)
    F.cross_entropy(net(torch.rand(8, 2, 60, 60)), torch.arange(8) % 3).backward()
    assert all(one.grad is not None and one.grad.any() for one in net.parameters())


def test_models_come_back_from_disk(tmp_path):
    net, x = small_alexnet(rng=generator()).eval(), torch.rand(3, 1, 28, 28)
    save_model(tmp_path, net, {}, KEY, x[:1])
    again, _ = load_model(tmp_path)
    assert torch.equal(again(x), net(x))


def test_hero_turns_red_where_dense_layers_own_little():
    def colors(**knobs):
        return {one.role for one in areas.function(Seed(0), **knobs).plots[1].series}

    assert colors() == colors(columns=1, size=259) == {"blue", "orange"}
    assert colors(hidden=64) == {"blue", "red"}


def test_learner_takes_pictures_of_any_size():
    for shape in ((1, 8, 8), (3, 64, 50), (1, 28, 28)):
        model = pictures.function(shape, 7, generator(), dropout=0.2)
        assert model(torch.rand(2, *shape)).shape == (2, 7)


def test_experiment_can_leave_the_comparison_out():
    run = Run()
    outcome = page(KEY).experiments()["fashion_alexnet"](run, epochs=1, beside=0, limit=300)
    assert set(outcome.metrics) == {"test_accuracy"}
    assert set(outcome.figures) == {"kernels"}
    assert len(run.curves["alexnet"]) == 1


def test_bad_input_is_told_in_one_sentence():
    with torch.device("meta"):
        with pytest.raises(UsageError) as refused:
            AlexNet(size=66)
        assert str(refused.value) == (
            "AlexNet: size must be at least 67; got 66. For small pictures there is small_alexnet."
        )
        AlexNet(size=67)
    with pytest.raises(UsageError, match=r"^AlexNet: images must be of shape \(B, 2, 60, 60\); got "
                       r"\(1, 2, 60, 59\)\. Resize or crop them, or build"):
        tiny()(torch.zeros(1, 2, 60, 59))
    with pytest.raises(UsageError, match=r"alexnet_features: widths must be five numbers of maps, "
                       r"each a multiple of the 2 columns; got \(4, 8, 12, 8\)\."):
        alexnet_features(1, (4, 8, 12, 8))
    with pytest.raises(UsageError, match=r"widths must be five numbers of maps"):
        alexnet_features(1, (4, 8, 12, 8, 5))
    with pytest.raises(UsageError, match=r"response_norm: maps must be odd, with as many on each "
                       r"side; got 4\."):
        response_norm(4)
    with pytest.raises(UsageError, match=r"size must be an integer in \[15, inf\); got 14"):
        small_alexnet(size=14)
