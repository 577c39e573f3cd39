"""Region covariances: against numpy.cov, and every refusal."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from spdcluster.descriptors import RegionCovariance, definiteness

RTOL = 1e-10


def textured(rng, shape):
    """Smooth, non-constant images on a slope, so that regions differ in level and in spread."""
    noise = rng.normal(size=shape)
    slope = np.linspace(0, 20, shape[-1]) + np.linspace(0, 50, shape[-2])[:, np.newaxis]
    return 100 + slope + noise * np.linspace(2, 9, shape[-1])


def numpy_texture(image, derivative="central", signed=False):
    """The features, written in the plainest way."""
    image = np.asarray(image, dtype=float)
    if derivative == "central":
        x, y = np.gradient(image, axis=1), np.gradient(image, axis=0)
        xx, yy = np.gradient(x, axis=1), np.gradient(y, axis=0)
    else:
        p = np.pad(image, 1, mode="edge")
        x, y = p[1:-1, 2:] - p[1:-1, :-2], p[2:, 1:-1] - p[:-2, 1:-1]
        xx = 2 * image - p[1:-1, 2:] - p[1:-1, :-2]
        yy = 2 * image - p[2:, 1:-1] - p[:-2, 1:-1]
    maps = [image, abs(x), abs(y), abs(xx), abs(yy)]
    return np.stack([*maps, x, y, xx, yy] if signed else maps)


def assert_covariances(matrices, maps, regions, rtol=RTOL):
    """Each matrix against numpy.cov of its own pixels, relative to the features' deviations."""
    assert len(matrices) == len(regions)
    for matrix, (i, row, column, height, width) in zip(matrices, regions):
        pixels = maps[i][:, row : row + height, column : column + width]
        expected = np.cov(pixels.reshape(len(pixels), -1))
        deviations = np.sqrt(np.diag(expected))
        error = abs(matrix - expected) / np.outer(deviations, deviations)
        assert error.max() < rtol
        np.testing.assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("derivative", ["central", "simple"])
@pytest.mark.parametrize("features", ["texture", "texture-signed"])
@pytest.mark.parametrize(
    "where",
    [
        {"regions": "image"},
        {"regions": "grid", "size": (16, 11)},
        {"regions": "window", "size": (12, 18), "stride": (4, 6)},
        {"regions": "window", "size": 13, "stride": 1},
        {"regions": "window", "size": 9, "stride": (20, 2)},
    ],
)
def test_every_region_equals_numpy_cov(features, derivative, where):
    images = textured(np.random.default_rng(0), (2, 40, 51))
    transformer = RegionCovariance(features, derivative=derivative, **where)
    matrices = transformer.fit_transform(images)
    maps = [numpy_texture(image, derivative, features == "texture-signed") for image in images]
    assert_covariances(matrices, maps, transformer.regions_, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(12, 40), st.integers(12, 40)),
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    stride=st.tuples(st.integers(1, 15), st.integers(1, 15)),
    dtype=st.sampled_from([np.uint8, np.uint16, np.int32, np.float32, np.float64]),
    kind=st.sampled_from(["grid", "window"]),
    seed=st.integers(0, 2**31),
)
def test_windows_of_any_size_stride_and_dtype_equal_numpy_cov(
    shape, size, stride, dtype, kind, seed
):
    image = np.random.default_rng(seed).integers(0, 255, size=shape).astype(dtype)
    transformer = RegionCovariance(regions=kind, size=size, stride=stride)
    matrices = transformer.fit_transform([image])
    assert_covariances(matrices, [numpy_texture(image)], transformer.regions_)
    step = size if kind == "grid" else stride
    expected = [
        (0, row, column, *size)
        for row in range(0, shape[0] - size[0] + 1, step[0])
        for column in range(0, shape[1] - size[1] + 1, step[1])
    ]
    assert transformer.regions_.tolist() == expected


