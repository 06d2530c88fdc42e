r"""Formulas: LaTeX once, shown as MathML in the browser and as readable unicode in the terminal.

One parser (latex2mathml) serves both: the unicode text is read off the MathML tree. It passes on
what stands in `\text{}`, and knows commands for links, so that its tree is checked: a formula is
mathematics and text, never another element, link or style. Whatever a user has written, such as the
header of a table, is no formula and does not come here.
"""

import functools
import html
import re
import unicodedata
import xml.etree.ElementTree as ET

from markupsafe import Markup, escape

from principia.lab.params import usage_error

__all__ = ["prose_to_html", "prose_to_unicode", "to_mathml", "to_unicode"]

_NAMESPACE = re.compile(r"\{.*\}")
_SPACE = "http://www.w3.org/1998/Math/MathML"
_ELEMENTS = {
    "math", "menclose", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow",
    "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr",
    "munder", "munderover",
}
_ATTRIBUTES = {
    "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display",
    "displaystyle", "fence", "form", "height", "largeop", "linebreak", "linethickness", "lspace",
    "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowlines", "rowspacing",
    "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "width",
}
_RAISED = str.maketrans(
    "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWαβγδθ∗*⊤",
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵅᵝᵞᵟᶿ**ᵀ",
)
_LOWERED = str.maketrans(
    "0123456789+-−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ"
)
_PARTS = re.compile(r"(\$\$[^$]+\$\$|\$[^$]+\$|`[^`]+`)")  # mathematics and code, and the rest
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*?)(?=[^\s*])([^*]*[^\s*])\1(?![\w*])")
_SPACED = set("=<>≤≥≠≈∼→↦←⇔⇒∈∉⊂⊆+−±⋅·×∧∨∩∪:|∣‖")
_BIG = set("∑∏∫⋃⋂")


def to_mathml(latex: str, *, block: bool = False) -> str:
    """Turn LaTeX mathematics into a MathML element."""
    from latex2mathml.converter import convert

    _balanced(latex)
    known = re.sub(r"\\arg(?![a-z])", r"\\operatorname{arg}\\,", latex)  # the parser lacks \arg
    known = re.sub(r"(\\(?:text|mbox)[a-z]*\{)([^{}]*)", _as_text, known)
    try:
        element = convert(known, display="block" if block else "inline")
        tree = ET.fromstring(element)
    except Exception as error:
        raise usage_error(
            "formula", "latex", "mathematics that parses", latex, str(error)
        ) from error
    if unknown := re.search(r"\\[a-zA-Z]*", element):  # the parser passes through what it lacks
        hint = f"Replace {unknown.group()}, which it does not know."
        raise usage_error("formula", "latex", "mathematics that parses", latex, hint)
    for node in tree.iter():
        name = node.tag.removeprefix(f"{{{_SPACE}}}")
        if name not in _ELEMENTS or node.attrib.keys() - _ATTRIBUTES:
            raise usage_error("formula", "latex", "mathematics and text alone", latex)
    return _written(tree)


def _as_text(found: re.Match[str]) -> str:
    return found.group(1) + html.escape(html.unescape(found.group(2)), quote=False)


def _written(tree: ET.Element) -> str:
    """Write the tree, in which text is text, and comments are gone."""
    for node in tree.iter():
        node.tag = _NAMESPACE.sub("", node.tag)
    tree.set("xmlns", _SPACE)
    return ET.tostring(tree, encoding="unicode", short_empty_elements=False)


@functools.cache
def to_unicode(latex: str) -> str:
    r"""Turn LaTeX mathematics into one readable line.

    Example:
        >>> to_unicode(r"\frac{R^2}{\gamma^2} \le \sum_{i=0}^{n-1} w_i x_{ij}")
        'R²/γ² ≤ ∑_{i=0}^{n−1} wᵢxᵢⱼ'
    """
    tree = ET.fromstring(to_mathml(latex))
    line = re.sub(r"\s+", " ", _text(tree)).replace("( ", "(").replace(" )", ")").strip()
    return re.sub(r"([a-z]{2}) ([(\[])", r"\1\2", line)  # sgn(x), but max x


def prose_to_unicode(text: str) -> str:
    """Turn the `$...$` parts of a text into unicode, and leave the rest, without its emphasis.

    Example:
        >>> prose_to_unicode("at *most* $R^2$ mistakes")
        'at most R² mistakes'
    """
    done = []
    for part in _PARTS.split(text):
        if len(part) > 2 and part[0] == part[-1] == "$":
            done.append(to_unicode(part.strip("$")))
        else:
            done.append(part if part[:1] == "`" else _EMPHASIS.sub(r"\2", part))
    return "".join(done)


