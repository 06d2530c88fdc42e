"""Checks annotations at run time, for jaxtyping's import hook."""

import beartype

NUMERIC = beartype.BeartypeConf(is_pep484_tower=True)  # an int is a float, as everywhere in Python


def checked(function):
    """Check all functions but constructors: those refuse bad values with a sentence of their own.

    A scikit-learn constructor must even take them: `fit` refuses.
    """
    if getattr(function, "__name__", "") == "__init__":
        return function
    return beartype.beartype(conf=NUMERIC)(function)
