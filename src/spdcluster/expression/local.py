"""Codes of a tile of neighbouring rows on the columns around it: where the exact solution starts.

Few of a row's atoms lie elsewhere, and the proof (`screening`) finds those. The rows of a tile share their
columns and, atom by atom, the kernel values on them. These are float32, for looking only: what enters a
code is float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import (
    ATOMS_FOR_ONE_MORE,
    CHUNK_COLUMNS,
    MAX_ADDED,
    ODD,
    OUT_OF_ROOM,
    SLACK,
    settle_signs,
    worst_of_chunks,
)
from spdcluster.expression.candidates import make_workspace, solve_on_candidates
from spdcluster.expression.cholesky import append_atom
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import exp_negative
from spdcluster.expression.intrinsics import kernel_row
from spdcluster.expression.mixed import WIDTH, padded
from spdcluster.expression.tree import BLOCK, LEAF, aligned_empty

NEAR = 1024  # of these are looked at first
TOGETHER = 128  # rows that share their columns
KEPT = 1500  # points whose kernel values are kept from row to row


class LocalColumns(NamedTuple):
    """The columns around some rows, and kernel values on them of the points asked for so far.

    One thread's scratch, filled anew for every few rows by `gather_columns`.

    Attributes
    ----------
    positions : (M,) sorted positions, the rows' own leaves first, then by their distance
    blocks : (B, p, WIDTH) float32, the columns themselves
    values : (M, w) float32, w a little more than M, see `spdcluster.expression.mixed.padded`
    slot_of : (M,) row of `values` that holds the kernel values of a column's point, or -1
    evaluated : (M,) how many blocks of a row of `values` are there
    used : (1,) how many rows of `values` are in use
    """

    positions: NDArray[np.int64]
    blocks: NDArray[np.float32]
    values: NDArray[np.float32]
    slot_of: NDArray[np.int64]
    evaluated: NDArray[np.int64]
    used: NDArray[np.int64]


def make_local_columns(p: int, most: int) -> LocalColumns:
    """Scratch for points in p dimensions; memory is taken only as it is used."""
    return LocalColumns(
        np.empty(most, np.int64),
        aligned_empty((most // WIDTH, p, WIDTH), np.float32),
        aligned_empty((most, padded(most)), np.float32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.zeros(1, np.int64),
    )


@compiled
def gather_columns(tree: Any, first: int, last: int, local: Any) -> int:  # pragma: no cover
    """Gather the leaves of the rows from `first` to `last` and those nearest to them; how many columns."""
    own_first, own_last = tree.leaf_of[first], tree.leaf_of[last] + 1
    p, n_leaves, most = tree.points.shape[1], len(tree.centres), len(local.positions)
    mean = np.zeros(p, np.float32)
    for row in range(first, last + 1):
        for q in range(p):
            mean[q] += tree.points_single[row, q] / np.float32(last + 1 - first)
    distances = np.zeros(len(tree.representatives) * BLOCK, np.float32)
    for block in range(len(tree.representatives)):
        part = distances[block * BLOCK : (block + 1) * BLOCK]
        for q in range(p):
            centre = mean[q]
            for j in range(BLOCK):
                part[j] += (tree.representatives[block, q, j] - centre) ** 2
    distances = distances[:n_leaves]
    for leaf in range(own_first, own_last):
        distances[leaf] = np.float32(leaf - own_last)
    wanted = min(n_leaves, most // LEAF)
    limit = np.partition(distances, wanted - 1)[wanted - 1]
    chosen = np.flatnonzero(distances <= limit)
    n = 0
    for leaf in chosen[np.argsort(distances[chosen])]:
        start, stop = tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1]
        if n + stop - start > most:
            break
        for position in range(start, stop):
            local.positions[n] = position
            for q in range(p):
                local.blocks[n // WIDTH, q, n % WIDTH] = tree.points_single[position, q]
            n += 1
    for j in range(n, -(-n // WIDTH) * WIDTH):
        local.blocks[j // WIDTH, :, j % WIDTH] = 0.0
    forget(n, local)
    return n


@compiled
def forget(n: int, local: Any) -> None:  # pragma: no cover
    """Let no kernel values be known on the n columns."""
    local.slot_of[:n] = -1
    local.used[0] = 0


@compiled
def solve_rows_locally(
    tree: Any,
    local: Any,
    rows: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve the rows `todo` of a tile, the points at the sorted positions ``rows[todo]``, few at a time."""
    points, positions, values = tree.points, local.positions, local.values
    blocks, evaluated = local.blocks, local.evaluated
    capacity, p, most = codes.atoms.shape[1], points.shape[1], len(positions)
    space = make_workspace(p, capacity, capacity)
    U, y, work, signs = (
        np.zeros((capacity, capacity + ODD)),
        np.zeros(capacity),
        np.zeros(capacity + 1),
        np.zeros(capacity),
    )
    atoms, c, others = (
        np.zeros(capacity + 1, np.int64),
        np.zeros(capacity),
        np.zeros(capacity + 1, np.int64),
    )
    slots, c_single = np.zeros(capacity + 1, np.int64), np.zeros(capacity, np.float32)
    g, worst = np.zeros(most, np.float32), np.zeros(most // CHUNK_COLUMNS, np.int64)
    k = np.zeros(most)
    n, first = 0, 0
    for s in range(len(todo)):
        if stop[0]:
            break
        if s % TOGETHER == 0:
            last = rows[todo[min(s + TOGETHER, len(todo)) - 1]]
            n = gather_columns(tree, rows[todo[s]], last, local)
            first = positions[0]
        elif local.used[0] > KEPT:
            forget(n, local)
        t = todo[s]
        own, m = rows[t] - first, 0
        own_slot = slot_for(own, local)
        codes.states[t] = OUT_OF_ROOM
        for _ in range(max_rounds):
            for a in range(m):
                c_single[a] = c[a]
            room = min(len(worst), max(MAX_ADDED, m // ATOMS_FOR_ONE_MORE))
            # most violators are near: the columns farther away are looked at when these have none
            m_before, found = m, 0
            for width in (min(n, NEAR), n):
                g_part = g[:width]
                others[m], slots[m] = positions[own], own_slot
                evaluate(tree.points_single, others, slots, m + 1, width, blocks, evaluated, values)
                gradient_single(values, own_slot, 0, m, slots, c_single, g_part)
                g[own] = 0.0
                for a in range(m):
                    g[atoms[a]] = 0.0
                found = worst_of_chunks(g_part, np.float32(lam[t]), room, worst)
                if m + found > capacity:
                    break
                for f in range(found):
                    j = worst[f]
                    exact_values(points, positions[j], others, m, positions[own], work)
                    k[j] = work[m]
                    # float32 looked; whether it is a violator, float64 decides
                    slope = k[j]
                    for a in range(m_before):
                        slope -= c[a] * work[a]
                    if abs(slope) > lam[t] * (1.0 + SLACK):
                        append_atom(U, m, work, 1.0 + mu[t])
                        atoms[m], c[m], signs[m] = j, 0.0, np.sign(slope)
                        others[m] = positions[j]
                        m += 1
                if m > m_before:
                    break
            if m_before + found > capacity:
                break
            if m == m_before:
                codes.states[t] = 0
                break
            m = settle_signs(k, lam[t], atoms, c, signs, U, m, y, work)
            for a in range(m):
                others[a] = positions[atoms[a]]
                slots[a] = slot_for(atoms[a], local)
            codes.rounds[t] += 1
        if codes.states[t] != 0:
            continue
        for a in range(m):
            codes.atoms[t, a] = a
            codes.c[t, a] = c[a]
            space.candidates[a] = others[a]
        codes.sizes[t] = m
        solve_on_candidates(points, positions[own], m, lam[t], mu[t], max_rounds, codes, t, space)


@compiled
def slot_for(column: int, local: Any) -> int:  # pragma: no cover
    """The row of `values` for the kernel values of a column's point."""
    if local.slot_of[column] < 0:
        slot = local.used[0]
        local.used[0] += 1
        local.slot_of[column] = slot
        local.evaluated[slot] = 0
    return local.slot_of[column]


@compiled
def evaluate(
    points: NDArray[Any],
    some: NDArray[Any],
    slots: NDArray[Any],
    m: int,
    width: int,
    blocks: NDArray[Any],
    evaluated: NDArray[Any],
    values: NDArray[Any],
) -> None:  # pragma: no cover
    """Let m rows of `values` hold the kernel values of their points on the first `width` columns."""
    n_blocks = -(-width // WIDTH)
    for a in range(m):
        for block in range(evaluated[slots[a]], n_blocks):
            kernel_row(points[some[a]], blocks, block, values[slots[a]], block * WIDTH)
        evaluated[slots[a]] = max(n_blocks, evaluated[slots[a]])


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
def exact_values(
    points: NDArray[Any],
    position: int,
    others: NDArray[Any],
    m: int,
    last: int,
    out: NDArray[Any],
) -> None:  # pragma: no cover
    """Kernel values of a point with m others and, after these, with the point `last`, in float64."""
    p = points.shape[1]
    for a in range(m + 1):
        other = others[a] if a < m else last
        distance = 0.0
        for q in range(p):
            difference = points[position, q] - points[other, q]
            distance += difference * difference
        out[a] = distance
    exp_negative(out[: m + 1])
