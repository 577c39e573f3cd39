"""The texture experiment: the paper's Tables 1 and 2, figures 2 and 3, and unbalanced draws."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.datasets.brodatz import Textures, load_brodatz
from spdcluster.descriptors import RegionCovariance
from spdcluster.experiments import pictures, published
from spdcluster.experiments.draws import draw_subsets
from spdcluster.experiments.journal import prepare_folder
from spdcluster.experiments.methods import Method
from spdcluster.experiments.page import Picture, Table, score_table
from spdcluster.experiments.presets import BEST_NOTE, OURS, best_methods, ksscr, paper_methods
from spdcluster.experiments.study import (
    Protocol,
    Study,
    affinities,
    check_class_counts,
    check_options,
    choose_methods,
    command_line,
    digest,
    write_results,
)

logger = logging.getLogger(__name__)

DESCRIPTORS: dict[str, dict[str, Any]] = {
    "texture": {"features": "texture", "regions": "grid", "size": 32},
    "texture-simple": {
        "features": "texture",
        "regions": "grid",
        "size": 32,
        "derivative": "simple",
    },
    "texture-signed": {
        "features": "texture-signed",
        "regions": "grid",
        "size": 32,
        "normalize": "balanced",
    },
}
# Members of a class in the unbalanced draws.
CLASS_SIZES = (8, 64)
NOTES = [
    "Derivatives are numpy.gradient's where not said otherwise; the paper does not name its filter.",
    "Each trial draws its classes anew, the same for every method, so that the standard deviation "
    "is mostly that of the draws. The paper's is zero in most cells: it draws one subset for each "
    "number of classes and repeats k-means.",
]
PARAMETERS_NOTE = (
    "The paper gives one parameter of SSC, LRSC, LRR and KSSCE each; what it leaves open is the "
    "package's default."
)


def run(
    data: str | Path,
    out: str | Path,
    *,
    preset: str = "paper",
    trials: int = 20,
    seed: int = 0,
    n_jobs: int | None = None,
    quiet: bool = False,
    n_classes: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Cluster blocks of random textures by every method and write the tables beside the paper's.

    Parameters
    ----------
    data : path
        A folder with the sixteen images, or a .npz or .mat file; see
        `spdcluster.datasets.brodatz.load_brodatz`.
    out : path
        Folder for results.json, CSV, PNG, report.html, and trials.jsonl, from which a run that was
        stopped goes on.
    preset : {"paper", "best"}
        "paper": all methods with the paper's parameters. "best": the preset beyond the paper
        against its strongest rivals.
    trials : int
        Random subsets for each number of classes.
    seed : int
    n_jobs : int or None
        Threads; no number depends on it.
    quiet : bool
        No progress bar.
    n_classes : sequence of int or None
        None: 2, 4, 8, 10, 12, 16.
    methods : sequence of str or None
        Names of some of the methods; None: all.

    Returns
    -------
    dict
        The content of results.json.
    """
    options = check_options(preset, trials, seed)
    textures = load_brodatz(data)
    counts = check_class_counts(n_classes, published.N_CLASSES, len(textures.names))
    folder = prepare_folder(out)
    study = _prepare(textures, options, counts, methods, n_jobs)
    study.run(folder, n_jobs, quiet)
    results = study.results(OURS[preset])
    results["command"] = command_line("brodatz", options)
    results["paper"] = {"accuracy": published.ACCURACY, "nmi": published.NMI}
    logger.info("writing %s", folder)
    title = f"Brodatz textures, preset {preset}"
    return write_results(study, folder, results, _tables(study), _pictures(study, textures), title)


