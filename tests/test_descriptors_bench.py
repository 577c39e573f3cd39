"""The descriptors benchmark: runs without data, and its rivals do what they say."""

import numpy as np

from spdcluster.bench.descriptors import _integral_images, _skimage_covariances, run
from spdcluster.descriptors import RegionCovariance
from spdcluster.descriptors.texture import TextureFeatures


def test_the_table_has_ratios_and_an_error_at_rounding_level():
    table = run(n_faces=2, n_faces_rival=1, n_repetitions=1)
    assert table["error"] < 1e-12
    for row in table["rows"]:
        assert row["ratio"] == row["seconds"] / row["reference_seconds"]
        assert row["seconds"] > 0
    assert sum("target" in row for row in table["rows"]) == 2


def test_the_rivals_compute_the_same_matrices():
    image = np.random.default_rng(0).normal(size=(64, 64)).cumsum(axis=1)
    maps = np.empty((1, 5, 64, 64))
    TextureFeatures("central", signed=False)(image[np.newaxis], maps)
    windows = RegionCovariance(regions="window", size=32, stride=4)
    np.testing.assert_allclose(
        _integral_images(maps[0]).reshape(-1, 5, 5), windows.fit_transform([image]), rtol=1e-6
    )
    # skimage cuts its kernels at three deviations and keeps a little of the mean
    gabor = RegionCovariance("gabor", wavelengths=(3.0, 5.0), n_orientations=4, bandwidth=0.8)
    image -= image.mean()
    rival = _skimage_covariances(image[np.newaxis], gabor)
    np.testing.assert_allclose(
        rival, gabor.fit_transform([image]), atol=0.02 * abs(rival[0, 3:, 3:]).max()
    )
