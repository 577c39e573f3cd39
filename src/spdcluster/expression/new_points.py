"""Codes of new points on the training set, and how well each class explains them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_n_jobs
from spdcluster.expression.solve import DEFAULT_MEMORY_BUDGET
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import Gram

ROWS_PER_TASK = 256
MAX_ROUNDS = 1000


def class_residuals(
    gram: Gram,
    features: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    alpha: float,
    alpha_mode: str = "absolute",
    l1_ratio: float = 1.0,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    n_jobs: int | None = None,
) -> NDArray[np.float64]:
    """How far each new point is from what the members of each class contribute to its code.

    Each point x is coded on all N training points with the objective of `self_expression`; the
    residual of a class is ``|phi(x) - sum_{j in class} c_j phi_j|^2``.

    Parameters
    ----------
    gram : Gram
        On the training set.
    features : ndarray, shape (n_new, ...)
        ``kernel.features(X_new)``.
    labels : ndarray of int, shape (N,)
        Class of each training point, 0 to n_classes - 1.

    Returns
    -------
    residuals : ndarray, shape (n_new, n_classes)
        Where a code is zero, the squared distance to the nearest member of each class instead.
    """
    from spdcluster.expression.active_set import explain
    from spdcluster.expression.columns import ColumnTile

    jobs = check_n_jobs(n_jobs)
    n = gram.n
    K = gram.dense(jobs) if 8.0 * n**2 <= memory_budget else None
    diagonal, stop = gram.diagonal(), np.zeros(1, np.bool_)
    n_classes = int(labels.max()) + 1

    def solve(rows: slice) -> NDArray[np.float64]:
        k, own = gram.new_rows(features[rows])
        alphas = np.full(len(k), alpha)
        if alpha_mode == "relative":
            largest = np.abs(k).max(axis=1)
            alphas *= 2.0 * np.where(largest > 0, largest, 1.0) / l1_ratio
        tile = ColumnTile(
            gram, diagonal, lambda part: k[:, part], np.full(len(k), -1), own,
            alphas * l1_ratio / 2.0, alphas * (1.0 - l1_ratio) / 2.0, MAX_ROUNDS, stop,
        )  # fmt: skip
        if K is None:
            tile.solve()
        else:
            tile.solve_on_all(K, k)
        residuals = own[:, None] + explain(
            tile.K, tile.k, tile.sizes, tile.atoms, tile.c, labels[tile.columns], n_classes
        )
        is_coded = tile.sizes > 0
        lost = np.flatnonzero(~is_coded)
        if len(lost):
            distance = own[lost, None] + diagonal - 2.0 * k[lost]
            for label in range(n_classes):
                residuals[lost, label] = distance[:, labels == label].min(axis=1)
        return residuals

    starts = range(0, len(features), ROWS_PER_TASK)
    tasks = [slice(start, start + ROWS_PER_TASK) for start in starts]
    return np.concatenate(run_chunks(solve, tasks, n_jobs=jobs, stop=stop))
