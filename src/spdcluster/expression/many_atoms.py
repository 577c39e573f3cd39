"""Codes of hundreds of atoms: neighbouring rows in step, their columns looked at together.

All rows of a group look at all N columns at once (`sweep`): the kernel values of their atoms, many of which
they share, are evaluated once a block of columns and stay in the cache while the gradients of all rows are
summed from them. Each row takes the worst columns with it (`HOT`) and solves on these and its atoms alone
(`descend`), in float64, until the next sweep. Its penalty falls from sweep to sweep to where about so many
columns violate it, so that early sweeps are of few atoms and atoms that the end has no use for are rare.

Sweeps are float32 until a row has no violators at its own penalty, and float64 from there on: the last one
proves the row, as in `spdcluster.expression.screening`.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import (
    ODD,
    OUT_OF_ROOM,
    SLACK,
    SOLVED,
    STOPPED,
    first_crossing,
    gradient,
    largest_size,
    polish,
)
from spdcluster.expression.compiled import compiled
from spdcluster.expression.factor import (
    append_atom,
    remove_atom,
    solve_transposed,
    solve_upper,
)
from spdcluster.expression.gaussian import gaussian_row, gaussian_value
from spdcluster.expression.long_vectors import (
    BLOCK_WIDTH,
    combine_on_block,
    copy_entries,
    gaussian_on_block,
)
from spdcluster.expression.screening import AGAIN, DOUBLE_FROM, gradient_error

TOGETHER = 512  # rows that sweep together
CHUNK = 16  # columns of which a row takes the worst
FEWEST_HOT, MOST_HOT = (
    64,
    192,
)  # columns a row takes with it; between the two some more than its atoms
EASE = 2.0  # the penalty falls below the least of them by this factor
ATOMS_FOR_ONE_MORE = 24  # as many violators enter together as the row has atoms, over this
ATOM_SLACK = (
    1e-8  # by which atoms may miss the penalty; where they miss more, the factor is no longer good
)
MOST_SWEEPS = 200  # of each precision; rows take some 30
KEPT = (
    20_000  # entries of the factor of a row that there is room for between two sweeps, on average
)

DOUBLE_MARGIN = (
    2.0**-26
)  # of float64: 2^-29 of that of float32, and a few more ulps for its exponential

SINGLE, DOUBLE, DONE = 0, 1, 2

# What one row solves with: the columns it took along: positions (MOST_HOT,), points (p, MOST_HOT), kernel
# values of the row (MOST_HOT,) and of its atoms by their slot (capacity, MOST_HOT), gradient (MOST_HOT,) and which
# are not atoms (MOST_HOT,); of each atom its slot, its place among these columns (or -1), sign, kernel value with
# the row, all (capacity,); free slots; the factor (capacity, capacity + ODD), and work
Bench = namedtuple(
    "Bench", "hot points k K g free slots place signs k_atoms spare U y target work gram columns"
)


# The factors of some rows between two sweeps: entries (n,), where those of each row start (r,), how many there is
# room for (r,) and how many there are (r,), -1 if they are not kept, and the end of what is in use (1,)
Store = namedtuple("Store", "entries starts room counts end")


@compiled
def make_bench(p: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch for codes of up to `capacity` atoms in p dimensions."""
    return Bench(
        np.zeros(MOST_HOT, np.int64),
        np.zeros((p, MOST_HOT)),
        np.zeros(MOST_HOT),
        np.empty((capacity, MOST_HOT)),
        np.zeros(MOST_HOT),
        np.zeros(MOST_HOT),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.empty((capacity, capacity + ODD)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity + 1),
        np.empty((capacity, capacity)),
        np.empty((p, capacity)),
    )


