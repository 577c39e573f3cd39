"""The preset and its rivals on data that neither the textures nor the faces resemble.

    python -m spdcluster.experiments.others --out DIR [--scene DIR] [--trials N]

Thirteen made families, the three textures that scikit-image carries at two scales, and, where it is
given, a radar scene. Each with balanced and with unbalanced classes.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

from spdcluster import __version__
from spdcluster.descriptors import RegionCovariance
from spdcluster.experiments.brodatz import DESCRIPTORS
from spdcluster.experiments.families import FAMILIES
from spdcluster.experiments.journal import Journal, prepare_folder, write_file
from spdcluster.experiments.methods import Method
from spdcluster.experiments.presets import best, elastic_net, ksscr, neighbour_graph
from spdcluster.experiments.published import BRODATZ_ALPHA, BRODATZ_GAMMA
from spdcluster.experiments.scene import draw_pixels, load_scene
from spdcluster.metrics import clustering_accuracy

Draw = Callable[[Generator, bool], tuple[NDArray[Any], NDArray[np.int64]]]
# By name: whether other draws of it had a say in the preset, and its draws.
Source = tuple[bool, Draw]

METHODS = (
    best(""),
    Method("defaults", "", "KernelSSC"),
    ksscr("", BRODATZ_GAMMA, BRODATZ_ALPHA),
    neighbour_graph(""),
    elastic_net(""),
    Method("K-means, log", "", "k-means", {"logarithm": True}),
)
SCENE_WINDOWS = (5, 7, 9)


def sources(scene: str | Path | None = None) -> dict[str, Source]:
    """Name -> (was tuned on, draw)."""
    made: dict[str, Source] = {f.name: (f.was_tuned_on, f.draw) for f in FAMILIES}
    for name in ("texture", "texture-signed"):
        made[f"carried images, {name}"] = (True, carried_textures(name))
    if scene is not None:
        for window in SCENE_WINDOWS:
            made[f"scene, {window} x {window}"] = (True, scene_pixels(scene, window))
    return made


def carried_textures(descriptor: str) -> Draw:
    """Blocks of brick, grass and gravel at two scales: six classes of 64 blocks."""
    from skimage import data
    from skimage.transform import rescale

    images = [getattr(data, name)().astype(np.float64) for name in ("brick", "grass", "gravel")]
    small = [rescale(image, 0.5, anti_aliasing=True) for image in images]
    blocks = [image[:256, :256] for image in images] + small
    X = RegionCovariance(**DESCRIPTORS[descriptor]).fit_transform(blocks)
    labels = np.repeat(np.arange(6), len(X) // 6)

    def draw(rng: Generator, unbalanced: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
        least, most = (8, 64) if unbalanced else (48, 48)
        kept = np.concatenate(
            [
                rng.choice(
                    np.flatnonzero(labels == c), rng.integers(least, most + 1), replace=False
                )
                for c in range(6)
            ]
        )
        return X[kept], labels[kept]

    return draw


def scene_pixels(scene: str | Path, window: int) -> Draw:
    """Pixels of a scene, 150 of each class, or 30 to 300."""
    matrices, labels = load_scene(scene, window)
    return lambda rng, unbalanced: draw_pixels(
        matrices, labels, rng, (30, 300) if unbalanced else (150, 150)
    )


def run(
    out: str | Path,
    *,
    scene: str | Path | None = None,
    trials: int = 10,
    seed: int = 0,
    n_jobs: int | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write results.json and others.md under `out`; what its trials.jsonl has is not fitted again.

    Parameters
    ----------
    out : path
    scene : path or None
        See `spdcluster.experiments.scene.load_scene`.
    trials : int
        Draws of each source, balanced and unbalanced each.
    seed, n_jobs
    names : sequence of str or None
        Some of the sources; None: all.

    Returns
    -------
    dict
        ``scores[source][balance][method] = (accuracy, nmi)``, means in per cent.
    """
    journal = Journal(prepare_folder(out) / "trials.jsonl")
    methods = [m for m in METHODS if m.available()]
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    chosen = {n: s for n, s in sources(scene).items() if names is None or n in names}
    for name, (_, draw) in chosen.items():
        cells: dict[str, dict[str, list[list[float]]]] = {}
        for balance, trial, X, y in _draws(name, draw, trials, seed):
            for method in methods:
                settings = {
                    "version": __version__, "source": name, "balance": balance, "trial": trial,
                    "seed": seed, "method": method.settings,
                }  # fmt: skip
                result = journal.get(settings)
                if result is None:
                    result = _score(method, X, y, trial, n_jobs)
                    journal.add(settings, result)
                row = cells.setdefault(balance, {}).setdefault(method.name, [])
                row.append([result["accuracy"], result["nmi"]])
        scores[name] = {
            balance: {m: [float(v) for v in np.mean(c, axis=0)] for m, c in row.items()}
            for balance, row in cells.items()
        }
    results = {
        "spdcluster": __version__,
        "trials": trials,
        "seed": seed,
        "tuned_on": [n for n, (tuned, _) in chosen.items() if tuned],
        "scores": scores,
    }
    write_file(Path(out) / "results.json", json.dumps(results, indent=1) + "\n")
    write_file(Path(out) / "others.md", table(results))
    return results


