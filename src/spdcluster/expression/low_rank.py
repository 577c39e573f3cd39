"""A low-rank code kept as its factors, and the affinity of its row space."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LowRankExpression:
    """``C = left diag(values) right^T``, shape (N, N); row i codes point i.

    Attributes
    ----------
    left, right : ndarray, shape (N, r)
        Orthonormal columns.
    values : ndarray, shape (r,)
        Singular values of C, positive and decreasing.
    objective : float
    gap : float
        Relative duality gap; for a closed form, the part of the objective that rounding leaves open.
    n_iter : int
        Zero for a closed form.
    converged : bool
    """

    left: NDArray[np.float64]
    values: NDArray[np.float64]
    right: NDArray[np.float64]
    objective: float
    gap: float = 0.0
    n_iter: int = 0
    converged: bool = True

    def dense(self) -> NDArray[np.float64]:
        """The code itself, (N, N)."""
        return (self.left * self.values) @ self.right.T


def row_space_directions(expression: LowRankExpression) -> NDArray[np.float64]:
    """Unit rows of ``M = right values^(1/2)``, (N, r): their cosines are the affinity of Liu et al. (2013)."""
    return unit_rows(expression.right * np.sqrt(expression.values))


def unit_rows(M: NDArray[Any]) -> NDArray[np.float64]:
    """Rows divided by their length; rows of zeros stay."""
    size = np.linalg.norm(M, axis=1, keepdims=True)
    return np.divide(M, size, out=np.zeros_like(M), where=size > 0)


def row_space(X: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Singular values (r,) and right singular vectors (N, r) of the data ``X^T`` (D, N), to numerical rank."""
    n, d = X.shape
    U, singular, _ = np.linalg.svd(X, full_matrices=False)
    rank = int(np.sum(singular > singular[0] * max(n, d) * np.finfo(np.float64).eps))
    return singular[:rank], U[:, :rank]
