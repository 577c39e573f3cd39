"""Low-rank representation (Liu, Lin, Yu 2010; Liu et al. 2013), solved to a duality gap.

    min_{Z, E}  |Z|_* + lambda |E|_{2,1}    subject to  X = X Z + E        (columns of X are points)

With the singular value decomposition ``X = U S V^T`` the solution is ``Z = V J`` and the problem has k N
unknowns, k the rank: ``B = S V^T``, ``min_J |J|_* + lambda sum_j |b_j - S j_j|``.

The nuclear norm is ``min_P (tr(J^T P^-1 J) + tr P) / 2`` over positive definite k x k matrices P. For
fixed P the columns separate, each a ridge problem with an unsquared error that one scalar equation
solves. What is left is a smooth convex function of P, minimised over ``P = R R^T`` by L-BFGS: tens of
evaluations, where the augmented Lagrangian of the paper needs hundreds of singular value decompositions of
the same size. The residual directions ``y_j`` of the columns satisfy ``|y_j| <= lambda`` by construction and,
divided by ``max(1, |S Y|_2)``, are dual feasible: ``tr(Y^T B)`` bounds the optimum from below.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from spdcluster.arguments import check_choice, check_int, check_n_jobs, check_real
from spdcluster.expression.low_rank import LowRankExpression, row_space, unit_rows

Array = NDArray[np.float64]

SOLVERS = ("variational", "alm")
DEFAULT_MAX_ITER = {"variational": 1000, "alm": 1000}
# below this rank BLAS threads cost more than they save
RANK_FOR_THREADS = 500
# L-BFGS iterations between two looks at the duality gap
ITERATIONS_PER_CHECK = 5
# most L-BFGS iterations for one floor
STAGE = 300
# where points are represented exactly by a code of lower rank, the function of P has a kink at its minimum:
# a floor under P rounds it, and falls until the gap is small. Without a floor first: mostly there is no kink.
FLOORS = (0.0, *10.0 ** -np.arange(1.0, 12.0))
TINY = 1e-300


@dataclass
class _Problem:
    """``min_J |J|_* + weight sum_j |b_j - S j_j|`` with ``B`` (k, N), scaled so that ``S[0] = 1``."""

    S: Array
    B: Array
    weight: float

    def primal(self, J: Array) -> float:
        """The objective at `J`, (k, N)."""
        return float(np.linalg.svd(J, compute_uv=False).sum()) + self.error(J)

    def error(self, J: Array) -> float:
        """The part of the objective that is not the nuclear norm."""
        error = self.B - self.S[:, None] * J
        return float(self.weight * np.linalg.norm(error, axis=0).sum())

    def dual(self, Y: Array) -> float:
        """The dual value of `Y` (k, N) after scaling it into the feasible set."""
        spectral = _largest_singular_value(self.S[:, None] * Y)
        longest = np.linalg.norm(Y, axis=0).max() / self.weight
        return float(np.vdot(Y, self.B) / max(1.0, spectral, longest))

    def columns(self, R: Array, floor: float = 0.0) -> tuple[float, Array, Array]:
        """The best columns for ``P = R R^T + floor``: value, duals ``Y`` (k, N) and ``S Y (S Y)^T`` (k, k)."""
        from spdcluster.expression.error_norms import error_norms

        root_of_P = np.hstack([R, np.sqrt(floor) * np.eye(len(R))]) if floor else R
        Q, root, _ = np.linalg.svd(self.S[:, None] * root_of_P)
        variance = (self.weight * root**2)[:, None]
        b = Q.T @ self.B
        error = error_norms(np.ascontiguousarray((b * b).T), variance[:, 0])
        y = self.weight * b / np.maximum(error + variance, TINY)
        value = 0.5 * np.sum(y * y * variance) / self.weight + self.weight * error.sum()
        Y = Q @ y
        weighted = self.S[:, None] * Y
        return float(value), Y, weighted @ weighted.T

    def smooth(self, flat: Array, floor: float = 0.0) -> tuple[float, Array]:
        """The smooth function of R, (k * k,), and its gradient."""
        k = len(self.S)
        R = flat.reshape(k, k)
        value, _, D = self.columns(R, floor)
        return value + 0.5 * float(np.sum(R * R)), (R - D @ R).ravel()


def smallest_lam(X: NDArray[Any]) -> float:
    """The weight up to which the code is zero: ``1 / |X U^T|_2``, U the rows of `X` at unit length."""
    # only inner products count: the triangular factor of X^T X stands for X
    factor = np.linalg.qr(X, mode="r")
    largest = _largest_singular_value(factor @ unit_rows(X).T)
    return 1.0 / largest if largest > 0 else np.inf


def lrr(
    X: NDArray[Any],
    *,
    lam: float,
    solver: str = "variational",
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
) -> LowRankExpression:
    """Low-rank representation of the rows of `X`.

    Parameters
    ----------
    X : ndarray, shape (N, D)
        Points in rows; the code is the transpose of the papers' Z.
    lam : float
        The papers' lambda.
    solver : {"variational", "alm"}
        The smooth problem of this module, or the inexact augmented Lagrangian of the papers.
    tol : float
        "variational": relative duality gap. "alm": largest entry of both constraints' residuals,
        relative to the data's largest singular value.
    max_iter : int or None
        None: 1000.

    Returns
    -------
    LowRankExpression
    """
    X = np.ascontiguousarray(X, dtype=np.float64)
    lam = check_real(lam, "lam", low=0.0, low_open=True)
    check_choice(solver, "solver", SOLVERS)
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    limit = DEFAULT_MAX_ITER[solver] if max_iter is None else check_int(max_iter, "max_iter", low=1)
    jobs = check_n_jobs(n_jobs)
    threads = jobs if min(X.shape) >= RANK_FOR_THREADS else 1
    with _libraries().limit(limits=threads, user_api="blas"):
        if lam <= smallest_lam(X):
            nothing = np.zeros((len(X), 0))
            objective = float(lam * np.linalg.norm(X, axis=1).sum())
            return LowRankExpression(nothing, np.zeros(0), nothing, objective, n_iter=1)
        S, V = row_space(X)
        problem = _Problem(S / S[0], (S / S[0])[:, None] * V.T, lam * S[0])
        if (
            solver == "variational"
            and np.linalg.norm(V / problem.S, axis=1).max() <= problem.weight
        ):
            # Y = S^-1 V^T is dual feasible and proves that no code beats V V^T, which has no error
            return LowRankExpression(V, np.ones_like(S), V, float(len(S)), n_iter=1)
        solve = _by_lbfgs if solver == "variational" else _by_alm
        J, dual, n_iter, residual = solve(problem, tol, limit)
        u, values, left = np.linalg.svd(J, full_matrices=False)
        objective = float(values.sum()) + problem.error(J)
        gap = max(0.0, 1.0 - dual / objective)
    converged = (gap if solver == "variational" else residual) <= tol
    if not converged:
        warnings.warn(
            f"LRR (solver={solver!r}) stopped after {n_iter} iterations above tol={tol:g}; its relative "
            f"duality gap is {gap:.2g}. Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    kept = values > values[0] * 1e-10
    return LowRankExpression(
        left[kept].T, values[kept], V @ u[:, kept], objective, gap, n_iter, converged
    )


def _largest_singular_value(A: Array) -> float:
    """Of a wide matrix (k, N); squares cost the smallest ones their digits, not the largest."""
    return float(np.sqrt(np.linalg.norm(A @ A.T, 2)))


@cache
def _libraries() -> ThreadpoolController:
    """Finding the loaded libraries takes longer than coding a thousand small matrices."""
    return ThreadpoolController()


def _by_lbfgs(problem: _Problem, tol: float, max_iter: int) -> tuple[Array, float, int, float]:
    """Codes J (k, N), the best dual value, iterations and the duality gap."""
    k = len(problem.S)
    best = (np.inf, np.zeros_like(problem.B), -np.inf)
    iterations = 0

    def look(R: Array, floor: float) -> float:
        nonlocal best
        _, Y, _ = problem.columns(R, floor)
        weighted = problem.S[:, None] * Y
        J = R @ (R.T @ weighted) + floor * weighted
        primal, dual = problem.primal(J), problem.dual(Y)
        if primal < best[0]:
            best = (primal, J, best[2])
        best = (*best[:2], max(dual, best[2]))
        return (best[0] - best[2]) / best[0]

    R = np.eye(k)
    gap = look(R, 0.0)
    for floor in FLOORS:
        if gap <= tol or iterations >= max_iter:
            break

        def watch(flat: Array, floor: float = floor) -> None:
            nonlocal iterations
            iterations += 1
            if iterations % ITERATIONS_PER_CHECK == 0 and look(flat.reshape(k, k), floor) <= tol:
                raise StopIteration

        start = np.eye(k) if floor == max(FLOORS) else R
        found = minimize(
            problem.smooth,
            start.ravel(),
            args=(floor,),
            jac=True,
            method="L-BFGS-B",
            callback=watch,
            options={
                "maxiter": min(STAGE, max_iter - iterations),
                "maxcor": 30,
                "ftol": 0.0,
                "gtol": 1e-11,
            },
        )
        R = found.x.reshape(k, k)
        gap = look(R, floor)
        if gap > tol:
            R = _revive(problem, R, floor)
    return best[1], best[2], max(1, iterations), gap


def _revive(problem: _Problem, R: Array, floor: float) -> Array:
    """Give weight to the directions that `R` has lost but that would lower the smooth problem.

    The gradient in R vanishes where R does; that in P does not. Its descent directions are the
    eigenvectors of ``S Y (S Y)^T`` with an eigenvalue above one.
    """
    P = R @ R.T
    _, _, D = problem.columns(R, floor)
    strength, W = np.linalg.eigh(D)
    W = W[:, strength > 1.0] * np.sqrt(np.minimum(strength[strength > 1.0] - 1.0, 1.0))
    here = problem.smooth(R.ravel(), floor)[0]
    size = float(np.linalg.eigvalsh(P)[-1])
    for _ in range(40):
        eigenvalues, V = np.linalg.eigh(P + size * (W @ W.T))
        moved = V * np.sqrt(np.maximum(eigenvalues, 0.0))
        if problem.smooth(moved.ravel(), floor)[0] < here:
            return moved
        size /= 4.0
    return R


def _by_alm(problem: _Problem, tol: float, max_iter: int) -> tuple[Array, float, int, float]:
    """The inexact augmented Lagrangian of the papers: a penalty that grows by a tenth each time."""
    S, B, weight = problem.S[:, None], problem.B, problem.weight
    J, Z, E = np.zeros_like(B), np.zeros_like(B), np.zeros_like(B)
    Y, Y_split = np.zeros_like(B), np.zeros_like(B)
    penalty, residual, iteration = 1e-6, np.inf, 0
    while iteration < max_iter and residual > tol:
        iteration += 1
        u, s, v = np.linalg.svd(Z + Y_split / penalty, full_matrices=False)
        J = (u * np.maximum(s - 1.0 / penalty, 0.0)) @ v
        Z = (S * (B - E + Y / penalty) + J - Y_split / penalty) / (1.0 + S * S)
        Q = B - S * Z + Y / penalty
        size = np.maximum(np.linalg.norm(Q, axis=0), TINY)
        E = Q * np.maximum(0.0, 1.0 - weight / penalty / size)
        misfit, split = B - S * Z - E, Z - J
        Y += penalty * misfit
        Y_split += penalty * split
        penalty = min(1.1 * penalty, 1e10)
        residual = max(float(np.abs(misfit).max()), float(np.abs(split).max()))
    return J, problem.dual(Y), iteration, residual
