"""Other solvers of the same problem, each timed to the same accuracy of the objective.

All get the Gram matrix in memory for nothing. ADMM's matrix products run on all threads of BLAS. The
others solve one row a call; their own column of the Gram matrix is set to zero for it, which no
method then enters. They are timed on one thread and credited with a perfect speed-up on `n_threads`.
Where all rows would take too long a random sample is timed, and scaled.

The accuracy is measured on what comes out, with the formula of the objective, not with what a method
says of itself. Tolerances are loosened as far as the accuracy allows.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

ACCURACY = 1e-6
RHOS = tuple(2.0**k for k in range(-2, 6))
RACE = 40
SAMPLE = 32
TOLERANCES = tuple(10.0**-k for k in np.arange(3, 13.5, 0.5))
FIRST_CHECK, CHECK_GROWTH = 10, 1.05
RowSolver = Callable[[int, float], NDArray[np.float64]]


@dataclass(frozen=True)
class Problem:
    """The Gram matrix `K` (N, N), the penalty, and the exact objective (N,) and its codes' size."""

    K: NDArray[np.float64]
    alpha: float
    exact: NDArray[np.float64]
    n_threads: int
    most_atoms: int

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.K)

    def error(self, C: NDArray[np.float64], rows: NDArray[np.int64]) -> float:
        """Objective of the codes `C` (len(rows), N) of some rows, relative to the exact one."""
        coded = csr_array(C)
        k = self.K[rows]
        c_K = coded @ self.K
        value = self.alpha * np.abs(C).sum() + np.trace(self.K[np.ix_(rows, rows)])
        value += np.sum(C * (c_K - 2.0 * k))
        return float(value / self.exact[rows].sum() - 1.0)


@dataclass(frozen=True)
class Timing:
    """Seconds for all rows, the relative error of the objective, and non-zeros a row."""

    seconds: float | None
    error: float | None
    nnz_per_row: float | None
    note: str


def time_admm(problem: Problem, limit: float = 600.0) -> Timing:
    """The paper's Algorithm 1 with the best rho, stopped where it is accurate enough.

    Rho begins with the most accurate of `RHOS` after 40 iterations and is doubled, else halved, as
    long as that saves iterations, up to `limit` seconds a rho. The factorisation counts, the checks of the accuracy do not. All iterations count
    as much as the quickest nine in a row, because ours is the best of several repetitions as well.
    """
    with threadpool_limits(problem.n_threads, "blas"):
        first = min(RHOS, key=lambda rho: _early_error(problem, rho))
        chosen = _time_one_rho(problem, first, limit, np.inf)
        for factor in (2.0, 0.5):
            rho, moved = (chosen.rho if chosen else first) * factor, False
            while 1e-3 < rho < 1e3:
                other = _time_one_rho(problem, rho, limit, chosen.n_iter if chosen else np.inf)
                if other is None:
                    break
                chosen, rho, moved = other, rho * factor, True
            if moved:
                break
    if chosen is None:
        return Timing(None, None, None, f"not accurate within {limit:g} s at rho near {first:g}")
    note = f"rho {chosen.rho:g}, {chosen.n_iter} iterations at the speed of the quickest nine"
    return Timing(chosen.seconds, chosen.error, chosen.nnz_per_row, note)


@dataclass(frozen=True)
class _AdmmRun:
    rho: float
    n_iter: int
    seconds: float
    error: float
    nnz_per_row: float


def _early_error(problem: Problem, rho: float) -> float:
    iterates = admm_iterates(problem.K, np.full(problem.n, problem.alpha), rho)
    for C in islice(iterates, RACE):
        last = C
    return problem.error(last, np.arange(problem.n))


def _time_one_rho(problem: Problem, rho: float, limit: float, fewer: float) -> _AdmmRun | None:
    """Iterate until the accuracy is met; None if that takes `limit` seconds or `fewer` iterations."""
    rows, alphas = np.arange(problem.n), np.full(problem.n, problem.alpha)
    iterates, check, times = admm_iterates(problem.K, alphas, rho), FIRST_CHECK, [0.0]
    start = perf_counter()
    next(iterates)  # the factorisation
    setup = perf_counter() - start
    while len(times) < fewer and sum(times) + setup < limit:
        start = perf_counter()
        C = next(iterates)
        times.append(perf_counter() - start)
        if len(times) < check:
            continue
        check = max(len(times) + 1, int(len(times) * CHECK_GROWTH))
        error = problem.error(C, rows)
        if error <= ACCURACY and len(times) < fewer:
            quickest = min(np.convolve(times[1:], np.full(9, 1 / 9), "valid"))
            seconds = float(setup + quickest * (len(times) - 1))
            nnz = float(np.count_nonzero(C) / problem.n)
            return _AdmmRun(rho, len(times), seconds, error, nnz)
    return None


