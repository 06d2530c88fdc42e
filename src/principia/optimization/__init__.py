"""Optimization: how a parameter vector goes downhill, and how fast.

First the functions on which all is measured (`problems`), and the geometry that decides every rate
(`smoothness`). Then `gradient_descent`, the `gradient_flow` that it follows, and its stochastic
version (`sgd`). What is added one idea at a time: `momentum`, a look ahead (`nesterov`), a step for
each coordinate (`adagrad`, `rmsprop`, `adam`) or for each matrix (`muon`), full `preconditioning`,
`averaging` of the iterates, step `schedules`. Last the terrain itself (`saddles`, `landscape`) and
the order in which problems are shown (`curriculum`). A test problem has one parameter theta (B, D):
B runs side by side.
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
