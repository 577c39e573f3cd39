"""The feature extractors by name, and the adapter of a user's function.

An extractor has `names`, one a feature, and writes the features of images of one shape:
``extractor(images, out)`` with `images` (n_images, h, w) and `out` (n_images, d, h, w).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from spdcluster.arguments import check_choice, check_int, check_real
from spdcluster.descriptors.gabor import GaborFeatures
from spdcluster.descriptors.texture import DERIVATIVES, TextureFeatures

FEATURES = ("texture", "texture-signed", "gabor", "gabor-root")


class Extractor(Protocol):
    names: list[str]

    def __call__(self, images: np.ndarray, out: np.ndarray) -> None: ...


class UserFeatures:
    """A user's function image -> (h, w, n_features), called once for each image, in order.

    The number of features is that of the first image, whose maps are kept until they are asked
    for.
    """

    def __init__(self, function: Callable[[np.ndarray], Any], first_image: np.ndarray) -> None:
        self._function = function
        self._first: np.ndarray | None = self._maps(first_image)
        self.names = [f"feature {j}" for j in range(self._first.shape[2])]

    def __call__(self, images: np.ndarray, out: np.ndarray) -> None:
        for image, target in zip(images, out):
            maps = self._maps(image) if self._first is None else self._first
            self._first = None
            if maps.shape[2] != len(self.names):
                raise ValueError(
                    f"features returned {maps.shape[2]} features for one image and "
                    f"{len(self.names)} for the first; it must return the same number for all"
                )
            target[...] = np.moveaxis(maps, 2, 0)

    def _maps(self, image: np.ndarray) -> np.ndarray:
        expected = f"a real array ({image.shape[0]}, {image.shape[1]}, n_features)"
        maps = np.asarray(self._function(image))
        if maps.dtype.kind not in "buif" or maps.ndim != 3 or maps.shape[2] == 0:
            raise ValueError(
                f"features must return {expected} for an image {image.shape}; it returned "
                f"{maps.dtype} {maps.shape}"
            )
        if maps.shape[:2] != image.shape[:2]:
            raise ValueError(
                f"features must return {expected} for an image {image.shape}; it returned shape "
                f"{maps.shape}"
            )
        if not np.isfinite(maps).all():
            raise ValueError("features returned values that are not finite for a finite image")
        return maps


def named_extractor(
    name: Any, derivative: Any, wavelengths: Any, n_orientations: Any, bandwidth: Any
) -> Extractor:
    """Return a built-in extractor, its parameters checked."""
    name = check_choice(name, "features", FEATURES)
    if name.startswith("gabor"):
        return GaborFeatures(
            check_wavelengths(wavelengths),
            check_int(n_orientations, "n_orientations", low=1),
            check_real(bandwidth, "bandwidth", low=0.0, low_open=True),
            root=name == "gabor-root",
        )
    derivative = check_choice(derivative, "derivative", DERIVATIVES)
    return TextureFeatures(derivative, signed=name == "texture-signed")


def check_wavelengths(wavelengths: Any) -> tuple[float, ...]:
    """Return the Gabor wavelengths as floats above one pixel, or raise."""
    if isinstance(wavelengths, str) or not isinstance(wavelengths, (Sequence, np.ndarray)):
        raise TypeError(
            f"wavelengths must be a sequence of numbers of pixels; got {wavelengths!r} "
            f"({type(wavelengths).__name__})"
        )
    if len(wavelengths) == 0:
        raise ValueError("wavelengths must name at least one wavelength in pixels; got none")
    return tuple(
        check_real(wavelength, f"wavelengths[{i}]", low=1.0, low_open=True)
        for i, wavelength in enumerate(wavelengths)
    )
