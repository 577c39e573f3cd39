"""`spdcluster bench methods`: every method on the same random subsets of classes, the paper's protocol.

Scores and seconds come from one fit a method and draw, after a small fit that compiles what needs it.
Memory is the peak of what Python and numpy allocate (`tracemalloc`) in a second fit on the first draw of
each size, so that measuring it slows down no timed fit. Last, each method's fit on one thread is set beside
`KernelSSC`'s and beside the linear algebra that it needs: `spdcluster.bench.methods_floors`.

Each finished fit is kept in ``trials.jsonl``; the same command goes on where a stopped run was.
"""

import csv
import io
import tracemalloc
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster import __version__
from spdcluster.arguments import check_choice, check_int
from spdcluster.experiments.draws import Draw, draw_subsets
from spdcluster.experiments.journal import Journal, prepare_folder, write_file
from spdcluster.experiments.methods import Clustering, Method
from spdcluster.experiments.presets import best, paper_methods
from spdcluster.experiments.tables import SCORES
from spdcluster.experiments.trials import Trial, run_trials

N_CLASSES = (2, 4, 8, 10, 12, 16)
N_TRIALS = 20
QUICK_N_CLASSES, QUICK_TRIALS = (2, 4), 2
# classes of 64 matrices each on which the floors are measured
FLOOR_CLASSES, QUICK_FLOOR_CLASSES = 16, 4
DESCRIPTOR = "texture"
GAMMA, ALPHA = 0.5, 0.04
Row = dict[str, Any]


@dataclass(frozen=True)
class RiemannianKMeans(Method):
    """pyRiemann's `Kmeans` with the affine-invariant mean."""

    def fit(
        self, X: NDArray[Any], n_clusters: int, seed: int, n_jobs: int | None = None
    ) -> Clustering:
        """Cluster matrices, shape (n_matrices, d, d)."""
        from pyriemann.clustering import Kmeans

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = Kmeans(n_clusters, random_state=seed, **self.parameters).fit(X)
        said = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
        return Clustering(np.asarray(model.labels_, dtype=np.int64), warnings=said)

    def lacking(self) -> None:
        """Nothing: pyRiemann is a dependency."""


def all_methods() -> list[Method]:
    """The paper's rows with its parameters, the methods that came after, and the baselines."""
    more = [
        best(DESCRIPTOR),
        Method("SSC, affine", DESCRIPTOR, "SSC", {"affine": True}),
        Method("LRR, relative", DESCRIPTOR, "LRR", {"lam": 100.0, "weight_mode": "relative"}),
        Method("LRSC, noise-free", DESCRIPTOR, "LRSC", {"variant": "noise-free"}),
        Method("TangentSSC, all neighbours", DESCRIPTOR, "TangentSSC"),
        *(
            Method(f"KernelSSC, {kernel}", DESCRIPTOR, "KernelSSC", {"kernel": kernel} | relative)
            for kernel, relative in (
                ("log-polynomial", {"normalize": True}),
                ("log-exponential", {"normalize": True}),
                ("stein", {}),
            )
        ),
        RiemannianKMeans("K-means, pyRiemann", DESCRIPTOR, "pyriemann", {"metric": "riemann"}),
    ]
    chosen = paper_methods(GAMMA, ALPHA, 1.0, DESCRIPTOR) + more
    return [method for method in chosen if method.lacking() is None]


