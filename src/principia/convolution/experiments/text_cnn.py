r"""Convolution over words: what it reaches on data."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor
from torch.nn import functional as F

from principia.convolution.text_cnn import (
    UNKNOWN,
    TextCNN,
    WordVectors,
    embedding_share,
    top_ngrams,
)
from principia.lab.data.documentation import documentation_by_topic
from principia.lab.data.reviews import reviews
from principia.lab.draws import randn
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Panels, Plot, Rule, Series, Words
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import (
    EMA,
    EarlyStopping,
    Supervised,
    accuracy,
    evaluate,
    fit,
    outputs_of,
)
from principia.regularization.norm_constraint import MaxNorm

PHRASE = ("not", "worth", "your", "time")
AROUND = ("this", "film", "about", "a", "dog", "and", "its", "farm", "is", "on", "tonight")
BETWEEN = ("really", "quite", "all")
SURE = 0.75  # share of the window's words from which on the filter believes in its phrase


@hero(moves="place", frames=12)
def phrase_finder(
    seed: Seed, *, place: Annotated[int, Range(0, len(AROUND))] = 4,
    width: Annotated[int, Range(2, 4)] = 4,
    inserted: Annotated[int, Range(0, len(BETWEEN))] = 0,
) -> Panels:
    """The largest answer finds a phrase wherever it stands; one word inserted, and it is gone.

    Args:
        place: How many words of the text stand before the phrase.
        width: How many words of the phrase the filter looks for, as many as its window has.
        inserted: Words inserted into the phrase, behind its first one.
    """
    phrase = [PHRASE[0], *BETWEEN[:inserted], *PHRASE[1:]]
    text = [*AROUND[:place], *phrase, *AROUND[place:]]
    known = [*dict.fromkeys((*PHRASE, *AROUND, *BETWEEN))]
    numbers = {word: number + 2 for number, word in enumerate(known)}
    vocab = len(numbers) + 2
    vectors = torch.eye(vocab) + 0.05 * randn(seed.torch(), vocab, vocab).float()
    rng = torch.Generator()
    words = WordVectors(vocab, vocab, vectors=vectors, mode="static", rng=rng)
    net = TextCNN(words, widths=(width,), filters=1, rng=rng).eval()
    layer: Any = net.convolutions[0]
    wanted = vectors[[numbers[one] for one in PHRASE[:width]]]
    with torch.no_grad():
        layer.weight.copy_(wanted.mT / width)  # answers with the share that fits
        layer.bias.zero_()
        net.head.weight.copy_(torch.tensor([[20.0], [-20.0]]))
        net.head.bias.copy_(torch.tensor([-20.0, 20.0]) * (1 + SURE) / 2)
        x = torch.tensor([[numbers[word] for word in text]])
        h, chance = net.answers(x)[0][0, 0], float(net(x).softmax(dim=1)[0, 0])
    best = int(h.argmax())
    glow = F.max_pool1d(F.pad(h, (width - 1, width - 1))[None], width, 1)[0]  # of its best window
    found, longest = chance > 0.5, len(AROUND) + len(PHRASE) + len(BETWEEN)
    color = "green" if found else "red"
    sentence = Plot(
        (Words(text, glow**3, width=26, low=0.0, high=1.0),), title="words, by their best window",
        bare=True,
    )
    curve = Plot(
        (
            Rule("the phrase is there", y=(1 + SURE) / 2),
            Series("answers", range(1, len(h) + 1), h, "gray", "line"),
            Series("largest", [best + 1], [float(h[best])], color, "points"),
        ),
        x="first word of the window", y="share of the phrase", title="one filter, all windows",
        x_range=(0.5, longest + 0.5), y_range=(-0.1, 1.15),
    )
    bar = Plot(
        (
            Series("panned", ["panned"], [chance], "green", "bars"),
            Series("not panned", ["not panned"], [1 - chance], "red", "bars"),
        ),
        y="probability", y_range=(0, 1.05), title="phrase found" if found else "phrase missed",
    )
    return Panels((sentence, curve, bar))


def words_of(text: str) -> list[str]:
    """Take a text apart into words, endings such as n't and 's, and marks.

    Example:
        >>> words_of("It isn't Bambi's best...")
        ['it', 'is', "n't", 'bambi', "'s", 'best', '.', '.', '.']
    """
    return re.findall(r"n't|'\w+|\w+(?=n't)|\w+|[^\w\s]", text.lower())


def numbered(texts: Sequence[str], vocabulary: dict[str, int]) -> Tensor:
    """Give the words of texts their numbers, 0 behind the end, 1 where they are unknown."""
    rows = [[vocabulary.get(one, UNKNOWN) for one in words_of(text)] for text in texts]
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def topics() -> tuple[list[str], Tensor, list[str]]:
    """Load sentences of ten large topics that do not contain each other, and their topics."""
    parts = {
        name: {
            " ".join(one.split()) for one in re.split(r"(?<=[.:;])\s+|\n\s*\n", text)
            if 8 <= len(one.split()) <= 40
        }
        for name, text in documentation_by_topic().items()
    }
    seen: set[str] = set()
    chosen: dict[str, list[str]] = {}
    for name in sorted(parts, key=lambda name: -len(parts[name])):
        new = parts[name] - seen
        if len(new) > len(parts[name]) / 2 and len(chosen) < 10:
            chosen[name] = sorted(new)
            seen |= new
    texts = [text for its in chosen.values() for text in its]
    labels = [label for label, its in enumerate(chosen.values()) for _ in its]
    return texts, torch.tensor(labels), [*chosen]


@experiment(
    reaches={"accuracy": at_least_goal(0.751), "above_ngrams": at_least_goal(-0.033)},
    floor={"accuracy": at_least_goal(0.65)},
    source="Kim (2014), table 2, CNN-rand on MR: 76.1 %, less one point for three folds of ten; "
    "there a classifier of words and pairs of words has 79.4 % (Wang and Manning 2012): no farther "
    "below our own logistic regression on such n-grams",
)
def movie_reviews(
    run: Run, *, folds: Annotated[int, Range(1, 10)] | None = None,
    epochs: Annotated[int, Range(1, 50)] | None = None,
    dim: Annotated[int, Range(4, 500)] | None = None,
    filters: Annotated[int, Range(4, 500)] = 100,
    widths: tuple[Annotated[int, Range(1, 9)], ...] = (3, 4, 5),
    drop: Annotated[float, Range(0, 0.9)] = 0.2,
) -> None:
    """Tells good reviews from bad ones, or of which topic of Python's reference a sentence is.

    A tenth of the texts is the test of a fold; of the rest a tenth decides when to stop. Without
    vectors that were learned elsewhere, counts of words and pairs of words are hard to beat.

    Args:
        folds: How many of ten folds are tested; by default 3, in a quick run 1.
        epochs: How often the texts are gone through at most; by default 12, in a quick run 8.
        dim: Length of a word vector; by default 300, in a quick run 64.
        filters: Filters of each width; a quick run has a third of them.
        widths: Words in a window.
        drop: Probability with which a word is exchanged for the unknown one in training.
    """
    if run.full:
        texts, labels = reviews(data_dir=run.data_dir)
        names = ["negative", "positive"]
    else:
        texts, labels, names = topics()
        filters = -(-filters // 3)
    folds, epochs = folds or (3 if run.full else 1), epochs or (12 if run.full else 8)
    dim = dim or (300 if run.full else 64)
    order = torch.randperm(len(texts), generator=run.seed.child("folds").torch())
    right: list[float] = []
    plain: list[float] = []
    for fold in range(folds):
        own = run.seed.child(f"fold {fold}")
        parts = [*order.tensor_split(10)]
        test, rest = parts.pop(fold), torch.cat(parts)
        held, rows = rest[: len(rest) // 10], rest[len(rest) // 10 :]
        counts = Counter(word for row in rest.tolist() for word in words_of(texts[row]))
        vocabulary = {word: number + 2 for number, (word, _) in enumerate(counts.most_common())}
        x = numbered(texts, vocabulary)
        rng = own.child("init").torch()
        words = WordVectors(len(vocabulary) + 2, dim, drop=drop, rng=rng)
        net = TextCNN(words, len(names), widths=widths, filters=filters, rng=rng)
        fit(
            net, (x[rows], labels[rows]), Supervised(F.cross_entropy),
            torch.optim.AdamW(net.parameters(), 1e-3 if run.full else 5e-3, weight_decay=0.05),
            epochs=epochs, batch_size=50, validation=(x[held], labels[held]),
            metrics={"accuracy": accuracy}, seed=own, run=run, name=f"fold-{fold}",
            callbacks=[
                EMA(0.99 if run.full else 0.95), MaxNorm(3.0),
                EarlyStopping("validation_accuracy", better="higher", patience=3),
            ],
        )
        found = evaluate(net, (x[test], labels[test]), {"accuracy": accuracy}, batch_size=256)
        right.append(found["accuracy"])
        plain.append(_by_ngrams(texts, labels, rest.tolist(), test.tolist()))
        if not fold:
            net.cpu()
            run.keep(net, example=x[test][:1])
            run.record(embedding_share=embedding_share(net))
            few = x[rest[:2000]]
            run.figure("phrases", _phrases(net, few, [texts[one] for one in rest[:2000]], names))
            run.figure("widths", _by_width(net, x[test], labels[test]))
    run.record(accuracy=sum(right) / folds, ngrams=sum(plain) / folds)
    run.record(above_ngrams=(sum(right) - sum(plain)) / folds)
    run.figure("folds", Plot((
        Series("filters over words", range(1, folds + 1), right),
        Series("logistic regression on n-grams", range(1, folds + 1), plain, "other", "points"),
    ), "fold", "test accuracy"))


def _by_ngrams(
    texts: Sequence[str], labels: Tensor, rows: Sequence[int], test: Sequence[int]
) -> float:
    """Measure a logistic regression on which words and pairs of words a text has."""
    counts = CountVectorizer(
        tokenizer=words_of, token_pattern=None, lowercase=False, ngram_range=(1, 2), binary=True
    )
    model = make_pipeline(counts, LogisticRegression(max_iter=1000))
    model.fit([texts[one] for one in rows], labels[rows])
    return float(model.score([texts[one] for one in test], labels[test]))


def _phrases(net: TextCNN, x: Tensor, texts: Sequence[str], names: Sequence[str]) -> Panels:
    """Draw the phrases that speak most strongly for each class, each phrase once."""
    said, places = top_ngrams(net, x, 60)
    plots = []
    found: Any = zip(names[:4], said.tolist(), places.tolist(), strict=False)
    for name, values, windows in found:
        best: dict[str, float] = {}
        for value, (row, start, width) in zip(values, windows, strict=True):
            phrase = " ".join(words_of(texts[int(row)])[start : start + width])
            best[phrase] = max(value, best.get(phrase, 0.0))
        top = sorted(best.items(), key=lambda pair: -pair[1])[:8]
        bars = Series(name, [one for one, _ in top], [value for _, value in top], style="bars")
        plots.append(Plot((bars,), y="answer times weight", title=name))
    return Panels(tuple(plots), columns=2)


def _by_width(net: TextCNN, x: Tensor, y: Tensor) -> Plot:
    """Draw how well a trained model does when only the filters of one width speak."""
    shares, weight = [], net.head.weight.detach().clone()
    each = weight.unflatten(1, (len(net.widths), -1))
    for kept in range(len(net.widths)):
        alone = torch.zeros_like(each)
        alone[:, kept] = each[:, kept]
        net.head.weight.data = alone.flatten(1)
        shares.append(float(accuracy(outputs_of(net, x, 256), y)))
    net.head.weight.data = weight
    together = float(accuracy(outputs_of(net, x, 256), y))
    return Plot(
        (
            Series("alone", [f"{width} words" for width in net.widths], shares, style="bars"),
            Rule("all widths", y=together),
        ),
        "filters that speak", "test accuracy", y_range=(0, 1),
    )
