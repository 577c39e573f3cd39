"""The path of codes of one row as its penalty falls, breakpoint by breakpoint (lasso by homotopy).

Between breakpoints the code moves along ``d = K_AA^-1 s``: with s the signs on the atoms A, lowering
the penalty by delta moves the code by ``delta d`` and keeps ``g_A = lam s``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import gradient, new_codes, new_scratch, solve_one
from spdcluster.expression.cholesky import append_atom, remove_atom, solve_factored
from spdcluster.expression.compiled import compiled

LOWEST = 1e-4  # share of the largest penalty at which a path ends that never needs another atom
ABOVE = (
    1e-8  # share by which the penalty stays above the breakpoint at which one more atom would enter
)
NOTHING = 1e-154  # share of its own value below which a point has nothing in common with another
DEPENDENT = 1e-10  # pivot, as a share of its diagonal entry, of an atom that the others span


@compiled
def last_penalty(
    K: NDArray[Any], k: NDArray[Any], k_own: float, own: int, most: int
) -> float:  # pragma: no cover
    """Follow the path of one row down to where it would take more than `most` atoms: that penalty."""
    n = len(k)
    U, d, no_y = np.zeros((most + 1, most + 1)), np.zeros(most + 1), np.zeros(0)
    atoms, c, signs = np.zeros(most + 1, np.int64), np.zeros(most + 1), np.zeros(most + 1)
    g, slope, usable, nothing = k.copy(), np.empty(n), np.ones(n, np.bool_), np.zeros(n)
    if own >= 0:
        usable[own] = False
    lam, first = 0.0, -1
    for j in range(n):
        if usable[j] and abs(g[j]) > lam:
            lam, first = abs(g[j]), j
    if lam <= NOTHING * k_own:
        return k_own
    highest, m, entering, left = lam, 0, first, -1
    while entering >= 0 or left >= 0:
        if entering >= 0:
            if m == most:
                return lam
            for a in range(m):
                d[a] = K[atoms[a], entering]
            pivot = append_atom(U, m, d, K[entering, entering])
            usable[entering] = False
            if pivot > DEPENDENT * K[entering, entering]:
                atoms[m], c[m], signs[m] = entering, 0.0, np.sign(g[entering])
                m += 1
        for a in range(m):
            d[a] = signs[a]
        solve_factored(U, m, d)
        # how each gradient moves as the penalty falls: ``-d K``
        gradient(K, nothing, atoms, d, m, slope)
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
            m -= 1
    return highest * LOWEST


@compiled
def solve_rows_with_atoms(
    K: NDArray[Any], k: NDArray[Any], k_own: NDArray[Any], own: NDArray[Any], most: int,
    max_rounds: int, capacity: int,
) -> tuple[Any, NDArray[Any]]:  # pragma: no cover  # fmt: skip
    """Codes of rows with given kernel values, each at its own penalty: `new_codes`, penalties (r,)."""
    r, n = k.shape
    codes, lam = new_codes(r, capacity), np.zeros(r)
    from_nothing, no_c = np.empty(0, np.int64), np.empty(0)
    scratch = new_scratch(n, capacity)
    for t in range(r):
        lam[t] = last_penalty(K, k[t], k_own[t], own[t], most) * (1.0 + ABOVE)
        for _ in range(200):
            solve_one(
                K, k[t], k_own[t], own[t], lam[t], 0.0, max_rounds, from_nothing, no_c, codes, t,
                scratch,
            )  # fmt: skip
            if codes[0][t] <= most and codes[5][t] == 0:
                break
            lam[t] *= 1.1  # dependent atoms let the path end too low; above it there are fewer
    return codes, lam
