"""Codes of neighbouring rows on the columns around them: where the exact solution starts.

Few of a row's atoms lie elsewhere, and the proof (`screening`) finds those. Rows share their columns and, atom
by atom, the float32 kernel values on them; each is solved as if there were no other columns (`mixed`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import SOLVED
from spdcluster.expression.compiled import compiled
from spdcluster.expression.local import LocalColumns, gather_columns, make_local_columns
from spdcluster.expression.mixed import (
    SCANS,
    Source,
    make_desk,
    solve_row_mixed,
    start_anew,
    write_code,
)

FEW_POINTS = 2**17
COLUMNS, MORE_COLUMNS = 4096, 6144  # for few points, and for more than these
NEAR = 2048  # of the columns are looked at first
TOGETHER = 256  # rows that share their columns


class Surroundings(NamedTuple):
    """One thread's scratch, filled anew for every few rows.

    Attributes
    ----------
    columns : LocalColumns
    points : (M, p) float64, those of the columns
    known : (M,) on how many columns each row of ``columns.values`` is there
    """

    columns: LocalColumns
    points: NDArray[np.float64]
    known: NDArray[np.int64]


def make_surroundings(n: int, p: int) -> Surroundings:
    """Scratch for n points in p dimensions; memory is taken only as it is used."""
    most = COLUMNS if n <= FEW_POINTS else MORE_COLUMNS
    return Surroundings(make_local_columns(p, most), np.empty((most, p)), np.zeros(most, np.int64))


@compiled
def solve_rows_around(
    tree: Any,
    scratch: Any,
    rows: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    margin: float,
    max_rounds: int,
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve the rows of a tile, the points at the sorted positions `rows` (r,), few at a time.

    Of a point that comes again the last code is the start. Rows whose state is not SOLVED then have to be solved in
    another way.
    """
    columns, p = scratch.columns, tree.points.shape[1]
    desk = make_desk(columns.values.shape[1], p, codes.atoms.shape[1])
    nothing = np.zeros((0, 0))
    for first in range(0, len(rows), TOGETHER):
        last = min(first + TOGETHER, len(rows))
        n = gather_columns(tree, rows[first], rows[last - 1], columns)
        positions = columns.positions[:n]
        for column in range(n):
            scratch.points[column] = tree.points[positions[column]]
            scratch.known[column] = 0
        source = Source(
            columns.values,
            1.0,
            margin,
            scratch.known[:n],
            NEAR,
            columns.blocks,
            nothing,
            scratch.points[:n],
        )
        used, before = np.int64(0), -1
        for t in range(first, last):
            if stop[0]:
                return
            if (
                before < 0
                or rows[t] != rows[before]
                or mu[t] != mu[before]
                or codes.states[before] != SOLVED
            ):
                start_anew(desk)
                used = np.int64(0)
            used, codes.rounds[t], codes.states[t] = solve_row_mixed(
                source, rows[t] - positions[0], lam[t], mu[t], lam[before], min(SCANS, max_rounds), used,
                codes.values[t], desk,
            )  # fmt: skip
            m = write_code(used, desk, codes.atoms[t], codes.c[t])
            codes.sizes[t] = m if codes.states[t] == SOLVED else 0
            for a in range(m):
                codes.atoms[t, a] = positions[codes.atoms[t, a]]
            before = t
