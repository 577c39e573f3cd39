"""The Gabor features of faces: intensity, position, and magnitudes of Gabor responses.

A Gabor kernel with an isotropic envelope of standard deviation ``s`` and the wave vector
``k = (2 pi / wavelength) (cos theta, sin theta)`` is

    psi(z) = exp(-|z|^2 / (2 s^2)) / (2 pi s^2) * [exp(i k.z) - c],

where ``c``, which is ``exp(-s^2 |k|^2 / 2)`` unless the wavelength is so short that the samples
alias, makes the kernel blind to a constant. The response is wanted on an image continued by
reflection (``d c b a | a b c d | d c b a``). Three facts make that cheap:

* a reflected image is a sum of cosines, so its spectrum is a cosine transform of the image as it
  is, without padding: no kernel is truncated, and no border wraps around;
* the wave is separable, ``(even_x + i odd_x)(even_y + i odd_y)``: an even factor turns cosines
  into cosines (inverse cosine transform), an odd one into sines (inverse sine transform);
* the orientations ``theta`` and ``pi - theta`` are made of the same four real products.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, cos, log, pi, sin, sqrt

import numpy as np
import scipy.fft

# Wave vectors (pi/2) / sqrt(2)^s, s = 0..4: the usual five scales of face recognition.
DEFAULT_WAVELENGTHS = (4.0, 4.0 * sqrt(2.0), 8.0, 8.0 * sqrt(2.0), 16.0)


class GaborFeatures:
    """Intensity, x, y and one magnitude for each wavelength and orientation.

    Parameters
    ----------
    wavelengths : sequence of float
        Wavelengths in pixels, one scale each. Below 2 pixels the sampled kernel aliases, exactly
        as it does in a convolution in space.
    n_orientations : int
        Orientations ``pi o / n_orientations``; 0 is a wave along x (the columns).
    bandwidth : float
        Half-response bandwidth in octaves; it ties the envelope to the wavelength.
    root : bool
        Whether magnitudes enter by their square roots, less at the mercy of a few bright edges.
    """

    def __init__(
        self,
        wavelengths: Sequence[float],
        n_orientations: int,
        bandwidth: float,
        root: bool = False,
    ) -> None:
        self.wavelengths = tuple(wavelengths)
        self.n_orientations = n_orientations
        self.bandwidth = bandwidth
        self.root = root
        self.names = ["I", "x", "y"] + [
            f"|Gabor {wavelength:.4g} px {180 * o / n_orientations:.4g} degrees|"
            for wavelength in self.wavelengths
            for o in range(n_orientations)
        ]

    def __call__(self, images: np.ndarray, out: np.ndarray) -> None:
        """Write the features of `images` (n_images, h, w) to `out` (n_images, d, h, w)."""
        out[:, 0] = images
        out[:, 1] = np.arange(images.shape[2])
        out[:, 2] = np.arange(images.shape[1])[:, np.newaxis]
        # Without its mean nothing of the image is lost to rounding, and a constant image (the
        # kernels do not see it) gives exact zeros.
        centred = images - images[:, :1, :1]
        centred -= centred.mean(axis=(1, 2), keepdims=True)
        spectrum = scipy.fft.dctn(centred, type=2, axes=(1, 2), overwrite_x=True)
        scratch = np.empty((2, *images.shape))
        for scale, wavelength in enumerate(self.wavelengths):
            first = 3 + scale * self.n_orientations
            target = out[:, first : first + self.n_orientations]
            self._magnitudes(spectrum, wavelength, scratch, target)
            if self.root:
                np.sqrt(target, out=target)

    def _magnitudes(
        self, spectrum: np.ndarray, wavelength: float, scratch: np.ndarray, out: np.ndarray
    ) -> None:
        """Write |psi * image| of one wavelength, all orientations."""
        n = self.n_orientations
        height, width = spectrum.shape[1:]
        envelope, k = envelope_width(wavelength, self.bandwidth), 2 * pi / wavelength
        blur_x, blur_y = (_response(size, 0.0, envelope)[0] for size in (width, height))
        blurred = _cosines(spectrum * blur_x, axis=2)
        for o in range(n // 2 + 1):
            even_x, odd_x = _response(width, k * cos(pi * o / n), envelope)
            even_y, odd_y = _response(height, k * sin(pi * o / n), envelope)
            # a wave along y is only the envelope in x
            x_even = blurred if 2 * o == n else _cosines(spectrum * even_x, axis=2)
            even = x_even * even_y[:, np.newaxis]
            c = even_x[0] * even_y[0] / (blur_x[0] * blur_y[0])
            even -= np.multiply(blurred, c * blur_y[:, np.newaxis], out=scratch[0])
            even = _cosines(even, axis=1)
            if o == 0:  # a wave along x has no odd part in y
                x_odd = _sines(spectrum, odd_x, axis=2)
                x_odd *= even_y[:, np.newaxis]
                _modulus(even, _cosines(x_odd, axis=1), scratch, out[:, o])
                continue
            y_odd = _sines(x_even, odd_y, axis=1)
            if 2 * o == n:  # a wave along y has no odd part in x
                _modulus(even, y_odd, scratch, out[:, o])
                continue
            x_odd = _sines(spectrum, odd_x, axis=2)
            both_odd = _sines(x_odd, odd_y, axis=1)
            x_odd *= even_y[:, np.newaxis]
            x_odd = _cosines(x_odd, axis=1)
            real = np.subtract(even, both_odd, out=scratch[0])
            _modulus(real, np.add(y_odd, x_odd, out=scratch[1]), scratch, out[:, o])
            even += both_odd
            y_odd -= x_odd
            _modulus(even, y_odd, scratch, out[:, n - o])


def envelope_width(wavelength: float, bandwidth: float) -> float:
    """Return the standard deviation of the envelope, in pixels.

    With ``b`` octaves between the frequencies of half response,
    ``s = wavelength / pi * sqrt(log(2) / 2) * (2^b + 1) / (2^b - 1)``.
    """
    ratio = (2.0**bandwidth + 1) / (2.0**bandwidth - 1)
    return wavelength / pi * sqrt(log(2) / 2) * ratio


@lru_cache(maxsize=512)
def _response(size: int, k: float, envelope: float) -> tuple[np.ndarray, np.ndarray]:
    """Even and odd part of a one-dimensional wave's response at ``pi j / size``, j = 0..size-1.

    The kernel is sampled at the pixels, so its response repeats with 2 pi (Poisson's sum).
    """
    n_periods = ceil((abs(k) + 9 / envelope) / (2 * pi)) + 1
    periods = 2 * pi * np.arange(-n_periods, n_periods + 1)[:, np.newaxis]
    frequency = pi * np.arange(size) / size
    forward, backward = (
        np.exp(-((envelope * (w + periods - k)) ** 2) / 2).sum(axis=0)
        for w in (frequency, -frequency)
    )
    even, odd = (forward + backward) / 2, (forward - backward) / 2
    even.flags.writeable = odd.flags.writeable = False  # shared by all threads
    return even, odd


def _cosines(coefficients: np.ndarray, axis: int) -> np.ndarray:
    return scipy.fft.idct(coefficients, type=2, axis=axis, overwrite_x=True)


def _sines(coefficients: np.ndarray, gain: np.ndarray, axis: int) -> np.ndarray:
    """Sum of sines: entry j of a sine transform is the frequency of entry j + 1 of a cosine one."""
    shifted = np.empty_like(coefficients)
    if axis == 1:
        np.multiply(coefficients[:, 1:], gain[1:, np.newaxis], out=shifted[:, :-1])
        shifted[:, -1] = 0
    else:
        np.multiply(coefficients[:, :, 1:], gain[1:], out=shifted[:, :, :-1])
        shifted[:, :, -1] = 0
    return scipy.fft.idst(shifted, type=2, axis=axis, overwrite_x=True)


def _modulus(real: np.ndarray, imaginary: np.ndarray, scratch: np.ndarray, out: np.ndarray) -> None:
    """Write sqrt(real^2 + imaginary^2); `scratch` (2, n_images, h, w) may hold the operands."""
    np.multiply(real, real, out=scratch[0])
    np.multiply(imaginary, imaginary, out=scratch[1])
    scratch[0] += scratch[1]
    np.sqrt(scratch[0], out=out)
