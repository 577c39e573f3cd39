"""The transformer: images in, one covariance matrix a region out."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import groupby
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from threadpoolctl import ThreadpoolController

from spdcluster.arguments import check_bool, check_choice, check_int, check_n_jobs, check_real
from spdcluster.descriptors.covariances import (
    balance,
    centre,
    correlations,
    feature_variances,
    region_covariances,
    shrink,
)
from spdcluster.descriptors.definiteness import explain, singular
from spdcluster.descriptors.extractors import Extractor, UserFeatures, named_extractor
from spdcluster.descriptors.gabor import DEFAULT_WAVELENGTHS
from spdcluster.descriptors.images import Image, as_float, as_grey, load_images
from spdcluster.descriptors.regions import KINDS, OVERLAPS, REGION_FIELDS, Regions, lay_regions

# Pixels that one thread holds the features of at a time: enough to make a call worth while, few
# enough for the cache (43 features of them take 11 MB).
BATCH_PIXELS = 2**15
NORMALIZATIONS = {"correlation": correlations, "balanced": balance}


class RegionCovariance(TransformerMixin, BaseEstimator):
    """Covariance matrices of feature maps over regions of images.

    A region R with P pixels and their features f_p gives

        C_R = 1 / (P - 1) sum_{p in R} (f_p - mean) (f_p - mean)^T.

    Parameters
    ----------
    features : {"texture", "texture-signed", "gabor", "gabor-root"} or callable
        "texture": I, |Ix|, |Iy|, |Ixx|, |Iyy| (5). "texture-signed": these and Ix, Iy, Ixx, Iyy
        (9). "gabor": I, x, y and the magnitudes of Gabor responses, one for each wavelength and
        orientation (43), borders continued by reflection. "gabor-root": square roots of these
        magnitudes. A function gets a float64 image (h, w)
        or (h, w, 3) and returns an array (h, w, n_features); it is called once for each image.
        The named features turn colour into grey by its luminance.
    regions : {"image", "grid", "window"}
        The whole image, blocks side by side, or a sliding window. Blocks and windows start in
        the upper left corner, and those that do not fit at the right and the bottom are left out.
    size : int or (int, int)
        Height and width of a block or a window in pixels.
    stride : int or (int, int)
        Distance of two windows, down and to the right; only for ``regions="window"``.
    derivative : {"central", "simple"}
        "central": `numpy.gradient`, twice for second derivatives. "simple": the filters
        [-1 0 1] and [-1 2 -1]. Only for texture features.
    wavelengths : sequence of float
        Gabor wavelengths in pixels, one scale each.
    n_orientations : int
        Gabor orientations, evenly spaced over half a turn.
    bandwidth : float
        Gabor bandwidth in octaves, as in `skimage.filters.gabor`.
    shrinkage : float in [0, 1]
        ``C <- (1 - shrinkage) C + shrinkage diag(v)``, with v the variances of the features over
        the whole image that the region is in. It is relative to the image's own scale in every
        feature; for ``regions="image"`` it is a ridge on the correlation.
    normalize : None, "correlation" or "balanced"
        After the shrinkage. "correlation" divides each matrix by its standard deviations,
        "balanced" by their square roots: how strong a feature is in a region still counts, but no
        longer more than how features go together.
    standardize : bool
        Whether each image is first brought to mean 0 and variance 1.
    n_jobs : int or None
        Threads; None for all available cores. The result does not depend on it. A user's
        function is called from one thread.

    Attributes
    ----------
    regions_ : structured ndarray (n_regions,)
        Where each region of the last transform lies: ``image`` (its number), ``row`` and
        ``column`` of its upper left pixel, ``height`` and ``width``.
    image_shapes_ : list of (int, int)
        Height and width of the images of the last transform.
    feature_names_ : list of str (d,)

    Notes
    -----
    Intensities are used as they are, whatever their type: an 8-bit image and the same image
    divided by 255 give texture covariances that differ by the factor 255^2. ``standardize=True``
    removes such differences, within and between images.

    References
    ----------
    Tuzel, Porikli, Meer: Region covariance: a fast descriptor for detection and classification.
    ECCV 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster.descriptors import RegionCovariance
    >>> images = np.random.default_rng(0).normal(size=(2, 64, 64))
    >>> RegionCovariance(regions="grid", size=32).fit_transform(images).shape
    (8, 5, 5)
    """

    def __init__(
        self,
        features: str | Callable[[np.ndarray], np.ndarray] = "texture",
        *,
        regions: str = "image",
        size: int | tuple[int, int] = 32,
        stride: int | tuple[int, int] = 8,
        derivative: str = "central",
        wavelengths: Sequence[float] = DEFAULT_WAVELENGTHS,
        n_orientations: int = 8,
        bandwidth: float = 1.0,
        shrinkage: float = 0.0,
        normalize: str | None = None,
        standardize: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.regions = regions
        self.size = size
        self.stride = stride
        self.derivative = derivative
        self.wavelengths = wavelengths
        self.n_orientations = n_orientations
        self.bandwidth = bandwidth
        self.shrinkage = shrinkage
        self.normalize = normalize
        self.standardize = standardize
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters; nothing is learnt from the images.

        Parameters
        ----------
        X : images, as for `transform`; not read.
        y : ignored
        """
        self._check_parameters()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the covariance matrices of all regions of all images.

        Parameters
        ----------
        X : ndarray (n_images, h, w) or (n_images, h, w, 3), list, path or folder
            Grey or colour images, integers or floats. A list may mix arrays (h, w) and
            (h, w, 3) of different sizes and paths of image files; an opacity channel is ignored.
            The images of a folder are taken in natural order of their names.

        Returns
        -------
        ndarray (n_regions, d, d)
            Symmetric positive definite, image after image, each image row by row.
        """
        self._check_parameters()
        images = load_images(X)
        layouts = self._lay_regions(images)
        extractor = self._extractor(images[0])
        d = len(extractor.names)
        self._check_rank(layouts, images, d)
        parts = _consecutive([layout.n_regions for layout in layouts])
        n_regions = parts[-1].stop
        self.regions_ = np.empty(n_regions, dtype=REGION_FIELDS)
        for i, (layout, part) in enumerate(zip(layouts, parts)):
            layout.write(i, self.regions_[part])
        self.image_shapes_ = [(layout.image_height, layout.image_width) for layout in layouts]
        self.feature_names_ = list(extractor.names)
        self._layouts = layouts
        self._whole_images = self.regions == "image"
        matrices = np.empty((n_regions, d, d))
        failed = np.empty(n_regions, dtype=bool)

        def work(batches: list[list[int]]) -> None:
            features = np.empty((0, d, 0, 0))
            for batch in batches:
                pixels = np.stack([self._pixels(images[i]) for i in batch])
                shape = (len(batch), d, *pixels.shape[1:3])
                # Kept from batch to batch: fresh memory costs more than the derivatives.
                features = features if features.shape == shape else np.empty(shape)
                with np.errstate(over="ignore", invalid="ignore"):  # told as one error below
                    extractor(pixels, features)
                    for k, i in enumerate(batch):
                        self._covariances(features[k], layouts[i], matrices[parts[i]])
                        failed[parts[i]] = singular(matrices[parts[i]])

        self._spread(work, _batches(images))
        if failed.any():
            raise ValueError(self._complaint(matrices, failed, images))
        return matrices

    def inverse_labels(
        self, labels: Any, *, overlap: str = "nearest", fill: Any = None
    ) -> np.ndarray | list[np.ndarray]:
        """Put labels of regions back into the images of the last transform.

        Parameters
        ----------
        labels : array-like (n_regions,)
            One label a region, in the order of the matrices; numbers or strings.
        overlap : {"nearest", "majority"}
            What a pixel under several windows gets: the label of the window whose centre is
            nearest (the upper and left one of two), or the label of most windows over it, the
            nearest of them if there is a tie.
        fill : label, default -1, or "" for strings
            For pixels that no region covers.

        Returns
        -------
        ndarray (n_images, h, w), or a list of ndarray (h, w) if the images differ in shape
            With ``regions="image"`` the labels themselves, (n_images,).
        """
        if not hasattr(self, "regions_"):
            raise NotFittedError(
                "RegionCovariance has no regions yet: call transform (or fit_transform) before "
                "inverse_labels"
            )
        check_choice(overlap, "overlap", OVERLAPS)
        values = np.asarray(labels)
        if values.shape != self.regions_.shape:
            raise ValueError(
                f"labels must have one label for each of the {len(self.regions_)} regions of the "
                f"last transform, shape {self.regions_.shape}; got shape {values.shape}"
            )
        if self._whole_images:
            return values
        if fill is None:
            fill = "" if values.dtype.kind in "US" else -1
        dtype = np.result_type(values, np.asarray(fill))
        painted = [np.empty(shape, dtype=dtype) for shape in self.image_shapes_]
        start = 0
        for layout, image in zip(self._layouts, painted):
            layout.paint(values[start : start + layout.n_regions], overlap, fill, image)
            start += layout.n_regions
        return np.stack(painted) if len(set(self.image_shapes_)) == 1 else painted

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_parameters(self) -> None:
        if not callable(self.features):
            self._named_extractor()
        check_choice(self.regions, "regions", KINDS)
        _pair(self.size, "size")
        _pair(self.stride, "stride")
        check_real(self.shrinkage, "shrinkage", low=0.0, high=1.0)
        check_bool(self.standardize, "standardize")
        check_n_jobs(self.n_jobs)
        if self.normalize is not None:
            check_choice(self.normalize, "normalize (unless None)", list(NORMALIZATIONS))

    def _named_extractor(self) -> Extractor:
        return named_extractor(
            self.features, self.derivative, self.wavelengths, self.n_orientations, self.bandwidth
        )

    def _extractor(self, first_image: Image) -> Extractor:
        if callable(self.features):
            return UserFeatures(self.features, self._pixels(first_image))
        return self._named_extractor()

    def _lay_regions(self, images: list[Image]) -> list[Regions]:
        size, stride = _pair(self.size, "size"), _pair(self.stride, "stride")
        return [
            lay_regions(self.regions, image.shape, size, stride, image.name) for image in images
        ]

    def _check_rank(self, layouts: list[Regions], images: list[Image], d: int) -> None:
        """Refuse at once what no pixel values could make definite."""
        if self.shrinkage > 0:
            return
        for image, layout in zip(images, layouts):
            if layout.n_pixels <= d:
                raise ValueError(
                    f"the regions of {image.name} have {layout.n_pixels} pixels "
                    f"({layout.height} x {layout.width}), but a positive definite covariance of "
                    f"{d} features needs at least {d + 1}: choose larger regions, or "
                    f"shrinkage=1e-3, say"
                )

    def _pixels(self, image: Image) -> np.ndarray:
        """Return the float image that the extractor gets."""
        pixels = as_float(image)
        if not callable(self.features):
            pixels = as_grey(pixels)
        if self.standardize:
            if pixels.min() == pixels.max():
                raise ValueError(
                    f"{image.name} is constant (every pixel is {pixels.flat[0]:g}), so it cannot "
                    f"be standardized: drop it"
                )
            pixels -= pixels.mean()
            pixels /= pixels.std()
        return pixels

    def _covariances(self, maps: np.ndarray, layout: Regions, out: np.ndarray) -> None:
        span = centre(maps)
        variances = feature_variances(maps, span) if self.shrinkage > 0 else None
        region_covariances(maps, span, layout, out)
        if variances is not None:
            shrink(out, self.shrinkage, variances)
        if self.normalize is not None:
            NORMALIZATIONS[self.normalize](out)

    def _spread(self, work: Callable[[list[list[int]]], None], batches: list[list[int]]) -> None:
        """Do the work on the threads."""
        n_workers = 1 if callable(self.features) else check_n_jobs(self.n_jobs)
        n_workers = min(n_workers, len(batches))
        # BLAS stays on one thread: the pool uses the cores, and no sum depends on n_jobs.
        with _libraries().limit(limits=1, user_api="blas"):
            if n_workers == 1:
                return work(batches)
            with ThreadPoolExecutor(n_workers) as pool:
                list(pool.map(work, [batches[k::n_workers] for k in range(n_workers)]))

    def _complaint(self, matrices: np.ndarray, failed: np.ndarray, images: list[Image]) -> str:
        """Say which region is not positive definite, why, and what to do."""
        first = int(np.argmax(failed))
        i, row, column, height, width = self.regions_[first].item()
        whole_image = self._whole_images or self.shrinkage > 0
        reason, remedy = explain(matrices[first], self.feature_names_, images[i].name, whole_image)
        others = np.count_nonzero(failed) - 1
        more = f" (and {others} more of {len(failed)} regions)" if others else ""
        return (
            f"the covariance of {images[i].name}, region at row {row}, column {column} "
            f"({height} x {width} pixels), is not positive definite{more}: {reason}. {remedy}"
        )


@cache
def _libraries() -> ThreadpoolController:
    """Finding the loaded libraries takes as long as ten thousand windows."""
    return ThreadpoolController()


def _batches(images: list[Image]) -> list[list[int]]:
    """Group neighbouring images of one shape, by number, up to BATCH_PIXELS pixels."""
    batches = []
    for shape, group in groupby(range(len(images)), key=lambda i: images[i].pixels.shape):
        numbers = list(group)
        length = max(1, BATCH_PIXELS // (shape[0] * shape[1]))
        batches += [numbers[i : i + length] for i in range(0, len(numbers), length)]
    return batches


def _consecutive(lengths: list[int]) -> list[slice]:
    """Return the slices of these lengths, one behind the other."""
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for length, end in zip(lengths, ends)]


def _pair(value: Any, name: str) -> tuple[int, int]:
    """Return (height, width) from one integer or two."""
    if isinstance(value, Integral):
        both = check_int(value, name, low=1)
        return both, both
    if isinstance(value, (tuple, list, np.ndarray)) and len(value) == 2:
        return check_int(value[0], f"{name}[0]", low=1), check_int(value[1], f"{name}[1]", low=1)
    raise TypeError(
        f"{name} must be a number of pixels or two, (height, width); got {value!r} "
        f"({type(value).__name__})"
    )
