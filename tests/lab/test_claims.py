"""A claim passes only if its measure holds and its control is refuted, on every seed."""

import json
import math
import pickle
from typing import Annotated

import pytest

from principia.lab.course import catalog
from principia.lab.evidence import Control, Evidence, Finding, Observation, at_most, claim, every
from principia.lab.figures import finding_figure, observation_figure
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed


def make(measure, control=None):
    @claim(control=control or {"shift": 2.0}, source="the test")
    def sample_claim(seed: Seed, *, shift: Annotated[float, Range(-9, 9)] = 0.0):
        """Something is small.

        This is not part of the statement.
        """
        return measure(seed, shift)

    return sample_claim


def small(seed, shift):
    return at_most(shift, 1.0, why="for the test")


def test_a_claim_that_holds_with_its_control_refuted():
    finding = make(small).check([0, 1])
    assert finding.passed
    assert finding.complaints == ()
    assert finding.key == "lab/test_claims:sample"
    described = finding.to_json()
    assert set(described) == {"page", "claim", "passed", "knobs", "measures", "controls"}
    assert [one["seed"] for one in described["measures"]] == [0, 1]
    assert described["controls"][0]["knobs"] == {"shift": 2.0}
    assert finding_figure(finding).data


def test_a_control_that_holds_is_as_loud_as_a_claim_that_fails():
    finding = make(small, {"shift": 0.5}).check([3])
    assert not finding.passed
    assert finding.complaints == (
        "CONTROL HOLDS, so the check cannot fail (seed 3): 0.5 ≤ 1",
    )
    failed = make(lambda seed, shift: at_most(5, 1, why="so")).check([3])
    assert failed.complaints == ("REFUTED (seed 3): 5 > 1",)


def in_parts(**declared):
    """A claim of two parts and a group; `shift` breaks the first two, `turn` the group."""

    @claim(source="the test", **declared)
    def parts_claim(
        seed: Seed, *, shift: Annotated[float, Range(-9, 9)] = 0.0,
        turn: Annotated[float, Range(-9, 9)] = 0.0,
    ):
        """Several things are small."""
        return every({
            "near": at_most(shift, 1.0, why="for the test"),
            "far": at_most(shift / 2, 1.0, why="for the test"),
            "group": every({
                "up": at_most(turn, 1.0, why="for the test"),
                "down": at_most(2 * turn, 1.0, why="for the test"),
            }),
        })

    return parts_claim


def test_a_control_refutes_every_part_unless_it_names_some():
    careless = in_parts(control={"shift": 3.0}).check([0])
    assert careless.controls[0].verdict == "refuted"
    assert not careless.passed
    assert careless.complaints == (
        "CONTROL SPARES A PART, so that part cannot fail (seed 0): group, up: 0 ≤ 1",
        "CONTROL SPARES A PART, so that part cannot fail (seed 0): group, down: 0 ≤ 1",
    )
    assert in_parts(control={"shift": 3.0}, refutes=["near", "far"]).check([0]).passed
    missed = in_parts(control={"shift": 1.5}, refutes=["near", "far"]).check([4])
    assert missed.complaints == (
        "CONTROL SPARES A PART, so that part cannot fail (seed 4): far: 0.75 ≤ 1",
    )


def test_several_controls_are_measured_on_every_seed_in_their_order():
    near = Control({"shift": 3.0}, ["far", "near"], "shifted")
    group = Control({"turn": 2.0}, ["group"])
    finding = in_parts(control=[near, group]).check([5, 6])
    assert finding.passed
    assert [(one.seed, one.knobs["shift"]) for one in finding.controls] == [
        (5, 3.0), (5, 0.0), (6, 3.0), (6, 0.0)
    ]
    assert [one.refutes for one in finding.controls[:2]] == [
        ("far", "near"), ("group, up", "group, down")
    ]
    assert (near.said, group.said) == ("shifted", "turn=2.0")
    plain = json.loads(json.dumps(finding.to_json(), allow_nan=False))
    assert plain["controls"][1]["refutes"] == ["group, up", "group, down"]
    assert Finding.from_json(plain).to_json() == plain
    assert Finding.from_json(plain).passed


def test_the_first_part_that_a_control_names_speaks_not_the_first_that_fails():
    finding = in_parts(control={"shift": 3.0}, refutes=["far", "near"]).check([0])
    (control,) = finding.controls
    assert control.summary == "far: 1.5 > 1"
    described = control.to_json()
    assert (described["measured"], described["speaker"]) == (1.5, "far")
    assert Observation.from_json(described).summary == "far: 1.5 > 1"
    spared = in_parts(control={"shift": 1.5}, refutes=["near", "far"]).check([0])
    assert spared.controls[0].summary == "far: 0.75 ≤ 1", "a part that is spared speaks first"


