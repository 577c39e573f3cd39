"""Codes along a list of decreasing penalties, each started from the one before."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows
from spdcluster.expression.columns import ColumnTile, solve_in_tiles
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import Gram


def solve_path(
    gram: Gram,
    alphas: Sequence[NDArray[np.float64]],
    l1_ratio: float,
    K: NDArray[np.float64] | None,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> list[Solution]:
    """Codes at each of the decreasing penalties, given as arrays (N,), each started from the last."""
    n = gram.n
    lam = np.array(alphas) * l1_ratio / 2.0
    mu = np.array(alphas) * (1.0 - l1_ratio) / 2.0
    codes = [RowCodes(n, n) for _ in alphas]
    if K is not None:
        _path_in_memory(K, lam, mu, codes, max_rounds, n_jobs, verbose)
        return [part.solution() for part in codes]
    diagonal, stop = gram.diagonal(), np.zeros(1, np.bool_)

    def solve(rows: NDArray[np.int64]) -> list[CodedRows]:
        tile = ColumnTile(
            gram, diagonal, lambda part: gram.block(rows, part), rows, diagonal[rows], lam[0, rows],
            mu[0, rows], max_rounds, stop,
        )  # fmt: skip
        found = []
        for step in range(len(lam)):
            tile.lam, tile.mu = lam[step, rows], mu[step, rows]
            tile.solve()
            found.append(tile.coded())
        return found

    for found in solve_in_tiles(solve, np.arange(n), n_jobs, verbose, stop):
        for step, part in enumerate(found):
            codes[step].add(part)
    return [part.solution() for part in codes]


def _path_in_memory(
    K: NDArray[np.float64],
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    codes: list[RowCodes],
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> None:
    K = np.require(K, np.float64, ["C", "W"])
    todo, capacity, n, steps = np.arange(len(K)), min(64, len(K)), len(K), len(lam)
    while len(todo):
        tasks = [todo[start : start + 64] for start in range(0, len(todo), 64)]

        def solve(rows: NDArray[np.int64], room: int = capacity) -> tuple[NDArray[Any], ...]:
            return active_set.solve_rows_on_path(
                K, rows, np.ascontiguousarray(lam[:, rows]), np.ascontiguousarray(mu[:, rows]),
                max_rounds, room,
            )  # fmt: skip

        sizes_of_tasks = [len(rows) for rows in tasks]
        results = run_chunks(
            solve, tasks, n_jobs=n_jobs, sizes=sizes_of_tasks, description="paths", verbose=verbose
        )
        again = []
        for rows, found in zip(tasks, results, strict=True):
            sizes, atoms, c, values, rounds, states = (
                part.reshape(steps, len(rows), *part.shape[1:]) for part in found
            )
            full = np.any(states == active_set.OUT_OF_ROOM, axis=0) & (capacity < n)
            done = rows[~full]
            for step in range(steps):
                codes[step].add(
                    coded_rows(
                        done,
                        sizes[step, ~full],
                        atoms[step, ~full],
                        c[step, ~full],
                        values[step, ~full],
                        lam[step, done],
                        rounds[step, ~full],
                    )
                )
            again.append(rows[full])
        todo, capacity = np.concatenate(again), min(4 * capacity, n)
