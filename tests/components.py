"""Which components of the course the claims of a page run, read off their source."""

import ast
import functools

from principia.lab.course import catalog


def components_of_claims(page):
    """Find for each claim the components that it names, itself or in what its file defines."""
    tree = ast.parse(page.room("claims").read_text(encoding="utf-8"))
    exports = _exports()
    imported, used = {}, {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            named = {one.asname or one.name: one.name for one in node.names}
            known = exports.get(node.module, ())
            imported |= {local: name for local, name in named.items() if name in known}
            continue
        defined = [getattr(node, "name", "")]
        if isinstance(node, ast.Assign):
            defined = [one.id for one in node.targets if isinstance(one, ast.Name)]
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        used |= dict.fromkeys(defined, names)
    found = {}
    for claim in page.claim_names:
        waiting, seen = {claim if claim in used else f"{claim}_claim"}, set()
        while waiting:
            seen |= waiting
            waiting = set().union(*(used.get(name, ()) for name in waiting)) - seen
        found[claim] = {imported[name] for name in seen if name in imported}
    return found


@functools.cache
def _exports():
    return {one.module: one.exports for chapter in catalog.chapters() for one in chapter.pages}
