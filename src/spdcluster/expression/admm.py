"""The paper's Algorithm 1: alternating directions on the whole coefficient matrix (eqs. 7 to 13).

Kept because it is the method as published, and the yardstick of every speed claim. Its A-update
multiplies two dense N x N matrices, so that one iteration costs O(N^3) and not the paper's O(N^2).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.threads import progress_bar


@dataclass(frozen=True)
class AdmmResult:
    """`coef` (N, N) dense with zero diagonal, the iterations done, and the last two residuals."""

    coef: NDArray[np.float64]
    n_iter: int
    primal_residual: float
    dual_residual: float


def admm(
    K: NDArray[np.float64],
    alpha: NDArray[np.float64],
    *,
    l1_ratio: float = 1.0,
    rho: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 5000,
    verbose: int = 0,
) -> AdmmResult:
    """Solve for all rows at once.

    Parameters
    ----------
    K : ndarray, shape (N, N)
        Gram matrix.
    alpha : ndarray, shape (N,)
        Penalty of each row; the paper's lambda.
    l1_ratio : float
        1 is the paper; below, the shrinkage is that of the elastic net.
    rho : float
        Penalty of the split; it changes the way, not the answer.
    tol : float
        The paper's epsilon: stops when ``|A - C|_inf`` and ``|A_{t+1} - A_t|_inf`` are both below.
    max_iter : int
    verbose : int
        1 shows the iterations, of `max_iter` at most, and how far they are from `tol`.

    Returns
    -------
    AdmmResult
    """
    n = len(K)
    # (2K + rho I)^-1 once: each A-update is then one matrix product, the fastest form there is
    inverse = np.linalg.inv(2.0 * K + rho * np.eye(n))
    constant = 2.0 * (K @ inverse)
    threshold = (alpha * l1_ratio / rho)[:, None]
    shrink = (1.0 / (1.0 + alpha * (1.0 - l1_ratio) / rho))[:, None]
    C, A, dual = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    primal_residual = dual_residual = np.inf
    n_iter = 0
    bar = progress_bar(max_iter, "ADMM", "iterations") if verbose else None
    while n_iter < max_iter:
        n_iter += 1
        previous = A
        A = constant + (rho * C - dual) @ inverse
        J = A + dual / rho
        C = np.sign(J) * np.maximum(np.abs(J) - threshold, 0.0) * shrink
        np.fill_diagonal(C, 0.0)
        difference = A - C
        dual += rho * difference
        primal_residual = float(np.abs(difference).max())
        dual_residual = float(np.abs(A - previous).max())
        if bar is not None:
            bar.set_postfix_str(f"residual {primal_residual:.0e} of {tol:.0e}", refresh=False)
            bar.update()
        if primal_residual <= tol and dual_residual <= tol:
            break
    if bar is not None:
        bar.close()
    return AdmmResult(C, n_iter, primal_residual, dual_residual)
