"""Compiled values of the Gaussian kernel ``exp(-|u - v|^2)``, many at a time.

numba's own ``exp`` is one call an entry; a polynomial for ``2^x`` with the exponent added to the bits of
its value stays in vector registers. Relative error: 2e-7 in float32 for the exponential alone, 2e-15 in
float64.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled, leaf
from spdcluster.expression.intrinsics import bits_of

LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@compiled
def exp_negative(x: NDArray[Any]) -> None:  # pragma: no cover
    """``x[:] = exp(-min(x, 700))`` for float64 ``0 <= x``."""
    for j in range(len(x)):
        y = min(x[j], 700.0)
        whole = np.floor(0.5 - y * LOG2E)
        f = (-y - whole * LN2_HIGH) - whole * LN2_LOW  # in +- ln(2)/2
        s = 1.6059043836821613e-10
        s = s * f + 2.08767569878681e-09
        s = s * f + 2.505210838544172e-08
        s = s * f + 2.7557319223985893e-07
        s = s * f + 2.7557319223985893e-06
        s = s * f + 2.48015873015873e-05
        s = s * f + 0.0001984126984126984
        s = s * f + 0.001388888888888889
        s = s * f + 0.008333333333333333
        s = s * f + 0.041666666666666664
        s = s * f + 0.16666666666666666
        s = s * f + 0.5
        s = s * f + 1.0
        x[j] = bits_of(bits_of(s * f + 1.0) + (np.int64(whole) << 52))


@compiled
def exp_negative_single(x: NDArray[Any]) -> None:  # pragma: no cover
    """``x[:] = exp(-min(x, 87))`` for float32 ``0 <= x``."""
    for j in range(len(x)):
        y = min(x[j] * np.float32(LOG2E), np.float32(126.0))
        whole = np.floor(np.float32(0.5) - y)
        f = -y - whole  # in +- 1/2; the best polynomial of degree 6 for 2^f
        s = np.float32(1.5345812e-4)
        s = s * f + np.float32(1.3399931219e-3)
        s = s * f + np.float32(9.6184889571e-3)
        s = s * f + np.float32(5.5503287770e-2)
        s = s * f + np.float32(2.4022646891e-1)
        s = s * f + np.float32(6.9314720574e-1)
        s = s * f + np.float32(1.0)
        # integers of 32 bits grow to 64 in sums
        x[j] = bits_of(np.int32(bits_of(s) + (np.int32(whole) << 23)))


@compiled
def squared_distances(
    row: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """``|row - columns[:, j]|^2`` for j < n: `row` (p,), `columns` (p, >= n), p a multiple of 4."""
    p, rest = len(row), len(row) % 8
    # indexed in two dimensions, as a view of a row costs more than its eight sums
    if rest == 0:
        for j in range(n):
            out[j] = 0.0
    else:
        a0, a1, a2, a3 = row[0], row[1], row[2], row[3]
        for j in range(n):
            d0, d1 = a0 - columns[0, j], a1 - columns[1, j]
            d2, d3 = a2 - columns[2, j], a3 - columns[3, j]
            out[j] = (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
    for q in range(rest, p, 8):
        a0, a1, a2, a3 = row[q], row[q + 1], row[q + 2], row[q + 3]
        a4, a5, a6, a7 = row[q + 4], row[q + 5], row[q + 6], row[q + 7]
        for j in range(n):
            d0, d1 = a0 - columns[q, j], a1 - columns[q + 1, j]
            d2, d3 = a2 - columns[q + 2, j], a3 - columns[q + 3, j]
            d4, d5 = a4 - columns[q + 4, j], a5 - columns[q + 5, j]
            d6, d7 = a6 - columns[q + 6, j], a7 - columns[q + 7, j]
            low, high = (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3), (d4 * d4 + d5 * d5)
            out[j] += low + (high + (d6 * d6 + d7 * d7))


@compiled
def gaussian_row_single(
    row: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """Values between one `row` (p,) and n leading `columns` (p, >= n), float32: `out` (>= n,)."""
    squared_distances(row, columns, n, out)
    exp_negative_single(out[:n])


@compiled
def gaussian_rows_single(
    rows: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """The same for `rows` (m, p): `out` (>= m, >= n)."""
    for i in range(len(rows)):
        gaussian_row_single(rows[i], columns, n, out[i])


@compiled
def gaussian_row(
    row: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """Of one row in float64."""
    squared_distances(row, columns, n, out)
    exp_negative(out[:n])


@compiled
def gaussian_rows(
    rows: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """Of several rows in float64."""
    for i in range(len(rows)):
        gaussian_row(rows[i], columns, n, out[i])


@compiled
def gram_rows(
    rows: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]
) -> None:  # pragma: no cover
    """Values between `rows` (m, p) and `columns` (p, n), in blocks that stay in the cache: out (m, n)."""
    n, width = columns.shape[1], 256
    block, values = np.empty((rows.shape[1], width)), np.empty((len(rows), width))
    for start in range(0, n, width):
        stop = min(n, start + width)
        block[:, : stop - start] = columns[:, start:stop]
        gaussian_rows(rows, block, stop - start, values)
        out[:, start:stop] = values[:, : stop - start]


@leaf
def gaussian_value(points: NDArray[Any], i: int, j: int) -> float:  # pragma: no cover
    """``exp(-|points[i] - points[j]|^2)``."""
    distance = 0.0
    for q in range(points.shape[1]):
        difference = points[i, q] - points[j, q]
        distance += difference * difference
    return np.exp(-distance)
