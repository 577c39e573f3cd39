"""The paper's sixteen Brodatz textures ('16c'), from a folder of images."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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


def load_brodatz(folder: str | Path) -> Textures:
    """Read the plates of '16c' and bring them to 256 x 256 pixels, as the paper does.

    Parameters
    ----------
    folder : str or Path
        Holds one square image a plate, of at least 256 x 256 pixels, named after it in whatever
        format: ``D3.png``, ``d003.gif``, ``D3.tif``. Other plates of the album may be there too.

    Notes
    -----
    Nothing is downloaded. The plates are those of P. Brodatz, "Textures: A Photographic Album for
    Artists and Designers" (Dover, 1966); several universities offer scans for research. A larger
    image is reduced by interpolation after a Gaussian blur against aliasing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}; data must be a folder with the images "
            f"{', '.join(f'D{plate}' for plate in PLATES)} (png, gif, tif, ...)"
        )
    paths = _plates(folder)
    return Textures(np.stack([_read(paths[p]) for p in PLATES]), [f"D{p}" for p in PLATES])


def _plates(folder: Path) -> dict[int, Path]:
    from spdcluster.descriptors.images import SUFFIXES

    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        name = re.fullmatch(r"d0*(\d+)", path.stem.lower())
        if name and path.suffix.lower() in SUFFIXES:
            plate = int(name[1])
            if plate in PLATES and plate in found:
                raise ValueError(
                    f"{folder} has two images of plate D{plate}, {found[plate].name} and "
                    f"{path.name}; remove one"
                )
            found[plate] = path
    missing = [f"D{p}" for p in PLATES if p not in found]
    if missing:
        raise ValueError(
            f"{folder} lacks {len(missing)} of the {len(PLATES)} Brodatz plates: "
            f"{', '.join(missing)}; it must hold an image of each, named D3.png, D4.png, ..."
        )
    return found


def _read(path: Path) -> NDArray[np.float64]:
    from skimage.color import rgb2gray
    from skimage.io import imread
    from skimage.transform import resize

    try:
        pixels = np.asarray(imread(path))
    except Exception as error:  # every reader has its own exceptions
        raise ValueError(f"{path} cannot be read as an image ({error})") from error
    image = 255 * rgb2gray(pixels[..., :3]) if pixels.ndim == 3 else pixels.astype(np.float64)
    height, width = image.shape
    if height != width or height < SIZE:
        raise ValueError(
            f"{path} has {height} x {width} pixels; a texture must be square and at least "
            f"{SIZE} x {SIZE}"
        )
    return np.asarray(resize(image, (SIZE, SIZE), anti_aliasing=height > SIZE))
