"""Principia: deep learning you can check.

A whole deep-learning course as running code. It starts with the tools that every chapter computes
with (`mathematics`) and the threshold units that began it all (`connectionism`), fits one linear
layer (`regression`), stacks layers (`networks`), differentiates them (`gradients`), trains them
(`optimization`) and keeps them from memorizing (`regularization`). Then come the architectures:
images (`convolution`), sequences (`recurrence`, `attention`), words (`embeddings`) and graphs
(`geometry`); the theory: `kernels` and `generalization`; probability as a tool: `inference`,
`latent` variables, `generative` models and `energy` functions; and learning without labels
(`selfsupervised`) or against an adversary (`robustness`).

Importing this package loads nothing else; a component is imported from its chapter, as in
`from principia.connectionism import Perceptron`. In a notebook or a script, `principia.check`,
`principia.run` and `principia.page` do what the commands do, and give what a notebook draws.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from principia.lab.calls import check, page, run

__version__ = "0.1.0"
__all__ = ["__version__", "check", "page", "run"]


def __getattr__(name: str) -> Any:
    if name in ("check", "page", "run"):
        from principia.lab import calls

        return getattr(calls, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
