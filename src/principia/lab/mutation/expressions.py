r"""Bugs in expressions: another operator, sign, number, axis, order, or a term that is gone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from principia.lab.mutation.places import Change, Script

__all__ = ["changes_of"]

ARITHMETIC: dict[type, tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.MatMult: ("@", "*"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
OPPOSITE: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}
BOUNDARY: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
}
DROPPED = (ast.Add, ast.Sub, ast.Mult, ast.Div)
PAIRS = (
    "min max", "amin amax", "argmin argmax", "minimum maximum", "fmin fmax", "clamp_min clamp_max",
    "sum mean", "any all", "floor ceil", "zeros ones", "zeros_like ones_like", "new_zeros new_ones",
    "sin cos", "sinh cosh", "tril triu", "add_ sub_", "mul_ div_", "cumsum cumprod", "rand randn",
    "var std",
)
OTHER_NAME = {one: two for pair in PAIRS for one, two in (pair.split(), pair.split()[::-1])}
BUILTIN = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max"}
BARE = {  # a method without which something is missing
    "abs", "sqrt", "square", "exp", "log", "sign", "conj", "detach", "clamp", "clamp_min",
    "clamp_max", "cumsum", "flip", "neg", "reciprocal", "nan_to_num", "triu", "tril", "transpose",
}
MODULES = {"torch", "np", "math", "F", "linalg", "special"}  # as pages call them
TURNED = {"T", "mT", "H", "mH"}
AXIS = {"dim", "axis", "dims"}
REDUCES = {  # methods whose first argument is an axis
    "sum", "mean", "amin", "amax", "argmin", "argmax", "softmax", "log_softmax", "logsumexp", "std",
    "var", "prod", "cumsum", "cumprod", "all", "any", "sort", "argsort", "unsqueeze", "squeeze",
    "flip", "size", "flatten", "unbind", "diff", "median", "norm",
}
SYMMETRIC = {  # functions of two arguments whose order says nothing
    "min", "max", "minimum", "maximum", "fmin", "fmax", "equal", "allclose", "isclose", "dot",
    "logaddexp", "hypot", "broadcast_shapes", "gcd", "lcm", "isinstance", "issubclass", "getattr",
    "setattr", "hasattr", "register_buffer", "register_parameter", "broadcast_tensors",
}


def changes_of(script: Script, node: ast.AST, *, axis: bool, index: bool) -> Iterator[Change]:
    """Give the changes of one expression itself, not of those inside it.

    Args:
        script: The source.
        node: The expression.
        axis: Whether it is an axis.
        index: Whether it is part of an index.
    """
    match node:
        case ast.BinOp():
            yield from _operation(script, node)
        case ast.BoolOp():
            yield from _connected(script, node)
        case ast.Compare():
            yield from _comparison(script, node)
        case ast.UnaryOp():
            yield from _unary(script, node, axis=axis, index=index)
        case ast.Constant():
            for kind, new in _numbers(node.value, axis=axis):
                yield Change(kind, script.start(node), script.end(node), new)
        case ast.IfExp():
            yield from condition(script, node.test)
        case ast.Call():
            yield from _call(script, node)
        case ast.Attribute(ctx=ast.Load()) if node.attr in TURNED:
            yield Change("transpose", script.end(node.value), script.end(node), "")
        case ast.Slice():
            yield from _slice(script, node)


def condition(script: Script, test: ast.expr) -> Iterator[Change]:
    """Decide a condition once and for all."""
    for answer in ("True", "False"):
        if not isinstance(test, ast.Constant):
            yield Change("condition", script.start(test), script.end(test), answer)


def _operation(script: Script, node: ast.BinOp) -> Iterator[Change]:
    if type(node.op) not in ARITHMETIC or _is_text(node.left) or _is_text(node.right):
        return
    sign, other = ARITHMETIC[type(node.op)]
    start, end = script.sign(node.left, node.right, sign)
    yield Change("operator", start, end, other)
    if isinstance(node.op, DROPPED):
        whole = script.start(node), script.end(node)
        yield Change("term", *whole, script.between(whole[0], start).rstrip())
        if isinstance(node.op, (ast.Add, ast.Mult)):
            yield Change("term", *whole, script.between(end, whole[1]).lstrip())


def _is_text(node: ast.expr) -> bool:
    literal = isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    return literal or isinstance(node, ast.JoinedStr)


def _connected(script: Script, node: ast.BoolOp) -> Iterator[Change]:
    sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for before, behind in zip(node.values, node.values[1:], strict=False):
        yield Change("logic", *script.sign(before, behind, sign), other)


def _comparison(script: Script, node: ast.Compare) -> Iterator[Change]:
    before = node.left
    for one, behind in zip(node.ops, node.comparators, strict=True):
        for kind, table in (("comparison", OPPOSITE), ("boundary", BOUNDARY)):
            if type(one) in table:
                sign, other = table[type(one)]
                yield Change(kind, *script.sign(before, behind, sign), other)
        before = behind


def _unary(script: Script, node: ast.UnaryOp, *, axis: bool, index: bool) -> Iterator[Change]:
    whole = script.start(node), script.end(node)
    sign = 3 if isinstance(node.op, ast.Not) else 1
    bare = script.between(whole[0] + sign, whole[1]).lstrip()
    number = node.operand.value if isinstance(node.operand, ast.Constant) else None
    if isinstance(node.op, (ast.Not, ast.Invert)):
        yield Change("logic", *whole, bare)
    elif isinstance(node.op, ast.USub):
        if axis and isinstance(number, int):
            yield Change("axis", *whole, "0" if number == 1 else f"-{number - 1}")
        elif index and isinstance(number, int):
            yield Change("number", *whole, f"-{number + 1}")
        else:
            yield Change("sign", *whole, bare)


def _numbers(value: Any, *, axis: bool) -> Iterator[tuple[str, str]]:
    """Give other numbers, and what kind of bug they are."""
    if isinstance(value, bool):
        yield "logic", str(not value)
    elif isinstance(value, int):
        if axis:
            yield "axis", "-1" if value == 0 else str(value - 1)
        elif value >= 100:  # one more is nothing to it
            yield "number", str(value // 2)
        else:
            yield "number", str(value + 1)
            if value in (1, 2):
                yield "number", str(value - 1)
    elif isinstance(value, float):
        yield "number", repr(2 * value if value else 1.0)


def _call(script: Script, node: ast.Call) -> Iterator[Change]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in BUILTIN:
        new = BUILTIN[called.id]
        yield Change("function", script.start(called), script.end(called), new)
    if isinstance(called, ast.Attribute):
        end = script.end(called)
        if called.attr in OTHER_NAME:
            start = end - len(called.attr.encode())
            yield Change("function", start, end, OTHER_NAME[called.attr])
        if called.attr in BARE and not _is_module(called.value):
            yield Change("call", script.end(called.value), script.end(node), "")
    yield from _swapped(script, node)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in MODULES


def _swapped(script: Script, node: ast.Call) -> Iterator[Change]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    starred = any(isinstance(one, ast.Starred) for one in node.args)
    if len(node.args) < 2 or starred or name in SYMMETRIC:
        return
    place = 0 if len(node.args) == 2 else 1  # of three, the last two are more alike
    yield from swap(script, node.args[place], node.args[place + 1])


def swap(script: Script, one: ast.expr, two: ast.expr) -> Iterator[Change]:
    """Exchange two neighbors of a list."""
    start, end = script.start(one), script.end(two)
    texts = script.text(one), script.text(two)
    between = script.between(script.end(one), script.start(two))
    if texts[0] != texts[1] and not set(between) & set("()#"):
        yield Change("order", start, end, texts[1] + between + texts[0])


def _slice(script: Script, node: ast.Slice) -> Iterator[Change]:
    for part in (node.lower, node.upper):
        if part is not None:
            yield Change("slice", script.start(part), script.end(part), "")