@pytest.mark.parametrize("n_cells", [1, 2, 3, 5, 6, 7, 8, 11, 13, 16, 23])
def test_windows_of_any_number_of_cells_equal_numpy_cov(n_cells):
    # runs of cells are put together by the binary digits of their number
    image = textured(np.random.default_rng(n_cells), (60, 75))
    for stride in (1, 3):
        size = n_cells * stride if n_cells * stride > 5 else 6 * stride
        if size > 60:
            continue
        transformer = RegionCovariance(regions="window", size=size, stride=stride)
        matrices = transformer.fit_transform([image])
        assert_covariances(matrices, [numpy_texture(image)], transformer.regions_, rtol=1e-12)


def test_windows_far_from_the_image_mean_lose_no_digits():
    # Deviation 1e-3 at a level 1e4 away from the rest: an integral image keeps two digits of it.
    rng = np.random.default_rng(1)
    image = 1e-3 * rng.normal(size=(40, 40))
    image[:, 20:] += 1e4
    maps = np.stack([image, rng.normal(size=image.shape)])
    transformer = RegionCovariance(
        lambda pixels: np.moveaxis(maps, 0, 2), regions="window", size=8, stride=3
    )
    matrices = transformer.fit_transform([image])
    assert_covariances(matrices, [maps], transformer.regions_, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e-100])
@pytest.mark.parametrize("where", [{"regions": "grid"}, {"regions": "window", "shrinkage": 1e-3}])
def test_scaling_the_intensities_only_scales_the_matrices(scale, where):
    images = textured(np.random.default_rng(2), (2, 64, 64))
    transformer = RegionCovariance("texture-signed", **where)
    expected = transformer.fit_transform(images)
    scaled = transformer.transform(images * scale)
    error = abs(scaled / scale**2 - expected).max(axis=(1, 2)) / expected.max(axis=(1, 2))
    assert error.max() < 1e-10


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_standardize_makes_gabor_matrices_independent_of_scale_and_offset(scale):
    images = textured(np.random.default_rng(3), (2, 32, 32))
    transformer = RegionCovariance("gabor", standardize=True, wavelengths=(3, 5, 8))
    expected = transformer.fit_transform(images)
    np.testing.assert_allclose(
        transformer.transform(scale * (images + 7)), expected, rtol=1e-6, atol=1e-9
    )


def test_colour_becomes_luminance_and_opacity_is_ignored():
    rng = np.random.default_rng(4)
    colour = rng.integers(0, 256, size=(2, 20, 24, 3)).astype(np.uint8)
    grey = colour @ np.array([0.2125, 0.7154, 0.0721])
    expected = RegionCovariance().fit_transform(grey)
    np.testing.assert_allclose(RegionCovariance().fit_transform(colour), expected, rtol=1e-12)
    opacity = np.concatenate([colour, colour[..., :1]], axis=3)
    np.testing.assert_allclose(RegionCovariance().fit_transform(opacity), expected, rtol=1e-12)


def test_layout_writability_and_container_of_the_images_do_not_matter():
    images = textured(np.random.default_rng(5), (3, 30, 20))
    expected = RegionCovariance().fit_transform(images)
    before = images.copy()
    images.flags.writeable = False
    variants = [
        images,
        np.asfortranarray(images),
        list(images),
        tuple(np.asfortranarray(image) for image in images),
        [image.tolist() for image in images],
        images[:, :, :, np.newaxis],
        np.repeat(images, 2, axis=2)[:, :, ::2],
    ]
    for variant in variants:
        np.testing.assert_array_equal(RegionCovariance().fit_transform(variant), expected)
    np.testing.assert_array_equal(images, before)


def test_images_of_different_sizes_and_types_share_one_call():
    rng = np.random.default_rng(6)
    images = [
        textured(rng, (30, 40)),
        rng.integers(0, 65536, size=(25, 33)).astype(np.uint16),
        rng.integers(0, 256, size=(50, 20, 3)).astype(np.uint8),
    ]
    transformer = RegionCovariance(regions="window", size=10, stride=5)
    matrices = transformer.fit_transform(images)
    separate = [transformer.fit_transform([image]) for image in images]
    np.testing.assert_array_equal(matrices, np.concatenate(separate))


