"""What `spdcluster cluster INPUT` can read, as matrices with names."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.cli.estimator_options import option_name
from spdcluster.datasets import MatrixScene, read_scene
from spdcluster.datasets.scenes import as_scene
from spdcluster.report import Scene

WINDOWS = "Its clusters (each pixel takes the cluster of most windows over it)"


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


def load(
    source: str,
    *,
    key: str | None,
    skip_bad: bool,
    descriptor: dict[str, Any],
    looks: int | None = None,
) -> Collection:
    """Read what INPUT names: a file, a folder, a picture, a scene, or (as ``-``) standard input.

    Parameters
    ----------
    descriptor : dict
        Parameters of `RegionCovariance` that were given.
    looks : int or None
        Side of the squares of a scene's pixels that are averaged.
    """
    from spdcluster.datasets.readers import matrix_files
    from spdcluster.datasets.scenes import scene_folder
    from spdcluster.descriptors.images import SUFFIXES

    if not source:
        raise ValueError("INPUT is empty; name a file or a folder")
    path = Path(source)
    is_folder = source != "-" and path.is_dir()
    place = scene_folder(path) if is_folder else None
    if place is not None:
        _refuse(descriptor, f"{source} is a radar scene")
        return _from_scene(read_scene(place, looks), source, path.name, skip_bad)
    if is_folder and not _holds_images(path) and matrix_files(path):
        _refuse(descriptor | _option("looks", looks), f"{source} is a folder of matrices")
        return _from_matrix_folder(path, key, skip_bad)
    if is_folder or (source != "-" and path.suffix.lower() in SUFFIXES):
        _refuse(_option("looks", looks) | _option("key", key), f"{source} holds images")
        if is_folder:
            return _from_folder(path, skip_bad, descriptor)
        return _from_picture(path, {"regions": "window"} | descriptor)
    _refuse(descriptor, f"{source} is a file of matrices")
    return _from_file(source, key, skip_bad, looks)


def _option(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _refuse(given: dict[str, Any], because: str) -> None:
    """Options that have no meaning for this input were given: say so."""
    if given:
        name = next(iter(given))
        kind = {"looks": "scenes", "key": ".npz and .mat files"}.get(name, "images")
        raise ValueError(f"{option_name(name)} is for {kind}, but {because}; leave it out")


def _holds_images(folder: Path) -> bool:
    from spdcluster.descriptors.images import SUFFIXES

    return any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def _from_file(source: str, key: str | None, skip_bad: bool, looks: int | None) -> Collection:
    from spdcluster.datasets import read_matrices

    found = read_matrices(sys.stdin.buffer if source == "-" else source, key)
    asked = "" if key is None else f", key={key!r}"
    shown = "standard input" if source == "-" else Path(source).name
    if found.matrices.ndim == 4:
        return _from_scene(as_scene(found.matrices, looks), source, shown, skip_bad)
    _refuse(_option("looks", looks), f"{source} is a file of matrices without rows and columns")
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


def _from_matrix_folder(folder: Path, key: str | None, skip_bad: bool) -> Collection:
    from spdcluster.datasets import read_matrix_folder

    found = read_matrix_folder(folder, key, skip_bad=skip_bad)
    asked = ("" if key is None else f", key={key!r}") + (", skip_bad=True" if skip_bad else "")
    return Collection(
        X=found.matrices,
        names=found.names,
        column="file",
        source=f"the files in {folder.name or folder}",
        notes=[f"left out: {line}" for line in found.skipped],
        python=(
            "from spdcluster.datasets import read_matrix_folder\n\n"
            f"X = read_matrix_folder({str(folder)!r}{asked}).matrices\n"
        ),
    )


def _from_scene(found: MatrixScene, source: str, shown: str, skip_bad: bool) -> Collection:
    rows, columns = found.usable.shape
    singular = int((~found.usable & ~found.empty).sum())
    if singular and not skip_bad:
        raise ValueError(
            f"{singular:,} of {rows * columns:,} pixels of {source} are not positive definite; "
            f"average more pixels with looks={found.looks + 1}, or go on without these by skip_bad=True"
        )
    notes = [f"squares of {found.looks} x {found.looks} pixels averaged"] if found.looks > 1 else []
    unusable = int((~found.usable).sum())
    if unusable:
        notes.append(f"left out {unusable:,} of {rows * columns:,} pixels: empty or not definite")

    def scene(labels: NDArray[np.int64]) -> Scene:
        painted = np.full(found.usable.shape, -1)
        painted[found.usable] = labels
        return Scene(_false_colors(found), painted)

    return Collection(
        X=found.matrices[found.usable],
        names=[f"{row},{column}" for row, column in np.argwhere(found.usable)],
        column="row,column",
        source=f"a scene of {rows} x {columns} pixels: {shown}",
        notes=notes,
        python=(
            "from spdcluster.datasets import read_scene\n\n"
            f"scene = read_scene({'scene.npy' if source == '-' else source!r}, looks={found.looks})\n"
            "X = scene.matrices[scene.usable]\n"
        ),
        scene=scene,
    )


def _false_colors(scene: MatrixScene) -> NDArray[np.uint8]:
    """The variances in decibels: of three channels and more as red, green and blue, else as grey.

    The order makes the Pauli picture of a coherency matrix, as radar people expect it.
    """
    variances = np.diagonal(scene.matrices, axis1=2, axis2=3).real
    bands = (
        variances[..., [1, 2, 0]] if variances.shape[-1] >= 3 else variances.sum(axis=2)[..., None]
    )
    seen = bands[scene.usable]
    low, high = np.log(np.percentile(seen, [2, 98], axis=0))
    share = (np.log(np.maximum(bands, seen.min())) - low) / np.maximum(high - low, 1e-12)
    share[~scene.usable] = 0
    pixels = np.round(255 * np.clip(share, 0, 1)).astype(np.uint8)
    return pixels if pixels.shape[-1] == 3 else pixels[..., 0]


def _from_folder(folder: Path, skip_bad: bool, given: dict[str, Any]) -> Collection:
    from spdcluster.datasets import read_images

    found = read_images(folder, skip_bad=skip_bad)
    if len(found.images) == 1 and given.get("regions", "image") == "image":
        raise ValueError(
            f"the folder {folder} holds one image, {found.names[0]}, and one cannot be clustered; "
            f"to segment it, name the file: {folder / found.names[0]}"
        )
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
        painted = np.asarray(transformer.inverse_labels(cluster, overlap="majority"))[0]
        return Scene(images[0], painted, caption=WINDOWS)

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
