"""The compiled step of `spdcluster.expression.lrr`: how long the error of each column is at its best."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

Array = NDArray[Any]

TINY = 1e-300


@compiled
def error_norms(squared: Array, variance: Array) -> Array:  # pragma: no cover
    """Solve ``sum_r squared_jr / (t_j + variance_r)^2 = 1`` for the norms ``t_j`` (N,); zero where none is.

    Newton's method on the reciprocal root of the left side, which is concave and almost linear in t, from
    a point left of the root.

    Parameters
    ----------
    squared : ndarray, shape (N, k)
        One column of the problem in a row.
    variance : ndarray, shape (k,)
    """
    n, k = squared.shape
    error = np.zeros(n)
    largest = variance.max()
    for j in range(n):
        b = squared[j]
        length, at_zero, t = 0.0, 0.0, 0.0
        for r in range(k):
            length += b[r]
            root = np.sqrt(b[r])
            at_zero += (root / max(variance[r], TINY)) ** 2
            t = max(t, root - variance[r])
        if at_zero <= 1.0:
            continue
        t = max(t, np.sqrt(length) - largest)
        for _ in range(100):
            total, slope = 0.0, 0.0
            for r in range(k):
                inverse = 1.0 / max(t + variance[r], TINY)
                term = b[r] * inverse * inverse
                total += term
                slope += term * inverse
            step = (np.sqrt(total) - 1.0) * total / slope
            t = max(t + step, 0.0)
            if abs(step) <= 1e-14 * t:
                break
        error[j] = t
    return error
