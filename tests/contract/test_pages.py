"""What every page must fulfil. Pages are found by walking the folders; nobody lists them."""

import ast
import contextlib
import doctest
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

from components import components_of_claims
from drawings import complaints, plots_of
from planting import guarded, remember_sound
from principia.lab.course import catalog
from principia.lab.course.formula import prose_to_unicode, to_mathml, to_unicode
from principia.lab.evidence import Control
from principia.lab.figures import draw, drawn, finding_figure, picture_of
from principia.lab.params import MADE_WITH, Choice, Maybe, Switch, UsageError, knobs_of
from principia.lab.pictures import Plot
from principia.lab.runs.models import load_model, save_model

TESTS = Path(__file__).parents[1]
MOST_WITHOUT_FIGURE = 25
PAGES = [page for chapter in catalog.chapters() for page in chapter.pages]
COMPONENTS = [(page, name) for page in PAGES for name in page.exports]
CLAIMS = [(page, name) for page in PAGES for name in page.claim_names]


def keyed(pairs):
    return [pytest.param(page, name, id=f"{page.key}:{name}") for page, name in pairs]


def of_kind(kind):
    """Find the components that are classes of a kind; a page that cannot be imported has none."""
    found = []
    for page, name in COMPONENTS:
        with contextlib.suppress(Exception):
            thing = getattr(page.load(), name)
            if inspect.isclass(thing) and issubclass(thing, kind):
                found.append((page, name))
    return found


every_page = pytest.mark.parametrize("page", [pytest.param(page, id=page.key) for page in PAGES])
every_component = pytest.mark.parametrize(("page", "name"), keyed(COMPONENTS))
every_module = pytest.mark.parametrize(("page", "name"), keyed(of_kind(torch.nn.Module)))
every_estimator = pytest.mark.parametrize(("page", "name"), keyed(of_kind(BaseEstimator)))
every_claim = pytest.mark.parametrize(("page", "name"), keyed(CLAIMS))


def component(page, name):
    return next(one for one in page.components() if one.name == name)


@every_page
def test_docstring_has_all_its_parts(page):
    source = page.path.read_text(encoding="utf-8")
    text = page.text
    assert source.startswith('r"""'), "the docstring must be raw: the web page renders it"
    assert ": " in text.title
    assert text.title.endswith(".")
    assert len(text.story.split()) >= 20
    assert text.formulas
    assert text.symbols, "every symbol of the formula is mapped to a name"
    assert text.references
    for formula in text.formulas:
        assert to_mathml(formula, block=True).startswith("<math")
        assert "\\" not in to_unicode(formula)
    prose_to_unicode(text.story)
    for symbol, meaning in text.symbols:
        assert symbol.startswith("$")
        assert prose_to_unicode(meaning)
    for reference in text.references:
        assert reference.bibtex.startswith("@misc{")


@every_page
def test_file_has_the_order_of_the_house(page):
    body = ast.parse(page.path.read_text(encoding="utf-8")).body
    first = body[1]
    assert isinstance(first, ast.Assign)
    assert first.targets[0].id == "__all__", "__all__ comes right behind the docstring"
    assert page.claim_names, "a page states something"
    imported = [one.name for node in body if isinstance(node, ast.Import) for one in node.names]
    assert "random" not in imported, "everything random comes from the seed"


@every_component
def test_component_is_documented_with_an_example(page, name):
    one = component(page, name)
    assert one.thing.__module__ == page.module
    assert one.purpose.endswith((".", "?"))
    prose_to_unicode(one.purpose)
    assert ">>>" in one.doc, "an example that the tests run"
    parameters = inspect.signature(one.thing).parameters
    if inspect.isclass(one.thing):
        assert len(parameters) <= 8, "the ninth parameter means that a part should be passed in"


@every_component
def test_component_refuses_bad_values_with_the_sentence(page, name):
    thing = component(page, name).thing
    function = thing.__init__ if inspect.isclass(thing) else thing
    knobs = knobs_of(inspect.unwrap(function))
    for knob in knobs.values():
        bad = knob.domain.bad()
        sentence = f"{knob.name} must be {knob.domain.text}; got "
        with pytest.raises(UsageError) as caught:
            call(thing, {**required(function, knobs), knob.name: bad})
        assert sentence in str(caught.value)
        assert str(caught.value).startswith(f"{name}: ")


def call(thing, values):
    made = thing(**values)
    if isinstance(made, BaseEstimator):  # scikit-learn's constructors take anything; fit refuses
        made.fit(np.eye(4), np.array([0, 1, 0, 1]))


