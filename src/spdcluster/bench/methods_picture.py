"""The picture of `spdcluster bench methods`: a coloured table a score, because twenty curves cannot be told apart."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PANELS = (("accuracy", "Accuracy (%)"), ("nmi", "NMI (%)"), ("seconds", "Seconds a fit"))


def picture(
    values: Mapping[str, NDArray[np.float64]], methods: Sequence[str], counts: Sequence[int]
) -> bytes:
    """Methods in rows, the best mean accuracy first; numbers of classes in columns.

    Parameters
    ----------
    values : mapping
        "accuracy", "nmi" and "seconds", each (n_methods, n_counts).
    methods : sequence of str
    counts : sequence of int

    Returns
    -------
    bytes
        PNG.
    """
    from matplotlib.figure import Figure

    order = np.argsort(-values["accuracy"].mean(axis=1), kind="stable")
    width = 2.6 + len(PANELS) * (0.6 + 0.55 * (len(counts) + 1))
    figure = Figure(figsize=(width, 1.2 + 0.27 * len(methods)), layout="constrained")
    for axis, (score, title) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS):
        table = values[score][order]
        if score != "seconds":
            table = np.column_stack([table, table.mean(axis=1)])
        _panel(axis, table, score)
        names = [str(k) for k in counts] + ["mean"] * (table.shape[1] - len(counts))
        axis.set_xticks(range(table.shape[1]), names, fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("number of classes", fontsize=8)
    figure.axes[0].set_yticks(range(len(methods)), [methods[i] for i in order], fontsize=8)
    stream = io.BytesIO()
    # without the version of matplotlib in the file, the same numbers give the same bytes
    figure.savefig(stream, format="png", dpi=130, metadata={"Software": None})
    return stream.getvalue()


def _panel(axis: Any, table: NDArray[np.float64], score: str) -> None:
    """Cells coloured from bad (dark) to good (bright), each with its number; times by their logarithm."""
    shade = -np.log(table) if score == "seconds" else table
    low, high = float(shade.min()), float(shade.max())
    axis.imshow(shade, cmap="viridis", vmin=low, vmax=high, aspect="auto")
    for i, j in np.ndindex(*table.shape):
        is_dark = shade[i, j] < low + 0.6 * (high - low)
        text = f"{table[i, j]:.2g}" if score == "seconds" else f"{table[i, j]:.1f}"
        axis.text(
            j, i, text, ha="center", va="center", fontsize=7, color="white" if is_dark else "black"
        )
    if score != "seconds":
        axis.axvline(table.shape[1] - 1.5, color="white", lw=2)
    axis.tick_params(length=0)
