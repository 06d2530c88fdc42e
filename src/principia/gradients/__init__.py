"""Gradients: how the derivative of a network is computed, five ways of looking at one algorithm.

The layered recursion (`backprop`), the local rule of each layer (`layers`), the same on any acyclic
graph (`graph`), its price against forward mode (`modes`), and what the product of many Jacobians
does (`depth`). torch.autograd is the oracle everywhere. Jacobians are numerators by rows (m, n),
gradients are shaped like their variable, batches are rows.
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
