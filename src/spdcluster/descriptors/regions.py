"""Where regions lie in an image, and how their labels are painted back into it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("image", "grid", "window")
OVERLAPS = ("nearest", "majority")
REGION_FIELDS = [(field, np.int64) for field in ("image", "row", "column", "height", "width")]


@dataclass(frozen=True)
class Regions:
    """Equal rectangles on a regular lattice that starts in the upper left corner.

    Rectangle (i, j), number ``i * n_columns + j``, covers the rows from ``i * row_step`` and the
    columns from ``j * column_step`` of an image (image_height, image_width).
    """

    image_height: int
    image_width: int
    height: int
    width: int
    row_step: int
    column_step: int

    @property
    def n_rows(self) -> int:
        return (self.image_height - self.height) // self.row_step + 1

    @property
    def n_columns(self) -> int:
        return (self.image_width - self.width) // self.column_step + 1

    @property
    def n_regions(self) -> int:
        return self.n_rows * self.n_columns

    @property
    def n_pixels(self) -> int:
        return self.height * self.width

    @property
    def disjoint(self) -> bool:
        return self.row_step >= self.height and self.column_step >= self.width

    def write(self, image: int, out: np.ndarray) -> None:
        """Describe the regions in `out` (n_regions,), a structured array of REGION_FIELDS."""
        lattice = out.reshape(self.n_rows, self.n_columns)
        lattice["image"] = image
        lattice["row"] = (self.row_step * np.arange(self.n_rows))[:, np.newaxis]
        lattice["column"] = self.column_step * np.arange(self.n_columns)
        lattice["height"] = self.height
        lattice["width"] = self.width

    def paint(self, labels: np.ndarray, overlap: str, fill: Any, out: np.ndarray) -> None:
        """Write the labels (n_regions,) of the regions to the pixels `out` (h, w)."""
        lattice = labels.reshape(self.n_rows, self.n_columns)
        row, row_covered = _nearest(self.image_height, self.height, self.row_step, self.n_rows)
        column, column_covered = _nearest(
            self.image_width, self.width, self.column_step, self.n_columns
        )
        if overlap == "majority" and not self.disjoint:
            painted = self._majority(lattice, row, column)
        else:
            painted = lattice[np.ix_(row, column)]
        out[...] = np.where(row_covered[:, np.newaxis] & column_covered, painted, fill)

    def _majority(self, lattice: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return the label of most regions over each pixel; a tie goes to the nearest centre."""
        classes, codes = np.unique(lattice, return_inverse=True)
        codes = codes.reshape(lattice.shape)
        nearest = codes[np.ix_(row, column)]
        winner = nearest.copy()
        most = np.zeros(winner.shape, dtype=np.int64)
        for code in range(len(classes)):
            votes = self._count_over_pixels(codes == code)
            # Twice the count, plus one for the nearest: ties are settled by the same comparison.
            votes = 2 * votes + (nearest == code)
            better = votes > most
            winner[better] = code
            most[better] = votes[better]
        return np.asarray(classes[winner])

    def _count_over_pixels(self, chosen: np.ndarray) -> np.ndarray:
        """Count the chosen regions over each pixel: corner differences, summed along both axes."""
        corners = np.zeros((self.image_height + 1, self.image_width + 1), dtype=np.int64)
        rows = self.row_step * np.arange(self.n_rows)
        columns = self.column_step * np.arange(self.n_columns)
        for down, right, sign in ((0, 0, 1), (0, 1, -1), (1, 0, -1), (1, 1, 1)):
            index = np.ix_(rows + down * self.height, columns + right * self.width)
            corners[index] += sign * chosen
        return corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]


def lay_regions(
    kind: str, shape: tuple[int, int], size: tuple[int, int], stride: tuple[int, int], name: str
) -> Regions:
    """Return the regions of an image of `shape`; `name` is the image's, for the error."""
    if kind == "image":
        return Regions(*shape, *shape, *shape)
    if size[0] > shape[0] or size[1] > shape[1]:
        raise ValueError(
            f"{name} has {shape[0]} x {shape[1]} pixels, less than one region of {size[0]} x "
            f"{size[1]}: choose a smaller size, or drop the image"
        )
    return Regions(*shape, *size, *(size if kind == "grid" else stride))


def _nearest(length: int, size: int, step: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel of an axis: the region with the nearest centre, and whether it covers it.

    Half-way between two centres the first one wins. Where any region covers a pixel, so does the
    one with the nearest centre, for all are of one size.
    """
    pixel = np.arange(length)
    # The centre of region i is i * step + (size - 1) / 2: integers, doubled, keep ties exact.
    index = -((-(2 * pixel - (size - 1) - step)) // (2 * step))
    index = np.clip(index, 0, count - 1)
    start = index * step
    return index, (pixel >= start) & (pixel < start + size)
