"""From images to the experiments' matrices: `RegionCovariance`, and two options of the preset."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def covariances(
    images: Any, settings: Mapping[str, Any], n_jobs: int | None = None
) -> NDArray[np.float64]:
    """Region covariances of images.

    Parameters
    ----------
    images : as for `spdcluster.descriptors.RegionCovariance`
    settings : mapping
        Parameters of `RegionCovariance`, and two more. ``root_magnitudes`` (only with Gabor
        features): magnitudes enter by their square root, which is less at the mercy of a few
        bright edges. ``balance``: see `balanced`.
    n_jobs : int or None

    Returns
    -------
    ndarray, shape (n_regions, d, d)
    """
    from spdcluster.descriptors import RegionCovariance

    options = dict(settings)
    balance = options.pop("balance", 0.0)
    if options.pop("root_magnitudes", False):
        options["features"] = RootGabor(options.pop("wavelengths"))
    return balanced(RegionCovariance(**options, n_jobs=n_jobs).fit_transform(images), balance)


def balanced(X: NDArray[np.float64], balance: float) -> NDArray[np.float64]:
    """``c_ij / (c_ii c_jj)^(balance / 2)``: between covariances (0) and correlations (1).

    At one half variances enter by their square roots: how strong a feature is in a region still
    counts, but no longer more than how features go together. Congruence by a positive diagonal
    matrix, so that the result is positive definite; a change of the images' unit multiplies all
    matrices by one number.
    """
    scale = np.einsum("nii->ni", X) ** (balance / 2)
    return np.asarray(X / scale[:, :, None] / scale[:, None, :])


class RootGabor:
    """Intensity, x, y and square roots of Gabor magnitudes, a function for `RegionCovariance`."""

    def __init__(self, wavelengths: tuple[float, ...]) -> None:
        from spdcluster.descriptors.gabor import GaborFeatures

        self._gabor = GaborFeatures(wavelengths, n_orientations=8, bandwidth=1.0)

    def __call__(self, image: NDArray[np.float64]) -> NDArray[np.float64]:
        maps = np.empty((1, len(self._gabor.names), *image.shape))
        self._gabor(image[None], maps)
        np.sqrt(maps[:, 3:], out=maps[:, 3:])
        return np.moveaxis(maps[0], 0, -1)
