"""English text that every Python carries: the language reference of `help()`."""

from pydoc_data.topics import topics

__all__ = ["documentation", "documentation_by_topic"]


def documentation() -> str:
    """Load the topics of Python's reference, one after the other in alphabetical order.

    Example:
        >>> len(documentation()) > 400_000 and "statement" in documentation()
        True
    """
    return "\n\n".join(documentation_by_topic().values())


def documentation_by_topic() -> dict[str, str]:
    """Load the topics of Python's reference by name, in alphabetical order.

    Example:
        >>> "exception" in documentation_by_topic()["try"]
        True
    """
    return {name: topics[name].strip() for name in sorted(topics)}
