"""Exact codes when the Gram matrix fits in memory: the active set on every row, chunk by chunk."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.expression import active_set
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
) -> tuple[csr_array, NDArray[np.float64], NDArray[np.float64], int]:
    """Codes (N, N), objectives (N,), absolute duality gaps (N,) and the most rounds of a row."""
    n = len(K)
    # the compiled code is made for one memory layout; read-only arrays would be another
    K = np.require(K, np.float64, ["C", "W"])
    lam, mu = alphas * l1_ratio / 2.0, alphas * (1.0 - l1_ratio) / 2.0
    codes = RowCodes(n, n)
    values, rounds = np.zeros((n, 4)), np.zeros(n, dtype=np.int64)
    todo, capacity = np.arange(n), min(FIRST_CAPACITY, n)
    while len(todo):
        tasks = [
            todo[start : start + ROWS_PER_TASK] for start in range(0, len(todo), ROWS_PER_TASK)
        ]

        def solve(rows: NDArray[np.int64], room: int = capacity) -> tuple[NDArray[Any], ...]:
            nothing = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int64), np.empty(0)
            return active_set.solve_rows(
                K, n, rows, lam[rows], mu[rows], max_rounds, room, *nothing
            )

        results = run_chunks(
            solve,
            tasks,
            n_jobs=n_jobs,
            sizes=[len(rows) for rows in tasks],
            description="coding",
            verbose=verbose,
        )
        again = []
        for rows, (sizes, atoms, c, value, count, states) in zip(tasks, results, strict=True):
            # a full working set is all columns: there is no more room to ask for
            full = (states == active_set.OUT_OF_ROOM) & (capacity < n)
            values[rows], rounds[rows] = value, count
            codes.store(rows[~full], sizes[~full], atoms[~full], c[~full])
            again.append(rows[full])
        todo, capacity = np.concatenate(again), min(4 * capacity, n)
    gap = active_set.duality_gap(values, lam)
    return codes.matrix(), values[:, 0], gap, int(rounds.max(initial=0))


class RowCodes:
    """Collects the codes of rows in any order and gives them back as one sparse matrix."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.shape = (n_rows, n_columns)
        self.parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []

    def store(
        self, rows: NDArray[Any], sizes: NDArray[Any], atoms: NDArray[Any], c: NDArray[Any]
    ) -> None:
        """Keep the first ``sizes[t]`` of ``atoms[t]`` and ``c[t]`` as the code of ``rows[t]``."""
        used = np.arange(atoms.shape[1]) < sizes[:, None]
        self.parts.append((np.repeat(rows, sizes), atoms[used], c[used]))

    def matrix(self) -> csr_array:
        """All codes, shape (n_rows, n_columns), indices sorted."""
        rows, columns, data = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        coef = csr_array((data, (rows, columns)), shape=self.shape)
        coef.sort_indices()
        return coef