def _draws(
    name: str, draw: Draw, trials: int, seed: int
) -> Iterator[tuple[str, int, NDArray[Any], NDArray[np.int64]]]:
    for unbalanced in (False, True):
        for trial in range(trials):
            rng = np.random.default_rng([seed, crc32(name.encode()), unbalanced, trial])
            yield "unbalanced" if unbalanced else "balanced", trial, *draw(rng, unbalanced)


def _score(
    method: Method, X: NDArray[Any], y: NDArray[np.int64], trial: int, n_jobs: int | None
) -> dict[str, Any]:
    start = time.perf_counter()
    found = method.fit(X, len(np.unique(y)), trial, n_jobs).labels
    return {
        "accuracy": 100 * clustering_accuracy(y, found),
        "nmi": 100 * float(normalized_mutual_info_score(y, found)),
        "seconds": time.perf_counter() - start,
    }


def table(results: dict[str, Any]) -> str:
    """The scores in Markdown: accuracy / NMI, the best accuracy of a line in bold, means below."""
    scores, tuned = results["scores"], results["tuned_on"]
    methods = list(next(iter(next(iter(scores.values())).values())))
    lines = ["| data | classes | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    kinds = (("sets the preset saw", True), ("sets it never saw", False))
    for balance in ("balanced", "unbalanced"):
        for title, was_tuned in kinds:
            names = [n for n in scores if (n in tuned) == was_tuned]
            for name in names:
                lines.append(_line(name, balance, [scores[name][balance][m] for m in methods]))
            if names:
                means = [np.mean([scores[n][balance][m] for n in names], axis=0) for m in methods]
                lines.append(_line(f"*mean of {title}*", balance, means))
    return "\n".join(lines) + "\n"


def _line(name: str, balance: str, cells: Sequence[Any]) -> str:
    top = max(round(accuracy, 1) for accuracy, _ in cells)
    shown = [
        (f"**{a:.1f}**" if round(a, 1) == top else f"{a:.1f}") + f" / {nmi:.1f}" for a, nmi in cells
    ]
    return f"| {name} | {balance} | " + " | ".join(shown) + " |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spdcluster.experiments.others",
        description="The preset best and its rivals on made families, carried textures and a scene.",
    )
    parser.add_argument("--out", required=True, help="folder for results.json and others.md")
    parser.add_argument("--scene", help="folder with a PolSARpro T3 folder and labels.png")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=None)
    arguments = vars(parser.parse_args())
    sys.stdout.write(table(run(arguments.pop("out"), **arguments)))


if __name__ == "__main__":
    main()
