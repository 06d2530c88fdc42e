"""Training: one loop, what it minimizes, the callbacks that it takes, and checkpoints.

A name is loaded when it is first used, so that a component which is a callback or an optimizer
costs no more than that; the stub `__init__.pyi` beside this file lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
