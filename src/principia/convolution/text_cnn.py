r"""Convolution over words: filters that look for phrases, wherever in the text they stand.

Words become vectors, and a filter looks at a few neighbors at a time, as one long vector: it is a
soft phrase, and answers the more strongly the better a window fits. The maximum over all windows
asks whether the phrase is anywhere in the text; it has one number a filter, however long the text
is, and does not care where. What cares is order within the window: the same words apart, or the
other way round, are another phrase. Filters of several widths and one linear layer classify
sentences nearly as well as much larger models. Where more than one hit should count, the $k$
largest answers are kept in their order, fewer from layer to layer. Most of the parameters are in
none of this, but in the table of word vectors.

$$ h_i = \max\big(0,\ W[e_i,\dots,e_{i+w-1}]+b\big)\in\mathbb R^k, \quad
z = \max_{1\le i\le n-w+1}h_i, \quad p(y\mid x) = \mathrm{softmax}(Az+c) $$

$$ k_l = \max\Big(k_{top},\ \operatorname{ceil}\frac{L-l}Ls\Big), \quad
P(w_{t+1}\mid w_1,\dots,w_t) = \mathrm{softmax}(y^\top z_w) $$

Symbols:
    $e_i$: vector of word number $i$, from `WordVectors`; $d$ numbers, `dim`
    $w$: words in a window, one of `widths`
    $W, b$: filters over the $dw$ numbers of a window, `convolutions`; there are $k$, `filters`
    $n, s$: number of words of a text
    $h_i, z$: answers to window $i$, `answers`, and their maxima, `features`
    $A, c$: the linear layer, `head`
    $k_l, k_{top}$: how many answers layer $l$ of $L$ keeps, `dynamic_k`, and the last one, `top`
    $y, z_w$: what `ConvLM` makes of a context, and its vector of the word $w$, a row of `out`

References:
    Collobert, Weston, Bottou, Karlen, Kavukcuoglu and Kuksa (2011), Natural language processing
        (almost) from scratch. Journal of Machine Learning Research 12. arXiv:1103.0398
    Kim (2014), Convolutional neural networks for sentence classification. EMNLP. arXiv:1408.5882
    Kalchbrenner, Grefenstette and Blunsom (2014), A convolutional neural network for modelling
        sentences. ACL. arXiv:1404.2188
    Pang and Lee (2005), Seeing stars: exploiting class relationships for sentiment categorization
        with respect to rating scales. ACL. arXiv:cs/0506075
    Zhang and Wallace (2017), A sensitivity analysis of (and practitioners' guide to) convolutional
        neural networks for sentence classification. IJCNLP. arXiv:1510.03820
"""

__all__ = [
    "TextCNN", "WordVectors", "MaxOverTime", "KMaxPool", "DynamicCNN", "ConvLM", "dynamic_k",
    "top_ngrams", "embedding_share",
]

from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import NonNegativeFloat, PositiveInt, UnitInterval, checked, usage_error
from principia.lab.training import evaluated
from principia.regularization.initialization import initialize_

PADDING, UNKNOWN = 0, 1  # numbers of no word, and of every word that is not in the vocabulary
Texts = Int[Tensor, "B T"]
Widths = tuple[PositiveInt, ...]


