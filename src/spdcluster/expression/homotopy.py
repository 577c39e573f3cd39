"""The path of codes of one row as its penalty falls, breakpoint by breakpoint (lasso by homotopy).

Between breakpoints the code moves along ``d = K_AA^-1 s``: with s the signs on the atoms A, lowering
the penalty by delta moves the code by ``delta d`` and keeps ``g_A = lam s``.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import gradient, new_codes, new_scratch, solve_one
from spdcluster.expression.cholesky import append_atom, remove_atom, solve_factored
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_row

LOWEST = 1e-4  # share of the largest penalty at which a path ends that never needs another atom
ABOVE = (
    1e-8  # share by which the penalty stays above the breakpoint at which one more atom would enter
)
NOTHING = 1e-154  # share of its own value below which a point has nothing in common with another
FEWER = 1.1  # by how much the penalty rises where there are too many atoms all the same
WIDTH = 512  # columns evaluated together
DEPENDENT = 1e-10  # pivot, as a share of its diagonal entry, of an atom that the others span


# Rows of a Gram matrix, evaluated as they are asked for: values (slots, n), the slot of each point (n,), how
# many are in use (1,), and the points by column (p, n); all of them are there if it is in memory
KernelRows = namedtuple("KernelRows", "values slot_of used columns")


@compiled
def whole(K: NDArray[Any]) -> Any:  # pragma: no cover
    """The rows of a Gram matrix (n, n) in memory."""
    return KernelRows(K, np.arange(len(K)), np.full(1, len(K)), np.empty((0, 0)))


@compiled
def slot_for(rows: Any, j: int, slots: NDArray[Any], m: int) -> int:  # pragma: no cover
    """The slot of row j, evaluated now if need be; the first m of `slots` stay in use, and may move."""
    if rows.slot_of[j] >= 0:
        return rows.slot_of[j]
    if rows.used[0] == len(rows.values):
        kept, of_slot = np.empty((m, rows.values.shape[1])), np.empty(len(rows.values), np.int64)
        for i in range(len(rows.slot_of)):
            if rows.slot_of[i] >= 0:
                of_slot[rows.slot_of[i]] = i
                rows.slot_of[i] = -1
        for a in range(m):
            kept[a] = rows.values[slots[a]]
            rows.slot_of[of_slot[slots[a]]] = a
        for a in range(m):
            rows.values[a], slots[a] = kept[a], a
        rows.used[0] = m
    slot = rows.used[0]
    rows.used[0], rows.slot_of[j] = slot + 1, slot
    point = rows.columns[:, j].copy()
    for start in range(0, len(rows.slot_of), WIDTH):
        part = rows.columns[:, start : start + WIDTH].copy()
        gaussian_row(point, part, part.shape[1], rows.values[slot, start : start + WIDTH])
    return slot


@compiled
def last_penalty(
    rows: Any, k: NDArray[Any], k_own: float, own: int, most: int, atoms: NDArray[Any]
) -> tuple[float, int]:  # pragma: no cover
    """Follow the path of one row down to where it would take more than `most` atoms.

    Returns that penalty, and of `atoms` (most + 1,) how many are those there.
    """
    n = len(k)
    U, d, no_y = np.zeros((most + 1, most + 1)), np.zeros(most + 1), np.zeros(0)
    slots, c, signs = np.zeros(most + 1, np.int64), np.zeros(most + 1), np.zeros(most + 1)
    g, slope, usable, nothing = k.copy(), np.empty(n), np.ones(n, np.bool_), np.zeros(n)
    if own >= 0:
        usable[own] = False
    lam, first = 0.0, -1
    for j in range(n):
        if usable[j] and abs(g[j]) > lam:
            lam, first = abs(g[j]), j
    if lam <= NOTHING * k_own:
        return k_own, 0
    highest, m, entering, left = lam, 0, first, -1
    while entering >= 0 or left >= 0:
        if entering >= 0:
            if m == most:
                return lam, m
            slot = slot_for(rows, entering, slots, m)
            for a in range(m):
                d[a] = rows.values[slots[a], entering]
            pivot = append_atom(U, m, d, rows.values[slot, entering])
            usable[entering] = False
            if pivot > DEPENDENT * rows.values[slot, entering]:
                atoms[m], c[m], signs[m] = entering, 0.0, np.sign(g[entering])
                slots[m] = slot
                m += 1
        for a in range(m):
            d[a] = signs[a]
        solve_factored(U, m, d)
        # how each gradient moves as the penalty falls: ``-d K``
        gradient(rows.values, nothing, slots, d, m, slope)
        step, entering, leaving = lam * (1.0 - LOWEST), -1, -1
        if lam - step < highest * LOWEST:
            step = lam - highest * LOWEST
        for a in range(m):
            if c[a] * d[a] < 0.0 and -c[a] / d[a] < step:
                step, leaving = -c[a] / d[a], a
        for j in range(n):
            if usable[j] and j != left:
                rise = 1.0 + slope[j]
                if rise > 0.0 and (lam - g[j]) < step * rise:
                    step, entering, leaving = max((lam - g[j]) / rise, 0.0), j, -1
                rise = 1.0 - slope[j]
                if rise > 0.0 and (lam + g[j]) < step * rise:
                    step, entering, leaving = max((lam + g[j]) / rise, 0.0), j, -1
        for a in range(m):
            c[a] += step * d[a]
        for j in range(n):
            g[j] += step * slope[j]
        lam -= step
        left = -1
        if leaving >= 0:
            left = atoms[leaving]
            usable[left] = True
            remove_atom(U, m, leaving, no_y)
            for a in range(leaving, m - 1):
                atoms[a], c[a], signs[a] = atoms[a + 1], c[a + 1], signs[a + 1]
                slots[a] = slots[a + 1]
            m -= 1
    return highest * LOWEST, m


@compiled
def solve_rows_with_atoms(
    K: NDArray[Any], k: NDArray[Any], k_own: NDArray[Any], own: NDArray[Any], most: int,
    max_rounds: int, capacity: int,
) -> tuple[Any, NDArray[Any]]:  # pragma: no cover  # fmt: skip
    """Codes of rows with given kernel values, each at its own penalty: `new_codes`, penalties (r,)."""
    r, n = k.shape
    codes, lam, atoms = new_codes(r, capacity), np.zeros(r), np.zeros(most + 1, np.int64)
    from_nothing, no_c, rows = np.empty(0, np.int64), np.empty(0), whole(K)
    scratch = new_scratch(n, capacity)
    for t in range(r):
        lam[t], _ = last_penalty(rows, k[t], k_own[t], own[t], most, atoms)
        lam[t] *= 1.0 + ABOVE
        for _ in range(200):
            solve_one(
                K, k[t], k_own[t], own[t], lam[t], 0.0, max_rounds, from_nothing, no_c, codes, t,
                scratch,
            )  # fmt: skip
            if codes[0][t] <= most and codes[5][t] == 0:
                break
            lam[t] *= FEWER  # dependent atoms let the path end too low; above it there are fewer
    return codes, lam
