"""Is this an array of symmetric or Hermitian positive definite matrices? If not, which one is not, and why?"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEARLY = (
    "drop it, or add regularization=1e-6 (relative to its own mean eigenvalue) to make it definite"
)
INDEFINITE = "drop it or mend it: no small regularization makes it definite"
ZERO = "drop it: regularization is relative to the matrix, and this one is zero"


def check_matrices(
    X: ArrayLike,
    *,
    name: str = "X",
    positive_definite: bool = True,
    min_matrices: int = 1,
) -> NDArray[Any]:
    """Check an array of symmetric (Hermitian) matrices and return it as floating point.

    Parameters
    ----------
    X : array-like, shape (n_matrices, d, d)
        Real or complex. Integers become float64; float32 and complex64 are kept.
    name : str
        What the error messages call the array.
    positive_definite : bool
        Also require every eigenvalue to exceed rounding error: ``d * eps`` of the largest one, and in
        single precision what rounding the entries does to it. The scale of a matrix plays no part.
    min_matrices : int
        The smallest number of matrices accepted.

    Returns
    -------
    X : ndarray, shape (n_matrices, d, d)
        float32, float64, complex64 or complex128. The input itself where nothing had to change.
    """
    X = as_float_array(X, name)
    if X.ndim != 3:
        hint = f" A single matrix goes in as {name}[np.newaxis]." if X.ndim == 2 else ""
        raise ValueError(
            f"{name} must be 3-D, of shape (n_matrices, d, d); got shape {X.shape}.{hint}"
        )
    n, rows, columns = X.shape
    if rows != columns:
        raise ValueError(
            f"{name} must hold square matrices, shape (n_matrices, d, d); got shape {X.shape}"
        )
    if rows == 0 or n < min_matrices:
        raise ValueError(
            f"{name} must hold at least {min_matrices} matri{'x' if min_matrices == 1 else 'ces'} "
            f"of size 1 x 1 or more; got shape {X.shape}"
        )
    check_finite(X, name)
    _check_hermitian(X, name)
    if positive_definite:
        smallest, largest = extreme_eigenvalues(X)
        check_definite(X, smallest, largest, name)
    return X


def as_float_array(X: ArrayLike, name: str) -> NDArray[Any]:
    """Return `X` as a float or complex array; refuse text and objects with a clear error."""
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array of numbers; its parts differ in shape ({error})"
        ) from None
    if array.dtype.kind not in "fciub":
        kind = {"O": "objects", "U": "text", "S": "text"}.get(array.dtype.kind, "no numbers")
        raise TypeError(f"{name} must be an array of numbers; got {kind} (dtype {array.dtype})")
    if array.dtype in (np.float32, np.float64, np.complex64, np.complex128):
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def check_definite(
    X: NDArray[Any],
    smallest: NDArray[Any],
    largest: NDArray[Any],
    name: str,
    *,
    regularized: bool = False,
) -> None:
    """Raise for the first matrix whose smallest eigenvalue is lost in rounding error or negative.

    The eigenvalues, (n,) each, are those of `X`, (n, d, d), in double precision, `regularized` or not.
    """
    lost = ~(smallest > X.shape[-1] * np.finfo(np.float64).eps * largest)
    if X.dtype in (np.float32, np.complex64) and not regularized:
        doubtful = np.flatnonzero(~lost & (smallest <= np.finfo(np.float32).eps * largest))
        lost[doubtful] = _singular_but_for_rounding(X[doubtful])
    bad = np.flatnonzero(lost)
    if len(bad):
        i = bad[0]
        more = f" ({len(bad)} such matrices in all)" if len(bad) > 1 else ""
        what = "positive definite" if smallest[i] < 0 else "positive definite to working precision"
        is_zero = smallest[i] == largest[i] == 0.0
        advice = INDEFINITE if smallest[i] < -1e-7 * largest[i] else NEARLY
        raise ValueError(
            f"{name}[{i}] is not {what}: its smallest eigenvalue is {smallest[i]:.3g} "
            f"(largest {largest[i]:.3g}){more}; {ZERO if is_zero else advice}"
        )


def _singular_but_for_rounding(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether entries rounded to single precision leave the smallest eigenvalue open: (n,).

    The rounding is relative to each entry, so that it is the correlations that count: features of very
    different scales are no reason for doubt.
    """
    deviations = np.sqrt(np.einsum("njj->nj", X).real.astype(np.float64))
    correlations = X / deviations[:, :, None] / deviations[:, None, :]
    return np.asarray(np.linalg.eigvalsh(correlations)[:, 0] <= np.finfo(np.float32).eps)


def extreme_eigenvalues(X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Smallest and largest eigenvalue of each matrix, in float64: (n,), (n,)."""
    wide = np.complex128 if np.iscomplexobj(X) else np.float64
    smallest, largest = np.empty(len(X)), np.empty(len(X))
    step = max(1, 2**20 // X[0].size)
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        eigenvalues = np.linalg.eigvalsh(X[part].astype(wide))
        smallest[part], largest[part] = eigenvalues[:, 0], eigenvalues[:, -1]
    return smallest, largest


def check_finite(X: NDArray[Any], name: str, items: str = "matrices") -> None:
    """Raise for the first of the `items` along the first axis that holds NaN or infinity."""
    finite = np.isfinite(X).all(axis=tuple(range(1, X.ndim)))
    if not finite.all():
        bad = np.flatnonzero(~finite)
        what = "NaN" if np.isnan(X[bad[0]]).any() else "infinity"
        raise ValueError(
            f"{name}[{bad[0]}] contains {what} ({len(bad)} of {len(X)} {items} do); "
            f"only finite values are accepted: drop or mend these {items}"
        )


def _check_hermitian(X: NDArray[Any], name: str) -> None:
    # half of the digits that the type carries: rounding passes, a wrong triangle does not
    tolerance = float(np.sqrt(np.finfo(X.dtype).eps))
    step = max(1, 2**20 // X[0].size)
    for start in range(0, len(X), step):
        part = X[start : start + step]
        asymmetry = np.abs(part - part.conj().transpose(0, 2, 1)).max(axis=(1, 2))
        size = np.abs(part).max(axis=(1, 2))
        bad = np.flatnonzero(asymmetry > tolerance * size)
        if len(bad):
            i = bad[0]
            what = "Hermitian" if np.iscomplexobj(X) else "symmetric"
            raise ValueError(
                f"{name}[{start + i}] is not {what}: it differs from its "
                f"{'conjugate ' if what == 'Hermitian' else ''}transpose by {asymmetry[i]:.3g} "
                f"(largest entry {size[i]:.3g}, relative tolerance {tolerance:.1g}); "
                f"symmetrise with ({name} + {name}{'.conj()' if what == 'Hermitian' else ''}"
                ".swapaxes(1, 2)) / 2 if the difference is noise"
            )