@final
class WordVectors(nn.Module):
    r"""Looks words up: each number of the vocabulary has a vector, that of no word is 0.

    Shapes:
        x: (B, T), numbers of words, 0 behind the end of a text; returns (B, T, dim)

    Args:
        vocab: Size of the vocabulary, with 0 for no word and 1 for an unknown word.
        dim: $d$, length of a vector.
        vectors: Vectors (vocab, dim) that were learned elsewhere.
        mode: Drawn and learned (rand); given and kept (static); given and learned (nonstatic); or
            the sum of two channels that start alike, one kept, one learned (multichannel).
        drop: Probability with which a word is exchanged for the unknown one in training.
        spread: Vectors are drawn uniformly from $\pm$ this.
        rng: Draws the vectors; by default torch's global generator, which drops words, too.

    Example:
        >>> words = WordVectors(100, 8)
        >>> e = words(torch.tensor([[5, 7, 1, 0]]))
        >>> e.shape, e[0, 3].tolist() == 8 * [0.0]
        (torch.Size([1, 4, 8]), True)
    """

    @checked
    def __init__(
        self, vocab: PositiveInt, dim: PositiveInt = 300, *, vectors: Tensor | None = None,
        mode: Literal["rand", "static", "nonstatic", "multichannel"] = "rand",
        drop: UnitInterval = 0.0, spread: NonNegativeFloat = 0.25,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if (vectors is None) != (mode == "rand"):
            domain = "given where mode is static, nonstatic or multichannel, and only there"
            got = mode if vectors is None else "rand"
            raise usage_error("WordVectors", "vectors", domain, got)
        if vectors is not None and vectors.shape != (vocab, dim):
            got = tuple(vectors.shape)
            raise usage_error("WordVectors", "vectors", f"of shape {(vocab, dim)}", got)
        self.vocab, self.dim, self.drop = vocab, dim, drop
        device = torch.get_default_device()
        start = torch.empty(vocab, dim, device=device) if vectors is None else vectors.clone()
        if vectors is None:
            start.uniform_(-spread, spread, generator=rng)
        start[PADDING] = 0
        self.kept = nn.Buffer(start.clone()) if mode in ("static", "multichannel") else None
        self.learned: Any = None
        if mode != "static":
            self.learned = undrawn(
                nn.Embedding, vocab, dim, padding_idx=PADDING, dtype=start.dtype
            )
            self.learned.weight.data.copy_(start)

    def forward(self, x: Texts) -> Float[Tensor, "B T D"]:
        """Look up the vector of each word."""
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.vocab:
            domain = f"of numbers from 0 to {self.vocab - 1}"
            ends = f"numbers from {int(x.min())} to {int(x.max())}"
            hint = f"{UNKNOWN} stands for a word that is not in the vocabulary."
            raise usage_error("WordVectors", "x", domain, ends, hint)
        if self.training and self.drop:
            dropped = (torch.rand(x.shape, device=x.device) < self.drop) & (x != PADDING)
            x = x.masked_fill(dropped, UNKNOWN)
        channels = [] if self.learned is None else [self.learned(x)]
        if self.kept is not None:
            channels.append(self.kept[x])
        return channels[0] if len(channels) == 1 else channels[0] + channels[1]


@final
class MaxOverTime(nn.Module):
    r"""Keeps the largest answer of each filter: $\mathbb R^{k\times n}\to\mathbb R^k$ for any $n$.

    Example:
        >>> pool = MaxOverTime()
        >>> pool(torch.tensor([[[1.0, 5.0, 2.0], [0.0, -1.0, -2.0]]]))
        tensor([[5., 0.]])
    """

    def forward(self, h: Float[Tensor, "B k n"]) -> Float[Tensor, "B k"]:
        """Take the maximum over the last axis."""
        return h.amax(dim=-1)


@final
class TextCNN(nn.Module):
    r"""Classifies texts by the phrases that its filters find in them.

    Only windows inside a text count, of one that is shorter than a window this window alone; so an
    answer does not depend on what else is in the batch, or on how far it is padded.

    Shapes:
        x: (B, T), numbers of words, 0 behind the end of a text; returns (B, classes)

    Args:
        words: Makes vectors of words.
        classes: Number of outputs.
        widths: Words in a window, for each kind of filter.
        filters: $k$, number of filters of each width.
        dropout: Probability that a feature is dropped in training.
        rng: Draws filters and weights by He's rule; by default torch's global generator.

    Example:
        >>> net = TextCNN(WordVectors(100, 8), widths=(2, 3), filters=5)
        >>> scores = net(torch.tensor([[5, 7, 1, 0], [9, 2, 3, 4]]))
        >>> scores.shape, net.features(torch.tensor([[5, 7]])).shape
        (torch.Size([2, 2]), torch.Size([1, 10]))
    """

    @checked
    def __init__(
        self, words: WordVectors, classes: PositiveInt = 2, *, widths: Widths = (3, 4, 5),
        filters: PositiveInt = 100, dropout: UnitInterval = 0.5,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.words, self.widths = words, widths
        self.convolutions = nn.ModuleList(
            undrawn(nn.Conv1d, words.dim, filters, width) for width in widths
        )
        self.pool = MaxOverTime()
        self.dropout = nn.Dropout(dropout)
        self.head = undrawn(nn.Linear, filters * len(widths), classes)
        for layer in (self.convolutions, self.head):
            initialize_(layer, "he", rng=rng)

    def answers(self, x: Texts) -> list[Float[Tensor, "B k _"]]:
        """Compute what each filter answers to each window, 0 outside of the text, by widths."""
        x, lengths = whole(x, max(self.widths))
        e = self.words(x).mT  # (B, d, T)
        found = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            h = convolution(e).relu()
            found.append(h * _first(h, (lengths - width + 1).clamp(min=1)))
        return found

    def features(self, x: Texts) -> Float[Tensor, "B F"]:
        """Compute the largest answer of every filter."""
        return torch.cat([self.pool(h) for h in self.answers(x)], dim=1)

    def forward(self, x: Texts) -> Float[Tensor, "B K"]:
        """Compute the scores of the classes."""
        return self.head(self.dropout(self.features(x)))


def _first(h: Tensor, counts: Tensor) -> Tensor:
    """Say for each place of each row whether it is among the first so many (B, 1, n)."""
    return (torch.arange(h.shape[-1], device=h.device) < counts[:, None])[:, None]


def whole(x: Texts, least: int) -> tuple[Int[Tensor, "B _"], Int[Tensor, " B"]]:
    """Cut off the padding that no text of the batch needs; give the lengths of the texts, too."""
    places = torch.arange(1, x.shape[1] + 1, device=x.device)
    lengths = ((x != PADDING) * places).amax(dim=1)
    if not bool((lengths > 0).all()):
        row = int(lengths.argmin())
        hint = "Leave empty texts out, or give them the unknown word, 1."
        raise usage_error("TextCNN", "x", "texts of one word or more", f"none in row {row}", hint)
    longest = max(int(lengths.max()), least)
    return F.pad(x[:, :longest], (0, max(0, longest - x.shape[1]))), lengths


@checked
@torch.no_grad()
def top_ngrams(
    model: TextCNN, x: Texts, count: PositiveInt = 10
) -> tuple[Float[Tensor, "K c"], Int[Tensor, "K c 3"]]:
    """Finds the windows that speak most strongly for each class, over all texts.

    What a window says for a class is the largest product, over the filters, of the filter's answer
    and its weight for the class, less the mean of its weights.

    Args:
        model: A trained model.
        x: Texts.
        count: How many windows for each class.

    Returns:
        What they say, the strongest first, and for each its text, its first word and its width.

    Example:
        >>> net = TextCNN(WordVectors(9, 4), 3, widths=(2,))
        >>> said, places = top_ngrams(net, torch.tensor([[5, 7, 1, 4], [2, 3, 0, 0]]), count=4)
        >>> said.shape, places.shape
        (torch.Size([3, 4]), torch.Size([3, 4, 3]))
    """
    with evaluated(model):
        answers = model.answers(x)
    weights = model.head.weight - model.head.weight.mean(dim=0)
    by_width = weights.unflatten(1, (len(answers), -1)).unbind(dim=1)  # each (K, k)
    said, places = [], []
    for width, h, weight in zip(model.widths, answers, by_width, strict=True):
        for_class = torch.stack([(h * one[:, None]).amax(dim=1) for one in weight])  # (K, B, n)
        said.append(for_class.flatten(1))
        text, start = (one.flatten() for one in torch.meshgrid(
            torch.arange(h.shape[0]), torch.arange(h.shape[2]), indexing="ij"))
        places.append(torch.stack([text, start, torch.full_like(text, width)], dim=1))
    values, best = torch.cat(said, dim=1).topk(count, dim=1)
    return values, torch.cat(places).to(best.device)[best]


def embedding_share(model: nn.Module) -> float:
    """Tells which share of a model's numbers are word vectors.

    Example:
        >>> embedding_share(TextCNN(WordVectors(100, 8), widths=(1,), filters=8))
        0.898...
    """
    tables = [one for one in model.modules() if isinstance(one, WordVectors)]
    if not tables:
        raise usage_error("embedding_share", "model", "one with WordVectors", type(model).__name__)
    inside, total = (
        sum(tensor.numel() for one in ones for tensor in one.state_dict().values())
        for ones in (tables, [model])
    )
    return inside / total


@final
class KMaxPool(nn.Module):
    r"""Keeps the $k$ largest answers of each filter, in the order in which they came.

    Args:
        k: How many.

    Example:
        >>> pool = KMaxPool(2)
        >>> pool(torch.tensor([[[3.0, 1.0, 4.0, 2.0], [0.0, 5.0, 5.5, 6.0]]]))
        tensor([[[3.0000, 4.0000],
                 [5.5000, 6.0000]]])
    """

    @checked
    def __init__(self, k: PositiveInt) -> None:
        super().__init__()
        self.k = k

    def forward(self, h: Float[Tensor, "B C n"]) -> Float[Tensor, "B C k"]:
        """Choose the largest, and put them back into their order."""
        if h.shape[-1] < self.k:
            hint = "Pad the text, or keep fewer."
            raise usage_error("KMaxPool", "h", f"{self.k} places or more", h.shape[-1], hint)
        counts = torch.full((len(h),), self.k, device=h.device)
        return _largest(h, counts, self.k)


def _largest(h: Tensor, counts: Tensor, most: int) -> Tensor:
    """Keep the largest places of each row in their order, as many as it may, and 0 behind."""
    values, places = h.topk(most, dim=-1)
    beyond = ~_first(values, counts)
    order = places.masked_fill(beyond, h.shape[-1]).argsort(dim=-1)  # what is too much goes last
    return values.masked_fill(beyond, 0).gather(-1, order)


@checked
def dynamic_k(
    layer: PositiveInt, layers: PositiveInt, length: PositiveInt, top: PositiveInt = 4
) -> int:
    r"""Says how many answers a layer keeps: $\max(k_{top},\operatorname{ceil}\frac{L-l}Ls)$.

    Args:
        layer: $l$, from 1.
        layers: $L$; the last one keeps $k_{top}$.
        length: $s$, words of the text.
        top: $k_{top}$.

    Example:
        >>> [dynamic_k(layer, 3, 18, 3) for layer in (1, 2, 3)]
        [12, 6, 3]
    """
    if layer > layers:
        raise usage_error("dynamic_k", "layer", f"one of the {layers} layers, from 1", layer)
    return max(top, -((layer - layers) * length // layers))


@final
class DynamicCNN(nn.Module):
    r"""Classifies texts by layers of wide convolution, folding and dynamic $k$-max pooling.

    Each of the $d$ rows of a text has filters of its own, which reach over both ends; folding adds
    every two rows. A text of $s$ words keeps $k_l$ answers in layer $l$, whatever else is in the
    batch.

    Shapes:
        x: (B, T), numbers of words, 0 behind the end of a text; returns (B, classes)

    Args:
        words: Makes vectors of words, of a length that can be halved in every layer.
        classes: Number of outputs.
        maps: Filters of each row, for each layer.
        widths: Words in a window, for each layer.
        top: $k_{top}$.
        dropout: Probability that an answer of the last layer is dropped in training.
        rng: Draws filters and weights by He's rule; by default torch's global generator.

    Example:
        >>> net = DynamicCNN(WordVectors(100, 8), maps=(2, 3), widths=(3, 2))
        >>> scores = net(torch.tensor([[5, 7, 1, 0], [9, 2, 3, 4]]))
        >>> scores.shape
        torch.Size([2, 2])
    """

    @checked
    def __init__(
        self, words: WordVectors, classes: PositiveInt = 2, *, maps: Widths = (6, 14),
        widths: Widths = (7, 5), top: PositiveInt = 4, dropout: UnitInterval = 0.5,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(maps) != len(widths):
            raise usage_error("DynamicCNN", "widths", f"{len(maps)} values, one a layer", widths)
        if words.dim % 2 ** len(maps):
            domain = f"of a length divisible by {2 ** len(maps)}, to be halved in every layer"
            raise usage_error("DynamicCNN", "words", domain, words.dim)
        self.words, self.widths, self.top = words, widths, top
        rows = [words.dim >> layer for layer in range(len(maps) + 1)]
        self.convolutions = nn.ModuleList(
            undrawn(
                nn.Conv1d, n * before, n * after, width, padding=width - 1, groups=n, bias=False
            )
            for n, before, after, width in zip(rows, (1, *maps), maps, widths, strict=False)
        )
        self.biases = nn.ParameterList(
            torch.zeros(n * own) for n, own in zip(rows[1:], maps, strict=True)
        )
        self.dropout = nn.Dropout(dropout)
        self.head = undrawn(nn.Linear, rows[-1] * maps[-1] * top, classes)
        for layer in (self.convolutions, self.head):
            initialize_(layer, "he", rng=rng)

    def forward(self, x: Texts) -> Float[Tensor, "B K"]:
        """Compute the scores of the classes."""
        x, words = whole(x, self.top)
        h, lengths, layers = self.words(x).mT, words, len(self.widths)
        parts: Any = zip(self.convolutions, self.biases, strict=True)
        for layer, (convolution, bias) in enumerate(parts, start=1):
            rows = convolution.groups
            h = convolution(h).unflatten(1, (rows // 2, 2, -1)).sum(dim=2).flatten(1, 2)
            lengths = lengths + convolution.kernel_size[0] - 1
            h = h.masked_fill(~_first(h, lengths), -torch.inf)
            kept = [dynamic_k(layer, layers, n, self.top) for n in range(1, x.shape[1] + 1)]
            lengths = torch.minimum(lengths, torch.tensor(kept, device=x.device)[words - 1])
            h = _largest(h, lengths, kept[-1])
            h = torch.tanh(h + bias[:, None]) * _first(h, lengths)
        return self.head(self.dropout(h.flatten(1)))


@final
class ConvLM(nn.Module):
    r"""Predicts the next word of a text from the phrases in its last words.

    Shapes:
        x: (B, T), numbers of words; returns (B, vocab), logits of the word behind them

    Args:
        words: Makes vectors of words.
        context: How many of the last words are looked at.
        widths: Words in a window, for each kind of filter.
        filters: Number of filters of each width.
        rng: Draws filters and weights; by default torch's global generator.

    Example:
        >>> net = ConvLM(WordVectors(100, 8), context=4, widths=(2, 3), filters=5)
        >>> logits = net(torch.tensor([[5, 7, 1, 9, 2, 3]]))
        >>> logits.shape
        torch.Size([1, 100])
    """

    @checked
    def __init__(
        self, words: WordVectors, *, context: PositiveInt = 8, widths: Widths = (2, 3),
        filters: PositiveInt = 100, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.reader = TextCNN(
            words, words.dim, widths=widths, filters=filters, dropout=0.0, rng=rng
        )
        self.out = undrawn(nn.Linear, words.dim, words.vocab, bias=False)
        initialize_(self.out, "lecun", rng=rng)

    def forward(self, x: Texts) -> Float[Tensor, "B V"]:
        """Compute the logits of the next word."""
        y = torch.tanh(self.reader(x[:, -self.context :]))
        return self.out(y)
