"""English text that every Python carries: the language reference of `help()`."""

from pydoc_data.topics import topics

__all__ = ["documentation"]


def documentation() -> str:
    """Load the topics of Python's reference, one after the other in alphabetical order.

    Example:
        >>> len(documentation()) > 400_000 and "statement" in documentation()
        True
    """
    return "\n\n".join(topics[name].strip() for name in sorted(topics))
