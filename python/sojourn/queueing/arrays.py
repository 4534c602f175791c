"""Converts arrays for the native module: one dimension, `float64`, contiguous."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def vector(values: ArrayLike, name: str) -> Array:
    """Converts values to a one-dimensional array; a single number becomes an array of one.

    Raises:
        ValueError: if the values have more dimensions.
    """
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    return np.atleast_1d(array)
