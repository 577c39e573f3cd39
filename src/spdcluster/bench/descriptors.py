"""`spdcluster bench descriptors`: region covariances against the least work they need.

Every row is measured in one run on one thread (numpy's BLAS and scipy's transforms too), the best
of a few repetitions, in CPU seconds: on an idle machine those of the clock on the wall, and on a busy
one they leave out the time that others had. Rows of their own tell, by the clock on the wall, what all threads make of it, and what they make of hashes
that need neither memory nor Python's lock, measured in turn with ours: no threads can gain more than
other work leaves of the cores. The floors are times of
bare library calls on data that lie ready in memory, while ours start from the images and end with
checked matrices:

* windows, each on its own: the product ``F F^T`` (5 x 1024 by 1024 x 5) of every window, batched,
  which is what "the matrix products they need" says literally;
* windows, no product twice: windows at stride 4 overlap 64 fold, so the least that any method
  needs is each pixel's 5 x 5 product once, batched over the 4 x 4 cells all windows are made of;
* Gabor: `scipy.fft` of the images without padding, one forward and 40 inverse complex transforms
  of 80 x 80 (that wraps around the border), and the real transforms that ours makes.

The covariances of 43 ready maps, one matrix product an image, are timed as well: part of ours.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import pbkdf2_hmac
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

from spdcluster.arguments import check_n_jobs
from spdcluster.descriptors import RegionCovariance
from spdcluster.descriptors.covariances import centre, region_covariances
from spdcluster.descriptors.gabor import GaborFeatures
from spdcluster.descriptors.regions import lay_regions
from spdcluster.descriptors.texture import TextureFeatures

WINDOW, STRIDE = 32, 4
Row = dict[str, Any]


def run(
    data: Path | None = None,
    *,
    n_faces: int = 1400,
    n_faces_rival: int = 2,
    n_repetitions: int = 5,
    random_state: int = 0,
) -> dict[str, Any]:
    """Measure, and return the table.

    Parameters
    ----------
    data : Path or None
        Folder with ``brodatz16`` and ``feret_b_40x40.npz``; None for made-up images of the same
        sizes.
    n_faces : int
        Number of 80 x 80 images for the Gabor rows.
    n_faces_rival : int
        Images that the slow rival gets; its time is extrapolated to `n_faces`.
    n_repetitions : int
    random_state : int
        Seed of the made-up images.

    Returns
    -------
    dict
        ``rows``: what was measured, its ``seconds``, the time it is compared with
        (``reference``, ``reference_seconds``), their ``ratio``, and the ``target`` where there is
        one. ``error``: largest difference to `numpy.cov`, relative to the standard deviations.
    """
    rng = np.random.default_rng(random_state)
    textures = _textures(data, rng)
    faces = _faces(data, n_faces, rng)
    with threadpool_limits(1, "blas"):
        rows, error = _window_rows(textures, n_repetitions)
        rows += _gabor_rows(faces, n_faces_rival, n_repetitions)
    return {"benchmark": "descriptors", "rows": rows, "error": error}


def _window_rows(images: np.ndarray, n_repetitions: int) -> tuple[list[Row], float]:
    one = RegionCovariance(regions="window", size=WINDOW, stride=STRIDE, n_jobs=1)
    every = RegionCovariance(regions="window", size=WINDOW, stride=STRIDE)
    matrices = one.fit_transform(images)  # the first call also compiles
    what = f"{len(matrices)} windows of {WINDOW}x{WINDOW}, 5 features, from images"
    ours = _best(lambda: one.transform(images), n_repetitions)
    threads = _threads_rows(what, one, every, images, n_repetitions)
    features = np.empty((len(images), 5, *images.shape[1:]))
    TextureFeatures("central", signed=False)(images, features)
    each = sum(_window_products(maps, n_repetitions) for maps in features)
    once = _cell_products(features, n_repetitions)
    integral = _best(lambda: [_integral_images(maps) for maps in features], n_repetitions)
    rows = [
        _row(what, ours, "one matrix product a window, batched matmul", each, target=2.0),
        _row(what, ours, "each pixel's product once, batched matmul of 4x4 cells", once),
        _row(what, ours, "integral images with numpy's cumsum, features given", integral),
        *threads,
    ]
    return rows, _largest_error(matrices, one.regions_, features)


def _gabor_rows(images: np.ndarray, n_rival: int, n_repetitions: int) -> list[Row]:
    one, every = RegionCovariance("gabor", n_jobs=1), RegionCovariance("gabor")
    n, height, width = images.shape
    what = f"{n} images of {height}x{width}, 43 features, covariances included"
    one.fit_transform(images[:16])
    ours = _best(lambda: one.transform(images), min(n_repetitions, 3))
    threads = _threads_rows(what, one, every, images, min(n_repetitions, 3))
    rival = _best(lambda: _skimage_covariances(images[:n_rival], one), 1) * n / n_rival
    plain = _a_while(lambda: _complex_transforms((height, width))) * n
    padded = _a_while(lambda: _complex_transforms((2 * height, 2 * width))) * n
    real = _a_while(lambda: _real_transforms(images[:5])) * n / len(images[:5])
    products = _a_while(_products_of_maps(images[:1], one)) * n
    loop = f"loop over skimage.filters.gabor ({n_rival} images, extrapolated)"
    return [
        _row(what, ours, loop, rival, target=1 / 20),
        _row(what, ours, "scipy.fft: 1 + 40 complex transforms, no padding (wraps around)", plain),
        _row(what, ours, "scipy.fft: the same, padded by reflection (the same answer)", padded),
        _row(what, ours, "scipy.fft: the real transforms that ours makes", real),
        _row(what, ours, "part of ours: the covariances of the maps", products),
        *threads,
    ]


def _row(
    what: str, seconds: float, reference: str, reference_seconds: float, target: float | None = None
) -> Row:
    row = {
        "what": what,
        "seconds": seconds,
        "reference": reference,
        "reference_seconds": reference_seconds,
        "ratio": seconds / reference_seconds,
    }
    if target is not None:
        row |= {"target": target, "met": seconds <= target * reference_seconds}
    return row


def _best(
    function: Callable[[], Any], n_repetitions: int, clock: Callable[[], float] = process_time
) -> float:
    times = []
    for _ in range(n_repetitions):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def _threads_rows(
    what: str, one: RegionCovariance, every: RegionCovariance, images: np.ndarray, n: int
) -> list[Row]:
    """All threads beside one, in turn with threads that share nothing; by the clock on the wall."""
    n_threads = check_n_jobs(None)
    calls = (
        lambda: one.transform(images),
        lambda: every.transform(images),
        lambda: _hash(n_threads, 1),
        lambda: _hash(n_threads, n_threads),
    )
    times = [[_best(call, 1, perf_counter) for call in calls] for _ in range(n)]
    ours, ours_threaded, hashes, hashes_threaded = np.min(times, axis=0).tolist()
    return [
        _row(f"{what}, {n_threads} threads", ours_threaded, "the same on one thread", ours),
        _row(f"{n_threads} hashes, {n_threads} threads", hashes_threaded, "on one thread", hashes),
    ]


def _hash(n_times: int, n_threads: int) -> None:
    def one(_: int) -> None:
        pbkdf2_hmac("sha256", b"password", b"salt", 200_000)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(one, range(n_times)))


def _products_of_maps(images: np.ndarray, transformer: RegionCovariance) -> Callable[[], None]:
    """A call that makes the covariance of the 43 maps of one image, which are ready."""
    extractor = GaborFeatures(
        transformer.wavelengths, transformer.n_orientations, transformer.bandwidth
    )
    maps = np.empty((len(images), len(extractor.names), *images.shape[1:]))
    extractor(images, maps)
    span = centre(maps[0])
    whole = lay_regions("image", images.shape[1:], (1, 1), (1, 1), "image")
    out = np.empty((1, len(extractor.names), len(extractor.names)))
    return lambda: region_covariances(maps[0], span, whole, out)


def _a_while(function: Callable[[], Any]) -> float:
    """Return the mean time of a short call over a second, as a long run has it too."""
    start, n_calls = process_time(), 0
    while process_time() < start + 1.0:
        function()
        n_calls += 1
    return (process_time() - start) / n_calls


def _window_products(maps: np.ndarray, n_repetitions: int) -> float:
    """Time the products of one image's windows, gathered beforehand."""
    views = np.lib.stride_tricks.sliding_window_view(maps, (WINDOW, WINDOW), axis=(1, 2))
    views = views[:, ::STRIDE, ::STRIDE].transpose(1, 2, 0, 3, 4)
    windows = views.reshape(-1, len(maps), WINDOW * WINDOW)
    return _best(lambda: windows @ windows.transpose(0, 2, 1), n_repetitions)


