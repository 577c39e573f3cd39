"""The factor of `spdcluster.expression.cholesky` for many atoms, with its loops written out in vectors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import cholesky
from spdcluster.expression.cholesky import PIVOT_FLOOR
from spdcluster.expression.compiled import compiled
from spdcluster.expression.long_vectors import (
    copy_entries,
    four_rows_times,
    rotate_rows,
    subtract_four_rows,
)

# atoms from which on the loops written out in vectors are faster than those of the compiler
MANY = 16

few_append_atom, few_remove_atom = cholesky.append_atom, cholesky.remove_atom
few_solve_transposed, few_solve_upper = cholesky.solve_transposed, cholesky.solve_upper


@compiled
def append_atom(
    U: NDArray[Any], m: int, column: NDArray[Any], diagonal: float
) -> float:  # pragma: no cover
    """Grow the factor of m atoms by one with the values `column` (m,), which are used up; its pivot."""
    if m < MANY:
        return few_append_atom(U, m, column, diagonal)
    pivot = diagonal
    solve_transposed(U, m, column)
    for a in range(m):
        w = column[a]
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
    if m < MANY:
        few_remove_atom(U, m, position, y)
        return
    for a in range(position):
        start = a * U.shape[1] + position
        copy_entries(U, start + 1, U, start, m - 1 - position)
    for a in range(position, m - 1):
        # the rows below the gap have one entry too many: rotate it away, row by row
        here, below = U[a, a + 1], 1.0 / U[a + 1, a + 1]
        inverse = 1.0 / np.sqrt(here * here + below * below)
        cos, sin = here * inverse, below * inverse
        U[a, a] = inverse
        rotate_rows(U, a, a + 2, m - a - 2, cos, sin)
        if len(y) > 0:
            upper, lower = y[a], y[a + 1]
            y[a] = cos * upper + sin * lower
            y[a + 1] = cos * lower - sin * upper


@compiled
def solve_transposed(U: NDArray[Any], m: int, x: NDArray[Any]) -> None:  # pragma: no cover
    """Solve ``U^T y = x`` in place for the leading m entries."""
    if m < MANY:
        few_solve_transposed(U, m, x)
        return
    first = 0
    while first + 4 <= m:
        a = first
        x0 = x[a] * U[a, a]
        x1 = (x[a + 1] - x0 * U[a, a + 1]) * U[a + 1, a + 1]
        x2 = (x[a + 2] - x0 * U[a, a + 2] - x1 * U[a + 1, a + 2]) * U[a + 2, a + 2]
        x3 = x[a + 3] - x0 * U[a, a + 3] - x1 * U[a + 1, a + 3] - x2 * U[a + 2, a + 3]
        x3 *= U[a + 3, a + 3]
        x[a], x[a + 1], x[a + 2], x[a + 3] = x0, x1, x2, x3
        first += 4
        subtract_four_rows(x, first, U, a, m - first, x0, x1, x2, x3)
    for a in range(first, m):
        value = x[a] * U[a, a]
        x[a] = value
        for b in range(a + 1, m):
            x[b] -= value * U[a, b]


@compiled
def solve_upper(
    U: NDArray[Any], m: int, y: NDArray[Any], x: NDArray[Any]
) -> None:  # pragma: no cover
    """Solve ``U x = y`` for the leading m entries; `x` may be `y`."""
    if m < MANY:
        few_solve_upper(U, m, y, x)
        return
    last = m
    while last >= 4:
        a = last - 4
        x0, x1, x2, x3 = y[a], y[a + 1], y[a + 2], y[a + 3]
        four_rows_times(U, a, m - last, x, last, x)
        x3 = (x3 - x[a + 3]) * U[a + 3, a + 3]
        x2 = (x2 - x[a + 2] - x3 * U[a + 2, a + 3]) * U[a + 2, a + 2]
        x1 = (x1 - x[a + 1] - x2 * U[a + 1, a + 2] - x3 * U[a + 1, a + 3]) * U[a + 1, a + 1]
        x0 -= x[a] + x1 * U[a, a + 1] + x2 * U[a, a + 2] + x3 * U[a, a + 3]
        x[a], x[a + 1], x[a + 2], x[a + 3] = x0 * U[a, a], x1, x2, x3
        last = a
    for a in range(last - 1, -1, -1):
        value = y[a]
        for b in range(a + 1, m):
            value -= U[a, b] * x[b]
        x[a] = value * U[a, a]
