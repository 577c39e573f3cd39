"""A Cholesky factor that follows a set of atoms as they come and go, in vector instructions.

``A = U^T U`` is kept as its upper factor, row by row, with the reciprocals of the diagonal in its place:
so every inner loop below runs along a row, and none divides. Atoms that depend on the others are let in
with a pivot at `PIVOT_FLOOR`: the step then follows the flat direction until some coefficient reaches
zero and leaves, which takes no special case.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

# smallest pivot, as a share of the atom's diagonal entry
PIVOT_FLOOR = 1e-13


@compiled
def append_atom(
    U: NDArray[Any], m: int, column: NDArray[Any], diagonal: float
) -> float:  # pragma: no cover
    """Grow the factor of m atoms by one with the values `column` (m,), which are used up; its pivot."""
    pivot = diagonal
    for a in range(m):
        w = column[a] * U[a, a]
        for b in range(a + 1, m):
            column[b] -= w * U[a, b]
        U[a, m] = w
        pivot -= w * w
    pivot = max(pivot, PIVOT_FLOOR * diagonal, 1e-300)
    U[m, m] = 1.0 / np.sqrt(pivot)
    return pivot


@compiled
def remove_atom(
    U: NDArray[Any], m: int, position: int, y: NDArray[Any]
) -> None:  # pragma: no cover
    """Shrink the factor of m atoms by one; `y` (m,) = U^-T b follows, if it is not empty."""
    for a in range(position):
        for b in range(position, m - 1):
            U[a, b] = U[a, b + 1]
    for a in range(position, m - 1):
        # the rows below the gap have one entry too many: rotate it away, row by row
        here, below = U[a, a + 1], 1.0 / U[a + 1, a + 1]
        inverse = 1.0 / np.sqrt(here * here + below * below)
        cos, sin = here * inverse, below * inverse
        U[a, a] = inverse
        for b in range(a + 1, m - 1):
            upper, lower = U[a, b + 1], U[a + 1, b + 1]
            U[a, b] = cos * upper + sin * lower
            U[a + 1, b + 1] = cos * lower - sin * upper
        if len(y) > 0:
            upper, lower = y[a], y[a + 1]
            y[a] = cos * upper + sin * lower
            y[a + 1] = cos * lower - sin * upper


@compiled
def solve_transposed(U: NDArray[Any], m: int, x: NDArray[Any]) -> None:  # pragma: no cover
    """Solve ``U^T y = x`` in place for the leading m entries."""
    for a in range(m):
        value = x[a] * U[a, a]
        x[a] = value
        for b in range(a + 1, m):
            x[b] -= value * U[a, b]


@compiled
def solve_upper(
    U: NDArray[Any], m: int, y: NDArray[Any], x: NDArray[Any]
) -> None:  # pragma: no cover
    """Solve ``U x = y`` for the leading m entries; `x` may be `y`."""
    for a in range(m - 1, -1, -1):
        value = y[a]
        for b in range(a + 1, m):
            value -= U[a, b] * x[b]
        x[a] = value * U[a, a]


@compiled
def solve_factored(U: NDArray[Any], m: int, x: NDArray[Any]) -> None:  # pragma: no cover
    """Solve ``U^T U y = x`` in place for the leading m entries."""
    solve_transposed(U, m, x)
    solve_upper(U, m, x, x)
