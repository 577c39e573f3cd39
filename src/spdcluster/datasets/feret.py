"""FERET faces (the paper's 'b' subset), from an array file or a folder of images."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.datasets.image_arrays import read_image_arrays


@dataclass(frozen=True)
class Faces:
    """Grey images of one size and who is on them.

    Attributes
    ----------
    images : ndarray, shape (n_images, h, w)
    subjects : ndarray, shape (n_images,)
    """

    images: NDArray[Any]
    subjects: NDArray[Any]


def load_feret(source: str | Path) -> Faces:
    """Read faces and their subjects.

    Parameters
    ----------
    source : str or Path
        A .npz or .mat file with an array ``images`` (n, h, w) and an array ``labels`` (n,)
        (``X`` and ``y`` or ``fea`` and ``gnd`` will do); or a folder with a subfolder a subject;
        or a folder of files whose names begin with the subject's number, as FERET's own do
        (``00019ba010_960521.tif``, ``0019_ba.png``).

    Notes
    -----
    Nothing is downloaded. The FERET database is given out for face recognition research by the US
    National Institute of Standards and Technology, on request and under its own terms.
    """
    source = Path(source)
    if not source.exists():
        raise FileNotFoundError(
            f"there is no file or folder {source}; data must be a .npz or .mat file with images "
            "and labels, or a folder of faces"
        )
    images, subjects = _from_folder(source) if source.is_dir() else read_image_arrays(source)
    if images.ndim != 3 or min(images.shape[1:]) < 16:
        raise ValueError(
            f"the images of {source} have shape {images.shape}; faces must be an array "
            "(n_images, h, w) of grey images of at least 16 x 16 pixels"
        )
    return Faces(images, subjects)


def _from_folder(folder: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    from spdcluster.datasets.readers import read_images
    from spdcluster.descriptors.images import as_grey

    content = read_images(folder)
    images = [as_grey(image.astype(np.float64)) for image in content.images]
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(
            f"the faces in {folder} differ in size ({', '.join(map(str, sorted(shapes)[:4]))}); "
            "crop and scale them to one size first"
        )
    return np.stack(images), np.array([_subject(name, folder) for name in content.names])


def _subject(name: str, folder: Path) -> str:
    """The subfolder of an image, or the number that its name begins with."""
    path = Path(name)
    if path.parent != Path("."):
        return path.parent.as_posix()
    number = re.match(r"\D{0,6}?(\d+)", path.name)
    if number is None:
        raise ValueError(
            f"{name} in {folder} does not begin with its subject's number; name faces as FERET "
            "does (00019ba010_960521.tif), or put each subject into a folder of its own"
        )
    return number[1]
