import pytest
import torch
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.experiments.text_cnn import numbered, topics, words_of
from principia.convolution.text_cnn import (
    ConvLM,
    DynamicCNN,
    KMaxPool,
    MaxOverTime,
    TextCNN,
    WordVectors,
    dynamic_k,
    embedding_share,
    top_ngrams,
)
from principia.lab.params import UsageError
from principia.lab.runs.models import load_model, save_model

KEY = "convolution/text_cnn"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def small(**how):
    rng = generator()
    return TextCNN(WordVectors(30, 6, rng=rng), **{"widths": (2, 3), "filters": 4, **how}, rng=rng)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("h = convolution(e).relu()", "h = convolution(e.flip(-1)).relu()",
         "window_form_is_conv1d"),
        ("return h.amax(dim=-1)", "return h.mean(dim=-1)", "max_over_time_is_length_free"),
        ("return h.amax(dim=-1)", "return h[..., 2]", "position_does_not_matter"),
        ("torch.stack([text, start,", "torch.stack([text, start + 1,", "filters_detect_ngrams"),
        ("order = places.masked_fill(beyond, h.shape[-1])", "order = -places", "kmax_keeps_order"),
        ("-((layer - layers) * length // layers)", "(layers - layer) * length // layers",
         "dynamic_k_formula"),
        ("return inside / total", "return inside / (total + inside)",
         "embedding_holds_the_parameters"),
        ("self.reader(x[:, -self.context :])", "self.reader(x)",
         "next_word_is_a_softmax_of_products"),
        ("self.kept = nn.Buffer(start.clone())", "self.kept = nn.Buffer(2 * start)",
         "vectors_are_learned_or_kept"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return torch.cat([self.pool(h) for h", "return torch.cat([2 * self.pool(h) for h",
         "window_form_is_conv1d", ["scores"]),
        ("(lengths - width + 1).clamp(min=1)", "(lengths + 1).clamp(min=1)",
         "max_over_time_is_length_free", ["padding is silent"]),
        ("lengths = ((x != PADDING) * places).amax(dim=1)",
         "lengths = torch.full((len(x),), x.shape[1])", "max_over_time_is_length_free",
         ["in a batch"]),
        ("in self.answers(x)]", "in self.answers(x)[:1]]", "max_over_time_is_length_free",
         ["sizes"]),
        ("weights = model.head.weight - model.head.weight.mean(dim=0)",
         "weights = model.head.weight", "filters_detect_ngrams", ["of every width and class"]),
        ("h = h.masked_fill(~_first(h, lengths), -torch.inf)", "pass", "kmax_keeps_order",
         ["DynamicCNN"]),
        ('"he", rng=rng)\n\n    def forward', '"glorot", rng=rng)\n\n    def forward',
         "kmax_keeps_order", ["first weights"]),
        ("torch.zeros(n * own) for", "torch.ones(n * own) for", "kmax_keeps_order",
         ["first biases"]),
        ("length: PositiveInt, top: PositiveInt = 4", "length: PositiveInt, top: PositiveInt = 5",
         "dynamic_k_formula", ["18 words"]),
        ("return inside / total", "return inside / (total + 1)",
         "embedding_holds_the_parameters", ["formula", "kept ones count"]),
        ("dim: PositiveInt = 300", "dim: PositiveInt = 299", "embedding_holds_the_parameters",
         ["by default"]),
        ("self.reader(x[:, -self.context :])", "self.reader(x[:, -1 :])",
         "next_word_is_a_softmax_of_products", ["last words"]),
        ("y = torch.tanh(self.reader", "y = torch.relu(self.reader",
         "next_word_is_a_softmax_of_products", ["products"]),
        ("context: PositiveInt = 8", "context: PositiveInt = 7",
         "next_word_is_a_softmax_of_products", ["by default"]),
        ('"lecun", rng=rng)', '"he", rng=rng)', "next_word_is_a_softmax_of_products",
         ["first products"]),
        ("start[PADDING] = 0", "start[PADDING] = 1", "vectors_are_learned_or_kept", ["no word"]),
        ("start.uniform_(-spread, spread", "start.uniform_(-2 * spread, spread",
         "vectors_are_learned_or_kept", ["drawn"]),
        ("< self.drop)", "> self.drop)", "vectors_are_learned_or_kept", ["dropped"]),
        (" & (x != PADDING)", "", "vectors_are_learned_or_kept", ["not dropped"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_filters_are_a_convolution_in_two_dimensions():
    # as in the code of the paper: a picture of T x d numbers, and kernels as wide as it is
    net, x = small().eval(), torch.randint(2, 30, (5, 9), generator=generator(1))
    e = net.words(x)[:, None]
    maxima = [
        F.conv2d(e, one.weight.mT[:, None], one.bias).relu().amax(dim=(2, 3))
        for one in net.convolutions
    ]
    torch.testing.assert_close(net.features(x), torch.cat(maxima, dim=1))
    torch.testing.assert_close(net(x), F.linear(torch.cat(maxima, dim=1), *net.head.parameters()))


def test_maximum_and_k_largest_are_those_of_torch():
    h = torch.randn(4, 3, 8, generator=generator())
    torch.testing.assert_close(MaxOverTime()(h), F.max_pool1d(h, 8)[..., 0])
    torch.testing.assert_close(KMaxPool(1)(h)[..., 0], MaxOverTime()(h))
    torch.testing.assert_close(KMaxPool(8)(h), h)
    kept = KMaxPool(3)(h)
    torch.testing.assert_close(kept.sort(dim=-1).values, h.topk(3).values.flip(-1))


@pytest.mark.parametrize("kind", [TextCNN, DynamicCNN])
def test_an_answer_does_not_depend_on_the_batch(kind):
    words = WordVectors(30, 8, rng=generator())
    net = kind(words, 3, rng=generator(1)).eval()
    texts = [torch.randint(2, 30, (n,), generator=generator(n)) for n in (1, 3, 8, 20)]
    padded = torch.stack([F.pad(one, (0, 33 - len(one))) for one in texts])
    alone = torch.cat([net(one[None]) for one in texts])
    torch.testing.assert_close(net(padded), alone)


def test_gradients_reach_every_parameter_and_not_the_padding():
    x = torch.tensor([[5, 6, 7, 8, 9, 3], [2, 4, 1, 0, 0, 0]])
    for net in (
        small(), DynamicCNN(WordVectors(30, 8), maps=(2, 3), widths=(3, 2)),
        ConvLM(WordVectors(30, 8), context=4, filters=9),
    ):
        net(x).square().sum().backward()
        assert all(one.grad is not None and one.grad.any() for one in net.parameters())
        table = next(one for one in net.modules() if isinstance(one, nn.Embedding))
        assert not table.weight.grad[0].any()


def test_channels_start_alike_and_one_of_them_is_kept():
    given = torch.randn(30, 4, generator=generator())
    x = torch.tensor([[5, 6, 0]])
    words = WordVectors(30, 4, vectors=given, mode="multichannel")
    torch.testing.assert_close(words(x)[0, :2], 2 * given[5:7])
    assert [name for name, _ in words.named_parameters()] == ["learned.weight"]
    assert not [*WordVectors(30, 4, vectors=given, mode="static").parameters()]
    assert given[0].any()  # what was given is left as it was


def test_first_weights_are_drawn_from_the_rng_alone():
    state = torch.get_rng_state()
    one, two = small(), small()
    assert torch.equal(torch.get_rng_state(), state)
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    wide = TextCNN(WordVectors(10, 50, rng=generator()), filters=200, rng=generator())
    for layer in wide.convolutions:
        fan_in = 50 * layer.kernel_size[0]
        assert float(layer.weight.detach().var()) == pytest.approx(2 / fan_in, rel=0.05)
        assert not layer.bias.any()


def test_the_loudest_windows_are_found():
    net = TextCNN(WordVectors(9, 8, vectors=torch.eye(9)[:, 1:], mode="static"), widths=(2,),
                  filters=2)
    with torch.no_grad():
        for one in net.parameters():
            one.zero_()
        net.convolutions[0].weight[0, 4, 0] = net.convolutions[0].weight[0, 5, 1] = 1.0  # 5, 6
        net.convolutions[0].weight[1, 1, 0] = 0.5  # 2, and anything
        net.head.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    said, places = top_ngrams(net, torch.tensor([[3, 5, 6, 0], [2, 3, 4, 7]]), 1)
    assert places.tolist() == [[[0, 1, 2]], [[1, 0, 2]]]
    assert said.tolist() == [[2.0], [0.5]]
    assert net.training


def test_it_comes_back_from_disk(tmp_path):
    net = small(classes=3)
    save_model(tmp_path, net, {})
    back, _ = load_model(tmp_path)
    x = torch.tensor([[5, 6, 7]])
    assert torch.equal(back.eval()(x), net.eval()(x))


def test_words_of_a_text_and_their_numbers():
    assert words_of("It isn't Bambi's best...") == [
        "it", "is", "n't", "bambi", "'s", "best", ".", ".", "."]
    x = numbered(["a b", "b c a"], {"a": 2, "b": 3})
    assert x.tolist() == [[2, 3, 0], [3, 1, 2]]


def test_topics_are_ten_and_share_no_sentence():
    texts, labels, names = topics()
    assert len(names) == 10
    assert len({*texts}) == len(texts) == len(labels)
    assert int(labels.bincount().min()) > 30


def test_bad_input_is_told_in_one_sentence():
    net = small()
    with pytest.raises(UsageError, match=(
        r"^TextCNN: x must be texts of one word or more; got 'none in row 1'\. Leave empty texts"
    )):
        net(torch.tensor([[5, 6], [0, 0]]))
    with pytest.raises(UsageError, match=(
        r"^WordVectors: x must be of numbers from 0 to 29; got 'numbers from 0 to 30'\. 1 stands"
    )):
        net(torch.tensor([[5, 30]]))
    assert net(torch.tensor([[5]])).shape == (1, 2)  # shorter than any window
    with pytest.raises(UsageError, match=r"^TextCNN: widths must be one or more values, each"):
        small(widths=())
    with pytest.raises(UsageError, match=(
        r"^WordVectors: vectors must be given where mode is static, nonstatic or multichannel, and "
        r"only there; got 'static'\.$"
    )):
        WordVectors(5, 2, mode="static")
    with pytest.raises(UsageError, match=r"^WordVectors: vectors must be of shape \(5, 2\); got"):
        WordVectors(5, 2, vectors=torch.zeros(4, 2), mode="static")
    with pytest.raises(UsageError, match=r"^KMaxPool: h must be 4 places or more; got 3\."):
        KMaxPool(4)(torch.zeros(1, 2, 3))
    with pytest.raises(UsageError, match=r"^dynamic_k: layer must be one of the 3 layers, from 1"):
        dynamic_k(4, 3, 18)
    with pytest.raises(UsageError, match=r"^DynamicCNN: widths must be 2 values, one a layer; got"):
        DynamicCNN(WordVectors(5, 4), maps=(1, 2), widths=(2,))
    with pytest.raises(UsageError, match=r"^DynamicCNN: words must be of a length divisible by 4"):
        DynamicCNN(WordVectors(5, 6))
    with pytest.raises(UsageError, match=r"^embedding_share: model must be one with WordVectors"):
        embedding_share(nn.Linear(2, 2))
