r"""Convolution over words: what is true of it, and what would refute it.

Knobs:
    width: Words in a window.
    step: By how many numbers a window moves over the text as one long vector.
    filters: Filters of each width.
    pool: What is kept of the answers to all windows.
    phrase: Whether the words of a phrase stay together.
    widths: Words in the windows of each kind of filter.
    keep: How many answers are kept.
    order: How the answers that are kept are sorted.
    rounding: To which whole number a share is rounded.
    top: How many answers the last layer keeps.
    dim: Length of a word vector.
    touched: Which words are exchanged: those before the context, or those within it.
    mode: Where word vectors come from, and which of them are learned.
"""

import math
from fractions import Fraction
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from principia.convolution.text_cnn import (
    ConvLM,
    DynamicCNN,
    KMaxPool,
    TextCNN,
    WordVectors,
    dynamic_k,
    embedding_share,
    top_ngrams,
)
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
)
from principia.lab.params import Range
from principia.lab.pictures import Plot, Words
from principia.lab.seeds import Seed

Few = Annotated[int, Range(2, 8)]


@claim(control={"step": "1"}, refutes=["answers"], source="Collobert et al. 2011; Kim 2014, sec. 2")
def window_form_is_conv1d(
    seed: Seed, *, width: Few = 3, filters: Few = 5, step: Literal["d", "1"] = "d"
) -> Evidence:
    r"""A linear map of $dw$ numbers, moved by $d$ over the words in a row, is a convolution."""
    rng, d, n = seed.torch(), 4, 11
    net = _random_net(rng, d, widths=(width, width + 1), filters=filters, classes=3)
    x = torch.randint(2, 40, (6, n), generator=rng)
    x[1:, -1] = 0  # the others end earlier
    x[2, 1:] = 0  # and this one is shorter than a window
    flat = cast(Any, net.words).learned.weight[F.pad(x, (0, 2))].flatten(1).detach()  # (B, nd)
    found, expected, maxima = net.answers(x), [], []
    for size, layer in zip((width, width + 1), _filters(net), strict=True):
        windows = flat.unfold(1, size * d, d if step == "d" else 1)[:, : n - size + 1]
        W = layer.weight.mT.flatten(1)  # (k, w d): the numbers of the first word first
        h_i = (windows @ W.mT + layer.bias).clamp(min=0)  # (B, n - w + 1, k)
        lengths = torch.tensor([n, n - 1, 1, n - 1, n - 1, n - 1])
        inside = torch.arange(n - size + 1) < (lengths - size + 1).clamp(min=1)[:, None]
        expected.append((h_i * inside[..., None]).mT)
        maxima.append(expected[-1].max(dim=-1).values)
    scores = torch.cat(maxima, dim=1) @ net.head.weight.mT + net.head.bias
    return every({
        "answers": equal_to_rounding(
            torch.cat([one.flatten() for one in found]),
            torch.cat([one.flatten() for one in expected]),
        ).drawn(
            Series("convolution", range(1, n - width + 2), found[0][0, 0]),
            Series(f"windows of the long vector, step {step}", range(1, n - width + 2),
                   expected[0][0, 0], "predicted"),
            x="place of the window", y="answer of one filter",
        ),
        "scores": equal_to_rounding(net(x), scores),
    })


def _random_net(
    rng: torch.Generator, d: int, *, classes: int = 2, vocab: int = 40, **how: Any
) -> TextCNN:
    """Make a model in float64 that has biases, too, for evaluation."""
    net = TextCNN(WordVectors(vocab, d, spread=1.0, rng=rng), classes, rng=rng, **how).double()
    for layer in (*_filters(net), net.head):
        layer.bias.data = 0.3 * randn(rng, *layer.bias.shape)
    return net.eval()


def _filters(net: TextCNN) -> list[Any]:
    return [*net.convolutions]


