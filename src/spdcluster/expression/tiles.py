"""Exact codes of any number of points under the Gaussian kernel, without its N x N matrix.

Points are sorted by a tree and taken in tiles of neighbours. The rows of a tile are solved on the columns
around it (`local`), then proved over all N columns (`screening`); rows with violators are solved again,
until there are none. Tiles share nothing, so that threads need no locks and no result depends on their
number.
"""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.around import Surroundings, make_surroundings, solve_rows_around
from spdcluster.expression.candidates import Codes
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows, penalties
from spdcluster.expression.intrinsics import LANES
from spdcluster.expression.lanes import UNROLLED
from spdcluster.expression.local import make_local_columns, solve_rows_locally
from spdcluster.expression.many_atoms import solve_many_atoms
from spdcluster.expression.screening import (
    AGAIN,
    FULL,
    UNSURE,
    Known,
    gather_sums,
    needs_double,
    single_margin,
    solve_again,
    sweep,
)
from spdcluster.expression.threads import run_chunks
from spdcluster.expression.tree import LeafTree, aligned_empty, build_tree

TILE = 1024
FIRST_CAPACITY = 64  # atoms
MOST_SWEEPS = 64  # of all columns by one row
MORE_COLUMNS = 16_384  # looked at together for codes of many atoms
PROBE = 32  # rows that are tried before others, or fewer than which are not solved in step
MANY_ATOMS = 24  # a row, from which on rows are solved in step
ROOM = 512  # atoms that there is room for then


