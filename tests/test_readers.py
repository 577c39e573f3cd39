"""Files of matrices, images and labels: every format, either axis order, nothing unsafe opened."""

import io
import os
import pickle
import threading

import h5py
import numpy as np
import pytest
import scipy.io

from spdcluster.datasets import (
    read_images,
    read_labels,
    read_matrices,
    read_matrix_folder,
    read_scene,
    texture_mosaic,
)


def spd(n=12, d=3, *, hermitian=False, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d, 4 * d)) + (1j * rng.normal(size=(n, d, 4 * d)) if hermitian else 0)
    return A @ A.conj().swapaxes(1, 2)


def write_mat73(path, **arrays):
    """As MATLAB writes it: a header of 512 bytes, axes reversed, complex as (real, imag)."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            stored = array.T
            if np.iscomplexobj(stored):
                both = np.empty(stored.shape, dtype=[("real", "f8"), ("imag", "f8")])
                both["real"], both["imag"] = stored.real, stored.imag
                stored = both
            file.create_dataset(name, data=stored).attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_read_as_a_file_is(tmp_path):
    """As a shell gives with ``<(...)``."""
    X, content, pipe = spd(), io.BytesIO(), tmp_path / "pipe"
    np.save(content, X)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content.getvalue()))
    writer.start()
    np.testing.assert_array_equal(read_matrices(pipe).matrices, X)
    writer.join()


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["npy", "npz", "npz-compressed", "mat5", "mat73"])
def test_every_format_and_either_axis_order_give_the_same_matrices(tmp_path, kind, last, hermitian):
    X = spd(hermitian=hermitian)
    stored = np.moveaxis(X, 0, -1) if last else X
    path = tmp_path / f"matrices.{kind[:3]}"
    if kind == "npy":
        np.save(path, stored)
    elif kind == "npz":
        np.savez(path, X=stored)
    elif kind == "npz-compressed":
        np.savez_compressed(path, X=stored)
    elif kind == "mat5":
        scipy.io.savemat(path, {"X": stored})
    else:
        write_mat73(path, X=stored)
    found = read_matrices(path)
    np.testing.assert_array_equal(found.matrices, X)
    assert ("last axis" in found.note) == last


def test_a_cube_is_read_along_the_axis_that_makes_its_matrices_symmetric():
    X = spd(n=3, d=3)
    for stored in (X, np.moveaxis(X, 0, -1)):
        buffer = io.BytesIO()
        np.save(buffer, stored)
        buffer.seek(0)
        np.testing.assert_array_equal(read_matrices(buffer).matrices, X)


def test_one_of_several_arrays_is_chosen_by_its_key(tmp_path):
    X, path = spd(), tmp_path / "two.npz"
    np.savez(path, first=X, second=X[:4])
    assert len(read_matrices(path, key="second").matrices) == 4
    with pytest.raises(
        ValueError, match=r"holds 2 arrays: first \(12, 3, 3\), second .*key='first'"
    ):
        read_matrices(path)
    with pytest.raises(ValueError, match="no array 'third'"):
        read_matrices(path, key="third")
    np.save(tmp_path / "one.npy", X)
    with pytest.raises(ValueError, match="one array, without a name; leave the key 'X' out"):
        read_matrices(tmp_path / "one.npy", key="X")


def test_the_only_stack_of_matrices_and_the_only_vector_need_no_key(tmp_path):
    X, y = spd(), np.arange(12) % 2
    np.savez(tmp_path / "a.npz", noise=np.eye(2), y=y, X=X)
    scipy.io.savemat(tmp_path / "a.mat", {"y": y, "X": np.moveaxis(X, 0, -1), "noise": np.eye(2)})
    for name in ("a.npz", "a.mat"):
        found = read_matrices(tmp_path / name)
        assert found.key == "X"
        np.testing.assert_array_equal(found.matrices, X)
        np.testing.assert_array_equal(read_labels(tmp_path / name, 12), y)


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("kind", ["npy", "npz", "raw"])
def test_pickles_are_refused_and_their_code_does_not_run(tmp_path, kind):
    trap, path = tmp_path / "trap", tmp_path / f"bad.{kind}"
    array = np.array([Bomb(trap)], dtype=object)
    if kind == "npy":
        np.save(path, array, allow_pickle=True)
    elif kind == "npz":
        np.savez(path, X=array)
    else:
        path.write_bytes(pickle.dumps(Bomb(trap)))
    with pytest.raises(ValueError, match=r"Python objects|is not a"):
        read_matrices(path)
    assert not trap.exists()


def test_a_header_that_promises_more_than_the_file_has_costs_no_memory(tmp_path):
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 100, 100)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match="truncated: its header promises 80000000000000 bytes"):
        read_matrices(path)


@pytest.mark.parametrize("kind", ["npy", "npz", "mat", "mat73"])
def test_truncated_files_are_named_as_such_wherever_they_are_cut(tmp_path, kind):
    X, path = spd(n=40, d=4), tmp_path / f"whole.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, X=X)
    elif kind == "mat":
        with path.open("wb") as file:
            scipy.io.savemat(file, {"X": X})
    else:
        write_mat73(path, X=X)
    whole = path.read_bytes()
    for cut in np.linspace(1, len(whole) - 1, 15).astype(int):
        with pytest.raises(ValueError, match="cut"):
            read_matrices(_named(whole[:cut], tmp_path))


def _named(content, folder):
    path = folder / "cut"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"0.1,0.2\n", "is not a"), (b"\x93NUMPY\x09", "damaged|no .npy header")],
)
def test_what_is_no_file_of_matrices_is_said_so(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_matrices(_named(content, tmp_path))


def test_text_and_records_are_no_matrices(tmp_path):
    for array in (np.array(["a", "b"]), np.zeros(3, dtype=[("a", "f8")]), np.zeros((0, 3, 3))):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(ValueError, match=r"must be numbers|empty array"):
            read_matrices(tmp_path / "x.npy")


def test_links_out_of_an_hdf5_file_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X"] = spd()
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["Y"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "X")
    with pytest.raises(ValueError, match="no array of numbers"):
        read_matrices(tmp_path / "link.h5")


def test_matlab_text_and_cells_are_not_offered_as_matrices(tmp_path):
    cell = np.empty(2, dtype=object)
    cell[:] = ["a", "b"]
    scipy.io.savemat(tmp_path / "m.mat", {"X": spd(), "name": "subject 1", "cells": cell})
    assert read_matrices(tmp_path / "m.mat").key == "X"


# --------------------------------------------------------------------------------- images, labels


def save_image(path, seed=0):
    from skimage.io import imsave

    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16)).astype(np.uint8)
    path.parent.mkdir(exist_ok=True)
    imsave(path, pixels, check_contrast=False)


def test_images_of_a_folder_come_in_natural_order(tmp_path):
    for number in (1, 2, 10):
        save_image(tmp_path / f"im{number}.png")
    assert read_images(tmp_path).names == ["im1.png", "im2.png", "im10.png"]


def test_subfolders_are_read_where_the_folder_has_no_image_itself(tmp_path):
    save_image(tmp_path / "cats" / "1.png")
    save_image(tmp_path / "dogs" / "1.png")
    assert read_images(tmp_path).names == ["cats/1.png", "dogs/1.png"]


def test_a_broken_image_is_named_and_can_be_skipped(tmp_path):
    for name in ("a", "b", "c"):
        save_image(tmp_path / f"{name}.png")
    path = tmp_path / "b.png"
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(ValueError, match=r"image b\.png .* is damaged.*skip_bad=True"):
        read_images(tmp_path)
    found = read_images(tmp_path, skip_bad=True)
    assert found.names == ["a.png", "c.png"]
    assert len(found.images) == 2
    assert found.skipped == ["b.png: it is damaged, or no image"]


def test_an_image_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    save_image(tmp_path / "a.png")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("skimage.io.imread", refuse)  # root may read everything
    with pytest.raises(ValueError, match=r"image a\.png .* may not be read: permission denied; "):
        read_images(tmp_path)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_folder_without_a_usable_image_is_an_error(tmp_path, skip_bad):
    with pytest.raises(ValueError, match="no images"):
        read_images(tmp_path, skip_bad=skip_bad)
    (tmp_path / "x.png").write_text("no image")
    with pytest.raises(ValueError, match="none of the 1 files" if skip_bad else "is damaged"):
        read_images(tmp_path, skip_bad=skip_bad)


def test_labels_from_text_csv_and_arrays(tmp_path):
    path = tmp_path / "labels"
    path.write_text("1\n0\n1\n")
    np.testing.assert_array_equal(read_labels(path, 3), [1, 0, 1])
    path.write_text("file,label\nb.png,dog\na.png,cat\nc.png,cat\n")
    found = read_labels(path, ["a.png", "b.png", "c.png"])
    np.testing.assert_array_equal(found, ["cat", "dog", "cat"])
    np.savez(tmp_path / "l.npz", X=np.zeros(4), y=np.array([[2.0, 1.0, 2.0]]))
    np.testing.assert_array_equal(read_labels(tmp_path / "l.npz", 3, key="y"), [2, 1, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "one label for each of the 3 items"),
        ("", "is empty"),
        ("1,2\n3,4\n5,6\n", "several columns"),
        ("file,label\na,1\nb,1\n", "no label for 'c'"),
        ("file,label\na,1\nb,1\nc\n", "different length"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_labels(tmp_path / "labels.csv", ["a", "b", "c"])


def test_a_label_that_is_not_a_number_is_refused_before_any_work(tmp_path):
    np.save(tmp_path / "y.npy", [0.0, np.nan, 1.0])
    with pytest.raises(ValueError, match="holds NaN or infinity; give"):
        read_labels(tmp_path / "y.npy", 3)


def test_the_mosaic_gives_brightness_no_say():
    mosaic = texture_mosaic(256)
    assert mosaic.image.shape == mosaic.truth.shape == (256, 256)
    assert set(np.unique(mosaic.truth)) == {0, 1, 2}
    # part of a texture of mean 0 and variance 1 is near that itself
    for k in range(3):
        part = mosaic.image[mosaic.truth == k]
        assert abs(part.mean()) < 0.25
        assert 0.7 < part.std() < 1.3


# --------------------------------------------------------------------------------- folders, scenes


@pytest.mark.parametrize("suffix", ["npy", "mat", "csv", "tsv", "txt"])
def test_a_folder_of_matrices_is_read_in_natural_order(tmp_path, suffix):
    X = spd(n=12)
    separator = {"csv": ",", "tsv": "\t", "txt": " "}.get(suffix)
    for i, matrix in enumerate(X):
        path = tmp_path / f"s{i}.{suffix}"
        if suffix == "npy":
            np.save(path, matrix)
        elif suffix == "mat":
            scipy.io.savemat(path, {"C": matrix})
        else:
            np.savetxt(path, matrix, delimiter=separator, fmt="%.17g")
    (tmp_path / "notes.md").write_text("no matrix")
    found = read_matrix_folder(tmp_path)
    assert found.names == [f"s{i}.{suffix}" for i in range(12)]
    np.testing.assert_array_equal(found.matrices, X)


def test_a_file_of_several_matrices_in_a_folder_names_each(tmp_path):
    X = spd(n=5)
    np.save(tmp_path / "a.npy", X[:4])
    np.save(tmp_path / "b.npy", X[4])
    (tmp_path / "labels.csv").write_text("not,a,matrix")
    found = read_matrix_folder(tmp_path)
    assert found.names == ["a.npy[0]", "a.npy[1]", "a.npy[2]", "a.npy[3]", "b.npy"]
    np.testing.assert_array_equal(found.matrices, X)


def test_matrices_of_another_size_in_a_folder_are_named_or_left_out(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    np.save(tmp_path / "b.npy", np.eye(4))
    with pytest.raises(
        ValueError, match=r"b\.npy holds a matrix of 4 x 4, the files before it 3 x 3"
    ):
        read_matrix_folder(tmp_path)
    found = read_matrix_folder(tmp_path, skip_bad=True)
    assert found.names == ["a.npy"]
    assert "b.npy" in found.skipped[0]


def write_polsarpro(folder, X, letter="T"):
    """As PolSARpro writes it: a file a band, float32, row by row."""
    folder.mkdir()
    (folder / "config.txt").write_text(f"Nrow\n{X.shape[0]}\n---------\nNcol\n{X.shape[1]}\n")
    d = X.shape[-1]
    for i in range(d):
        X[..., i, i].real.astype("<f4").tofile(folder / f"{letter}{i + 1}{i + 1}.bin")
        for j in range(i + 1, d):
            name = folder / f"{letter}{i + 1}{j + 1}"
            X[..., i, j].real.astype("<f4").tofile(f"{name}_real.bin")
            X[..., i, j].imag.astype("<f4").tofile(f"{name}_imag.bin")


@pytest.mark.parametrize(("letter", "d"), [("T", 3), ("C", 3), ("C", 2), ("T", 4)])
def test_polsarpro_folders_are_read_and_averaged(tmp_path, letter, d):
    X = spd(n=42, d=d, hermitian=True).reshape(6, 7, d, d).astype(np.complex64)
    write_polsarpro(tmp_path / f"{letter}{d}", X, letter)
    found = read_scene(tmp_path / f"{letter}{d}", looks=1)
    np.testing.assert_allclose(found.matrices, X, rtol=1e-6)
    found = read_scene(tmp_path, looks=3)
    assert found.matrices.shape == (2, 2, d, d)
    np.testing.assert_allclose(found.matrices[1, 0], X[3:6, :3].mean(axis=(0, 1)), rtol=1e-6)
    assert found.usable.all()


def test_pixels_without_data_and_indefinite_ones_are_not_usable(tmp_path):
    X = spd(n=6).reshape(2, 3, 3, 3)
    X[0, 1] = 0
    X[1, 1, 0, 0] = np.nan
    X[1, 2] = np.diag([1.0, 1.0, -1.0])
    np.save(tmp_path / "scene.npy", X)
    found = read_scene(tmp_path / "scene.npy")
    assert found.usable.tolist() == [[True, False, True], [True, False, False]]
    assert found.empty.tolist() == [[False, True, False], [False, True, False]]


def test_large_scenes_are_averaged_until_they_are_few(tmp_path):
    one = np.eye(2)
    np.save(tmp_path / "scene.npy", np.broadcast_to(one, (500, 500, 2, 2)))
    found = read_scene(tmp_path / "scene.npy")
    assert found.looks == 3
    assert found.usable.shape == (166, 166)
    with pytest.raises(ValueError, match="looks must be an integer in"):
        read_scene(tmp_path / "scene.npy", looks=501)
