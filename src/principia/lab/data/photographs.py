"""The two photographs that scikit-learn carries: `china` (a temple) and `flower`."""

import numpy as np
from sklearn.datasets import load_sample_image

__all__ = ["photographs"]


def photographs() -> dict[str, np.ndarray]:
    """Load the photographs by name, each (427, 640, 3) in bytes.

    Example:
        >>> {name: picture.shape for name, picture in photographs().items()}
        {'china': (427, 640, 3), 'flower': (427, 640, 3)}
    """
    return {name: load_sample_image(f"{name}.jpg") for name in ("china", "flower")}
