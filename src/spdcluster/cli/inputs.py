"""What `spdcluster cluster INPUT` can read, as matrices with names."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.cli.estimator_options import option_name
from spdcluster.report import Scene


@dataclass(frozen=True)
class Collection:
    """Matrices to cluster, and what the report needs to show them.

    Attributes
    ----------
    X : ndarray, shape (n_matrices, d, d)
    names : list of str
    column : str
        Heading of the names in `labels.csv`: "id" or "file".
    source : str
        Where the matrices come from, in words.
    notes : list of str
    python : str
        Statements that make `X`.
    thumbnail : callable or None
    scene : callable or None
        Labels of the matrices to a picture of them.
    """

    X: NDArray[Any]
    names: list[str]
    column: str
    source: str
    python: str
    notes: list[str] = field(default_factory=list)
    thumbnail: Callable[[int], NDArray[Any]] | None = None
    scene: Callable[[NDArray[np.int64]], Scene] | None = None


def load(source: str, *, key: str | None, skip_bad: bool, descriptor: dict[str, Any]) -> Collection:
    """Read a file of matrices, a picture, a folder of images, or (as ``-``) standard input.

    Parameters
    ----------
    descriptor : dict
        Parameters of `RegionCovariance` that were given.
    """
    from spdcluster.descriptors.images import SUFFIXES

    path = Path(source)
    if source != "-" and path.is_dir():
        return _from_folder(path, skip_bad, descriptor)
    if source != "-" and path.suffix.lower() in SUFFIXES:
        return _from_picture(path, {"regions": "window"} | descriptor)
    if descriptor:
        option = option_name(next(iter(descriptor)))
        raise ValueError(
            f"{option} is for images, but {source} is a file of matrices; leave it out"
        )
    return _from_matrices(source, key)


def _from_matrices(source: str, key: str | None) -> Collection:
    from spdcluster.datasets import read_matrices

    found = read_matrices(sys.stdin.buffer if source == "-" else source, key)
    asked = "" if key is None else f", key={key!r}"
    shown = "standard input" if source == "-" else Path(source).name
    return Collection(
        X=found.matrices,
        names=[str(i) for i in range(len(found.matrices))],
        column="id",
        source=shown if found.key is None else f"{shown} [{found.key}]",
        notes=[found.note] if found.note else [],
        python=(
            "from spdcluster.datasets import read_matrices\n\n"
            f"X = read_matrices({'matrices.npy' if source == '-' else source!r}{asked}).matrices\n"
        ),
    )


def _from_folder(folder: Path, skip_bad: bool, given: dict[str, Any]) -> Collection:
    from spdcluster.datasets import read_images

    found = read_images(folder, skip_bad=skip_bad)
    read = f"read_images({str(folder)!r}{', skip_bad=True' if skip_bad else ''}).images"
    notes = [f"left out {line}" for line in found.skipped]
    return _described(
        found.images, found.names, f"the images in {folder.name or folder}", read, notes, given
    )


def _from_picture(path: Path, given: dict[str, Any]) -> Collection:
    from spdcluster.descriptors.images import load_images

    images = [image.pixels for image in load_images(path)]
    return _described(images, [path.name], path.name, f"[{str(path)!r}]", [], given)


def _described(
    images: list[NDArray[Any]],
    names: list[str],
    source: str,
    read: str,
    notes: list[str],
    given: dict[str, Any],
) -> Collection:
    """Region covariances of the images, each region named after its image and place."""
    from spdcluster.descriptors import RegionCovariance

    transformer = RegionCovariance(**given)
    try:
        X = transformer.fit_transform(images)
    except ValueError as error:
        raise ValueError(_with_names(str(error), names)) from error
    regions = transformer.regions_
    whole = transformer.regions == "image"
    one = len(images) == 1
    labels = [
        names[r["image"]]
        if whole
        else f"{'' if one else names[r['image']] + '@'}{r['row']},{r['column']}"
        for r in regions
    ]
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    header = "from spdcluster.datasets import read_images\n" if "read_images" in read else ""

    def thumbnail(i: int) -> NDArray[Any]:
        r = regions[i]
        return images[r["image"]][
            r["row"] : r["row"] + r["height"], r["column"] : r["column"] + r["width"]
        ]

    def scene(cluster: NDArray[np.int64]) -> Scene:
        return Scene(
            images[0], np.asarray(transformer.inverse_labels(cluster, overlap="majority"))[0]
        )

    return Collection(
        X=X,
        names=labels,
        column="file" if whole else "row,column" if one else "file@row,column",
        source=f"{len(images)} image{'s' if len(images) > 1 else ''}: {source}",
        notes=notes,
        python=(
            f"{header}from spdcluster.descriptors import RegionCovariance\n\n"
            f"X = RegionCovariance({arguments}).fit_transform({read})\n"
        ),
        thumbnail=thumbnail,
        scene=scene if one and not whole else None,
    )


def _with_names(message: str, names: list[str]) -> str:
    """The transformer counts images, X[3]; a user of files knows them by name."""
    for i, name in enumerate(names):
        message = message.replace(f"X[{i}]", name)
    return message
