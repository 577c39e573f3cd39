"""Proves the optimality conditions of rows over all N columns of the Gaussian kernel.

The rows of a tile go through all columns together (`sweep`), so that they share kernel values:

1. float32 at the representatives of all leaves; the bounds of `spdcluster.expression.tree` settle nine of ten
   leaves of a row by these;
2. float32 at the members of each of these leaves, for the rows that it is open for;
3. float64 wherever float32 with its proved margin cannot tell: at single leaves (`exact_member`), and at all
   of them for rows whose penalty is so small that the margin is a good part of it.

Rows with violators are solved again on these and on what is around them (`solve_again`), and go through all
columns once more. How far apart the gradients at the members x and at the representative y of a leaf are
changes then by ``|<r_new - r_old, phi(x) - phi(y)>| <= |r_new - r_old| |phi(x) - phi(y)|`` at most: where it was
seen once, it is known from then on (`Known`), and few leaves are looked at again.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import SLACK, SOLVED, STOPPED
from spdcluster.expression.candidates import make_workspace, residual_moved, solve_on_candidates
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows
from spdcluster.expression.intrinsics import (
    LANES,
    TOGETHER,
    kernel_values,
    lanes_above,
    largest_difference,
    lowest_bit,
    rows_above,
    sum_lanes,
)
from spdcluster.expression.lanes import UNROLLED
from spdcluster.expression.tree import BLOCK

UNIT = 2.0**-24  # half an ulp of 1 in float32
FEWEST_ADDED, MOST_ADDED = (
    8,
    256,
)  # violators a row and look; between the two as many as it has atoms
LOOK_AROUND = 4  # leaves nearest to an atom, where violators are looked for first
MOST_DOUBTFUL = (
    32  # leaves of a row that float32 may ask float64 about, before the row has to go by float64
)
UNSURE = -1
MANY = 0.5  # of the rows: where a leaf is open for so many, the points of all of them are evaluated
DOUBLE_FROM = 0.1  # float32 margin, as a share of the penalty, from which on float64 looks
MOST_STUCK = 8  # solutions one after the other that do not make the objective fall
AGAIN = 3  # state of a row that has moved and is to go through all columns once more

# Gradients of some rows as sums over the u points that any of them uses: points (u, p) in float32 and in the
# precision that looks, those of row s at ``starts[s] : starts[s + 1]`` (a multiple of UNROLLED), each with its
# place among the points and its factor in both precisions; the row itself comes first, with factor 1
Sums = namedtuple("Sums", "single points starts places factors_single factors")
# What a sweep finds of r rows: how many violators (r,) or UNSURE, the worst of them (r, room) and their ``|g|``, and the
# largest ``|g|`` or the penalty (r,)
Found = namedtuple("Found", "counts columns kept steepest")
# What is known of the R rows of a tile: ``|g(x) - g(y)| <= lam apart[leaf, t] / FULL + reach moved[t]`` for all
# members x of a leaf with representative y; apart (L, R) uint8 (FULL: nothing), and moved (R,), how far the
# residual of each row has moved so far
Known = namedtuple("Known", "apart moved")
FULL = 255


def single_margin(p: int, largest_norm: float) -> float:
    """A bound of the error of one float32 kernel value at any two points of norm <= `largest_norm`.

    Rounding the two points moves their distance by at most ``2 u X``, and ``exp(-d^2)`` has slope at
    most ``sqrt(2/e)``; the sum over p squares, ``d^2``, has relative error ``(p + 2) u``, and
    ``d^2 exp(-d^2) <= 1/e``; the exponential itself is good to 4 u (tests/test_large.py).
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
def needs_double(
    todo: NDArray[Any], lam: NDArray[Any], kernel_margin: float, codes: Any
) -> NDArray[np.bool_]:  # pragma: no cover
    """Which of the rows `todo` float32 cannot look at."""
    needs = np.empty(len(todo), np.bool_)
    for s in range(len(todo)):
        t = todo[s]
        error = gradient_error(codes.c[t, : codes.sizes[t]], kernel_margin)
        needs[s] = error > DOUBLE_FROM * lam[t]
    return needs


