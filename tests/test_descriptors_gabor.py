"""Gabor features: against a convolution in space with the same kernel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import fftconvolve

from spdcluster.descriptors import RegionCovariance
from spdcluster.descriptors.gabor import DEFAULT_WAVELENGTHS, GaborFeatures, envelope_width


def spatial_magnitude(image, wavelength, theta, bandwidth):
    """Convolve with the sampled kernel, nine deviations wide, borders reflected."""
    s, k = envelope_width(wavelength, bandwidth), 2 * np.pi / wavelength
    radius = int(np.ceil(9 * s))
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    envelope = np.exp(-(x**2 + y**2) / (2 * s**2)) / (2 * np.pi * s**2)
    wave = np.exp(1j * k * (x * np.cos(theta) + y * np.sin(theta)))
    kernel = envelope * (wave - (envelope * wave).sum() / envelope.sum())
    return abs(fftconvolve(np.pad(image, radius, mode="symmetric"), kernel, mode="valid"))


def gabor_maps(images, wavelengths, n_orientations, bandwidth):
    extractor = GaborFeatures(wavelengths, n_orientations, bandwidth)
    maps = np.empty((len(images), len(extractor.names), *images.shape[1:]))
    extractor(images, maps)
    return maps


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 24), st.integers(2, 24)),
    wavelength=st.floats(1.2, 12),
    n_orientations=st.integers(1, 9),
    bandwidth=st.floats(0.6, 2.0),
    seed=st.integers(0, 2**31),
)
def test_magnitudes_equal_a_convolution_in_space(
    shape, wavelength, n_orientations, bandwidth, seed
):
    image = 5 + np.random.default_rng(seed).normal(size=shape)
    maps = gabor_maps(image[np.newaxis], (wavelength,), n_orientations, bandwidth)[0]
    for o in range(n_orientations):
        theta = np.pi * o / n_orientations
        expected = spatial_magnitude(image, wavelength, theta, bandwidth)
        np.testing.assert_allclose(maps[3 + o], expected, atol=1e-12)


def test_magnitudes_are_those_of_skimage_where_its_kernel_is_not_truncated():
    from skimage.filters import gabor

    image = np.random.default_rng(0).normal(size=(40, 30))
    maps = gabor_maps(image[np.newaxis], (5.0, 9.0), 8, 0.7)[0]
    for scale, wavelength in enumerate((5.0, 9.0)):
        for o in range(8):
            real, imaginary = gabor(
                image, 1 / wavelength, theta=np.pi * o / 8, bandwidth=0.7, n_stds=8
            )
            # skimage keeps the kernel's tiny response to a constant: 1e-4 at this bandwidth
            expected = np.hypot(real, imaginary)
            np.testing.assert_allclose(maps[3 + 8 * scale + o], expected, atol=1e-3)


def test_the_43_features_of_the_paper_and_their_covariance():
    images = np.random.default_rng(1).normal(size=(3, 20, 26)).cumsum(axis=1)
    transformer = RegionCovariance("gabor", bandwidth=1.0)
    matrices = transformer.fit_transform(images)
    assert matrices.shape == (3, 43, 43)
    assert transformer.feature_names_[:3] == ["I", "x", "y"]
    maps = gabor_maps(images, transformer.wavelengths, 8, 1.0)
    for matrix, image in zip(matrices, maps):
        np.testing.assert_allclose(matrix, np.cov(image.reshape(43, -1)), rtol=1e-9, atol=1e-12)


def test_gabor_root_takes_square_roots_of_the_magnitudes_alone():
    image = np.random.default_rng(3).normal(size=(1, 20, 24))
    plain, root = (np.empty((1, 43, 20, 24)) for _ in range(2))
    GaborFeatures(DEFAULT_WAVELENGTHS, 8, 1.0)(image, plain)
    GaborFeatures(DEFAULT_WAVELENGTHS, 8, 1.0, root=True)(image, root)
    np.testing.assert_array_equal(root[:, :3], plain[:, :3])
    np.testing.assert_allclose(root[:, 3:] ** 2, plain[:, 3:])
    (matrix,) = RegionCovariance("gabor-root").fit_transform(image)
    np.testing.assert_allclose(matrix, np.cov(root[0].reshape(43, -1)), rtol=1e-9, atol=1e-12)


def test_a_constant_image_has_no_response_at_all():
    maps = gabor_maps(np.full((1, 12, 12), 0.1), (3.0, 6.0), 4, 1.0)
    np.testing.assert_array_equal(maps[0, 3:], 0.0)


def test_a_wave_answers_most_in_its_own_orientation_and_scale():
    y, x = np.mgrid[:60, :60]
    theta = np.pi * 3 / 8
    wave = np.cos(2 * np.pi / 8 * (x * np.cos(theta) + y * np.sin(theta)))
    maps = gabor_maps(wave[np.newaxis], (4.0, 8.0, 16.0), 8, 1.0)[0, 3:]
    assert maps[:, 20:40, 20:40].mean(axis=(1, 2)).argmax() == 1 * 8 + 3


@pytest.mark.parametrize("where", ["grid", "window"])
def test_regions_of_gabor_features_equal_numpy_cov(where):
    images = np.random.default_rng(2).normal(size=(2, 30, 30)).cumsum(axis=2)
    transformer = RegionCovariance(
        "gabor", regions=where, size=15, stride=5, wavelengths=(3, 6), n_orientations=4
    )
    matrices = transformer.fit_transform(images)
    maps = gabor_maps(images, (3, 6), 4, 1.0)
    for matrix, (i, row, column, height, width) in zip(matrices, transformer.regions_):
        pixels = maps[i, :, row : row + height, column : column + width].reshape(11, -1)
        np.testing.assert_allclose(matrix, np.cov(pixels), rtol=1e-10, atol=1e-12)
