"""Runs row chunks on threads: progress with rate and time left, and a prompt stop on Ctrl-C."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
    crew = _Crew(work, tasks, min(n_jobs, len(tasks)), report=bar is not None)
    with single_threaded_blas():
        try:
            for task in crew.finished():
                if bar is not None:
                    bar.update(counts[task])
        except BaseException:
            if stop is not None:
                stop[0] = True
            raise
        finally:
            crew.dismiss()
            if bar is not None:
                bar.close()
    return crew.results


class _Crew(Generic[Task, Result]):
    """Threads that take tasks in turn until there are none: a fourth of the cost of a pool with futures."""

    def __init__(
        self,
        work: Callable[[Task], Result],
        tasks: Sequence[Task],
        n_threads: int,
        report: bool,
    ) -> None:
        self.work, self.tasks, self.report = work, tasks, report
        self.results: list[Any] = [None] * len(tasks)
        self.todo: SimpleQueue[int] = SimpleQueue()
        self.news: SimpleQueue[int | BaseException | None] = SimpleQueue()
        for task in range(len(tasks)):
            self.todo.put(task)
        self.threads = [Thread(target=self._labour) for _ in range(n_threads)]

    def finished(self) -> Iterator[int]:
        """Start, and wait for the end: the tasks as they are done, if wanted, or the first failure."""
        for thread in self.threads:
            thread.start()
        at_work = len(self.threads)
        while at_work:
            try:
                # no wait without an end: some systems hear no Ctrl-C in it
                news = self.news.get(timeout=0.2)
            except Empty:
                continue
            if isinstance(news, BaseException):
                raise news
            if news is None:
                at_work -= 1
            else:
                yield news

    def dismiss(self) -> None:
        """Begin no further task; wait for those under way."""
        with suppress(Empty):
            while True:
                self.todo.get_nowait()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    def _labour(self) -> None:
        while True:
            try:
                task = self.todo.get_nowait()
            except Empty:
                self.news.put(None)
                return
            try:
                self.results[task] = self.work(self.tasks[task])
            except BaseException as failure:
                self.news.put(failure)
                return
            if self.report:
                self.news.put(task)


def progress_bar(total: int, description: str, unit: str) -> "tqdm":
    """A bar on standard error with rate and time left, gone at the end."""
    from tqdm import tqdm

    return tqdm(total=total, desc=description, unit=f" {unit}", leave=False, mininterval=0.5)
