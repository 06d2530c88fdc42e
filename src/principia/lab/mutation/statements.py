r"""Walks through a source and plants every bug that there is, but where no claim could look.

Left out are docstrings, annotations, imports, `__all__`, decorators, types, what a thing says of
itself, and all that serves an error or a warning, which tests look at: conditions whose whole body
raises, functions that do nothing else, and calls of these. Defaults stay in: whoever leaves an
argument out gets them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from principia.lab.mutation.expressions import AXIS, REDUCES, changes_of, condition, swap
from principia.lab.mutation.places import Bug, Change, Script

__all__ = ["bugs_in"]

SPEAKS = {"__repr__", "__str__", "extra_repr", "__sklearn_tags__"}  # of itself
TELLS = {"usage_error", "warn", "UsageError", "check_params", "check_is_fitted", "accept"}
MACHINERY = {  # keyword arguments that say how, not what
    "strict", "stacklevel", "dtype", "device", "persistent", "maxsize", "memory_format",
    "non_blocking", "copy", "display",
}
HEADERS = {  # compound statements: the expressions that stand in their first lines
    ast.If: ("test",), ast.While: ("test",), ast.For: ("target", "iter"), ast.With: ("items",),
    ast.Match: ("subject",),
}


def bugs_in(source: bytes, module: str) -> list[Bug]:
    """List all bugs that can be planted in a source, in its order."""
    walk = _Walk(Script(source), module)
    walk.body(walk.script.tree.body, "", inside=False)
    return sorted(walk.found, key=lambda one: (one.start, one.end))


class _Walk:
    """Where we are: the function, and the lines of the statement."""

    def __init__(self, script: Script, module: str) -> None:
        self.script, self.module = script, module
        self.guards = {*TELLS, *_guards(script.tree)}
        self.found: list[Bug] = []
        self.function = ""
        self.reach: tuple[int, int] | None = None

    def body(self, statements: list[ast.stmt], function: str, *, inside: bool) -> None:
        """Walk through the statements of a function, a class or the module."""
        for one in statements:
            self.statement(one, function, inside=inside)

    def statement(self, node: ast.stmt, function: str, *, inside: bool) -> None:
        """Plant the bugs of a statement and of all below it."""
        self.function = function
        self.reach = self._lines(node) if inside else None
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name not in SPEAKS | self.guards:
                    name = f"{function}.{node.name}".lstrip(".")
                    for default in (*node.args.defaults, *node.args.kw_defaults):
                        self.function = name
                        self.expression(default)
                    self.body(node.body, name, inside=True)
            case ast.ClassDef():
                self.body(node.body, f"{function}.{node.name}".lstrip("."), inside=inside)
            case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert():
                pass
            case ast.Global() | ast.Nonlocal() | ast.Delete() | ast.Pass():
                pass
            case ast.If() if _is_guard(node):
                self.body(node.orelse, function, inside=inside)
            case ast.If() | ast.While() | ast.For() | ast.With() | ast.Match() | ast.Try():
                self._compound(node, function, inside=inside)
            case ast.Expr(value=ast.Call() as call) if _called(call) in self.guards:
                pass
            case _ if not _is_story(node, inside=inside):
                self._simple(node, inside=inside)

    def _compound(self, node: ast.stmt, function: str, *, inside: bool) -> None:
        if isinstance(node, ast.If):
            self._plant(condition(self.script, node.test))
        elif isinstance(node, ast.While):
            self._plant(one for one in condition(self.script, node.test) if one.new == "False")
        for name in HEADERS.get(type(node), ()):
            part = getattr(node, name)
            for one in part if isinstance(part, list) else [part]:
                self.expression(one)
        blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [one.body for one in getattr(node, "handlers", [])]
        blocks += [one.body for one in getattr(node, "cases", [])]
        for block in blocks:
            self.body(block, function, inside=inside)

    def _simple(self, node: ast.stmt, *, inside: bool) -> None:
        if inside and _can_go(node):
            change = Change("statement", self.script.start(node), self.script.end(node), "pass")
            self._plant([change])
        match node:
            case ast.AugAssign():
                fake = ast.BinOp(node.target, node.op, node.value)
                ast.copy_location(fake, node)
                self._plant(one for one in changes_of(self.script, fake, axis=False, index=False)
                            if one.kind == "operator")
            case ast.Return(value=ast.Tuple(elts=[one, two, *_])):
                self._plant(swap(self.script, one, two))
        for name, value in ast.iter_fields(node):
            if name != "annotation":
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, ast.expr):
                        self.expression(one)

    def expression(self, node: ast.AST | None, *, axis: bool = False, index: bool = False) -> None:
        """Plant the bugs of an expression and of all inside it."""
        if node is None or isinstance(node, ast.JoinedStr):  # a text, which nothing computes with
            return
        if isinstance(node, ast.Call) and _called(node) in self.guards:
            return
        self._plant(changes_of(self.script, node, axis=axis, index=index))
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return  # a negative number is one number
        if isinstance(node, ast.Call):
            self._arguments(node)
            return
        for name, value in ast.iter_fields(node):
            inner = index or (isinstance(node, ast.Subscript) and name == "slice")
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    self.expression(one, axis=axis, index=inner)

    def _arguments(self, node: ast.Call) -> None:
        self.expression(node.func)
        method = isinstance(node.func, ast.Attribute) and node.func.attr in REDUCES
        turned = isinstance(node.func, ast.Attribute) and node.func.attr == "transpose"
        for place, one in enumerate(node.args):
            self.expression(one, axis=turned or (method and place == 0))
        for word in node.keywords:
            if word.arg not in MACHINERY:
                self.expression(word.value, axis=word.arg in AXIS)

    def _plant(self, changes: Iterator[Change] | list[Change]) -> None:
        for one in changes:
            self.found.append(self.script.bug(one, self.module, self.function, self.reach))

    def _lines(self, node: ast.stmt) -> tuple[int, int]:
        """Name the lines of a statement, of a compound one without what stands below it."""
        last = node.end_lineno or node.lineno
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        if isinstance(body, list):
            first = body[0]
            last = max(node.lineno, getattr(first, "lineno", getattr(
                getattr(first, "pattern", None), "lineno", last)) - 1)
        return node.lineno, last


def _guards(tree: ast.Module) -> set[str]:
    """Name the functions that do nothing but raise: by what they do, or of other pages by name."""
    defined = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    called = {_called(one) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    found = {one for one in called if one.startswith(("_need_", "need_"))}
    while more := {one.name for one in defined if _only_raises(one.body, found)} - found:
        found |= more  # what calls nothing but guards is one
    return found


def _only_raises(body: list[ast.stmt], guards: set[str]) -> bool:
    """Tell whether statements raise, or call what does, and do nothing else that lasts."""
    inner = [one for top in body for one in ast.walk(top) if isinstance(one, ast.stmt)]
    raises = False
    for one in inner:
        match one:
            case ast.Raise():
                raises = True
            case ast.Expr(value=ast.Call() as call):
                if _called(call) not in guards | TELLS:
                    return False
                raises = True
            case ast.Expr(value=ast.Constant()) | ast.Return(value=None) | ast.Pass():
                pass
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try() | ast.Assert():
                pass
            case ast.Continue() | ast.Break() | ast.Import() | ast.ImportFrom():
                pass
            case ast.Assign(targets=targets) if all(map(_is_local, targets)):
                pass
            case _:
                return False
    return raises


def _is_local(target: ast.expr) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(one, (ast.Name, ast.Starred)) for one in names)


def _is_guard(node: ast.If) -> bool:
    """Tell whether all that depends on a condition is an error or a warning."""
    *rest, last = node.body
    ends = isinstance(last, ast.Raise) or _warns(last)
    return ends and all(isinstance(one, (ast.Assign, ast.Import, ast.ImportFrom)) for one in rest)


def _warns(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and (
        _called(node.value) in TELLS)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _is_story(node: ast.stmt, *, inside: bool) -> bool:
    """Tell whether a statement is a docstring, a warning, `__all__` or a type."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if inside or not isinstance(node, ast.Assign):
        return _warns(node)
    named = any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    return named or isinstance(node.value, ast.Subscript) or (
        isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr))


def _can_go(node: ast.stmt) -> bool:
    """Tell whether a statement can be left out without a name that is missing."""
    match node:
        case ast.AugAssign() | ast.Break() | ast.Continue():
            return True
        case ast.Assign(targets=[ast.Subscript()]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(func=called)))):
            return getattr(called, "id", "") != "super"
        case ast.Expr(value=ast.Call()):
            return True
    return False
