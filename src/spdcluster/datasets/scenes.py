"""Scenes whose pixels are matrices: PolSARpro folders of radar data, and 4-D arrays."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_int
from spdcluster.geometry.checks import extreme_eigenvalues

# PolSARpro's names: coherency (T) and covariance (C) matrices of two to four channels
KINDS = ("T3", "C3", "T4", "C4", "T2", "C2")
MOST_PIXELS = 60_000


@dataclass(frozen=True)
class MatrixScene:
    """A picture of matrices.

    Attributes
    ----------
    matrices : ndarray, shape (n_rows, n_columns, d, d)
        Means over `looks` x `looks` pixels.
    usable : ndarray of bool, shape (n_rows, n_columns)
        Where the matrix is finite and positive definite to working precision.
    empty : ndarray of bool, shape (n_rows, n_columns)
        Where there are no data: all zero, or not finite.
    looks : int
    """

    matrices: NDArray[np.inexact]
    usable: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    looks: int


def scene_folder(folder: str | Path) -> Path | None:
    """The PolSARpro folder that `folder` is or directly holds; None if there is none."""
    folder = Path(folder)
    places = (folder, *(folder / kind for kind in KINDS))
    return next((place for place in places if _letter(place) is not None), None)


def read_scene(source: str | Path, looks: int | None = None) -> MatrixScene:
    """Read a scene from a PolSARpro folder, or from a file of an array (n_rows, n_columns, d, d).

    Parameters
    ----------
    source : str or Path
        A folder with ``config.txt``, ``T11.bin``, ``T12_real.bin``, ... (or ``C11.bin``, ...), one
        that holds such a folder, or a .npy, .npz or .mat file.
    looks : int or None
        See `as_scene`.
    """
    path = Path(source)
    if not path.is_dir():
        from spdcluster.datasets.readers import read_matrices

        return as_scene(read_matrices(path).matrices, looks)
    place = scene_folder(path)
    if place is None:
        raise ValueError(
            f"{path} is no PolSARpro folder: it needs config.txt, T11.bin (or C11.bin) and the others"
        )
    return as_scene(_read_folder(place), looks)


def as_scene(pixels: NDArray[np.inexact], looks: int | None = None) -> MatrixScene:
    """Average squares of pixels, and find those that can be clustered.

    Parameters
    ----------
    pixels : ndarray, shape (n_rows, n_columns, d, d)
    looks : int or None
        Side of the squares; None for the smallest that leaves at most 60,000 of them.
    """
    if pixels.ndim != 4 or pixels.shape[2] != pixels.shape[3]:
        raise ValueError(
            f"a scene must have shape (n_rows, n_columns, d, d); got shape {pixels.shape}"
        )
    rows, columns, d, _ = pixels.shape
    if looks is None:
        looks = max(1, int(np.ceil(np.sqrt(rows * columns / MOST_PIXELS))))
    looks = check_int(looks, "looks", low=1, high=min(rows, columns))
    height, width = rows // looks, columns // looks
    squares = pixels[: height * looks, : width * looks].reshape(height, looks, width, looks, d, d)
    wide = np.complex128 if np.iscomplexobj(pixels) else np.float64
    matrices = squares.mean(axis=(1, 3), dtype=wide)
    empty = ~np.isfinite(matrices).all(axis=(2, 3)) | ~matrices.any(axis=(2, 3))
    usable = ~empty
    if usable.any():
        smallest, largest = extreme_eigenvalues(matrices[usable])
        usable[usable] = smallest > d * np.finfo(np.float64).eps * largest
    return MatrixScene(matrices, usable, empty, looks)


def _letter(folder: Path) -> str | None:
    """T or C, of the matrices in a PolSARpro folder."""
    if not (folder / "config.txt").is_file():
        return None
    return next((letter for letter in "TC" if (folder / f"{letter}11.bin").is_file()), None)


def _read_folder(folder: Path) -> NDArray[np.complex64]:
    letter = _letter(folder)
    words = (folder / "config.txt").read_text("utf-8", errors="replace").split()
    try:
        rows, columns = (int(words[words.index(name) + 1]) for name in ("Nrow", "Ncol"))
    except (ValueError, IndexError):
        raise ValueError(f"{folder / 'config.txt'} does not name Nrow and Ncol; mend it") from None
    d = max(i for i in (2, 3, 4) if i == 2 or (folder / f"{letter}{i}{i}.bin").is_file())
    pixels = np.empty((rows, columns, d, d), dtype=np.complex64)
    for i in range(d):
        pixels[..., i, i] = _read_band(folder / f"{letter}{i + 1}{i + 1}.bin", rows, columns)
        for j in range(i + 1, d):
            name = f"{letter}{i + 1}{j + 1}"
            pixels[..., i, j].real = _read_band(folder / f"{name}_real.bin", rows, columns)
            pixels[..., i, j].imag = _read_band(folder / f"{name}_imag.bin", rows, columns)
            pixels[..., j, i] = pixels[..., i, j].conj()
    return pixels


def _read_band(path: Path, rows: int, columns: int) -> NDArray[np.float32]:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {path.name}; copy the whole folder again")
    size = path.stat().st_size
    if size != 4 * rows * columns:
        raise ValueError(
            f"{path} has {size} bytes; {rows} x {columns} pixels of float32 take {4 * rows * columns}: "
            "copy it again"
        )
    return np.fromfile(path, dtype="<f4").reshape(rows, columns)
