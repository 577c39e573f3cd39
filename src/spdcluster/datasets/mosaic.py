"""The demo's picture: three textures that scikit-image carries, side by side in one image."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TEXTURES = ("brick", "grass", "gravel")


@dataclass(frozen=True)
class TextureMosaic:
    """An image of several textures and the texture of every pixel.

    Attributes
    ----------
    image : ndarray, shape (size, size)
        Every texture has mean 0 and variance 1: brightness alone does not tell them apart.
    truth : ndarray of int, shape (size, size)
        Index into `names`.
    names : tuple of str
    """

    image: NDArray[np.float64]
    truth: NDArray[np.int64]
    names: tuple[str, ...]


def texture_mosaic(size: int = 384) -> TextureMosaic:
    """Brick above, grass and gravel below, with wavy borders; nothing is downloaded.

    Parameters
    ----------
    size : int, at most 512
        Height and width in pixels.

    Examples
    --------
    >>> from spdcluster.datasets import texture_mosaic
    >>> mosaic = texture_mosaic(256)
    >>> mosaic.image.shape, mosaic.names
    ((256, 256), ('brick', 'grass', 'gravel'))
    """
    from skimage import data

    from spdcluster.arguments import check_int

    size = check_int(size, "size", low=32, high=512)
    textures = []
    for name in TEXTURES:
        pixels = getattr(data, name)()[:size, :size].astype(np.float64)
        textures.append((pixels - pixels.mean()) / pixels.std())
    y, x = np.mgrid[:size, :size] / size - 0.5
    above = y + 0.06 * np.sin(7 * x) < -0.1
    left = x + 0.08 * np.sin(8 * y) < 0
    truth = np.where(above, 0, np.where(left, 1, 2))
    return TextureMosaic(np.choose(truth, textures), truth, TEXTURES)
