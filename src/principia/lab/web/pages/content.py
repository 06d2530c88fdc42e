"""What a page of the course shows, as plain content: the server and the static site render it.

Everything here is read off the catalog: text off docstrings, form fields off annotations.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

from markupsafe import Markup

from principia.lab.course import catalog
from principia.lab.course.docstrings import sections
from principia.lab.course.formula import prose_to_html, prose_to_unicode, to_mathml
from principia.lab.mutation.scores import Score
from principia.lab.params import Choice, Knob, Maybe, Range, Switch, knobs_of, text_of
from principia.lab.runs.experiments import Experiment
from principia.lab.training.factories import callback_factories

__all__ = [
    "CallbackView", "ClaimView", "ComponentView", "ExperimentView", "Field", "HeroView", "PageView",
    "ScoreView", "fields", "page_view", "page_views", "score_view", "search_index",
]

Kind = Literal["range", "number", "choice", "switch", "text"]
log = logging.getLogger("principia.web")
LOG_FROM = 50.0  # a slider whose ends differ by this factor moves in equal ratios


@final
@dataclass(frozen=True)
class Field:
    """A form field for a knob; values are texts, as one would type them after --set."""

    name: str
    kind: Kind
    default: str
    domain: str
    help: str = ""
    low: float | None = None
    high: float | None = None
    step: str = "any"
    log: bool = False
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ").replace(".", ": ")


@final
@dataclass(frozen=True)
class CallbackView:
    """A callback that can be added to a training: what it does, and its form fields."""

    name: str
    page: str
    statement: Markup
    fields: tuple[Field, ...]
    command: str

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


@final
@dataclass(frozen=True)
class ComponentView:
    """A component: how it is called, and its docstring in parts."""

    name: str
    signature: str
    story: tuple[Markup, ...]
    arguments: tuple[tuple[str, Markup], ...]
    shapes: Markup
    example: str


@final
@dataclass(frozen=True)
class ControlView:
    """What breaks a claim: knobs with texts, as one would type them after --set."""

    knobs: Mapping[str, str]
    words: str

    @property
    def knobs_json(self) -> str:
        """The knobs for a data attribute."""
        return json.dumps(self.knobs)

    @property
    def sets(self) -> str:
        """The knobs in words."""
        return ", ".join(f"{name} = {value}" for name, value in self.knobs.items())


@final
@dataclass(frozen=True)
class ClaimView:
    """A claim: its statement, what can be turned, and what breaks it."""

    key: str
    name: str
    statement: Markup
    source: str
    fields: tuple[Field, ...]
    controls: tuple[ControlView, ...]
    misprint: Markup
    sees: Markup
    command: str

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


@final
@dataclass(frozen=True)
class ExperimentView:
    """An experiment: what it does and what it must reach."""

    key: str
    name: str
    statement: Markup
    source: str
    fields: tuple[Field, ...]
    callbacks: tuple[CallbackView, ...]
    goals: tuple[tuple[str, tuple[str, ...]], ...]
    command: str

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")


@final
@dataclass(frozen=True)
class HeroView:
    """The moving picture of a page: what it makes one understand, and what can be turned."""

    name: str
    statement: Markup
    said: str
    fields: tuple[Field, ...]
    moves: str
    command: str


@final
@dataclass(frozen=True)
class PageView:
    """A page of the course."""

    key: str
    chapter: str
    title: str
    about: Markup
    hero: HeroView | None
    story: tuple[Markup, ...]
    formulas: tuple[Markup, ...]
    symbols: tuple[tuple[Markup, Markup], ...]
    components: tuple[ComponentView, ...]
    claims: tuple[ClaimView, ...]
    experiments: tuple[ExperimentView, ...]
    callbacks: tuple[CallbackView, ...]
    references: tuple[Markup, ...]
    module: str


@final
@dataclass(frozen=True)
class BugView:
    """A planted bug that no claim noticed: where, the line before and after, and what is said."""

    place: str
    before: str
    after: str
    said: str


@final
@dataclass(frozen=True)
class ScoreView:
    """How many planted bugs the claims of a page notice, and those that they do not."""

    sentence: str
    verdict: str
    stale: bool
    ways: str
    survivors: tuple[BugView, ...]
    equivalent: tuple[BugView, ...]


def score_view(score: Score) -> ScoreView:
    """Describe the score of a page."""
    row = score.row
    return ScoreView(
        sentence=f"{score.sentence}.",
        verdict=f"{score.noticed} of {score.real}",
        stale=score.stale,
        ways=f"{row['refutation']} by refutation, {row['crash']} by crash; {row['bugs']} bugs were "
        f"drawn of {row['possible']} that are possible, on {row['measured']}.",
        survivors=tuple(_bug(one, one["how"]) for one in score.survivors),
        equivalent=tuple(_bug(one, one["equivalent"]) for one in score.equivalent),
    )


def _bug(bug: Mapping[str, Any], said: str) -> BugView:
    file = f"{bug['module'].rpartition('.')[2]}.py"
    where = f", {bug['function']}" if bug["function"] else ""
    return BugView(f"{file}, line {bug['line']}{where}", bug["text"], bug["becomes"], said)


@functools.lru_cache(maxsize=1024)
def page_view(key: str) -> PageView:
    """Describe a page; what it says is read once, since a running program does not change."""
    page = catalog.page(key, "page")
    text = page.text
    name, _, about = text.title.partition(": ")
    return PageView(
        key=page.key,
        chapter=page.key.split("/")[0],
        title=name.rstrip("."),
        about=prose_to_html(about),
        hero=_hero(page) if page.hero_name else None,
        story=paragraphs(text.story),
        formulas=tuple(Markup(to_mathml(one, block=True)) for one in text.formulas),
        symbols=tuple((prose_to_html(one), prose_to_html(what)) for one, what in text.symbols),
        components=tuple(_component(one) for one in page.components()),
        claims=tuple(_claim(one) for one in page.claims().values()),
        experiments=tuple(_experiment(one) for one in page.experiments().values()),
        callbacks=tuple(one for one in _callbacks() if one.page == page.key),
        references=tuple(one.html for one in text.references),
        module=page.module,
    )


@functools.cache
def page_views() -> tuple[PageView, ...]:
    """Describe all pages; one that cannot be loaded is left out, and the log says why."""
    found = []
    for page in [one for chapter in catalog.chapters() for one in chapter.pages]:
        try:
            found.append(page_view(page.key))
        except Exception as error:  # a page of somebody else, or one under construction
            log.warning("%s cannot be loaded: %s: %s", page.key, type(error).__name__, error)
    return tuple(found)


def paragraphs(text: str) -> tuple[Markup, ...]:
    """Turn a text into its paragraphs."""
    return tuple(prose_to_html(" ".join(one.split())) for one in re.split(r"\n[ \t]*\n", text))


def _component(one: catalog.Component) -> ComponentView:
    parts = sections(one.doc)
    listed = re.split(r"^(\w+):[ \t]*", parts.get("Args", ""), flags=re.MULTILINE)[1:]
    return ComponentView(
        name=one.name,
        signature=one.signature,
        story=paragraphs(parts.get("", "")),
        arguments=tuple(
            (name, prose_to_html(" ".join(what.split())))
            for name, what in zip(listed[::2], listed[1::2])  # noqa: B905
        ),
        shapes=prose_to_html(" ".join(parts.get("Shapes", "").split())),
        example=inspect.cleandoc(parts.get("Example", "")),
    )


def _hero(page: catalog.Page) -> HeroView:
    one = page.hero()
    return HeroView(
        name=one.name, statement=prose_to_html(one.statement),
        said=prose_to_unicode(one.statement), fields=fields(one.knobs), moves=one.moves,
        command=f"principia show {page.key} --hero {one.name}.html",
    )


def _claim(claim: Any) -> ClaimView:
    return ClaimView(
        key=claim.key,
        name=claim.name,
        statement=prose_to_html(claim.statement),
        source=claim.source,
        fields=fields(claim.knobs),
        controls=tuple(_control(one) for one in claim.controls),
        misprint=prose_to_html(claim.misprint),
        sees=prose_to_html(claim.sees),
        command=f"principia check {shlex.quote(claim.key)}",
    )


def _control(control: Any) -> ControlView:
    knobs = {name: text_of(value) for name, value in control.knobs.items()}
    return ControlView(knobs, prose_to_unicode(control.words))


def _experiment(experiment: Experiment) -> ExperimentView:
    goals = tuple(
        (
            budget,
            tuple(
                f"{metric.replace('_', ' ')} {goal.goal}"
                for metric, goal in experiment.goals(budget).items()
            ),
        )
        for budget in ("quick", "full")
    )
    return ExperimentView(
        key=experiment.key,
        name=experiment.name,
        statement=prose_to_html(experiment.statement),
        source=experiment.source,
        fields=fields(experiment.knobs),
        callbacks=_callbacks() if experiment.trains else (),
        goals=goals,
        command=f"principia run {shlex.quote(experiment.key)}",
    )


@functools.cache
def _callbacks() -> tuple[CallbackView, ...]:
    """Describe all callbacks that pages offer to every training."""
    found = []
    for name, factory in callback_factories().items():
        first = next(iter(knobs_of(factory.function).values()))
        turned = f"{name}.{first.name}={text_of(first.default) or 'RUN'}"
        found.append(
            CallbackView(
                name, factory.page, prose_to_html(factory.statement), fields(factory.knobs),
                f"principia run networks/mlp --set {shlex.quote(turned)}",
            )
        )
    return tuple(found)


def fields(knobs: Mapping[str, Knob]) -> tuple[Field, ...]:
    """Make a form field of every knob."""
    return tuple(_field(one) for one in knobs.values())


def _field(knob: Knob) -> Field:
    domain = knob.domain
    shared: dict[str, Any] = {
        "name": knob.name,
        "default": text_of(knob.default),
        "domain": domain.text,
        "help": prose_to_unicode(knob.help),
    }
    if isinstance(domain, Maybe) and isinstance(domain.inner, (Choice, Switch)):
        known = domain.inner.options if isinstance(domain.inner, Choice) else (False, True)
        return Field(kind="choice", options=("none", *map(text_of, known)), **shared)
    if isinstance(domain, Choice):
        return Field(kind="choice", options=tuple(map(text_of, domain.options)), **shared)
    if isinstance(domain, Switch):
        return Field(kind="switch", options=("False", "True"), **shared)
    if not isinstance(domain, Range):
        return Field(kind="text", **shared)
    whole = domain.kind is int
    low, high = (one if math.isfinite(one) else None for one in (domain.low, domain.high))
    shared |= {"low": low, "high": high, "step": "1" if whole else "any"}
    if low is None or high is None:
        return Field(kind="number", **shared)
    return Field(kind="range", log=low > 0 and high / low >= LOG_FROM, **shared)


def search_index(address: Any) -> str:
    """List what can be found, as a script that both the server and the static site can load.

    Args:
        address: Function that gives the address of a page, by its key and an anchor.
    """
    entries = [entry for view in page_views() for entry in _entries(view, address)]
    listed = json.dumps(entries, ensure_ascii=False).replace("</", "<\\/")
    return f"globalThis.principiaIndex = {listed};\n"


def _entries(view: PageView, address: Any) -> Iterable[dict[str, str]]:
    page = catalog.page(view.key)

    def entry(kind: str, title: str, anchor: str = "", text: str = "") -> dict[str, str]:
        return {
            "kind": kind, "title": title, "text": prose_to_unicode(text), "where": view.key,
            "url": address(view.key, anchor),
        }

    yield entry("page", prose_to_unicode(page.title))
    for claim in page.claims().values():
        yield entry("claim", claim.name.replace("_", " "), claim.name, claim.statement)
    for one in page.components():
        yield entry("code", one.name, f"api-{one.name}", one.purpose)
    for experiment in view.experiments:
        yield entry("experiment", experiment.title, f"run-{experiment.name}")