@claim(
    control={"pool": "mean"}, refutes=["silent words"],
    source="Collobert et al. 2011, sec. 3.3.2; Kim 2014, sec. 2",
)
def max_over_time_is_length_free(
    seed: Seed, *, filters: Few = 6, pool: Literal["max", "mean"] = "max"
) -> Evidence:
    """There is one number a filter for any length, and words that wake no filter change nothing."""
    rng, silent = seed.torch(), 39
    net = _random_net(rng, 3, widths=(2, 4), filters=filters)
    for layer in _filters(net):
        layer.weight.data.abs_()
    cast(Any, net.words).learned.weight.data[silent] = -100  # in a window, no filter answers
    x = torch.randint(2, silent, (1, 9), generator=rng)

    def features(x: Tensor) -> Tensor:
        if pool == "max":
            return net.features(x)[0].detach()
        return torch.cat([h.mean(dim=-1) for h in net.answers(x)], dim=1)[0].detach()

    more = [0, 1, 2, 5, 10, 20]
    longer = [F.pad(x, (0, k), value=silent) for k in more]
    values = torch.stack([features(one) for one in longer])
    short = torch.tensor([[7, 0, 0], [7, 8, 0], [9, 4, 11]])
    alone = torch.stack([features(row[row != 0][None]) for row in short])
    together = net.features(F.pad(short, (0, 30))).detach()
    biased = _random_net(rng, 3, widths=(2,), filters=2)
    _filters(biased)[0].bias.data += 5.0  # so that a window of nothing would speak
    pair = biased.features(torch.tensor([[4, 6, 0, 0, 0], [5, 6, 7, 8, 9]]))[0]
    return every({
        "silent words": equal(
            values, values[:1].expand_as(values), tol=0, why="the same windows"
        ).drawn(
            *[Series(f"filter {k + 1}", more, values[:, k], "other", "line") for k in range(4)],
            x="silent words behind the text", y=f"feature: {pool} of the answers",
        ),
        "sizes": equal(
            [*(net.features(one).shape[1] / 2 for one in longer),
             *(one.shape[2] for one in net.answers(F.pad(x, (0, 9))))],
            [filters] * 6 + [8, 6], tol=0, why="k, and windows within the text",
        ),
        "in a batch": equal_to_rounding(together, alone if pool == "max" else together),
        "padding is silent": equal_to_rounding(pair, biased.features(torch.tensor([[4, 6]]))[0]),
    })