def required(function, knobs):
    """Give good values for parameters without default; what has no domain is never looked at."""
    return {
        parameter.name: knobs[parameter.name].domain.good() if parameter.name in knobs else None
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.name != "self"
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


@every_module
def test_modules_survive_saving_and_their_gradients_reach_every_parameter(page, name):
    thing = component(page, name).thing
    names = run_example(thing, page)
    made = [one for one in names.values() if isinstance(one, thing)]
    assert made, "the example keeps an instance under a name"
    if any(list(module.parameters()) for module in made):
        outputs = [one for one in names.values() if isinstance(one, torch.Tensor) and one.grad_fn]
        assert outputs, "the example keeps an output under a name"
        sum(output.sum() for output in outputs).backward()
    for module in made:
        silent = [key for key, one in module.named_parameters() if one.grad is None]
        assert not silent, f"no gradient reaches {silent}"
        state = {key: value.clone() for key, value in module.state_dict().items()}
        for value in module.state_dict().values():
            value.zero_()
        module.load_state_dict(state)
        assert all(torch.equal(module.state_dict()[key], value) for key, value in state.items())


@every_module
def test_modules_come_back_whole_in_every_configuration(page, name, tmp_path):
    thing, calls = component(page, name).thing, {}

    def remember(module, inputs):
        if isinstance(module, thing):
            calls[module] = inputs

    hook = torch.nn.modules.module.register_module_forward_pre_hook(remember)
    try:
        made = [one for one in run_example(thing, page).values() if isinstance(one, thing)]
    finally:
        hook.remove()
    for module in {**dict.fromkeys(made), **calls}:
        for one in configurations(module):
            save_model(tmp_path, one, {}, page.key)
            back, _ = load_model(tmp_path)
            assert all(same(*two) for two in zip(tensors(one), tensors(back), strict=True))
            assert [each.training for each in one.modules()] == [
                each.training for each in back.modules()]
            if module in calls:
                assert same(answer(one, calls[module]), answer(back, calls[module]))


def configurations(module):
    """The module as it is, then others of first weights that differ from it in one choice."""
    yield module
    made_with = vars(module).get(MADE_WITH, {})
    for knob in knobs_of(inspect.unwrap(type(module).__init__)).values():
        maybe = isinstance(knob.domain, Maybe)
        domain = knob.domain.inner if maybe else knob.domain
        options = [None] if maybe else []
        options += domain.options if isinstance(domain, Choice) else ()
        options += (False, True) if isinstance(domain, Switch) else ()
        for option in options:
            with contextlib.suppress(UsageError):  # the others may not go with it
                yield type(module)(**{**made_with, knob.name: option})


def tensors(module):
    yield from module.parameters()
    yield from module.buffers()


def answer(module, inputs):
    torch.manual_seed(0)  # for layers that draw
    return module(*inputs)


def same(one, other):
    if isinstance(one, torch.Tensor):
        equal = torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
        return one.dtype == other.dtype and equal
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def run_example(thing, page):
    """Run a component's example and return the names it made."""
    example = doctest.DocTestFinder().find(thing, thing.__name__, globs=vars(page.load()))[0]
    names = dict(vars(page.load()))
    before = set(names)
    for step in example.examples:
        exec(compile(step.source, "example", "single"), names)
    return {name: value for name, value in names.items() if name not in before}


@every_estimator
@pytest.mark.filterwarnings("ignore")
def test_estimators_pass_scikit_learns_own_checks(page, name):
    thing = component(page, name).thing
    # where the theory itself refuses what a check demands, the estimator says so
    excused = getattr(thing, "excused_checks", {})
    check_estimator(thing(), expected_failed_checks=excused, on_skip=None)


@every_claim
def test_claim_is_declared_in_full(page, name):
    claim = page.claim(name)
    assert claim.page == page.key
    assert claim.statement.endswith(".")
    prose_to_unicode(claim.statement)
    prose_to_unicode(claim.misprint)
    parameters = dict(inspect.signature(claim.function).parameters)
    assert next(iter(parameters)) == "seed"
    assert set(parameters) - {"seed"} == set(claim.knobs), "every parameter has a domain"
    for knob in claim.knobs.values():
        assert knob.accept(claim.key, knob.default) == knob.default
        assert knob.schema() is not None
        assert knob.help.endswith((".", "?")), f"{knob.name} needs words, in Knobs: or Args:"
        prose_to_unicode(knob.help)
    assert bool(claim.sees) == claim.headline, "a headline says what one sees, and only it"
    assert not claim.sees or claim.sees.endswith(".")
    for control in claim.controls:
        assert set(control.knobs) <= set(claim.knobs)
        for knob, value in control.knobs.items():
            assert claim.knobs[knob].accept(claim.key, value) == value
        broken = {knob: claim.knobs[knob].default for knob in control.knobs}
        assert dict(control.knobs) != broken, "a control must change something"
        prose_to_unicode(control.words)
    if len(claim.controls) > 1:
        assert all(control.words for control in claim.controls), "several controls need words"


@every_page
def test_claims_run_components_or_say_why_not(page):
    for name, run in components_of_claims(page).items():
        excuse = page.claim(name).no_component
        assert run or excuse, f"{name} runs no component; no_component= says why"
        assert not (run and excuse), f"{name} runs {sorted(run)}"


@every_claim
def test_claim_refuses_bad_knobs_with_the_sentence(page, name):
    claim = page.claim(name)
    for knob in claim.knobs.values():
        with pytest.raises(UsageError) as caught:
            claim.check([0], **{knob.name: knob.domain.bad()})
        assert str(caught.value).startswith(
            f"{claim.key}: {knob.name} must be {knob.domain.text}; got "
        )


@every_claim
@pytest.mark.usefixtures("untouched")
def test_claim_holds_and_every_part_can_fail(page, name, seeds):
    claim = page.claim(name)
    finding = claim.check(seeds)
    remember_sound(page.key, name, finding.passed)  # so that planted bugs need not ask again
    assert finding.passed, "\n".join(finding.complaints)
    json.dumps(finding.to_json(), allow_nan=False)
    figure = finding_figure(finding)
    titles = [one.text for one in figure.layout.annotations]
    for what in ("measure", "control"):
        assert any(one.startswith(what) for one in titles), f"the {what} is not drawn"
    for control, observation in zip(claim.controls, finding.controls, strict=False):
        named = set() if control.refutes == "all" else set(control.refutes)
        unknown = [one for one in named if not Control({}, [one]).parts_of(observation.evidence)]
        assert not unknown, f"the control {control.said} has no parts {unknown}"
    able = {part for one in finding.controls for part in one.refutes}
    chapter, short = page.key.split("/")
    guards = [part for one, part in guarded(TESTS / chapter / f"test_{short}.py") if one == name]
    evidence = finding.measures[0].evidence
    able |= set(Control({}, guards).parts_of(evidence))
    parts = [part for part, _ in evidence.leaves if part]
    never = [part for part in parts if part not in able]
    assert not never, f"no control and no planted bug that names it refutes {never}"
    assert evidence.parts or evidence.name, "a number has a name: at_least(...).named('overlap')"
    picture = picture_of(evidence)
    assert not complaints(picture)
    generic = isinstance(picture, Plot) and picture.generic
    assert generic == bool(claim.no_figure), "a figure of its own, or a reason why it needs none"


def test_few_claims_have_no_figure_of_their_own():
    without = [f"{page.key}:{name}" for page, name in CLAIMS if page.claim(name).no_figure]
    assert len(without) <= MOST_WITHOUT_FIGURE, without


every_hero = pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.key) for page in PAGES if page.hero_name]
)