def run(
    data: Path | None = None,
    out: Path | str = "spdcluster-bench-methods",
    *,
    quick: bool = False,
    quiet: bool = False,
    n_classes: Sequence[int] | None = None,
    n_trials: int | None = None,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Compare the methods, and return the table; write methods.csv and methods.png as well.

    Parameters
    ----------
    data : Path or None
        Folder with the Brodatz plates, or with a folder ``brodatz16`` of them; None for made-up
        matrices of sixteen classes.
    out : Path
        Folder for the files; what it already has is not computed again.
    quick : bool
        Two sizes and two trials unless they are given.
    quiet : bool
        No progress bar.
    n_classes : sequence of int or None
        None: 2, 4, 8, 10, 12, 16.
    n_trials : int or None
        Draws a number of classes; None: 20.
    methods : sequence of str or None
        Names of some of the methods; None: all.
    seed : int
    n_jobs : int or None

    Returns
    -------
    dict
        ``cells``: method, n_classes, n_points, mean and standard deviation of accuracy and NMI in
        per cent, mean seconds and peak memory in MB of a fit (``methods.csv``). ``floors``: see
        `spdcluster.bench.methods_floors.floors`. ``rows``: what both say of each method, in one line.
    """
    counts = tuple(n_classes or (QUICK_N_CLASSES if quick else N_CLASSES))
    trials = check_int(n_trials or (QUICK_TRIALS if quick else N_TRIALS), "n_trials", low=1)
    chosen = _choose(methods)
    folder = prepare_folder(out)
    matrices, labels, origin = _matrices(data)
    classes = len(np.unique(labels))
    for k in counts:
        check_int(k, "n_classes", low=2, high=classes)
    draws = draw_subsets(labels, "classes", counts, trials, check_int(seed, "seed", low=0))
    journal = Journal(folder / "trials.jsonl")
    _compile(chosen, matrices, labels)
    finished = run_trials(
        draws,
        chosen,
        {DESCRIPTOR: matrices},
        labels,
        journal=journal,
        origin={DESCRIPTOR: origin},
        n_jobs=n_jobs,
        quiet=quiet,
        title="methods",
    )
    first = [next(d for d in draws if d.n_classes == k) for k in counts]
    peaks = _peaks(first, chosen, matrices, journal, origin, n_jobs, quiet)
    cells = _cells(finished, peaks, chosen, counts)
    n_floor = min(classes, QUICK_FLOOR_CLASSES if quick else FLOOR_CLASSES)
    beside = _floors(n_floor, chosen, matrices, labels, journal, origin, quiet)
    _write(folder, cells, chosen, counts)
    return {
        "benchmark": "methods",
        "data": origin,
        "n_trials": trials,
        "seed": seed,
        "methods": {m.name: m.settings for m in chosen},
        "warnings": sorted({f"{t.method}: {w}" for t in finished for w in t.warnings}),
        "cells": cells,
        "floors": beside,
        "rows": [_line(m.name, cells, beside) for m in chosen],
    }


def _choose(wanted: Sequence[str] | None) -> list[Method]:
    methods = all_methods()
    for name in wanted or ():
        check_choice(name, "methods", [m.name for m in methods])
    return [m for m in methods if wanted is None or m.name in wanted]


def _matrices(data: Path | None) -> tuple[NDArray[Any], NDArray[np.int64], dict[str, Any]]:
    """Matrices (n, d, d), their classes (n,), and what they were made from."""
    if data is None:
        return _made_up()
    from spdcluster.datasets.brodatz import load_brodatz
    from spdcluster.descriptors import RegionCovariance
    from spdcluster.experiments.study import digest

    folder = Path(data)
    inner = folder / "brodatz16"
    textures = load_brodatz(inner if inner.is_dir() else folder)
    X = RegionCovariance(features="texture", regions="grid", size=32).fit_transform(textures.images)
    labels = np.repeat(np.arange(len(textures.names)), len(X) // len(textures.names))
    return X, labels, {"data": "brodatz16", "sha256": digest(textures.images)}


def _made_up() -> tuple[NDArray[Any], NDArray[np.int64], dict[str, Any]]:
    """Sample covariances of sixteen mixtures, 64 each, 5 x 5."""
    rng = np.random.default_rng(0)
    mixing = np.eye(5) + 0.5 * rng.normal(size=(16, 5, 5))
    labels = np.repeat(np.arange(16), 64)
    signals = mixing[labels] @ rng.normal(size=(len(labels), 5, 40))
    return signals @ signals.swapaxes(1, 2) / 40, labels, {"data": "made-up"}


def _compile(methods: Sequence[Method], X: NDArray[Any], labels: NDArray[np.int64]) -> None:
    """Fit each method once on a few matrices: machine code is made on first use."""
    few = np.concatenate([np.flatnonzero(labels == c)[:8] for c in np.unique(labels)[:2]])
    for method in methods:
        method.fit(X[few], 2, 0)


def _peaks(
    draws: Sequence[Draw],
    methods: Sequence[Method],
    X: NDArray[Any],
    journal: Journal,
    origin: Mapping[str, Any],
    n_jobs: int | None,
    quiet: bool,
) -> dict[tuple[str, int], float]:
    """Peak memory in MB of one fit, by method and number of classes."""
    from tqdm import tqdm

    peaks = {}
    pairs = [(draw, method) for draw in draws for method in methods]
    for draw, method in tqdm(pairs, desc="memory", unit="fit", disable=quiet):
        settings = {
            "measure": "memory",
            "members": draw.members.tolist(),
            "seed": draw.seed,
            "method": method.settings,
            "matrices": origin,
        }
        result = journal.get(settings)
        if result is None:
            tracemalloc.start()
            try:
                method.fit(X[draw.members], draw.n_classes, draw.seed, n_jobs)
                result = {"peak_mb": tracemalloc.get_traced_memory()[1] / 2**20}
            finally:
                tracemalloc.stop()
            journal.add(settings, result)
        peaks[method.name, draw.n_classes] = result["peak_mb"]
    return peaks


def _floors(
    n_classes: int,
    methods: Sequence[Method],
    X: NDArray[Any],
    labels: NDArray[np.int64],
    journal: Journal,
    origin: Mapping[str, Any],
    quiet: bool,
) -> list[Row]:
    """Times beside their floors on the first classes; all of one run, so kept as one entry."""
    from spdcluster.bench.methods_floors import floors

    settings = {
        "measure": "floors",
        "version": __version__,
        "n_classes": n_classes,
        "methods": {m.name: m.settings for m in methods},
        "matrices": origin,
    }
    result = journal.get(settings)
    if result is None:
        members = np.isin(labels, np.unique(labels)[:n_classes])
        result = {"rows": floors(methods, X[members], n_classes, quiet=quiet)}
        journal.add(settings, result)
    rows: list[Row] = result["rows"]
    return rows


def _cells(
    trials: Sequence[Trial],
    peaks: Mapping[tuple[str, int], float],
    methods: Sequence[Method],
    counts: Sequence[int],
) -> list[Row]:
    """One row a method and number of classes."""
    rows = []
    for k in counts:
        for method in methods:
            cell = [t for t in trials if (t.method, t.n_classes) == (method.name, k)]
            scores: Row = {}
            for score in SCORES:
                values = [getattr(t, score) for t in cell]
                scores |= {score: float(np.mean(values)), f"{score}_std": float(np.std(values))}
            rows.append(
                {
                    "n_classes": k,
                    "method": method.name,
                    "n_points": cell[0].n_points,
                    **scores,
                    "seconds": float(np.mean([t.seconds for t in cell])),
                    "peak_mb": peaks[method.name, k],
                }
            )
    return rows


def _line(name: str, cells: Sequence[Row], beside: Sequence[Row]) -> Row:
    """A method's scores, its cost at the largest size, and its fit beside its floors."""
    own = [cell for cell in cells if cell["method"] == name]
    line: Row = {"method": name}
    line |= {f"acc {cell['n_classes']}": cell["accuracy"] for cell in own}
    line |= {f"mean {score}": float(np.mean([cell[score] for cell in own])) for score in SCORES}
    line |= {"seconds": own[-1]["seconds"], "peak_mb": own[-1]["peak_mb"]}
    for row in beside:
        if row["method"] == name and row["what"] == "fit":
            line["1 thread, s"] = row["seconds"]
            line["/ KernelSSC"] = row.get("times_kernel_ssc")
            line["/ floor"] = row.get("ratio")
        elif row["method"] == name:
            line["code / floor"] = row["ratio"]
    return line


def _write(
    folder: Path, cells: Sequence[Row], methods: Sequence[Method], counts: Sequence[int]
) -> None:
    from spdcluster.bench.methods_picture import picture

    text = io.StringIO()
    writer = csv.DictWriter(text, list(cells[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    write_file(folder / "methods.csv", text.getvalue())
    values = {
        key: np.array([cell[key] for cell in cells]).reshape(len(counts), len(methods)).T
        for key in (*SCORES, "seconds")
    }
    names = [m.name for m in methods]
    write_file(folder / "methods.png", picture(values, names, counts))
