"""Pictures as plain data: marks on axes, side by side, or moving over a parameter.

Whoever has something to show (a claim, an experiment, a page) says here what is to be seen;
`principia.lab.figures` draws it with Plotly. A name is loaded when it is first used; the stub
`__init__.pyi` beside this file lists the names, for Python and for type checkers alike.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
