"""Proves the optimality conditions of rows over all N columns of the Gaussian kernel.

Three steps, each for what the one before leaves open:

1. float32 at the representatives of all leaves, shared by the rows of a tile (`at_representatives`);
   with the bound of `spdcluster.expression.tree` this settles most leaves of most rows;
2. float32 at the members of the open leaves, row by row (`finish_row`);
3. float64 wherever float32 with its proved margin cannot tell (`exact_size`).

When a row is solved again, its gradient moves nowhere by more than its residual does, as
``|<r_new - r_old, phi(x)>| <= |r_new - r_old|`` for ``|phi(x)| = 1``: what was known of a leaf remains
known up to that distance, and only the leaves that it opens are visited again.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import SLACK, SOLVED
from spdcluster.expression.candidates import make_workspace, solve_on_candidates
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows_single
from spdcluster.expression.tree import BLOCK, LEAF

UNIT = 2.0**-24  # half an ulp of 1 in float32
MOST_VIOLATORS = 8  # a row and round
AGAIN = 3  # state of a row that moved so far that its representatives are to be looked at anew
LOOK = 512  # columns looked at together, row by row
OPEN_SHARE = 0.3  # of the leaves
STEEP = 0.75  # share of the penalty at a representative from which on its leaf may hold a violator
HOT = 0.9  # share of the penalty from which on a leaf may soon hold a violator


def single_margin(p: int, largest_norm: float) -> float:
    """A bound of the error of one float32 kernel value at any two points of norm <= `largest_norm`.

    Rounding the two points moves their distance by at most ``2 u X``, and ``exp(-d^2)`` has slope at
    most ``sqrt(2/e)``; the sum over p squares, ``d^2``, has relative error ``(p + 2) u``, and
    ``d^2 exp(-d^2) <= 1/e``; the exponential itself is good to 4 u (tests/test_tiles.py).
    """
    return UNIT * (2.0 * 0.858 * largest_norm + 0.368 * (p + 2) + 4.0)


@compiled
def gradient_error(c: NDArray[Any], kernel_margin: float) -> float:  # pragma: no cover
    """Error bound of a float32 gradient: each kernel value, then a sum of as many as there are atoms."""
    l1 = 1.0
    for value in c:
        l1 += abs(value)
    return l1 * (kernel_margin + (len(c) + 3) * UNIT)


@compiled
def at_representatives(
    representatives: NDArray[Any],
    points_single: NDArray[Any],
    active_at: NDArray[Any],
    own: NDArray[Any],
    starts: NDArray[Any],
    atoms: NDArray[Any],
    c: NDArray[Any],
    out: NDArray[Any],
) -> None:  # pragma: no cover
    """Gradients of r rows at the representatives of all leaves, float32: out (r, L).

    Parameters
    ----------
    representatives, points_single : of a `LeafTree`
    active_at : (u,) sorted positions of the rows and of all points that their codes use
    own : (r,) place of each row among the active points
    starts, atoms, c : codes of the rows as CSR, atoms by their place among the active points, c float32
    """
    u, n_leaves = len(active_at), out.shape[1]
    active = np.empty((u, points_single.shape[1]), np.float32)
    for a in range(u):
        active[a] = points_single[active_at[a]]
    K, bits = np.empty((u, BLOCK), np.float32), np.empty(BLOCK, np.int32)
    for block in range(len(representatives)):
        first = block * BLOCK
        width = min(BLOCK, n_leaves - first)
        gaussian_rows_single(active, representatives[block], width, K, bits)
        for t in range(len(own)):
            gradient_single(
                K, own[t], starts[t], starts[t + 1], atoms, c, out[t, first : first + width]
            )


# Scratch of one thread for looking at leaves: columns (p, LOOK) and active points (capacity + 1, p),
# float32; kernel values (capacity + 1, LOOK); a list of leaves (L,), the mark of each leaf (L,) and the
# count of marks (1,); violators and their values (MOST_VIOLATORS,)
Lens = namedtuple("Lens", "columns active K g c local bits leaves marks calls found kept")


@compiled
def make_lens(n_leaves: int, p: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch to look at leaves with codes of up to `capacity` atoms."""
    return Lens(
        np.zeros((p, LOOK), np.float32),
        np.empty((capacity + 1, p), np.float32),
        np.empty((capacity + 1, LOOK), np.float32),
        np.empty(LOOK, np.float32),
        np.empty(capacity, np.float32),
        np.arange(1, capacity + 1),
        np.empty(LOOK, np.int32),
        np.empty(n_leaves, np.int64),
        np.full(n_leaves, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(MOST_VIOLATORS, np.int64),
        np.empty(MOST_VIOLATORS),
    )


@compiled
def look_at_leaves(
    points: NDArray[Any],
    members: NDArray[Any],
    leaf_starts: NDArray[Any],
    n_open: int,
    own: int,
    lam: float,
    error: float,
    codes: Any,
    t: int,
    lens: Any,
    bound: NDArray[Any],
    moved: float,
) -> tuple[int, float]:  # pragma: no cover
    """Evaluate a row at the members of the first `n_open` leaves of ``lens.leaves``.

    The violators go to ``lens.found``, the largest ``|g|`` of each leaf, less what the residual has
    moved, to `bound` (unless it is empty). Returns how many violators, and the largest ``|g|``.
    """
    m = codes.sizes[t]
    atoms, c = codes.atoms[t, :m], codes.c[t, :m]
    lens.active[0] = points[own]
    for a in range(m):
        lens.active[a + 1] = points[atoms[a]]
        lens.c[a] = c[a]
    count, steepest, per_block = 0, lam, LOOK // LEAF
    for start in range(0, n_open, per_block):
        width = min(per_block, n_open - start)
        copy_leaves(members, lens.leaves, start, width, lens.columns)
        gaussian_rows_single(lens.active[: m + 1], lens.columns, width * LEAF, lens.K, lens.bits)
        gradient_single(lens.K, 0, 0, m, lens.local, lens.c, lens.g[: width * LEAF])
        for o in range(width):
            leaf, high = lens.leaves[start + o], np.float32(0.0)
            for lane in range(LEAF):
                high = max(high, abs(lens.g[o * LEAF + lane]))
            worst = np.float64(high) + error
            if worst > lam:
                worst, at = worst_member(
                    points, lens.g[o * LEAF : (o + 1) * LEAF], leaf_starts[leaf],
                    leaf_starts[leaf + 1], own, atoms, c, lam, error,
                )  # fmt: skip
                steepest = max(steepest, worst)
                if worst > lam * (1.0 + SLACK):
                    count = keep_worst(count, lens.found, lens.kept, at, worst)
            if len(bound) > 0:
                bound[leaf] = np.float32((worst - moved) * (1.0 + 1e-6))
    return count, steepest


@compiled
def copy_leaves(
    members: NDArray[Any], leaves: NDArray[Any], start: int, width: int, columns: NDArray[Any]
) -> None:  # pragma: no cover
    """Put the members of `width` leaves side by side: columns (p, >= width * LEAF)."""
    # eight loads, then eight stores: the compiler makes one vector instruction of each eight
    for o in range(width):
        leaf, at = leaves[start + o], o * LEAF
        for q in range(members.shape[1]):
            v0, v1, v2, v3 = (
                members[leaf, q, 0],
                members[leaf, q, 1],
                members[leaf, q, 2],
                members[leaf, q, 3],
            )
            v4, v5, v6, v7 = (
                members[leaf, q, 4],
                members[leaf, q, 5],
                members[leaf, q, 6],
                members[leaf, q, 7],
            )
            columns[q, at], columns[q, at + 1] = v0, v1
            columns[q, at + 2], columns[q, at + 3] = v2, v3
            columns[q, at + 4], columns[q, at + 5] = v4, v5
            columns[q, at + 6], columns[q, at + 7] = v6, v7


@compiled
def refine(
    points: NDArray[Any],
    members: NDArray[Any],
    leaf_starts: NDArray[Any],
    neighbours: NDArray[Any],
    own: int,
    lam: float,
    mu: float,
    max_rounds: int,
    kernel_margin: float,
    n_hot: int,
    codes: Any,
    t: int,
    lens: Any,
    space: Any,
) -> float:  # pragma: no cover
    """Solve a row again and again on the violators in the leaves around its atoms, until none is left.

    The first `n_hot` leaves of ``lens.leaves`` are looked at too. Returns how far the residual moved.
    """
    moved = 0.0
    nothing = np.empty(0, np.float32)
    while True:
        lens.calls[0] += 1
        mark, n = lens.calls[0], n_hot
        for o in range(n_hot):
            lens.marks[lens.leaves[o]] = mark
        m = codes.sizes[t]
        for a in range(-1, m):
            for leaf in neighbours[own if a < 0 else codes.atoms[t, a]]:
                if lens.marks[leaf] != mark:
                    lens.marks[leaf] = mark
                    lens.leaves[n] = leaf
                    n += 1
        error = gradient_error(codes.c[t, :m], kernel_margin)
        count, _ = look_at_leaves(
            points, members, leaf_starts, n, own, lam, error, codes, t, lens, nothing, 0.0
        )
        if count == 0:
            return moved
        for a in range(m):
            space.candidates[a] = codes.atoms[t, a]
        for a in range(count):
            space.candidates[m + a] = lens.found[a]
        moved += solve_on_candidates(
            points, own, m + count, lam, mu, max_rounds, codes, t, space
        ) * (1.0 + 1e-9) + 1e-8  # fmt: skip
        if codes.states[t] != SOLVED:
            return moved


@compiled
def refine_rows(
    points: NDArray[Any],
    members: NDArray[Any],
    leaf_starts: NDArray[Any],
    neighbours: NDArray[Any],
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    kernel_margin: float,
    gradients: NDArray[Any],
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """`refine` the rows `todo` of a tile, looking at leaves of steep representatives too.

    `gradients` (r, L) holds ``|g|`` at the representatives; (0, 0) if they are not known.
    """
    capacity, p = codes.atoms.shape[1], points.shape[1]
    space = make_workspace(len(points), p, capacity + MOST_VIOLATORS, capacity)
    lens = make_lens(len(members), p, capacity)
    for s in range(len(todo)):
        if stop[0]:
            break
        t, n_steep = todo[s], 0
        if len(gradients) > 0:
            n_steep = list_open(gradients[s], np.float32(STEEP * lam[t]), lens.leaves)
        codes.states[t] = SOLVED
        refine(
            points, members, leaf_starts, neighbours, rows[t], lam[t], mu[t], max_rounds,
            kernel_margin, n_steep, codes, t, lens, space,
        )  # fmt: skip


@compiled
def finish_rows(
    points: NDArray[Any],
    members: NDArray[Any],
    leaf_starts: NDArray[Any],
    neighbours: NDArray[Any],
    reach: NDArray[Any],
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    kernel_margin: float,
    bounds: NDArray[Any],
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Prove the rows `todo` over all columns, solving again those that have violators, until none has.

    `bounds` (r, L) holds ``|g|`` at the representatives and is used up. The state of a row ends as SOLVED,
    AGAIN (its residual moved so far that many leaves are open: look at the representatives anew) or
    what its last solution ended with.
    """
    capacity, n_leaves, p = codes.atoms.shape[1], len(reach), points.shape[1]
    space = make_workspace(len(points), p, capacity + MOST_VIOLATORS, capacity)
    lens = make_lens(n_leaves, p, capacity)
    for s in range(len(todo)):
        if stop[0]:
            break
        t, bound = todo[s], bounds[s]
        residual = np.float32(np.sqrt(max(codes.values[t, 2], 0.0) + 1e-13) * (1.0 + 1e-6))
        for leaf in range(n_leaves):
            bound[leaf] += residual * reach[leaf]
        moved, first_time, codes.states[t] = 0.0, True, SOLVED
        while True:
            error = gradient_error(codes.c[t, : codes.sizes[t]], kernel_margin)
            n_open = list_open(
                bound, np.float32((lam[t] - error - moved) * (1.0 - 1e-6)), lens.leaves
            )
            if n_open > OPEN_SHARE * n_leaves and not first_time:
                codes.states[t] = AGAIN
                break
            first_time = False
            count, codes.values[t, 3] = look_at_leaves(
                points, members, leaf_starts, n_open, rows[t], lam[t], error, codes, t, lens, bound,
                moved,
            )  # fmt: skip
            if count == 0:
                break
            n_hot = 0
            for o in range(n_open):
                leaf = lens.leaves[o]
                if bound[leaf] + moved > HOT * lam[t]:
                    lens.leaves[n_hot] = leaf
                    n_hot += 1
            moved += refine(
                points, members, leaf_starts, neighbours, rows[t], lam[t], mu[t], max_rounds,
                kernel_margin, n_hot, codes, t, lens, space,
            )  # fmt: skip
            if codes.states[t] != SOLVED:
                break


@compiled
def list_open(bound: NDArray[Any], limit: float, leaves: NDArray[Any]) -> int:  # pragma: no cover
    """Write the leaves whose bound is above the limit; returns how many."""
    count = 0
    for leaf in range(len(bound)):
        if bound[leaf] > limit:
            leaves[count] = leaf
            count += 1
    return count


@compiled
def worst_member(
    points: NDArray[Any],
    g: NDArray[Any],
    start: int,
    stop: int,
    own: int,
    atoms: NDArray[Any],
    c: NDArray[Any],
    lam: float,
    error: float,
) -> tuple[float, int]:  # pragma: no cover
    """The largest ``|g|`` of the members of a leaf, and where; the row and its atoms do not count.

    From float32 values where these decide, each with its error added; else from float64.
    """
    worst, at = 0.0, -1
    for position in range(start, stop):
        size = abs(np.float64(g[position - start])) + error
        if size <= worst:
            continue
        if size > lam:
            # the row itself is no column, and its atoms are solved for
            if is_taken(position, own, atoms):
                continue
            if size <= lam + 3.0 * error:
                size = exact_size(points, position, own, atoms, c)
                if size <= worst:
                    continue
        worst, at = size, position
    return worst, at


@compiled
def is_taken(position: int, own: int, atoms: NDArray[Any]) -> bool:  # pragma: no cover
    """Whether a point is the row itself or among its atoms."""
    if own == position:
        return True
    for atom in atoms:  # noqa: SIM110 (numba has no any() of a generator)
        if atom == position:
            return True
    return False


@compiled
def exact_size(
    points: NDArray[Any], position: int, own: int, atoms: NDArray[Any], c: NDArray[Any]
) -> float:  # pragma: no cover
    """``|k_ij - sum_a c_a k_aj|`` of one row and one column, in float64."""
    p = points.shape[1]
    total = 0.0
    for a in range(-1, len(atoms)):
        other = own if a < 0 else atoms[a]
        distance = 0.0
        for q in range(p):
            distance += (points[position, q] - points[other, q]) ** 2
        total += np.exp(-distance) * (1.0 if a < 0 else -c[a])
    return abs(total)


@compiled
def gradient_single(
    K: NDArray[Any],
    own: int,
    start: int,
    stop: int,
    atoms: NDArray[Any],
    c: NDArray[Any],
    g: NDArray[Any],
) -> None:  # pragma: no cover
    """``g = K[own] - sum_a c_a K[atoms_a]`` in float32, four atoms at a time."""
    n = len(g)
    k = K[own]
    for j in range(n):
        g[j] = k[j]
    a = start
    while a + 4 <= stop:
        c0, c1, c2, c3 = c[a], c[a + 1], c[a + 2], c[a + 3]
        K0, K1, K2, K3 = K[atoms[a]], K[atoms[a + 1]], K[atoms[a + 2]], K[atoms[a + 3]]
        for j in range(n):
            g[j] -= (c0 * K0[j] + c1 * K1[j]) + (c2 * K2[j] + c3 * K3[j])
        a += 4
    while a < stop:
        c0 = c[a]
        K0 = K[atoms[a]]
        for j in range(n):
            g[j] -= c0 * K0[j]
        a += 1


@compiled
def keep_worst(
    count: int, columns: NDArray[Any], kept: NDArray[Any], column: int, value: float
) -> int:  # pragma: no cover
    """Insert a violator into a row's short list, in place of the least one when it is full."""
    if count < len(columns):
        columns[count], kept[count] = column, value
        return count + 1
    least = 0
    for a in range(1, count):
        if kept[a] < kept[least]:
            least = a
    if value > kept[least]:
        columns[least], kept[least] = column, value
    return count


@compiled
def nearest_leaves(
    representatives: NDArray[Any], n_leaves: int, rows: NDArray[Any], count: int
) -> NDArray[Any]:  # pragma: no cover
    """The `count` leaves of nearest representative of each row (r, p), float32: (r, count)."""
    r = len(rows)
    K, bits = np.empty((r, BLOCK), np.float32), np.empty(BLOCK, np.int32)
    best = np.full((r, count), np.float32(-1.0))
    leaves = np.zeros((r, count), np.int64)
    for block in range(len(representatives)):
        gaussian_rows_single(rows, representatives[block], BLOCK, K, bits)
        first = block * BLOCK
        width = min(BLOCK, n_leaves - first)
        for t in range(r):
            for j in range(width):
                if K[t, j] > best[t, count - 1]:
                    a = count - 1
                    while a > 0 and best[t, a - 1] < K[t, j]:
                        best[t, a], leaves[t, a] = best[t, a - 1], leaves[t, a - 1]
                        a -= 1
                    best[t, a], leaves[t, a] = K[t, j], first + j
    return leaves