def test_paths_and_folders_are_read_in_natural_order(tmp_path):
    from skimage.io import imsave

    rng = np.random.default_rng(7)
    images = {
        "D3.png": rng.integers(0, 256, size=(20, 20)).astype(np.uint8),
        "D21.png": rng.integers(0, 65536, size=(24, 18)).astype(np.uint16),
        "D100.tif": rng.integers(0, 256, size=(16, 30, 3)).astype(np.uint8),
    }
    for name, image in images.items():
        imsave(tmp_path / name, image, check_contrast=False)
    (tmp_path / "notes.txt").write_text("not an image")
    expected = RegionCovariance().fit_transform(list(images.values()))
    transformer = RegionCovariance()
    np.testing.assert_array_equal(transformer.fit_transform(tmp_path), expected)
    np.testing.assert_array_equal(transformer.fit_transform(str(tmp_path)), expected)
    mixed = [str(tmp_path / "D3.png"), images["D21.png"], tmp_path / "D100.tif"]
    np.testing.assert_array_equal(transformer.fit_transform(mixed), expected)
    np.testing.assert_array_equal(transformer.fit_transform(tmp_path / "D3.png"), expected[:1])


@pytest.mark.parametrize("features", ["texture", "gabor"])
def test_the_result_does_not_depend_on_the_number_of_threads(features):
    images = textured(np.random.default_rng(8), (40, 48, 48))
    one, two = (
        RegionCovariance(features, shrinkage=1e-3, n_jobs=n_jobs).fit_transform(images)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_a_function_gets_the_image_as_it_is_and_names_the_features():
    rng = np.random.default_rng(9)
    seen = []

    def colours(image):
        seen.append((image.shape, image.dtype))
        return image

    colour = rng.integers(0, 256, size=(2, 20, 20, 3)).astype(np.uint8)
    transformer = RegionCovariance(colours, regions="grid", size=10)
    matrices = transformer.fit_transform(colour)
    assert seen == [((20, 20, 3), np.float64)] * 2
    maps = np.moveaxis(colour.astype(float), 3, 1)
    assert_covariances(matrices, maps, transformer.regions_)
    assert transformer.feature_names_ == ["feature 0", "feature 1", "feature 2"]


def test_shrinkage_is_towards_the_variances_of_the_whole_image():
    image = textured(np.random.default_rng(10), (32, 48))
    variances = numpy_texture(image).reshape(5, -1).var(axis=1, ddof=1)
    plain = RegionCovariance(regions="grid", size=16).fit_transform([image])
    shrunk = RegionCovariance(regions="grid", size=16, shrinkage=0.1).fit_transform([image])
    np.testing.assert_allclose(shrunk, 0.9 * plain + 0.1 * np.diag(variances), rtol=1e-12)


def test_correlation_is_numpy_corrcoef_and_ridge_with_shrinkage():
    image = textured(np.random.default_rng(11), (32, 48))
    expected = np.corrcoef(numpy_texture(image).reshape(5, -1))
    (matrix,) = RegionCovariance(normalize="correlation").fit_transform([image])
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)
    np.testing.assert_array_equal(np.diag(matrix), 1.0)
    (matrix,) = RegionCovariance(normalize="correlation", shrinkage=0.2).fit_transform([image])
    np.testing.assert_allclose(matrix, 0.8 * expected + 0.2 * np.eye(5), rtol=1e-12)


def test_balanced_lies_halfway_between_covariance_and_correlation():
    image = textured(np.random.default_rng(11), (32, 48))
    covariance = np.cov(numpy_texture(image).reshape(5, -1))
    deviations = np.sqrt(np.diag(covariance))
    (matrix,) = RegionCovariance(normalize="balanced").fit_transform([image])
    np.testing.assert_allclose(matrix, covariance / np.sqrt(np.outer(deviations, deviations)))
    (scaled,) = RegionCovariance(normalize="balanced").fit_transform([100 * image])
    np.testing.assert_allclose(scaled, 100 * matrix)