def _prepare(
    textures: Textures,
    options: dict[str, Any],
    counts: tuple[int, ...],
    wanted: Sequence[str] | None,
    n_jobs: int | None,
) -> Study:
    matrices = {
        name: RegionCovariance(**settings, n_jobs=n_jobs).fit_transform(textures.images)
        for name, settings in DESCRIPTORS.items()
    }
    labels = np.repeat(np.arange(len(textures.names)), len(matrices["texture"]) // 16)
    chosen, lacking = choose_methods(_methods(options["preset"]), wanted)
    draws = {
        "classes": draw_subsets(labels, "classes", counts, options["trials"], options["seed"]),
        "unbalanced": draw_subsets(
            labels,
            "unbalanced",
            counts,
            options["trials"],
            options["seed"],
            class_sizes=CLASS_SIZES,
        ),
    }
    titles = {
        "classes": "64 blocks a texture",
        "unbalanced": f"{CLASS_SIZES[0]} to {CLASS_SIZES[1]} blocks a texture",
    }
    return Study(
        experiment="brodatz",
        options=options,
        labels=labels,
        matrices=matrices,
        descriptors=DESCRIPTORS,
        data={"names": textures.names, "sha256": digest(textures.images)},
        protocols=[
            Protocol(name, titles[name], counts, drawn, chosen) for name, drawn in draws.items()
        ],
        notes=[*NOTES, BEST_NOTE if options["preset"] == "best" else PARAMETERS_NOTE, *lacking],
    )


def _methods(preset: str) -> list[Method]:
    gamma, alpha = published.BRODATZ_GAMMA, published.BRODATZ_ALPHA
    if preset == "paper":
        return paper_methods(gamma, alpha, 1.0, "texture") + _left_open(gamma, alpha)
    return best_methods(gamma, alpha, "texture", "texture-signed")


def _left_open(gamma: float, alpha: float) -> list[Method]:
    """KSSCR with other choices where the paper leaves one: the filter, the starts of k-means."""
    one_start = {"gamma": gamma, "alpha": alpha, "n_init": 1}
    return [
        ksscr("texture-simple", gamma, alpha, "KSSCR, simple derivatives"),
        Method("KSSCR, one k-means start", "texture", "KernelSSC", one_start),
    ]


def _tables(study: Study) -> list[Table]:
    tables = []
    for protocol in study.protocols:
        summary = study.summary(protocol)
        comparable = protocol.name == "classes" and protocol.n_classes == published.N_CLASSES
        paper = (published.ACCURACY, published.NMI) if comparable else (None, None)
        for score, title, theirs in zip(("accuracy", "nmi"), ("Accuracy", "NMI"), paper):
            heading = f"{title} by number of textures, {protocol.title}"
            tables.append(score_table(heading, protocol.n_classes, summary[score], theirs))
    return tables


def _pictures(study: Study, textures: Textures) -> dict[str, Picture]:
    made = {
        "textures": Picture(
            pictures.sample_images(list(textures.images), textures.names),
            "The sixteen textures, 256 x 256 (the paper's figure 2 b).",
        )
    }
    for protocol in study.protocols:
        reference = None
        if protocol.name == "classes" and protocol.n_classes == published.N_CLASSES:
            reference = {
                "accuracy": [mean for mean, _ in published.ACCURACY["KSSCR"]],
                "nmi": [mean for mean, _ in published.NMI["KSSCR"]],
            }
        made[f"curves_{protocol.name}"] = Picture(
            pictures.curves(
                study.summary(protocol), protocol.n_classes, "number of textures", reference
            ),
            f"Scores by number of textures, {protocol.title}.",
        )
    affinity = _affinity_picture(study)
    return made if affinity is None else {**made, "affinities": affinity}


def _affinity_picture(study: Study) -> Picture | None:
    """The first draw of 8 classes (of the most classes up to 8), every method that has a graph."""
    protocol = study.protocols[0]
    k = max((k for k in protocol.n_classes if k <= 8), default=protocol.n_classes[0])
    draw = next(d for d in protocol.draws if d.n_classes == k)
    graphs = affinities(study, draw, protocol.methods)
    if not graphs:
        return None
    sizes: NDArray[np.intp] = np.unique(study.labels[draw.members], return_counts=True)[1]
    return Picture(
        pictures.affinity_pictures(graphs, sizes.tolist()),
        f"Affinity matrices of one draw of {k} textures, points in the order of their textures "
        "(the paper's figure 3).",
    )
