"""Training: one loop, what it minimizes, the parts that it takes, and checkpoints."""

from principia.lab.training.fit import Diverged, Trained, fit
from principia.lab.training.metrics import accuracy, evaluate, rmse
from principia.lab.training.objectives import Objective, Once, Reconstruction, Supervised
from principia.lab.training.offers import part
from principia.lab.training.parts import EMA, SWA, ClipNorm, EarlyStopping, OneCycle, Part, Schedule

__all__ = [
    "EMA", "SWA", "ClipNorm", "Diverged", "EarlyStopping", "Objective", "Once", "OneCycle",
    "Part", "Reconstruction", "Schedule", "Supervised", "Trained", "accuracy", "evaluate", "fit",
    "part", "rmse",
]
