"""The main job: cluster a collection and write labels.csv, summary.json and report.html."""

import csv
import io
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.cli.clock import Clock
from spdcluster.cli.inputs import Collection
from spdcluster.cli.output import write_files
from spdcluster.cli.summary import as_json, facts, python_snippet, summarize
from spdcluster.report import Measures, Run, measure, render_report

RESULTS = ["labels.csv", "summary.json", "report.html"]
AUTO = (
    "-k auto: the largest drop in the spectrum of the graph comes after eigenvalue {k}, so {k} clusters; "
    "that is a hint, no more: look at the report and try other numbers"
)


@dataclass(frozen=True)
class Outcome:
    """A finished job, before it is written.

    Attributes
    ----------
    model : fitted estimator
    measures : Measures
    summary : dict
    files : dict
        Contents by name.
    notes : list of str
        What came up while clustering.
    """

    model: Any
    measures: Measures
    summary: dict[str, Any]
    files: dict[str, str | bytes]
    notes: list[str]


def draw_seed() -> int:
    """A fresh seed: without one given, the run is still one that can be repeated."""
    return int(np.random.SeedSequence().generate_state(1)[0] % 2**31)


def cluster(
    collection: Collection,
    parameters: dict[str, Any],
    *,
    arguments: list[str],
    preset: str = "default",
    truth: NDArray[Any] | None = None,
    title: str,
    clock: Clock,
) -> Outcome:
    """Fit, measure, and make the three files.

    Parameters
    ----------
    collection : Collection
    parameters : dict
        Of `KernelSSC`; those left out are the preset's. "auto" for n_clusters reads their number off
        the spectrum of the graph.
    arguments : list of str
        The command line that repeats the run.
    preset : {"default", "best"}
    truth : ndarray, shape (n_matrices,), or None
    """
    from spdcluster import KernelSSC

    notes: list[str] = []
    if parameters["n_clusters"] == "auto":
        with clock.step("number of clusters"):
            parameters = parameters | {"n_clusters": _suggested(collection.X, parameters, preset)}
        notes.append(AUTO.format(k=parameters["n_clusters"]))
    parameters = _with_preset(preset, len(collection.X), parameters)
    model = KernelSSC(**parameters)
    with clock.step("cluster"):
        model.fit(collection.X)
    with clock.step("measure"):
        measures = measure(model, collection.X, truth)
    changed = {k: v for k, v in parameters.items() if k not in ("n_jobs", "verbose")}
    python = python_snippet(collection, changed)
    summary = summarize(collection, model, measures, preset, arguments, python, clock.seconds)
    summary["notes"] = notes = [*collection.notes, *notes]
    with clock.step("report"):
        scene = None if collection.scene is None else collection.scene(model.labels_)
        run = Run(
            title=title,
            source=collection.source,
            model=model,
            X=collection.X,
            names=collection.names,
            measures=measures,
            command=shlex.join(arguments),
            python=python,
            facts=facts(summary),
            seconds=clock.seconds["cluster"],
            notes=notes,
            thumbnail=collection.thumbnail,
            scene=scene,
        )
        html = render_report(run)
    summary["seconds"] = {k: round(v, 4) for k, v in clock.seconds.items()}
    files: dict[str, str | bytes] = {
        "labels.csv": labels_csv(collection, measures),
        "summary.json": as_json(summary),
        "report.html": html,
    }
    return Outcome(model, measures, summary, files, notes[len(collection.notes) :])


def _with_preset(preset: str, n: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """The preset's parameters, and over them those that were given."""
    if preset == "default":
        return parameters
    from spdcluster.presets import best

    return best(n, parameters["n_clusters"]) | parameters


def _suggested(X: NDArray[Any], parameters: dict[str, Any], preset: str) -> int:
    """A number of clusters, from the graph that the codes make."""
    from spdcluster import KernelSSC
    from spdcluster.graph import suggest_n_clusters

    parameters = _with_preset(preset, len(X), parameters | {"n_clusters": 2})
    model = KernelSSC(**parameters).fit(X)
    return suggest_n_clusters(
        model.affinity_,
        random_state=model.random_state,
        degree_regularization=model.degree_regularization,
    )


def write(outcome: Outcome, folder: Path, *, overwrite: bool) -> None:
    """Write the files of a job, all or none."""
    write_files(folder, outcome.files, overwrite=overwrite)


def labels_csv(collection: Collection, m: Measures) -> str:
    """One line an item: name, label, distance to its class, margin."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([collection.column, "label", "distance", "margin"])
    for row in zip(collection.names, m.labels.tolist(), m.distance.tolist(), m.margin.tolist()):
        name, label, distance, margin = row
        writer.writerow([name, label, _number(distance), _number(margin)])
    return buffer.getvalue()


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"