@compiled
def gather_sums(
    tree: Any, points: NDArray[Any], rows: NDArray[Any], todo: NDArray[Any], codes: Any
) -> Any:  # pragma: no cover
    """The gradients of the rows `todo` as `Sums`, in the precision of `points` (N, p)."""
    starts = np.zeros(len(todo) + 1, np.int64)
    for s in range(len(todo)):
        starts[s + 1] = starts[s] + -(-(codes.sizes[todo[s]] + 1) // UNROLLED) * UNROLLED
    places, factors = np.empty(starts[-1], np.int32), np.zeros(starts[-1], points.dtype)
    place_of, active, u = np.full(len(points), -1), np.empty(starts[-1], np.int64), 0
    for s in range(len(todo)):
        t = todo[s]
        for a in range(-1, starts[s + 1] - starts[s] - 1):
            position = codes.atoms[t, a] if 0 <= a < codes.sizes[t] else rows[t]
            if place_of[position] < 0:
                place_of[position] = u
                active[u] = position
                u += 1
            e = starts[s] + 1 + a
            places[e] = place_of[position]
            if a < codes.sizes[t]:
                factors[e] = 1.0 if a < 0 else -codes.c[t, a]
    single, chosen = (
        np.empty((u, points.shape[1]), np.float32),
        np.empty((u, points.shape[1]), points.dtype),
    )
    for i in range(u):
        single[i], chosen[i] = tree.points_single[active[i]], points[active[i]]
    return Sums(single, chosen, starts, places, factors.astype(np.float32), factors)


@compiled
def sweep(
    tree: Any,
    members: NDArray[Any],
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    kernel_margin: float,
    codes: Any,
    sums: Any,
    known: Any,
    coarse: NDArray[Any],
    fine: NDArray[Any],
    gradients: NDArray[Any],
    stop: NDArray[Any],
) -> Any:  # pragma: no cover
    """Look for violators of the rows `todo` among all columns; what is `Found`. More is `Known` then.

    `members` are those of the tree in the precision that looks; `coarse` and `fine` (u, LANES) are scratch for
    kernel values of the points of `sums` in float32 and in this precision, `gradients` (L, >= r) for those at
    the representatives, float32, a multiple of LANES wide.
    """
    r, u, n_leaves = len(todo), len(sums.points), len(tree.centres)
    is_double = members.itemsize == 8
    error_single, error, full = np.empty(r), np.zeros(r), gradients.shape[1]
    # of rows that fill up the last lanes nothing is open
    residual, wrong = np.zeros(full, np.float32), np.zeros(full, np.float32)
    limit = np.full(full, np.float32(np.inf))
    room, steepest = FEWEST_ADDED, np.empty(r)
    for s in range(r):
        t = todo[s]
        m = codes.sizes[t]
        room, steepest[s] = max(room, min(m, MOST_ADDED)), lam[t]
        error_single[s] = gradient_error(codes.c[t, :m], kernel_margin) * (1.0 + 1e-6)
        if not is_double:
            error[s] = error_single[s]
        limit[s] = (lam[t] - error_single[s]) * (1.0 - 1e-6)
        # once for the representatives, once for rounding in the combination of them
        wrong[s] = 2.0 * error_single[s]
        residual[s] = np.sqrt(max(codes.values[t, 2], 0.0) + 1e-13) * (1.0 + 1e-6)
    doubtful = np.zeros(r, np.int64)
    found = Found(
        np.zeros(r, np.int64), np.empty((r, room), np.int64), np.empty((r, room)), steepest
    )
    starts, glass = tree.leaf_starts, make_glass(tree.points, codes.atoms.shape[1])
    all_points, chosen = np.arange(u + TOGETHER, dtype=np.int32), np.empty(u + TOGETHER, np.int32)
    all_points[u:] = 0
    taken = np.zeros(u, np.uint8)
    g_single, g = np.empty(LANES, np.float32), np.empty(LANES, members.dtype)
    for first in range(0, n_leaves, LANES):
        if stop[0]:
            break
        kernel_values(
            sums.single, all_points, u, tree.representatives, first // BLOCK, first % BLOCK, coarse
        )
        for s in range(r):
            sum_lanes(
                coarse,
                sums.places,
                sums.factors_single,
                sums.starts[s],
                sums.starts[s + 1],
                g_single,
            )
            for lane in range(min(LANES, n_leaves - first)):
                gradients[first + lane, s] = g_single[lane]
    open_rows = np.empty(r + 1, np.int32)
    for leaf in range(n_leaves):
        if stop[0]:
            break
        n_open, reach = 0, tree.reach[leaf]
        for first in range(0, r, LANES):
            bits = rows_above(
                gradients, leaf, first, tree.reach, tree.support, tree.weights, tree.unexplained,
                tree.weight_sums, residual, wrong, limit,
            )  # fmt: skip
            while bits != 0:
                s = first + lowest_bit(bits)
                bits &= bits - 1
                t = todo[s]
                apart = known.apart[leaf, t]
                high = abs(gradients[leaf, s]) + (lam[t] / FULL * apart + known.moved[t] * reach)
                open_rows[n_open] = s
                n_open += (apart == FULL) | (high > limit[s])
        if n_open == 0:
            continue
        some = open_rows[:n_open]
        if len(some) > MANY * r:
            kernel_values(sums.points, all_points, u, members, leaf, 0, fine)
        else:
            n = choose_points(some, sums, taken, chosen)
            kernel_values(sums.points, chosen, n, members, leaf, 0, fine)
        for i in range(len(some)):
            s = some[i]
            t = todo[s]
            above = lanes_above(
                fine, sums.places, sums.factors, sums.starts[s], sums.starts[s + 1],
                (lam[t] - error[s]) * (1.0 - 1e-6), g,
            )  # fmt: skip
            apart = largest_difference(g, gradients[leaf, s]) + error[s] + error_single[s]
            apart -= known.moved[t] * reach
            step = max(0.0, apart * (1.0 + 1e-6) / lam[t] * FULL) + 1.0
            known.apart[leaf, t] = step if step < FULL else FULL
            if above != 0:
                worst, at = largest_member(
                    g, starts[leaf], starts[leaf + 1], rows[t], codes.atoms, t, codes.sizes[t], lam[t],
                    error[s],
                )  # fmt: skip
                if lam[t] < worst <= lam[t] + 3.0 * error[s]:
                    doubtful[s] += 1
                    if doubtful[s] > MOST_DOUBTFUL:
                        found.counts[s], limit[s] = UNSURE, np.inf
                        continue
                    worst, at = exact_member(tree, leaf, rows[t], codes, t, lam[t], glass)
                steepest[s] = max(steepest[s], worst)
                if worst > lam[t] * (1.0 + SLACK):
                    most = min(MOST_ADDED, max(FEWEST_ADDED, codes.sizes[t]))
                    found.counts[s] = keep_worst(
                        found.counts[s],
                        found.columns[s, :most],
                        found.kept[s, :most],
                        at,
                        worst,
                    )
    return found


@compiled
def choose_points(
    some: NDArray[Any], sums: Any, taken: NDArray[Any], chosen: NDArray[Any]
) -> int:  # pragma: no cover
    """Write the places of all points that some rows use, each once, and fill up; returns how many.

    `taken` (u,) is zero before and after.
    """
    n = 0
    for s in some:
        for e in range(sums.starts[s], sums.starts[s + 1]):
            place = sums.places[e]
            chosen[n] = place
            n += 1 - taken[place]
            taken[place] = 1
    for i in range(n):
        taken[chosen[i]] = 0
    chosen[n : n + TOGETHER] = chosen[0]
    return n


# The gradient of one row in one precision: points (capacity + UNROLLED, p) of the row and of its atoms, their
# factors in it, their places, their kernel values on a leaf (capacity + UNROLLED, LANES), the gradient there
# (LANES,)
Glass = namedtuple("Glass", "points factors places values g")
# Scratch of one thread for looking at leaves: a glass of each precision; a list of leaves (L,), the mark of each
# leaf (L,) and the count of marks (1,); violators and their values (MOST_ADDED,); the code
# that a row had before (capacity,)
Lens = namedtuple("Lens", "single double leaves marks calls found kept atoms c")


@compiled
def make_glass(points: NDArray[Any], capacity: int) -> Any:  # pragma: no cover
    """Scratch for codes of up to `capacity` atoms, in the precision of `points`."""
    room = capacity + UNROLLED + TOGETHER
    return Glass(
        np.zeros((room, points.shape[1]), points.dtype),
        np.zeros(room, points.dtype),
        np.arange(room, dtype=np.int32),
        np.zeros((room, LANES), points.dtype),
        np.empty(LANES, points.dtype),
    )


@compiled
def make_lens(tree: Any, capacity: int) -> Any:  # pragma: no cover
    """Scratch to look at leaves with codes of up to `capacity` atoms."""
    n_leaves = len(tree.centres)
    return Lens(
        make_glass(tree.points_single, capacity),
        make_glass(tree.points, capacity),
        np.empty(n_leaves, np.int64),
        np.full(n_leaves, -1, np.int64),
        np.zeros(1, np.int64),
        np.empty(MOST_ADDED, np.int64),
        np.empty(MOST_ADDED),
        np.empty(capacity, np.int64),
        np.empty(capacity),
    )


@compiled
def aim(glass: Any, points: NDArray[Any], own: int, codes: Any, t: int) -> int:  # pragma: no cover
    """Let a glass show the gradient of the row t of `codes`, the point `own`; the number of its summands."""
    m = codes.sizes[t]
    count = -(-(m + 1) // UNROLLED) * UNROLLED
    glass.points[0], glass.factors[0] = points[own], 1.0
    for a in range(m):
        glass.points[a + 1] = points[codes.atoms[t, a]]
        glass.factors[a + 1] = -codes.c[t, a]
    glass.factors[m + 1 : count] = 0.0
    return count


@compiled
def look(
    glass: Any, count: int, members: NDArray[Any], leaf: int, limit: float
) -> int:  # pragma: no cover
    """Gradients at the members of a leaf, left in ``glass.g``; a bit for each lane above the limit."""
    kernel_values(glass.points, glass.places, count, members, leaf, 0, glass.values)
    return lanes_above(glass.values, glass.places, glass.factors, 0, count, limit, glass.g)


@compiled
def look_at_leaves(
    tree: Any,
    n_open: int,
    own: int,
    lam: float,
    kernel_margin: float,
    codes: Any,
    t: int,
    lens: Any,
) -> int:  # pragma: no cover
    """Write the worst violators of a row in the first `n_open` of ``lens.leaves`` to ``lens.found``; how many."""
    m = codes.sizes[t]
    error = gradient_error(codes.c[t, :m], kernel_margin) * (1.0 + 1e-6)
    is_double = error > DOUBLE_FROM * lam
    if is_double:
        error, n_summands = 0.0, aim(lens.double, tree.points, own, codes, t)
    else:
        n_summands = aim(lens.single, tree.points_single, own, codes, t)
    limit = (lam - error) * (1.0 - 1e-6)
    room = min(MOST_ADDED, max(FEWEST_ADDED, m))
    found, kept, count = lens.found[:room], lens.kept[:room], 0
    for o in range(n_open):
        leaf, worst, at = lens.leaves[o], lam, -1
        start, stop = tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1]
        if is_double:
            if look(lens.double, n_summands, tree.members_double, leaf, limit) != 0:
                worst, at = largest_member(
                    lens.double.g, start, stop, own, codes.atoms, t, m, lam, error
                )
        elif look(lens.single, n_summands, tree.members, leaf, limit) != 0:
            worst, at = largest_member(
                lens.single.g, start, stop, own, codes.atoms, t, m, lam, error
            )
        if lam < worst <= lam + 3.0 * error:
            worst, at = exact_member(tree, leaf, own, codes, t, lam, lens.double)
        if worst > lam * (1.0 + SLACK):
            count = keep_worst(count, found, kept, at, worst)
    return count


@compiled
def largest_member(
    g: NDArray[Any], start: int, stop: int, own: int, atoms: NDArray[Any], t: int, m: int, lam: float,
    error: float,
) -> tuple[float, int]:  # pragma: no cover  # fmt: skip
    """The largest ``|g| + error`` above the penalty among the points from `start` to `stop`, and where.

    The row and its atoms, the first m of ``atoms[t]``, do not count.
    """
    worst, at = lam, -1
    for position in range(start, stop):
        size = abs(np.float64(g[position - start])) + error
        if size > worst and position != own:
            a = 0
            while a < m and atoms[t, a] != position:
                a += 1
            if a == m:
                worst, at = size, position
    return worst, at


@compiled
def exact_member(
    tree: Any, leaf: int, own: int, codes: Any, t: int, lam: float, glass: Any
) -> tuple[float, int]:  # pragma: no cover
    """The largest ``|g|`` above the penalty in a leaf, and where, by float64 (`glass`)."""
    look(glass, aim(glass, tree.points, own, codes, t), tree.members_double, leaf, lam)
    return largest_member(
        glass.g, tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1], own, codes.atoms, t, codes.sizes[t],
        lam, 0.0,
    )  # fmt: skip


