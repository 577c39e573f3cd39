"""Solves one row of the Gaussian kernel on a few candidates, with a small Gram matrix of its own."""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows

# Scratch of one thread: candidates (room,), their points by row (room, p) and by column (p, room), Gram
# matrix (room, room), kernel values of the row (1, room), its point (1, p), and what
# `active_set.solve_row` works with
Workspace = namedtuple("Workspace", "candidates chosen columns K k own g worst U y work signs")

# Codes of a tile: sizes (r,), atoms by sorted position and coefficients (r, capacity), values (r, 4) as of
# `active_set.duality_gap`, rounds (r,), states (r,)
Codes = namedtuple("Codes", "sizes atoms c values rounds states")


@compiled
def make_workspace(p: int, room: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch for `room` candidates and `capacity` atoms in p dimensions."""
    return Workspace(
        np.empty(room, np.int64),
        np.empty((room, p)),
        np.empty((p, room)),
        np.empty((room, room)),
        np.empty((1, room)),
        np.empty((1, p)),
        np.empty(room),
        np.empty(room // active_set.CHUNK_COLUMNS + 1, np.int64),
        np.zeros((capacity, capacity + active_set.ODD)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
    )


@compiled
def solve_on_candidates(
    points: NDArray[Any],
    own: int,
    n: int,
    lam: float,
    mu: float,
    max_rounds: int,
    codes: Any,
    t: int,
    space: Any,
) -> float:  # pragma: no cover
    """Solve row t of `codes` (the point `own`) on n candidates, the first of which are its atoms.

    Returns how far the residual moved, ``|r_new - r_old|``, rounded up.
    """
    p = points.shape[1]
    warm, atoms, c = codes.sizes[t], codes.atoms[t], codes.c[t]
    space.own[0] = points[own]
    for j in range(n):
        space.chosen[j] = points[space.candidates[j]]
        for q in range(p):
            space.columns[q, j] = space.chosen[j, q]
    gaussian_rows(space.chosen[:n], space.columns, n, space.K)
    gaussian_rows(space.own, space.columns, n, space.k)
    k, g, K = space.k[0, :n], space.g[:n], space.K
    old_c = c[:warm].copy()
    m = active_set.warm_start(
        K, mu, np.arange(warm), old_c, atoms, c, space.signs, space.U, space.work
    )
    m = active_set.settle_signs(k, lam, atoms, c, space.signs, space.U, m, space.y, space.work)
    m, rounds, state = active_set.solve_row(
        K, k, -1, lam, mu, active_set.SLACK * lam, max_rounds,
        atoms, c, space.signs, m, space.U, g, space.y, space.work, space.worst,
    )  # fmt: skip
    active_set.row_value(k, 1.0, -1, lam, mu, atoms, c, m, g, codes.values[t])
    codes.sizes[t], codes.states[t] = m, state
    codes.rounds[t] += rounds
    g[:] = 0.0  # from here on the change of each coefficient
    for a in range(warm):
        g[a] -= old_c[a]
    for a in range(m):
        g[atoms[a]] += c[a]
    moved = residual_moved(K, g)
    for a in range(m):
        atoms[a] = space.candidates[atoms[a]]
    return moved


@compiled
def residual_moved(K: NDArray[Any], change: NDArray[Any]) -> float:  # pragma: no cover
    """How far a change (n,) of the coefficients moves the residual, rounded up: `K` (>= n, >= n)."""
    square, l1 = 0.0, 0.0
    for a in range(len(change)):
        if change[a] != 0.0:
            l1 += abs(change[a])
            for b in range(len(change)):
                square += change[a] * change[b] * K[a, b]
    return np.sqrt(max(square, 0.0) + 1e-14 * l1 * l1) * (1.0 + 1e-9)
