"""The figures, as PNG bytes."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#000000")
MARKERS = "osD^vPX*"


def sample_images(
    images: Sequence[NDArray[Any]], names: Sequence[str], n_columns: int = 8
) -> bytes:
    """Images in rows, each with its name."""
    n_rows = -(-len(images) // n_columns)
    figure = _figure(1.3 * n_columns, 1.5 * n_rows)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, image, name in zip(axes, images, names):
        axis.imshow(image, cmap="gray")
        axis.set_title(name, fontsize=9)
    return _png(figure)


def affinity_pictures(graphs: Mapping[str, Any], sizes: Sequence[int]) -> bytes:
    """Affinity matrices side by side, points in the order of their classes (the paper's figure 3).

    Parameters
    ----------
    graphs : mapping from method names to sparse (n, n)
    sizes : sequence of int
        Of the classes, in order.
    """
    n_columns = min(4, len(graphs))
    n_rows = -(-len(graphs) // n_columns)
    figure = _figure(3.2 * n_columns, 3.4 * n_rows)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    edges = np.cumsum(sizes)[:-1] - 0.5
    for axis in axes:
        axis.set_axis_off()
    for axis, (name, graph) in zip(axes, graphs.items()):
        axis.set_axis_on()
        weights = np.asarray(graph.todense() if hasattr(graph, "todense") else graph)
        # Blocks of 2 x 2 keep their largest weight: single pixels would be lost on paper.
        shown = _largest_of_blocks(weights, max(1, len(weights) // 256))
        positive = weights[weights > 0]
        top = np.quantile(positive, 0.9) if positive.size else 1.0
        axis.imshow(
            shown, cmap="gray_r", vmin=0, vmax=top, extent=(0, len(weights), len(weights), 0)
        )
        for edge in edges:
            axis.axhline(edge, color=COLOURS[1], lw=0.4)
            axis.axvline(edge, color=COLOURS[1], lw=0.4)
        axis.set_title(name, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    return _png(figure)


def curves(
    summary: Mapping[str, Mapping[str, Mapping[str, Any]]],
    n_classes: Sequence[int],
    x_label: str,
    reference: Mapping[str, Sequence[float]] | None = None,
) -> bytes:
    """Accuracy and NMI over the number of classes; `reference` is dashed."""
    figure = _figure(11, 4.2)
    for axis, score, title in zip(figure.subplots(1, 2), ("accuracy", "nmi"), ("Accuracy", "NMI")):
        for i, (method, row) in enumerate(summary[score].items()):
            axis.plot(
                n_classes,
                row["mean"],
                color=COLOURS[i % len(COLOURS)],
                marker=MARKERS[i % len(MARKERS)],
                ls="-" if i < len(COLOURS) else ":",
                ms=4,
                lw=1.3,
                label=method,
            )
        if reference is not None:
            axis.plot(n_classes, reference[score], "k--", lw=1.3, label="KSSCR in the paper")
        axis.set_xlabel(x_label)
        axis.set_ylabel(f"{title} (%)")
        axis.set_xticks(list(n_classes))
        axis.grid(alpha=0.3)
    figure.axes[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return _png(figure)


def gamma_sweep(gammas: Sequence[float], accuracy: Sequence[float], nmi: Sequence[float]) -> bytes:
    """Scores over the kernel width (the paper's last figure)."""
    figure = _figure(6, 4)
    axis = figure.subplots()
    axis.semilogx(gammas, accuracy, marker="o", color=COLOURS[0], label="accuracy")
    axis.semilogx(gammas, nmi, marker="s", color=COLOURS[1], label="NMI")
    axis.axvline(2e-3, color="0.5", ls="--", lw=1, label="best in the paper")
    axis.set_xlabel("gamma")
    axis.set_ylabel("%")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return _png(figure)


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _png(figure: Any) -> bytes:
    stream = io.BytesIO()
    # Without the version of matplotlib in the file, the same numbers give the same bytes.
    figure.savefig(stream, format="png", dpi=130, metadata={"Software": None})
    return stream.getvalue()


def _largest_of_blocks(weights: NDArray[Any], block: int) -> NDArray[Any]:
    n = -(-len(weights) // block) * block
    padded = np.zeros((n, n))
    padded[: len(weights), : len(weights)] = weights
    return np.asarray(padded.reshape(n // block, block, n // block, block).max(axis=(1, 3)))
