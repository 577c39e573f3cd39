"""Codes by number of atoms: each row at the smallest penalty, along its path, at which so many are enough.

Where the Gram matrix is not in memory, its rows are evaluated as atoms join the path, and kept for the rows
to come as long as there is room.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.around import Surroundings
from spdcluster.expression.candidates import make_workspace, solve_on_candidates
from spdcluster.expression.codes import CodedRows, RowCodes, Solution
from spdcluster.expression.columns import ColumnTile, solve_in_tiles
from spdcluster.expression.compiled import compiled
from spdcluster.expression.homotopy import (
    ABOVE,
    FEWER,
    KernelRows,
    last_penalty,
    slot_for,
    solve_rows_with_atoms,
)
from spdcluster.expression.screening import FULL
from spdcluster.expression.tiles import Tile, solve_each_tile
from spdcluster.expression.tree import build_tree
from spdcluster.kernels.gram import Gram, VectorGram

KEPT = 192  # rows of the Gram matrix kept by a thread, besides those of two codes
ROWS = 256  # paths followed by a thread before it looks for others


def solve_atoms(
    gram: Gram,
    most: int,
    K: NDArray[np.float64] | None,
    *,
    is_compiled: bool,
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> tuple[Solution, NDArray[np.float64]]:
    """Codes with at most `most` atoms a row, and the penalties (N,) at which they are exact.

    `K` is the Gram matrix, where it is in memory; `is_compiled` says that the kernel is
    ``exp(-|u - v|^2)`` of ``gram.vectors``.
    """
    n, alphas = gram.n, np.empty(gram.n)
    codes, stop = RowCodes(n, n), np.zeros(1, np.bool_)
    if K is None and is_compiled:
        assert isinstance(gram, VectorGram)
        found = _without_gram_matrix(gram.vectors, most, alphas, max_rounds, n_jobs, verbose)
    else:
        diagonal = gram.diagonal()

        def solve(rows: NDArray[np.int64]) -> CodedRows:
            tile = AtomsTile(
                gram, diagonal, lambda part: gram.block(rows, part), rows, diagonal[rows],
                np.zeros(len(rows)), np.zeros(len(rows)), max_rounds, stop,
            )  # fmt: skip
            tile.most = most
            if K is None:
                tile.solve()
            else:
                tile.solve_on_all(K, K[rows])
            alphas[rows] = 2.0 * tile.lam
            return tile.coded()

        found = solve_in_tiles(solve, np.arange(n), n_jobs, verbose, stop)
    for part in found:
        codes.add(part)
    return codes.solution(), alphas


class AtomsTile(ColumnTile):
    """Rows that each take the smallest penalty, along their path, at which `most` atoms are enough."""

    most = 1

    def _solve_rows(self, todo: NDArray[np.int64]) -> None:
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


def _without_gram_matrix(
    vectors: NDArray[np.float64],
    most: int,
    alphas: NDArray[np.float64],
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> list[CodedRows]:
    tree = build_tree(vectors, n_jobs)
    columns = np.ascontiguousarray(tree.points.T)

    def tile_of(rows: NDArray[np.int64], stop: NDArray[np.bool_]) -> "PathsTile":
        tile = PathsTile(tree, rows, np.zeros(len(rows)), np.zeros(len(rows)), max_rounds, stop)
        tile.most, tile.columns, tile.alphas = min(most, len(columns[0]) - 1), columns, alphas
        return tile

    return solve_each_tile(tree, tile_of, n_jobs, verbose, rows_together=ROWS)


class PathsTile(Tile):
    """Neighbouring rows, each at the end of its path.

    Attributes
    ----------
    columns : (p, N) the points by column; alphas : (N,) where the penalties go
    """

    most = 1
    columns: NDArray[np.float64]
    alphas: NDArray[np.float64]

    def solve(self, scratch: Surroundings) -> None:
        """Follow the paths over all N columns, and prove the codes at their ends."""
        while self.codes.atoms.shape[1] <= self.most:
            self._make_room()
        n, todo = len(self.tree.points), np.arange(len(self.rows))
        kernel_rows = KernelRows(
            np.empty((min(n, KEPT + 2 * self.most), n)), np.full(n, -1), np.zeros(1, np.int64),
            self.columns,
        )  # fmt: skip
        follow_paths(kernel_rows, self.rows, self.most, self.lam, self.codes, self.stop)
        while len(todo) and not self.stop[0]:
            solve_on_atoms(self.tree.points, self.rows, todo, self.lam, self.max_rounds, self.codes)
            self.known.apart[:] = FULL
            unproved = todo
            while len(unproved) and not self.stop[0]:
                unproved = self._finish(unproved)
            # dependent atoms let the path end too low; above it there are fewer
            todo = todo[self.codes.sizes[todo] > self.most]
            self.lam[todo] *= FEWER
        self.alphas[self.tree.order[self.rows]] = 2.0 * self.lam


@compiled
def follow_paths(
    kernel_rows: Any,
    rows: NDArray[Any],
    most: int,
    lam: NDArray[Any],
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """The penalties at the ends of the paths of some rows, and their atoms there."""
    nothing, atoms = np.zeros(0, np.int64), np.zeros(most + 1, np.int64)
    for t in range(len(rows)):
        if stop[0]:
            break
        own = slot_for(kernel_rows, rows[t], nothing, 0)
        k = kernel_rows.values[own].copy()
        lam[t], m = last_penalty(kernel_rows, k, 1.0, rows[t], most, atoms)
        lam[t] *= 1.0 + ABOVE
        codes.sizes[t], codes.atoms[t, :m], codes.c[t, :m] = m, atoms[:m], 0.0


@compiled
def solve_on_atoms(
    points: NDArray[Any], rows: NDArray[Any], todo: NDArray[Any], lam: NDArray[Any], max_rounds: int,
    codes: Any,
) -> None:  # pragma: no cover  # fmt: skip
    """Solve the rows `todo` on the atoms that they have."""
    capacity = codes.atoms.shape[1]
    space = make_workspace(points.shape[1], capacity, capacity)
    for t in todo:
        m = codes.sizes[t]
        space.candidates[:m] = codes.atoms[t, :m]
        codes.sizes[t] = 0
        solve_on_candidates(points, rows[t], m, lam[t], 0.0, max_rounds, codes, t, space)
