"""Checks annotations at run time, behind jaxtyping's import hook.

Shapes are jaxtyping's business. It binds the arguments of every call for that, which takes longer
than most functions do: where no annotation has a shape, beartype looks alone.
"""

import inspect
import types
import typing

import beartype
import jaxtyping

NUMERIC = beartype.BeartypeConf(is_pep484_tower=True)  # an int is a float, as everywhere in Python
NESTED = {}  # what checks the functions inside functions, by their code

_with_shapes = jaxtyping.jaxtyped


def install():
    """Check every annotation of what the package has against the real arguments and results."""
    # what the hook puts above everything that it imports
    jaxtyping.jaxtyped = lambda *, typechecker: annotated
    jaxtyping.install_import_hook("principia", "typechecking.checked")


def checked(function):
    """Check all functions but constructors: those refuse bad values with a sentence of their own.

    A scikit-learn constructor must even take them: `fit` refuses.
    """
    if getattr(function, "__name__", "") == "__init__":
        return function
    return beartype.beartype(conf=NUMERIC)(function)


def annotated(thing):
    """Check a function by what its annotations need; what has none stays as it is."""
    if inspect.isclass(thing) or thing.__name__ == "__init__" or not thing.__annotations__:
        return thing
    known = NESTED.get(thing.__code__)
    if known and same_annotations(known.__wrapped__, thing):
        return _for_another(known, thing)
    told, hints = thing.__annotations__, _hints(thing)
    if any(map(_has_shape, hints.values())):
        return _with_shapes(thing, typechecker=checked)
    thing.__annotations__ = hints
    made = checked(thing)
    made.__annotations__ = thing.__annotations__ = told
    if "<locals>" in thing.__qualname__ and made is not thing:
        NESTED[thing.__code__] = made
    return made


def same_annotations(one, other):
    return one.__globals__ is other.__globals__ and one.__annotations__ == other.__annotations__


def _hints(function):
    """Evaluate annotations that are text; what only type checkers import may be anything."""
    found = {}
    for name, hint in function.__annotations__.items():
        one = types.SimpleNamespace(__annotations__={name: hint})
        try:
            found |= typing.get_type_hints(one, function.__globals__, include_extras=True)
        except Exception:  # as jaxtyping has it
            found[name] = typing.Any
    return found


def _has_shape(hint):
    shape = inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray)
    return shape or any(map(_has_shape, typing.get_args(hint)))


def _for_another(known, function):
    """Check a function by what was compiled for another of the same code: it is the last call's."""
    made = types.FunctionType(
        known.__code__, known.__globals__, known.__name__, known.__defaults__, known.__closure__)
    first = known.__wrapped__
    made.__kwdefaults__ = {
        name: function if value is first else value for name, value in known.__kwdefaults__.items()}
    made.__dict__.update(known.__dict__, __wrapped__=function)
    made.__annotations__, made.__doc__ = function.__annotations__, function.__doc__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made
