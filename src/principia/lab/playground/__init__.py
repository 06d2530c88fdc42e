"""The playground: watch any model of the catalog learn in the plane, step by step and back."""

from principia.lab.playground.engine import Playground
from principia.lab.playground.registry import Choices, choices
from principia.lab.playground.setups import Setup, default_setup
from principia.lab.playground.sources import Data, read_text

__all__ = ["Choices", "Data", "Playground", "Setup", "choices", "default_setup", "read_text"]