def test_shrinkage_makes_flat_regions_of_a_varied_image_definite():
    image = textured(np.random.default_rng(12), (64, 64))
    image[:40, :40] = 0.1
    matrices = RegionCovariance(regions="window", size=8, stride=4, shrinkage=1e-3).fit_transform(
        [image]
    )
    assert np.linalg.eigvalsh(matrices).min() > 0


# Labels back into images


def test_grid_labels_return_to_their_blocks():
    transformer = RegionCovariance(regions="grid", size=(8, 10))
    matrices = transformer.fit_transform(textured(np.random.default_rng(13), (2, 20, 32)))
    labels = np.arange(len(matrices))
    painted = transformer.inverse_labels(labels)
    assert painted.shape == (2, 20, 32)
    for label, (i, row, column, height, width) in zip(labels, transformer.regions_):
        block = painted[i, row : row + height, column : column + width]
        np.testing.assert_array_equal(block, label)
    assert (painted[:, 16:] == -1).all()
    assert (painted[:, :, 30:] == -1).all()
    names = np.array([f"class {label}" for label in labels])
    painted = transformer.inverse_labels(names)
    assert painted[0, 0, 0] == "class 0"
    assert painted[0, 19, 0] == ""
    assert (transformer.inverse_labels(labels, fill=99)[:, 16:] == 99).all()


@pytest.mark.parametrize("overlap", ["nearest", "majority"])
@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    stride=st.tuples(st.integers(1, 11), st.integers(1, 11)),
    n_classes=st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_window_labels_return_as_a_pixel_by_pixel_count_says(
    overlap, size, stride, n_classes, seed
):
    rng = np.random.default_rng(seed)
    transformer = RegionCovariance(regions="window", size=size, stride=stride)
    matrices = transformer.fit_transform([rng.normal(size=(19, 17))])
    labels = rng.integers(0, n_classes, size=len(matrices)) * 10
    (painted,) = transformer.inverse_labels(labels, overlap=overlap)
    regions = transformer.regions_
    for y, x in np.ndindex(19, 17):
        over = (
            (regions["row"] <= y)
            & (y < regions["row"] + size[0])
            & (regions["column"] <= x)
            & (x < regions["column"] + size[1])
        )
        if not over.any():
            assert painted[y, x] == -1
            continue
        # the nearest along each axis, the first of two
        down = abs(2 * (y - regions["row"]) - size[0] + 1)
        right = abs(2 * (x - regions["column"]) - size[1] + 1)
        nearest = labels[np.lexsort((right, down))[0]]
        if overlap == "nearest":
            assert painted[y, x] == nearest
        else:
            found, counts = np.unique(labels[over], return_counts=True)
            winners = found[counts == counts.max()]
            assert painted[y, x] in winners
            assert painted[y, x] == nearest or nearest not in winners


def test_labels_of_whole_images_and_of_images_of_different_sizes():
    rng = np.random.default_rng(14)
    images = [rng.normal(size=(20, 30)), rng.normal(size=(25, 16))]
    transformer = RegionCovariance().fit(images)
    transformer.transform(images)
    assert transformer.inverse_labels([4, 2]).tolist() == [4, 2]
    transformer = RegionCovariance(regions="grid", size=8)
    matrices = transformer.fit_transform(images)
    painted = transformer.inverse_labels(np.ones(len(matrices), dtype=int))
    assert [image.shape for image in painted] == [(20, 30), (25, 16)]


def test_it_clones_pickles_and_sits_in_a_pipeline():
    from pyriemann.tangentspace import TangentSpace

    images = textured(np.random.default_rng(15), (6, 40, 40))
    transformer = RegionCovariance(regions="grid", size=20)
    assert clone(transformer).get_params() == transformer.get_params()
    expected = transformer.fit_transform(images)
    copy = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(copy.transform(images), expected)
    np.testing.assert_array_equal(
        copy.inverse_labels(np.arange(24)), transformer.inverse_labels(range(24))
    )
    pipeline = make_pipeline(RegionCovariance(), TangentSpace())
    pipeline.set_params(regioncovariance__features="texture-signed")
    assert pipeline.fit_transform(images).shape == (6, 45)


