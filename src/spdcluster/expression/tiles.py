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
from spdcluster.expression.candidates import Codes
from spdcluster.expression.codes import CodedRows, RowCodes, Solution, coded_rows
from spdcluster.expression.dense import FIRST_CAPACITY
from spdcluster.expression.intrinsics import LANES, UNROLLED
from spdcluster.expression.local import LocalColumns, make_local_columns, solve_rows_locally
from spdcluster.expression.screening import (
    AGAIN,
    FULL,
    Known,
    gather_sums,
    needs_double,
    single_margin,
    solve_again,
    sweep,
)
from spdcluster.expression.threads import run_chunks
from spdcluster.expression.tree import LeafTree, aligned_empty, build_tree

TILE = 2048
FIRST_SHARE = 0.3
MORE_COLUMNS = 16_384  # looked at together for codes of many atoms


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
        self.known = Known(np.full((len(tree.centres), r), FULL, np.uint8), np.zeros(r))

    def solve(self, local: LocalColumns) -> None:
        """Solve all rows and prove them over all N columns."""
        self._solve_locally(local)
        for share in (FIRST_SHARE, 1.0):
            todo = np.arange(len(self.rows))
            while len(todo) and not self.stop[0]:
                todo = self._finish(todo, share)

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

    def _solve_locally(self, local: LocalColumns) -> None:
        """Solve the rows on the columns around the tile."""
        todo = np.arange(len(self.rows))
        while len(todo) and not self.stop[0]:
            solve_rows_locally(
                self.tree, local, self.rows, todo, self.lam, self.mu, self.max_rounds,
                self.codes, self.stop,
            )  # fmt: skip
            todo = todo[self.codes.states[todo] == active_set.OUT_OF_ROOM]
            if len(todo):
                self._make_room()
                # codes of many atoms have many of them farther away
                local = make_local_columns(self.tree.points.shape[1], MORE_COLUMNS)

    def _finish(self, todo: NDArray[np.int64], share: float = 1.0) -> NDArray[np.int64]:
        """Prove rows over all columns; which of them have to be looked at once more.

        A `share` less than 1 proves nothing, see `sweep`.
        """
        tree, codes = self.tree, self.codes
        is_double = needs_double(todo, self.lam, self.margin, codes)
        if np.any(~is_double):
            self._sweep(todo[~is_double], tree.points_single, tree.members, share)
        if np.any(is_double):
            self._sweep(todo[is_double], tree.points, tree.members_double, share)
        if np.any(codes.states[todo] == active_set.OUT_OF_ROOM):
            self._make_room()
        return todo[(codes.states[todo] == AGAIN) | (codes.states[todo] == active_set.OUT_OF_ROOM)]

    def _sweep(
        self, todo: NDArray[np.int64], points: NDArray[Any], members: NDArray[Any], share: float
    ) -> None:
        """Look at all columns in the precision of `points`, and solve rows with violators again."""
        # rows of as many summands one after the other: the processor foresees where their sums end
        todo = todo[np.argsort(self.codes.sizes[todo] // UNROLLED, kind="stable")]
        sums = gather_sums(self.tree, points, self.rows, todo, self.codes)
        coarse, fine = (
            aligned_empty((len(sums.points), LANES), dtype) for dtype in (np.float32, points.dtype)
        )
        found = sweep(
            self.tree, members, self.rows, todo, self.lam, self.margin, self.codes, sums, self.known,
            share, coarse, fine, self.stop,
        )  # fmt: skip
        solve_again(
            self.tree, self.rows, todo, self.lam, self.mu, self.max_rounds, self.margin, self.codes,
            found, self.known, self.stop,
        )  # fmt: skip

    def _make_room(self) -> None:
        codes = self.codes
        more = np.zeros((len(self.rows), 3 * codes.atoms.shape[1]))
        self.codes = codes._replace(
            atoms=np.hstack([codes.atoms, more.astype(np.int64)]), c=np.hstack([codes.c, more])
        )
