"""One experiment from its parts: run the trials, then write results, tables, pictures and the page."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster import __version__
from spdcluster.arguments import check_choice, check_int
from spdcluster.experiments.draws import Draw
from spdcluster.experiments.journal import Journal, write_file
from spdcluster.experiments.methods import Method
from spdcluster.experiments.page import Picture, Table, render
from spdcluster.experiments.tables import (
    paired_differences,
    summarise,
    summary_csv,
    timings_csv,
    trials_csv,
)
from spdcluster.experiments.trials import Trial, run_trials

PRESETS = ("paper", "best")


@dataclass(frozen=True)
class Protocol:
    """A family of draws and how its tables are called."""

    name: str
    title: str
    n_classes: tuple[int, ...]
    draws: list[Draw]
    methods: list[Method]


@dataclass
class Study:
    """An experiment in progress.

    Attributes
    ----------
    experiment : str
        "brodatz" or "feret".
    options : dict
        preset, trials, seed, as given.
    labels : ndarray, shape (n_points,)
    matrices : dict of ndarray, each (n_points, d, d)
        By descriptor name.
    descriptors : dict
        What the matrices were made with.
    data : dict
        What was read, with its hash.
    protocols : list of Protocol
    notes : list of str
        What the reader of the tables has to know.
    """

    experiment: str
    options: dict[str, Any]
    labels: NDArray[np.int64]
    matrices: dict[str, NDArray[Any]]
    descriptors: dict[str, dict[str, Any]]
    data: dict[str, Any]
    protocols: list[Protocol]
    notes: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def run(self, out: Path, n_jobs: int | None, quiet: bool) -> None:
        """Fit every method on every draw; what `out` already has is not fitted again."""
        journal = Journal(out / "trials.jsonl")
        origin = {
            name: {"descriptor": settings, "data": self.data["sha256"]}
            for name, settings in self.descriptors.items()
        }
        for protocol in self.protocols:
            self.trials += run_trials(
                protocol.draws,
                protocol.methods,
                self.matrices,
                self.labels,
                journal=journal,
                origin=origin,
                n_jobs=n_jobs,
                quiet=quiet,
                title=f"{self.experiment}, {protocol.title}",
            )

    def summary(self, protocol: Protocol) -> dict[str, dict[str, dict[str, Any]]]:
        """Means and standard deviations of a protocol's tables."""
        names = [m.name for m in protocol.methods]
        return summarise(self.trials, protocol.name, protocol.n_classes, names)

    def results(self, ours: str) -> dict[str, Any]:
        """The content of results.json: the same for the same data, seed and version."""
        methods = {m.name: m for p in self.protocols for m in p.methods}
        protocols = {}
        for p in self.protocols:
            names = [m.name for m in p.methods]
            protocols[p.name] = {
                "title": p.title,
                "n_classes": list(p.n_classes),
                "n_trials": self.options["trials"],
                **self.summary(p),
            }
            if ours in names:
                ahead = paired_differences(self.trials, p.name, ours, names)
                protocols[p.name][f"{ours} minus"] = ahead
        return {
            "spdcluster": __version__,
            "experiment": self.experiment,
            **self.options,
            "data": self.data,
            "descriptors": self.descriptors,
            "methods": {name: m.settings for name, m in methods.items()},
            "notes": self.notes,
            "protocols": protocols,
        }

    def write_tables(self, out: Path) -> None:
        """trials.csv, timings.csv and a CSV a table."""
        methods = list(dict.fromkeys(m.name for p in self.protocols for m in p.methods))
        write_file(out / "trials.csv", trials_csv(self.trials))
        write_file(out / "timings.csv", timings_csv(self.trials, methods))
        for p in self.protocols:
            summary = self.summary(p)
            for score in summary:
                write_file(out / f"{p.name}_{score}.csv", summary_csv(summary, score, p.n_classes))


def write_results(
    study: Study,
    out: Path,
    results: dict[str, Any],
    tables: Sequence[Table],
    pictures: Mapping[str, Picture],
    title: str,
) -> dict[str, Any]:
    """results.json, tables, pictures and report.html; returns what results.json holds."""
    study.write_tables(out)
    for name, picture in pictures.items():
        write_file(out / f"{name}.png", picture.png)
    write_file(out / "report.html", render(title, results, tables, list(pictures.values())))
    text = json.dumps(results, indent=1)
    write_file(out / "results.json", text + "\n")
    return dict(json.loads(text))


def check_options(preset: str, trials: int, seed: int) -> dict[str, Any]:
    """The options that decide the numbers, checked."""
    check_choice(preset, "preset", PRESETS)
    return {
        "preset": preset,
        "trials": check_int(trials, "trials", low=1),
        "seed": check_int(seed, "seed", low=0),
    }


def check_class_counts(
    wanted: Sequence[int] | None, default: Sequence[int], available: int
) -> tuple[int, ...]:
    """Numbers of classes to draw: the wanted ones, or those of the default that this data has."""
    if wanted is None:
        possible = tuple(k for k in default if k <= available)
        if not possible:
            raise ValueError(
                f"the data has {available} classes; the experiment needs at least {min(default)}"
            )
        return possible
    if not wanted:
        raise ValueError("n_classes must name at least one number of classes; got none")
    return tuple(check_int(k, "n_classes", low=2, high=available) for k in wanted)


def choose_methods(
    methods: Sequence[Method], wanted: Sequence[str] | None
) -> tuple[list[Method], list[str]]:
    """The wanted methods that can be run here, and a note for each one that cannot."""
    names = [m.name for m in methods]
    for name in wanted or ():
        check_choice(name, "methods", names)
    chosen = [m for m in methods if wanted is None or m.name in wanted]
    notes = [f"{m.name} is left out: {m.lacking()}." for m in chosen if not m.available()]
    return [m for m in chosen if m.available()], notes


def affinities(study: Study, draw: Draw, methods: Sequence[Method]) -> dict[str, Any]:
    """The graph of each method that has one, on one draw, points in the order of their classes."""
    order = np.argsort(study.labels[draw.members], kind="stable")
    graphs = {}
    for method in methods:
        X = study.matrices[method.descriptor][draw.members[order]]
        graph = method.fit(X, draw.n_classes, draw.seed).affinity
        if graph is not None:
            graphs[method.name] = graph
    return graphs


def digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the arrays' types, shapes and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def command_line(experiment: str, options: Mapping[str, Any]) -> str:
    """The command that makes these numbers."""
    words = ["spdcluster", "reproduce", experiment, "--data", "DATA"]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    return shlex.join(words)
