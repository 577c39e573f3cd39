"""Covariances of overlapping windows, at a cost that (almost) does not depend on the window's size.

The integral image of the literature (Tuzel, Porikli, Meer, ECCV 2006) takes differences of sums
that run over the whole image, and loses digits where a window's own variance is small. Here
nothing is ever subtracted. The image is cut into cells, the largest rectangles of which every
window is made; a cell's record is its mean and its scatter about that mean; records merge by

    mean = mean_1 + n_2 / n * delta,   scatter = scatter_1 + scatter_2 + n_1 n_2 / n delta delta^T,

with ``delta = mean_2 - mean_1``, a row of cells at a time. Down the image, a run of `a` cells that
starts inside a block of `a` cells is the rest of that block and the beginning of the next one; both
are built once, cell by cell, so that a window costs one merge, however many cells it has. Across, runs
of 1, 2, 4, ... cells are merged from two of half the length, and a window from those that the binary
digits of its width name: more merges, but all columns at once in vector instructions.
"""

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

Array = NDArray[np.float64]


@compiled
def sliding_covariances(
    features: Array,
    cell: tuple[int, int],
    cells: tuple[int, int],
    step: tuple[int, int],
    lattice: tuple[int, int],
    out: Array,
) -> None:  # pragma: no cover
    """Write the covariance of every window.

    Parameters
    ----------
    features : ndarray (d, h, w)
    cell : (int, int)
        Height and width of a cell in pixels.
    cells : (int, int)
        Height and width of a window in cells.
    step : (int, int)
        Distance of two windows in cells, down and to the right.
    lattice : (int, int)
        Number of rows and of columns of windows.
    out : ndarray (lattice[0] * lattice[1], d, d)
    """
    d = features.shape[0]
    n_records = d + d * (d + 1) // 2
    height, n_columns = cells[0], lattice[1]
    n_across = (n_columns - 1) * step[1] + cells[1]
    size = cell[0] * cell[1]
    # Slot t holds row t of the block of cells, then the merged rest of the block from row t on,
    # and once no window needs that any more, row t of the next block.
    ring = np.empty((height, n_records, n_across))
    beginning = np.empty((n_records, n_across))
    merged = np.empty((n_records, n_across))
    work = np.empty((4, n_records, n_across))
    deviations = np.empty((d, cell[0], n_across * cell[1]))
    line = np.empty(n_across * cell[1])
    for t in range(height):
        _row_of_cells(features, t, cell, deviations, line, ring[t])
    last = (lattice[0] - 1) * step[0]
    for start in range(last + 1):
        t = start % height
        if t == 0:
            for q in range(height - 2, -1, -1):
                n_below = (height - 1 - q) * size
                _merge(d, ring[q], size, ring[q + 1], 0, n_below, n_across, merged)
                ring[q][:] = merged
        if start % step[0] == 0:
            first = start // step[0] * n_columns
            row = ring[0]
            if t > 0:
                n_above = (height - t) * size
                _merge(d, ring[t], n_above, beginning, 0, t * size, n_across, merged)
                row = merged
            target = out[first : first + n_columns]
            _row_of_windows(d, row, size * height, cells[1], step[1], work, target)
        if start < last:
            _row_of_cells(features, start + height, cell, deviations, line, ring[t])
            if t == 0:
                beginning[:] = ring[0]
            else:
                _merge(d, beginning, t * size, ring[t], 0, size, n_across, merged)
                beginning[:] = merged


@compiled
def _row_of_cells(
    features: Array, row: int, cell: tuple[int, int], deviations: Array, line: Array, out: Array
) -> None:  # pragma: no cover
    """Write mean and scatter (d + d (d + 1) / 2, n_cells) of one row of cells."""
    d = features.shape[0]
    height, width = cell
    n_cells = out.shape[1]
    across = n_cells * width
    for j in range(d):
        line[:] = 0.0
        for y in range(height):
            for x in range(across):
                value = features[j, row * height + y, x]
                deviations[j, y, x] = value
                line[x] += value
        _sum_groups(line, width, out[j])
        for c in range(n_cells):
            out[j, c] /= height * width
            line[c * width : (c + 1) * width] = out[j, c]
        for y in range(height):
            for x in range(across):
                deviations[j, y, x] -= line[x]
    k = d
    for i in range(d):
        for j in range(i, d):
            line[:] = 0.0
            for y in range(height):
                for x in range(across):
                    line[x] += deviations[i, y, x] * deviations[j, y, x]
            _sum_groups(line, width, out[k])
            k += 1


@compiled
def _sum_groups(line: Array, width: int, out: Array) -> None:  # pragma: no cover
    n = out.shape[0]
    groups = line.reshape(n, width)
    for c in range(n):
        total = 0.0
        for x in range(width):
            total += groups[c, x]
        out[c] = total


@compiled
def _merge(
    d: int,
    first: Array,
    n_first: float,
    second: Array,
    offset: int,
    n_second: float,
    n: int,
    out: Array,
) -> None:  # pragma: no cover
    """Merge record c of `first` with record ``c + offset`` of `second` for c < n, all (n_records, n_cells).

    `out` must be neither of them: loops over arrays that overlap are not vectorised.
    """
    share = n_second / (n_first + n_second)
    weight = n_first * share
    # slices, because an index with an offset might be negative and count from the end
    end = offset + n
    for j in range(d):
        mean, other, target = first[j, :n], second[j, offset:end], out[j, :n]
        for c in range(n):
            target[c] = mean[c] + share * (other[c] - mean[c])
    k = d
    for i in range(d):
        mean_i, other_i = first[i, :n], second[i, offset:end]
        for j in range(i, d):
            mean_j, other_j = first[j, :n], second[j, offset:end]
            scatter, other, target = first[k, :n], second[k, offset:end], out[k, :n]
            for c in range(n):
                between = weight * (other_i[c] - mean_i[c]) * (other_j[c] - mean_j[c])
                target[c] = scatter[c] + other[c] + between
            k += 1


@compiled
def _row_of_windows(
    d: int, row: Array, n_pixels: float, width: int, step: int, work: Array, out: Array
) -> None:  # pragma: no cover
    """Write the covariances (n_windows, d, d) of a row of records as high as the windows.

    `n_pixels` is the number of pixels of one record, `width` that of records in a window; `work` is
    (4, n_records, n_cells).
    """
    n = row.shape[1]
    power, span, free = row, 1, 0
    window, covered, spare = row, 0, 2
    while True:
        if width & span:
            if covered == 0:
                work[spare][:] = power
            else:
                left = n - covered - span + 1
                n_first, n_second = covered * n_pixels, span * n_pixels
                _merge(d, window, n_first, power, covered, n_second, left, work[spare])
            window, covered, spare = work[spare], covered + span, 5 - spare
        if covered == width:
            break
        half = span * n_pixels
        _merge(d, power, half, power, span, half, n - 2 * span + 1, work[free])
        power, span, free = work[free], 2 * span, 1 - free
    _write(d, window, step, 1.0 / (n_pixels * width - 1), out)


@compiled
def _write(
    d: int, records: Array, step: int, factor: float, out: Array
) -> None:  # pragma: no cover
    """Scatters of every `step`-th record times `factor` as matrices (n_windows, d, d)."""
    k = d
    for i in range(d):
        for j in range(i, d):
            for w in range(out.shape[0]):
                out[w, i, j] = records[k, w * step] * factor
            if j > i:
                for w in range(out.shape[0]):
                    out[w, j, i] = records[k, w * step] * factor
            k += 1
