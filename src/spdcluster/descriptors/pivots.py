"""The compiled part of `spdcluster.descriptors.definiteness`, for many small matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

Array = NDArray[Any]


@compiled
def sort_out(
    matrices: Array, least: float, small: float, failed: Array, doubtful: Array
) -> None:  # pragma: no cover
    """Eliminate each matrix (n, d, d) and judge its pivots.

    Parameters
    ----------
    matrices : ndarray (n, d, d)
    least : float
        A matrix has failed with the first pivot that is no more than this share of its variance.
    small : float
        One that has not is doubtful if a pivot is below this share of the trace.
    failed, doubtful : ndarray of bool (n,)
        The result.
    """
    n, d = matrices.shape[:2]
    rest = np.empty((d, d))
    for m in range(n):
        trace = 0.0
        for i in range(d):
            trace += matrices[m, i, i]
            for j in range(i + 1):
                rest[i, j] = matrices[m, i, j]
        lowest = np.inf
        failed[m] = False
        for j in range(d):
            pivot = rest[j, j]
            if not pivot > least * matrices[m, j, j]:  # so that NaN fails
                failed[m] = True
                break
            lowest = min(lowest, pivot)
            inverse = 1.0 / pivot
            for i in range(j + 1, d):
                share = rest[i, j] * inverse
                for k in range(j + 1, i + 1):
                    rest[i, k] -= share * rest[k, j]
        doubtful[m] = not failed[m] and lowest < small * trace
