"""One LaTeX source, two renderings."""

import html
import xml.etree.ElementTree as ET

import pytest

from principia.lab.course.docstrings import Reference
from principia.lab.course.formula import prose_to_html, prose_to_unicode, to_mathml, to_unicode
from principia.lab.params import UsageError


@pytest.mark.parametrize(
    ("latex", "line"),
    [
        (r"E(X)=-\frac12\sum_{i\ne j}w_{ij}X_iX_j", "E(X) = −1/2 ∑_{i ≠ j} wᵢⱼXᵢXⱼ"),
        (r"\Delta w_{ij}=\eta\,\delta_i\,\varphi'(w_i\cdot x)", "Δwᵢⱼ = η δᵢ φ′(wᵢ · x)"),
        (r"\Vert w_t\Vert\le R\sqrt t", "‖wₜ‖ ≤ R√t"),
        (r"\lfloor R^2/\gamma^2\rfloor", "⌊R²/γ²⌋"),
        (r"C=2\sum_{i=0}^{n-1}\binom{s-1}{i}", "C = 2∑_{i=0}^{n−1} (s − 1 choose i)"),
        (r"\xi\leftarrow X^\top\mathrm{softmax}(\beta X\xi)", "ξ ← Xᵀsoftmax(βXξ)"),
        (r"\frac{a+b}{c}x", "(a + b)/c x"),
        (r"\arg\max_w f", "arg max_w f"),
        (r"\hat f_n", "f̂ₙ"),
        (r"R = \max_i \Vert x_i\Vert", "R = maxᵢ ‖xᵢ‖"),
        (r"\log n + \log(m)", "log n + log(m)"),
        (r"w^*", "w*"),
        (r"\int_1^\infty e^{-z}dz", "∫_1^∞ e⁻ᶻdz"),
    ],
)
def test_readable_lines(latex, line):
    assert to_unicode(latex) == line


@pytest.mark.parametrize("latex", [r"\frac{a", r"a}", r"\nosuchcommand x"])
def test_what_does_not_parse_is_refused(latex):
    with pytest.raises(UsageError, match="formula: latex must be"):
        to_mathml(latex)


@pytest.mark.parametrize("command", ["text", "textbf", "mbox"])
@pytest.mark.parametrize("inside", [
    "<script>alert(1)</script>", "a < b & c", "<!--", "<![CDATA[<img src=x>]]>", "&lt;b&gt;",
    '"<i>"',
])
def test_what_stands_in_text_is_text(command, inside):
    tree = ET.fromstring(to_mathml(rf"x \{command}{{{inside}}}"))
    names = {node.tag.partition("}")[2] for node in tree.iter()}
    assert names <= {"math", "mrow", "mstyle", "mi", "mtext"}
    assert "".join(tree.itertext()).replace("\u00a0", " ") == f"x{html.unescape(inside)}"


@pytest.mark.parametrize("latex", [
    r"\href{javascript:alert(1)}{x}", r"\style{background:url(x)}{x}", r"\class{x}{y}",
    r"\tag{<img src=x onerror=alert(1)>}", r"\text{a{<b>}}", r'\color{x" onclick="y}{z}',
    r"\tag{<b>x</b>}",
])
def test_what_is_neither_mathematics_nor_text_is_refused(latex):
    with pytest.raises(UsageError, match="formula: latex must be mathematics"):
        to_mathml(latex)


def test_prose_keeps_its_words():
    assert prose_to_unicode(r"if $\gamma>0$, at most $R^2$") == "if γ > 0, at most R²"
    assert prose_to_unicode("it costs nothing") == "it costs nothing"


def test_block_formulas_are_marked():
    assert 'display="block"' in to_mathml("x", block=True)
    assert 'display="inline"' in to_mathml("x")


@pytest.mark.parametrize(
    ("text", "shown", "plain"),
    [
        ("on *keeping* it", "on <em>keeping</em> it", "on keeping it"),
        ("a **bold** word, *a few words*.", "a <strong>bold</strong> word, <em>a few words</em>.",
         "a bold word, a few words."),
        ("2 * 3 * 4 and a*b*c", "2 * 3 * 4 and a*b*c", "2 * 3 * 4 and a*b*c"),
        ("`x * y * z` and *<b>*", "<code>x * y * z</code> and <em>&lt;b&gt;</em>",
         "`x * y * z` and <b>"),
    ],
)
def test_emphasis_is_shown_and_products_stay_products(text, shown, plain):
    assert prose_to_html(text) == shown
    assert prose_to_unicode(text) == plain


def test_mathematics_in_prose_has_no_emphasis():
    assert prose_to_html("$w^*$ and $v^*$ are *not* $a*b*c$").count("<em>") == 1
    assert prose_to_unicode("$w^*$ is *best*") == "w* is best"


def test_dois_and_arxiv_numbers_are_links():
    shown = Reference(
        "A & B (1989), On <x>. Networks 2(1). doi:10.1016/0893-6080(89)90014-2. arXiv:1412.6980"
    ).html
    assert '<a href="https://doi.org/10.1016/0893-6080(89)90014-2">doi:10.1016/' in shown
    assert '</a>. <a href="https://arxiv.org/abs/1412.6980">arXiv:1412.6980</a>' in shown
    assert "A &amp; B (1989), On &lt;x&gt;." in shown
    assert Reference("A (1999), A title. A book, ch. 3").html == "A (1999), A title. A book, ch. 3"