@compiled
def solve_many_atoms(
    tree: Any,
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    kernel_margin: float,
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve the rows `todo` of a tile from nothing and prove them over all N columns.

    The state of a row ends as AGAIN where its atoms depend on each other so much that its code is not exact, or
    where its penalty is below what float64 tells for all columns.
    """
    points, n, p = tree.points, len(tree.points), tree.points.shape[1]
    capacity = codes.atoms.shape[1]
    bench = make_bench(p, capacity)
    n_chunks = -(-n // CHUNK)
    r = min(TOGETHER, len(todo))
    store = Store(
        np.empty(r * KEPT),
        np.zeros(r, np.int64),
        np.zeros(r, np.int64),
        np.zeros(r, np.int64),
        np.zeros(1, np.int64),
    )
    best_single, best_double = np.empty((r, n_chunks), np.float32), np.empty((1, 1))
    where = np.empty((r, n_chunks), np.int32)
    marks = np.full(n, -1, np.int32)
    level, solved, error = np.empty(r), np.empty(r), np.empty(r)
    phase, sweeps = np.empty(r, np.int64), np.zeros(r, np.int64)
    most = min(max_rounds, MOST_SWEEPS)
    for start in range(0, len(todo), r):
        group = todo[start : start + r]
        level[:], solved[:], phase[:], sweeps[:] = np.inf, np.inf, SINGLE, 0
        store.room[:], store.counts[:], store.end[0] = 0, 0, 0
        for place in range(len(group)):
            t = group[place]
            codes.sizes[t], codes.states[t] = 0, SOLVED
            if kernel_margin * DOUBLE_MARGIN > DOUBLE_FROM * lam[t]:
                codes.states[t], phase[place] = AGAIN, DONE
        while True:
            turn = np.flatnonzero(phase[: len(group)] == SINGLE)
            precision = SINGLE
            if len(turn) == 0:
                turn = np.flatnonzero(phase[: len(group)] == DOUBLE)
                precision = DOUBLE
            if len(turn) == 0 or stop[0]:
                break
            for s in turn:
                t = group[s]
                error[s] = gradient_error(codes.c[t, : codes.sizes[t]], kernel_margin)
            if precision == SINGLE:
                sweep(
                    points, tree.points_single, rows, group, turn, lam, error, codes, marks,
                    best_single, where,
                )  # fmt: skip
            else:
                if len(best_double) < r:
                    best_double = np.empty((r, n_chunks))
                error *= DOUBLE_MARGIN
                sweep(
                    points, points, rows, group, turn, lam, error, codes, marks, best_double, where
                )
            for i in range(len(turn)):
                if stop[0]:
                    break
                s = turn[i]
                t = group[s]
                m = codes.sizes[t]
                best = best_single[i].astype(np.float64) if precision == SINGLE else best_double[i]
                n_hot, level[s] = take_hot(best, where[i], m, lam[t], level[s], bench.hot)
                sweeps[s] += 1
                codes.rounds[t] += 1
                moved = level[s] < solved[s]
                if (n_hot > 0 or moved) and sweeps[s] < most:
                    changed = descend(
                        points,
                        rows[t],
                        level[s],
                        mu[t],
                        max_rounds,
                        n_hot,
                        codes,
                        t,
                        s,
                        store,
                        bench,
                    )
                    moved = moved or changed
                    solved[s] = level[s]
                    if codes.states[t] == OUT_OF_ROOM:
                        phase[s] = DONE
                        continue
                if (moved or level[s] > lam[t]) and sweeps[s] < most:
                    continue
                if precision == SINGLE:
                    sweeps[s] = 0
                    finish_code(points, rows[t], lam[t], mu[t], codes, t, s, store, bench)
                    phase[s] = DOUBLE
                else:
                    codes.states[t] = SOLVED if sweeps[s] < most else STOPPED
                    if codes.values[t, 3] > lam[t] * (1.0 + ATOM_SLACK):
                        codes.states[t] = AGAIN
                    codes.values[t, 3] = max(lam[t], np.max(best), codes.values[t, 3])
                    phase[s] = DONE
            if precision == DOUBLE:
                for s in turn:
                    if phase[s] == DOUBLE:
                        t = group[s]
                        finish_code(points, rows[t], lam[t], mu[t], codes, t, s, store, bench)


@compiled
def sweep(
    points: NDArray[Any],
    rounded: NDArray[Any],
    rows: NDArray[Any],
    group: NDArray[Any],
    turn: NDArray[Any],
    lam: NDArray[Any],
    error: NDArray[Any],
    codes: Any,
    marks: NDArray[Any],
    best: NDArray[Any],
    where: NDArray[Any],
) -> None:  # pragma: no cover
    """The largest ``|g|`` of every chunk of columns and where it stands: `best`, `where` (r, N / CHUNK).

    Of the rows ``group[turn]``, in the precision of `rounded` (N, p), and of `best`; the row itself and its atoms
    do not count. In float64 no value of `best` that is a violator, or none for sure, is less than the true
    one: `error` (r,) is added where that leaves this open, and what lies within it of the penalty is evaluated
    again.
    """
    n, p = rounded.shape
    is_double = rounded.itemsize == 8
    total = len(turn)
    for s in turn:
        total += codes.sizes[group[s]]
    active, at, sorted_atoms = (
        np.zeros((total + 1, p), rounded.dtype),
        np.empty(total, np.int32),
        np.empty(total, np.int64),
    )
    weights, starts = np.empty(total, rounded.dtype), np.zeros(len(turn) + 1, np.int64)
    u, a = 0, 0
    used = np.empty(total, np.int64)
    for i in range(len(turn)):
        t = group[turn[i]]
        for b in range(-1, codes.sizes[t]):
            position = rows[t] if b < 0 else codes.atoms[t, b]
            if marks[position] < 0:
                marks[position] = u
                active[u] = rounded[position]
                used[u] = position
                u += 1
            at[a], sorted_atoms[a] = marks[position], position
            weights[a] = 1.0 if b < 0 else -codes.c[t, b]
            a += 1
        starts[i + 1] = a
        sorted_atoms[starts[i] : a].sort()
    for b in range(u):
        marks[used[b]] = -1
    following = starts[:-1].copy()
    columns, K = (
        np.empty((p, BLOCK_WIDTH), rounded.dtype),
        np.empty((u + 1, BLOCK_WIDTH), rounded.dtype),
    )
    g = np.empty(BLOCK_WIDTH, rounded.dtype)
    for first in range(0, n, BLOCK_WIDTH):
        width = min(BLOCK_WIDTH, n - first)
        for j in range(BLOCK_WIDTH):
            for q in range(p):
                columns[q, j] = rounded[first + min(j, width - 1), q]
        for b in range(0, u, 2):
            gaussian_on_block(columns, active, b, K)
        for i in range(len(turn)):
            combine_on_block(K, at, weights, starts[i], starts[i + 1], g)
            f = following[i]
            while f < starts[i + 1] and sorted_atoms[f] < first + width:
                g[sorted_atoms[f] - first] = 0.0
                f += 1
            following[i] = f
            g[width:] = 0.0
            s = turn[i]
            t = group[s]
            if largest_size(g, 0, BLOCK_WIDTH) <= lam[t] - (error[s] if is_double else 0.0):
                for chunk in range(-(-width // CHUNK)):
                    best[i, first // CHUNK + chunk] = 0.0
                continue
            for chunk in range(-(-width // CHUNK)):
                begin = chunk * CHUNK
                largest = largest_size(g, begin, begin + CHUNK)
                here = (first + begin) // CHUNK
                if is_double:
                    worst, place = 0.0, begin
                    if largest > lam[t] - error[s]:
                        for j in range(begin, begin + CHUNK):
                            size = np.float64(abs(g[j]))
                            if size <= lam[t] - error[s]:
                                continue
                            if size <= lam[t] * (1.0 + SLACK) + error[s]:
                                m = codes.sizes[t]
                                size = exact_size(
                                    points, first + j, rows[t], codes.atoms[t, :m], codes.c[t, :m]
                                )
                            if size > worst:
                                worst, place = size, j
                    best[i, here], where[i, here] = worst, first + place
                else:
                    best[i, here] = largest
                    if largest > lam[t]:
                        j = begin
                        while abs(g[j]) < largest:
                            j += 1
                        where[i, here] = first + j


@compiled
def exact_size(
    points: NDArray[Any], position: int, own: int, atoms: NDArray[Any], c: NDArray[Any]
) -> float:  # pragma: no cover
    """``|k_ij - sum_a c_a k_aj|`` of one row and one column, in float64."""
    total = gaussian_value(points, position, own)
    for a in range(len(atoms)):
        total -= c[a] * gaussian_value(points, position, atoms[a])
    return abs(total)


@compiled
def take_hot(
    best: NDArray[Any],
    where: NDArray[Any],
    m: int,
    lam: float,
    level: float,
    hot: NDArray[Any],
) -> tuple[int, float]:  # pragma: no cover
    """Choose the columns that a row of m atoms takes along, and the penalty it goes down to.

    Returns how many columns of `hot` are in use, and the penalty.
    """
    n = len(best)
    wanted = min(MOST_HOT, m + FEWEST_HOT, n)
    order = np.partition(best, n - wanted) if wanted < n else best
    least = order[n - wanted] if wanted < n else 0.0
    if 2 * wanted > n:
        level = lam
    level = max(lam, min(level, least / EASE))
    limit, count = max(least, level * (1.0 + SLACK)), 0
    for chunk in range(n):
        if best[chunk] >= limit and best[chunk] > level * (1.0 + SLACK) and count < wanted:
            hot[count] = where[chunk]
            count += 1
    return count, level


@compiled
def descend(
    points: NDArray[Any],
    own: int,
    lam: float,
    mu: float,
    max_rounds: int,
    n_hot: int,
    codes: Any,
    t: int,
    s: int,
    store: Any,
    bench: Any,
) -> bool:  # pragma: no cover
    """Solve row t of `codes` on its atoms and on the first `n_hot` of ``bench.hot``; whether other atoms came of it.

    Row s of `store` holds the factor of its atoms.
    """
    p, capacity, m = points.shape[1], codes.atoms.shape[1], codes.sizes[t]
    atoms, c, signs, slots, place = (
        codes.atoms[t],
        codes.c[t],
        bench.signs,
        bench.slots,
        bench.place,
    )
    U, y, k_atoms, K, free = bench.U, bench.y, bench.k_atoms, bench.K, bench.free
    k, g = bench.k[:n_hot], bench.g[:n_hot]
    load_factor(points, own, mu, atoms, m, s, store, bench)
    for h in range(n_hot):
        free[h] = 1.0
        for q in range(p):
            bench.points[q, h] = points[bench.hot[h], q]
    gaussian_row(points[own], bench.points, n_hot, bench.k)
    for a in range(m):
        gaussian_row(points[atoms[a]], bench.points, n_hot, K[a])
        signs[a], slots[a], place[a] = np.sign(c[a]), a, -1
        y[a] = k_atoms[a] - lam * signs[a]
    for a in range(m, capacity):
        bench.spare[a] = a
    solve_transposed(U, m, y)
    m_before = m
    m, moved = walk(c, m, atoms, bench)
    changed = m < m_before
    for rounds in range(max_rounds):
        gradient(K, k, slots, c, m, g)
        room = max(1, m // ATOMS_FOR_ONE_MORE) if 2 * rounds < max_rounds else 1
        for h in range(n_hot):
            g[h] *= free[h]
        m_before = m
        for _ in range(room):
            largest = largest_size(g, 0, n_hot)
            if largest <= lam * (1.0 + SLACK):
                break
            if m == capacity:
                codes.states[t] = OUT_OF_ROOM
                return True
            h = 0
            while abs(g[h]) < largest:
                h += 1
            slot = bench.spare[m]
            j = bench.hot[h]
            for a in range(m):
                bench.work[a] = K[slots[a], h]
            append_atom(U, m, bench.work, 1.0 + mu)
            gaussian_row(points[j], bench.points, n_hot, K[slot])
            atoms[m], c[m], signs[m], slots[m], place[m] = j, 0.0, np.sign(g[h]), slot, h
            k_atoms[m] = k[h]
            value = k[h] - lam * signs[m]
            for a in range(m):
                value -= U[a, m] * y[a]
            y[m] = value * U[m, m]
            free[h], g[h] = 0.0, 0.0
            m += 1
        if m == m_before:
            break
        m, moved = walk(c, m, atoms, bench)
        if moved == 0.0:
            break  # what violates is rounding
        changed = True
    codes.sizes[t] = m
    keep_factor(m, s, store, bench)
    return changed


@compiled
def walk(
    c: NDArray[Any], m: int, atoms: NDArray[Any], bench: Any
) -> tuple[int, float]:  # pragma: no cover
    """Solve on the atoms, dropping those whose coefficient changes sign, until none does.

    As `spdcluster.expression.active_set.settle_signs`, from ``bench.y``. Returns m and how far a coefficient
    moved.
    """
    U, y, target, signs, slots, place = (
        bench.U, bench.y, bench.target, bench.signs, bench.slots, bench.place,
    )  # fmt: skip
    moved = 0.0
    while m > 0:
        solve_upper(U, m, y, target)
        step, leaving = first_crossing(c, target, signs, m)
        for a in range(m):
            change = step * (target[a] - c[a])
            moved = max(moved, abs(change))
            c[a] += change
        if leaving < 0:
            break
        remove_atom(U, m, leaving, y)
        m -= 1
        slot = slots[leaving]
        if place[leaving] >= 0:
            bench.free[place[leaving]] = 1.0
        for a in range(leaving, m):
            atoms[a], c[a], signs[a] = atoms[a + 1], c[a + 1], signs[a + 1]
            slots[a], place[a] = slots[a + 1], place[a + 1]
            bench.k_atoms[a] = bench.k_atoms[a + 1]
        bench.spare[m] = slot
    return m, moved


@compiled
def keep_factor(m: int, s: int, store: Any, bench: Any) -> None:  # pragma: no cover
    """Copy the factor of m atoms and their kernel values with the row to row s of `store`, if there is room."""
    needed = m * (m + 1) // 2 + m
    if needed > store.room[s]:
        room = needed + needed // 2  # codes grow
        store.room[s] = 0
        if store.end[0] + room > len(store.entries):
            pack(store)
        if store.end[0] + room > len(store.entries):
            store.counts[s] = -1
            return
        store.starts[s], store.room[s] = store.end[0], room
        store.end[0] += room
    store.counts[s] = needed
    at, U = store.starts[s], bench.U
    copy_entries(bench.k_atoms, 0, store.entries, at, m)
    at += m
    for a in range(m):
        copy_entries(U, a * U.shape[1] + a, store.entries, at, m - a)
        at += m - a


@compiled
def pack(store: Any) -> None:  # pragma: no cover
    """Move what is kept together, and leave no more room than it takes."""
    end = 0
    for s in np.argsort(store.starts):
        if store.room[s] > 0:
            copy_entries(store.entries, store.starts[s], store.entries, end, store.counts[s])
            store.starts[s], store.room[s] = end, store.counts[s]
            end += store.counts[s]
    store.end[0] = end


@compiled
def load_factor(
    points: NDArray[Any],
    own: int,
    mu: float,
    atoms: NDArray[Any],
    m: int,
    s: int,
    store: Any,
    bench: Any,
) -> None:  # pragma: no cover
    """The factor of a row's m atoms to ``bench.U``, their kernel values with it to ``bench.k_atoms``."""
    U, k_atoms = bench.U, bench.k_atoms
    if store.counts[s] >= 0:
        at = store.starts[s]
        copy_entries(store.entries, at, k_atoms, 0, m)
        at += m
        for a in range(m):
            copy_entries(store.entries, at, U, a * U.shape[1] + a, m - a)
            at += m - a
        return
    take_points(points, atoms, m, bench)
    gaussian_row(points[own], bench.columns, m, k_atoms)
    for a in range(m):
        gaussian_row(points[atoms[a]], bench.columns, a, bench.work)
        append_atom(U, a, bench.work, 1.0 + mu)


@compiled
def take_points(
    points: NDArray[Any], atoms: NDArray[Any], m: int, bench: Any
) -> None:  # pragma: no cover
    """The points of m atoms by column, to ``bench.columns``."""
    for a in range(m):
        for q in range(points.shape[1]):
            bench.columns[q, a] = points[atoms[a], q]


@compiled
def finish_code(
    points: NDArray[Any],
    own: int,
    lam: float,
    mu: float,
    codes: Any,
    t: int,
    s: int,
    store: Any,
    bench: Any,
) -> None:  # pragma: no cover
    """Refine row t of `codes` on its atoms, and write its `values`, the largest ``|g|`` that of its atoms."""
    m, atoms, c = codes.sizes[t], codes.atoms[t], codes.c[t]
    signs, k, g, gram, work = bench.signs, bench.k_atoms, bench.y, bench.gram, bench.work
    load_factor(points, own, mu, atoms, m, s, store, bench)
    take_points(points, atoms, m, bench)
    for a in range(m):
        gaussian_row(points[atoms[a]], bench.columns, m, gram[a])
        signs[a] = np.sign(c[a])
        bench.slots[a] = a
    gradient(gram, k[:m], bench.slots, c, m, g[:m])
    for a in range(m):
        work[a] = g[a] - mu * c[a] - lam * signs[a]
    polish(bench.U, m, work, c, signs)
    gradient(gram, k[:m], bench.slots, c, m, g[:m])
    l1, l2, k_c, c_g = 0.0, 0.0, 0.0, 0.0
    for a in range(m):
        l1 += abs(c[a])
        l2 += c[a] * c[a]
        k_c += k[a] * c[a]
        c_g += g[a] * c[a]
    residual = 1.0 - k_c - c_g  # as in `spdcluster.expression.active_set.row_value`
    codes.values[t, 0] = 2.0 * lam * l1 + mu * l2 + residual
    codes.values[t, 1] = 1.0 - k_c
    codes.values[t, 2] = residual + mu * l2
    codes.values[t, 3] = 0.0
    for a in range(m):
        codes.values[t, 3] = max(codes.values[t, 3], abs(g[a] - mu * c[a]))
