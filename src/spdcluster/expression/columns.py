"""Exact codes under any kernel, without its N x N matrix: columns join as rows ask for them.

A tile of rows keeps a set of columns, at first those of largest kernel value, and its own small Gram
matrix. Its rows are solved exactly on those columns, then checked against all N, block by block; the
violators join the columns and the rows that have some are solved again, until none has.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import Gram

TILE = 512
BLOCK = 2048
LARGEST = 32  # columns of each row to begin with
NEIGHBOURS = 32  # columns of which only the worst violator is kept: duplicates would fill the list
MOST_VIOLATORS = 8  # a row and round

Result = TypeVar("Result")
Values = Callable[[slice], NDArray[np.float64]]


def solve_columns(
    gram: Gram,
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> list[Solution]:
    """Codes of all points by each other, the kernel asked for blocks only, for decreasing penalties (S, N)."""
    n, steps = gram.n, len(alphas)
    lam, mu = alphas * l1_ratio / 2.0, alphas * (1.0 - l1_ratio) / 2.0
    codes = [RowCodes(n, n) for _ in range(steps)]
    for found in _solve_steps(gram, np.arange(n), lam, mu, max_rounds, n_jobs, verbose):
        for step, part in enumerate(found):
            codes[step].add(part)
    return [part.solution() for part in codes]


def solve_some_rows(
    gram: Gram,
    rows: NDArray[np.int64],
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> list[CodedRows]:
    """Codes of some points (r,) by all others, with the penalties (N,) of `active_set`."""
    found = _solve_steps(gram, rows, lam[np.newaxis], mu[np.newaxis], max_rounds, n_jobs, verbose)
    return [part for (part,) in found]


def _solve_steps(
    gram: Gram,
    rows: NDArray[np.int64],
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> list[list[CodedRows]]:
    """Tile by tile the codes of some points for penalties (S, N), each started from the one before."""
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

    return solve_in_tiles(solve, rows, n_jobs, verbose, stop)


def solve_in_tiles(
    solve: Callable[[NDArray[np.int64]], Result],
    rows: NDArray[np.int64],
    n_jobs: int,
    verbose: int,
    stop: NDArray[np.bool_],
) -> list[Result]:
    """What `solve` makes of every TILE of the `rows`."""
    tasks = [rows[start : start + TILE] for start in range(0, len(rows), TILE)]
    sizes = [len(task) for task in tasks]
    return run_chunks(
        solve, tasks, n_jobs=n_jobs, sizes=sizes, description="coding", verbose=verbose, stop=stop
    )


class ColumnTile:
    """Some rows, given by their kernel values, and the columns that their codes may use so far.

    Attributes
    ----------
    sizes, rounds : (r,); atoms (places among `columns`), c : (r, room); values : (r, 4)
    """

    def __init__(
        self,
        gram: Gram,
        diagonal: NDArray[np.float64],
        kernel_values: Values,
        own: NDArray[np.int64],
        own_values: NDArray[np.float64],
        lam: NDArray[np.float64],
        mu: NDArray[np.float64],
        max_rounds: int,
        stop: NDArray[np.bool_],
    ) -> None:
        """`kernel_values(part)` gives the block (r, len(part)); `own` the column of each row, or -1."""
        self.gram, self.diagonal, self.kernel_values = gram, diagonal, kernel_values
        self.own, self.own_values = own, own_values
        self.lam, self.mu, self.max_rounds, self.stop = lam, mu, max_rounds, stop
        r = len(own)
        self.sizes, self.rounds = np.zeros(r, np.int64), np.zeros(r, np.int64)
        self.values = np.zeros((r, 4))
        self.atoms, self.c = np.zeros((r, 64), np.int64), np.zeros((r, 64))
        self.columns = np.empty(0, np.int64)
        self.K, self.k = np.empty((0, 0)), np.empty((r, 0))

    def solve(self) -> None:
        """Solve all rows and prove them over all N columns."""
        if not len(self.columns):
            self._add_columns(self._largest())
        todo = np.arange(len(self.own))
        while len(todo) and not self.stop[0]:
            self._solve_rows(todo)
            todo = self._prove(todo)

    def solve_on_all(self, K: NDArray[np.float64], k: NDArray[np.float64]) -> None:
        """Solve all rows with the whole Gram matrix (N, N) and their values (r, N) in memory."""
        self.columns = np.arange(self.gram.n)
        self.K = np.require(K, np.float64, ["C", "W"])
        self.k = np.require(k, np.float64, ["C", "W"])
        self._solve_rows(np.arange(len(self.own)))

    def coded(self) -> CodedRows:
        """The codes so far."""
        return coded_rows(
            self.own, self.sizes, self.columns[self.atoms], self.c, self.values, self.lam,
            self.rounds,
        )  # fmt: skip

    def _blocks(self) -> list[slice]:
        return [
            slice(start, min(self.gram.n, start + BLOCK)) for start in range(0, self.gram.n, BLOCK)
        ]

    def _largest(self) -> NDArray[np.int64]:
        """The columns of largest kernel value of each row, itself left out; shape (n_distinct,)."""
        r = len(self.own)
        best, at = np.full((r, LARGEST), -1.0), np.full((r, LARGEST), -1)
        for part in self._blocks():
            k = np.abs(self.kernel_values(part))
            inside = (self.own >= part.start) & (self.own < part.stop)
            k[inside, self.own[inside] - part.start] = -1.0
            both = np.hstack([best, k])
            where = np.hstack([at, np.broadcast_to(np.arange(part.start, part.stop), k.shape)])
            keep = np.argpartition(-both, LARGEST - 1, axis=1)[:, :LARGEST]
            best, at = np.take_along_axis(both, keep, 1), np.take_along_axis(where, keep, 1)
        return np.unique(at[at >= 0])

    def _add_columns(self, new: NDArray[np.int64]) -> None:
        known, n = len(self.columns), len(self.columns) + len(new)
        everything = np.concatenate([self.columns, new])
        K, k = np.empty((n, n)), np.empty((len(self.own), n))
        K[:known, :known], k[:, :known] = self.K, self.k
        if len(new):
            K[known:] = self.gram.block(new, everything)
            K[:known, known:] = K[known:, :known].T
            K[np.arange(known, n), np.arange(known, n)] = self.diagonal[new]
            place = np.full(self.gram.n, -1)
            place[new] = np.arange(known, n)
            for part in self._blocks():
                wanted = np.flatnonzero(place[part] >= 0)
                if len(wanted):
                    k[:, place[part][wanted]] = self.kernel_values(part)[:, wanted]
        self.columns, self.K, self.k = everything, K, k

    def _solve_rows(self, todo: NDArray[np.int64]) -> None:
        place = np.full(self.gram.n + 1, -1)  # the last entry is for rows that are no column
        place[self.columns] = np.arange(len(self.columns))
        while len(todo):
            used = np.arange(self.atoms.shape[1]) < self.sizes[todo, None]
            starts = np.concatenate([[0], np.cumsum(self.sizes[todo])])
            sizes, atoms, c, values, rounds, states = active_set.solve_given_rows(
                self.K, self.k[todo], self.own_values[todo], place[self.own[todo]], self.lam[todo],
                self.mu[todo], self.max_rounds, self.atoms.shape[1], starts, self.atoms[todo][used],
                self.c[todo][used], self.stop,
            )  # fmt: skip
            full = (states == active_set.OUT_OF_ROOM) & (self.atoms.shape[1] < self.gram.n)
            solved = todo[~full]
            self.sizes[solved], self.atoms[solved] = sizes[~full], atoms[~full]
            self.c[solved], self.values[solved] = c[~full], values[~full]
            self.rounds[todo] += rounds
            todo = todo[full]
            if len(todo):
                more = np.zeros((len(self.own), 3 * self.atoms.shape[1]))
                self.atoms = np.hstack([self.atoms, more.astype(np.int64)])
                self.c = np.hstack([self.c, more])

    def _prove(self, todo: NDArray[np.int64]) -> NDArray[np.int64]:
        """Check rows against all columns; add the violators; which rows have to be solved again."""
        used = np.arange(self.atoms.shape[1]) < self.sizes[todo, None]
        places, at = np.unique(self.atoms[todo][used], return_inverse=True)
        C = np.zeros((len(todo), len(places)))
        C[np.repeat(np.arange(len(todo)), self.sizes[todo]), at] = self.c[todo][used]
        atoms = self.columns[places]
        lam, found = self.lam[todo], []
        violated = np.zeros(len(todo), bool)
        for part in self._blocks():
            g = self.kernel_values(part)[todo]
            if len(atoms):
                g -= C @ self.gram.block(atoms, part)
            g = np.abs(g, out=g)
            own = self.own[todo]
            inside = (own >= part.start) & (own < part.stop)
            g[inside, own[inside] - part.start] = 0.0
            # atoms are solved for, up to rounding
            here = np.flatnonzero((atoms >= part.start) & (atoms < part.stop))
            row, column = np.nonzero(C[:, here])
            g[row, atoms[here[column]] - part.start] = 0.0
            self.values[todo, 3] = np.maximum(self.values[todo, 3], g.max(axis=1))
            beyond = g > (lam * (1.0 + active_set.SLACK))[:, None]
            rows = np.flatnonzero(beyond.any(axis=1))
            violated[rows] = True
            if len(rows):
                found.append(part.start + _worst_of_neighbours(g[rows] * beyond[rows]))
        if not found:
            return todo[:0]
        new = np.setdiff1d(np.concatenate(found), self.columns)
        if not len(new):
            return todo[:0]  # what is left is rounding, and the gap tells how much
        self.values[todo[violated], 3] = 0.0
        self._add_columns(new)
        return todo[violated]


def _worst_of_neighbours(g: NDArray[np.float64]) -> NDArray[np.int64]:
    """Columns of the largest entry of each few neighbours, the largest of these of each row."""
    r, width = g.shape
    chunks = -(-width // NEIGHBOURS)
    padded = np.zeros((r, chunks * NEIGHBOURS))
    padded[:, :width] = g
    padded = padded.reshape(r, chunks, NEIGHBOURS)
    at = padded.argmax(axis=2)
    high = np.take_along_axis(padded, at[:, :, None], 2)[:, :, 0]
    most = min(MOST_VIOLATORS, chunks)
    chunk = np.argpartition(-high, most - 1, axis=1)[:, :most]
    columns = chunk * NEIGHBOURS + np.take_along_axis(at, chunk, 1)
    return np.unique(columns[np.take_along_axis(high, chunk, 1) > 0])
