"""Agreement of a clustering with known classes, up to the names of the clusters."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    r"""Fraction of points labelled rightly under the best renaming of the clusters.

    .. math:: \mathrm{ACC} = \max_\pi \frac1N \sum_i 1[y_i = \pi(\hat y_i)],

    where :math:`\pi` maps clusters to classes one to one; the Hungarian algorithm finds it. When
    there are more clusters than classes, the points of clusters left over count as wrong.

    Parameters
    ----------
    y_true : array-like of shape (n_matrices,)
        Known classes: integers, strings or any labels that can be sorted.
    y_pred : array-like of shape (n_matrices,)
        Clusters found; their names and their number need not be those of the classes.

    Returns
    -------
    float
        Accuracy in [0, 1]; 1 if and only if both are the same partition.
    """
    _, _, table = _contingency(y_true, y_pred)
    classes, clusters = _best_matching(table)
    return float(table[classes, clusters].sum() / table.sum())


def match_labels(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[Any]:
    """Rename the clusters to the classes they match best.

    The matching is that of :func:`clustering_accuracy`, so that
    ``np.mean(match_labels(y_true, y_pred) == y_true)`` is the accuracy.

    Parameters
    ----------
    y_true : array-like of shape (n_matrices,)
        Known classes.
    y_pred : array-like of shape (n_matrices,)
        Clusters found.

    Returns
    -------
    ndarray of shape (n_matrices,)
        `y_pred` in the names of `y_true`. Clusters without a class (when there are more clusters
        than classes) get names that no class has: the numbers after the largest class, or
        ``"unmatched 1"``, ``"unmatched 2"``, ... where the classes are not numbers.
    """
    names, codes, table = _contingency(y_true, y_pred)
    classes, clusters = _best_matching(table)
    n_clusters = table.shape[1]
    left_over = np.setdiff1d(np.arange(n_clusters), clusters)
    fresh = _unused_names(names, len(left_over))
    renamed = np.empty(n_clusters, dtype=np.result_type(names, fresh))
    renamed[clusters] = names[classes]
    renamed[left_over] = fresh
    return renamed[codes]


def _best_matching(table: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    from scipy.optimize import linear_sum_assignment

    classes, clusters = linear_sum_assignment(table, maximize=True)
    return classes, clusters


def _contingency(
    y_true: ArrayLike, y_pred: ArrayLike
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.int64]]:
    """Class names, cluster number of every point, and counts (n_classes, n_clusters)."""
    names, true_codes = _encode(y_true, "y_true")
    clusters, pred_codes = _encode(y_pred, "y_pred")
    if len(true_codes) != len(pred_codes):
        raise ValueError(
            "y_true and y_pred must have one label each for the same points; "
            f"got {len(true_codes)} and {len(pred_codes)} labels"
        )
    shape = (len(names), len(clusters))
    cells = np.ravel_multi_index((true_codes, pred_codes), shape)
    return names, pred_codes, np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _encode(labels: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    try:
        labels = np.asarray(labels)
    except ValueError as error:
        raise ValueError(f"{name} must be a 1-D sequence of labels; got a ragged one") from error
    if labels.ndim != 1:
        raise ValueError(f"{name} must be a 1-D array of labels; got shape {labels.shape}")
    if labels.size == 0:
        raise ValueError(f"{name} must hold at least one label; got none")
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError(
            f"{name} must hold no NaN or infinity; give those points a label or drop them"
        )
    try:
        names, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise TypeError(
            f"{name} must hold labels of one sortable type (all numbers or all strings); got a mixture"
        ) from error
    return names, codes


def _unused_names(names: NDArray[Any], count: int) -> NDArray[Any]:
    if names.dtype.kind == "b":
        return np.arange(2, 2 + count)
    if names.dtype.kind in "iuf":
        return np.floor(names[-1]).astype(names.dtype) + np.arange(1, 1 + count, dtype=names.dtype)
    taken = set(names.tolist())
    fresh = (f"unmatched {i}" for i in range(1, 1 + count + len(taken)))
    free = [name for name in fresh if name not in taken][:count]
    return np.array(free, dtype=object if names.dtype.kind == "O" else str)
