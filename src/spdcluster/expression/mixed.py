"""The solver of rows with few atoms: float32 looks at all columns and chooses, float64 solves and proves.

The active set is that of `spdcluster.expression.active_set`, in float64 on float32 kernel values, with the
inverse of the atoms' Gram matrix instead of a factor: a few atoms fill a vector register or two, and products
wait for nothing, where triangular solves wait for every entry. What float32 got wrong is mended at the end
by iterative refinement with float64 kernel values; then every column that is not below the penalty by more
than the proved error of float32 is asked in float64.

Rows for which this is not enough, with many atoms or atoms that hardly differ, come back with the state
OUT_OF_ROOM or LEFT.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.active_set import OUT_OF_ROOM, SLACK, SOLVED, largest_size
from spdcluster.expression.compiled import compiled, leaf
from spdcluster.expression.gaussian import gaussian_value
from spdcluster.expression.intrinsics import kernel_row
from spdcluster.expression.screening import UNIT, gradient_error, single_margin
from spdcluster.expression.short_vectors import (
    add_square,
    combine_eights,
    dot_eights,
    gaussians_of_eight,
    gradient_and_worst,
    opposed,
    times_symmetric,
    worst_of_few,
)
from spdcluster.expression.threads import run_chunks
from spdcluster.expression.tree import aligned_empty

LEFT = 4  # state of a row that another way has to solve
CAPACITIES = (48, 192)  # atoms; rows that need more room are solved again
LANES = 8
SHORT = 32  # worst columns of a scan, one of each class of columns
COLUMNS = (
    64  # a Gram matrix has an odd number of so many, lest rows fall into one place of the cache
)
SCANS = 60
ADDED, ATOMS_FOR_ONE_MORE = 6, 8  # atoms between two scans, and how many of them let one more in
ROWS_PER_TASK = 64
WIDTH = 512  # columns evaluated together
PIVOT = 1e-5  # least share of an atom that its fellows do not explain, for float32 kernel values
MOST_ERROR = 0.1  # of float32, as a share of the penalty
REFINED, ROUNDING = (
    1e-13,
    1e-11,
)  # errors at the atoms, as a share of the penalty: no more to gain; enough
REFINEMENTS = 8

# Where kernel values come from. single (n, width): float32, over `scale`, zero beyond column n, each
# wrong by `margin` at most, as far as they are `known` (n,): how many leading columns of each row. The others are
# evaluated when they are asked for, from the columns in `blocks` (B, p, WIDTH); the first `near` columns are
# looked at alone, until there is no violator among them. In float64 values come from K (n, n) or, where that is
# empty, from points (n, p) of the kernel exp(-|u - v|^2).
Source = namedtuple("Source", "single scale margin known near blocks K points")

# One thread's scratch. Of the atoms: inverse (capacity, capacity) of their Gram matrix, zero beyond them;
# signs, step and target, values with the row, (capacity,) each; float32 coefficients. Of all columns: row and
# gradient. Of the short list: columns, sizes of the gradient, values with the row and with each atom.
# At the end: float64 values between atoms, points of the atoms in eights. A point to evaluate. The code: atoms and
# coefficients, with free places.
Desk = namedtuple(
    "Desk", "Q signs u v target b single row g places best short P A members active point atoms c"
)


def padded(n: int) -> int:
    """How many columns a float32 Gram matrix of n points has."""
    return COLUMNS * (-(-n // COLUMNS) | 1)


def bytes_for(n: int) -> float:
    """What the float32 Gram matrix of n points takes."""
    return 4.0 * n * padded(n)


def source_of_matrix(K: NDArray[np.float64]) -> Source:
    """The source of a Gram matrix (n, n)."""
    n = len(K)
    # a power of two, so that scaling rounds nothing
    scale = 2.0 ** float(np.ceil(np.log2(max(np.abs(K).max(initial=0.0), 1e-300))))
    single = aligned_empty((n, padded(n)), np.float32)
    np.multiply(K, 1.0 / scale, out=single[:, :n], casting="same_kind")
    single[:, n:] = 0.0
    return Source(single, scale, 1.01 * UNIT, *all_known(single), K, np.zeros((0, 4)))


def source_of_vectors(vectors: NDArray[np.float64], n_jobs: int) -> Source:
    """The source of the kernel ``exp(-|u_i - u_j|^2)`` of vectors (n, p)."""
    n, p = vectors.shape
    points = np.zeros((n, -(-p // 4) * 4))
    points[:, :p] = vectors
    with np.errstate(over="ignore", invalid="ignore"):
        centred = points - points.mean(axis=0)
        margin = single_margin(p, float(np.sqrt(np.square(centred).sum(axis=1).max(initial=0.0))))
        short = centred.astype(np.float32)
    columns = aligned_empty((padded(n) // COLUMNS, points.shape[1], COLUMNS), np.float32)
    for block in range(len(columns)):
        part = short[block * COLUMNS : (block + 1) * COLUMNS]
        columns[block, :, : len(part)], columns[block, :, len(part) :] = part.T, 0.0
    single = aligned_empty((n, padded(n)), np.float32)

    def fill(start: int) -> None:
        rows = slice(start, start + ROWS_PER_TASK)
        gram_rows_single(short[rows], columns, n, single[rows])

    run_chunks(fill, range(0, n, ROWS_PER_TASK), n_jobs=n_jobs)
    return Source(single, 1.0, margin, *all_known(single), np.zeros((0, 0)), points)


def all_known(single: NDArray[np.float32]) -> tuple[NDArray[np.int64], int, NDArray[np.float32]]:
    """`known`, `near` and `blocks` of a source whose values are all there."""
    n, width = single.shape
    return np.full(n, width), width, np.zeros((0, 4, WIDTH), np.float32)


@compiled
def gram_rows_single(
    rows: NDArray[Any], columns: NDArray[Any], n: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """Float32 values between `rows` (m, p) and n columns (B, p, COLUMNS): out (m, w), zero beyond."""
    for block in range(len(columns)):  # which stays in the nearest cache
        for i in range(len(rows)):
            kernel_row(rows[i], columns, block, out[i], block * COLUMNS)
    out[:, n:] = 0.0


@compiled
def make_desk(width: int, p: int, capacity: int) -> Any:  # pragma: no cover
    """Scratch for a Gram matrix of so many columns and codes of so many atoms, a multiple of LANES."""
    return Desk(
        np.zeros((capacity, capacity)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity, np.float32),
        np.zeros(width, np.float32),
        np.zeros(width, np.float32),
        np.zeros(SHORT, np.uint32),
        np.zeros(SHORT, np.float32),
        np.zeros(SHORT, np.float32),
        np.zeros((capacity, SHORT), np.float32),
        np.zeros((capacity + 1, capacity)),
        np.zeros((capacity // LANES, p, LANES)),
        np.zeros((capacity + 1, p)),
        np.zeros(p, np.float32),
        np.full(capacity, -1),
        np.zeros(capacity),
    )


@compiled
def solve_rows_mixed(
    source: Any,
    rows: NDArray[Any],
    entries: NDArray[Any],
    lam: NDArray[Any],
    mu: NDArray[Any],
    max_rounds: int,
    capacity: int,
    known: Any,
    stop: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """Solve the points `rows` (r,); what is known of their codes goes to those `entries` (r,) of `known`.

    Of a point that comes again the last code is the start, so that its penalties should decrease.

    Parameters
    ----------
    source : Source
    lam, mu : (e,) penalties of the entries, as in `spdcluster.expression.active_set`
    capacity : int
        Most atoms of a row.
    known : sizes (e,), values (e, 4), rounds (e,), states (e,)

    Returns
    -------
    atoms and coefficients of the codes that are SOLVED, one after the other
    """
    sizes, values, rounds, states = known
    desk = make_desk(source.single.shape[1], source.points.shape[1], capacity)
    atoms, c = np.empty(len(rows) * capacity, np.int64), np.empty(len(rows) * capacity)
    # no literal: functions would be compiled for it apart
    used, last, before, end = np.int64(0), -1, -1, 0
    for t in range(len(rows)):
        if stop[0]:
            break
        i, entry = rows[t], entries[t]
        if i != last or states[before] != SOLVED or mu[before] != mu[entry]:
            start_anew(desk)
            used = np.int64(0)
        used, rounds[entry], states[entry] = solve_row_mixed(
            source, i, lam[entry], mu[entry], lam[before], min(SCANS, max_rounds), used,
            values[entry], desk,
        )  # fmt: skip
        sizes[entry] = 0
        if states[entry] == SOLVED:
            sizes[entry] = write_code(used, desk, atoms[end:], c[end:])
            end += sizes[entry]
        last, before = i, entry
    return atoms[:end].copy(), c[:end].copy()


@leaf
def evaluate(source: Any, j: int, width: int, desk: Any) -> None:  # pragma: no cover
    """Let the float32 values of row j be known on the leading `width` columns."""
    known = source.known[j]
    if known >= width:
        return
    blocks, row, n = source.blocks, source.single[j], len(source.known)
    for q in range(blocks.shape[1]):
        desk.point[q] = blocks[j // WIDTH, q, j % WIDTH]
    for block in range(known // WIDTH, min(len(blocks), -(-width // WIDTH))):
        kernel_row(desk.point, blocks, block, row, block * WIDTH)
    for other in range(n, len(row)):
        row[other] = 0.0
    source.known[j] = width


@leaf
def start_anew(desk: Any) -> None:  # pragma: no cover
    """Let no atom be there, and no place in use."""
    for a in range(len(desk.c)):
        if desk.signs[a] == 0.0 and desk.atoms[a] < 0:
            break  # never used
        for b in range(len(desk.c)):
            desk.Q[a, b] = 0.0
        desk.atoms[a], desk.signs[a], desk.c[a] = -1, 0.0, 0.0


@leaf
def write_code(
    used: int, desk: Any, atoms: NDArray[Any], c: NDArray[Any]
) -> int:  # pragma: no cover
    """Sort the atoms, and leave out the free places; how many atoms."""
    m = 0
    for a in range(used):
        if desk.signs[a] != 0.0:
            place = m
            while place > 0 and atoms[place - 1] > desk.atoms[a]:
                atoms[place], c[place] = atoms[place - 1], c[place - 1]
                place -= 1
            atoms[place], c[place] = desk.atoms[a], desk.c[a]
            m += 1
    return m


@leaf
def solve_row_mixed(
    source: Any,
    i: int,
    lam: float,
    mu: float,
    lam_before: float,
    most_scans: int,
    m: int,
    value: NDArray[Any],
    desk: Any,
) -> tuple[int, int, int]:  # pragma: no cover
    """Solve row i from the code on the desk, that of `lam_before`, in m places; (places in use, scans, state)."""
    single, scale, atoms, c = source.single, source.scale, desk.atoms, desk.c
    row, g, b, signs, places = desk.row, desk.g, desk.b, desk.signs, desk.places
    penalty, damping = lam / scale, mu / scale
    width = source.near if m == 0 else len(row)
    evaluate(source, i, width, desk)
    for j in range(width):
        row[j] = single[i, j]
    if m > 0:
        for a in range(m):
            evaluate(source, atoms[a], width, desk)
        times_symmetric(desk.Q, signs, m, desk.u)
        combine_eights(desk.target, c, lam_before / scale - penalty, desk.u, m)
        walk_to_target(i, atoms, c, m, desk)
    for scan in range(most_scans):
        own = 0.0
        for a in range(m):
            atom = np.uint64(atoms[a])
            desk.single[a] = c[a]
            row[atom] = single[i, atom] - damping * c[a]
            own += c[a] * single[i, atom]
        row[i] = own  # so that the row does not explain itself
        error = gradient_error(c[:m], source.margin)
        if not error <= MOST_ERROR * penalty:
            return m, scan, LEFT
        steepest = gradient_and_worst(
            single, row, atoms, desk.single, m, width, g, desk.best, places
        )
        for a in range(m):
            row[np.uint64(atoms[a])] = single[i, np.uint64(atoms[a])]
        limit = np.float32(penalty + error)
        if steepest > limit:
            m = add_from_short_list(source, i, penalty, damping, limit, atoms, c, m, width, desk)
            if m < 0:
                return len(c), scan, -m
            continue
        if width < len(row):
            width = len(row)
            evaluate(source, i, width, desk)
            for a in range(m):
                evaluate(source, atoms[a], width, desk)
            for j in range(width):
                row[j] = single[i, j]
            continue
        # nothing left that float32 can see
        moved = refine(source, i, lam, mu, atoms, c, m, desk)
        if not 0.0 <= moved < MOST_ERROR * penalty:
            return m, scan, LEFT
        for a in range(m):
            g[np.uint64(atoms[a])] = 0.0
        g[i] = 0.0
        at, high = worst_in_doubt(source, i, np.float32(penalty - error - moved), atoms, c, m, desk)
        if high > lam * (1.0 + SLACK):
            places[0] = at
            m = add_atom(source, i, penalty, damping, np.int64(0), atoms, c, m, width, desk)
            if m < 0:
                return len(c), scan, -m
            continue
        l1, l2, k_c, c_g = 0.0, 0.0, 0.0, 0.0
        for a in range(m):
            l1 += abs(c[a])
            l2 += c[a] * c[a]
            k_c += b[a] * c[a]
            c_g += (lam * signs[a] + mu * c[a] + desk.u[a]) * c[a]
            high = max(high, lam + abs(desk.u[a]))
        k_own = 1.0 if len(source.K) == 0 else source.K[i, i]
        residual = k_own - k_c - c_g  # |phi_i - sum_j c_j phi_j|^2, as c.K.c = k.c - c.g
        value[0] = 2.0 * lam * l1 + mu * l2 + residual
        value[1] = k_own - k_c
        value[2] = residual + mu * l2
        value[3] = max(lam, high)
        return m, scan + 1, SOLVED
    return m, most_scans, LEFT


@leaf
def add_from_short_list(
    source: Any,
    i: int,
    penalty: float,
    damping: float,
    limit: float,
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    width: int,
    desk: Any,
) -> int:  # pragma: no cover
    """Add the worst column of the short list, again and again; returns m, or less the state where this ends."""
    single, places, best, short = source.single, desk.places, desk.best, desk.short
    for f in range(SHORT):
        # times 0 instead of a branch, which nobody could predict
        short[f] = single[i, places[f]] * np.float32(best[f] > limit)
    for a in range(m):
        j = np.uint64(atoms[a])
        for f in range(SHORT):
            desk.P[a, f] = single[j, places[f]]
    worst = worst_of_few(desk.P, best, c, np.int64(0), limit)
    for _ in range(max(ADDED, m // ATOMS_FOR_ONE_MORE)):
        m = add_atom(source, i, penalty, damping, worst, atoms, c, m, width, desk)
        if m < 0:
            return m
        worst = worst_of_few(desk.P, short, c, m, limit)
        if worst < 0:
            return m
    return m


@leaf
def add_atom(
    source: Any,
    i: int,
    penalty: float,
    damping: float,
    listed: int,
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    width: int,
    desk: Any,
) -> int:  # pragma: no cover
    """Add a column of the short list to the optimum on m places; the new m, or less the state where this ends."""
    single, Q, u, v, target, signs = (
        source.single,
        desk.Q,
        desk.u,
        desk.v,
        desk.target,
        desk.signs,
    )
    j = desk.places[listed]
    evaluate(source, np.int64(j), width, desk)
    free = m
    for a in range(m):
        v[a] = single[j, np.uint64(atoms[a])]
        if signs[a] == 0.0:
            free = a
    if free == len(u):
        return -OUT_OF_ROOM
    times_symmetric(Q, v, m, u)
    slope = single[i, j] - dot_eights(c, v, m)
    diagonal = single[j, j] + damping
    pivot = diagonal - dot_eights(u, v, m)
    if not pivot > PIVOT * diagonal:
        return -LEFT
    for a in range(m, min(len(u), m + LANES)):
        u[a] = 0.0
    u[free] = -1.0
    m = max(m, free + 1)
    add_square(Q, u, 1.0 / pivot, m)
    sign = 1.0 if slope > 0.0 else -1.0
    atoms[free], c[free], signs[free] = j, 0.0, sign
    combine_eights(target, c, (penalty * sign - slope) / pivot, u, m)
    for f in range(SHORT):
        desk.P[free, f] = single[j, desk.places[f]]
    desk.short[listed] = 0.0
    walk_to_target(i, atoms, c, m, desk)
    return m


@leaf
def walk_to_target(
    i: int, atoms: NDArray[Any], c: NDArray[Any], m: int, desk: Any
) -> None:  # pragma: no cover
    """Go to the target, dropping each atom whose coefficient reaches zero on the way.

    Its place is free then: sign 0, coefficient 0, and the row itself as its atom.
    """
    Q, signs, u, target = desk.Q, desk.signs, desk.u, desk.target
    while opposed(target, signs, m) < 0.0:
        step, leaving = 1.0, -1
        for a in range(m):
            if target[a] * signs[a] < 0.0:
                here = c[a] / (c[a] - target[a]) if c[a] != 0.0 else 0.0
                if here < step or leaving < 0:
                    step, leaving = min(here, step), a
        for a in range(m):
            c[a] += step * (target[a] - c[a])
            u[a] = Q[leaving, a]
        for a in range(m, min(len(u), m + LANES)):
            u[a] = 0.0
        combine_eights(target, target, -target[leaving] / u[leaving], u, m)
        add_square(Q, u, -1.0 / u[leaving], m)
        atoms[leaving], c[leaving], signs[leaving], target[leaving] = i, 0.0, 0.0, 0.0
        for a in range(m):
            Q[leaving, a] = 0.0
    combine_eights(c, target, 0.0, target, m)


@leaf
def refine(
    source: Any,
    i: int,
    lam: float,
    mu: float,
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    desk: Any,
) -> float:  # pragma: no cover
    """Refine the coefficients with float64 kernel values, until only rounding is left at the atoms.

    Leaves what is left in ``desk.u``, values with the row in ``desk.b``. Returns how far the coefficients
    moved in all, or -1 if they do not settle or change sign.
    """
    A, b, u, target, signs = desk.A, desk.b, desk.u, desk.target, desk.signs
    values_between_atoms(source, i, atoms, m, desk)
    moved, before = 0.0, np.inf
    for _ in range(REFINEMENTS):
        times_symmetric(A, c, m, u)
        worst = 0.0
        for a in range(m):
            # nothing is asked of a free place
            u[a] = (b[a] - u[a] - mu * c[a] - lam * signs[a]) * abs(signs[a])
            worst = max(worst, abs(u[a]))
        if worst <= REFINED * lam or (worst <= ROUNDING * lam and worst > 0.5 * before):
            for a in range(m):
                if c[a] * signs[a] <= 0.0 and signs[a] != 0.0:
                    return -1.0
            return moved
        before = worst
        times_symmetric(desk.Q, u, m, target)
        for a in range(m):
            step = target[a] / source.scale * abs(signs[a])
            c[a] += step
            moved += abs(step)
    return -1.0


@leaf
def values_between_atoms(
    source: Any, i: int, atoms: NDArray[Any], m: int, desk: Any
) -> None:  # pragma: no cover
    """Write float64 kernel values between m atoms to ``desk.A``, with row i to ``desk.b``."""
    A, b, K, points = desk.A, desk.b, source.K, source.points
    if len(K) > 0:
        for a in range(m):
            j = np.uint64(atoms[a])
            b[a] = K[i, j]
            for other in range(m):
                A[a, other] = K[j, np.uint64(atoms[other])]
        return
    for a in range(m):
        for q in range(points.shape[1]):
            desk.active[a, q] = points[atoms[a], q]
            desk.members[a // LANES, q, a % LANES] = points[atoms[a], q]
    for q in range(points.shape[1]):
        desk.active[m, q] = points[i, q]
    for eight in range(-(-m // LANES)):
        gaussians_of_eight(desk.members, eight, desk.active, m + 1, A)
    for a in range(m):
        b[a] = A[m, a]


@leaf
def worst_in_doubt(
    source: Any,
    i: int,
    limit: float,
    atoms: NDArray[Any],
    c: NDArray[Any],
    m: int,
    desk: Any,
) -> tuple[int, float]:  # pragma: no cover
    """Of the columns beyond the limit in float32 the one that is worst in float64, and its ``|g|`` (0: none)."""
    g, K, points = desk.g, source.K, source.points
    at, high = -1, 0.0
    if largest_size(g, 0, len(g)) <= limit:
        return at, high
    for j in range(len(g)):
        if abs(g[j]) <= limit:
            continue
        if len(K) > 0:
            slope = K[i, j]
            for a in range(m):
                slope -= c[a] * K[j, atoms[a]]
        else:
            slope = gaussian_value(points, i, j)
            for a in range(m):
                slope -= c[a] * gaussian_value(points, j, atoms[a])
        if abs(slope) > high:
            at, high = j, abs(slope)
    return at, high
