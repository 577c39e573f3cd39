"""The main job: cluster a collection and write labels.csv, summary.json and report.html."""

import csv
import io
import json
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster import __version__
from spdcluster.cli.inputs import Collection
from spdcluster.cli.output import write_files
from spdcluster.report import Measures, Run, measure, render_report

RESULTS = ["labels.csv", "summary.json", "report.html"]
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyriemann")
AUTO = (
    "-k auto: the largest drop in the spectrum of the graph comes after eigenvalue {k}, so {k} clusters; "
    "that is a hint, no more: look at the report and try other numbers"
)


@dataclass
class Clock:
    """Seconds of each step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block and keep it under `name`."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


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

    with clock.step("load libraries"):
        import numba  # noqa: F401  (half a second that is no part of the method)
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
    summary = _summary(collection, model, measures, preset, arguments, python, clock)
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
            facts=_facts(summary),
            seconds=clock.seconds["cluster"],
            notes=notes,
            thumbnail=collection.thumbnail,
            scene=scene,
        )
        html = render_report(run)
    summary["seconds"] = {k: round(v, 4) for k, v in clock.seconds.items()}
    files: dict[str, str | bytes] = {
        "labels.csv": labels_csv(collection, measures),
        "summary.json": json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n",
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


def python_snippet(collection: Collection, parameters: dict[str, Any]) -> str:
    """The run as a Python program."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    return (
        f"from spdcluster import KernelSSC\n{collection.python}"
        f"model = KernelSSC({arguments}).fit(X)\n"
        "print(model.labels_, model.dual_gap_)\n"
    )


def _summary(
    collection: Collection,
    model: Any,
    m: Measures,
    preset: str,
    arguments: list[str],
    python: str,
    clock: Clock,
) -> dict[str, Any]:
    X = collection.X
    quality: dict[str, Any] = {
        "silhouette": m.silhouette,
        "normalized_cut": m.normalized_cut.tolist(),
    }
    if m.agreement is not None:
        quality |= {
            "accuracy": m.agreement.accuracy,
            "nmi": m.agreement.nmi,
            "ari": m.agreement.ari,
            "confusion": {
                "classes": m.agreement.classes,
                "clusters": m.agreement.clusters,
                "counts": m.agreement.confusion.tolist(),
            },
        }
    return {
        "command": shlex.join(arguments),
        "python": python,
        "input": {
            "source": collection.source,
            "shape": list(X.shape),
            "dtype": str(X.dtype),
        },
        "preset": preset,
        "parameters": model.get_params(),
        "gamma": model.gamma_,
        "n_clusters": m.n_clusters,
        "sizes": m.sizes.tolist(),
        "dual_gap": model.dual_gap_,
        "objective": model.objective_,
        "n_iter": model.n_iter_,
        "atoms_per_item": model.representation_.nnz / len(m.labels),
        "eigenvalues": m.eigenvalues.tolist(),
        "quality": quality,
        "seconds": clock.seconds,
        "peak_memory_bytes": peak_memory(),
        "versions": {"spdcluster": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }


def _facts(summary: dict[str, Any]) -> dict[str, dict[str, str]]:
    memory = summary["peak_memory_bytes"]
    found = {
        "width of the kernel (gamma)": _shown(summary["gamma"]),
        "objective": _shown(summary["objective"]),
        "largest duality gap": _shown(summary["dual_gap"]),
        "items in a code, on average": _shown(summary["atoms_per_item"]),
        "time to cluster": f"{summary['seconds']['cluster']:.2f} s",
        "peak memory": "unknown" if memory is None else f"{memory / 2**20:.0f} MiB",
    }
    return {
        "Found": found,
        "Parameters": {"preset": summary["preset"]}
        | {k: _shown(v) for k, v in summary["parameters"].items()},
        "Versions": summary["versions"],
    }


def peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None where it is not known."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def _plain(value: Any) -> Any:
    """Only what JSON knows: no NaN, no numpy."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