def _cell_products(features: np.ndarray, n_repetitions: int) -> float:
    """Time the products of all 4x4 cells of all images, gathered beforehand."""
    n, d, h, w = features.shape
    split = features.reshape(n, d, h // STRIDE, STRIDE, w // STRIDE, STRIDE)
    cells = split.transpose(0, 2, 4, 1, 3, 5).reshape(-1, d, STRIDE * STRIDE)
    return _best(lambda: cells @ cells.transpose(0, 2, 1), n_repetitions)


def _integral_images(maps: np.ndarray) -> np.ndarray:
    """The textbook way: sums and products summed over the image, differences at the corners."""
    d = len(maps)
    i, j = np.triu_indices(d)
    centred = maps - maps.mean(axis=(1, 2), keepdims=True)
    sums = np.zeros((d + len(i), maps.shape[1] + 1, maps.shape[2] + 1))
    both = np.concatenate([centred, centred[i] * centred[j]])
    np.cumsum(np.cumsum(both, axis=1), axis=2, out=sums[:, 1:, 1:])
    lower, upper = slice(WINDOW, None, STRIDE), slice(None, -WINDOW, STRIDE)
    totals = sums[:, lower, lower] - sums[:, upper, lower] - sums[:, lower, upper]
    totals += sums[:, upper, upper]
    n = WINDOW * WINDOW
    covariances = (totals[d:] - totals[i] * totals[j] / n) / (n - 1)
    matrices = np.empty((*totals.shape[1:], d, d))
    matrices[..., i, j] = matrices[..., j, i] = np.moveaxis(covariances, 0, -1)
    return matrices


def _largest_error(matrices: np.ndarray, regions: np.ndarray, features: np.ndarray) -> float:
    """Compare every hundredth window with `numpy.cov`, relative to the standard deviations."""
    worst = 0.0
    for matrix, (i, row, column, height, width) in zip(matrices[::100], regions[::100]):
        pixels = features[i, :, row : row + height, column : column + width]
        expected = np.cov(pixels.reshape(len(pixels), -1))
        deviations = np.sqrt(np.diag(expected))
        error = np.abs(matrix - expected) / np.outer(deviations, deviations)
        worst = max(worst, float(error.max()))
    return worst


def _skimage_covariances(images: np.ndarray, ours: RegionCovariance) -> np.ndarray:
    from skimage.filters import gabor

    y, x = np.mgrid[: images.shape[1], : images.shape[2]]
    matrices = []
    for image in images:
        maps = [image, x, y]
        for wavelength in ours.wavelengths:
            for o in range(ours.n_orientations):
                real, imaginary = gabor(
                    image,
                    1 / wavelength,
                    theta=np.pi * o / ours.n_orientations,
                    bandwidth=ours.bandwidth,
                )
                maps.append(np.hypot(real, imaginary))
        matrices.append(np.cov(np.reshape(maps, (len(maps), -1))))
    return np.array(matrices)


def _complex_transforms(shape: tuple[int, int]) -> None:
    image = np.ones(shape)
    spectra = np.ones((40, *shape), dtype=complex)
    scipy.fft.fft2(image)
    scipy.fft.ifft2(spectra, axes=(1, 2), overwrite_x=True)


def _real_transforms(images: np.ndarray) -> None:
    """For each scale 10 transforms along x and 16 along y: see `descriptors.gabor`."""
    scipy.fft.dctn(images, axes=(1, 2))
    scratch = np.ones(images.shape)
    for _ in range(5):
        for transform, axis, count in (
            (scipy.fft.idct, 2, 6),
            (scipy.fft.idst, 2, 4),
            (scipy.fft.idct, 1, 9),
            (scipy.fft.idst, 1, 7),
        ):
            for _ in range(count):
                transform(scratch, axis=axis, overwrite_x=True)
                scratch[...] = 1.0


def _textures(data: Path | None, rng: np.random.Generator) -> np.ndarray:
    """Sixteen images of 256 x 256: the Brodatz textures, or smooth noise."""
    if data is None:
        return np.cumsum(rng.normal(size=(16, 256, 256)), axis=2) + rng.normal(size=(16, 256, 256))
    from skimage.io import imread
    from skimage.transform import resize

    paths = sorted((Path(data) / "brodatz16").glob("*.png"))
    return np.stack([resize(imread(p) / 255.0, (256, 256), anti_aliasing=True) for p in paths])


def _faces(data: Path | None, n_faces: int, rng: np.random.Generator) -> np.ndarray:
    """Images of 80 x 80: the faces at hand (40 x 40) enlarged, or smooth noise."""
    if data is None:
        return np.cumsum(rng.normal(size=(n_faces, 80, 80)), axis=2)
    from skimage.transform import resize

    with np.load(Path(data) / "feret_b_40x40.npz") as archive:
        faces = archive["images"][:n_faces]
    return np.stack([resize(face / 255.0, (80, 80), order=3) for face in faces])
