"""Data in: files of matrices, images and labels; the texture mosaic of the demo."""

from spdcluster.datasets.mosaic import TextureMosaic, texture_mosaic
from spdcluster.datasets.readers import (
    ImageSet,
    MatrixFile,
    read_images,
    read_labels,
    read_matrices,
)

__all__ = [
    "ImageSet",
    "MatrixFile",
    "TextureMosaic",
    "read_images",
    "read_labels",
    "read_matrices",
    "texture_mosaic",
]
