"""Sparse coding of each matrix in its own tangent space (Ho, Xie, Vemuri 2013; the paper's eq. (2))."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.arguments import check_int, check_n_jobs, check_real
from spdcluster.expression.certificate import relative
from spdcluster.expression.solve import Expression
from spdcluster.expression.ssc import DEFAULT_MAX_ITER, VIOLATION, warn_unfinished
from spdcluster.expression.threads import run_chunks
from spdcluster.geometry import log_vectors

ROWS_PER_TASK = 16
# squared lengths of tangent vectors that count for nothing, relative to alpha
NEGLIGIBLE = 1e-9


def tangent_expression(
    X: NDArray[Any],
    *,
    alpha: float,
    n_neighbors: int | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Expression:
    """Code zero in the tangent space of each matrix by the others, with weights that sum to one.

    ``min_w  alpha |w|_1 + |sum_j w_j log_{X_i}(X_j)|^2_{X_i}``, ``sum_j w_j = 1``, ``w_i = 0``, under the
    affine-invariant metric. N (N - 1) logarithms of d x d matrices, or N m with m neighbours.

    Parameters
    ----------
    X : ndarray, shape (n_matrices, d, d)
        Symmetric or Hermitian positive definite.
    alpha : float
        The paper's lambda.
    n_neighbors : int or None
        Code by so many log-Euclidean nearest neighbours only; None: by all other matrices.
    tol : float
        The relative duality gap that each row must reach.
    max_iter : int or None
        Steps of the active set a row.

    Returns
    -------
    Expression
        Its gap certifies each row among the matrices that it was allowed to use.
    """
    from spdcluster.expression.constrained_lasso import as_sparse, solve_code
    from spdcluster.expression.tangent_vectors import inverse_factors, lanes_last, tangent_vectors

    alpha = check_real(alpha, "alpha", low=0.0, low_open=True)
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    steps = DEFAULT_MAX_ITER if max_iter is None else check_int(max_iter, "max_iter", low=1)
    jobs = check_n_jobs(n_jobs)
    n = len(X)
    neighbors = None
    if n_neighbors is not None:
        n_neighbors = check_int(n_neighbors, "n_neighbors", low=1)
        if n_neighbors < n - 1:
            neighbors = _nearest(log_vectors(X, n_jobs=n_jobs), n_neighbors)
    matrices = lanes_last(X)
    whiteners = inverse_factors(matrices)
    scale = np.sqrt(0.5) if np.iscomplexobj(X) else 1.0
    no_gram = np.zeros((0, 0))
    d = len(matrices)
    capacity = min(n, d * (d + 1) // 2 + 1) + 2

    def solve(rows: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        size, taken = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        indices = np.zeros((len(rows), capacity), np.int64)
        weights, values = np.zeros((len(rows), capacity)), np.zeros((len(rows), 2))
        factor = np.zeros((capacity, capacity))
        for t, i in enumerate(rows):
            used = None if neighbors is None else neighbors[i]
            chosen = matrices if used is None else np.ascontiguousarray(matrices[:, :, used])
            own = int(i) if used is None else -1
            atoms, target, start = _with_constraint(
                tangent_vectors(whiteners[i], chosen, scale), own, alpha
            )
            size[t], values[t, 0], values[t, 1], taken[t] = solve_code(
                atoms, target, no_gram, np.ones(atoms.shape[1]), alpha, own, start, VIOLATION,
                steps, factor, indices[t], weights[t],
            )  # fmt: skip
            if used is not None:
                indices[t, : size[t]] = used[indices[t, : size[t]]]
        return size, indices, weights, values, taken

    tasks = [np.arange(s, min(n, s + ROWS_PER_TASK)) for s in range(0, n, ROWS_PER_TASK)]
    results = run_chunks(
        solve,
        tasks,
        n_jobs=jobs,
        sizes=[len(rows) for rows in tasks],
        description="tangent spaces",
        verbose=verbose,
    )
    sizes, indices, weights, values, taken = map(np.concatenate, zip(*results))
    coef: csr_array = as_sparse(sizes, indices, weights, n)
    gap = relative(values[:, 1], values[:, 0])
    most = int(taken.max())
    warn_unfinished(gap, tol, most)
    return Expression(coef, np.full(n, alpha), values[:, 0], gap, most, bool((gap <= tol).all()))


def _with_constraint(
    vectors: NDArray[np.float64], own: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Atoms (p + 1, n) and target (p + 1,) with the constraint's coordinate, and the nearest atom."""
    squared = np.einsum("pn,pn->n", vectors, vectors)
    # the objective is alpha or more: next to it the rounding of logarithms of copies is nothing
    coordinate = np.sqrt(max(float(squared.mean()), NEGLIGIBLE * alpha))
    atoms = np.vstack([vectors, np.full(len(squared), coordinate)])
    target = np.zeros(len(atoms))
    target[-1] = coordinate
    if own >= 0:
        squared[own] = np.inf
    return atoms, target, int(squared.argmin())


def _nearest(vectors: NDArray[Any], n_neighbors: int) -> NDArray[np.int64]:
    """The nearest other points of each, in increasing order of index: (n, n_neighbors)."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=n_neighbors).fit(vectors)
    return np.sort(search.kneighbors(return_distance=False), axis=1)
