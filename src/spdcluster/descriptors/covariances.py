"""From feature maps to the covariance matrices of regions, and what may be done to them."""

from math import gcd

import numpy as np

from spdcluster.descriptors.regions import Regions

EPSILON = float(np.finfo(np.float64).eps)


def centre(features: np.ndarray) -> np.ndarray:
    """Take the middle of its range off each feature (d, h, w), in place; return the ranges (d,).

    Sums of squares then hold no large constant that would cost digits, and a feature that is
    constant over the image is exactly zero.
    """
    low, high = features.min(axis=(1, 2)), features.max(axis=(1, 2))
    features -= ((low + high) / 2)[:, np.newaxis, np.newaxis]
    return np.asarray(high - low)


def region_covariances(
    features: np.ndarray, span: np.ndarray, regions: Regions, out: np.ndarray
) -> None:
    """Write the unbiased covariance of the features over each region.

    ``C = 1 / (n_pixels - 1) sum_p (f_p - mean)(f_p - mean)^T``, as `numpy.cov` computes it. A
    feature that spreads less over a region than rounding does over the image is constant there:
    its variance is exactly zero.

    Parameters
    ----------
    features : ndarray (d, h, w)
        Centred, C-contiguous float64; overwritten.
    span : ndarray (d,)
        Their ranges over the image, from `centre`.
    regions : Regions
    out : ndarray (n_regions, d, d)
    """
    if regions.disjoint:
        _blocks(features, regions, out)
    else:
        _windows(features, regions, out)
    constant = _constant(np.einsum("njj->nj", out), span)
    if constant.any():
        out[constant[:, :, np.newaxis] | constant[:, np.newaxis, :]] = 0.0


def feature_variances(features: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Return the variances (d,) of centred features (d, h, w) over their image."""
    variances = features.reshape(len(features), -1).var(axis=1, ddof=1)
    variances[_constant(variances, span)] = 0.0
    return np.asarray(variances)


def _constant(variances: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Say which features (..., d) only spread by rounding, given their span (d,) in the image."""
    return np.asarray(np.sqrt(variances) <= 64 * EPSILON * span)


def _blocks(features: np.ndarray, regions: Regions, out: np.ndarray) -> None:
    """Regions that share no pixel: one matrix product each."""
    views = np.lib.stride_tricks.sliding_window_view(
        features, (regions.height, regions.width), axis=(1, 2), writeable=True
    )[:, :: regions.row_step, :: regions.column_step]
    pixels = views.transpose(1, 2, 0, 3, 4).reshape(len(out), len(features), -1)
    pixels -= pixels.mean(axis=2, keepdims=True)
    np.matmul(pixels, pixels.transpose(0, 2, 1), out=out)
    out /= max(regions.n_pixels - 1, 1)


def _windows(features: np.ndarray, regions: Regions, out: np.ndarray) -> None:
    from spdcluster.descriptors.sliding import sliding_covariances

    cell = gcd(regions.height, regions.row_step), gcd(regions.width, regions.column_step)
    sliding_covariances(
        features,
        cell,
        (regions.height // cell[0], regions.width // cell[1]),
        (regions.row_step // cell[0], regions.column_step // cell[1]),
        (regions.n_rows, regions.n_columns),
        out,
    )


def shrink(matrices: np.ndarray, shrinkage: float, variances: np.ndarray) -> None:
    """``C <- (1 - shrinkage) C + shrinkage diag(variances)``, in place."""
    matrices *= 1 - shrinkage
    diagonal = np.einsum("njj->nj", matrices)
    diagonal += shrinkage * variances


def correlations(matrices: np.ndarray) -> None:
    """Divide rows and columns (n, d, d) by the standard deviations, in place.

    A feature without variance keeps its zeros.
    """
    _divide(matrices, np.sqrt(np.einsum("njj->nj", matrices)))
    diagonal = np.einsum("njj->nj", matrices)
    diagonal[diagonal > 0] = 1.0


def balance(matrices: np.ndarray) -> None:
    """Divide rows and columns (n, d, d) by the square roots of the standard deviations, in place."""
    _divide(matrices, np.einsum("njj->nj", matrices) ** 0.25)


def _divide(matrices: np.ndarray, scales: np.ndarray) -> None:
    scales[scales == 0] = 1.0
    matrices /= scales[:, :, np.newaxis]
    matrices /= scales[:, np.newaxis, :]
