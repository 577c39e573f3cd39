"""Pixels of a polarimetric radar scene with known classes, as local averages of coherency matrices."""

from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


def load_scene(folder: str | Path, window: int) -> tuple[NDArray[np.complex64], NDArray[np.uint8]]:
    """A PolSARpro ``T3`` folder beside a ``labels.png`` (0: no class), averaged over square windows.

    Parameters
    ----------
    folder : path
        Holds ``T3/T11.bin``, ``T3/T12_real.bin``, ... (float32, row by row) and ``T3/config.txt``.
    window : int
        Side of the window in pixels.

    Returns
    -------
    matrices : ndarray, shape (n_rows, n_columns, 3, 3)
    labels : ndarray, shape (n_rows, n_columns)
        0 also where the average is not positive definite.
    """
    from scipy.ndimage import uniform_filter
    from skimage.io import imread

    folder = Path(folder)
    for needed in ("T3/config.txt", "T3/T11.bin", "labels.png"):
        if not (folder / needed).is_file():
            raise FileNotFoundError(
                f"{folder} has no {needed}; a scene is a PolSARpro T3 folder beside a labels.png"
            )
    words = (folder / "T3" / "config.txt").read_text("utf-8").split()
    shape = tuple(int(words[words.index(name) + 1]) for name in ("Nrow", "Ncol"))

    def averaged(name: str) -> NDArray[np.float32]:
        values = np.fromfile(folder / "T3" / f"{name}.bin", "<f4").reshape(shape)
        return np.asarray(uniform_filter(values.astype(np.float64), window), np.float32)

    matrices = np.empty((*shape, 3, 3), np.complex64)
    for i in range(3):
        matrices[..., i, i] = averaged(f"T{i + 1}{i + 1}")
        for j in range(i + 1, 3):
            name = f"T{i + 1}{j + 1}"
            value = averaged(f"{name}_real") + 1j * averaged(f"{name}_imag")
            matrices[..., i, j], matrices[..., j, i] = value, value.conj()
    labels = imread(folder / "labels.png")
    if labels.shape != shape:
        raise ValueError(f"labels.png has shape {labels.shape}, the matrices of T3 {shape}")
    return matrices, np.where(np.linalg.eigvalsh(matrices)[..., 0] > 0, labels, 0)


def draw_pixels(
    matrices: NDArray[np.complex64],
    labels: NDArray[np.uint8],
    rng: Generator,
    sizes: tuple[int, int],
) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
    """Random pixels of every class, `sizes` (least, most) of each: matrices (n, 3, 3) and classes (n,)."""
    flat, classes = labels.ravel(), [int(c) for c in np.unique(labels) if c]
    values = matrices.reshape(-1, 3, 3)
    chosen = []
    for name in classes:
        members = np.flatnonzero(flat == name)
        count = min(len(members), int(rng.integers(sizes[0], sizes[1] + 1)))
        chosen.append(np.sort(rng.choice(members, count, replace=False)))
    pixels = np.concatenate(chosen)
    return values[pixels].astype(np.complex128), flat[pixels].astype(np.int64)