@compiled
def solve_again(
    tree: Any,
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    kernel_margin: float,
    codes: Any,
    found: Any,
    known: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve those of the rows `todo` again that have violators.

    The state of a row ends as SOLVED (over all columns), AGAIN (on some) or what its last solution ended with.
    """
    capacity = codes.atoms.shape[1]
    space = make_workspace(tree.points.shape[1], capacity + MOST_ADDED, capacity)
    lens = make_lens(tree, capacity)
    for s in range(len(todo)):
        if stop[0]:
            break
        t, count = todo[s], found.counts[s]
        if count == UNSURE:
            codes.states[t] = AGAIN
            continue
        codes.states[t] = SOLVED
        if count == 0 or codes.rounds[t] >= max_rounds:
            # what was there is that of the atoms, which no sweep looks at
            codes.values[t, 3] = max(codes.values[t, 3], found.steepest[s])
            codes.states[t] = SOLVED if count == 0 else STOPPED
            continue
        lens.found[:count] = found.columns[s, :count]
        before = codes.sizes[t]
        lens.atoms[:before], lens.c[:before] = codes.atoms[t, :before], codes.c[t, :before]
        path = refine(
            tree, rows[t], lam[t], mu[t], max_rounds, kernel_margin, count, codes, t, lens, space
        )
        moved = min(path, distance_from(tree.points, before, codes, t, lens, space))
        known.moved[t] += moved
        if codes.states[t] == STOPPED or (codes.states[t] == SOLVED and moved > SLACK * lam[t]):
            codes.states[t] = AGAIN
        else:
            # what is beyond the penalty without moving the code is so by rounding, and the gap tells how much
            codes.values[t, 3] = max(codes.values[t, 3], found.steepest[s] + moved)


@compiled
def refine(
    tree: Any,
    own: int,
    lam: float,
    mu: float,
    max_rounds: int,
    kernel_margin: float,
    count: int,
    codes: Any,
    t: int,
    lens: Any,
    space: Any,
) -> float:  # pragma: no cover
    """Solve a row again and again on its violators, until none is left in the leaves that are looked at.

    These are those of the first `count` of ``lens.found``, and those around its atoms. Returns how far the
    residual moved.
    """
    moved, n_violated, least, stuck = 0.0, 0, np.inf, 0
    lens.calls[0] += 1
    for a in range(count):
        leaf = tree.leaf_of[lens.found[a]]
        if lens.marks[leaf] != lens.calls[0]:
            lens.marks[leaf] = lens.calls[0]
            lens.leaves[n_violated] = leaf
            n_violated += 1
    for _ in range(max_rounds):
        m = codes.sizes[t]
        space.candidates[:m] = codes.atoms[t, :m]
        space.candidates[m : m + count] = lens.found[:count]
        moved += solve_on_candidates(
            tree.points, own, m + count, lam, mu, max_rounds, codes, t, space
        )
        if codes.states[t] != SOLVED:
            return moved
        # copies of a point may take turns without end
        stuck = 0 if codes.values[t, 0] < least * (1.0 - 1e-14) else stuck + 1
        least = min(least, codes.values[t, 0])
        if stuck == MOST_STUCK:
            break
        lens.calls[0] += 1
        mark, n = lens.calls[0], n_violated
        for o in range(n_violated):
            lens.marks[lens.leaves[o]] = mark
        for a in range(-1, codes.sizes[t]):
            centre = tree.leaf_of[own if a < 0 else codes.atoms[t, a]]
            for leaf in tree.support[centre, :LOOK_AROUND]:
                if lens.marks[leaf] != mark:
                    lens.marks[leaf] = mark
                    lens.leaves[n] = leaf
                    n += 1
        count = look_at_leaves(tree, n, own, lam, kernel_margin, codes, t, lens)
        if count == 0:
            return moved
    codes.states[t] = STOPPED
    return moved


@compiled
def distance_from(
    points: NDArray[Any], before: int, codes: Any, t: int, lens: Any, space: Any
) -> float:  # pragma: no cover
    """How far the residual of row t is from that of the code of `before` atoms in `lens`, rounded up."""
    n, change = before, space.g
    space.candidates[:n], change[:n] = lens.atoms[:n], -lens.c[:n]
    for a in range(codes.sizes[t]):
        atom, b = codes.atoms[t, a], 0
        while b < before and lens.atoms[b] != atom:
            b += 1
        if b == before:
            b = n
            n += 1
            space.candidates[b], change[b] = atom, 0.0
        change[b] += codes.c[t, a]
    for b in range(n):
        space.chosen[b] = points[space.candidates[b]]
        for q in range(points.shape[1]):
            space.columns[q, b] = space.chosen[b, q]
    gaussian_rows(space.chosen[:n], space.columns, n, space.K)
    return residual_moved(space.K, change[:n])


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
