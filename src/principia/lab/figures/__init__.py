"""Figures: pictures, evidence and trainings, drawn with Plotly; they need no network.

A name is loaded when it is first used; the stub `__init__.pyi` beside this file lists the names,
for Python and for type checkers alike.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
