"""Made families of matrices with known classes, to see where a method wins and where it loses.

Each maker takes a generator and the sizes of the classes, and returns their matrices one class after
the other, shape (sum of sizes, d, d). Every draw has new classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Maker = Callable[[Generator, NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True)
class Family:
    """A kind of data.

    Attributes
    ----------
    name : str
    n_classes, size : int
        Classes, and matrices in each of them where classes are balanced.
    make : callable
        ``make(rng, sizes)``.
    was_tuned_on : bool
        Whether other draws of the family had a say in the preset.
    """

    name: str
    n_classes: int
    size: int
    make: Maker
    was_tuned_on: bool

    def draw(
        self, rng: Generator, unbalanced: bool = False
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Matrices (n, d, d) and classes (n,); unbalanced classes have an eighth of `size` to all."""
        least = max(8, self.size // 8) if unbalanced else self.size
        sizes = rng.integers(least, self.size + 1, self.n_classes)
        return self.make(rng, sizes), np.repeat(np.arange(self.n_classes), sizes)


# ------------------------------------------------------------------------------- sample covariances


def wishart(
    d: int, dofs: tuple[int, ...], spread: float, *, is_complex: bool = False, texture: float = 0.0
) -> Maker:
    """Sample covariances of Gaussian vectors, each class with its own covariance and one of `dofs`.

    `texture` is the standard deviation of the logarithm of a factor that all vectors of a matrix share,
    as bright and dark pixels of one radar class do.
    """

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        classes = []
        for size in sizes:
            root = np.linalg.cholesky(_covariance(rng, d, spread, is_complex))
            vectors = root @ _normal(rng, (size, d, rng.choice(dofs)), is_complex)
            factor = np.exp(texture * rng.normal(size=(size, 1, 1)))
            classes.append(factor * _second_moments(vectors))
        return np.concatenate(classes)

    return make


def heavy_tails(d: int, n_samples: int, freedom: float) -> Maker:
    """Sample covariances of multivariate Student vectors: outlying samples, outlying matrices."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        classes = []
        for size in sizes:
            root = np.linalg.cholesky(_covariance(rng, d, 0.6, False))
            length = np.sqrt(freedom / rng.chisquare(freedom, (size, 1, n_samples)))
            classes.append(_second_moments(root @ rng.normal(size=(size, d, n_samples)) * length))
        return np.concatenate(classes)

    return make


def autoregressive(d: int, n_samples: int) -> Maker:
    """Lag covariances of stationary series, x_t = a_1 x_{t-1} + a_2 x_{t-2} + noise: near Toeplitz."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        from numpy.lib.stride_tricks import sliding_window_view
        from scipy.signal import lfilter

        classes = []
        for size in sizes:
            radius, angle = rng.uniform(0.5, 0.9), rng.uniform(0.2, np.pi - 0.2)
            poles = [1.0, -2 * radius * np.cos(angle), radius**2]
            series = lfilter([1.0], poles, rng.normal(size=(size, n_samples + 200)))[:, 200:]
            classes.append(_second_moments(sliding_window_view(series, d, 1).swapaxes(1, 2)))
        return np.concatenate(classes)

    return make


def oscillations(n_channels: int, seconds: float = 2.0, rate: int = 128) -> Maker:
    """Trials of electric potentials in volts: sources on a head, three of them modulated by the class."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        shape = (n_channels, int(seconds * rate))
        t = np.arange(shape[1]) / rate
        head = rng.normal(size=(n_channels, n_channels)) * np.exp(-rng.random((n_channels,) * 2))
        rest, rhythm = np.exp(0.4 * rng.normal(size=n_channels)), rng.uniform(8, 13, n_channels)
        matrices = []
        for size in sizes:
            power = rest.copy()
            power[rng.choice(n_channels, 3, replace=False)] *= [2.5, 0.4, 2.0]
            for _ in range(size):
                amplitude = power * np.exp(0.25 * rng.normal(size=n_channels))
                frequency = rhythm + 0.5 * rng.normal(size=n_channels)
                phase = rng.uniform(0, 2 * np.pi, n_channels)
                wave = np.sin(2 * np.pi * frequency[:, None] * t + phase[:, None])
                drift = np.cumsum(rng.normal(size=shape), axis=1)
                drift -= drift.mean(axis=1, keepdims=True)
                drift /= drift.std(axis=1, keepdims=True)
                trial = head @ (amplitude[:, None] * (wave + 0.7 * drift))
                trial += 0.2 * rng.normal(size=shape)
                matrices.append(1e-6 * np.exp(0.2 * rng.normal()) * trial)
        trials = np.array(matrices)
        return _second_moments(trials - trials.mean(axis=2, keepdims=True))

    return make


def networks(d: int, n_blocks: int, n_samples: int) -> Maker:
    """Connectivity: classes group the same regions into blocks in other ways; subjects vary."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        classes = []
        for size in sizes:
            member = np.eye(n_blocks)[rng.integers(n_blocks, size=d)]
            strength = rng.uniform(0.3, 0.6, size=(size, 1, 1))
            truth = strength * (member @ member.T) + (1 - strength) * np.eye(d)
            root = np.linalg.cholesky(truth)
            classes.append(_second_moments(root @ rng.normal(size=(size, d, n_samples))))
        return np.concatenate(classes)

    return make


# ------------------------------------------------------------------------- sets with a shape of their own


def curves(d: int, noise: float) -> Maker:
    """Arcs of closed curves in the space of log vectors, which may pass through one another."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        from spdcluster.geometry.logarithm import matrices_from_log_vectors

        p = d * (d + 1) // 2
        classes = []
        for size in sizes:
            centre, axes = 0.45 * rng.normal(size=p), 0.5 * rng.normal(size=(4, p))
            u = rng.uniform(0, 1.6 * np.pi, (size, 1))
            along = np.hstack([np.cos(u), np.sin(u), np.cos(2 * u) / 2, np.sin(2 * u) / 2])
            vectors = centre + along @ axes + noise * rng.normal(size=(size, p))
            classes.append(matrices_from_log_vectors(vectors, d))
        return np.concatenate(classes)

    return make


def orbits(d: int, noise: float) -> Maker:
    """One spectrum a class, turned about by a one-parameter group of rotations."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        from scipy.linalg import expm

        classes = []
        for size in sizes:
            spectrum = np.diag(1.2 * np.sort(rng.normal(size=d)))
            first, _ = np.linalg.qr(rng.normal(size=(d, d)))
            turn = rng.normal(size=(d, d))
            turn -= turn.T
            turn /= np.linalg.norm(turn)
            Q = np.array([first @ expm(angle * turn) for angle in rng.uniform(0, 3, size)])
            logs = Q @ spectrum @ Q.swapaxes(1, 2) + noise * _symmetric(rng, size, d)
            classes.append(_exponential(logs))
        return np.concatenate(classes)

    return make


def diffusion_tensors(noise: float) -> Maker:
    """Tensors of fibre bundles: a direction that bends along the bundle, a shape of its own, noise."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        classes = []
        for size in sizes:
            along, across = rng.uniform(1.2, 2.0), rng.uniform(0.2, 0.5)
            plane, _ = np.linalg.qr(rng.normal(size=(3, 2)))
            angle = rng.uniform(0, 0.8, size)
            direction = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane.T
            logs = np.log(across) * np.eye(3) + np.log(along / across) * (
                direction[:, :, None] * direction[:, None, :]
            )
            classes.append(1e-3 * _exponential(logs + noise * _symmetric(rng, size, 3)))
        return np.concatenate(classes)

    return make


def clouds(d: int) -> Maker:
    """Log-normal clouds whose spreads differ by a factor of up to five."""

    def make(rng: Generator, sizes: NDArray[np.int64]) -> NDArray[Any]:
        classes = []
        for size in sizes:
            centre = 0.5 * _symmetric(rng, 1, d)
            spread = np.exp(rng.uniform(np.log(0.12), np.log(0.6)))
            classes.append(_exponential(centre + spread * _symmetric(rng, size, d)))
        return np.concatenate(classes)

    return make


FAMILIES = (
    Family("Wishart, 8 to 40 samples", 6, 60, wishart(5, (8, 16, 40), 0.5), True),
    Family("Wishart 10 x 10, 20 samples", 6, 60, wishart(10, (20,), 0.4), True),
    Family("EEG, 8 channels", 4, 60, oscillations(8), True),
    Family("EEG, 16 channels", 4, 60, oscillations(16), True),
    Family("radar, 9 looks", 5, 120, wishart(3, (9,), 0.5, is_complex=True), True),
    Family("curves", 5, 60, curves(5, 0.08), True),
    Family("orbits", 4, 60, orbits(4, 0.1), True),
    Family("radar with texture", 5, 120, wishart(3, (16,), 0.7, is_complex=True, texture=0.5), False),
    Family("heavy tails", 5, 60, heavy_tails(6, 30, 4.0), False),
    Family("autoregressive", 6, 60, autoregressive(6, 120), False),
    Family("networks 30 x 30", 5, 40, networks(30, 4, 60), False),
    Family("diffusion tensors", 6, 80, diffusion_tensors(0.15), False),
    Family("clouds", 6, 60, clouds(6), False),
)  # fmt: skip


# -------------------------------------------------------------------------------------- small pieces


def _normal(rng: Generator, shape: tuple[int, ...], is_complex: bool) -> NDArray[Any]:
    if is_complex:
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)
    return rng.normal(size=shape)


def _covariance(rng: Generator, d: int, spread: float, is_complex: bool) -> NDArray[Any]:
    Q, _ = np.linalg.qr(_normal(rng, (d, d), is_complex))
    return np.asarray((Q * np.exp(spread * rng.normal(size=d))) @ Q.conj().T)


def _second_moments(samples: NDArray[Any]) -> NDArray[Any]:
    """(n, d, T) -> (n, d, d)."""
    return np.asarray(samples @ samples.conj().swapaxes(1, 2) / samples.shape[2])


def _symmetric(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    A = rng.normal(size=(n, d, d))
    return np.asarray((A + A.swapaxes(1, 2)) / 2)


def _exponential(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(logs)
    return np.asarray((vectors * np.exp(values)[:, None, :]) @ vectors.swapaxes(1, 2))
