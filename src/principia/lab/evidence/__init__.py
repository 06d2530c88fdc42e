"""Evidence: what a claim measured, the relations that make it, and checks of many claims at once.

A name is loaded when it is first used, so that the command line starts without NumPy; the stub
`__init__.pyi` beside this file lists the names, for Python and for type checkers alike.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