def solve_tiles(
    vectors: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    *,
    max_rounds: int,
    n_jobs: int,
    verbose: int = 0,
) -> list[Solution]:
    """Codes of all points by each other, for each of S decreasing penalties.

    Parameters
    ----------
    vectors : ndarray, shape (N, p)
        The kernel is ``exp(-|u - v|^2)``.
    alphas : ndarray, shape (S, N)
    """
    tree, steps = build_tree(vectors, n_jobs), len(alphas)
    lam, mu = penalties(alphas[:, tree.order], l1_ratio)

    def tile_of(positions: NDArray[np.int64], stop: NDArray[np.bool_]) -> Tile:
        rows = np.repeat(positions, steps)
        part = slice(positions[0] * steps, (positions[-1] + 1) * steps)
        return Tile(tree, rows, lam[part], mu[part], max_rounds, stop)

    codes = RowCodes(alphas.size, len(vectors))
    for part in solve_each_tile(tree, tile_of, n_jobs, verbose, max(1, TILE // steps)):
        step = np.arange(len(part.rows)) % steps
        codes.add(part._replace(rows=part.rows * steps + step))
    return codes.solutions(steps)


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
    scratch: SimpleQueue[Surroundings] = SimpleQueue()
    for _ in range(n_jobs):
        scratch.put(make_surroundings(*tree.points.shape))

    def solve(rows: NDArray[np.int64]) -> CodedRows:
        tile, around = tile_of(rows, stop), scratch.get()
        try:
            tile.solve(around)
        finally:  # or the next tile of this thread would wait for it without end
            scratch.put(around)
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
    is_double : (r,) rows that float64 has to look at
    known : `spdcluster.expression.screening.Known` of them
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
        self.is_double = np.zeros(r, np.bool_)
        self.known = Known(np.full((len(tree.centres), r), FULL, np.uint8), np.zeros(r))

    def solve(self, scratch: Surroundings) -> None:
        """Solve all rows and prove them over all N columns."""
        todo = self._solve_locally(scratch)
        for _ in range(MOST_SWEEPS):
            if len(todo) == 0 or self.stop[0]:
                return
            todo = self._finish(todo)
        # rounding keeps a row going: its gap will tell what it lacks
        self.codes.rounds[todo] = np.maximum(self.codes.rounds[todo], self.max_rounds)
        todo = self._finish(todo)
        self.codes.values[todo, 3] = np.inf

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

    def _solve_locally(self, scratch: Surroundings) -> NDArray[np.int64]:
        """Solve the rows on the columns around the tile; which of them are still to be proved.

        Many rows of many atoms are solved in step, and proved with it.
        """
        codes = self.codes
        solve_rows_around(
            self.tree, scratch, self.rows, self.lam, self.mu, self.margin, self.max_rounds, codes,
            self.stop,
        )  # fmt: skip
        left = np.flatnonzero(codes.states != active_set.SOLVED)
        many = left[codes.states[left] == active_set.OUT_OF_ROOM]
        left = left[codes.states[left] != active_set.OUT_OF_ROOM]
        # a few rows tell whether the others have few atoms too
        for part in (left[:PROBE], left[PROBE:]):
            if len(part) and np.mean(codes.sizes[left[:PROBE]]) < MANY_ATOMS:
                many = np.concatenate([many, self._solve_on(scratch.columns, part)])
            else:
                many = np.concatenate([many, part])
        proved = np.zeros(len(self.rows), np.bool_)
        if len(many) >= PROBE:
            self._solve_in_step(many)
            proved[many] = self.codes.states[many] != AGAIN
            many = many[~proved[many]]
        # codes of many atoms have many of them farther away
        local = make_local_columns(self.tree.points.shape[1], MORE_COLUMNS) if len(many) else None
        while len(many) and not self.stop[0]:
            if self.codes.atoms.shape[1] < ROOM or np.any(
                self.codes.states[many] == active_set.OUT_OF_ROOM
            ):
                self._make_room()
            many = self._solve_on(local, many)
        return np.flatnonzero(~proved)

    def _solve_on(self, local: Any, todo: NDArray[np.int64]) -> NDArray[np.int64]:
        """Solve rows on the columns around them; which of them have more atoms than there is room for."""
        solve_rows_locally(
            self.tree, local, self.rows, todo, self.lam, self.mu, self.max_rounds, self.codes,
            self.stop,
        )  # fmt: skip
        full = todo[self.codes.states[todo] == active_set.OUT_OF_ROOM]
        self.codes.sizes[full] = self.codes.atoms.shape[1]
        return full

    def _solve_in_step(self, todo: NDArray[np.int64]) -> None:
        """Solve rows of many atoms, and prove them."""
        while len(todo) and not self.stop[0]:
            while self.codes.atoms.shape[1] < ROOM:
                self._make_room()
            solve_many_atoms(
                self.tree, self.rows, todo, self.lam, self.mu, self.max_rounds, self.margin, self.codes,
                self.stop,
            )  # fmt: skip
            todo = todo[self.codes.states[todo] == active_set.OUT_OF_ROOM]
            if len(todo):
                self._make_room()

    def _finish(self, todo: NDArray[np.int64]) -> NDArray[np.int64]:
        """Prove rows over all columns; which of them have to be looked at once more."""
        tree, codes = self.tree, self.codes
        is_double = self.is_double[todo] | needs_double(todo, self.lam, self.margin, codes)
        for double in (False, True):
            part = todo[is_double == double]
            if len(part):
                part, found = self._sweep(part, double)
                self.is_double[part[found.counts == UNSURE]] = True
                solve_again(
                    tree, self.rows, part, self.lam, self.mu, self.max_rounds, self.margin, codes, found,
                    self.known, self.stop,
                )  # fmt: skip
        if np.any(codes.states[todo] == active_set.OUT_OF_ROOM):
            self._make_room()
        return todo[(codes.states[todo] == AGAIN) | (codes.states[todo] == active_set.OUT_OF_ROOM)]

    def _sweep(self, todo: NDArray[np.int64], double: bool) -> tuple[NDArray[np.int64], Any]:
        """Look at all columns in one precision; the rows in another order, and what is `Found` of them."""
        tree, codes = self.tree, self.codes
        points, members = (
            (tree.points, tree.members_double) if double else (tree.points_single, tree.members)
        )
        # rows of as many summands one after the other: the processor foresees where their sums end
        todo = todo[np.argsort(codes.sizes[todo] // UNROLLED, kind="stable")]
        sums = gather_sums(tree, points, self.rows, todo, codes)
        coarse, fine = (
            aligned_empty((len(sums.points), LANES), dtype) for dtype in (np.float32, points.dtype)
        )
        # no power of two wide: the entries of a column would fall into one place of the cache
        width = (len(todo) // LANES + 2) * LANES
        gradients = aligned_empty((len(tree.centres), width), np.float32)
        found = sweep(
            tree, members, self.rows, todo, self.lam, self.margin, codes, sums, self.known, coarse, fine,
            gradients, self.stop,
        )  # fmt: skip
        return todo, found

    def _make_room(self) -> None:
        codes = self.codes
        more = np.zeros((len(self.rows), 3 * codes.atoms.shape[1]))
        self.codes = codes._replace(
            atoms=np.hstack([codes.atoms, more.astype(np.int64)]), c=np.hstack([codes.c, more])
        )