def prose_to_html(text: str) -> Markup:
    """Turn `code`, `$math$` and `*emphasis*` of a docstring into HTML; all else is escaped.

    Example:
        >>> prose_to_html("at *most* `n` < 3")
        Markup('at <em>most</em> <code>n</code> &lt; 3')
    """
    done = []
    for part in _PARTS.split(text):
        if len(part) > 2 and part[0] == part[-1] == "$":
            done.append(to_mathml(part.strip("$")))
        elif len(part) > 2 and part[0] == part[-1] == "`":
            done.append(f"<code>{escape(part[1:-1])}</code>")
        else:
            done.append(_EMPHASIS.sub(_emphasized, str(escape(part))))
    return Markup("".join(done))


def _emphasized(found: re.Match[str]) -> str:
    name = "strong" if len(found.group(1)) == 2 else "em"
    return f"<{name}>{found.group(2)}</{name}>"


def _balanced(latex: str) -> None:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            break
    if depth:
        raise usage_error("formula", "latex", "balanced in its braces", latex)


def _text(node: ET.Element) -> str:
    """Read one MathML element as text."""
    tag = _NAMESPACE.sub("", node.tag)
    children = list(node)
    if tag == "mfrac":
        top, bottom = (_text(child).strip() for child in children)
        if node.get("linethickness") == "0":
            return f"{top} choose {bottom}"
        return f"{_grouped(top)}/{_grouped(bottom)}"
    if tag in ("msup", "mover"):
        base, high = _text(children[0]).strip(), _text(children[1]).strip()
        return _over(base, high) if tag == "mover" else base + _script(high, _RAISED, "^")
    if tag in ("msub", "munder"):
        base, low = _text(children[0]), _text(children[1]).strip()
        if base in _BIG or tag == "munder":
            return f"{base}_{_braced(low)} "
        word = base.endswith(" ")  # a name such as max
        return base.strip() + _script(low, _LOWERED, "_") + " " * word
    if tag in ("msubsup", "munderover"):
        base, low, high = (_text(child).strip() for child in children)
        if base in _BIG or tag == "munderover":
            return f"{base}_{_braced(low)}^{_braced(high)} "
        return base + _script(low, _LOWERED, "_") + _script(high, _RAISED, "^")
    if tag == "msqrt":
        inside = "".join(map(_text, children)).strip()
        return f"√{inside}" if len(inside) == 1 else f"√({inside})"
    if tag == "mroot":
        inside, order = (_text(child).strip() for child in children)
        return f"{order.translate(_RAISED)}√{_grouped(inside)}"
    if tag == "mspace":
        return " "
    if tag == "mtable":
        return "; ".join(_text(row).strip() for row in children)
    if tag == "mtr":
        return " ".join(_text(cell).strip() for cell in children)
    if not children:
        return _token(tag, node)
    line, ended_fraction = "", False
    for child in children:
        piece = _text(child)
        if piece.strip() in ("−", "+") and (not line or line.rstrip()[-1:] in "([{=≤≥,/←"):
            piece = piece.strip()  # a sign
        if ended_fraction and piece[:1] not in (" ", ")", ",", "]", "}"):
            line += " "  # 1/2 x, which 1/2x would not say
        ended_fraction = _NAMESPACE.sub("", child.tag) == "mfrac"
        line += piece
    return line


def _token(tag: str, node: ET.Element) -> str:
    text = unicodedata.normalize("NFC", (node.text or "").strip("\u2061\u2062\u2063"))
    if tag == "mo" and text in _SPACED and text not in "|∣‖":
        return f" {text} "
    if tag == "mo" and text == ",":
        return ", "
    if len(text) > 1 and text.isalpha() and text.isascii():
        return f"{text} "  # a name such as max or log
    return text


def _script(text: str, letters: dict[int, int], mark: str) -> str:
    """Raise or lower a script if unicode has every letter of it, else mark it."""
    packed = text.replace(" ", "")
    if packed == "′":
        return packed
    moved = packed.translate(letters)
    if packed and all(ord(letter) in letters for letter in packed):
        return moved
    return f"{mark}{_braced(text)}"


def _over(base: str, accent: str) -> str:
    combining = {"^": "\u0302", "~": "\u0303", "¯": "\u0304", "―": "\u0304", "→": "\u20d7"}
    combining |= {"\u02dc": "\u0303", "\u02c6": "\u0302", "\u02d9": "\u0307", "\u203e": "\u0304"}
    mark = combining.get(accent)
    return unicodedata.normalize("NFC", base.strip() + mark) if mark else f"{base}^{accent}"


def _grouped(text: str) -> str:
    """Put parentheses around what would otherwise fall apart."""
    simple = re.fullmatch(r"[^\s+−=/]+|[\w.]+", text) or re.fullmatch(r"[^\s()]*\([^()]*\)", text)
    return text if simple else f"({text})"


def _braced(text: str) -> str:
    packed = re.sub(r"\s*([=+−∈])\s*", r"\1", text)
    return packed if len(packed) == 1 else f"{{{packed}}}"