# Refusals: one clear error each

GOOD = np.random.default_rng(16).normal(size=(1, 20, 20))
NAN = GOOD.copy()
NAN[0, 3, 4] = np.nan


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (None, TypeError, "X must be an array .* got NoneType"),
        ([], ValueError, "X holds no image"),
        (np.empty((0, 20, 20)), ValueError, "no image"),
        (GOOD[0], ValueError, r"put it in a list, \[X\]"),
        (np.zeros((20, 20, 3)), ValueError, r"one colour image or 20 grey ones 3 pixels wide"),
        (np.zeros((2, 20, 20, 5)), ValueError, r"X\[0\] has shape \(20, 20, 5\)"),
        (np.zeros(7), ValueError, r"X has shape \(7,\)"),
        (GOOD.astype(complex), TypeError, r"X\[0\] has dtype complex128"),
        ([GOOD[0], np.full((20, 20), "a")], TypeError, r"X\[1\] has dtype <U1"),
        ([GOOD[0], [[1, 2], [3]]], ValueError, r"X\[1\] is not an image"),
        ([GOOD[0], np.zeros((1, 20))], ValueError, r"X\[1\] has shape .* at least 2 x 2"),
        (NAN, ValueError, r"X\[0\] is nan at row 3, column 4; .*drop the image"),
        (["no-such-file.png"], FileNotFoundError, r"X\[0\] \(no-such-file.png\)"),
        ([GOOD[0], np.full((20, 20), 0.1)], ValueError, r"X\[1\], region at row 0, column 0"),
        (np.full((1, 20, 20), 7, np.uint8), ValueError, r"I, \|Ix\|, .* constant .*[dD]rop X\[0\]"),
        (GOOD * 1e200, ValueError, "overflow.*standardize=True"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_images_that_cannot_be_used_are_refused(images, error, message):
    with pytest.raises(error, match=message):
        RegionCovariance().fit_transform(images)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_that_are_no_images_are_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no image"):
        RegionCovariance().fit_transform(tmp_path)
    path = tmp_path / "broken.png"
    path.write_text("no image")
    with pytest.raises(ValueError, match=r"X\[0\] \(broken.png\): cannot read"):
        RegionCovariance().fit_transform([path])


def test_errors_about_an_image_of_a_folder_name_its_file(tmp_path):
    from skimage.io import imsave

    for name, level in (("a.png", 5), ("b.png", 0)):
        noise = level * np.random.default_rng(0).integers(0, 50, size=(20, 20))
        imsave(tmp_path / name, noise.astype(np.uint8), check_contrast=False)
    with pytest.raises(ValueError, match=r"X\[1\] \(b.png\), region .* Drop X\[1\] \(b.png\)"):
        RegionCovariance().fit_transform(tmp_path)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"features": "textures"}, ValueError, "features must be .* Did you mean 'texture'"),
        ({"features": 5}, TypeError, "features must be one of"),
        ({"regions": "windows"}, ValueError, "regions must be .* Did you mean 'window'"),
        ({"size": 0}, ValueError, "size must be an integer of at least 1; got 0"),
        ({"size": 2.5}, TypeError, "size must be a number of pixels or two"),
        ({"size": (8, 8, 8)}, TypeError, "size must be a number of pixels or two"),
        ({"stride": (8, 0)}, ValueError, r"stride\[1\] must be an integer of at least 1"),
        ({"stride": True}, TypeError, "stride must be an integer"),
        ({"derivative": "sobel"}, ValueError, "derivative must be one of 'central', 'simple'"),
        ({"features": "gabor", "wavelengths": 4.0}, TypeError, "wavelengths must be a sequence"),
        ({"features": "gabor", "wavelengths": []}, ValueError, "at least one wavelength"),
        ({"features": "gabor", "wavelengths": [0.5]}, ValueError, r"wavelengths\[0\] must be"),
        ({"features": "gabor", "n_orientations": 0}, ValueError, "n_orientations must be"),
        ({"features": "gabor", "bandwidth": 0.0}, ValueError, "bandwidth must be"),
        ({"shrinkage": 1.5}, ValueError, r"shrinkage must be .* \[0, 1\]; got 1.5"),
        ({"normalize": "corr"}, ValueError, "normalize .* Did you mean 'correlation'"),
        ({"standardize": "yes"}, TypeError, "standardize must be True or False"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"regions": "grid", "size": 21}, ValueError, r"X\[0\] has 20 x 20 pixels.*smaller size"),
        (
            {"regions": "grid", "size": 2},
            ValueError,
            "have 4 pixels .* 5 features needs at least 6",
        ),
        ({"features": lambda image: image}, ValueError, r"features must return .*\(20, 20\)$"),
        (
            {"features": lambda image: image[:5, :, None]},
            ValueError,
            r"returned shape \(5, 20, 1\)",
        ),
        ({"features": lambda image: np.log(0 * image[..., None] - 1)}, ValueError, "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_parameters_that_cannot_be_used_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        RegionCovariance(**parameters).fit(GOOD).transform(GOOD)


def test_a_function_must_return_the_same_number_of_features_for_all_images():
    counts = iter([2, 3])
    function = lambda image: np.repeat(image[..., None], next(counts), axis=2)  # noqa: E731
    with pytest.raises(ValueError, match="returned 3 features for one image and 2 for the first"):
        RegionCovariance(function).fit_transform([GOOD[0], GOOD[0]])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (
            {"regions": "grid"},
            "row 16, column 24 (8 x 8 pixels), is not positive definite: "
            "I, |Ix|, |Iy|, |Ixx|, |Iyy| are constant over that region",
        ),
        # windows that see nothing but flat rows come first: there Ix is not constant
        (
            {"regions": "window", "stride": 4},
            "row 12, column 20 (8 x 8 pixels), is not positive definite (and 8 more of 243 "
            "regions): I, |Iy|, |Iyy| are constant over that region",
        ),
    ],
)
def test_a_flat_region_is_named_with_its_place_and_the_remedy(where, expected):
    images = textured(np.random.default_rng(17), (3, 40, 40))
    images[1, 10:30, 20:38] = 0.3
    with pytest.raises(ValueError, match=r"the covariance of X\[1\], region at row") as caught:
        RegionCovariance(size=8, **where).fit_transform(images)
    assert expected in str(caught.value)
    assert "Set shrinkage" in str(caught.value)


