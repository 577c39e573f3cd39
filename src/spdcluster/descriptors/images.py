"""What counts as images, and how they are read: arrays, lists of arrays, files, a folder."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".pgm", ".ppm", ".pnm", ".gif")
ACCEPTED = (
    "an array (n_images, h, w) or (n_images, h, w, 3), a list of arrays (h, w) or (h, w, 3) and "
    "of paths, a path to an image, or a folder of images"
)
# Luminance of linear RGB (ITU-R BT.709), as scikit-image converts colour to grey.
LUMINANCE = np.array([0.2125, 0.7154, 0.0721])


class Image(NamedTuple):
    """An image (h, w) or (h, w, 3) in its own type, and what errors call it."""

    name: str
    pixels: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.pixels.shape[0], self.pixels.shape[1]


def load_images(X: Any, name: str = "X") -> list[Image]:
    """Return the images; those that come as arrays are not copied."""
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        paths = image_paths(path) if path.is_dir() else [path]
        return [_read(p, f"{name}[{i}]") for i, p in enumerate(paths)]
    if isinstance(X, np.ndarray) and X.dtype != object:
        return _split_array(X, name)
    if not isinstance(X, (Sequence, np.ndarray)):
        raise TypeError(f"{name} must be {ACCEPTED}; got {type(X).__name__}")
    if len(X) == 0:
        raise ValueError(f"{name} holds no image; it must be {ACCEPTED}")
    return [_one_image(item, f"{name}[{i}]") for i, item in enumerate(X)]


def image_paths(folder: Path) -> list[Path]:
    """Return the image files of a folder in natural order: D3 before D21."""
    paths = [p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES]
    if not paths:
        raise ValueError(f"the folder {folder} holds no image ({', '.join(SUFFIXES)})")
    return sorted(paths, key=_natural_order)


def _natural_order(path: Path) -> list[int | str]:
    parts = re.split(r"(\d+)", path.name.lower())
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def as_float(image: Image) -> np.ndarray:
    """Return the pixels as float64, their values unchanged, or say which one is not finite."""
    values = image.pixels.astype(np.float64, order="C")
    if image.pixels.dtype.kind == "f" and not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"{image.name} is {values[tuple(place)]} at row {place[0]}, column {place[1]}; every "
            f"pixel must be a finite number: replace it, or drop the image"
        )
    return values


def as_grey(pixels: np.ndarray) -> np.ndarray:
    """Return pixels (h, w), the luminance of colour ones."""
    return pixels if pixels.ndim == 2 else pixels @ LUMINANCE


def _split_array(X: np.ndarray, name: str) -> list[Image]:
    if X.ndim == 2:
        raise ValueError(
            f"{name} has shape {X.shape}, one grey image: put it in a list, [{name}]; {name} must "
            f"be {ACCEPTED}"
        )
    if X.ndim == 3 and X.shape[2] in (3, 4):
        raise ValueError(
            f"{name} has shape {X.shape}, one colour image or {X.shape[0]} grey ones "
            f"{X.shape[2]} pixels wide? Put a colour image in a list, [{name}], grey ones too, "
            f"list({name})"
        )
    if X.ndim not in (3, 4):
        raise ValueError(f"{name} has shape {X.shape}; it must be {ACCEPTED}")
    if len(X) == 0:
        raise ValueError(f"{name} has shape {X.shape}, no image; it must be {ACCEPTED}")
    return [_check_image(image, f"{name}[{i}]") for i, image in enumerate(X)]


def _one_image(item: Any, name: str) -> Image:
    if isinstance(item, (str, os.PathLike)):
        return _read(Path(item), name)
    try:
        image = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"{name} is not an image: {error}; {name} must be an array") from error
    return _check_image(image, name)


def _check_image(image: np.ndarray, name: str) -> Image:
    """Check shape and type; an opacity channel is left out."""
    if image.dtype.kind not in "buif":
        raise TypeError(
            f"{name} has dtype {image.dtype}; the pixels of an image must be integers or floats"
        )
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.ndim == 3 and image.shape[2] == 4:
        image = image[:, :, :3]
    if image.ndim != 2 and not (image.ndim == 3 and image.shape[2] == 3):
        raise ValueError(
            f"{name} has shape {image.shape}; an image must be (h, w) grey or (h, w, 3) colour"
        )
    if min(image.shape[:2]) < 2:
        raise ValueError(f"{name} has shape {image.shape}; an image must be at least 2 x 2 pixels")
    return Image(name, image)


def _read(path: Path, name: str) -> Image:
    from skimage.io import imread

    name = f"{name} ({path.name})"
    if not path.is_file():
        raise FileNotFoundError(f"{name}: there is no file {path}")
    try:
        image = np.asarray(imread(path))
    except Exception as error:  # every reader has its own exceptions
        raise ValueError(f"{name}: cannot read {path} as an image ({error})") from error
    if image.ndim == 3 and image.shape[2] == 2:
        image = image[:, :, 0]  # grey and opacity
    return _check_image(image, name)
