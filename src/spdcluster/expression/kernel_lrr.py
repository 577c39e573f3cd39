"""Low-rank self-expression in the space of any kernel, in closed form from the Gram matrix.

    min_C  |C|_* + tau/2 tr((I - C)^T K (I - C)),    that is    |C|_* + tau/2 sum_i |phi_i - sum_j c_ij phi_j|^2

With ``K = V diag(e) V^T`` the optimum is ``C = V diag(max(0, 1 - 1/(tau e))) V^T`` (the uncorrupted case of
Vidal and Favaro 2014 with ``e`` the squared singular values): only the eigenvalues above ``1/tau`` count, and
a partial eigendecomposition finds them.
"""

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.exceptions import ConvergenceWarning

from spdcluster.arguments import check_int, check_n_jobs, check_real
from spdcluster.expression.low_rank import LowRankExpression
from spdcluster.expression.lrsc import expression_cost, shrink
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import Gram

# up to here a dense eigendecomposition is quick and its memory small
DENSE_LIMIT = 3000
ROWS_PER_TASK = 512
FIRST_RANK = 32


def kernel_lrr(
    gram: Gram,
    *,
    tau: float,
    max_rank: int | None = None,
    tol: float = 1e-6,
    n_jobs: int | None = None,
) -> LowRankExpression:
    """Low-rank code of the points of a Gram matrix.

    Parameters
    ----------
    gram : Gram
        N x N, implicit.
    tau : float
        Weight of the error.
    max_rank : int or None
        Keep so many leading eigenvectors at most; a `ConvergenceWarning` says when that leaves out
        eigenvalues above ``1/tau``.
    tol : float
        Relative accuracy of the eigenvalues when they are found iteratively (N above 3000).
    n_jobs : int or None
        Threads that evaluate an implicit Gram matrix.

    Returns
    -------
    LowRankExpression
        `left` and `right` are the same array.
    """
    tau = check_real(tau, "tau", low=0.0, low_open=True)
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    limit = gram.n if max_rank is None else check_int(max_rank, "max_rank", low=1)
    # one more than the limit is enough to know whether it leaves anything out
    if gram.n <= DENSE_LIMIT:
        e, V = _dense_spectrum(gram, 1.0 / tau, min(gram.n, limit + 1), n_jobs)
    else:
        e, V = _leading_spectrum(gram, 1.0 / tau, min(gram.n - 1, limit + 1), tol, n_jobs)
    above = e > 1.0 / tau
    e, V = e[above], V[:, above]
    complete = len(e) <= limit
    if not complete:
        warnings.warn(
            f"KernelLRR kept max_rank={limit} eigenvectors, but eigenvalue {limit + 1} of the Gram matrix "
            f"is {e[limit]:.3g}, above 1/tau = {1.0 / tau:.3g}; raise max_rank or lower tau",
            ConvergenceWarning,
            stacklevel=3,
        )
        e, V = e[:limit], V[:, :limit]
    rest = max(0.0, float(gram.diagonal().sum() - e.sum()))
    objective = float(expression_cost(tau * e).sum()) + 0.5 * tau * rest
    return LowRankExpression(V, shrink(tau * e), V, objective, converged=complete)


def largest_eigenvalue(gram: Gram, n_jobs: int | None = None) -> float:
    """The largest eigenvalue of the Gram matrix; up to its inverse every tau gives a zero code."""
    if gram.n <= 2:  # ARPACK wants more
        return float(np.linalg.eigvalsh(gram.dense(check_n_jobs(n_jobs)))[-1])
    if gram.n <= DENSE_LIMIT:
        K: Any = gram.dense(check_n_jobs(n_jobs))
        if not K.any():
            return 0.0
    else:
        K = _operator(gram, n_jobs)
    top = eigsh(K, k=1, v0=_start(gram.n), tol=1e-10, return_eigenvectors=False)
    return float(top[0])


def _start(n: int) -> NDArray[np.float64]:
    """A start vector that is the same in every run and orthogonal to nothing in particular."""
    return np.random.default_rng(0).uniform(0.5, 1.5, size=n)


def _dense_spectrum(
    gram: Gram, threshold: float, count: int, n_jobs: int | None
) -> tuple[Any, Any]:
    """Eigenvalues above the threshold, `count` at most, decreasing, and their eigenvectors (N, r)."""
    e, V = scipy.linalg.eigh(gram.dense(check_n_jobs(n_jobs)), subset_by_value=[threshold, np.inf])
    return e[::-1][:count], V[:, ::-1][:, :count]


def _leading_spectrum(
    gram: Gram, threshold: float, count: int, tol: float, n_jobs: int | None
) -> tuple[Any, Any]:
    """The same by Lanczos, asking for more eigenvalues until one falls below the threshold."""
    operator = _operator(gram, n_jobs)
    start = _start(gram.n)
    rank = min(FIRST_RANK, count)
    while True:
        try:
            e, V = eigsh(operator, k=rank, v0=start, tol=tol)
        except ArpackNoConvergence as error:
            warnings.warn(
                f"only {len(error.eigenvalues)} of {rank} eigenvalues of the Gram matrix converged to "
                f"tol={tol:g}; the code uses those. Raise tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
            e, V = error.eigenvalues, error.eigenvectors
            return e[::-1], V[:, ::-1]
        if e[0] <= threshold or rank == count:
            return e[::-1], V[:, ::-1]
        rank = min(2 * rank, count)


def _operator(gram: Gram, n_jobs: int | None) -> LinearOperator:
    """The Gram matrix as an operator whose blocks are evaluated anew in each product."""
    starts = list(range(0, gram.n, ROWS_PER_TASK))
    jobs = check_n_jobs(n_jobs)

    def product(v: NDArray[Any]) -> NDArray[np.float64]:
        def part(start: int) -> NDArray[np.float64]:
            rows = slice(start, min(gram.n, start + ROWS_PER_TASK))
            return gram.block(rows, slice(0, gram.n)) @ v

        return np.concatenate(run_chunks(part, starts, n_jobs=jobs))

    return LinearOperator((gram.n, gram.n), matvec=product, matmat=product, dtype=np.float64)