def test_dependent_features_are_named():
    ramp = textured(np.random.default_rng(18), (20, 20)).cumsum(axis=1)  # Ix > 0: |Ix| = Ix
    with pytest.raises(ValueError, match="Ix is a linear combination of the features before it"):
        RegionCovariance("texture-signed").fit_transform([ramp])


def test_features_on_scales_too_far_apart_are_refused_with_the_remedy():
    image = 1e-9 * np.random.default_rng(19).normal(size=(1, 32, 32))
    with pytest.raises(ValueError, match=r"span more than double precision.*standardize=True"):
        RegionCovariance("gabor", wavelengths=(3, 5)).fit_transform(image)
    for remedy in ({"standardize": True}, {"normalize": "correlation"}):
        matrices = RegionCovariance("gabor", wavelengths=(3, 5), **remedy).fit_transform(image)
        assert np.linalg.eigvalsh(matrices).min() > 0


def test_compiled_and_plain_check_of_definiteness_agree(monkeypatch):
    rng = np.random.default_rng(20)
    signals = rng.normal(size=(60, 4, 9)) * 10.0 ** rng.uniform(-8, 8, size=(60, 4, 1))
    matrices = signals @ signals.transpose(0, 2, 1)
    matrices[3] = 0.0
    matrices[4, 1] = matrices[4, :, 1] = 0.0
    matrices[5, 2, 2] = np.nan
    matrices[6] = np.inf
    matrices[7] = 2.0 - np.eye(4)  # indefinite
    signals[8, 3] = signals[8, 0] - signals[8, 1]  # of rank 3
    matrices[8] = signals[8] @ signals[8].T
    matrices[9] = np.diag([1e8, 1.0, 1.0, 1e-9])  # pivots well, eigenvalues 1e17 apart
    matrices[10] = np.diag([1e6, 1.0, 1.0, 1e-6])
    with np.errstate(invalid="ignore"):
        plain = definiteness.singular(matrices)
    monkeypatch.setattr(definiteness, "MANY", 0)
    np.testing.assert_array_equal(definiteness.singular(matrices), plain)
    assert plain[3:10].all()
    assert not plain[10]
    usual = np.arange(60) > 10
    eigenvalues = np.linalg.eigvalsh(matrices[usual])
    clear = eigenvalues[:, 0] > 1e-12 * eigenvalues[:, -1]
    assert clear.sum() > 5
    assert not plain[usual][clear].any()


