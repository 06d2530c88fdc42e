r"""Docstrings of pages, taken apart: title, story, formulas, symbols, references.

What a page says once in its docstring is shown by the terminal, the report and `cite`.
"""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from principia.lab.params import usage_error

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["Reference", "Text", "sections"]


_NUMBER = re.compile(r"\b(doi|arXiv):(\S+?)(?=[.,;]?(?:\s|$))")
_ADDRESS = {"doi": "https://doi.org/", "arXiv": "https://arxiv.org/abs/"}


@final
@dataclass(frozen=True)
class Reference:
    """A reference of a page: `Authors (year), Title. Venue. arXiv:... doi:...`."""

    text: str

    @functools.cached_property
    def _parts(self) -> tuple[str, str, str, str]:
        found = re.match(
            r"(.+?) \((\d{4})\), (.+?)(?:\.(?:\s+|$)|, (?=sec\.|ch\.|p\.))(.*)$", self.text
        )
        if not found:
            raise usage_error(
                "Reference", "a line", "'Authors (year), Title. Where it appeared.'", self.text
            )
        authors, year, title, rest = found.groups()
        return authors, year, title, rest.strip()

    @property
    def bibtex(self) -> str:
        """The reference as a BibTeX entry."""
        authors, year, title, rest = self._parts
        listed = re.split(r", | and | & ", authors.removesuffix(" et al."))
        names = [name for name in listed if name] + ["others"] * authors.endswith(" et al.")
        first = re.sub(r"\W", "", names[0].split()[-1]).lower()
        word = re.sub(r"\W", "", next((w for w in title.split() if len(w) > 3), title)).lower()
        fields = {"author": " and ".join(names), "title": title, "year": year}
        if arxiv := re.search(r"arXiv:(\d{4}\.\d{4,5})", rest):
            fields |= {"eprint": arxiv.group(1), "archiveprefix": "arXiv"}
        numbers = dict(_NUMBER.findall(rest))
        if "doi" in numbers:
            fields["doi"] = numbers["doi"]
        venue = re.sub(r"(arXiv|doi):\S+", "", rest).strip(" .,")
        if venue:
            fields["howpublished"] = venue
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        return f"@misc{{{first}{year}{word},\n{body}\n}}"

    @property
    def html(self) -> Markup:
        """The reference, whose DOI and arXiv number lead to where it can be read."""
        from markupsafe import Markup

        done, place = Markup(), 0
        for one in _NUMBER.finditer(self.text):
            kind, number = one.groups()
            done += self.text[place : one.start()]
            done += Markup('<a href="{}">{}</a>').format(_ADDRESS[kind] + number, one.group())
            place = one.end()
        return done + self.text[place:]


@final
@dataclass(frozen=True)
class Text:
    """The parts of a page's docstring."""

    title: str
    story: str
    formulas: tuple[str, ...]
    symbols: tuple[tuple[str, str], ...]
    references: tuple[Reference, ...]

    @classmethod
    def of(cls, docstring: str) -> Text:
        """Take a docstring apart: title, story, `$$ formulas $$`, Symbols, References."""
        title, _, rest = inspect.cleandoc(docstring).partition("\n")
        body, references = _cut(rest, r"References?")
        body, symbols = _cut(body, r"Symbols")
        formulas = tuple(one.strip() for one in re.findall(r"\$\$(.+?)\$\$", body, re.DOTALL))
        story = re.sub(r"\$\$.+?\$\$", "", body, flags=re.DOTALL).strip()
        story = re.sub(r"\n{3,}", "\n\n", story)
        explained = [line.partition(": ") for line in symbols]
        return cls(
            title=title.strip(),
            story=story,
            formulas=formulas,
            symbols=tuple((symbol.strip(), meaning) for symbol, _, meaning in explained),
            references=tuple(Reference(line) for line in references),
        )


def sections(doc: str) -> dict[str, str]:
    r"""Take the docstring of a component apart: the story under "", then Shapes, Args, Example.

    Example:
        >>> sections("Adds one.\n\nArgs:\n    x: A number.")
        {'': 'Adds one.', 'Args': 'x: A number.'}
    """
    parts = re.split(r"^([A-Z]\w+):[ \t]*\n", inspect.cleandoc(doc), flags=re.MULTILINE)
    found = {"": parts[0].strip()}
    found |= {name: inspect.cleandoc(body) for name, body in zip(parts[1::2], parts[2::2])}  # noqa: B905
    return {name: body for name, body in found.items() if body}


def _cut(text: str, heading: str) -> tuple[str, list[str]]:
    """Cut a section off; its entries begin at the margin, go on indented, or follow the colon."""
    found = re.search(rf"^{heading}:[ \t]*", text, re.MULTILINE)
    if not found:
        return text, []
    section, *after = re.split(r"\n[ \t]*\n", text[found.end() :], maxsplit=1)
    lines = inspect.cleandoc(section).splitlines() if section.startswith("\n") else [section]
    entries: list[str] = []
    for line in lines:
        if entries and line[:1].isspace():
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(" ".join(line.split()))
    return text[: found.start()] + "\n\n".join(after), [entry for entry in entries if entry]
