"""All matrices in the tangent space of one of them, under the affine-invariant metric.

With a Cholesky factor ``P = L L^T``, the inner product at P of ``log_P(A)`` and ``log_P(B)`` is the
Frobenius product of ``log(L^-1 A L^-T)`` and ``log(L^-1 B L^-T)``: any square root of P serves, because
an orthogonal change of basis leaves the product alone.

Small matrices are diagonalised `LANES` at a time by Jacobi rotations, with the lanes innermost so that
every operation is a vector instruction; LAPACK, called one small matrix at a time, is ten times slower.

The condition of ``L^-1 A L^-T`` may be the product of those of P and A, and its smallest eigenvalues lost in
rounding. Where it is large they are the squared singular values of ``L^-1 L_A``, of half as many digits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.expression.compiled import compiled

Array = NDArray[Any]

LANES = 32
# beyond this size LAPACK is faster than the rotations
LARGEST_FOR_JACOBI = 10
# ratio of two eigenvalues from which on the smaller one is found by a singular value decomposition
FAR_APART = 1e8


def lanes_last(X: Array) -> Array:
    """Matrices (n, d, d) as (d, d, n) float64; Hermitian ones as real symmetric (2d, 2d, n).

    The real form ``[[Re, -Im], [Im, Re]]`` doubles every inner product; `tangent_vectors` halves it.
    """
    X = (X + X.conj().swapaxes(1, 2)) / 2
    if np.iscomplexobj(X):
        X = np.concatenate(
            [np.concatenate([X.real, -X.imag], 2), np.concatenate([X.imag, X.real], 2)], 1
        )
    return np.ascontiguousarray(np.moveaxis(X.astype(np.float64), 0, -1))


def inverse_factors(X: Array) -> Array:
    """Inverses of the Cholesky factors: (d, d, n) of `lanes_last` to (n, d, d), lower triangular."""
    return np.tril(np.linalg.inv(np.linalg.cholesky(np.moveaxis(X, -1, 0))))


def tangent_vectors(whitener: Array, X: Array, scale: float) -> Array:
    """Log map of matrices at the point whose inverse Cholesky factor is `whitener`.

    Parameters
    ----------
    whitener : ndarray, shape (d, d)
    X : ndarray, shape (d, d, n_matrices)
        Of `lanes_last`.
    scale : float
        Factor on every vector: 1, or ``sqrt(1/2)`` for the real form of Hermitian matrices.

    Returns
    -------
    vectors : ndarray, shape (d (d + 1) / 2, n_matrices)
        Upper triangles of the logarithms, off-diagonal entries times sqrt(2).
    """
    d, _, n = X.shape
    vectors = np.empty((d * (d + 1) // 2, n))
    if d <= LARGEST_FOR_JACOBI:
        log_at(whitener, X, scale, vectors)
    else:
        eigenvalues, V = np.linalg.eigh(whitener @ np.moveaxis(X, -1, 0) @ whitener.T)
        with np.errstate(invalid="ignore", divide="ignore"):  # negative ones are far apart
            vectors[:] = _upper_triangles(np.log(eigenvalues), V, scale)
    far = _far_apart(vectors, d)
    if len(far):
        roots = whitener @ np.linalg.cholesky(np.moveaxis(X[:, :, far], -1, 0))
        U, singular, _ = np.linalg.svd(roots)
        vectors[:, far] = _upper_triangles(2.0 * np.log(singular), U, scale)
    return vectors


def _upper_triangles(logarithms: Array, V: Array, scale: float) -> Array:
    """Vectors (p, n) of the matrices with eigenvalues `logarithms` (n, d) and eigenvectors V (n, d, d)."""
    logs = (V * logarithms[:, None, :]) @ V.swapaxes(1, 2)
    row, column = np.triu_indices(V.shape[-1])
    weight = scale * np.where(row == column, 1.0, np.sqrt(2.0))
    return np.asarray((logs[:, row, column] * weight).T)


def _far_apart(vectors: Array, d: int) -> NDArray[np.intp]:
    """Which logarithms may have eigenvalues more than ``log(FAR_APART)`` apart, or are not numbers.

    If so, their squared deviations from the mean add up to half the square of that, at least. In the real
    form of Hermitian matrices each eigenvalue comes twice, with half the weight.
    """
    row, column = np.triu_indices(d)
    trace = vectors[row == column].sum(axis=0)
    spread = np.einsum("pn,pn->n", vectors, vectors) - trace * trace / d
    return np.flatnonzero(~(spread <= np.log(FAR_APART) ** 2 / 2.0))


@compiled
def log_at(whitener: Array, X: Array, scale: float, out: Array) -> None:  # pragma: no cover
    """`tangent_vectors` for small matrices, into `out` (d (d + 1) / 2, n)."""
    d, n = X.shape[0], X.shape[2]
    half = np.empty((d, LANES))
    A = np.empty((d, d, LANES))
    V = np.empty((d, d, LANES))
    cosine, sine = np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        width = min(LANES, n - start)
        A[:] = 0.0
        if width < LANES:
            for r in range(d):
                A[r, r] = 1.0
        _whiten(whitener, X, start, width, half, A)
        _diagonalise(A, V, cosine, sine)
        for r in range(d):
            for l in range(LANES):
                A[r, r, l] = np.log(A[r, r, l])
        k = 0
        for r in range(d):
            for c in range(r, d):
                weight = scale if r == c else scale * np.sqrt(2.0)
                cosine[:] = 0.0
                for e in range(d):
                    for l in range(LANES):
                        cosine[l] += V[e, r, l] * V[e, c, l] * A[e, e, l]
                for l in range(width):
                    out[k, start + l] = weight * cosine[l]
                k += 1


@compiled
def _whiten(
    B: Array, X: Array, start: int, width: int, half: Array, A: Array
) -> None:  # pragma: no cover
    """The upper triangles of ``B X B^T`` for lower triangular B, into A (d, d, LANES)."""
    d = B.shape[0]
    for r in range(d):
        for c in range(d):
            for l in range(width):
                half[c, l] = 0.0
            for k in range(r + 1):
                for l in range(width):
                    half[c, l] += B[r, k] * X[k, c, start + l]
        for c in range(r, d):
            for l in range(width):
                A[r, c, l] = 0.0
            for k in range(c + 1):
                for l in range(width):
                    A[r, c, l] += B[c, k] * half[k, l]


@compiled
def _diagonalise(A: Array, V: Array, cosine: Array, sine: Array) -> None:  # pragma: no cover
    """Cyclic Jacobi on the upper triangles of A; eigenvectors in the rows of V, eigenvalues in place."""
    d = A.shape[0]
    V[:] = 0.0
    for r in range(d):
        V[r, r] = 1.0
    last = False
    for _ in range(40):
        worst = 0.0
        for l in range(LANES):
            outside, inside = 0.0, 0.0
            for r in range(d):
                inside += A[r, r, l] * A[r, r, l]
                for c in range(r + 1, d):
                    outside += A[r, c, l] * A[r, c, l]
            worst = max(worst, outside / inside)
        if last or worst == 0.0:
            return
        # convergence is quadratic: one more sweep takes 1e-22 below rounding
        last = worst < 1e-22
        for p in range(d - 1):
            for q in range(p + 1, d):
                _rotate(A, V, p, q, cosine, sine)


@compiled
def _rotate(
    A: Array, V: Array, p: int, q: int, cosine: Array, sine: Array
) -> None:  # pragma: no cover
    """Annihilate entry (p, q) of every lane by one Jacobi rotation."""
    d = A.shape[0]
    for l in range(LANES):
        entry = A[p, q, l]
        difference = A[q, q, l] - A[p, p, l]
        length = np.sqrt(difference * difference + 4.0 * entry * entry) + 1e-300
        tangent = 2.0 * entry / (difference + np.copysign(length, difference))
        cosine[l] = 1.0 / np.sqrt(1.0 + tangent * tangent)
        sine[l] = tangent * cosine[l]
        A[p, p, l] -= tangent * entry
        A[q, q, l] += tangent * entry
        A[p, q, l] = 0.0
    for k in range(d):
        if k not in (p, q):
            left, right = A[min(k, p), max(k, p)], A[min(k, q), max(k, q)]
            for l in range(LANES):
                x, y = left[l], right[l]
                left[l] = cosine[l] * x - sine[l] * y
                right[l] = sine[l] * x + cosine[l] * y
        left, right = V[p, k], V[q, k]
        for l in range(LANES):
            x, y = left[l], right[l]
            left[l] = cosine[l] * x - sine[l] * y
            right[l] = sine[l] * x + cosine[l] * y