def test_windows_work_where_compiled_code_cannot_be_kept():
    code = (
        "import numpy as np\n"
        "from numba.core import caching\n"
        "caching.CompileResultCacheImpl._locator_classes = []\n"  # no folder that can be written
        "from spdcluster.descriptors import RegionCovariance\n"
        "image = np.random.default_rng(0).normal(size=(1, 40, 40))\n"
        "windows = RegionCovariance(regions='window', size=8, stride=1)\n"
        "print(windows.fit_transform(image).shape)\n"
        "from spdcluster.descriptors.sliding import sliding_covariances\n"
        "print(sliding_covariances.stats.cache_path)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["(1089, 5, 5)", "None"]


@pytest.mark.parametrize("level", [0.1, 1e5 / 3])
def test_shrinkage_does_not_make_a_constant_image_definite(level):
    with pytest.raises(ValueError, match=r"I, .* constant over the whole image. Drop X\[0\]"):
        RegionCovariance(regions="grid", size=9, shrinkage=0.1).fit_transform(
            np.full((1, 20, 30), level)
        )


def test_constant_images_cannot_be_standardized():
    with pytest.raises(ValueError, match=r"X\[0\] is constant \(every pixel is 3\)"):
        RegionCovariance(standardize=True).fit_transform(np.full((1, 9, 9), 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [1, 2]}, r"each of the 4 regions .* got shape \(2,\)"),
        ({"labels": np.zeros((4, 1))}, r"got shape \(4, 1\)"),
        ({"labels": np.zeros(4), "overlap": "vote"}, "overlap must be one of"),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments, message):
    transformer = RegionCovariance(regions="grid", size=10).fit(GOOD)
    with pytest.raises(NotFittedError, match="call transform"):
        transformer.inverse_labels([0])
    transformer.transform(GOOD)
    with pytest.raises(ValueError, match=message):
        transformer.inverse_labels(**arguments)


# Real images


def shared_data():
    folder = os.environ.get("SPDCLUSTER_DATA") or Path(__file__).parents[2] / "shared" / "data"
    if not Path(folder).is_dir():
        pytest.skip("needs the folder of shared data (set SPDCLUSTER_DATA)")
    return Path(folder)


def test_brodatz_textures_give_the_1024_matrices_of_the_paper():
    from skimage.io import imread
    from skimage.transform import resize

    paths = sorted((shared_data() / "brodatz16").glob("*.png"))
    images = [resize(imread(path), (256, 256), anti_aliasing=True) for path in paths]
    transformer = RegionCovariance(regions="grid", size=32)
    matrices = transformer.fit_transform(images)
    assert matrices.shape == (1024, 5, 5)
    assert np.linalg.eigvalsh(matrices).min() > 0
    assert_covariances(matrices, [numpy_texture(i) for i in images], transformer.regions_, 1e-12)


def test_faces_give_definite_gabor_matrices():
    with np.load(shared_data() / "feret_b_40x40.npz") as archive:
        faces = archive["images"][:20]
    matrices = RegionCovariance("gabor").fit_transform(faces)
    assert matrices.shape == (20, 43, 43)
    assert np.linalg.eigvalsh(matrices).min() > 0
