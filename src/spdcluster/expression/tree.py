"""Points sorted so that neighbours share a leaf, each leaf with a bound on how far its members differ.

In the feature space of the Gaussian kernel, ``|phi(x) - phi(y)|^2 = 2 - 2 k(x, y)``. For a residual r
of some row, Cauchy and Schwarz give for every member x of a leaf with the point y in its middle

    |<r, phi(x)>| <= |<r, phi(y)>| + |r| |phi(x) - phi(y)|,

so that one value at this representative settles a whole leaf wherever the right side stays below the
penalty. Where it does not, the representatives around the leaf know more: with any weights w and
``phi(x) = sum_l w_l phi(y_l) + e_x``,

    |<r, phi(x)>| <= |sum_l w_l <r, phi(y_l)>| + |r| |e_x|,

and ``|e_x|`` is several times smaller than the distance to one representative. This is what lets the
solver prove optimality over all N columns without visiting them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.cholesky import append_atom, solve_factored
from spdcluster.expression.compiled import compiled
from spdcluster.expression.gaussian import gaussian_rows, gaussian_rows_single
from spdcluster.expression.intrinsics import LANES
from spdcluster.expression.threads import run_chunks

LEAF = LANES  # members of a leaf at most
BLOCK = 256  # representatives in one block
SUPPORT = 16  # nearest leaves known of each: its members are combinations of their representatives, up to |e_x|
RIDGE = 1e-6  # on their Gram matrix: any weights do, and those of moderate size round less
LEAVES_PER_TASK = 256
FIRST_STEP, STEPS = 8, 24  # on the way from the mean of a leaf to the middle of its ball


class LeafTree(NamedTuple):
    """N points in p dimensions (p padded to a multiple of 4 with zeros), in L leaves.

    Attributes
    ----------
    order : (N,) the point at each sorted position
    points : (N, p) float64, sorted; points_single : the same in float32
    leaf_starts : (L + 1,) sorted position of the first member of each leaf
    leaf_of : (N,) the leaf at each sorted position
    members : (L, p, LEAF) float32; a leaf with fewer repeats its last; members_double : not rounded
    centres : (L, p) float32, the representative of each leaf: a point from which no member is far
    reach : (L,) float32, largest feature distance from the representative to a member, rounded up
    representatives : (B, p, BLOCK) float32, these by coordinate; the last block is padded with zeros
    support : (L, SUPPORT) int32, the leaves of nearest representative, the leaf itself first; the leaf itself
        again where there are fewer
    weights : (L, SUPPORT, LEAF) float32, of each member on the representatives of `support`
    unexplained : (L, LEAF) float32, ``|e_x|`` of each member, rounded up
    weight_sums : (L,) float32, the largest ``|w|_1`` of a member
    largest_norm : the largest Euclidean norm of a point
    """

    order: NDArray[np.int64]
    points: NDArray[np.float64]
    points_single: NDArray[np.float32]
    leaf_starts: NDArray[np.int64]
    leaf_of: NDArray[np.int64]
    members: NDArray[np.float32]
    members_double: NDArray[np.float64]
    centres: NDArray[np.float32]
    reach: NDArray[np.float32]
    representatives: NDArray[np.float32]
    support: NDArray[np.int32]
    weights: NDArray[np.float32]
    unexplained: NDArray[np.float32]
    weight_sums: NDArray[np.float32]
    largest_norm: float


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array that starts on a cache line: vector loads then never straddle two (measured: 1.6x)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + size].view(dtype).reshape(shape)


def build_tree(vectors: NDArray[np.float64], n_jobs: int = 1) -> LeafTree:
    """Sort the points (N, p) into leaves of at most LEAF by repeated splits in halves."""
    n, p = vectors.shape
    centred = vectors - vectors.mean(axis=0)
    # along principal axes the widest coordinate is a good direction to split
    _, axes = np.linalg.eigh(centred.T @ centred)
    order, starts = split_into_leaves(np.ascontiguousarray(centred @ axes), LEAF)
    padded = -(-p // 4) * 4
    points = aligned_empty((n, padded), np.float64)
    points[:, :p], points[:, p:] = vectors[order], 0.0
    points_single = aligned_empty((n, padded), np.float32)
    points_single[:] = points

    n_leaves = len(starts) - 1
    leaf_of = np.repeat(np.arange(n_leaves), np.diff(starts))
    distance, centres = measure_leaves(points, starts)
    members = aligned_empty((n_leaves, padded, LEAF), np.float32)
    members_double = aligned_empty((n_leaves, padded, LEAF), np.float64)
    lane = np.minimum(np.arange(LEAF), np.diff(starts)[:, None] - 1)
    members_double[:] = points[starts[:-1, None] + lane].transpose(0, 2, 1)
    members[:] = members_double

    n_blocks = -(-n_leaves // BLOCK)
    representatives = aligned_empty((n_blocks, padded, BLOCK), np.float32)
    representatives[:] = 0.0
    for block in range(n_blocks):
        part = centres[block * BLOCK : (block + 1) * BLOCK]
        representatives[block, :, : len(part)] = part.T
    largest = float(np.sqrt(np.einsum("ij,ij->i", points, points).max()))
    count = min(SUPPORT, n_leaves)
    support = np.repeat(np.arange(n_leaves, dtype=np.int32)[:, None], SUPPORT, axis=1)
    weights = aligned_empty((n_leaves, SUPPORT, LEAF), np.float32)
    unexplained = aligned_empty((n_leaves, LEAF), np.float32)
    weight_sums = np.empty(n_leaves, np.float32)

    def look_around(start: int) -> None:
        part = slice(start, min(n_leaves, start + LEAVES_PER_TASK))
        support[part, :count] = nearest_leaves(
            representatives, n_leaves, centres[part], np.arange(n_leaves)[part], count
        )
        combine_representatives(
            points, starts, centres, support[:, :count], part.start, part.stop, weights, unexplained,
            weight_sums,
        )  # fmt: skip

    run_chunks(look_around, range(0, n_leaves, LEAVES_PER_TASK), n_jobs=n_jobs)
    # rounded up: the bound must hold in float32 too
    reach = np.nextafter(distance.astype(np.float32), np.float32(np.inf))
    return LeafTree(
        order=order,
        points=points,
        points_single=points_single,
        leaf_starts=starts,
        leaf_of=leaf_of,
        members=members,
        members_double=members_double,
        centres=centres,
        reach=reach,
        representatives=representatives,
        support=support,
        weights=weights,
        unexplained=unexplained,
        weight_sums=weight_sums,
        largest_norm=largest,
    )


@compiled
def split_into_leaves(
    V: NDArray[Any], largest: int
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """Order (n,) and leaf starts (L + 1,): split in halves by the coordinate of largest variance.

    All leaves but the last are full.
    """
    n, p = V.shape
    order = np.arange(n)
    starts = [0]
    stack = [(0, n)]
    while len(stack) > 0:
        start, stop = stack.pop()
        size = stop - start
        if size <= largest:
            starts.append(stop)  # the left half is popped first: leaves end in ascending order
            continue
        widest, spread = 0, -1.0
        for q in range(p):
            total, square = 0.0, 0.0
            for t in range(start, stop):
                value = V[order[t], q]
                total += value
                square += value * value
            variance = square - total * total / size
            if variance > spread:
                widest, spread = q, variance
        part = order[start:stop].copy()
        key = np.empty(size)
        for t in range(size):
            key[t] = V[part[t], widest]
        sorted_ = np.argsort(key)
        for t in range(size):
            order[start + t] = part[sorted_[t]]
        middle = start + ((size - 1) // largest + 2) // 2 * largest
        stack.append((middle, stop))
        stack.append((start, middle))
    return order, np.array(starts)


@compiled
def measure_leaves(
    points: NDArray[Any], starts: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """Reach (L,) and representative (L, p) of each leaf: about the middle of the smallest ball around it."""
    p, n_leaves = points.shape[1], len(starts) - 1
    reach, centres = np.empty(n_leaves), np.empty((n_leaves, p), np.float32)
    middle = np.empty(p)
    for leaf in range(n_leaves):
        start, stop = starts[leaf], starts[leaf + 1]
        middle[:] = 0.0
        for t in range(start, stop):
            middle += points[t] / (stop - start)
        # from the mean, ever shorter steps towards the farthest member
        for step in range(STEPS):
            far, _ = farthest_member(points, start, stop, middle)
            middle += (points[far] - middle) / (step + FIRST_STEP)
        centres[leaf] = middle
        middle[:] = centres[leaf]
        _, square = farthest_member(points, start, stop, middle)
        reach[leaf] = np.sqrt(-2.0 * np.expm1(-square)) * (1.0 + 1e-7)
    return reach, centres


@compiled
def farthest_member(
    points: NDArray[Any], start: int, stop: int, middle: NDArray[Any]
) -> tuple[int, float]:  # pragma: no cover
    """Which of the points from `start` to `stop` is farthest from `middle`, and its squared distance."""
    far, most = start, -1.0
    for t in range(start, stop):
        square = 0.0
        for q in range(len(middle)):
            square += (points[t, q] - middle[q]) ** 2
        if square > most:
            far, most = t, square
    return far, most


@compiled
def nearest_leaves(
    representatives: NDArray[Any],
    n_leaves: int,
    centres: NDArray[Any],
    own: NDArray[Any],
    count: int,
) -> NDArray[Any]:  # pragma: no cover
    """The `count` leaves of representatives nearest to each of `centres` (r, p), `own` (r,) first."""
    r = len(centres)
    K = np.empty((r, BLOCK), np.float32)
    best = np.full((r, count), np.float32(-1.0))
    leaves = np.zeros((r, count), np.int64)
    for t in range(r):
        best[t, 0], leaves[t, 0] = np.float32(2.0), own[t]
    for block in range(len(representatives)):
        gaussian_rows_single(centres, representatives[block], BLOCK, K)
        first = block * BLOCK
        width = min(BLOCK, n_leaves - first)
        for t in range(r):
            least = best[t, count - 1]
            better = 0
            for j in range(width):
                better += K[t, j] > least
            if better == 0:
                continue
            for j in range(width):
                if K[t, j] > best[t, count - 1] and first + j != own[t]:
                    a = count - 1
                    while a > 0 and best[t, a - 1] < K[t, j]:
                        best[t, a], leaves[t, a] = best[t, a - 1], leaves[t, a - 1]
                        a -= 1
                    best[t, a], leaves[t, a] = K[t, j], first + j
    return leaves


@compiled
def combine_representatives(
    points: NDArray[Any], starts: NDArray[Any], centres: NDArray[Any], support: NDArray[Any], first: int,
    last: int, weights: NDArray[Any], unexplained: NDArray[Any], weight_sums: NDArray[Any],
) -> None:  # pragma: no cover  # fmt: skip
    """Write `weights`, `unexplained` and `weight_sums` of the leaves from `first` to `last`."""
    p, s = points.shape[1], support.shape[1]
    rows, columns = np.empty((s + LEAF, p)), np.empty((p, s))
    K = np.empty((s + LEAF, s))
    U, work, w = np.zeros((s, s)), np.empty(s), np.empty(s)
    for leaf in range(first, last):
        n = starts[leaf + 1] - starts[leaf]
        for a in range(s):
            rows[a] = centres[support[leaf, a]]
            columns[:, a] = rows[a]
        for lane in range(n):
            rows[s + lane] = points[starts[leaf] + lane]
        gaussian_rows(rows[: s + n], columns, s, K)
        for a in range(s):
            work[:a] = K[a, :a]
            append_atom(U, a, work, 1.0 + RIDGE)
        weights[leaf], unexplained[leaf], largest = 0.0, 0.0, 0.0
        for lane in range(n):
            k = K[s + lane]
            w[:] = k
            solve_factored(U, s, w)
            total, square = 0.0, 1.0
            for a in range(s):
                # the weights in use are those in float32; what they leave is measured for these
                w[a] = np.float32(w[a])
                weights[leaf, a, lane] = w[a]
                total += abs(w[a])
            for a in range(s):
                square -= 2.0 * w[a] * k[a]
                for b in range(s):
                    square += w[a] * w[b] * K[a, b]
            rounding = 1e-15 * s * (1.0 + total) ** 2
            unexplained[leaf, lane] = np.sqrt(max(square, 0.0) + rounding) * (1.0 + 1e-6)
            largest = max(largest, total)
        weight_sums[leaf] = largest * (1.0 + 1e-6)
