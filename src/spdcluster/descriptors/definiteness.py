"""Whether covariance matrices are positive definite, and if one is not, why and what to do."""

import numpy as np

from spdcluster.descriptors.covariances import EPSILON, correlations

# above so many matrices in one call, compiled code is ahead of LAPACK by more than it takes to load
MANY = 500


def singular(matrices: np.ndarray) -> np.ndarray:
    """Say which matrices (n, d, d) are not positive definite in double precision.

    A matrix passes if every feature keeps a share of its variance, given the features before it,
    that rounding cannot explain (the Cholesky pivots, which do not depend on the features'
    scales), and if its eigenvalues can be told from zero, as a logarithm needs.
    """
    n, d = matrices.shape[:2]
    least, small = 10 * d * EPSILON, 1e-9
    if n > MANY:
        from spdcluster.descriptors.pivots import sort_out

        failed, doubtful = np.empty(n, dtype=bool), np.empty(n, dtype=bool)
        sort_out(matrices, least, small, failed, doubtful)
    else:
        variances = np.einsum("njj->nj", matrices)
        try:
            factors = np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:
            unexplained = unexplained_shares(matrices) * variances
        else:
            unexplained = np.square(np.einsum("njj->nj", factors))
        with np.errstate(invalid="ignore"):
            failed = ~(unexplained > least * variances).all(axis=1)
            # The smallest pivot bounds the smallest eigenvalue from above: only where it is tiny
            # can the eigenvalues be in doubt.
            doubtful = ~failed & (unexplained.min(axis=1) < small * variances.sum(axis=1))
    if doubtful.any():
        eigenvalues = np.linalg.eigvalsh(matrices[doubtful])
        failed[doubtful] = eigenvalues[:, 0] <= d * EPSILON * eigenvalues[:, -1]
    return np.asarray(failed)


def unexplained_shares(matrices: np.ndarray) -> np.ndarray:
    """Return (n, d): the share of each feature's variance that the features before it leave.

    The pivots of the correlation matrix, by elimination; zero from the first feature on that is
    constant or a linear combination of the ones before.
    """
    n, d = matrices.shape[:2]
    rest = np.where(np.isfinite(matrices), matrices, 0.0)
    correlations(rest)
    shares = np.zeros((n, d))
    alive = np.ones(n, dtype=bool)
    for j in range(d):
        pivot = rest[:, j, j]
        alive &= pivot > 10 * d * EPSILON
        shares[:, j] = np.where(alive, pivot, 0.0)
        column = np.where(alive[:, np.newaxis], rest[:, j + 1 :, j], 0.0)
        scaled = column / np.where(alive, pivot, 1.0)[:, np.newaxis]
        rest[:, j + 1 :, j + 1 :] -= scaled[:, :, np.newaxis] * column[:, np.newaxis, :]
    return shares


def explain(
    matrix: np.ndarray, names: list[str], image_name: str, whole_image: bool
) -> tuple[str, str]:
    """Return why a matrix (d, d) is not positive definite, and what to do about it.

    `whole_image` says that a feature without variance has none in the whole image either.
    """
    variances = np.diag(matrix)
    if not np.isfinite(matrix).all():
        return "its entries overflow", "Rescale the images, or use standardize=True."
    constant = [name for name, variance in zip(names, variances) if variance <= 0]
    if constant:
        verb = "is" if len(constant) == 1 else "are"
        reason = f"{_enumerate(constant)} {verb} constant over"
        if whole_image:
            remedy = f"Drop {image_name}, or choose features that vary in it."
            return f"{reason} the whole image", remedy
        remedy = (
            "Set shrinkage=1e-3, say, which gives such a region a share of its image's "
            "variances, choose larger regions, or drop the image."
        )
        return f"{reason} that region", remedy
    shares = unexplained_shares(matrix[np.newaxis])[0]
    if (shares == 0).any():
        return (
            f"{names[int(np.argmax(shares == 0))]} is a linear combination of the features before "
            f"it there",
            "Set shrinkage=1e-3, say, or choose larger regions or other features.",
        )
    eigenvalues = np.linalg.eigvalsh(matrix)
    return (
        f"its eigenvalues, {eigenvalues[0]:.2g} to {eigenvalues[-1]:.2g}, span more than double "
        f"precision",
        "Bring the features to one scale with standardize=True or normalize='correlation', or "
        "set shrinkage=1e-3, say.",
    )


def _enumerate(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more features"
