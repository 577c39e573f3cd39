"""What a fit of each method costs beside `KernelSSC`'s, and beside the linear algebra that it cannot avoid.

All on one thread and in one run, the best of a few, in CPU seconds: on an idle machine those of the clock
on the wall, and on a busy one they leave out the time that others had. A floor is the time of bare library calls on arrays
that lie ready in memory:

* "code": what the code alone needs, the singular values of the data or the eigenvectors of the Gram
  matrix that count;
* "fit": that, and the leading eigenvectors of the normalised graph, which low-rank codes leave full;
* TangentSSC: the N^2 logarithms, without the codes.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import spdcluster
from spdcluster.experiments.methods import Method
from spdcluster.expression.kernel_lrr import kernel_lrr
from spdcluster.expression.lrr import lrr
from spdcluster.expression.lrsc import lrsc
from spdcluster.kernels.gram import DenseGram

REFERENCE = "KernelSSC, defaults"
# how often a fit of KernelSSC's time a method may take, and how often its floor
TARGET_FIT, TARGET_FLOOR = 30.0, 5.0
REPETITIONS = 5
# no further repetition of what has taken so long
ENOUGH_SECONDS = 2.0
Row = dict[str, Any]


def floors(
    methods: Sequence[Method], X: NDArray[Any], n_clusters: int, *, quiet: bool = True
) -> list[Row]:
    """Time whole fits and codes of `methods` on matrices, shape (n_matrices, d, d).

    Returns
    -------
    list of dict
        One row for the fit of each method: ``seconds``, and ``times_kernel_ssc``, its ratio to the
        fit of KernelSSC with its default parameters. Where there is a floor: ``floor`` (what it is),
        ``floor_seconds``, their ``ratio``, the ``target`` and whether it is ``met``. LRR, LRSC and
        KernelLRR have a second row, for the code alone.
    """
    from tqdm import tqdm

    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in tqdm(methods, desc="floors", unit="method", disable=quiet):
            seconds = best_time(partial(method.fit, X, n_clusters, 0, 1))
            row = {"method": method.name, "n_points": len(X), "what": "fit", "seconds": seconds}
            rows.append(row)
            rows += _beside_floors(row, method, X, n_clusters)
    reference = next((r["seconds"] for r in rows if r["method"] == REFERENCE), None)
    for row in rows:
        if reference is not None and row["what"] == "fit":
            row["times_kernel_ssc"] = row["seconds"] / reference
    return rows


def best_time(function: Callable[[], Any]) -> float:
    """The least of a few times in seconds; of one, if that takes long."""
    times: list[float] = []
    while len(times) < REPETITIONS and sum(times) < ENOUGH_SECONDS:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def _beside_floors(row: Row, method: Method, X: NDArray[Any], n_clusters: int) -> list[Row]:
    """Complete the row of a fit in place; return the row of the code alone where there is one."""
    if method.estimator == "TangentSSC" and "n_neighbors" not in method.parameters:
        _compare(row, "its N^2 logarithms once", best_time(lambda: _logarithms(X)))
        return []
    if method.estimator not in ("LRR", "LRSC", "KernelLRR"):
        return []
    model = getattr(spdcluster, method.estimator)(n_clusters, random_state=0, **method.parameters)
    model.fit(X)
    graph = _normalised(model.affinity_.toarray())
    cut = best_time(lambda: _leading_eigenvectors(graph, n_clusters))
    vectors = X.reshape(len(X), -1)
    if method.estimator == "KernelLRR":
        gram = DenseGram(model.kernel_.bind(X).dense())
        floor = "the eigenvectors of the Gram matrix that count"
        needed = best_time(lambda: _leading_eigenvectors(gram.matrix, model.rank_))
        seconds = best_time(lambda: kernel_lrr(gram, tau=model.tau_))
    else:
        floor = "one SVD of the data"
        needed = best_time(lambda: np.linalg.svd(vectors, full_matrices=False))
        if method.estimator == "LRR":
            seconds = best_time(lambda: lrr(vectors, lam=model.lam_))
        else:
            seconds = best_time(lambda: lrsc(vectors, **method.parameters))
    code = {"method": method.name, "n_points": len(X), "what": "code", "seconds": seconds}
    _compare(code, floor, needed)
    _compare(row, f"{floor}, the eigenvectors of the graph", needed + cut)
    return [code]


def _compare(row: Row, floor: str, floor_seconds: float) -> None:
    ratio = row["seconds"] / floor_seconds
    row |= {"floor": floor, "floor_seconds": floor_seconds, "ratio": ratio}
    row |= {"target": TARGET_FLOOR, "met": ratio <= TARGET_FLOOR}


def _logarithms(X: NDArray[Any]) -> None:
    from spdcluster.expression.tangent_vectors import inverse_factors, lanes_last, tangent_vectors

    matrices = lanes_last(X)
    for whitener in inverse_factors(matrices):
        tangent_vectors(whitener, matrices, 1.0)


def _normalised(W: NDArray[np.float64]) -> NDArray[np.float64]:
    degrees = W.sum(axis=1)
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    return W / root / root[:, None]


def _leading_eigenvectors(A: NDArray[np.float64], count: int) -> None:
    scipy.linalg.eigh(A, subset_by_index=(len(A) - count, len(A) - 1))
