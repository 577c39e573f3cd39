"""Exact codes when the Gram matrix fits in memory: the active set on every row, chunk by chunk."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.codes import RowCodes, Solution, coded_rows
from spdcluster.expression.threads import run_chunks

FIRST_CAPACITY = 64
ROWS_PER_TASK = 64


def solve_dense(
    K: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> Solution:
    """Codes of all points by each other from their Gram matrix (N, N)."""
    n = len(K)
    # the compiled code is made for one memory layout; read-only arrays would be another
    K = np.require(K, np.float64, ["C", "W"])
    lam, mu = alphas * l1_ratio / 2.0, alphas * (1.0 - l1_ratio) / 2.0
    codes = RowCodes(n, n)
    stop = np.zeros(1, np.bool_)
    todo, capacity = np.arange(n), min(FIRST_CAPACITY, n)
    while len(todo):
        tasks = [
            todo[start : start + ROWS_PER_TASK] for start in range(0, len(todo), ROWS_PER_TASK)
        ]

        def solve(rows: NDArray[np.int64], room: int = capacity) -> tuple[NDArray[Any], ...]:
            nothing = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int64), np.empty(0)
            return active_set.solve_rows(
                K, rows, lam[rows], mu[rows], max_rounds, room, *nothing, stop
            )

        results = run_chunks(
            solve,
            tasks,
            n_jobs=n_jobs,
            sizes=[len(rows) for rows in tasks],
            description="coding",
            verbose=verbose,
            stop=stop,
        )
        again = []
        for rows, (sizes, atoms, c, values, rounds, states) in zip(tasks, results, strict=True):
            # a full working set is all columns: there is no more room to ask for
            full = (states == active_set.OUT_OF_ROOM) & (capacity < n)
            done = rows[~full]
            codes.add(
                coded_rows(
                    done,
                    sizes[~full],
                    atoms[~full],
                    c[~full],
                    values[~full],
                    lam[done],
                    rounds[~full],
                )
            )
            again.append(rows[full])
        todo, capacity = np.concatenate(again), min(4 * capacity, n)
    return codes.solution()


def gaussian_gram(vectors: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
    """``exp(-|u_i - u_j|^2)`` for short vectors (N, p), compiled: (N, N), exactly symmetric."""
    from spdcluster.expression.gaussian import gram_rows
    from spdcluster.expression.tree import aligned_empty

    n, p = vectors.shape
    points = np.zeros((n, -(-p // 4) * 4))
    points[:, :p] = vectors
    columns = aligned_empty((points.shape[1], n), np.float64)
    columns[:] = points.T
    K = aligned_empty((n, n), np.float64)

    def fill(start: int) -> None:
        gram_rows(points[start : start + ROWS_PER_TASK], columns, K[start : start + ROWS_PER_TASK])

    run_chunks(fill, range(0, n, ROWS_PER_TASK), n_jobs=n_jobs)
    return K
