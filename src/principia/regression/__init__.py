"""Regression: one linear layer, and what its loss makes of it.

Squared error (`least_squares`), squared error with a quadratic or an absolute price (`ridge`,
`lasso`), the Bernoulli loss (`logistic`) and the categorical one (`softmax`). They are the last
layer of every later network, and the only models of the course with closed forms or convex losses,
so that most claims are exact. X is (s, d), one row a sample; predictions are Xw.
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
