"""The paper's sixteen Brodatz textures ('16c'), from a folder of images or an array file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spdcluster.datasets.image_arrays import read_image_arrays
from spdcluster.descriptors.images import SUFFIXES, image_paths

T = TypeVar("T")

# Plates of the album in the '16c' mosaic.
PLATES = (3, 4, 5, 6, 9, 21, 24, 29, 32, 33, 54, 55, 57, 68, 77, 84)
SIZE = 256


@dataclass(frozen=True)
class Textures:
    """One image a texture.

    Attributes
    ----------
    images : ndarray of float64, shape (n_textures, 256, 256)
    names : list of str
    """

    images: NDArray[np.float64]
    names: list[str]


def load_brodatz(source: str | Path) -> Textures:
    """Read the plates of '16c' and bring them to 256 x 256 pixels, as the paper does.

    Parameters
    ----------
    source : str or Path
        A folder with one square image a plate, of at least 256 x 256 pixels, named after it in
        whatever format: ``D3.png``, ``d003.gif``, ``D3.tif``; or with a subfolder a plate, ``D3``,
        that holds its image. Or a .npz or .mat file with an array ``images`` (n, h, w) and an array
        ``labels`` (n,) of the plates' numbers or names. Other plates of the album may be there too.

    Notes
    -----
    Nothing is downloaded. The plates are those of P. Brodatz, "Textures: A Photographic Album for
    Artists and Designers" (Dover, 1966); several universities offer scans for research. A larger
    image is reduced by interpolation after a Gaussian blur against aliasing.
    """
    source = Path(source)
    if not source.exists():
        raise FileNotFoundError(
            f"there is no file or folder {source}; data must be a folder with the images "
            f"{', '.join(f'D{plate}' for plate in PLATES)} (png, gif, tif, ...), or a .npz or .mat "
            "file with images and labels"
        )
    read = _from_folder if source.is_dir() else _from_file
    return Textures(np.stack(read(source)), [f"D{p}" for p in PLATES])


def _from_folder(folder: Path) -> list[NDArray[np.float64]]:
    paths = _only(
        ((_plate(path.stem), path) for path in sorted(folder.iterdir()) if _is_texture(path)),
        folder,
    )
    return [_resized(_read(_image_of(paths[p])), str(paths[p])) for p in PLATES]


def _from_file(path: Path) -> list[NDArray[np.float64]]:
    images, labels = read_image_arrays(path)
    if images.ndim != 3:
        raise ValueError(
            f"the images of {path} have shape {images.shape}; textures must be an array (n, h, w)"
        )
    names = (str(label).removeprefix("D") for label in labels)
    places = _only(((_plate(f"D{name}"), i) for i, name in enumerate(names)), path)
    return [_resized(images[places[p]], f"D{p} in {path}") for p in PLATES]


def _plate(name: str) -> int | None:
    """The number of a plate's name, ``D3`` or ``d003``."""
    number = re.fullmatch(r"d0*(\d+)", name.lower())
    return int(number[1]) if number else None


def _is_texture(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in SUFFIXES


def _only(found: Iterable[tuple[int | None, T]], source: Path) -> dict[int, T]:
    """Where each of the sixteen plates is, if it is there once."""
    places: dict[int, T] = {}
    for plate, place in found:
        if plate not in PLATES:
            continue
        if plate in places:
            raise ValueError(
                f"{source} has two images of plate D{plate}, {places[plate]} and {place}; remove one"
            )
        places[plate] = place
    missing = [f"D{p}" for p in PLATES if p not in places]
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} of the {len(PLATES)} Brodatz plates: "
            f"{', '.join(missing)}; it must hold an image of each, named D3.png, D4.png, ..."
        )
    return places


def _image_of(path: Path) -> Path:
    """The image itself, or the only one of a plate's folder."""
    if not path.is_dir():
        return path
    images = image_paths(path)
    if len(images) > 1:
        raise ValueError(
            f"{path} holds {len(images)} images; a texture is one image, which is cut into blocks"
        )
    return images[0]


def _read(path: Path) -> NDArray[np.float64]:
    from skimage.color import rgb2gray
    from skimage.io import imread

    try:
        pixels = np.asarray(imread(path))
    except Exception as error:  # every reader has its own exceptions
        raise ValueError(f"{path} cannot be read as an image ({error})") from error
    return 255 * rgb2gray(pixels[..., :3]) if pixels.ndim == 3 else pixels.astype(np.float64)


def _resized(image: NDArray[Any], name: str) -> NDArray[np.float64]:
    from skimage.transform import resize

    height, width = image.shape
    if height != width or height < SIZE:
        raise ValueError(
            f"{name} has {height} x {width} pixels; a texture must be square and at least "
            f"{SIZE} x {SIZE}"
        )
    image = image.astype(np.float64)
    return np.asarray(resize(image, (SIZE, SIZE), anti_aliasing=height > SIZE))
