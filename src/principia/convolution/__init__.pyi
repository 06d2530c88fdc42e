# Made by `make stubs` from the pages' __all__; do not edit.
from .layer import running_average as running_average