@every_hero
@pytest.mark.usefixtures("untouched")
def test_hero_says_what_it_shows_and_moves(page):
    hero = page.hero()
    assert hero.name == page.hero_name
    assert hero.statement.endswith(".")
    prose_to_unicode(hero.statement)
    assert 2 <= len(hero.knobs) <= 4, "two or three knobs, and the one that moves"
    for knob in hero.knobs.values():
        assert knob.help.endswith("."), f"{knob.name} needs words, in Args:"
        assert knob.accept(hero.key, knob.default) == knob.default
        with pytest.raises(UsageError):
            hero.picture(**{knob.name: knob.domain.bad()})
    recording = hero.recording()
    assert len(recording.values) >= 4, "a knob that moves it through more than a few pictures"
    figure = draw(recording)  # which Plotly checks in full
    assert len({json.dumps(drawn(one), sort_keys=True) for one in recording.pictures}) >= 4
    assert len(figure.to_json()) < 1_500_000, "small enough to travel"
    for one in (*recording.pictures, hero.picture()):
        assert all(plot.series for plot in plots_of(one))
    assert json.dumps(drawn(hero.picture())) == json.dumps(drawn(hero.picture()))


@every_hero
def test_every_knob_of_a_hero_changes_it_from_end_to_end(page):
    hero = page.hero()
    for name, knob in hero.knobs.items():
        ends = ends_of(knob.domain)
        pictures = {json.dumps(drawn(hero.picture(**{name: one}))) for one in ends}
        assert len(pictures) > 1, f"{name} changes nothing"


def ends_of(domain):
    if isinstance(domain, Choice):
        return domain.options
    return (False, True) if isinstance(domain, Switch) else (domain.low, domain.high)


@every_claim
@pytest.mark.sampled(24)
def test_claim_depends_on_its_seed_and_knobs_alone(page, name):
    claim = page.claim(name)
    first, again = (json.dumps(claim.observe(0, {}).to_json()) for _ in range(2))
    assert first == again
