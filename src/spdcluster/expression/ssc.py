"""Sparse subspace clustering on vectors: noise, sparse outliers and the affine constraint, solved exactly.

With ``alpha = 2 / lambda_z`` the objective of Elhamifar and Vidal (2013), times alpha, is

    alpha (|c|_1 + |u|_1) + |x_i - sum_j c_j x_j - u / lambda_e|^2,      c_i = 0  [, sum_j c_j = 1],

so that the outlier entries ``o = u / lambda_e`` are codes on D more atoms, the scaled unit vectors, and
the affine constraint is one linear equation: both are the same sparse coding problem on a larger Gram
matrix. Without either it is the self-expression of the linear kernel.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from spdcluster.arguments import check_bool, check_int, check_n_jobs, check_real
from spdcluster.expression.certificate import relative
from spdcluster.expression.solve import Expression, self_expression
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels import make_kernel

DEFAULT_MAX_ITER = 20_000
ROWS_PER_TASK = 32
# violation of the optimality conditions, relative to alpha, at which a row stops
VIOLATION = 1e-10


@dataclass(frozen=True)
class SSCExpression:
    """Codes of sparse subspace clustering.

    Attributes
    ----------
    codes : Expression
        Its objective is ``|c|_1 + lambda_e |o|_1 + lambda_z/2 |x - c.X - o|^2`` of each row.
    outliers : csr_array, shape (N, D), or None
        The sparse outlier entries o of each row.
    """

    codes: Expression
    outliers: csr_array | None


def noise_scale(X: NDArray[Any]) -> float:
    """``mu_z = min_i max_{j != i} |x_i.x_j|``: ``lambda_z = alpha / mu_z`` with alpha > 1 gives every row a code.

    Rows orthogonal to all others up to rounding, which no weight gives a code, do not count; one if all are.
    """
    smallest = np.inf
    lengths = np.linalg.norm(X, axis=1)
    rounding = X.shape[1] * np.finfo(np.float64).eps * lengths
    for start in range(0, len(X), 512):
        products = np.abs(X[start : start + 512] @ X.T)
        rows = np.arange(len(products))
        products[rows, start + rows] = 0.0
        related = (products > rounding[start + rows, None] * lengths).any(axis=1)
        smallest = min(smallest, float(products[related].max(axis=1).min(initial=np.inf)))
    return smallest if np.isfinite(smallest) else 1.0


def outlier_scale(X: NDArray[Any]) -> float:
    """``mu_e = min_i max_{j != i} |x_j|_1``: the second largest l1 norm of the rows; one if that is zero."""
    return float(np.partition(np.abs(X).sum(axis=1), -2)[-2]) or 1.0


def ssc(
    X: NDArray[Any],
    *,
    lambda_z: float,
    lambda_e: float | None = None,
    affine: bool = False,
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SSCExpression:
    """Code every row of `X` by the others.

    Parameters
    ----------
    X : ndarray, shape (N, D)
    lambda_z : float
        Weight of the noise term ``|e|^2 / 2``.
    lambda_e : float or None
        Weight of the outlier term ``|o|_1``; None leaves it out.
    affine : bool
        Require the code of each row to sum to one.
    tol : float
        The relative duality gap that each row must reach.
    max_iter : int or None
        Steps of the active set a row.

    Returns
    -------
    SSCExpression
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    lambda_z = check_real(lambda_z, "lambda_z", low=0.0, low_open=True)
    check_bool(affine, "affine")
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    # the solver's own numbers are absolute, the data's scale is not: that of most rows, far from any outlier
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))
    size = float(np.median(lengths)) or float(lengths.max()) or 1.0
    X = X / size
    alpha = 2.0 / (lambda_z * size * size)
    if lambda_e is None and not affine:
        gram = make_kernel("linear").bind(X)
        codes = self_expression(
            gram, alpha=alpha, tol=tol, max_iter=max_iter, n_jobs=n_jobs, verbose=verbose
        )
        return SSCExpression(replace(codes, objective=codes.objective / alpha), None)
    atoms = X
    if lambda_e is not None:
        lambda_e = check_real(lambda_e, "lambda_e", low=0.0, low_open=True) * size
        atoms = np.vstack([X, np.eye(X.shape[1]) / lambda_e])
    steps = DEFAULT_MAX_ITER if max_iter is None else check_int(max_iter, "max_iter", low=1)
    codes = _solve(X, atoms, alpha, affine, tol, steps, check_n_jobs(n_jobs), verbose)
    n = len(X)
    outliers = None
    if lambda_e is not None:
        outliers = csr_array(codes.coef[:, n:] * (size / lambda_e))
    return SSCExpression(replace(codes, coef=csr_array(codes.coef[:, :n])), outliers)


def _solve(
    X: NDArray[np.float64],
    atoms: NDArray[np.float64],
    alpha: float,
    affine: bool,
    tol: float,
    max_iter: int,
    n_jobs: int,
    verbose: int,
) -> Expression:
    """Codes (N, n_atoms) of the rows of `X`, the first N atoms, by the constrained active set."""
    from spdcluster.expression.constrained_lasso import as_sparse, solve_codes

    n = len(X)
    gram = atoms @ atoms.T
    constraint = np.zeros(0)
    starts = np.full(n, -1)
    if affine:
        starts = _nearest(gram[:n, :n])
        constraint = (np.arange(len(atoms)) < n).astype(np.float64)
        gram += np.outer(constraint, constraint)
    capacity = min(len(atoms), X.shape[1] + affine) + 2
    tasks = [np.arange(s, min(n, s + ROWS_PER_TASK)) for s in range(0, n, ROWS_PER_TASK)]

    def solve(rows: NDArray[Any]) -> Any:
        return solve_codes(
            gram, rows, constraint, alpha, starts[rows], VIOLATION, max_iter, capacity
        )

    results = run_chunks(
        solve,
        tasks,
        n_jobs=n_jobs,
        sizes=[len(rows) for rows in tasks],
        description="coding",
        verbose=verbose,
    )
    sizes, indices, weights, objective, absolute_gap, steps = map(np.concatenate, zip(*results))
    gap = relative(absolute_gap, objective)
    most = int(steps.max())
    warn_unfinished(gap, tol, most)
    coef = as_sparse(sizes, indices, weights, len(atoms))
    converged = bool((gap <= tol).all())
    return Expression(coef, np.full(n, alpha), objective / alpha, gap, most, converged)


def warn_unfinished(gap: NDArray[np.float64], tol: float, steps: int) -> None:
    """Say how far the rows above the tolerance are from it."""
    unfinished = int(np.sum(~(gap <= tol)))  # or not a number
    if unfinished:
        warnings.warn(
            f"the active set stopped with {unfinished} of {len(gap)} rows above tol={tol:g} (largest "
            f"relative duality gap {gap.max():.2g}) after at most {steps} steps; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )


def _nearest(gram: NDArray[np.float64]) -> NDArray[np.int64]:
    """The nearest other point of each, from inner products (N, N)."""
    squared = np.diag(gram)[None, :] - 2.0 * gram
    np.fill_diagonal(squared, np.inf)
    return squared.argmin(axis=1)
