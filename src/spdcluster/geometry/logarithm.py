"""The log map of positive definite matrices, as vectors whose inner product is Re tr(log X log Y)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdcluster.arguments import check_n_jobs, check_real
from spdcluster.blas import single_threaded_blas
from spdcluster.geometry.checks import check_definite, check_matrices

CHUNK_ENTRIES = 2**18


def log_vectors(
    X: ArrayLike, *, n_jobs: int | None = None, regularization: float = 0.0, name: str = "X"
) -> NDArray[Any]:
    """Vectorised matrix logarithms.

    The upper triangle of ``log X`` with off-diagonal entries scaled by sqrt(2); for Hermitian input the
    real parts are followed by the imaginary parts of the strict upper triangle. The Euclidean inner
    product of two such vectors is ``Re tr(log X log Y)``, their distance the log-Euclidean distance.

    Parameters
    ----------
    X : array-like, shape (n_matrices, d, d)
        Symmetric or Hermitian positive definite matrices, at any scale.
    n_jobs : int or None
        Threads; None uses all cores. The result does not depend on it.
    regularization : float
        ``regularization * tr(X_i) / d`` is added to the diagonal of every matrix. Off by default.
    name : str
        What the error messages call the array.

    Returns
    -------
    vectors : ndarray, shape (n_matrices, d * (d + 1) / 2), or (n_matrices, d * d) for complex input
        float64; float32 for float32 and complex64 input. The computation is always in double precision.
    """
    jobs = check_n_jobs(n_jobs)
    ridge = check_real(regularization, "regularization", low=0.0)
    X = check_matrices(X, name=name, positive_definite=False)
    n, d, _ = X.shape
    is_complex = np.iscomplexobj(X)
    single = X.dtype in (np.float32, np.complex64)
    vectors = np.empty(
        (n, d * d if is_complex else d * (d + 1) // 2), dtype=np.float32 if single else np.float64
    )
    # chunks of a fixed size, so that no result depends on the number of threads
    step = max(1, CHUNK_ENTRIES // (d * d))
    spectra = np.empty((n, 2))

    def fill(start: int) -> None:
        part = slice(start, min(n, start + step))
        vectors[part], spectra[part] = _log_chunk(X[part], ridge)

    with single_threaded_blas(), ThreadPoolExecutor(jobs) as pool:
        list(pool.map(fill, range(0, n, step)))
    check_definite(X, spectra[:, 0], spectra[:, 1], name, regularized=ridge > 0.0)
    return vectors


def regularized(X: NDArray[Any], ridge: float) -> NDArray[Any]:
    """Add ``ridge * tr(X_i) / d`` to the diagonal of every matrix: (n_matrices, d, d).

    In double precision: single precision would round a small ridge away.
    """
    if ridge == 0.0:
        return X
    X = X.astype(np.complex128 if np.iscomplexobj(X) else np.float64)
    d = X.shape[-1]
    mean_eigenvalue = np.trace(X, axis1=-2, axis2=-1).real / d
    return X + ridge * mean_eigenvalue[:, None, None] * np.eye(d, dtype=X.dtype)


def matrices_from_log_vectors(vectors: NDArray[Any], d: int) -> NDArray[Any]:
    """Inverse of `log_vectors`: (n_matrices, p) to the matrices ``exp(.)``, shape (n_matrices, d, d)."""
    n, p = vectors.shape
    n_upper = d * (d + 1) // 2
    if p not in (n_upper, d * d):
        raise ValueError(
            f"vectors of length {p} are no log vectors of {d} x {d} matrices: "
            f"expected {n_upper} (symmetric) or {d * d} (Hermitian)"
        )
    is_complex = p != n_upper
    row, column = np.triu_indices(d)
    L = np.zeros((n, d, d), dtype=np.complex128 if is_complex else np.float64)
    L[:, row, column] = vectors[:, :n_upper] / np.where(row == column, 1.0, np.sqrt(2.0))
    if is_complex:
        row, column = np.triu_indices(d, 1)
        L[:, row, column] += 1j * vectors[:, n_upper:] / np.sqrt(2.0)
    row, column = np.triu_indices(d, 1)
    L[:, column, row] = L[:, row, column].conj()
    eigenvalues, V = np.linalg.eigh(L)
    return (V * np.exp(eigenvalues)[:, None, :]) @ V.conj().swapaxes(1, 2)


def _log_chunk(X: NDArray[Any], ridge: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Log vectors (m, p) and extreme eigenvalues (m, 2) of a few matrices (m, d, d)."""
    is_complex = np.iscomplexobj(X)
    X = X.astype(np.complex128 if is_complex else np.float64)
    X = regularized((X + X.conj().swapaxes(1, 2)) / 2, ridge)
    eigenvalues, V = np.linalg.eigh(X)
    with np.errstate(invalid="ignore", divide="ignore"):  # refused by the caller, with a name
        logs = (V * np.log(eigenvalues)[:, None, :]) @ V.conj().swapaxes(1, 2)
    row, column = np.triu_indices(X.shape[-1])
    weight = np.where(row == column, 1.0, np.sqrt(2.0))
    vectors = logs[:, row, column].real * weight
    if is_complex:
        row, column = np.triu_indices(X.shape[-1], 1)
        vectors = np.hstack([vectors, logs[:, row, column].imag * np.sqrt(2.0)])
    return vectors, eigenvalues[:, [0, -1]]
