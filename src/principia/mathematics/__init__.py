"""Mathematics: the tools that every later chapter computes with.

The rules of `probability`, `moments` and their generating functions, the multivariate normal
(`gaussian`), tails and convexity in `inequalities`, and what `information` measures. Matrices and
their identities (`linear_algebra`), symmetry (`group`), and derivatives of all of it
(`matrix_calculus`). Last, what is true nearby (`taylor`) and what is true everywhere (`convexity`).
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
