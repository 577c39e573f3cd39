"""The self-expression step: a kernel and a penalty in, sparse codes with their certificate out."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from spdcluster.arguments import check_choice, check_int, check_n_jobs, check_real
from spdcluster.expression.certificate import certify, relative
from spdcluster.kernels.gram import Gram

SOLVERS = ("active-set", "admm")
ALPHA_MODES = ("absolute", "relative")
DEFAULT_MAX_ITER = {"active-set": 1000, "admm": 5000}


@dataclass(frozen=True)
class Expression:
    """Codes of all rows and what is known of them.

    Attributes
    ----------
    coef : csr_array, shape (N, N)
        Row i codes point i from the others; zero diagonal.
    alpha : ndarray, shape (N,)
        The penalty that each row was solved with.
    objective : ndarray, shape (N,)
        ``alpha (l1_ratio |c|_1 + (1 - l1_ratio)/2 |c|^2) + k_ii - 2 k_i.c + c.K.c``.
    gap : ndarray, shape (N,)
        Duality gap relative to the objective: the proof of how exact each row is.
    n_iter : int
        ADMM iterations, or the most active-set rounds that a row needed.
    converged : bool
        Whether every row met the tolerance.
    """

    coef: csr_array
    alpha: NDArray[np.float64]
    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    n_iter: int
    converged: bool


def self_expression(
    gram: Gram,
    *,
    alpha: float = 0.04,
    alpha_mode: str = "absolute",
    l1_ratio: float = 1.0,
    solver: str = "active-set",
    rho: float = 1.0,
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Expression:
    """Code each point by the others: DESIGN section 2, the paper's eq. (5) for ``l1_ratio=1``.

    Parameters
    ----------
    gram : Gram
        ``make_kernel(...).bind(X)``, or a `DenseGram`.
    alpha : float
        Penalty; the paper's lambda. With ``alpha_mode="relative"``, a share of each row's smallest
        penalty that makes its code zero, ``2 max_{j != i} |k_ij| / l1_ratio``.
    alpha_mode : {"absolute", "relative"}
    l1_ratio : float in (0, 1]
    solver : {"active-set", "admm"}
    rho : float
        Of ADMM.
    tol : float
        Active set: the relative duality gap that each row must reach. ADMM: the paper's epsilon.
    max_iter : int or None
        Active set: rounds a row (None: 1000). ADMM: iterations (None: 5000).
    n_jobs : int or None
    verbose : int

    Returns
    -------
    Expression
    """
    alpha = check_real(alpha, "alpha", low=0.0, low_open=True)
    check_choice(alpha_mode, "alpha_mode", ALPHA_MODES)
    l1_ratio = check_real(l1_ratio, "l1_ratio", low=0.0, high=1.0, low_open=True)
    check_choice(solver, "solver", SOLVERS)
    rho = check_real(rho, "rho", low=0.0, low_open=True)
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    rounds = (
        DEFAULT_MAX_ITER[solver] if max_iter is None else check_int(max_iter, "max_iter", low=1)
    )
    jobs = check_n_jobs(n_jobs)

    K = gram.dense(jobs)
    alphas = row_penalties(K, alpha, alpha_mode, l1_ratio)
    if solver == "admm":
        return _by_admm(gram, K, alphas, l1_ratio, rho, tol, rounds)
    return _by_active_set(K, alphas, l1_ratio, tol, rounds, jobs, verbose)


def row_penalties(
    K: NDArray[np.float64], alpha: float, alpha_mode: str, l1_ratio: float
) -> NDArray[np.float64]:
    """The penalty of each row, shape (N,)."""
    n = len(K)
    if alpha_mode == "absolute":
        return np.full(n, alpha)
    largest = np.empty(n)
    for i in range(n):  # row by row: no second N x N array
        row = np.abs(K[i])
        row[i] = 0.0
        largest[i] = row.max()
    # a point with nothing in common with any other has the code zero at every penalty
    return alpha * 2.0 * np.where(largest > 0, largest, 1.0) / l1_ratio


def _by_admm(
    gram: Gram,
    K: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    rho: float,
    tol: float,
    max_iter: int,
) -> Expression:
    from spdcluster.expression.admm import admm

    result = admm(K, alphas, l1_ratio=l1_ratio, rho=rho, tol=tol, max_iter=max_iter)
    coef = csr_array(result.coef)
    proof = certify(gram, coef, alphas, l1_ratio)
    converged = max(result.primal_residual, result.dual_residual) <= tol
    if not converged:
        warnings.warn(
            f"ADMM stopped after max_iter={max_iter} iterations with |A - C| = "
            f"{result.primal_residual:.2g} and |A_new - A| = {result.dual_residual:.2g}, above "
            f"tol={tol:g}; the largest relative duality gap is {proof.relative_gap.max():.2g}. "
            'Raise max_iter, change rho, or use solver="active-set", which is exact.',
            ConvergenceWarning,
            stacklevel=4,
        )
    return Expression(coef, alphas, proof.objective, proof.relative_gap, result.n_iter, converged)


def _by_active_set(
    K: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    tol: float,
    max_rounds: int,
    n_jobs: int,
    verbose: int,
) -> Expression:
    from spdcluster.expression.dense import solve_dense

    coef, objective, absolute_gap, rounds = solve_dense(
        K, alphas, l1_ratio, max_rounds=max_rounds, n_jobs=n_jobs, verbose=verbose
    )
    gap = relative(absolute_gap, objective)
    unfinished = int(np.sum(gap > tol))
    if unfinished:
        warnings.warn(
            f"the active set stopped with {unfinished} of {len(K)} rows above tol={tol:g} (largest "
            f"relative duality gap {gap.max():.2g}) after at most {rounds} rounds; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Expression(coef, alphas, objective, gap, rounds, unfinished == 0)