def test_an_undecided_part_is_spared():
    @claim(source="the test", control={"shift": 2.0})
    def undecided(seed: Seed, *, shift: Annotated[float, Range(-9, 9)] = 0.0):
        """Two things are small."""
        nan = float("nan")
        return every({
            "one": at_most(shift, 1.0, why="for the test"),
            "two": at_most(nan if shift else 0.0, 1.0, why="for the test"),
        })

    finding = undecided.check([0])
    assert [name for name, _ in finding.controls[0].spared] == ["two"]
    assert not finding.passed


def test_one_bad_seed_fails_the_claim():
    bad_seed = make(lambda seed, shift: at_most(shift + 5 * (seed == 2), 1, why="so"))
    finding = bad_seed.check(range(4))
    assert not finding.passed
    assert [one.verdict for one in finding.measures] == ["holds", "holds", "refuted", "holds"]


def test_a_crash_is_an_observation_with_its_trace():
    def crash(seed, shift):
        raise ZeroDivisionError("nobody divides")

    finding = make(crash).check([0])
    assert not finding.passed
    assert finding.measures[0].verdict == "error"
    assert "ERROR (seed 0): ZeroDivisionError: nobody divides" in finding.complaints
    assert "nobody divides" in finding.measures[0].trace
    assert finding.to_json()["measures"][0]["error"].startswith("ZeroDivisionError")


def test_an_undecided_control_does_not_count_as_refuted():
    nan = float("nan")
    finding = make(lambda seed, shift: at_most(nan if shift else 0, 1, why="so")).check([0])
    assert not finding.passed
    assert finding.complaints[0].startswith("CONTROL UNDECIDED")


def test_knobs_are_checked_and_the_control_overrides_them():
    sample = make(small)
    assert sample.check([0], shift=-3.0).controls[0].knobs == {"shift": 2.0}
    with pytest.raises(UsageError, match=r"sample: shift must be in \[-9, 9\]; got 10."):
        sample.check([0], shift=10)
    with pytest.raises(UsageError, match=r"there is no knob 'shft'\. Did you mean 'shift'"):
        sample.check([0], shft=1)


def test_values_that_do_not_fit_together_are_the_users_mistake():
    def refuses(seed, shift):
        raise UsageError("sample: shift must be odd; got even.")

    with pytest.raises(UsageError, match="must be odd"):
        make(refuses).check([0], shift=2.0)
    assert make(refuses).check([0]).measures[0].verdict == "error"  # nobody turned a knob: a bug


def test_a_claim_needs_a_control_and_a_source():
    with pytest.raises(UsageError, match="must have a control and a source"):
        claim(control={}, source="x")(small)
    with pytest.raises(UsageError, match="must have a control and a source"):
        claim(control={"shift": 1.0}, source="")(small)
    with pytest.raises(UsageError, match="must have a control and a source"):
        claim(control=[Control({})], source="x")(small)
    with pytest.raises(UsageError, match="must say in each of its controls what it refutes"):
        claim(control=[Control({"shift": 1.0})], refutes=["near"], source="x")(small)


def test_the_statement_is_the_first_paragraph():
    sample = make(small)
    assert sample.statement == "Something is small."
    assert sample(0, shift=1).holds


def test_findings_travel_between_processes():
    finding = make(small).check([0])
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_seeds_give_independent_generators():
    import torch

    one, same, other = Seed(1).child("a"), Seed(1).child("a"), Seed(1).child("b")
    assert one == same != other
    assert torch.equal(*(torch.rand(4, generator=seed.torch()) for seed in (one, same)))
    assert one.numpy().random() != other.numpy().random()


@pytest.mark.parametrize("key", ["connectionism/hopfield:phase_transition", "networks/mlp:nesting"])
def test_findings_of_pages_come_back_from_json_as_they_were(key):
    """Verdict, numbers, parts and picture survive, so that kept evidence draws itself."""
    ((page, name),) = catalog.select([key])
    finding = page.claim(name).check([0])
    plain = json.loads(json.dumps(finding.to_json(), allow_nan=False))
    again = Finding.from_json(plain)
    assert again.to_json() == plain
    assert again.passed == finding.passed
    pairs = [(finding.measures[0], again.measures[0]), (finding.controls[0], again.controls[0])]
    for one, other in pairs:
        assert one.summary == other.summary
        assert observation_figure(one).to_json() == observation_figure(other).to_json()


def test_errors_and_numbers_that_are_no_json_come_back_too():
    broken = Finding("a/b", "c", (Observation(3, {"n": 1}, error="ValueError: no"),), ())
    assert Finding.from_json(broken.to_json()).measures[0].summary == "ValueError: no"
    endless = at_most([math.inf, 1.0], [2.0, 2.0], why="for show")
    again = Evidence.from_json(json.loads(json.dumps(endless.to_json(), allow_nan=False)))
    assert (again.measured, again.verdict) == (math.inf, "refuted")
