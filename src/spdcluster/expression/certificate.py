"""The proof that a code is optimal, in float64 over all columns, sharing no code with any solver."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from spdcluster.kernels.gram import Gram

ROWS, COLUMNS = 512, 4096


@dataclass(frozen=True)
class Certificate:
    """What a pass over all N x N conditions found; every array has shape (N,).

    Attributes
    ----------
    objective : the primal value of each row, DESIGN section 2
    gap : its distance to a dual feasible value, an upper bound of the error of `objective`
    violation : ``max_j |2 (k_ij - (cK)_j - mu c_j)| - alpha * l1_ratio`` where positive, else 0
    """

    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    violation: NDArray[np.float64]

    @property
    def relative_gap(self) -> NDArray[np.float64]:
        """The gap of each row over its objective; zero where both are zero."""
        return relative(self.gap, self.objective)


def relative(gap: NDArray[np.float64], objective: NDArray[np.float64]) -> NDArray[np.float64]:
    """``gap / objective`` with 0 / 0 = 0."""
    return np.divide(gap, objective, out=np.where(gap > 0, np.inf, 0.0), where=objective > 0)


def certify(
    gram: Gram, coef: Any, alpha: ArrayLike, l1_ratio: float = 1.0, *, rows: ArrayLike | None = None
) -> Certificate:
    """Check codes against the optimality conditions and the dual of every row.

    Parameters
    ----------
    gram : Gram
        The kernel on the data, shape (N, N), implicit.
    coef : sparse or dense array, shape (N, N)
        Row i codes point i; its diagonal must be zero.
    alpha : float or array of shape (N,)
        The penalty, of all rows or of each.
    l1_ratio : float
    rows : array-like of int, optional
        Check these rows only; the result has their length.

    Returns
    -------
    Certificate
    """
    C = csr_array(coef, dtype=np.float64)
    index = np.arange(gram.n) if rows is None else np.asarray(rows, dtype=np.int64)
    if C.shape != (gram.n, gram.n):
        raise ValueError(f"coef must have shape ({gram.n}, {gram.n}); got {C.shape}")
    if C.diagonal().any():
        raise ValueError("coef must have a zero diagonal: no point may code itself")
    alphas = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (gram.n,))
    diagonal = gram.diagonal()
    parts = [
        _certify_rows(gram, C, diagonal, alphas, l1_ratio, index[start : start + ROWS])
        for start in range(0, len(index), ROWS)
    ]
    return Certificate(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _certify_rows(
    gram: Gram,
    C: csr_array,
    diagonal: NDArray[np.float64],
    alphas: NDArray[np.float64],
    l1_ratio: float,
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    part = C[rows]
    atoms = np.unique(part.indices)
    coded = part[:, atoms]
    alpha, k_own = alphas[rows], diagonal[rows]
    mu = alpha * (1.0 - l1_ratio) / 2.0
    k_c, c_K_c, steepest = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for start in range(0, gram.n, COLUMNS):
        columns = slice(start, min(gram.n, start + COLUMNS))
        k = gram.block(rows, columns)
        c_K = coded @ gram.block(atoms, columns) if len(atoms) else np.zeros_like(k)
        c = part[:, columns].toarray()
        k_c += np.sum(k * c, axis=1)
        c_K_c += np.sum(c_K * c, axis=1)
        gradient = k - c_K - mu[:, None] * c
        inside = (rows >= start) & (rows < columns.stop)
        gradient[inside, rows[inside] - start] = 0.0
        steepest = np.maximum(steepest, np.abs(gradient).max(axis=1))
    l1 = np.asarray(abs(part).sum(axis=1)).ravel()
    l2 = np.asarray((part * part).sum(axis=1)).ravel()
    residual = k_own - 2.0 * k_c + c_K_c
    objective = alpha * l1_ratio * l1 + mu * l2 + residual
    limit = alpha * l1_ratio / 2.0
    s = np.divide(limit, steepest, out=np.ones_like(limit), where=steepest > limit)
    dual = 2.0 * s * (k_own - k_c) - s**2 * (residual + mu * l2)
    return objective, np.maximum(objective - dual, 0.0), np.maximum(2.0 * (steepest - limit), 0.0)
