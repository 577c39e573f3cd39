"""Covariances of overlapping windows, at a cost that does not depend on the window's size.

The integral image of the literature (Tuzel, Porikli, Meer, ECCV 2006) takes differences of sums
that run over the whole image, and loses digits where a window's own variance is small. Here
nothing is ever subtracted. The image is cut into cells, the largest rectangles of which every
window is made; a cell's record is its mean and its scatter about that mean; records merge by

    mean = mean_1 + n_2 / n * delta,   scatter = scatter_1 + scatter_2 + n_1 n_2 / n delta delta^T,

with ``delta = mean_2 - mean_1``. A run of `a` cells that starts inside a block of `a` cells is the
rest of that block and the beginning of the next one; both are built once, cell by cell, so that
each window costs one merge along each axis, however many cells it has.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def sliding_covariances(
    features: np.ndarray,
    cell: tuple[int, int],
    cells: tuple[int, int],
    step: tuple[int, int],
    lattice: tuple[int, int],
    out: np.ndarray,
) -> None:
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
    deltas = np.empty((d, n_across))
    for t in range(height):
        _row_of_cells(features, t, cell, ring[t])
    last = (lattice[0] - 1) * step[0]
    for start in range(last + 1):
        t = start % height
        if t == 0:
            for q in range(height - 2, -1, -1):
                _merge_rows(d, ring[q], size, ring[q + 1], (height - 1 - q) * size, ring[q], deltas)
        if start % step[0] == 0:
            first = start // step[0] * n_columns
            row = ring[0]
            if t > 0:
                _merge_rows(d, ring[t], (height - t) * size, beginning, t * size, merged, deltas)
                row = merged
            target = out[first : first + n_columns]
            _row_of_windows(d, row, size * height, cells[1], step[1], target)
        if start < last:
            _row_of_cells(features, start + height, cell, ring[t])
            if t == 0:
                beginning[:] = ring[0]
            else:
                _merge_rows(d, beginning, t * size, ring[t], size, beginning, deltas)


@njit(nogil=True, cache=True, error_model="numpy")
def _row_of_cells(features: np.ndarray, row: int, cell: tuple[int, int], out: np.ndarray) -> None:
    """Write mean and scatter (d + d (d + 1) / 2, n_cells) of one row of cells."""
    d = features.shape[0]
    height, width = cell
    n_cells = out.shape[1]
    across = n_cells * width
    deviations = np.empty((d, height, across))
    line = np.empty(across)
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


@njit(nogil=True, cache=True, error_model="numpy")
def _sum_groups(line: np.ndarray, width: int, out: np.ndarray) -> None:
    for c in range(out.shape[0]):
        total = 0.0
        for x in range(c * width, (c + 1) * width):
            total += line[x]
        out[c] = total


@njit(nogil=True, cache=True, error_model="numpy")
def _merge_rows(
    d: int,
    first: np.ndarray,
    n_first: float,
    second: np.ndarray,
    n_second: float,
    out: np.ndarray,
    deltas: np.ndarray,
) -> None:
    """Merge two rows of records (n_records, n_cells); `out` may be either of them."""
    n_cells = first.shape[1]
    share = n_second / (n_first + n_second)
    weight = n_first * share
    for j in range(d):
        for c in range(n_cells):
            deltas[j, c] = second[j, c] - first[j, c]
            out[j, c] = first[j, c] + share * deltas[j, c]
    k = d
    for i in range(d):
        for j in range(i, d):
            for c in range(n_cells):
                between = weight * deltas[i, c] * deltas[j, c]
                out[k, c] = first[k, c] + second[k, c] + between
            k += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _merge_records(
    d: int,
    first: np.ndarray,
    n_first: float,
    second: np.ndarray,
    n_second: float,
    out: np.ndarray,
    delta: np.ndarray,
) -> None:
    """Merge two records (n_records,); `out` may be either of them."""
    share = n_second / (n_first + n_second)
    weight = n_first * share
    for j in range(d):
        delta[j] = second[j] - first[j]
        out[j] = first[j] + share * delta[j]
    k = d
    for i in range(d):
        weighted = weight * delta[i]
        for j in range(i, d):
            out[k] = first[k] + second[k] + weighted * delta[j]
            k += 1


@njit(nogil=True, cache=True, error_model="numpy")
def _row_of_windows(
    d: int, row: np.ndarray, n_pixels: float, width: int, step: int, out: np.ndarray
) -> None:
    """Write the covariances (n_windows, d, d) of a row of records as high as the windows.

    `n_pixels` is the number of pixels of one record, `width` that of records in a window.
    """
    n_across = row.shape[1]
    rest, beginning = row.T.copy(), row.T.copy()
    record, delta = np.empty(row.shape[0]), np.empty(d)
    for c in range(n_across):
        t = c % width
        if t > 0:
            _merge_records(
                d, beginning[c - 1], t * n_pixels, beginning[c], n_pixels, beginning[c], delta
            )
    for c in range(n_across - 2, -1, -1):
        t = c % width
        n_right = min(n_across, c - t + width) - 1 - c
        if n_right > 0:
            _merge_records(d, rest[c], n_pixels, rest[c + 1], n_right * n_pixels, rest[c], delta)
    for window in range(out.shape[0]):
        c = window * step
        t = c % width
        if t == 0:
            record[:] = rest[c]
        else:
            tail = beginning[c + width - 1]
            _merge_records(d, rest[c], (width - t) * n_pixels, tail, t * n_pixels, record, delta)
        k = d
        for i in range(d):
            for j in range(i, d):
                out[window, i, j] = record[k] / (n_pixels * width - 1)
                out[window, j, i] = out[window, i, j]
                k += 1
