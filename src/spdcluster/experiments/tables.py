"""From trials to the tables: means and standard deviations, CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from spdcluster.experiments.trials import Trial

SCORES = ("accuracy", "nmi")


def summarise(
    trials: Sequence[Trial], protocol: str, n_classes: Sequence[int], methods: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Scores of one protocol: score -> method -> mean, std (over trials) and the mean over columns.

    Returns
    -------
    dict
        ``summary["accuracy"]["KSSCR"] = {"mean": [...], "std": [...], "average": float}``, one
        entry a number of classes.
    """
    summary: dict[str, dict[str, dict[str, Any]]] = {}
    for score in SCORES:
        rows = {}
        for method in methods:
            cells = [
                [
                    getattr(t, score)
                    for t in trials
                    if (t.protocol, t.method, t.n_classes) == (protocol, method, k)
                ]
                for k in n_classes
            ]
            means = [float(np.mean(c)) for c in cells]
            rows[method] = {
                "mean": means,
                "std": [float(np.std(c)) for c in cells],
                "average": float(np.mean(means)),
            }
        summary[score] = rows
    return summary


def paired_differences(
    trials: Sequence[Trial], protocol: str, ours: str, methods: Sequence[str]
) -> dict[str, dict[str, float]]:
    """How far `ours` is ahead of each method on the same draws: mean and its standard error."""
    by_method: dict[str, dict[tuple[int, int], Trial]] = {}
    for t in trials:
        if t.protocol == protocol:
            by_method.setdefault(t.method, {})[(t.n_classes, t.trial)] = t
    differences = {}
    for method in methods:
        if method == ours:
            continue
        gains = {
            score: [
                getattr(mine, score) - getattr(by_method[method][draw], score)
                for draw, mine in by_method[ours].items()
            ]
            for score in SCORES
        }
        entry: dict[str, float] = {}
        for score, values in gains.items():
            entry[score] = float(np.mean(values))
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            entry[f"{score}_standard_error"] = spread / len(values) ** 0.5
        differences[method] = entry
    return differences


def trials_csv(trials: Iterable[Trial]) -> str:
    """All trials, one a line; times are elsewhere, so that the same seed gives the same file."""
    head = ("protocol", "n_classes", "trial", "method", "n_points", "accuracy", "nmi")
    rows = [[getattr(t, name) for name in head] for t in trials]
    return _csv(head, rows)


def timings_csv(trials: Sequence[Trial], methods: Sequence[str]) -> str:
    """Mean seconds of a fit, by method and size."""
    head = ("method", "protocol", "n_classes", "mean_points", "mean_seconds", "n_trials")
    groups: dict[tuple[str, str, int], list[Trial]] = {}
    for t in trials:
        groups.setdefault((t.method, t.protocol, t.n_classes), []).append(t)
    order = sorted(groups, key=lambda g: (methods.index(g[0]), g[1], g[2]))
    rows = [
        [
            *group,
            round(float(np.mean([t.n_points for t in groups[group]])), 1),
            round(float(np.mean([t.seconds for t in groups[group]])), 4),
            len(groups[group]),
        ]
        for group in order
    ]
    return _csv(head, rows)


def summary_csv(
    summary: dict[str, dict[str, dict[str, Any]]], score: str, n_classes: Sequence[int]
) -> str:
    """One table: a line a method, mean and standard deviation of each column, the average."""
    head = ["method", *(f"{k} {what}" for k in n_classes for what in ("mean", "std")), "average"]
    rows = [
        [
            method,
            *(f"{v:.2f}" for pair in zip(row["mean"], row["std"]) for v in pair),
            f"{row['average']:.2f}",
        ]
        for method, row in summary[score].items()
    ]
    return _csv(head, rows)


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
