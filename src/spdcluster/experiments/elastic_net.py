"""Elastic-net subspace clustering of log vectors as its authors ship it, path stopped early."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

# The authors' parameters: penalty = max_j |<x_i, x_j>| / (TAU GAMMA), shared by the two norms; the
# largest entries that a code keeps.
GAMMA, TAU, KEPT = 50.0, 0.9, 50


def has_spams() -> bool:
    """Whether the package SPAMS is installed, whose LARS the method is made of."""
    return find_spec("spams") is not None


def elastic_net_codes(X: NDArray[Any], n_jobs: int | None = None) -> csr_array:
    """Codes of unit log vectors by SPAMS' LARS, which stops after min(p, n) steps by default.

    On short vectors that is long before the optimum: after 15 steps on 5 x 5 covariances. What the
    method makes of textures depends on it.

    Parameters
    ----------
    X : ndarray, shape (n_matrices, d, d)

    Returns
    -------
    csr_array, shape (n_matrices, n_matrices)

    References
    ----------
    C. You, C.-G. Li, D. Robinson, R. Vidal. Oracle Based Active Set Algorithm for Scalable Elastic Net
    Subspace Clustering. CVPR 2016.
    """
    import spams

    from spdcluster.geometry import log_vectors

    vectors = log_vectors(X, n_jobs=n_jobs)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = np.abs(vectors @ vectors.T)
    np.fill_diagonal(likeness, 0.0)
    penalties = likeness.max(axis=1) / (TAU * GAMMA)
    points = np.asfortranarray(vectors.T)
    codes = []
    for i, penalty in enumerate(penalties):
        point = points[:, i].copy()
        points[:, i] = 0.0
        code = spams.lasso(
            point[:, np.newaxis],
            D=points,
            lambda1=TAU * penalty,
            lambda2=(1.0 - TAU) * penalty,
            numThreads=1,
        )
        points[:, i] = point
        codes.append(_largest(np.asarray(code.todense()).ravel(), KEPT))
    return csr_array(np.array(codes))


def _largest(code: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    kept = np.zeros_like(code)
    order = np.argsort(-np.abs(code), kind="stable")[:count]
    kept[order] = code[order]
    return kept
