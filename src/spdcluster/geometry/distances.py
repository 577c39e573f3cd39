"""Distances between positive definite matrices."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from spdcluster.arguments import check_choice
from spdcluster.geometry.checks import check_matrices
from spdcluster.geometry.logarithm import log_vectors

METRICS = ("log-euclidean", "affine-invariant", "stein")


def distances(
    X: ArrayLike, Y: ArrayLike | None = None, metric: str = "log-euclidean"
) -> NDArray[Any]:
    """Pairwise distances between two sets of positive definite matrices.

    Parameters
    ----------
    X : array-like, shape (n_matrices_X, d, d)
    Y : array-like, shape (n_matrices_Y, d, d), or None for `X` itself
    metric : {"log-euclidean", "affine-invariant", "stein"}
        ``|log X - log Y|_F``; the paper's eq. (3), ``|log(X^-1/2 Y X^-1/2)|_F``; or the square root of
        the Stein divergence (JBLD) ``log|(X + Y)/2| - log|XY|/2``.

    Returns
    -------
    distances : ndarray, shape (n_matrices_X, n_matrices_Y)
    """
    check_choice(metric, "metric", METRICS)
    X = check_matrices(X)
    Y = X if Y is None else check_matrices(Y, name="Y")
    check_same_size(X, Y)
    if metric == "log-euclidean":
        # a symmetric matrix beside Hermitian ones is a Hermitian one
        dtype = np.result_type(X, Y, np.float64)
        logs_X = log_vectors(X.astype(dtype))
        return cdist(logs_X, logs_X if Y is X else log_vectors(Y.astype(dtype), name="Y"))
    if metric == "affine-invariant":
        return _affine_invariant(X, Y)
    return np.sqrt(stein_divergences(X, Y))


def stein_divergences(X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """``log|(X_i + Y_j)/2| - log|X_i|/2 - log|Y_j|/2``, shape (n_matrices_X, n_matrices_Y)."""
    X, Y = _double(X), _double(Y)
    # one factor for both sets leaves the divergence as it is and keeps the sums in range
    scale = max(np.abs(X).max(), np.abs(Y).max())
    X, Y = X / scale, Y / scale
    half_X, half_Y = np.linalg.slogdet(X)[1] / 2, np.linalg.slogdet(Y)[1] / 2
    out = np.empty((len(X), len(Y)))
    step = max(1, 2**20 // Y.size)
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        out[part] = np.linalg.slogdet((X[part, None] + Y) / 2)[1]
    out -= half_X[:, None]
    out -= half_Y
    return np.maximum(out, 0.0)


def check_same_size(X: NDArray[Any], Y: NDArray[Any]) -> None:
    """Raise if the two sets hold matrices of different sizes."""
    if X.shape[1:] != Y.shape[1:]:
        raise ValueError(
            f"Y must hold matrices of the size of X, {X.shape[1:]}; got shape {Y.shape}"
        )


def _affine_invariant(X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    from pyriemann.geometry.distance import pairwise_distance

    X, Y = _double(X), _double(Y)
    # affine invariance lets each pair share a factor; one for all keeps 1e-26 away from underflow
    scale = max(np.abs(X).max(), np.abs(Y).max())
    return np.asarray(pairwise_distance(X / scale, Y / scale, metric="riemann"))


def _double(X: NDArray[Any]) -> NDArray[Any]:
    return X.astype(np.complex128 if np.iscomplexobj(X) else np.float64, copy=False)
