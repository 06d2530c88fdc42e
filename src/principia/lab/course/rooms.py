"""The rooms of a page: its own file, its claims and its experiments, all under one name.

`chapter/page.py` has the components, `chapter/claims/page.py` what is true of them, and
`chapter/experiments/page.py` what they reach on data. One key, three addresses.
"""

__all__ = ["ROOMS", "page_key", "room_module"]

ROOMS = ("claims", "experiments")


def page_key(module: str) -> str:
    """Give the key of the page to which a module belongs.

    Example:
        >>> page_key("principia.connectionism.claims.hopfield")
        'connectionism/hopfield'
        >>> page_key("principia.connectionism.hopfield")
        'connectionism/hopfield'
    """
    *folders, page = module.split(".")
    chapter = folders[-2] if folders[-1] in ROOMS else folders[-1]
    return f"{chapter}/{page}"


def room_module(page: str, room: str) -> str:
    """Name the module of a room, from the module of its page.

    Example:
        >>> room_module("principia.connectionism.hopfield", "claims")
        'principia.connectionism.claims.hopfield'
    """
    chapter, _, name = page.rpartition(".")
    return f"{chapter}.{room}.{name}"
