"""Runs row chunks on threads: progress with rate and time left, and a prompt stop on Ctrl-C."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from spdcluster.blas import single_threaded_blas

if TYPE_CHECKING:
    from tqdm import tqdm

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_chunks(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    n_jobs: int,
    sizes: Iterable[int] | None = None,
    description: str = "",
    verbose: int = 0,
    stop: NDArray[np.bool_] | None = None,
) -> list[Result]:
    """``[work(task) for task in tasks]`` on `n_jobs` threads, in order.

    The compiled work releases the GIL, so that threads run in parallel and the main thread stays free
    to hear Ctrl-C: then ``stop[0]`` becomes True, which compiled loops look at row by row, so that tasks
    under way end soon, and the others are never begun. BLAS runs on one thread meanwhile. `sizes` counts the rows of each task for the progress bar.
    """
    if len(tasks) == 1 and not verbose:
        with single_threaded_blas():
            return [work(task) for task in tasks]
    counts = list(sizes) if sizes is not None else [1] * len(tasks)
    bar = progress_bar(int(np.sum(counts)), description, "rows") if verbose else None
    with single_threaded_blas(), ThreadPoolExecutor(n_jobs) as pool:
        futures = [pool.submit(work, task) for task in tasks]
        try:
            _follow(futures, counts, bar)
        except BaseException:
            if stop is not None:
                stop[0] = True
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            if bar is not None:
                bar.close()
    return [future.result() for future in futures]


def _follow(futures: Sequence[Future[Result]], counts: Sequence[int], bar: "tqdm | None") -> None:
    count_of = dict(zip(futures, counts, strict=True))
    pending: set[Future[Result]] = set(futures)
    while pending:
        # no wait without an end: some systems hear no Ctrl-C in it
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()  # a failure ends the run at once
            if bar is not None:
                bar.update(count_of[future])


def progress_bar(total: int, description: str, unit: str) -> "tqdm":
    """A bar on standard error with rate and time left, gone at the end."""
    from tqdm import tqdm

    return tqdm(total=total, desc=description, unit=f" {unit}", leave=False, mininterval=0.5)
