"""Solves one row of the Gaussian kernel on a few candidates, with a small Gram matrix of its own."""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression import active_set
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows
from spdcluster.expression.tree import LEAF

EXPANDED = 32  # atoms of a row whose leaves are candidates too, at most

# Scratch of one thread: candidates (room,), their points by row (room, p) and by column (p, room), Gram
# matrix (room, room), kernel values of the row (1, room), its point (1, p), and what
# `active_set.solve_row` works with. seen (N,) holds the number of the last call that met a point.
Workspace = namedtuple(
    "Workspace", "candidates chosen columns K k own bits g worst L work signs seen calls"
)

# Codes of a tile: sizes (r,), atoms by sorted position and coefficients (r, capacity), values (r, 4) as of
# `active_set.duality_gap`, rounds (r,), states (r,)
Codes = namedtuple("Codes", "sizes atoms c values rounds states")


@compiled
def make_workspace(n: int, p: int, room: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch for `room` candidates and `capacity` atoms among n points in p dimensions."""
    return Workspace(
        np.empty(room, np.int64),
        np.empty((room, p)),
        np.empty((p, room)),
        np.empty((room, room)),
        np.empty((1, room)),
        np.empty((1, p)),
        np.empty(room, np.int64),
        np.empty(room),
        np.empty(room // active_set.CHUNK_COLUMNS + 1, np.int64),
        np.zeros((capacity, capacity)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.full(n, -1, np.int64),
        np.zeros(1, np.int64),
    )


@compiled
def gather_candidates(
    leaf_starts: NDArray[Any],
    leaf_of: NDArray[Any],
    own: int,
    atoms: NDArray[Any],
    more: NDArray[Any],
    expand: bool,
    space: Any,
) -> int:  # pragma: no cover
    """The atoms, then their leaves if `expand`, then the leaves of the points `more`; without the row."""
    space.calls[0] += 1
    mark = space.calls[0]
    seen, candidates = space.seen, space.candidates
    seen[own] = mark
    n = 0
    for atom in atoms:
        seen[atom] = mark
        candidates[n] = atom
        n += 1
    expanded = min(len(atoms), EXPANDED) if expand else 0
    for source in range(expanded + len(more)):
        leaf = leaf_of[atoms[source] if source < expanded else more[source - expanded]]
        for position in range(leaf_starts[leaf], leaf_starts[leaf + 1]):
            if seen[position] != mark and n < len(candidates):
                seen[position] = mark
                candidates[n] = position
                n += 1
    return n


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

    Returns how far the residual moved, ``|r_new - r_old|``.
    """
    p = points.shape[1]
    warm, atoms, c = codes.sizes[t], codes.atoms[t], codes.c[t]
    space.own[0] = points[own]
    for j in range(n):
        space.chosen[j] = points[space.candidates[j]]
        for q in range(p):
            space.columns[q, j] = space.chosen[j, q]
    gaussian_rows(space.chosen[:n], space.columns, n, space.K, space.bits)
    gaussian_rows(space.own, space.columns, n, space.k, space.bits)
    k, g, K = space.k[0, :n], space.g[:n], space.K
    old_c = c[:warm].copy()
    m = active_set.warm_start(
        K, mu, np.arange(warm), old_c, atoms, c, space.signs, space.L, space.work
    )
    m = active_set.settle_signs(k, lam, atoms, c, space.signs, space.L, m, space.work)
    m, rounds, state = active_set.solve_row(
        K, k, -1, lam, mu, active_set.SLACK * lam, max_rounds,
        atoms, c, space.signs, m, space.L, g, space.work, space.worst,
    )  # fmt: skip
    active_set.row_value(k, 1.0, -1, lam, mu, atoms, c, m, g, codes.values[t])
    codes.sizes[t], codes.states[t] = m, state
    codes.rounds[t] += rounds
    g[:] = 0.0  # from here on the change of each coefficient
    for a in range(warm):
        g[a] -= old_c[a]
    for a in range(m):
        g[atoms[a]] += c[a]
    moved = 0.0
    for a in range(n):
        if g[a] != 0.0:
            for b in range(n):
                if g[b] != 0.0:
                    moved += g[a] * g[b] * K[a, b]
    for a in range(m):
        atoms[a] = space.candidates[atoms[a]]
    return np.sqrt(max(moved, 0.0))


@compiled
def solve_rows_on_leaves(
    points: NDArray[Any],
    leaf_starts: NDArray[Any],
    leaf_of: NDArray[Any],
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    more: NDArray[Any],
    counts: NDArray[Any],
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve the rows `todo` of a tile on their atoms, and the leaves of those and of `more`.

    ``more[t, :counts[t]]`` are points of row ``todo[t]`` whose leaves join its candidates.
    """
    capacity, room = codes.atoms.shape[1], 0
    for t in range(len(todo)):
        room = max(room, codes.sizes[todo[t]] + (EXPANDED + counts[t]) * LEAF)
    space = make_workspace(len(points), points.shape[1], room, capacity)
    for s in range(len(todo)):
        if stop[0]:
            break
        t = todo[s]
        n = gather_candidates(
            leaf_starts, leaf_of, rows[t], codes.atoms[t, : codes.sizes[t]], more[s, : counts[s]],
            True, space,
        )  # fmt: skip
        solve_on_candidates(points, rows[t], n, lam[t], mu[t], max_rounds, codes, t, space)
