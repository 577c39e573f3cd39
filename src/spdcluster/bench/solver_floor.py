"""The floor: numpy's time to evaluate all N^2 values of a Gaussian kernel once, keeping none."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import threadpool_limits

# rows and columns of a block; the fastest of them depends on the caches and on the precision
BLOCKS = ((32, 1024), (64, 512), (64, 2048), (128, 1024), (256, 1024), (256, 4096), (512, 512))
TRIED_VALUES = 2**22
TIMED_VALUES = 2**29


@dataclass(frozen=True)
class Floor:
    """Seconds for all N^2 values, and the share of the rows that was timed."""

    seconds: float
    share: float


def kernel_floor(
    vectors: NDArray[np.float64],
    dtype: DTypeLike,
    n_threads: int,
    timed_values: int = TIMED_VALUES,
) -> Floor:
    """Time ``exp(-|u - v|^2)`` for all pairs of rows of `vectors`, shape (N, p).

    The exponent ``2 u.v - |u|^2 - |v|^2`` is one matrix product of vectors with two more entries,
    written into a block that stays in the cache, and `numpy.exp` works in place on it. Threads
    take rows in turn, each with BLAS on itself alone: numpy holds no lock in either call. The
    block's shape is the fastest of a few. Of a large matrix some rows are timed, and scaled.
    """
    values = KernelValues(vectors, dtype, n_threads)
    tried = values.rows_for(TRIED_VALUES)
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        shape = min(BLOCKS, key=lambda s: best(lambda: values.evaluate(pool, s, tried), 3, 0.2))
        n_rows = values.rows_for(timed_values)
        seconds = best(lambda: values.evaluate(pool, shape, n_rows), 20, 1.0)
    share = n_rows / values.n
    return Floor(seconds / share, share)


class KernelValues:
    """All values of the kernel, evaluated block by block and overwritten."""

    def __init__(self, vectors: NDArray[np.float64], dtype: DTypeLike, n_threads: int) -> None:
        squares = np.einsum("ij,ij->i", vectors, vectors)[:, np.newaxis]
        ones = np.ones_like(squares)
        self.left = np.hstack([2.0 * vectors, -squares, ones]).astype(dtype)
        self.right = np.hstack([vectors, ones, -squares]).astype(dtype)
        self.n, self.n_threads = len(vectors), n_threads

    def rows_for(self, n_values: int) -> int:
        """How many rows have about `n_values` values, or all rows."""
        return min(self.n, max(64 * self.n_threads, n_values // self.n))

    def evaluate(
        self,
        pool: ThreadPoolExecutor,
        shape: tuple[int, int],
        n_rows: int,
        keep: Callable[[slice, slice, NDArray[Any]], None] | None = None,
    ) -> None:
        """Evaluate the first `n_rows` rows in blocks; `keep` sees each one, for tests."""
        height = max(1, min(shape[0], -(-n_rows // self.n_threads)))
        starts = range(0, n_rows, height)

        def work(share: range) -> None:
            buffer = np.empty((height, min(shape[1], self.n)), self.left.dtype)
            for start in share:
                rows = slice(start, min(start + height, n_rows))
                for first in range(0, self.n, shape[1]):
                    columns = slice(first, min(first + shape[1], self.n))
                    block = buffer[: rows.stop - start, : columns.stop - first]
                    np.matmul(self.left[rows], self.right[columns].T, out=block)
                    np.exp(block, out=block)
                    if keep is not None:
                        keep(rows, columns, block)

        list(pool.map(work, [starts[k :: self.n_threads] for k in range(self.n_threads)]))


def best(function: Callable[[], object], most: int, seconds: float) -> float:
    """The shortest of up to `most` calls that begin within some seconds."""
    times: list[float] = []
    while len(times) < most and sum(times) < seconds:
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)
