"""Exact codes of any number of points under the Gaussian kernel, without its N x N matrix.

Points are sorted by a tree and taken in tiles of neighbours. The rows of a tile are solved on the columns
around it (`local`), then proved over all N columns (`screening`); rows with violators are solved again,
until there are none. Tiles share nothing, so that threads need no locks and no result depends on their
number.
"""

from collections.abc import Callable
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.candidates import Codes
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows
from spdcluster.expression.dense import FIRST_CAPACITY
from spdcluster.expression.local import LocalColumns, make_local_columns, solve_rows_locally
from spdcluster.expression.many_atoms import solve_many_atoms
from spdcluster.expression.screening import (
    AGAIN,
    at_representatives,
    bound_leaves,
    finish_rows,
    single_margin,
)
from spdcluster.expression.threads import run_chunks
from spdcluster.expression.tree import LeafTree, build_tree

TILE = 1024
MORE_COLUMNS = 16_384  # looked at together for codes of many atoms
MANY_ATOMS = 18  # a row, from which on rows are solved in step
ROOM = 512  # atoms that there is room for then
PROBE = 32  # rows that tell whether those of a tile have many atoms; fewer than these are not solved in step


def solve_tiles(
    vectors: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> Solution:
    """Codes of all points by each other.

    Parameters
    ----------
    vectors : ndarray, shape (N, p)
        The kernel is ``exp(-|u - v|^2)``.
    alphas : ndarray, shape (N,)
    """
    tree = build_tree(vectors, n_jobs)
    lam, mu = alphas[tree.order] * l1_ratio / 2.0, alphas[tree.order] * (1.0 - l1_ratio) / 2.0

    def tile_of(rows: NDArray[np.int64], stop: NDArray[np.bool_]) -> Tile:
        return Tile(tree, rows, lam[rows], mu[rows], max_rounds, stop)

    codes = RowCodes(len(vectors), len(vectors))
    for part in solve_each_tile(tree, tile_of, n_jobs, verbose):
        codes.add(part)
    return codes.solution()


def solve_each_tile(
    tree: LeafTree,
    tile_of: Callable[[NDArray[np.int64], NDArray[np.bool_]], "Tile"],
    n_jobs: int,
    verbose: int,
    rows_together: int | None = None,
) -> list[CodedRows]:
    """Solve the tiles that `tile_of` makes of sorted positions and of what stops them."""
    n, stop, size = len(tree.points), np.zeros(1, np.bool_), rows_together or TILE
    tiles = [np.arange(start, min(n, start + size)) for start in range(0, n, size)]
    scratch: SimpleQueue[LocalColumns] = SimpleQueue()
    for _ in range(n_jobs):
        scratch.put(make_local_columns(tree.points.shape[1]))

    def solve(rows: NDArray[np.int64]) -> CodedRows:
        tile, local = tile_of(rows, stop), scratch.get()
        try:
            tile.solve(local)
        finally:  # or the next tile of this thread would wait for it without end
            scratch.put(local)
        return tile.coded()

    sizes = [len(rows) for rows in tiles]
    return run_chunks(
        solve, tiles, n_jobs=n_jobs, sizes=sizes, description="coding", verbose=verbose, stop=stop
    )


class Tile:
    """Some neighbouring rows and their codes so far, atoms by sorted position.

    Attributes
    ----------
    rows : (r,) sorted positions
    codes : `spdcluster.expression.candidates.Codes` of the rows
    """

    def __init__(
        self,
        tree: LeafTree,
        rows: NDArray[np.int64],
        lam: NDArray[np.float64],
        mu: NDArray[np.float64],
        max_rounds: int,
        stop: NDArray[np.bool_],
    ) -> None:
        self.stop = stop
        self.tree = tree
        self.rows, self.lam, self.mu = rows, lam, mu
        self.margin = single_margin(tree.points.shape[1], tree.largest_norm)
        self.max_rounds = max_rounds
        r = len(rows)
        self.codes = Codes(
            np.zeros(r, np.int64),
            np.zeros((r, FIRST_CAPACITY), np.int64),
            np.zeros((r, FIRST_CAPACITY)),
            np.zeros((r, 4)),
            np.zeros(r, np.int64),
            np.zeros(r, np.int64),
        )

    def solve(self, local: LocalColumns) -> None:
        """Solve all rows and prove them over all N columns."""
        todo = self._solve_locally(local)
        while len(todo) and not self.stop[0]:
            todo = self._finish(todo)

    def coded(self) -> CodedRows:
        """The codes so far, of points by their place in the input."""
        order, part = self.tree.order, self.codes
        return coded_rows(
            order[self.rows],
            part.sizes,
            order[part.atoms],
            part.c,
            part.values,
            self.lam,
            part.rounds,
        )

    def _solve_locally(self, local: LocalColumns) -> NDArray[np.int64]:
        """Solve the rows on the columns around the tile; which of them are still to be proved.

        Rows of many atoms are solved in step, and proved with it.
        """
        rows = np.arange(len(self.rows))
        many = self._solve_on(local, rows[:PROBE])
        sizes = self.codes.sizes[:PROBE].copy()
        sizes[many] = self.codes.atoms.shape[1]
        if len(rows) >= PROBE and sizes.mean() >= MANY_ATOMS:
            many = rows
        else:
            many = np.concatenate([many, self._solve_on(local, rows[PROBE:])])
        proved = np.zeros(len(rows), np.bool_)
        if len(many) >= PROBE:
            self._solve_many_atoms(many)
            is_exact = self.codes.states[many] != AGAIN
            proved[many[is_exact]] = True
            many = many[~is_exact]
        if len(many) and not self.stop[0]:
            # codes of many atoms have many of them farther away
            local = make_local_columns(self.tree.points.shape[1], MORE_COLUMNS)
            while len(many) and not self.stop[0]:
                if self.codes.atoms.shape[1] < ROOM or np.any(
                    self.codes.states[many] == active_set.OUT_OF_ROOM
                ):
                    self._make_room()
                many = self._solve_on(local, many)
        return np.flatnonzero(~proved)

    def _solve_on(self, local: LocalColumns, todo: NDArray[np.int64]) -> NDArray[np.int64]:
        """Solve rows on the columns around them; which of them have more atoms than there is room for."""
        solve_rows_locally(
            self.tree, local, self.rows, todo, self.lam, self.mu, self.max_rounds, self.codes,
            self.stop,
        )  # fmt: skip
        return todo[self.codes.states[todo] == active_set.OUT_OF_ROOM]

    def _solve_many_atoms(self, todo: NDArray[np.int64]) -> None:
        """Solve rows of many atoms in step, and prove them."""
        while len(todo) and not self.stop[0]:
            while self.codes.atoms.shape[1] < ROOM:
                self._make_room()
            solve_many_atoms(
                self.tree, self.rows, todo, self.lam, self.mu, self.max_rounds, self.margin,
                self.codes, self.stop,
            )  # fmt: skip
            todo = todo[self.codes.states[todo] == active_set.OUT_OF_ROOM]
            if len(todo):
                self._make_room()

    def _at_representatives(self, todo: NDArray[np.int64]) -> NDArray[np.float32]:
        """Gradients of rows at all representatives, shape (len(todo), L)."""
        codes = self.codes
        used = np.arange(codes.atoms.shape[1]) < codes.sizes[todo, None]
        starts = np.concatenate([[0], np.cumsum(codes.sizes[todo])])
        atoms, c = codes.atoms[todo][used], codes.c[todo][used].astype(np.float32)
        active, place = np.unique(np.concatenate([self.rows[todo], atoms]), return_inverse=True)
        out = np.empty((len(todo), len(self.tree.reach)), np.float32)
        at_representatives(
            self.tree.representatives, self.tree.points_single, active, place[: len(todo)], starts,
            place[len(todo) :], c, out,
        )  # fmt: skip
        return out

    def _finish(self, todo: NDArray[np.int64]) -> NDArray[np.int64]:
        """Prove rows over all columns; which of them have to be looked at once more."""
        tree, codes = self.tree, self.codes
        bounds = self._at_representatives(todo)
        bound_leaves(tree, todo, self.lam, self.margin, bounds, codes)
        finish_rows(
            tree, self.rows, todo, self.lam, self.mu, self.max_rounds, self.margin, bounds, codes,
            self.stop,
        )  # fmt: skip
        if np.any(codes.states[todo] == active_set.OUT_OF_ROOM):
            self._make_room()
        return todo[(codes.states[todo] == AGAIN) | (codes.states[todo] == active_set.OUT_OF_ROOM)]

    def _make_room(self) -> None:
        codes = self.codes
        more = np.zeros((len(self.rows), 3 * codes.atoms.shape[1]))
        self.codes = codes._replace(
            atoms=np.hstack([codes.atoms, more.astype(np.int64)]), c=np.hstack([codes.c, more])
        )
