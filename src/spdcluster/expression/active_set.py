"""The exact solver of one row: a primal active set with a Cholesky factor that follows its atoms.

For one row it solves, over ``c`` with ``c_self = 0``,

    min_c  c.(K + mu I).c / 2 - k.c + lam |c|_1,        lam = alpha*l1_ratio/2, mu = alpha*(1-l1_ratio)/2,

half of the objective of DESIGN (the constant ``k_ii`` aside). Optimality: the gradient
``g_j = k_j - (cK)_j - mu c_j`` has ``|g_j| <= lam`` for every j, with equality and the sign of ``c_j``
where ``c_j != 0``.

Each round scans all columns, adds the worst violators, solves for the current signs, walks there until
the first coefficient reaches zero, drops it, and goes on until the signs hold. The objective falls in
every round, so that no set of signs returns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.cholesky import (
    append_atom,
    remove_atom,
    solve_factored,
    solve_transposed,
    solve_upper,
)
from spdcluster.expression.compiled import compiled, leaf
from spdcluster.expression.intrinsics import largest_in_eights

# Fewer chunks hide violators, more fill the working set in vain; measured on 1024 textures.
CHUNK_COLUMNS, MAX_ADDED, ATOMS_FOR_ONE_MORE = 32, 5, 12
CHUNKS_TOGETHER = 8  # compared with the penalty at once

ODD = 8

# Rounding in the gradient at the atoms, as a share of the penalty, from which on the code is refined.
REFINE = 1e-12

# A column counts as violated from this share of the penalty on.
SLACK = 1e-10

SOLVED, STOPPED, OUT_OF_ROOM = 0, 1, 2


@leaf
def first_crossing(
    c: NDArray[Any], target: NDArray[Any], signs: NDArray[Any], m: int
) -> tuple[float, int]:  # pragma: no cover
    """How far from `c` to `target` the first coefficient reaches zero, and which; (1, -1) if none does."""
    step, leaving = 1.0, -1
    for a in range(m):
        if target[a] * signs[a] <= 0.0:
            here = c[a] / (c[a] - target[a]) if c[a] != 0.0 else 0.0
            if here < step or leaving < 0:
                step, leaving = min(here, step), a
    return step, leaving


@compiled
def settle_signs(
    k: NDArray[Any],
    lam: float,
    atoms: NDArray[Any],
    c: NDArray[Any],
    signs: NDArray[Any],
    U: NDArray[Any],
    m: int,
    y: NDArray[Any],
    target: NDArray[Any],
) -> int:  # pragma: no cover
    """Solve on the atoms, dropping those whose coefficient changes sign, until none does.

    `atoms`, `c`, `signs` (m of each are in use) and the factor `U` are changed in place; returns m.
    """
    for a in range(m):
        y[a] = k[atoms[a]] - lam * signs[a]
    solve_transposed(U, m, y)
    while m > 0:
        solve_upper(U, m, y, target)
        # walk from c to the target until the first coefficient reaches zero
        step, leaving = first_crossing(c, target, signs, m)
        for a in range(m):
            c[a] += step * (target[a] - c[a])
        if leaving < 0:
            return m
        remove_atom(U, m, leaving, y)
        for a in range(leaving, m - 1):
            atoms[a], c[a], signs[a] = atoms[a + 1], c[a + 1], signs[a + 1]
        m -= 1
    return m


@compiled
def gradient(
    K: NDArray[Any],
    k: NDArray[Any],
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    out: NDArray[Any],
) -> None:  # pragma: no cover
    """``k - c K`` over all columns (the elastic term left out), eight atoms at a time."""
    # indexed in two dimensions, as a view of a row costs more than it saves
    n, a = len(k), m % 4
    for j in range(n):
        out[j] = k[j]
    for b in range(a):
        c0, i0 = c[b], atoms[b]
        for j in range(n):
            out[j] -= c0 * K[i0, j]
    if (m - a) % 8 == 4:
        c0, c1, c2, c3 = c[a], c[a + 1], c[a + 2], c[a + 3]
        i0, i1, i2, i3 = atoms[a], atoms[a + 1], atoms[a + 2], atoms[a + 3]
        for j in range(n):
            out[j] -= (c0 * K[i0, j] + c1 * K[i1, j]) + (c2 * K[i2, j] + c3 * K[i3, j])
        a += 4
    while a < m:
        c0, c1, c2, c3 = c[a], c[a + 1], c[a + 2], c[a + 3]
        c4, c5, c6, c7 = c[a + 4], c[a + 5], c[a + 6], c[a + 7]
        i0, i1, i2, i3 = atoms[a], atoms[a + 1], atoms[a + 2], atoms[a + 3]
        i4, i5, i6, i7 = atoms[a + 4], atoms[a + 5], atoms[a + 6], atoms[a + 7]
        for j in range(n):
            low = (c0 * K[i0, j] + c1 * K[i1, j]) + (c2 * K[i2, j] + c3 * K[i3, j])
            high = (c4 * K[i4, j] + c5 * K[i5, j]) + (c6 * K[i6, j] + c7 * K[i7, j])
            out[j] -= low + high
        a += 8


@compiled
def largest_size(g: NDArray[Any], start: int, stop: int) -> float:  # pragma: no cover
    """The largest ``|g_j|`` for ``start <= j < stop``; 0 if there is none."""
    eights = (stop - start) // 8
    largest = largest_in_eights(g, start, eights)
    for j in range(start + 8 * eights, stop):
        largest = max(largest, abs(g[j]))
    return largest


@compiled
def worst_of_chunks(
    g: NDArray[Any], limit: float, room: int, worst: NDArray[Any]
) -> int:  # pragma: no cover
    """The largest ``|g_j| > limit`` of each chunk of columns, the `room` largest of these; how many."""
    found, least, n = 0, 0, len(g)
    for block in range(0, n, CHUNKS_TOGETHER * CHUNK_COLUMNS):
        end = min(n, block + CHUNKS_TOGETHER * CHUNK_COLUMNS)
        if largest_size(g, block, end) <= limit:
            continue
        for start in range(block, end, CHUNK_COLUMNS):
            best = largest_size(g, start, min(end, start + CHUNK_COLUMNS))
            if best <= limit:
                continue
            at = start
            while abs(g[at]) < best:
                at += 1
            if found < room:
                worst[found] = at
                found += 1
            elif best > abs(g[worst[least]]):
                worst[least] = at
            if found == room:
                for f in range(found):
                    if abs(g[worst[f]]) < abs(g[worst[least]]):
                        least = f
    return found


@compiled
def solve_row(
    K: NDArray[Any],
    k: NDArray[Any],
    own: int,
    lam: float,
    mu: float,
    slack: float,
    max_rounds: int,
    atoms: NDArray[Any],
    c: NDArray[Any],
    signs: NDArray[Any],
    m: int,
    U: NDArray[Any],
    g: NDArray[Any],
    y: NDArray[Any],
    work: NDArray[Any],
    worst: NDArray[Any],
) -> tuple[int, int, int]:  # pragma: no cover
    """Solve one row on the columns of `k` (n,), from a factored start of m atoms.

    A column counts as violated when ``|g_j| > lam + slack``. `own` is the column that may not be used
    (-1: none). Returns (m, rounds, state), the state one of SOLVED, STOPPED (by max_rounds) and
    OUT_OF_ROOM; `g` holds ``k - c K`` then (and zero at `own`).
    """
    capacity = len(atoms)
    for rounds in range(max_rounds):
        gradient(K, k, atoms, c, m, g)
        if own >= 0:
            g[own] = 0.0
        error = 0.0
        for a in range(m):
            # solved for: what is left is rounding
            work[a] = g[atoms[a]] - mu * c[a] - lam * signs[a]
            error = max(error, abs(work[a]))
            g[atoms[a]] = 0.0
        # near the end one violator at a time: alone, it always moves the way of its sign
        room = max(MAX_ADDED, m // ATOMS_FOR_ONE_MORE) if 2 * rounds < max_rounds else 1
        found = worst_of_chunks(g, lam + slack, min(room, len(worst)), worst)
        if found == 0 or m + found > capacity:
            for a in range(m):
                g[atoms[a]] = work[a] + mu * c[a] + lam * signs[a]
            if found > 0:
                return m, rounds, OUT_OF_ROOM
            if error > REFINE * lam:
                polish(U, m, work, c, signs)
                gradient(K, k, atoms, c, m, g)
            return m, rounds, SOLVED
        for f in range(found):
            j = worst[f]
            for a in range(m):
                work[a] = K[atoms[a], j]
            append_atom(U, m, work, K[j, j] + mu)
            atoms[m], c[m], signs[m] = j, 0.0, np.sign(g[j])
            m += 1
        m = settle_signs(k, lam, atoms, c, signs, U, m, y, work)
    gradient(K, k, atoms, c, m, g)
    return m, max_rounds, STOPPED


@compiled
def polish(
    U: NDArray[Any], m: int, residual: NDArray[Any], c: NDArray[Any], signs: NDArray[Any]
) -> None:  # pragma: no cover
    """One step of iterative refinement, kept only if no coefficient changes sign."""
    solve_factored(U, m, residual)
    for a in range(m):
        if (c[a] + residual[a]) * signs[a] <= 0.0:
            return
    for a in range(m):
        c[a] += residual[a]


@compiled
def row_value(
    k: NDArray[Any],
    k_own: float,
    own: int,
    lam: float,
    mu: float,
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    g: NDArray[Any],
    out: NDArray[Any],
) -> None:  # pragma: no cover
    """What the duality gap of one row needs, from its gradient ``g = k - c K``: see `duality_gap`."""
    l1, l2, k_c, c_g = 0.0, 0.0, 0.0, 0.0
    for a in range(m):
        j = atoms[a]
        l1 += abs(c[a])
        l2 += c[a] * c[a]
        k_c += k[j] * c[a]
        c_g += g[j] * c[a]
        g[j] -= mu * c[a]
    if own >= 0:
        g[own] = 0.0
    steepest = max(largest_size(g, 0, len(g)), lam)
    for a in range(m):
        g[atoms[a]] += mu * c[a]
    residual = k_own - k_c - c_g  # |phi_i - sum_j c_j phi_j|^2, as c.K.c = k.c - c.g
    out[0] = 2.0 * lam * l1 + mu * l2 + residual
    out[1] = k_own - k_c
    out[2] = residual + mu * l2
    out[3] = steepest


def duality_gap(values: NDArray[Any], lam: NDArray[Any]) -> NDArray[np.float64]:
    """Primal minus dual value of rows, shape (r,), from `values` (r, 4).

    The columns are the primal value, ``<r, phi_i>``, ``|r|^2`` (with the elastic term) and the largest
    ``|g_j|`` (or the penalty, where none is beyond it). The elastic net is the lasso on features extended by ``sqrt(mu)`` times the identity; see
    docs/method.md for the dual.
    """
    primal, inner, square, steepest = values.T
    s = np.divide(lam, steepest, out=np.ones_like(lam), where=steepest > lam)
    return np.maximum(primal - (2.0 * s * inner - s * s * square), 0.0)


@compiled
def solve_rows(
    K: NDArray[Any], rows: NDArray[Any], lam: NDArray[Any], mu: NDArray[Any], max_rounds: int,
    capacity: int, start_at: NDArray[Any], start_atoms: NDArray[Any], start_c: NDArray[Any],
    stop: NDArray[Any],
) -> tuple[NDArray[Any], ...]:  # pragma: no cover  # fmt: skip
    """Solve some rows (r,) of a Gram matrix (n, n) in memory; the rest is as in `solve_given_rows`."""
    r, n = len(rows), len(K)
    codes = new_codes(r, capacity)
    scratch = new_scratch(n, capacity)
    for t in range(r):
        if stop[0]:
            break
        i = rows[t]
        solve_one(
            K, K[i], K[i, i], i, lam[t], mu[t], max_rounds, start_atoms[start_at[t] : start_at[t + 1]],
            start_c[start_at[t] : start_at[t + 1]], codes, t, scratch,
        )  # fmt: skip
    return codes


@compiled
def solve_given_rows(
    K: NDArray[Any], k: NDArray[Any], k_own: NDArray[Any], own: NDArray[Any], lam: NDArray[Any],
    mu: NDArray[Any], max_rounds: int, capacity: int, start_at: NDArray[Any],
    start_atoms: NDArray[Any], start_c: NDArray[Any], stop: NDArray[Any],
) -> tuple[NDArray[Any], ...]:  # pragma: no cover  # fmt: skip
    """Solve rows with given kernel values on the columns of a small Gram matrix.

    Parameters
    ----------
    K : (n, n)
    k : (r, n) values of the rows with the columns; k_own : (r,) of each with itself
    own : (r,) the column that is the row itself and may not be used, or -1
    lam, mu : (r,) penalties
    start_at, start_atoms, start_c : codes to start from, as CSR over the r rows
    stop : (1,) ends the work when it becomes True; what comes back is then of no use

    Returns
    -------
    sizes (r,), atoms and coefficients (r, capacity), values (r, 4) as of `duality_gap`, rounds (r,) and
    states (r,)
    """
    r, n = k.shape
    codes = new_codes(r, capacity)
    scratch = new_scratch(n, capacity)
    for t in range(r):
        if stop[0]:
            break
        solve_one(
            K, k[t], k_own[t], own[t], lam[t], mu[t], max_rounds,
            start_atoms[start_at[t] : start_at[t + 1]], start_c[start_at[t] : start_at[t + 1]],
            codes, t, scratch,
        )  # fmt: skip
    return codes


@compiled
def new_codes(r: int, capacity: int) -> tuple[NDArray[Any], ...]:  # pragma: no cover
    """Sizes (r,), atoms and coefficients (r, capacity), values (r, 4), rounds (r,), states (r,)."""
    return (
        np.zeros(r, np.int64),
        np.zeros((r, capacity), np.int64),
        np.zeros((r, capacity)),
        np.zeros((r, 4)),
        np.zeros(r, np.int64),
        np.zeros(r, np.int64),
    )


@compiled
def new_scratch(n: int, capacity: int) -> tuple[NDArray[Any], ...]:  # pragma: no cover
    """Factor, two work vectors and signs for the atoms; gradient and worst columns."""
    return (
        np.zeros((capacity, capacity + ODD)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(n),
        np.zeros(n // CHUNK_COLUMNS + 1, np.int64),
    )


@compiled
def solve_one(
    K: NDArray[Any], k: NDArray[Any], k_own: float, own: int, lam: float, mu: float,
    max_rounds: int, start_atoms: NDArray[Any], start_c: NDArray[Any], codes: Any, t: int, scratch: Any,
) -> None:  # pragma: no cover  # fmt: skip
    """Solve one row from a code that may be there already; the answer is row t of `codes`."""
    sizes, all_atoms, all_c, values, rounds, states = codes
    U, y, work, signs, g, worst = scratch
    atoms, c = all_atoms[t], all_c[t]
    if len(start_atoms) > len(atoms):
        states[t] = OUT_OF_ROOM
        return
    m = warm_start(K, mu, start_atoms, start_c, atoms, c, signs, U, work)
    m = settle_signs(k, lam, atoms, c, signs, U, m, y, work)
    m, rounds[t], states[t] = solve_row(
        K, k, own, lam, mu, SLACK * lam, max_rounds, atoms, c, signs, m, U, g, y, work, worst
    )
    sizes[t] = m
    row_value(k, k_own, own, lam, mu, atoms, c, m, g, values[t])


@compiled
def warm_start(
    K: NDArray[Any],
    mu: float,
    start_atoms: NDArray[Any],
    start_c: NDArray[Any],
    atoms: NDArray[Any],
    c: NDArray[Any],
    signs: NDArray[Any],
    U: NDArray[Any],
    work: NDArray[Any],
) -> int:  # pragma: no cover
    """Factor the atoms of a code that is already there; returns their number."""
    for m in range(len(start_atoms)):
        j = start_atoms[m]
        for a in range(m):
            work[a] = K[atoms[a], j]
        append_atom(U, m, work, K[j, j] + mu)
        atoms[m], c[m], signs[m] = j, start_c[m], np.sign(start_c[m])
    return len(start_atoms)


@compiled
def explain(
    K: NDArray[Any], k: NDArray[Any], sizes: NDArray[Any], atoms: NDArray[Any], c: NDArray[Any],
    labels: NDArray[Any], n_classes: int,
) -> NDArray[Any]:  # pragma: no cover  # fmt: skip
    """What the atoms of each class take off a row: ``-2 c_class.k + c_class.K.c_class``, (r, n_classes).

    `K` (n, n), `k` (r, n) and `labels` (n,) are those of the columns that `atoms` (r, room) refer to.
    """
    explained = np.zeros((len(k), n_classes))
    for t in range(len(k)):
        for a in range(sizes[t]):
            i = atoms[t, a]
            explained[t, labels[i]] -= 2.0 * c[t, a] * k[t, i]
            for b in range(sizes[t]):
                j = atoms[t, b]
                if labels[j] == labels[i]:
                    explained[t, labels[i]] += c[t, a] * c[t, b] * K[i, j]
    return explained
