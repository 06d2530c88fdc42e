"""Runs: experiments, the folders that keep them, trained models, reports and the ledger.

A name is loaded when it is first used; the stub `__init__.pyi` beside this file lists the names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