def admm_iterates(
    K: NDArray[np.float64], alpha: NDArray[np.float64], rho: float
) -> Iterator[NDArray[np.float64]]:
    """The feasible C of each iteration of `spdcluster.expression.admm`, without temporaries.

    The same steps as there; a generator, so that the accuracy can be looked at between two of them.
    """
    n = len(K)
    inverse = np.linalg.inv(2.0 * K + rho * np.eye(n))
    constant = 2.0 * (K @ inverse)
    threshold = (alpha / rho)[:, np.newaxis]
    C, dual, A, J = (np.zeros((n, n)) for _ in range(4))
    while True:
        np.multiply(C, rho, out=J)
        J -= dual
        np.matmul(J, inverse, out=A)
        A += constant
        np.divide(dual, rho, out=J)
        J += A
        # soft thresholding: what clipping at the threshold takes away is kept
        np.clip(J, -threshold, threshold, out=C)
        np.subtract(J, C, out=C)
        np.fill_diagonal(C, 0.0)
        yield C
        A -= C
        A *= rho
        dual += A


def time_sklearn(problem: Problem, seconds: float) -> Timing:
    """`sklearn.linear_model.lasso_path` (coordinate descent) on the Gram matrix."""
    from sklearn.linear_model import lasso_path

    K = problem.K.copy()

    def solve(i: int, tol: float) -> NDArray[np.float64]:
        # with the Gram matrix and K_i given, no entry of the design is read: one row of zeros will
        # do for its shape, and |y|^2 = k_ii only scales the tolerance
        target = np.array([np.sqrt(K[i, i])])
        design = np.zeros((1, problem.n), order="F")
        with _without(i, K) as k:
            path = lasso_path(
                design,
                target,
                alphas=[problem.alpha / 2.0],
                precompute=K,
                Xy=k,
                tol=tol,
                max_iter=100_000,
                check_input=False,
            )
        return path[1][:, 0]

    return _time_rows(problem, solve, seconds, "lasso_path(precompute=Gram)")


def time_celer(problem: Problem, seconds: float) -> Timing:
    """celer's working sets with dual extrapolation, on a square root of the Gram matrix."""
    from celer import celer_path

    start = perf_counter()
    design = _square_root(problem.K)
    setup = perf_counter() - start

    def solve(i: int, tol: float) -> NDArray[np.float64]:
        target = design[:, i].copy()
        alpha = problem.alpha / 2.0 / len(design)
        with _without_column(i, design):
            path = celer_path(design, target, "lasso", alphas=[alpha], tol=tol, max_iter=1000)
        return path[1][:, 0]

    return _time_rows(problem, solve, seconds, "celer_path on K^(1/2)", setup)


def time_skglm(problem: Problem, seconds: float) -> Timing:
    """skglm's `Lasso` (Anderson-accelerated working sets), on a square root of the Gram matrix."""
    from skglm import Lasso

    start = perf_counter()
    design = _square_root(problem.K)
    setup = perf_counter() - start

    def solve(i: int, tol: float) -> NDArray[np.float64]:
        target = design[:, i].copy()
        alpha = problem.alpha / 2.0 / len(design)
        with _without_column(i, design):
            model = Lasso(alpha, tol=tol, fit_intercept=False, max_iter=500).fit(design, target)
        return model.coef_

    return _time_rows(problem, solve, seconds, "Lasso on K^(1/2)", setup)


