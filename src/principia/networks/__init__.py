"""Networks: what layers of units are, and what they can represent.

The parts and their symmetries (`activations`, `mlp`); networks without the nonlinearity, where
everything is solved exactly (`linear_network`, `linear_dynamics`); layers that add to their input
(`residual`); what one hidden layer approximates, and how fast (`universality`, `polyline`,
`barron`); and how piecewise-linear functions are built and counted (`maxout`, `regions`). A layer
is x (B, n), W (m, n), b (m).
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