@claim(control={"phrase": "split"}, source="Kim 2014, sec. 2")
def position_does_not_matter(
    seed: Seed, *, width: Annotated[int, Range(2, 4)] = 3,
    phrase: Literal["whole", "split"] = "whole",
) -> Evidence:
    """A phrase that moves within a text leaves the features alone, as long as it stays whole."""
    rng, n, filler = seed.torch(), 20, 5
    net = _random_net(rng, 6, widths=(width,), filters=8)
    words = torch.randperm(30, generator=rng)[:3] + 8
    places = range(width - 1, n - 3 - width)
    texts = torch.full((len(places), n), filler)
    for row, place in zip(texts, places, strict=True):
        row[place : place + 3] = words
        if phrase == "split" and place > places[0]:
            row[place + 2 : place + 4] = torch.tensor([filler, int(words[2])])
    z = net.features(texts).detach()
    h = net.answers(texts)[0].detach()
    best = int((h[0].amax(dim=1) - h[0, :, 0]).argmax())  # the filter that likes the phrase most
    return equal(
        z, z[:1].expand_as(z), tol=1e-12, why="the same windows, summed in float64"
    ).named("features, against those at the first place").drawn(
        *[
            Series(f"phrase at word {places[k] + 1}", range(1, h.shape[2] + 1), h[k, best],
                   "other", "line")
            for k in (0, len(places) // 2, len(places) - 1)
        ],
        Series("largest answer", [1, h.shape[2]], [float(z[0, best])] * 2, "bound", "line"),
        x="window", y="answer of one filter",
    )


@claim(
    control={"widths": (1,)}, refutes=["precision", "accuracy"],
    source="Kim 2014; Zhang and Wallace 2017",
)
def filters_detect_ngrams(
    seed: Seed, *, widths: tuple[Annotated[int, Range(1, 5)], ...] = (3,)
) -> Evidence:
    """Where the order of three words decides, the loudest windows are the phrases that decide.

    Args:
        widths: Words in the windows; one word does not see an order.
    """
    rng, count, n = seed.torch(), 600, 10
    phrases = torch.tensor([[2, 3, 4], [5, 6, 7], [8, 9, 10]])
    x = torch.randint(11, 40, (count, n), generator=rng)
    y = torch.arange(count) % 2
    which = torch.randint(3, (count,), generator=rng)
    place = torch.randint(n - 2, (count, 1), generator=rng) + torch.arange(3)
    turns = torch.tensor([[2, 0, 1], [1, 2, 0], [0, 2, 1], [1, 0, 2], [2, 1, 0]])
    mixed = phrases[which].gather(1, turns[torch.randint(5, (count,), generator=rng)])
    x.scatter_(1, place, torch.where(y[:, None] == 1, phrases[which], mixed))
    words = WordVectors(40, 12, spread=1.0, rng=rng)
    net = TextCNN(words, widths=widths, filters=12, dropout=0.0, rng=rng)
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    orders = torch.cat([torch.randperm(count, generator=rng) for _ in range(16)])
    for rows in orders.split(50):
        adam.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        adam.step()
    accuracy = float((net.eval()(x).argmax(dim=1) == y).double().mean())
    _, places = top_ngrams(net, x, 50)
    text, start, _ = places[1].T
    grams = x[text[:, None], (start[:, None] + torch.arange(3)).clamp(max=n - 1)]
    planted = (grams[:, None] == phrases).all(dim=2).any(dim=1)
    shown = " ".join(" ".join(f"w{one}" for one in gram.tolist()) for gram in grams[:8])
    marks = planted[:8].double().repeat_interleave(3)
    return every({
        "precision": at_least(planted.double().mean(), 0.9, why="the statement, of 50 windows"),
        "accuracy": at_least(accuracy, 0.9, why="far above one half, which order alone decides"),
        "of every width and class": equal_to_rounding(*_loudest_by_hand(rng)),
    }).pictured(Plot(
        (Words(shown.split(), marks, width=24, low=0.0, high=1.0),),
        title="loudest windows; phrases that decide in color", bare=True,
    ))


def _loudest_by_hand(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rank all windows of a few texts, one by one, for each of three classes."""
    net = _random_net(rng, 3, widths=(2, 3), filters=4, classes=3).train()  # whatever its mode
    x = torch.randint(2, 40, (4, 6), generator=rng)
    said, places = top_ngrams(net, x, 7)
    answers, A = [h.detach() for h in net.answers(x)], net.head.weight.detach()
    A = (A - A.mean(dim=0)).unflatten(1, (2, 4))
    rows = []
    for k in range(3):
        found = [
            (float((answers[which][text, :, start] * A[k, which]).max()), text, start, width)
            for which, width in enumerate((2, 3)) for text in range(4)
            for start in range(6 - width + 1)
        ]
        rows.append(sorted(found, reverse=True)[:7])
    both = torch.cat([said[..., None], places.double()], dim=2)
    return both, torch.tensor(rows, dtype=torch.float64)


@claim(
    control={"order": "by size"}, refutes=["KMaxPool"],
    source="Kalchbrenner, Grefenstette and Blunsom 2014, sec. 3.3",
)
def kmax_keeps_order(
    seed: Seed, *, keep: Annotated[int, Range(2, 10)] = 4,
    order: Literal["as they came", "by size"] = "as they came",
) -> Evidence:
    """The k largest answers of a filter are kept in the order in which they came."""
    rng = seed.torch()
    h = randn(rng, 20, 3, 12)
    kept = KMaxPool(keep)(h)
    rows = h.flatten(0, 1).numpy()
    places = np.argsort(rows, axis=1)[:, ::-1][:, :keep]  # the largest first
    places = np.sort(places, axis=1) if order == "as they came" else places
    expected = np.take_along_axis(rows, places, axis=1)
    words = WordVectors(40, 8, spread=1.0, rng=rng)
    deep = DynamicCNN(words, 3, maps=(2, 3), widths=(4, 2), top=3, rng=rng).double().eval()
    weights = [cast(Tensor, one.weight).detach() for one in deep.convolutions]
    scales = torch.cat([one.square().flatten() * one[0].numel() / 2 for one in weights])
    silent = [float(one.detach().abs().sum()) for one in deep.biases]
    silent += [one.bias is not None for one in deep.convolutions]
    for bias in (*deep.biases, deep.head.bias):
        bias.data = 0.5 * randn(rng, *bias.shape)
    x = torch.randint(2, 40, (4, 13), generator=rng)
    for row, length in enumerate((13, 9, 4, 1)):
        x[row, length:] = 0
    by_hand = torch.stack([_dynamic_by_hand(deep, row[row != 0]) for row in x])
    return every({
        "KMaxPool": equal(kept.flatten(0, 1), expected, tol=0, why="the same numbers").drawn(
            Series("all answers", range(1, 13), h[0, 0], "gray", "line"),
            Series(f"{keep} largest", places[0] + 1, expected[0], "predicted", "points"),
            Series(f"KMaxPool, {order}", np.sort(places[0]) + 1, kept[0, 0], "measured", "line"),
            x="window", y="answer of one filter",
        ),
        "DynamicCNN": equal_to_rounding(deep(F.pad(x, (0, 3))), by_hand),
        "first weights": mean_is(scales, 1, why="squares of normal numbers, He's law"),
        "first biases": equal(silent, 0, tol=0, why="by construction"),
    })


def _dynamic_by_hand(net: DynamicCNN, words: Tensor) -> Tensor:
    """Compute one text alone, row by row and map by map."""
    rows: Any = [[row] for row in cast(Any, net.words).learned.weight[words].mT.detach().numpy()]
    for layer, convolution in enumerate(net.convolutions, start=1):
        W = cast(Any, convolution).weight.detach().numpy()  # (rows maps, maps before, width)
        maps, bias = len(W) // len(rows), net.biases[layer - 1].detach().numpy()
        wide: Any = [
            [sum(np.correlate(line, W[maps * number + one, before], "full")
                 for before, line in enumerate(lines)) for one in range(maps)]
            for number, lines in enumerate(rows)
        ]
        folded = [
            [a + b for a, b in zip(*pair, strict=True)]
            for pair in zip(wide[::2], wide[1::2], strict=True)
        ]
        share = Fraction(len(net.widths) - layer, len(net.widths)) * len(words)
        k = max(net.top, math.ceil(share))
        rows = [
            [np.tanh(line[np.sort(np.argsort(line)[::-1][:k])] + bias[maps * number + one])
             for one, line in enumerate(lines)]
            for number, lines in enumerate(folded)
        ]
    flat = [np.pad(line, (0, net.top - len(line))) for lines in rows for line in lines]
    return net.head(torch.tensor(np.concatenate(flat))).detach()


@claim(
    control={"rounding": "down"}, refutes=["formula"],
    source="Kalchbrenner, Grefenstette and Blunsom 2014, sec. 3.4",
)
def dynamic_k_formula(
    seed: Seed, *, top: Annotated[int, Range(1, 10)] = 3, rounding: Literal["up", "down"] = "up"
) -> Evidence:
    r"""$k_l=\max(k_{top},\operatorname{ceil}\frac{L-l}Ls)$: 18 words keep 12, 6, 3."""
    lengths, round_ = range(1, 61), math.ceil if rounding == "up" else math.floor
    found, expected = (
        [[[one(layer, layers, s) for s in lengths] for layer in range(1, layers + 1)]
         for layers in (2, 3, 5)]
        for one in (
            lambda layer, layers, s: dynamic_k(layer, layers, s, top),
            lambda layer, layers, s: max(top, round_(Fraction(layers - layer, layers) * s)),
        )
    )
    return every({
        "formula": equal(
            np.concatenate(found), np.concatenate(expected), tol=0, why="whole numbers"
        ).drawn(
            *[Series(f"layer {k + 1} of 3", lengths, found[1][k], "other", "steps")
              for k in range(3)],
            Series(f"formula, rounded {rounding}", [*lengths] * 3, np.concatenate(expected[1]),
                   "predicted", "points"),
            x="words s of the text", y="answers that are kept",
        ),
        "18 words": equal(
            [*(dynamic_k(layer, 3, 18, 3) for layer in (1, 2, 3)), dynamic_k(1, 1, 9)],
            [12, 6, 3, 4], tol=0, why="the example of the paper, and what is usual",
        ),
    })


@claim(control={"dim": 8, "filters": 1000}, refutes=["share"], source="Kim 2014, table 1, CNN-rand")
def embedding_holds_the_parameters(
    seed: Seed, *, dim: Annotated[int, Range(4, 500)] = 300,
    filters: Annotated[int, Range(10, 1000)] = 100,
) -> Evidence:
    """With the 18,765 words of the movie reviews, 94 % of the numbers are word vectors."""
    vocabulary = 18_765
    with torch.device("meta"):
        nets = {V: TextCNN(WordVectors(V, dim), filters=filters)
                for V in (100, 300, 1000, 3000, 10_000, vocabulary)}
        usual = TextCNN(WordVectors(vocabulary))
        twice = TextCNN(WordVectors(
            50, 8, vectors=torch.empty(50, 8), mode="multichannel"), widths=(2,), filters=3)
    rest = sum(w * dim * filters + filters for w in (3, 4, 5)) + 2 * 3 * filters + 2
    shares = [embedding_share(net) for net in nets.values()]
    predicted = [V * dim / (V * dim + rest) for V in nets]
    total = sum(one.numel() for one in usual.parameters())
    return every({
        "share": at_least(shares[-1], 0.9, why="the statement: over 90 %").drawn(
            Series("embedding_share", [*nets], shares),
            Series("V d / (V d + rest)", [*nets], predicted, "predicted"),
            x="words V of the vocabulary", y="share of the parameters", log="x",
        ),
        "formula": equal_to_rounding(shares, predicted),
        "by default": equal(
            total, vocabulary * 300 + 12 * 300 * 100 + 300 + 602, tol=0, why="a count: 6.0 million"
        ),
        "kept ones count": equal_to_rounding(
            embedding_share(twice), 800 / (800 + 2 * 8 * 3 + 3 + 6 + 2)
        ),
    })


@claim(control={"touched": "within"}, refutes=["earlier words"], source="Collobert et al. 2011")
def next_word_is_a_softmax_of_products(
    seed: Seed, *, touched: Literal["before", "within"] = "before"
) -> Evidence:
    r"""$P(w_{t+1}\mid w)=\mathrm{softmax}(y^\top z_w)$ with $y$ from the last words alone."""
    rng, context, n = seed.torch(), 5, 12
    net = ConvLM(WordVectors(30, 6, rng=rng), context=context, filters=7, rng=rng).double()
    x = torch.randint(2, 30, (8, n), generator=rng)
    logits = net(x).detach()
    y = torch.tanh(net.reader(x[:, n - context :])).detach()
    products = torch.stack([torch.stack([one @ z for z in net.out.weight]) for one in y]).detach()
    changes = []
    for place in range(n):
        other = x.clone()
        other[:, place] = 2 + (x[:, place] - 1) % 28
        changes.append(float((net(other) - logits).detach().abs().max()))
    early = changes[: n - context] if touched == "before" else changes[n - context :]
    usual = ConvLM(WordVectors(2000, 60, rng=rng), rng=rng)
    many = usual.out.weight.detach()
    return every({
        "earlier words": equal(early, 0, tol=0, why="they are not looked at").drawn(
            Series("largest change of a logit", range(1, n + 1), changes, style="bars"),
            x=f"word that is exchanged; the last {context} are the context", y="change",
        ),
        "last words": at_least(changes[-context:], 1e-6, why="far above rounding"),
        "products": equal_to_rounding(logits, products),
        "by default": equal(
            [usual.context, *usual.reader.widths, usual.reader.head.in_features,
             usual.reader.dropout.p, usual.out.bias is None], [8, 2, 3, 200, 0, 1], tol=0,
            why="as documented",
        ),
        "first products": mean_is(60 * many.flatten().square(), 1, why="variance 1/d"),
    })


@claim(
    control=[
        Control({"mode": "static"}, ["moves"], "vectors that are kept"),
        Control({"mode": "rand"}, ["starts as given"], "vectors that are drawn"),
    ],
    source="Kim 2014, sec. 3.1",
)
def vectors_are_learned_or_kept(
    seed: Seed, *, mode: Literal["rand", "static", "nonstatic", "multichannel"] = "multichannel"
) -> Evidence:
    """Given vectors can be kept, learned, or both: two channels start alike, one of them moves."""
    rng, x = seed.torch(), torch.tensor([[5, 6, 0], [1, 7, 5]])
    given = randn(rng, 20, 4)
    words = WordVectors(
        20, 4, vectors=None if mode == "rand" else given, mode=mode, rng=rng
    ).double()
    start = words(x).detach()
    if words.learned is not None:
        words(x).sum().backward()
        words.learned.weight.data -= words.learned.weight.grad
    moved = (words(x) - start).detach()
    drawn = WordVectors(5000, 8, rng=rng)
    table = cast(Any, drawn.learned).weight.detach()[1:].double()
    dropping = WordVectors(3, 1, drop=0.3, spread=1.0, rng=rng)
    cast(Any, dropping.learned).weight.data = torch.tensor([[0.0], [1.0], [2.0]])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        many = dropping(torch.tensor([[2, 0]]).repeat(20_000, 1)).detach()[..., 0]
    words_seen = (x != 0)[..., None].expand_as(start)
    expected = torch.where(words_seen, (1 + (mode == "multichannel")) * given[x], 0)
    return every({
        "starts as given": equal_to_rounding(start, expected).drawn(
            Series("at first", range(1, 25), start.flatten()),
            Series("given, once a channel", range(1, 25), expected.flatten(), "predicted",
                   "points"),
            Series("after a step", range(1, 25), (start + moved).flatten(), "other", "line"),
            x="number of the vectors of six words", y="number in the vector",
        ),
        "moves": at_most(moved[words_seen], -0.5, why="half a step of length 1"),
        "no word": equal(torch.cat([start[0, 2], moved[0, 2]]), 0, tol=0, why="no vector"),
        "drawn": mean_is(
            torch.stack([table, table.square()], 2).flatten(0, 1), [0, 0.25**2 / 3],
            why="moments of uniform numbers",
        ),
        "dropped": mean_is((many[:, 0] == 1).double(), 0.3, why="a share of words"),
        "not dropped": equal(
            [many[:, 1].abs().sum(), dropping.eval()(torch.full((1, 99), 2)).detach().sum()],
            [0, 198], tol=0, why="where there is no word, and out of training",
        ),
    })
