"""Connectionism: from the Boolean neuron to associative memory.

What one threshold unit can compute (`neuron`), how it learns and how often it errs (`perceptron`),
which of its solutions is best (`margin`), how many labelings it can realize at all (`cover`), how
the same rule becomes a gradient (`delta_rule`), and what a recurrent net of such units remembers
(`hopfield`, `dense_memory`). Labels are +1 and -1, margin always means geometric margin, and a
point with y(w.x + b) <= 0 counts as a mistake.
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
