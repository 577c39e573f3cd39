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
from spdcluster.expression.gaussian import exp_negative, gaussian_rows_single
from spdcluster.expression.screening import gradient_single
from spdcluster.expression.tree import LeafTree, aligned_empty

MOST_COLUMNS = 4096
NEAR = 1536  # of these are looked at first
WIDTH = 512  # columns evaluated together


class LocalColumns(NamedTuple):
    """The columns around a tile, and kernel values on them of the points asked for so far.

    Attributes
    ----------
    positions : (M,) sorted positions, the rows' own leaves first, then in the order of their distance
    blocks : (B, p, WIDTH) float32, the columns themselves
    values : (slots, B * WIDTH) float32
    slot_of : (M,) row of `values` that holds the kernel values of a column's point, or -1
    used : (1,) how many rows of `values` are in use
    """

    positions: NDArray[np.int64]
    blocks: NDArray[np.float32]
    values: NDArray[np.float32]
    slot_of: NDArray[np.int64]
    used: NDArray[np.int64]


def columns_around(tree: LeafTree, rows: NDArray[np.int64]) -> LocalColumns:
    """The members of the leaves nearest to those of the rows, up to MOST_COLUMNS."""
    sizes = np.diff(tree.leaf_starts)
    chosen = np.unique(tree.leaf_of[rows])
    around, n = tree.neighbours[chosen], int(sizes[chosen].sum())
    for rank in range(1, around.shape[1]):
        more = np.setdiff1d(around[:, rank], chosen)
        n += int(sizes[more].sum())
        if n > MOST_COLUMNS:
            break
        chosen = np.concatenate([chosen, more])
    ends = np.cumsum(sizes[chosen])
    shift = np.repeat(tree.leaf_starts[chosen] - (ends - sizes[chosen]), sizes[chosen])
    positions = np.arange(ends[-1]) + shift
    m, p = len(positions), tree.points.shape[1]
    n_blocks = -(-m // WIDTH)
    blocks = aligned_empty((n_blocks, p, WIDTH), np.float32)
    for block in range(n_blocks):
        part = tree.points_single[positions[block * WIDTH : (block + 1) * WIDTH]]
        blocks[block, :, : len(part)] = part.T
        blocks[block, :, len(part) :] = 0.0
    values = aligned_empty((m, n_blocks * WIDTH), np.float32)
    return LocalColumns(positions, blocks, values, np.full(m, -1), np.zeros(1, np.int64))


@compiled
def solve_rows_locally(
    tree: Any,
    local: Any,
    own_columns: NDArray[Any],
    todo: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    codes: Any,
    stop: NDArray[Any],
) -> None:  # pragma: no cover
    """Solve the rows `todo` of a tile on its `LocalColumns`; `own_columns` (r,) says which of them each is."""
    points, positions, values = tree.points, local.positions, local.values
    capacity, n, p = codes.atoms.shape[1], len(positions), points.shape[1]
    space = make_workspace(p, capacity, capacity)
    U, y, work, signs = (
        np.zeros((capacity, capacity + ODD)),
        np.zeros(capacity),
        np.zeros(capacity + 1),
        np.zeros(capacity),
    )
    atoms, c, others = (
        np.zeros(capacity, np.int64),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
    )
    slots, c_single = np.zeros(capacity, np.int64), np.zeros(capacity, np.float32)
    g, worst = np.zeros(n, np.float32), np.zeros(n // CHUNK_COLUMNS + 1, np.int64)
    k, bits, bits_single = np.zeros(n), np.zeros(capacity + 1, np.int64), np.zeros(WIDTH, np.int32)
    for s in range(len(todo)):
        if stop[0]:
            break
        t = todo[s]
        own, m = own_columns[t], 0
        own_slot = slot_for(own, points, local, bits_single)
        codes.states[t] = OUT_OF_ROOM
        for _ in range(max_rounds):
            for a in range(m):
                c_single[a] = c[a]
            room = min(len(worst), max(MAX_ADDED, m // ATOMS_FOR_ONE_MORE))
            # most violators are near: the columns farther away are looked at when these have none
            m_before, found = m, 0
            for width in (min(n, NEAR), n):
                g_part = g[:width]
                gradient_single(values, own_slot, 0, m, slots, c_single, g_part)
                g[own] = 0.0
                for a in range(m):
                    g[atoms[a]] = 0.0
                found = worst_of_chunks(g_part, np.float32(lam[t]), room, worst)
                if m + found > capacity:
                    break
                for f in range(found):
                    j = worst[f]
                    exact_values(points, positions[j], others, m, positions[own], work, bits)
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
                slots[a] = slot_for(atoms[a], points, local, bits_single)
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
def slot_for(
    column: int, points: NDArray[Any], local: Any, bits: NDArray[Any]
) -> int:  # pragma: no cover
    """The row of `values` with the kernel values of a column's point, evaluated now if need be."""
    if local.slot_of[column] < 0:
        slot = local.used[0]
        local.used[0] += 1
        local.slot_of[column] = slot
        point = np.empty((1, points.shape[1]), np.float32)
        point[0] = points[local.positions[column]]
        for block in range(len(local.blocks)):
            part = local.values[slot : slot + 1, block * WIDTH : (block + 1) * WIDTH]
            gaussian_rows_single(point, local.blocks[block], WIDTH, part, bits)
    return local.slot_of[column]


@compiled
def exact_values(
    points: NDArray[Any],
    position: int,
    others: NDArray[Any],
    m: int,
    last: int,
    out: NDArray[Any],
    bits: NDArray[Any],
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
    exp_negative(out[: m + 1], bits)
