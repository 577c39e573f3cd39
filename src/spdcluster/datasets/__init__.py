"""Data in: files and scenes of matrices, images and labels; the texture mosaic of the demo."""

from spdcluster.datasets.mosaic import TextureMosaic, texture_mosaic
from spdcluster.datasets.readers import (
    ImageSet,
    MatrixFile,
    MatrixFolder,
    read_images,
    read_labels,
    read_matrices,
    read_matrix_folder,
)
from spdcluster.datasets.scenes import MatrixScene, read_scene

__all__ = [
    "ImageSet",
    "MatrixFile",
    "MatrixFolder",
    "MatrixScene",
    "TextureMosaic",
    "read_images",
    "read_labels",
    "read_matrices",
    "read_matrix_folder",
    "read_scene",
    "texture_mosaic",
]
