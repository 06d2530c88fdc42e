"""Errors that teach: one sentence that says what was expected, what came, and what to do next."""

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = ["Failure", "UsageError", "usage_error", "shown", "suggestion"]

MOST_LISTED = 100  # words that an error names


class UsageError(ValueError, TypeError):
    """A mistake that the user can mend, told in one sentence.

    Both a `ValueError` and a `TypeError`, so that code that expects either one catches it.
    """


class Failure(RuntimeError):
    """Something outside the user's input went wrong, told in one sentence."""


def usage_error(owner: str, name: str, domain: str, got: Any, hint: str = "") -> UsageError:
    """Make the house error: `Owner: name must be <domain>; got <value>. <next step>`.

    Example:
        >>> print(usage_error("PGD", "eps", "in (0, inf)", -0.1))
        PGD: eps must be in (0, inf); got -0.1.
    """
    sentence = f"{owner}: {name} must be {domain}; got {shown(got)}."
    return UsageError(f"{sentence} {hint}".rstrip())


def suggestion(word: str, known: Iterable[str]) -> str:
    """Say which known word was probably meant, or list what there is.

    Example:
        >>> suggestion("hopfeild", ["hopfield", "margin"])
        "Did you mean 'hopfield'?"
    """
    known = list(known)
    if close := difflib.get_close_matches(str(word), known, n=1, cutoff=0.6):
        return f"Did you mean {close[0]!r}?"
    # a page's bare name is often typed without its chapter
    if inside := [candidate for candidate in known if str(word) and str(word) in candidate]:
        return f"Did you mean {inside[0]!r}?"
    more = f", and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"There is {', '.join(known[:MOST_LISTED])}{more}." if known else "There is none."


def shown(value: Any) -> str:
    """Show a value in an error: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
