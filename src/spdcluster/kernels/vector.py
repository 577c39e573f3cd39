"""Kernels that are a formula on one vector a matrix: the log-Euclidean family and the Euclidean one."""

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdcluster.geometry.checks import as_float_array, check_matrices
from spdcluster.geometry.logarithm import log_vectors
from spdcluster.kernels.base import Kernel
from spdcluster.kernels.gram import Formula, VectorGram, formula_block, formula_diagonal
from spdcluster.kernels.width import multiple_of_scale

Shape = Literal["gaussian", "polynomial", "exponential", "linear"]


class VectorKernel(Kernel):
    """``exp(-gamma |u - v|^2)``, ``(gamma u.v + coef0)^degree``, ``exp(gamma u.v)`` or ``u.v``.

    Parameters
    ----------
    vectorize : callable
        Inputs to vectors, (n, ...) -> (n, p).
    shape : {"gaussian", "polynomial", "exponential", "linear"}
    gamma : float or str
        "scale" is ``1 / mean of |u_i - u_j|^2`` over all pairs for the Gaussian shape (it does not
        change when the vectors are shifted, as the kernel does not) and ``1 / mean of |u_i|^2``
        for the polynomial and the exponential shape; "c*scale" is c times that. Unused by the linear
        shape.
    degree, coef0 : int, float
        Of the polynomial shape.
    normalize : bool
        Divide by ``sqrt(k(u, u) k(v, v))``.
    """

    def __init__(
        self,
        vectorize: Callable[[ArrayLike], NDArray[Any]],
        shape: Shape,
        *,
        gamma: float | str = "scale",
        degree: int = 2,
        coef0: float = 1.0,
        normalize: bool = False,
    ) -> None:
        self.vectorize = vectorize
        self.shape = shape
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize = normalize

    @property
    def formula(self) -> Formula:
        """The formula on scaled vectors: normalising an exponential kernel makes it Gaussian."""
        if self.shape == "gaussian" or (self.shape == "exponential" and self.normalize):
            return "gaussian"
        return "exponential" if self.shape == "exponential" else "power"

    def fit(self, X: ArrayLike) -> Self:
        self._fit_vectors(self.vectorize(X))
        return self

    def bind(self, X: ArrayLike) -> VectorGram:
        vectors = self.vectorize(X)
        self._fit_vectors(vectors)
        return VectorGram(self._scaled(vectors), self.formula, self._power)

    def features(self, X: ArrayLike) -> NDArray[np.float64]:
        return self._scaled(self.vectorize(X))

    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        return formula_block(A, B, self.formula, self._power)

    def diagonal(self, A: NDArray[Any]) -> NDArray[np.float64]:
        return formula_diagonal(A, self.formula, self._power)

    @property
    def _power(self) -> int:
        return self.degree if self.shape == "polynomial" else 1

    def _fit_vectors(self, vectors: NDArray[Any]) -> None:
        # distances do not see the origin, rounding does: the median stays near most points
        # whatever a far outlier does
        is_gaussian = self.formula == "gaussian"
        p = vectors.shape[1]
        self.origin_ = np.median(vectors, axis=0).astype(float) if is_gaussian else np.zeros(p)
        multiple = multiple_of_scale(self.gamma)
        if self.shape == "linear":
            self.gamma_ = 1.0
        elif multiple is not None:
            self.gamma_ = multiple * _scale_width(vectors, centred=self.shape == "gaussian")
        else:
            self.gamma_ = float(self.gamma)

    def _scaled(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Vectors on which the formula has neither width nor constant: (n, p) or (n, p + 1)."""
        assert self.gamma_ is not None
        gamma = self.gamma_ / 2 if self.shape == "exponential" and self.normalize else self.gamma_
        U = np.sqrt(gamma) * (vectors.astype(np.float64) - self.origin_)
        if self.shape == "polynomial":
            U = np.hstack([U, np.full((len(U), 1), np.sqrt(self.coef0))])
        if self.normalize and self.formula == "power":
            U = _unit_rows(U)
        diagonal = formula_diagonal(U, self.formula, self._power)
        if not (np.isfinite(U).all() and np.isfinite(diagonal).all()):
            raise ValueError(
                f"the {self.shape} kernel overflows on this input with gamma={self.gamma_:.3g}; "
                'use normalize=True, a smaller gamma, or gamma="scale"'
            )
        return U


def flat_vectors(X: ArrayLike) -> NDArray[Any]:
    """Matrices (n, d, d) flattened to (n, d * d), complex ones to (n, 2 * d * d); 2-D input as it is."""
    X = as_float_array(X, "X")
    if X.ndim == 3:
        X = check_matrices(X, positive_definite=False)
        X = X.reshape(len(X), -1)
    if X.ndim != 2:
        raise ValueError(
            f"X must be 3-D (n_matrices, d, d) or 2-D (n_samples, n_features); got shape {X.shape}"
        )
    if not np.isfinite(X).all():
        raise ValueError("X contains NaN or infinity; only finite values are accepted")
    return np.hstack([X.real, X.imag]) if np.iscomplexobj(X) else X


class LogVectorizer:
    """`log_vectors` with its options, as an object that pickles."""

    def __init__(self, regularization: float = 0.0, n_jobs: int | None = None) -> None:
        self.regularization = regularization
        self.n_jobs = n_jobs

    def __call__(self, X: ArrayLike) -> NDArray[Any]:
        return log_vectors(X, n_jobs=self.n_jobs, regularization=self.regularization)


def _scale_width(vectors: NDArray[Any], *, centred: bool) -> float:
    U = vectors.astype(np.float64)
    if centred:
        U = U - U.mean(axis=0)
    size = np.abs(U).max(initial=0.0)
    if size == 0.0:
        return 1.0
    # the mean over all pairs of |u_i - u_j|^2 is twice the mean of |u_i - mean|^2
    mean_square = float(np.einsum("ij,ij->", U / size, U / size)) / len(U) * (2 if centred else 1)
    return 1.0 / mean_square / size / size


def _unit_rows(U: NDArray[np.float64]) -> NDArray[np.float64]:
    size = np.abs(U).max(axis=1, keepdims=True)
    U = U / np.where(size > 0, size, 1.0)
    norm = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(norm > 0, norm, 1.0)
