"""Points sorted so that neighbours share a leaf, each leaf with a bound on how far its members differ.

In the feature space of the Gaussian kernel, ``|phi(x) - phi(y)|^2 = 2 - 2 k(x, y)``. For a residual r
of some row, Cauchy and Schwarz give for every member x of a leaf with representative y

    |<r, phi(x)>| <= |<r, phi(y)>| + |r| |phi(x) - phi(y)|,

so that one value at the representative settles a whole leaf wherever the right side stays below the
penalty. This is what lets the solver prove optimality over all N columns without visiting them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

LEAF = 8  # members of a leaf at most
BLOCK = 256  # representatives evaluated together


@dataclass(frozen=True)
class LeafTree:
    """N points in p dimensions (p padded to a multiple of 4 with zeros), in L leaves.

    Attributes
    ----------
    order : (N,) the point at each sorted position
    points : (N, p) float64, sorted; points_single : the same in float32
    leaf_starts : (L + 1,) sorted position of the first member of each leaf
    leaf_of : (N,) the leaf at each sorted position
    members : (L, p, LEAF) float32; a leaf with fewer repeats its first
    centre : (L,) sorted position of the representative: the member nearest to the mean
    reach : (L,) largest feature distance from the representative to a member
    representatives : (B, p, BLOCK) float32; the last block is padded with zeros
    largest_norm : the largest Euclidean norm of a point
    """

    order: NDArray[np.int64]
    points: NDArray[np.float64]
    points_single: NDArray[np.float32]
    leaf_starts: NDArray[np.int64]
    leaf_of: NDArray[np.int64]
    members: NDArray[np.float32]
    centre: NDArray[np.int64]
    reach: NDArray[np.float32]
    representatives: NDArray[np.float32]
    largest_norm: float


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array that starts on a cache line: vector loads then never straddle two (measured: 1.6x)."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + size].view(dtype).reshape(shape)


def build_tree(vectors: NDArray[np.float64]) -> LeafTree:
    """Sort the points (N, p) into leaves of at most LEAF by repeated median splits."""
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
    reach, centre = measure_leaves(points, starts)
    members = aligned_empty((n_leaves, padded, LEAF), np.float32)
    lane = np.minimum(np.arange(LEAF), np.diff(starts)[:, None] - 1)
    members[:] = points_single[starts[:-1, None] + lane].transpose(0, 2, 1)

    n_blocks = -(-n_leaves // BLOCK)
    representatives = aligned_empty((n_blocks, padded, BLOCK), np.float32)
    representatives[:] = 0.0
    for block in range(n_blocks):
        part = centre[block * BLOCK : (block + 1) * BLOCK]
        representatives[block, :, : len(part)] = points_single[part].T
    largest = float(np.sqrt(np.einsum("ij,ij->i", points, points).max()))
    # rounded up: the bound must hold in float32 too
    reach_single = np.nextafter(reach.astype(np.float32), np.float32(np.inf))
    return LeafTree(
        order=order,
        points=points,
        points_single=points_single,
        leaf_starts=starts,
        leaf_of=leaf_of,
        members=members,
        centre=centre,
        reach=reach_single,
        representatives=representatives,
        largest_norm=largest,
    )


@compiled
def split_into_leaves(
    V: NDArray[Any], largest: int
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """Order (n,) and leaf starts (L + 1,): split at the median of the coordinate of largest variance."""
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
        middle = start + (size + 1) // 2
        stack.append((middle, stop))
        stack.append((start, middle))
    return order, np.array(starts)


@compiled
def measure_leaves(
    points: NDArray[Any], starts: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """Reach and representative (the member nearest to the mean) of each leaf: (L,), (L,)."""
    p, n_leaves = points.shape[1], len(starts) - 1
    reach, centre = np.empty(n_leaves), np.empty(n_leaves, np.int64)
    mean = np.empty(p)
    for leaf in range(n_leaves):
        start, stop = starts[leaf], starts[leaf + 1]
        for q in range(p):
            mean[q] = 0.0
            for t in range(start, stop):
                mean[q] += points[t, q] / (stop - start)
        best, nearest, farthest = np.inf, start, 0.0
        for t in range(start, stop):
            distance = np.sum((points[t] - mean) ** 2)
            if distance < best:
                best, nearest = distance, t
        for t in range(start, stop):
            farthest = max(farthest, np.sum((points[t] - points[nearest]) ** 2))
        reach[leaf] = np.sqrt(-2.0 * np.expm1(-farthest))
        centre[leaf] = nearest
    return reach, centre
