"""The self-expression step: a kernel and a penalty in, sparse codes with their certificate out."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from spdcluster.arguments import check_choice, check_int, check_n_jobs, check_real
from spdcluster.expression.certificate import certify, relative
from spdcluster.expression.threads import run_chunks
from spdcluster.kernels.gram import DenseGram, Gram, VectorGram

if TYPE_CHECKING:
    from spdcluster.expression.codes import Solution

SOLVERS = ("active-set", "admm")
ALPHA_MODES = ("absolute", "relative", "atoms")
DEFAULT_MEMORY_BUDGET = 256e6
LONGEST_VECTOR = 64
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
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
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
        penalty that makes its code zero, ``2 max_{j != i} |k_ij| / l1_ratio``. With
        ``alpha_mode="atoms"``, a number of atoms m: each row takes the smallest penalty, along its path
        down from the zero code, at which it needs no more than m atoms, and the exact code there.
    alpha_mode : {"absolute", "relative", "atoms"}
    l1_ratio : float in (0, 1]
    solver : {"active-set", "admm"}
    rho : float
        Of ADMM.
    tol : float
        Active set: the relative duality gap that each row must reach. ADMM: the paper's epsilon.
    max_iter : int or None
        Active set: rounds a row (None: 1000). ADMM: iterations (None: 5000).
    memory_budget : float
        Bytes. Kernel values are kept in memory where they fit: the compiled Gaussian kernel in ``4 N^2`` bytes
        (N = 7968 by default, 256 MB, about where it becomes faster without), others in ``8 N^2`` (N = 5656);
        else the kernel is evaluated where it is needed, and the answer is as exact.
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

    budget = check_real(memory_budget, "memory_budget", low=0.0)
    if alpha_mode == "atoms":
        return _with_atoms(gram, alpha, l1_ratio, solver, tol, rounds, budget, jobs, verbose)
    if solver == "admm":
        K = gram.dense(jobs)
        alphas = _penalties(gram, alpha, alpha_mode, l1_ratio, jobs)
        return _by_admm(gram, K, alphas, l1_ratio, rho, tol, rounds, verbose)
    solve = _choose_regime(gram, budget, jobs)
    alphas = _penalties(gram, alpha, alpha_mode, l1_ratio, jobs)
    (solution,) = solve(
        alphas[np.newaxis], l1_ratio, max_rounds=rounds, n_jobs=jobs, verbose=verbose
    )
    return _expression(gram, solution, alphas, tol)


def expression_path(
    gram: Gram,
    alphas: Sequence[float],
    *,
    alpha_mode: str = "absolute",
    l1_ratio: float = 1.0,
    tol: float = 1e-6,
    max_iter: int | None = None,
    memory_budget: float = DEFAULT_MEMORY_BUDGET,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Expression]:
    """Exact codes for a decreasing list of penalties, each started from the one before.

    Parameters
    ----------
    alphas : sequence of float, decreasing
        As `alpha` of `self_expression`, with ``alpha_mode`` "absolute" or "relative".

    Returns
    -------
    list of Expression, one a penalty, each as exact as `self_expression` would give it
    """
    penalties = [check_real(alpha, "alphas", low=0.0, low_open=True) for alpha in alphas]
    if not penalties or any(a <= b for a, b in pairwise(penalties)):
        raise ValueError(f"alphas must be decreasing penalties, one or more; got {alphas!r}")
    check_choice(alpha_mode, "alpha_mode", ALPHA_MODES[:2])
    l1_ratio = check_real(l1_ratio, "l1_ratio", low=0.0, high=1.0, low_open=True)
    tol = check_real(tol, "tol", low=0.0, low_open=True)
    budget = check_real(memory_budget, "memory_budget", low=0.0)
    rounds = 1000 if max_iter is None else check_int(max_iter, "max_iter", low=1)
    jobs = check_n_jobs(n_jobs)
    unit = _penalties(gram, 1.0, alpha_mode, l1_ratio, jobs)
    of_rows = [alpha * unit for alpha in penalties]
    solve = _choose_regime(gram, budget, jobs)
    solutions = solve(np.array(of_rows), l1_ratio, max_rounds=rounds, n_jobs=jobs, verbose=verbose)
    return [_expression(gram, *pair, tol) for pair in zip(solutions, of_rows, strict=True)]


def _with_atoms(
    gram: Gram, most: float, l1_ratio: float, solver: str, tol: float, rounds: int, budget: float,
    n_jobs: int, verbose: int,
) -> Expression:  # fmt: skip
    from spdcluster.expression.atoms import solve_atoms

    if most != int(most):
        raise ValueError(
            f'alpha must be a number of atoms, 1 or more, with alpha_mode="atoms"; got {most!r}'
        )
    if solver != "active-set" or l1_ratio != 1.0:
        raise ValueError(
            'alpha_mode="atoms" follows the l1 path: it needs solver="active-set" and l1_ratio=1; got '
            f"solver={solver!r}, l1_ratio={l1_ratio!r}"
        )
    solution, alphas = solve_atoms(
        gram, int(most), _in_memory(gram, budget, n_jobs), is_compiled=is_compiled(gram),
        max_rounds=rounds, n_jobs=n_jobs, verbose=verbose,
    )  # fmt: skip
    return _expression(gram, solution, alphas, tol)


def _in_memory(gram: Gram, budget: float, n_jobs: int) -> NDArray[np.float64] | None:
    """The Gram matrix where it fits into the budget, else None."""
    if isinstance(gram, DenseGram):
        return gram.matrix
    if 8.0 * gram.n**2 > budget:
        return None
    if is_compiled(gram):
        from spdcluster.expression.dense import gaussian_gram

        assert isinstance(gram, VectorGram)
        return gaussian_gram(gram.vectors, n_jobs)
    return gram.dense(n_jobs)


def _choose_regime(gram: Gram, budget: float, n_jobs: int) -> Callable[..., "list[Solution]"]:
    """The solver for this kernel and size, waiting for decreasing penalties (S, N)."""
    if is_compiled(gram):
        from spdcluster.expression.mixed import bytes_for

        assert isinstance(gram, VectorGram)
        if bytes_for(gram.n) <= budget:
            from spdcluster.expression.dense import solve_gaussian

            return partial(solve_gaussian, gram, budget)
        from spdcluster.expression.tiles import solve_tiles

        return partial(solve_tiles, gram.vectors)
    K = _in_memory(gram, budget, n_jobs)
    if K is not None:
        from spdcluster.expression.dense import solve_dense

        taken = 0 if isinstance(gram, DenseGram) else K.nbytes
        return partial(solve_dense, K, budget - taken)
    from spdcluster.expression.columns import solve_columns

    return partial(solve_columns, gram)


def is_compiled(gram: Gram) -> bool:
    """Whether the compiled Gaussian kernel serves: short vectors, of which differences are cheap."""
    return (
        isinstance(gram, VectorGram)
        and gram.formula == "gaussian"
        and gram.vectors.shape[1] <= LONGEST_VECTOR
    )


def _penalties(
    gram: Gram, alpha: float, alpha_mode: str, l1_ratio: float, n_jobs: int
) -> NDArray[np.float64]:
    """The penalty of each row, shape (N,)."""
    if alpha_mode == "absolute":
        return np.full(gram.n, alpha)
    largest = largest_off_diagonal(gram, n_jobs)
    # a point with nothing in common with any other has the code zero at every penalty; values below
    # 1e-154 of the largest are nothing, as their squares are
    alone = largest <= 1e-154 * gram.diagonal().max(initial=0.0)
    return alpha * 2.0 * np.where(alone, 1.0, largest) / l1_ratio


def largest_off_diagonal(gram: Gram, n_jobs: int) -> NDArray[np.float64]:
    """``max_{j != i} |k_ij|`` of each row, shape (N,), block by block."""
    n, rows_at_once, columns_at_once = gram.n, 256, 4096

    def work(start: int) -> NDArray[np.float64]:
        rows = np.arange(start, min(n, start + rows_at_once))
        largest = np.zeros(len(rows))
        for first in range(0, n, columns_at_once):
            k = np.abs(gram.block(rows, slice(first, min(n, first + columns_at_once))))
            inside = (rows >= first) & (rows < first + columns_at_once)
            k[inside, rows[inside] - first] = 0.0
            np.maximum(largest, k.max(axis=1), out=largest)
        return largest

    return np.concatenate(run_chunks(work, range(0, n, rows_at_once), n_jobs=n_jobs))


def _by_admm(
    gram: Gram,
    K: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    rho: float,
    tol: float,
    max_iter: int,
    verbose: int,
) -> Expression:
    from spdcluster.expression.admm import admm

    result = admm(
        K, alphas, l1_ratio=l1_ratio, rho=rho, tol=tol, max_iter=max_iter, verbose=verbose
    )
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
            stacklevel=3,
        )
    return Expression(coef, alphas, proof.objective, proof.relative_gap, result.n_iter, converged)


def _expression(
    gram: Gram, solution: "Solution", alphas: NDArray[np.float64], tol: float
) -> Expression:
    solution = _without_lost_codes(gram, solution)
    gap = relative(solution.gap, solution.objective)
    unfinished = int(np.sum(gap > tol))
    rounds = int(solution.rounds.max(initial=0))
    if unfinished:
        warnings.warn(
            f"the active set stopped with {unfinished} of {len(gap)} rows above tol={tol:g} (largest "
            f"relative duality gap {gap.max():.2g}) after at most {rounds} rounds; raise max_iter or tol, or "
            "the penalty where it is tiny beside the values of the kernel",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Expression(solution.coef, alphas, solution.objective, gap, rounds, unfinished == 0)


def _without_lost_codes(gram: Gram, solution: "Solution") -> "Solution":
    """Codes that are no longer numbers, as values of the kernel many digits apart make them, become zero.

    The objective is then ``k_ii``, and as no dual value is below zero, so is the gap.
    """
    lost = ~np.isfinite(solution.objective + solution.gap)
    strange = ~np.isfinite(solution.coef.data)
    if not (lost.any() or strange.any()):
        return solution
    row_of = np.repeat(np.arange(gram.n), np.diff(solution.coef.indptr))
    lost[row_of[strange]] = True
    coef = solution.coef.copy()
    coef.data[lost[row_of]] = 0.0
    coef.eliminate_zeros()
    objective, gap = (
        np.where(lost, gram.diagonal(), value) for value in (solution.objective, solution.gap)
    )
    return replace(solution, coef=coef, objective=objective, gap=gap)
