"""Grey images of one size and their labels, from a .npz or .mat file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

IMAGE_KEYS = ("images", "X", "fea", "data")
LABEL_KEYS = ("labels", "y", "gnd", "subjects")


def read_image_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images (n, h, w) and labels (n,) of the arrays that bear one of the usual names.

    Rows of pixels become square images; in a MATLAB file, whose arrays run down the columns, column by
    column.
    """
    from spdcluster.datasets.readers import read_labels, read_matrices

    if path.suffix.lower() not in (".npz", ".mat"):
        raise ValueError(
            f"{path} cannot hold images and their labels; give a .npz or .mat file with arrays of these "
            "names, or a folder of images"
        )
    images = read_matrices(path, _key(path, IMAGE_KEYS)).matrices
    if images.ndim == 2:
        side = round(images.shape[1] ** 0.5)
        if side * side != images.shape[1]:
            raise ValueError(
                f"the images of {path} have shape {images.shape}: rows of {images.shape[1]} pixels "
                "are no square images; store them as (n_images, h, w)"
            )
        images = images.reshape(-1, side, side)
        if path.suffix.lower() == ".mat":
            images = images.swapaxes(1, 2)
    return images, read_labels(path, len(images), _key(path, LABEL_KEYS))


def _key(path: Path, candidates: Sequence[str]) -> str:
    """The first of the candidates that the file has; otherwise the first, for the reader to refuse."""
    if path.suffix.lower() == ".npz":
        import zipfile

        try:
            with zipfile.ZipFile(path) as archive:
                names = {Path(name).stem for name in archive.namelist()}
        except zipfile.BadZipFile:
            return candidates[0]
    else:
        names = _names_in_mat(path)
    return next((key for key in candidates if key in names), candidates[0])


def _names_in_mat(path: Path) -> set[str]:
    import h5py
    from scipy.io import whosmat

    try:
        return {name for name, _, _ in whosmat(path)}
    except (ValueError, NotImplementedError):  # MATLAB 7.3, or no MATLAB file at all
        if not h5py.is_hdf5(path):
            return set()
        with h5py.File(path, "r") as file:
            return set(file)