def time_spams(problem: Problem, seconds: float) -> Timing:
    """SPAMS `lasso` (homotopy with Cholesky) on the Gram matrix; it has no tolerance."""
    import spams

    K = np.asfortranarray(problem.K)

    def solve(i: int, tol: float) -> NDArray[np.float64]:
        # only its norm and its length are read, where the Gram matrix and K_i are given
        target = np.zeros((problem.n, 1), order="F")
        target[0] = np.sqrt(K[i, i])
        with _without(i, K) as k:
            code = spams.lasso(
                target,
                Q=K,
                q=np.asfortranarray(k[:, np.newaxis]),
                lambda1=problem.alpha / 2.0,
                mode=spams.PENALTY,
                # it allocates the square of this many: as few as will do
                L=min(problem.n, 2 * problem.most_atoms + 10),
                numThreads=1,
                cholesky=True,
            )
        return code.toarray().ravel()

    note = "lasso(Q=, q=, mode=PENALTY, cholesky=True)"
    return _time_rows(problem, solve, seconds, note, tolerances=(0.0,))


RIVALS: dict[str, tuple[str, Callable[[Problem, float], Timing]]] = {
    "scikit-learn": ("sklearn", time_sklearn),
    "celer": ("celer", time_celer),
    "skglm": ("skglm", time_skglm),
    "SPAMS": ("spams", time_spams),
}


def time_rival(name: str, problem: Problem, seconds: float) -> Timing:
    """Time a rival by its name in `RIVALS`; at most about `seconds` for all of its rows."""
    package, function = RIVALS[name]
    if find_spec(package) is None:
        return Timing(None, None, None, f"{package} is not installed")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a loose tolerance was too loose is seen below
        return function(problem, seconds)


def _time_rows(
    problem: Problem,
    solve: RowSolver,
    seconds: float,
    note: str,
    setup: float = 0.0,
    tolerances: Sequence[float] = TOLERANCES,
) -> Timing:
    """Find the loosest tolerance on a sample of rows, then time all rows if they are quick enough."""
    n, threads = problem.n, problem.n_threads
    rows = np.random.default_rng(0).choice(n, min(n, SAMPLE), replace=False)
    solve(int(rows[0]), tolerances[0])  # compiles, if need be
    remaining = list(tolerances)
    error = np.inf
    while remaining and error > ACCURACY:
        tol = remaining.pop(0)
        elapsed, error, nnz = _solve_rows(problem, solve, rows, tol)
        if elapsed > seconds:
            break
        if error <= ACCURACY and len(rows) < n and elapsed * n / len(rows) <= seconds:
            rows = np.arange(n)
            elapsed, error, nnz = _solve_rows(problem, solve, rows, tol)
    if error > ACCURACY:
        return Timing(None, error, None, f"{note}: not accurate to {ACCURACY:g} at tol={tol:.0e}")
    counted = "all rows" if len(rows) == n else f"{len(rows)} of {n} rows, scaled"
    told = f", tol={tol:.0e}" if tol else ""
    shared = f"; one thread, over {threads}" if threads > 1 else ""
    total = (elapsed * n / len(rows) + setup) / threads
    return Timing(total, error, nnz, f"{note}{told}; {counted}{shared}")


def _solve_rows(
    problem: Problem, solve: RowSolver, rows: NDArray[np.int64], tol: float
) -> tuple[float, float, float]:
    codes = []
    start = perf_counter()
    for i in rows.tolist():
        codes.append(solve(i, tol))
    elapsed = perf_counter() - start
    C = np.array(codes)
    if C[np.arange(len(rows)), rows].any():
        raise RuntimeError("a rival coded a point by itself")
    return elapsed, problem.error(C, rows), float(np.count_nonzero(C) / len(rows))


@contextmanager
def _without(i: int, K: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Row and column `i` of a Gram matrix are zero meanwhile; what k_ij was, with k_ii = 0."""
    saved = K[i].copy()
    k = saved.copy()
    k[i] = K[i] = K[:, i] = 0.0
    try:
        yield k
    finally:
        K[i] = K[:, i] = saved


@contextmanager
def _without_column(i: int, design: NDArray[np.float64]) -> Iterator[None]:
    """Column `i` of a design is zero meanwhile."""
    saved = design[:, i].copy()
    design[:, i] = 0.0
    try:
        yield
    finally:
        design[:, i] = saved


def _square_root(K: NDArray[np.float64]) -> NDArray[Any]:
    """A design X (r, N) with X^T X = K, Fortran-ordered; directions of rounding size left out."""
    eigenvalues, vectors = np.linalg.eigh(K)
    kept = eigenvalues > 1e-14 * eigenvalues[-1]
    return np.asfortranarray((vectors[:, kept] * np.sqrt(eigenvalues[kept])).T)
