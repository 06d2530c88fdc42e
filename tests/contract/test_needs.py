"""What is missing is a skip, or a failure where it is required."""

import pytest

import needs


@pytest.fixture
def required(monkeypatch):
    """Start without any requirement."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(needs, "REQUIRED", set())


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("text", [None, "", "data"])
def test_without_a_requirement_it_is_skipped(text):
    needs.require(text)
    with pytest.raises(pytest.skip.Exception, match="no browser: install it"):
        needs.lacking("browser", "install it")


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("text", ["browser", "data, browser"])
def test_where_it_is_required_it_fails_with_the_same_sentence(text):
    needs.require(text)
    with pytest.raises(pytest.fail.Exception, match="no browser: install it"):
        needs.lacking("browser", "install it")


@pytest.mark.usefixtures("required")
def test_ci_requires_everything_unless_told_otherwise(monkeypatch):
    monkeypatch.setenv("CI", "true")
    needs.require("")
    assert not needs.REQUIRED
    needs.require(None)
    assert sorted(needs.REQUIRED) == sorted(needs.KINDS)


@pytest.mark.usefixtures("required")
def test_an_unknown_requirement_is_told():
    with pytest.raises(pytest.UsageError, match="kinds must be among browser, data; got luck"):
        needs.require("luck, data")
