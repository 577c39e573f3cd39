"""Exact codes of points whose kernel values fit in memory.

Most rows are solved from float32 values (`spdcluster.expression.mixed`); those that it leaves, and all where there
is no memory for these values beside a Gram matrix in float64, by the active set on that matrix.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set, mixed
from spdcluster.expression.active_set import duality_gap
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows, penalties
from spdcluster.expression.columns import solve_some_rows
from spdcluster.expression.gaussian import gram_rows
from spdcluster.expression.threads import run_chunks
from spdcluster.expression.tiles import solve_tiles
from spdcluster.expression.tree import LEAF, aligned_empty, split_into_leaves
from spdcluster.kernels.gram import VectorGram

FIRST_CAPACITY = 64
ORDERED_FROM = 2048  # points from which on neighbours are solved one after the other
MOST_LEFT = 0.125  # share of the rows that may be solved each with columns of its own
ROWS_PER_TASK = 64


def solve_dense(
    K: NDArray[np.float64],
    budget: float,
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> list[Solution]:
    """Codes of all points by each other from their Gram matrix (N, N), with `budget` more bytes of memory.

    For each of S decreasing penalties `alphas` (S, N).
    """
    # the compiled code is made for one memory layout; read-only arrays would be another
    K = np.require(K, np.float64, ["C", "W"])
    solver = _Rows(alphas, l1_ratio, max_rounds, n_jobs, verbose)
    left = np.arange(alphas.size)
    if mixed.bytes_for(len(K)) <= budget:
        left = solver.solve_mixed(mixed.source_of_matrix(K), left)
    solver.solve(K, left)
    return solver.codes.solutions(len(alphas))


def solve_gaussian(
    gram: VectorGram,
    budget: float,
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> list[Solution]:
    """The same for the kernel ``exp(-|u - v|^2)`` of short vectors, of which `budget` holds float32 values."""
    vectors, n, steps = gram.vectors, gram.n, len(alphas)
    solver = _Rows(alphas, l1_ratio, max_rounds, n_jobs, verbose)
    # neighbours have atoms in common, which then are in the cache
    order = split_into_leaves(vectors, LEAF)[0] if n > ORDERED_FROM else np.arange(n)
    order = (order[:, np.newaxis] * steps + np.arange(steps)).ravel()
    left = solver.solve_mixed(mixed.source_of_vectors(vectors, n_jobs), order)
    options: dict[str, int] = {"max_rounds": max_rounds, "n_jobs": n_jobs, "verbose": verbose}
    if len(left) and 8.0 * n**2 <= budget:
        solver.solve(gaussian_gram(vectors, n_jobs), left)
    elif len(left) > MOST_LEFT * len(order):
        return solve_tiles(vectors, alphas, l1_ratio, **options)
    else:
        for step in range(steps):
            rows = left[left % steps == step] // steps
            for part in solve_some_rows(
                gram, rows, solver.lam[step::steps], solver.mu[step::steps], **options
            ):
                solver.codes.add(part._replace(rows=part.rows * steps + step))
    return solver.codes.solutions(steps)


class _Rows:
    """The rows of one problem, solved in two ways; `codes` has those that are done.

    Row ``i S + s`` is point i with the penalty s of S.
    """

    def __init__(
        self,
        alphas: NDArray[np.float64],
        l1_ratio: float,
        max_rounds: int,
        n_jobs: int,
        verbose: int,
    ) -> None:
        self.steps, n = alphas.shape
        self.lam, self.mu = penalties(alphas, l1_ratio)
        self.max_rounds, self.n_jobs, self.verbose = max_rounds, n_jobs, verbose
        self.stop = np.zeros(1, np.bool_)
        self.codes = RowCodes(alphas.size, n)

    def _run(self, work: Callable[[NDArray[np.int64]], Any], todo: NDArray[np.int64]) -> list[Any]:
        size = -(-ROWS_PER_TASK // self.steps) * self.steps
        tasks = [todo[start : start + size] for start in range(0, len(todo), size)]
        return run_chunks(
            work,
            tasks,
            n_jobs=self.n_jobs,
            sizes=[len(rows) for rows in tasks],
            description="coding",
            verbose=self.verbose,
            stop=self.stop,
        )

    def solve_mixed(self, source: mixed.Source, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Solve all rows, in this order, from float32 values; which are left."""
        n, left = len(self.lam), [order[:0]]
        sizes, rounds, states = (np.zeros(n, np.int64) for _ in range(3))
        values = np.zeros((n, 4))
        for capacity in mixed.CAPACITIES:

            def solve(entries: NDArray[np.int64], room: int = capacity) -> Any:
                return mixed.solve_rows_mixed(
                    source, entries // self.steps, entries, self.lam, self.mu, self.max_rounds, room,
                    (sizes, values, rounds, states), self.stop,
                )  # fmt: skip

            found = self._run(solve, order)
            now = states[order]
            done = order[now == active_set.SOLVED]
            atoms, c = (np.concatenate(part) for part in zip(*found, strict=True))
            gap = duality_gap(values[done], self.lam[done])
            self.codes.add(
                CodedRows(done, sizes[done], atoms, c, values[done, 0], gap, rounds[done])
            )
            left.append(order[now == mixed.LEFT])
            order = order[now == active_set.OUT_OF_ROOM]
            if not len(order):
                break
        return np.concatenate([*left, order])

    def solve(self, K: NDArray[np.float64], todo: NDArray[np.int64]) -> None:
        """Solve rows by their Gram matrix (N, N)."""
        n, capacity = len(K), min(FIRST_CAPACITY, len(K))
        while len(todo):

            def solve(rows: NDArray[np.int64], room: int = capacity) -> tuple[NDArray[Any], ...]:
                nothing = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int64), np.empty(0)
                found = active_set.solve_rows(
                    K,
                    rows // self.steps,
                    self.lam[rows],
                    self.mu[rows],
                    self.max_rounds,
                    room,
                    *nothing,
                    self.stop,
                )
                return rows, *found

            again = []
            for rows, *found in self._run(solve, todo):
                # a full working set is all columns: there is no more room to ask for
                full = (found[5] == active_set.OUT_OF_ROOM) & (capacity < n)
                sizes, atoms, c, values, rounds, _ = (part[~full] for part in found)
                done = rows[~full]
                self.codes.add(coded_rows(done, sizes, atoms, c, values, self.lam[done], rounds))
                again.append(rows[full])
            todo, capacity = np.concatenate(again), min(4 * capacity, n)


def gaussian_gram(vectors: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
    """``exp(-|u_i - u_j|^2)`` for short vectors (N, p), compiled: (N, N), exactly symmetric."""
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
