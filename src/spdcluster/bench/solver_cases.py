"""What the solver is measured on: real data from a folder, or made-up data of the same kind.

A log-Gaussian kernel on matrices is the Gaussian kernel on their log vectors, so that a case keeps
only these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.datasets.brodatz import load_brodatz
from spdcluster.descriptors import RegionCovariance
from spdcluster.geometry import log_vectors
from spdcluster.kernels import VectorGram, make_kernel

SIDE = 256  # pixels of a texture image
WINDOW = 32
STRIDES = (4, 2)
GAMMA, ALPHA = 0.5, 0.04
# made-up matrices get the width at which the faces' mean of gamma |u - v|^2 is
FACE_GAMMA, FACE_ALPHA, FACE_MEAN_EXPONENT = 2e-3, 0.1, 0.16
TEXTURES, FACES = "16 textures, blocks", "faces 43x43"
WINDOWS, HOSTILE = "16 textures, windows", "hostile"


@dataclass(frozen=True)
class Case:
    """Points and parameters: ``exp(-gamma |u - v|^2)`` on `vectors` (n, p), penalty `alpha`."""

    name: str
    vectors: NDArray[np.float64]
    gamma: float
    alpha: float
    note: str = ""

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.vectors)

    def gram(self) -> VectorGram:
        """The implicit kernel matrix, as the solver gets it."""
        gram = make_kernel("gaussian", gamma=self.gamma).bind(self.vectors)
        assert isinstance(gram, VectorGram)
        return gram


def texture_images(data: Path | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """The sixteen Brodatz textures, or sixteen of oriented noise: shape (16, 256, 256)."""
    if data is not None:
        inner = data / "brodatz16"
        return load_brodatz(inner if inner.is_dir() else data).images
    y, x = np.meshgrid(*2 * [np.fft.fftfreq(SIDE)], indexing="ij")
    images = []
    for angle, frequency in zip(
        np.linspace(0, np.pi, 16, endpoint=False), 4 * [0.05, 0.1, 0.2, 0.3]
    ):
        along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
        band = np.exp(-(((np.abs(along) - frequency) / 0.05) ** 2) - (across / 0.1) ** 2)
        noise = np.fft.ifft2(np.fft.fft2(rng.normal(size=(SIDE, SIDE))) * (band + 0.02)).real
        # contrast and brightness that drift make the windows of one texture differ
        drift = np.cumsum(np.cumsum(rng.normal(size=(SIDE, SIDE)), axis=0), axis=1)
        images.append(noise / noise.std() * np.exp(drift / np.abs(drift).max()))
    return 128 + 40 * np.stack(images)


def texture_blocks(images: NDArray[np.float64], n: int, rng: np.random.Generator) -> Case:
    """Blocks of 32 x 32 side by side, 1024 of them, or a random `n`."""
    blocks = RegionCovariance("texture", regions="grid", size=WINDOW).fit_transform(images)
    vectors = log_vectors(blocks)
    return Case(TEXTURES, _some(vectors, n, rng), GAMMA, ALPHA)


def texture_windows(images: NDArray[np.float64], n: int, rng: np.random.Generator) -> Case:
    """A random `n` of all overlapping windows of 32 x 32, of the largest stride that has so many."""
    for stride in STRIDES:
        count = len(images) * ((SIDE - WINDOW) // stride + 1) ** 2
        if n <= count:
            break
    else:
        raise ValueError(f"sizes must be at most {count}, the windows at stride {stride}; got {n}")
    windows = RegionCovariance("texture", regions="window", size=WINDOW, stride=stride)
    vectors = _some(log_vectors(windows.fit_transform(images)), n, rng)
    share = "all" if n == count else f"{n} of {count}"
    return Case(WINDOWS, vectors, GAMMA, ALPHA, f"{share} at stride {stride}")


def faces(data: Path | None, n: int, rng: np.random.Generator) -> Case | None:
    """Gabor covariances of FERET faces, (1400, 946) vectors; None where the folder has none."""
    if data is None:
        return _made_up_faces(n, rng)
    path = data / "feret_b_40x40.npz"
    if not path.exists():
        return None
    from spdcluster.datasets.feret import load_feret

    descriptor = RegionCovariance("gabor", standardize=True, shrinkage=1e-2)
    vectors = log_vectors(descriptor.fit_transform(load_feret(path).images[:n]))
    return Case(FACES, vectors, FACE_GAMMA, FACE_ALPHA)


def _made_up_faces(n: int, rng: np.random.Generator) -> Case:
    """Groups of seven sample covariances, 43 x 43."""
    mixing = np.eye(43) + 0.1 * rng.normal(size=(-(-n // 7), 43, 43))
    matrices = []
    for root in np.repeat(mixing, 7, axis=0)[:n]:
        signal = root @ rng.normal(size=(43, 400))
        matrices.append(signal @ signal.T / 400)
    vectors = log_vectors(np.array(matrices))
    spread = 2.0 * np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean()
    return Case(FACES, vectors, float(FACE_MEAN_EXPONENT / spread), FACE_ALPHA)


def hostile_cases(easy: Case, n_copied: int = 20) -> Sequence[Case]:
    """Variations of an easy case of the same number of points, each hard in a way of its own."""
    few = easy.vectors[np.arange(easy.n) % max(2, easy.n // n_copied)]
    one = np.repeat(easy.vectors[:1], easy.n, axis=0)

    def case(name: str, vectors: Any = easy.vectors, gamma: float = GAMMA, alpha: float = ALPHA):  # type: ignore[no-untyped-def]
        return Case(
            f"{HOSTILE}: {name}", vectors, gamma, alpha, f"gamma {gamma:g}, alpha {alpha:g}"
        )

    return [
        case("copies of one point", one),
        case(f"{n_copied} copies of each point", few),
        case("hundreds of atoms", alpha=1e-4),
        case("all codes zero", alpha=10.0),
        case("kernel near all-ones", gamma=1e-6),
        case("kernel near identity", gamma=100.0),
        case("kernel the identity", gamma=1e6),
    ]


def _some(vectors: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if n >= len(vectors):
        return vectors
    return vectors[np.sort(rng.choice(len(vectors), n, replace=False))]
