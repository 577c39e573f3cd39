"""Proves the optimality conditions of rows over all N columns of the Gaussian kernel.

Three steps, each for what the one before leaves open:

1. float32 at the representatives of all leaves, shared by the rows of a tile (`at_representatives`);
   with the bounds of `spdcluster.expression.tree` this settles almost all leaves of most rows;
2. float32 at the members of the open leaves, row by row (`finish_rows`);
3. float64 wherever float32 with its proved margin cannot tell: at single columns (`exact_size`), and at
   all of them where the penalty is so small that the margin is a good part of it.

When a row is solved again, its gradient moves nowhere by more than its residual does, as
``|<r_new - r_old, phi(x)>| <= |r_new - r_old|`` for ``|phi(x)| = 1``: what was known of a leaf remains
known up to that distance, and only the leaves that it opens are visited again.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import SLACK, SOLVED, STOPPED, largest_size
from spdcluster.expression.candidates import make_workspace, solve_on_candidates
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows_single
from spdcluster.expression.intrinsics import gradient_of_eight, largest_of_eight
from spdcluster.expression.tree import BLOCK, LEAF

UNIT = 2.0**-24  # half an ulp of 1 in float32
FEWEST_ADDED, MOST_ADDED = (
    8,
    256,
)  # violators a row and look; between the two as many as it has atoms
DOUBLE_FROM = 0.1  # float32 margin, as a share of the penalty, from which on float64 looks
DOUBLE_MARGIN = (
    2.0**-26
)  # its margin: 2^-29 of that of float32, and a few more ulps for its exponential
AGAIN = 3  # state of a row that moved so far that its representatives are to be looked at anew
MOST_DOUBTFUL = 32  # points that one look asks float64 about before it looks by float64
FLAGGED = 32  # leaves compared with a limit together
OPEN_SHARE = 0.1  # of the leaves, from which on all representatives are looked at anew
LOOK_AROUND = 8  # leaves nearest to an atom, where violators are looked for first


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
    K = np.empty((u, BLOCK), np.float32)
    for block in range(len(representatives)):
        first = block * BLOCK
        width = min(BLOCK, n_leaves - first)
        gaussian_rows_single(active, representatives[block], width, K)
        for t in range(len(own)):
            gradient_single(
                K, own[t], starts[t], starts[t + 1], atoms, c, out[t, first : first + width]
            )


# The gradient of one row in one precision: points (capacity + 1, p) of the row and of its atoms, and their
# factors in it (capacity + 1,)
Glass = namedtuple("Glass", "active factors")
# Scratch of one thread for looking at leaves: a glass of each precision and the gradient (LEAF,); a list of
# leaves (L,), the mark of each leaf (L,) and the count of marks (1,); violators and their values (MOST_ADDED,)
Lens = namedtuple("Lens", "single double g leaves marks calls found kept")


@compiled
def make_lens(n_leaves: int, p: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch to look at leaves with codes of up to `capacity` atoms."""
    return Lens(
        Glass(np.empty((capacity + 1, p), np.float32), np.empty(capacity + 1, np.float32)),
        Glass(np.empty((capacity + 1, p)), np.empty(capacity + 1)),
        np.empty(LEAF),
        np.empty(n_leaves, np.int64),
        np.full(n_leaves, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(MOST_ADDED, np.int64),
        np.empty(MOST_ADDED),
    )


@compiled
def look_at_leaves(
    tree: Any,
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

    `error` is that of float32. The violators go to ``lens.found``, the largest ``|g|`` of each leaf, less
    what the residual has moved, to `bound` (unless it is empty). Returns how many violators, and the
    largest ``|g|``.
    """
    points, leaf_starts, m = tree.points, tree.leaf_starts, codes.sizes[t]
    atoms, c = codes.atoms[t, :m], codes.c[t, :m]
    is_double = error > DOUBLE_FROM * lam
    if is_double:
        aim(lens.double, points, own, atoms, c)
        error *= DOUBLE_MARGIN
    else:
        aim(lens.single, points, own, atoms, c)
    room = min(MOST_ADDED, max(FEWEST_ADDED, m))
    found, kept = lens.found[:room], lens.kept[:room]
    count, steepest, doubtful = 0, lam, 0
    for o in range(n_open):
        leaf = lens.leaves[o]
        if is_double:
            high = gradient_of_eight(
                tree.members_double, leaf, lens.double.active, lens.double.factors, m + 1, lens.g
            )
        else:
            high = np.float64(
                gradient_of_eight(
                    tree.members, leaf, lens.single.active, lens.single.factors, m + 1, lens.g
                )
            )
        worst = high + error
        if worst > lam:
            worst, at, more = worst_member(
                points, lens.g, leaf_starts[leaf], leaf_starts[leaf + 1], own, atoms, c, lam, error
            )
            doubtful += more
            if doubtful > MOST_DOUBTFUL and not is_double:
                # where so many are near the penalty, float64 is faster than asking it point by point
                is_double = True
                aim(lens.double, points, own, atoms, c)
                error *= DOUBLE_MARGIN
            steepest = max(steepest, worst)
            if worst > lam * (1.0 + SLACK):
                count = keep_worst(count, found, kept, at, worst)
        if len(bound) > 0:
            bound[leaf] = np.float32((worst - moved) * (1.0 + 1e-6))
    return count, steepest


@compiled
def aim(
    glass: Any, points: NDArray[Any], own: int, atoms: NDArray[Any], c: NDArray[Any]
) -> None:  # pragma: no cover
    """Let a glass show the gradient of the row at `own` with this code."""
    glass.active[0], glass.factors[0] = points[own], 1.0
    for a in range(len(atoms)):
        glass.active[a + 1] = points[atoms[a]]
        glass.factors[a + 1] = -c[a]


@compiled
def refine(
    tree: Any,
    own: int,
    lam: float,
    mu: float,
    max_rounds: int,
    kernel_margin: float,
    n_violated: int,
    codes: Any,
    t: int,
    lens: Any,
    space: Any,
) -> float:  # pragma: no cover
    """Solve a row again and again on its violators, until none is left in the leaves that are looked at.

    These are those around its atoms and the first `n_violated` of ``lens.leaves``. Returns how far the residual
    moved.
    """
    moved = 0.0
    nothing = np.empty(0, np.float32)
    for _ in range(max_rounds):
        lens.calls[0] += 1
        mark, n = lens.calls[0], n_violated
        for o in range(n_violated):
            lens.marks[lens.leaves[o]] = mark
        m = codes.sizes[t]
        for a in range(-1, m):
            centre = tree.leaf_of[own if a < 0 else codes.atoms[t, a]]
            for leaf in tree.neighbours[centre, :LOOK_AROUND]:
                if lens.marks[leaf] != mark:
                    lens.marks[leaf] = mark
                    lens.leaves[n] = leaf
                    n += 1
        error = gradient_error(codes.c[t, :m], kernel_margin)
        count, _ = look_at_leaves(tree, n, own, lam, error, codes, t, lens, nothing, 0.0)
        if count == 0:
            return moved
        for a in range(m):
            space.candidates[a] = codes.atoms[t, a]
        for a in range(count):
            space.candidates[m + a] = lens.found[a]
        moved += solve_on_candidates(
            tree.points, own, m + count, lam, mu, max_rounds, codes, t, space
        ) * (1.0 + 1e-9) + 1e-8  # fmt: skip
        if codes.states[t] != SOLVED:
            return moved
    codes.states[t] = STOPPED
    return moved


@compiled
def bound_leaves(
    tree: Any,
    todo: NDArray[Any],
    lam: NDArray[Any],
    kernel_margin: float,
    gradients: NDArray[Any],
    codes: Any,
) -> None:  # pragma: no cover
    """Write bounds of ``|g|`` in all leaves over the `gradients` (r, L) at their representatives.

    The bound by the leaf's own representative, and where that leaves it open, by those around it.
    """
    g = np.empty(gradients.shape[1], np.float32)
    for s in range(len(todo)):
        t, bound = todo[s], gradients[s]
        residual = np.float32(np.sqrt(max(codes.values[t, 2], 0.0) + 1e-13) * (1.0 + 1e-6))
        error = gradient_error(codes.c[t, : codes.sizes[t]], kernel_margin) * (1.0 + 1e-6)
        limit = np.float32((lam[t] - error) * (1.0 - 1e-6))
        for leaf in range(len(g)):
            g[leaf] = bound[leaf]
            bound[leaf] = abs(g[leaf]) + residual * tree.reach[leaf]
        lower_bounds(tree, g, residual, np.float32(error), limit, bound)


@compiled
def lower_bounds(
    tree: Any, g: NDArray[Any], residual: float, error: float, limit: float, bound: NDArray[Any]
) -> None:  # pragma: no cover
    """Lower those above the limit by what the representatives around the leaf know, `g` (L,)."""
    n = len(bound)
    for start in range(0, n, FLAGGED):
        stop = min(n, start + FLAGGED)
        if largest_size(bound, start, stop) <= limit:
            continue
        for leaf in range(start, stop):
            if bound[leaf] > limit:
                high = largest_of_eight(
                    g, tree.support, tree.weights, tree.unexplained, leaf, residual
                )
                # each g is wrong by `error` at most, and so are they together for every unit of weight
                high = high * np.float32(1.0 + 1e-5) + tree.weight_sums[leaf] * error
                bound[leaf] = min(bound[leaf], high)


@compiled
def finish_rows(
    tree: Any,
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
    """Prove the rows `todo` over all columns, solving again those that have violators.

    `bounds` (r, L) are those of `bound_leaves` and are used up. The state of a row ends as SOLVED, AGAIN
    (its residual moved so far that many leaves are open: look at the representatives anew) or what its
    last solution ended with.
    """
    capacity, n_leaves, p = codes.atoms.shape[1], bounds.shape[1], tree.points.shape[1]
    space = make_workspace(p, capacity + MOST_ADDED, capacity)
    lens = make_lens(n_leaves, p, capacity)
    for s in range(len(todo)):
        if stop[0]:
            break
        t, bound = todo[s], bounds[s]
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
                tree, n_open, rows[t], lam[t], error, codes, t, lens, bound, moved
            )
            if count == 0:
                break
            n_violated = 0
            for o in range(n_open):
                leaf = lens.leaves[o]
                if bound[leaf] + moved > lam[t]:
                    lens.leaves[n_violated] = leaf
                    n_violated += 1
            shift = refine(
                tree,
                rows[t],
                lam[t],
                mu[t],
                max_rounds,
                kernel_margin,
                n_violated,
                codes,
                t,
                lens,
                space,
            )
            moved += shift
            # nothing to mend: what is beyond the penalty is so by rounding, and the gap tells how much
            if codes.states[t] != SOLVED or shift == 0.0:
                break


@compiled
def list_open(bound: NDArray[Any], limit: float, leaves: NDArray[Any]) -> int:  # pragma: no cover
    """Write the leaves whose bound is above the limit; returns how many."""
    count, n = 0, len(bound)
    for start in range(0, n, FLAGGED):
        stop = min(n, start + FLAGGED)
        if largest_size(bound, start, stop) > limit:
            for leaf in range(start, stop):
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
) -> tuple[float, int, int]:  # pragma: no cover
    """The largest ``|g|`` of the members of a leaf, and where; the row and its atoms do not count.

    Last, how many members `g` left in doubt.

    From the values `g` where these decide, each with its error added; else from one more in float64.
    """
    worst, at, doubtful = 0.0, -1, 0
    for position in range(start, stop):
        size = abs(g[position - start]) + error
        if size <= worst:
            continue
        if size > lam:
            # the row itself is no column, and its atoms are solved for
            if is_taken(position, own, atoms):
                continue
            if size <= lam + 3.0 * error:
                doubtful += 1
                size = exact_size(points, position, own, atoms, c)
                if size <= worst:
                    continue
        worst, at = size, position
    return worst, at, doubtful


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
