"""The N x N Gram matrix as an object that is asked for its diagonal and for rectangular blocks."""

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_n_jobs
from spdcluster.blas import single_threaded_blas

if TYPE_CHECKING:
    from spdcluster.kernels.base import Kernel

Index = NDArray[np.integer[Any]] | slice
Formula = Literal["gaussian", "power", "exponential"]


class Gram(ABC):
    """An implicit symmetric positive semidefinite matrix, shape (N, N)."""

    n: int

    @abstractmethod
    def diagonal(self) -> NDArray[np.float64]:
        """Shape (N,)."""

    @abstractmethod
    def block(self, rows: Index, columns: Index) -> NDArray[np.float64]:
        """The rectangular part, shape (len(rows), len(columns)), float64."""

    @abstractmethod
    def new_rows(self, features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values between m new points and the N known ones, (m, N), and of each with itself, (m,)."""

    @abstractmethod
    def subset(self, index: NDArray[np.integer[Any]]) -> "Gram":
        """The Gram matrix of some of the points, in the order of `index`."""

    @abstractmethod
    def _identity(self) -> NDArray[Any]:
        """What makes a point itself: two points with equal rows here are copies, shape (N, ...)."""

    def distinct(self) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """First index of each distinct point and the place of every point among them, or None.

        None says that there are no exact copies. Distinct points keep their order.
        """
        rows = np.ascontiguousarray(self._identity()).reshape(self.n, -1) + 0.0  # -0.0 is 0.0
        keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) == self.n:
            return None
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return first[order], rank[place]

    def dense(self, n_jobs: int | None = None) -> NDArray[np.float64]:
        """All of it, shape (N, N), exactly symmetric."""
        K = np.empty((self.n, self.n))
        step = 256

        def fill(start: int) -> None:
            rows = slice(start, min(self.n, start + step))
            K[rows, start:] = self.block(rows, slice(start, self.n))
            K[rows.stop :, rows] = K[rows, rows.stop :].T

        with (
            single_threaded_blas(),
            ThreadPoolExecutor(check_n_jobs(n_jobs)) as pool,
        ):
            list(pool.map(fill, range(0, self.n, step)))
        corner = np.arange(self.n)
        K[corner, corner] = self.diagonal()
        return K


class DenseGram(Gram):
    """A Gram matrix that exists in memory: ``kernel="precomputed"``."""

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self.matrix = matrix
        self.n = len(matrix)

    def diagonal(self) -> NDArray[np.float64]:
        return self.matrix.diagonal().copy()

    def block(self, rows: Index, columns: Index) -> NDArray[np.float64]:
        return self.matrix[rows][:, columns]

    def new_rows(self, features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # a point's own value shifts all its residuals alike; it is not in a cross matrix
        return features, np.zeros(len(features))

    def subset(self, index: NDArray[np.integer[Any]]) -> "DenseGram":
        return DenseGram(self.matrix[np.ix_(index, index)])

    def _identity(self) -> NDArray[Any]:
        return self.matrix

    def dense(self, n_jobs: int | None = None) -> NDArray[np.float64]:
        return self.matrix


class KernelGram(Gram):
    """A kernel on features of any kind, one block at a time."""

    def __init__(self, kernel: "Kernel", features: NDArray[Any]) -> None:
        self.kernel = kernel
        self.features = features
        self.n = len(features)

    def diagonal(self) -> NDArray[np.float64]:
        return self.kernel.diagonal(self.features)

    def block(self, rows: Index, columns: Index) -> NDArray[np.float64]:
        return self.kernel.block(self.features[rows], self.features[columns])

    def new_rows(self, features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.kernel.block(features, self.features), self.kernel.diagonal(features)

    def subset(self, index: NDArray[np.integer[Any]]) -> "KernelGram":
        return KernelGram(self.kernel, self.features[index])

    def _identity(self) -> NDArray[Any]:
        return self.features


class VectorGram(Gram):
    """A formula on vectors, which the compiled solvers evaluate by themselves.

    Attributes
    ----------
    vectors : ndarray, shape (N, p), float64, C-contiguous
        Already scaled, so that the formula has no width: ``exp(-|u - v|^2)``, ``(u.v)^degree`` or
        ``exp(u.v)``.
    formula : {"gaussian", "power", "exponential"}
    degree : int
        Of the power formula.
    """

    def __init__(self, vectors: NDArray[np.float64], formula: Formula, degree: int = 1) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float64)
        self.formula = formula
        self.degree = degree
        self.n = len(vectors)

    def diagonal(self) -> NDArray[np.float64]:
        return formula_diagonal(self.vectors, self.formula, self.degree)

    def block(self, rows: Index, columns: Index) -> NDArray[np.float64]:
        return formula_block(self.vectors[rows], self.vectors[columns], self.formula, self.degree)

    def new_rows(self, features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (
            formula_block(features, self.vectors, self.formula, self.degree),
            formula_diagonal(features, self.formula, self.degree),
        )

    def subset(self, index: NDArray[np.integer[Any]]) -> "VectorGram":
        return VectorGram(self.vectors[index], self.formula, self.degree)

    def _identity(self) -> NDArray[Any]:
        return self.vectors


def formula_block(
    U: NDArray[np.float64], V: NDArray[np.float64], formula: Formula, degree: int
) -> NDArray[np.float64]:
    """Values of a formula between the rows of `U` (m, p) and `V` (n, p): shape (m, n)."""
    if formula == "gaussian" and U.shape[1] <= 64:
        # differences, not |u|^2 + |v|^2 - 2 u.v: exact for near duplicates, wherever the origin is
        from scipy.spatial.distance import cdist

        K = cdist(U, V, "sqeuclidean")
        return np.exp(np.negative(K, out=K), out=K)
    K = U @ V.T
    if formula == "gaussian":
        K *= -2.0
        K += np.einsum("ij,ij->i", U, U)[:, None]
        K += np.einsum("ij,ij->i", V, V)
        np.maximum(K, 0.0, out=K)
        return np.exp(np.negative(K, out=K), out=K)
    if formula == "exponential":
        return np.exp(K, out=K)
    return K if degree == 1 else np.power(K, degree, out=K)


def formula_diagonal(U: NDArray[np.float64], formula: Formula, degree: int) -> NDArray[np.float64]:
    """Values of a formula between each row of `U` (n, p) and itself: shape (n,)."""
    if formula == "gaussian":
        return np.ones(len(U))
    squares = np.einsum("ij,ij->i", U, U)
    with np.errstate(over="ignore"):  # refused, with advice, where vectors are scaled
        return np.exp(squares) if formula == "exponential" else squares**degree
