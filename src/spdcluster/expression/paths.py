"""Codes at penalties chosen by the number of atoms, and codes along a list of penalties."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.codes import RowCodes, Solution
from spdcluster.expression.columns import TILE, ColumnTile
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import Gram


class AtomsTile(ColumnTile):
    """Rows that each take the smallest penalty, along their path, at which `most` atoms are enough."""

    most = 1

    def _solve_rows(self, todo: NDArray[np.int64]) -> None:
        from spdcluster.expression.homotopy import solve_rows_with_atoms

        place = np.full(self.gram.n + 1, -1)
        place[self.columns] = np.arange(len(self.columns))
        most = min(self.most, len(self.columns))
        room = max(4 * most, self.atoms.shape[1])
        codes, lam = solve_rows_with_atoms(
            self.K, self.k[todo], self.own_values[todo], place[self.own[todo]], most,
            self.max_rounds, room,
        )  # fmt: skip
        if room > self.atoms.shape[1]:
            more = np.zeros((len(self.own), room - self.atoms.shape[1]))
            self.atoms = np.hstack([self.atoms, more.astype(np.int64)])
            self.c = np.hstack([self.c, more])
        self.sizes[todo], self.atoms[todo], self.c[todo], self.values[todo] = codes[:4]
        self.rounds[todo] += codes[4]
        self.lam[todo] = lam


def solve_atoms(
    gram: Gram,
    most: int,
    K: NDArray[np.float64] | None,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> tuple[Solution, NDArray[np.float64]]:
    """Codes with at most `most` atoms a row, and the penalties (N,) at which they are exact."""
    n = gram.n
    diagonal, stop = gram.diagonal(), np.zeros(1, np.bool_)

    def solve(rows: NDArray[np.int64]) -> ColumnTile:
        tile = AtomsTile(
            gram, diagonal, lambda part: gram.block(rows, part), rows, diagonal[rows],
            np.zeros(len(rows)), np.zeros(len(rows)), max_rounds, stop,
        )  # fmt: skip
        tile.most = most
        if K is None:
            tile.solve()
        else:
            tile.solve_on_all(K, K[rows])
        return tile

    codes, alphas = RowCodes(n, n), np.empty(n)
    for tile in _each_tile(solve, n, n_jobs, verbose, stop):
        alphas[tile.own] = 2.0 * tile.lam
        codes.store(tile.own, tile.sizes, tile.columns[tile.atoms], tile.c)
        codes.report(tile.own, tile.values, tile.lam, tile.rounds)
    return codes.solution(), alphas


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

    def solve(rows: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        tile = ColumnTile(
            gram, diagonal, lambda part: gram.block(rows, part), rows, diagonal[rows], lam[0, rows],
            mu[0, rows], max_rounds, stop,
        )  # fmt: skip
        found = []
        for step in range(len(lam)):
            tile.lam, tile.mu = lam[step, rows], mu[step, rows]
            tile.solve()
            found.append(
                (tile.sizes.copy(), tile.columns[tile.atoms], tile.c.copy(), tile.values.copy(),
                 tile.rounds.copy())
            )  # fmt: skip
        return found

    tasks = [np.arange(start, min(n, start + TILE)) for start in range(0, n, TILE)]
    for rows, found in zip(tasks, _each_tile(solve, n, n_jobs, verbose, stop), strict=True):
        for step, (sizes, atoms, c, values, rounds) in enumerate(found):
            codes[step].store(rows, sizes, atoms, c)
            codes[step].report(rows, values, lam[step, rows], rounds)
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
            for step in range(steps):
                codes[step].report(rows, values[step], lam[step, rows], rounds[step])
                codes[step].store(
                    rows[~full], sizes[step, ~full], atoms[step, ~full], c[step, ~full]
                )
            again.append(rows[full])
        todo, capacity = np.concatenate(again), min(4 * capacity, n)


def _each_tile(solve: Any, n: int, n_jobs: int, verbose: int, stop: NDArray[np.bool_]) -> list[Any]:
    tasks = [np.arange(start, min(n, start + TILE)) for start in range(0, n, TILE)]
    return run_chunks(
        solve, tasks, n_jobs=n_jobs, sizes=[len(rows) for rows in tasks], description="coding", verbose=verbose,
        stop=stop,
    )  # fmt: skip
