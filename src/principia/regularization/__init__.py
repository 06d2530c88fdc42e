"""Regularization: what is done to a network besides descending its loss.

How weights start (`initialization`); what pulls them back (`weight_decay`, `norm_constraint`) or
stops them in time (`early_stopping`); what is thrown at units (`dropout`), how activations and
weights are rescaled (`batch_norm`, `layer_norm`, `weight_norm`), what is done to the data
(`augmentation`, `noise`) and asked of the targets (`label_smoothing`, `distillation`), and what
else the net is asked to do at the same time (`multitask`). What acts during training is a part of
the training loop that any model can be given.
"""

from principia.lab.course.catalog import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
