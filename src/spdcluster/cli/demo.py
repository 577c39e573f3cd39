"""`spdcluster demo`: three textures in one picture, found again from 5 x 5 covariances."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from spdcluster.cli import job
from spdcluster.cli.clock import Clock
from spdcluster.cli.inputs import WINDOWS, Collection
from spdcluster.cli.output import check_folder
from spdcluster.datasets import TextureMosaic, texture_mosaic
from spdcluster.descriptors import RegionCovariance
from spdcluster.report import Scene

PICTURE = "mosaic.png"
WINDOW, STRIDE = 48, 8
# twice as many eigenvectors as clusters, weighted by their eigenvalues: textures fall apart into
# sub-textures, and this last step puts them together again (see docs/parameters.md)
PARAMETERS = {"n_clusters": 3, "n_components": 6, "eigenvalue_power": 2.0}
PYTHON = f"""from spdcluster.datasets import texture_mosaic
from spdcluster.descriptors import RegionCovariance

mosaic = texture_mosaic()
windows = RegionCovariance(regions="window", size={WINDOW}, stride={STRIDE})
X = windows.fit_transform([mosaic.image])
"""
NEXT = """
What to try next
  look at the result   open {report} in a browser
  your own matrices    spdcluster cluster matrices.npy -k 3       (.npy, .npz or .mat, n x d x d)
  other parameters     spdcluster cluster matrices.npy -k 3 --preset best
  your own pictures    spdcluster cluster photo.png -k 3          (segments it, as above)
                       spdcluster cluster folder/ -k 3            (one matrix an image)
  from Python          the report ends with the program of this run
  what to change       spdcluster cluster --help, docs/parameters.md
"""


def run_demo(out: Path, *, seed: int, n_jobs: int | None, quiet: bool, clock: Clock) -> None:
    """Cluster the mosaic's windows, write the results and one picture, say what to try next."""
    check_folder(out, [*job.RESULTS, PICTURE], overwrite=_is_own(out))
    with clock.step("descriptors"):
        mosaic = texture_mosaic()
        collection, truth = _windows(mosaic, n_jobs)
    outcome = job.cluster(
        collection,
        PARAMETERS | {"random_state": seed} | ({} if n_jobs is None else {"n_jobs": n_jobs}),
        arguments=["spdcluster", "demo", "--seed", str(seed)],
        truth=truth,
        title="Three textures, found again",
        clock=clock,
    )
    assert collection.scene is not None
    scene = collection.scene(outcome.model.labels_)
    outcome.files[PICTURE] = picture(scene)
    job.write(outcome, out, overwrite=True)
    if not quiet:
        _tell(outcome, mosaic, out)


def _is_own(folder: Path) -> bool:
    """Whether what lies there is an earlier demo, which may be replaced."""
    try:
        command = json.loads((folder / "summary.json").read_text("utf-8"))["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return str(command).startswith("spdcluster demo")


def _windows(mosaic: TextureMosaic, n_jobs: int | None) -> tuple[Collection, NDArray[Any]]:
    """Covariances of all windows, and the texture under the centre of each."""
    transformer = RegionCovariance(regions="window", size=WINDOW, stride=STRIDE, n_jobs=n_jobs)
    X = transformer.fit_transform([mosaic.image])
    regions = transformer.regions_
    truth = mosaic.truth[regions["row"] + WINDOW // 2, regions["column"] + WINDOW // 2]

    def thumbnail(i: int) -> NDArray[Any]:
        row, column = int(regions["row"][i]), int(regions["column"][i])
        return mosaic.image[row : row + WINDOW, column : column + WINDOW]

    def scene(labels: NDArray[np.int64]) -> Scene:
        painted = np.asarray(transformer.inverse_labels(labels, overlap="majority"))[0]
        return Scene(mosaic.image, painted, mosaic.truth, WINDOWS)

    collection = Collection(
        X=X,
        names=[f"{r},{c}" for r, c in zip(regions["row"], regions["column"])],
        column="row,column",
        source=f"windows of {WINDOW} x {WINDOW} pixels in a mosaic of {', '.join(mosaic.names)}",
        python=PYTHON,
        thumbnail=thumbnail,
        scene=scene,
    )
    return collection, np.array(mosaic.names)[truth]


def picture(scene: Scene) -> bytes:
    """The mosaic beside its segmentation, as PNG."""
    import io

    from matplotlib.figure import Figure

    from spdcluster.report.pictures import as_picture, cluster_colors

    figure = Figure(figsize=(7.2, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in cluster_colors(3)])
    left.imshow(as_picture(scene.image, 480), cmap="gray")
    left.set_title("three textures")
    # pixels that no window covers stay white
    right.imshow(np.vstack([colors, [255, 255, 255]])[scene.painted].astype(np.uint8))
    right.set_title("found by spdcluster")
    for axes in (left, right):
        axes.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
    return buffer.getvalue()


def _tell(outcome: job.Outcome, mosaic: TextureMosaic, out: Path) -> None:
    agreement, seconds = outcome.measures.agreement, outcome.summary["seconds"]
    assert agreement is not None
    side = len(mosaic.image)
    typer.echo(
        f"{', '.join(mosaic.names)} in one picture of {side} x {side} pixels: "
        f"N = {len(outcome.measures.labels):,} windows, one 5 x 5 covariance each"
    )
    typer.echo(
        f"accuracy {agreement.accuracy:.1%}, NMI {agreement.nmi:.1%} "
        "(against the texture under the centre of each window)"
    )
    typer.echo(f"largest relative duality gap {outcome.model.dual_gap_:.1e}")
    typer.echo("  ".join(f"{step} {second:.2f} s" for step, second in seconds.items()))
    typer.echo(f"wrote {', '.join(outcome.files)} to {out}")
    typer.echo(NEXT.format(report=out / "report.html").rstrip())
