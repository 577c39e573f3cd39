"""Pictures of the report: inline SVG that follows the page's colours, or PNG data URIs.

Text and axes drawn by matplotlib get two placeholder colours that are replaced by CSS variables, so
that one picture serves light and dark pages. PNGs are transparent where there is nothing.
"""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray
from scipy.sparse import csr_array

INK, FAINT = "#010203", "#040506"
# distinguishable on white and on black, and for most colour-blind readers
PALETTE = (
    "#4a86c5", "#e8872e", "#4fa35b", "#d9575a", "#a87bc0",
    "#3aa6a6", "#c9a227", "#a5765c", "#e07fae", "#7f8a93",
)  # fmt: skip
# of the entries of matrices: phase 0 (positive), 90, 180 (negative) and 270 degrees
PHASES = np.array([(0.22, 0.49, 0.78), (0.30, 0.64, 0.36), (0.83, 0.30, 0.27), (0.60, 0.36, 0.75)])
GREY = (0.42, 0.47, 0.52)
AFFINITY_PIXELS = 480
SCATTER_POINTS = 1000
RULED_CLUSTERS = 40  # lines between more of them would cover the picture


def cluster_colors(n_clusters: int) -> list[str]:
    """One colour a cluster."""
    from colorsys import hls_to_rgb

    colors = list(PALETTE[:n_clusters])
    for i in range(len(colors), n_clusters):
        # the golden angle keeps neighbours in number apart in hue
        hue, lightness = (0.618034 * i) % 1.0, (0.45, 0.60, 0.53)[i % 3]
        red, green, blue = (round(255 * v) for v in hls_to_rgb(hue, lightness, 0.55))
        colors.append(f"#{red:02x}{green:02x}{blue:02x}")
    return colors


def png_uri(pixels: NDArray[Any]) -> str:
    """A picture (h, w), (h, w, 3) or (h, w, 4) as a data URI; floats are in [0, 1]."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    if pixels.dtype.kind == "f":
        pixels = np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    imsave(buffer, np.ascontiguousarray(pixels), format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def img(pixels: NDArray[Any], alt: str, width: int, height: int, *, crisp: bool = False) -> Markup:
    """An ``<img>`` with its size and its alternative text."""
    style = ' class="crisp"' if crisp else ""
    return Markup('<img src="{}" alt="{}" width="{}" height="{}"{}>').format(
        png_uri(pixels), alt, width, height, Markup(style)
    )


def as_picture(image: NDArray[Any], longest: int) -> NDArray[Any]:
    """An image of any type and size as uint8, (h, w) or (h, w, 3), at most `longest` a side."""
    pixels = image.astype(np.float64)
    step = max(1, -(-max(pixels.shape[:2]) // longest))
    if step > 1:
        height, width = (step * (side // step) for side in pixels.shape[:2])
        blocks = pixels[:height, :width].reshape(
            height // step, step, width // step, step, *pixels.shape[2:]
        )
        pixels = blocks.mean(axis=(1, 3))
    if image.dtype != np.uint8:
        low, high = np.percentile(pixels, [0.5, 99.5])
        pixels = (pixels - low) / (high - low if high > low else 1.0) * 255
    return np.clip(np.round(pixels), 0, 255).astype(np.uint8)


# --------------------------------------------------------------------------------- one matrix each


def matrix_picture(X: NDArray[Any], alt: str) -> Markup:
    """One matrix (d, d): its ellipse or ellipsoid where it has one, its entries otherwise."""
    if X.ndim == 2 and not np.iscomplexobj(X):
        if X.shape == (2, 2):
            return ellipse(X, alt)
        if X.shape == (3, 3):
            return img(ellipsoid_pixels(X), alt, 88, 88)
    entries = np.atleast_2d(X)
    side = 88
    return img(heat_pixels(entries), alt, side, side, crisp=entries.shape[0] <= side)


def heat_pixels(X: NDArray[Any]) -> NDArray[np.float64]:
    """Entries as colours (h, w, 4): the hue is the sign or the phase, the opacity the size.

    Of a matrix, the entries off the diagonal are seen relative to their row's and column's diagonal
    (as correlations), so that one large variance does not hide the rest. The diagonal is grey: opaque
    for the largest variance, faint for a thousandth of it and less.
    """
    magnitude = np.abs(X)
    out = np.empty((*X.shape, 4))
    out[..., :3] = _phase_colors(X)
    if X.shape[0] == X.shape[1] and (np.diag(X).real > 0).all():
        variances = np.diag(X).real
        root = np.sqrt(variances)
        magnitude = magnitude / root[:, None] / root
        decades = np.log10(variances / variances.max())
        np.fill_diagonal(magnitude, np.maximum(1 + 0.3 * decades, 0.1))
        out[np.arange(len(X)), np.arange(len(X)), :3] = GREY
    else:
        magnitude = magnitude / max(float(magnitude.max()), np.finfo(float).tiny)
    out[..., 3] = np.clip(magnitude, 0.0, 1.0)
    return out


def _phase_colors(X: NDArray[Any]) -> NDArray[np.float64]:
    """Colours between those of the quarter turns: (..., 3)."""
    quarters = np.angle(X) / (np.pi / 2)
    below = np.floor(quarters).astype(np.int64)
    share = (quarters - below)[..., None]
    return (1 - share) * PHASES[below % 4] + share * PHASES[(below + 1) % 4]


def ellipse(X: NDArray[Any], alt: str) -> Markup:
    """The ellipse ``x^T X^-1 x = 1`` of a 2 x 2 matrix, scaled to its own size."""
    values, vectors = np.linalg.eigh(X)
    radii = 40 * np.sqrt(np.clip(values / values[-1], 0, 1))
    angle = float(np.degrees(np.arctan2(-vectors[1, 1], vectors[0, 1])))
    return Markup(
        '<svg class="glyph" role="img" aria-label="{}" width="88" height="88" viewBox="-44 -44 88 88">'
        '<ellipse rx="{:.2f}" ry="{:.2f}" transform="rotate({:.2f})"/></svg>'
    ).format(alt, radii[1], max(radii[0], 1.0), angle)


def ellipsoid_pixels(X: NDArray[Any], side: int = 88) -> NDArray[np.float64]:
    """The ellipsoid ``x^T X^-1 x = 1`` of a 3 x 3 matrix seen along z, shaded: (side, side, 4).

    Its colour is the direction of its long axis: red x, green y, blue z.
    """
    values, vectors = np.linalg.eigh(X)
    # a needle keeps a visible thickness
    values = np.clip(values / values[-1], 2e-3, 1.0)
    A = (vectors / values) @ vectors.T
    grid = np.linspace(-1.08, 1.08, side)
    x, y = np.meshgrid(grid, -grid)
    # the larger root z of the quadratic x^T A x = 1 is the side that is seen
    a, b = A[2, 2], A[0, 2] * x + A[1, 2] * y
    c = A[0, 0] * x**2 + 2 * A[0, 1] * x * y + A[1, 1] * y**2 - 1
    inside = b**2 - a * c
    z = (-b + np.sqrt(np.maximum(inside, 0))) / a
    normal = np.stack([x, y, z], axis=-1) @ A
    normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
    light = np.clip(normal @ (np.array([-0.4, 0.5, 0.77])), 0, 1)
    hue = 0.30 + 0.60 * np.abs(vectors[:, -1])
    out = np.empty((side, side, 4))
    out[..., :3] = hue * (0.45 + 0.55 * light[..., None])
    out[..., 3] = inside > 0
    return out


# ------------------------------------------------------------------------------- the whole data set


def affinity_svg(W: Any, labels: NDArray[np.int64], colors: Sequence[str]) -> Markup:
    """The affinity matrix in the order of the clusters, downsampled to some hundred pixels."""
    n = len(labels)
    side = min(n, AFFINITY_PIXELS)
    order = np.argsort(labels, kind="stable")
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n) * side // n
    W = csr_array(W)
    rows = np.repeat(np.arange(n), np.diff(W.indptr))
    cells = position[rows] * side + position[W.indices]
    weight = np.bincount(cells, weights=W.data, minlength=side * side).reshape(side, side)
    inside = np.bincount(cells, weights=labels[rows] == labels[W.indices], minlength=side * side)
    positive = weight[weight > 0]
    top = np.percentile(positive, 98) if len(positive) else 1.0
    out = np.empty((side, side, 4))
    out[...] = (0.5, 0.5, 0.5, 1.0)
    cell_label = np.zeros(side, dtype=np.int64)
    cell_label[position[order]] = labels[order]
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colors])
    own = inside.reshape(side, side) > 0
    out[..., :3] = np.where(own[..., None], rgb[cell_label][:, None, :], out[..., :3])
    out[..., 3] = np.clip((weight / top) ** 0.35, 0, 1)
    return _affinity_frame(png_uri(out), labels, colors)


def _affinity_frame(uri: str, labels: NDArray[np.int64], colors: Sequence[str]) -> Markup:
    """Cluster borders and numbers around the picture, in units of a thousandth of its side."""
    sizes = np.bincount(labels)
    ends = np.cumsum(sizes) * 1000 / len(labels)
    parts = [
        f'<image href="{uri}" x="0" y="0" width="1000" height="1000" preserveAspectRatio="none" class="crisp"/>',
        '<rect class="edge" x="0" y="0" width="1000" height="1000"/>',
    ]
    for end in ends[:-1] if len(ends) <= RULED_CLUSTERS else []:
        parts.append(f'<path class="edge" d="M{end:.1f} 0V1000M0 {end:.1f}H1000"/>')
    last_text = -100.0
    for k, (end, size) in enumerate(zip(ends, sizes)):
        height = 1000 * size / len(labels)
        parts.append(
            f'<rect x="-26" y="{end - height:.1f}" width="16" height="{height:.1f}" fill="{colors[k]}"/>'
        )
        middle = end - height / 2
        if middle - last_text > 34:
            parts.append(f'<text x="-36" y="{middle + 11:.1f}" text-anchor="end">{k}</text>')
            last_text = middle
    return Markup(
        '<svg class="frame" role="img" aria-label="Affinity matrix with the items in the order of their clusters; '
        'each cluster is a block on the diagonal." width="540" height="510" viewBox="-90 -10 1100 1020">'
        "{}</svg>"
    ).format(Markup("".join(parts)))


def spectrum_svg(eigenvalues: NDArray[np.float64], n_clusters: int) -> Markup:
    """The largest eigenvalues of the normalised affinity and the drop after the n-th."""
    figure, axes = _figure(5.4, 3.3)
    count = np.arange(1, len(eigenvalues) + 1)
    kept = count <= n_clusters
    axes.vlines(count, eigenvalues.min() - 1.0, eigenvalues, colors=FAINT, linewidth=1)
    axes.plot(count[kept], eigenvalues[kept], "o", color=PALETTE[0], markersize=7)
    axes.plot(count[~kept], eigenvalues[~kept], "o", color=PALETTE[9], markersize=6)
    if n_clusters < len(eigenvalues):
        axes.axvline(n_clusters + 0.5, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xlabel("number of the eigenvalue")
    axes.set_ylabel("eigenvalue")
    room = 0.05 * (np.ptp(eigenvalues) or 1.0)
    axes.set_ylim(eigenvalues.min() - room, eigenvalues.max() + room)
    axes.xaxis.get_major_locator().set_params(integer=True)
    listed = ", ".join(f"{v:.3f}" for v in eigenvalues[:24])
    return _svg(figure, f"Largest eigenvalues of the normalised affinity: {listed}.", "spectrum")


def map_svg(
    points: NDArray[np.float64], labels: NDArray[np.int64], colors: Sequence[str]
) -> Markup:
    """The embedding in two dimensions, (m, 2), with each cluster's number in its midst."""
    figure, axes = _figure(6.0, 4.6)
    size = 26 if len(points) < 400 else 11
    axes.scatter(
        points[:, 0], points[:, 1], c=[colors[k] for k in labels], s=size, alpha=0.75, linewidths=0,
        rasterized=True,
    )  # fmt: skip
    for k in np.unique(labels):
        members = points[labels == k]
        # on a member: the median itself may lie among another cluster's
        off = np.abs(members - np.median(members, axis=0)).sum(axis=1)
        middle = members[off.argmin()]
        # a number would hide a tight cluster: it goes beside it, towards the midst of the map
        tight = np.quantile(off, 0.8) < 0.05 * np.ptp(points, axis=0).max()
        aside = 0 if not tight else 14 if middle[0] < points[:, 0].mean() else -14
        axes.annotate(
            str(k), middle, (aside, 0), textcoords="offset points", color=INK, ha="center",
            va="center", fontsize=12, fontweight="bold",
        )  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
        spine.set_visible(True)
    alt = f"Map of {len(points)} items; items with similar codes are near each other, colours are clusters."
    return _svg(figure, alt, "map")


def plane_coordinates(
    embedding: NDArray[np.float64], labels: NDArray[np.int64], n_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.intp], str]:
    """Two coordinates for a sample of the points, which points, and how they were found."""
    sample = np.sort(np.random.default_rng(0).permutation(len(labels))[:SCATTER_POINTS])
    rows = embedding[sample]
    if n_clusters <= 3 or len(sample) < 12:
        centred = rows - rows.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        points = centred @ axes[:2].T
        if points.shape[1] < 2:
            points = np.hstack([points, np.zeros((len(points), 1))])
        return points, sample, "First two principal components of the spectral embedding"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(sample) - 1) / 3)
    method = TSNE(perplexity=perplexity, init="pca", max_iter=400, angle=0.8, random_state=0)
    # so short are its steps that threads gain little, and on a busy machine wait for each other
    with threadpool_limits(1):
        points = method.fit_transform(rows)
    return np.asarray(points), sample, "t-SNE of the spectral embedding"


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=10)
    axes.xaxis.label.set(color=INK, fontsize=11)
    axes.yaxis.label.set(color=INK, fontsize=11)
    return figure, axes


def _svg(figure: Any, alt: str, prefix: str) -> Markup:
    """The figure as inline SVG: text as text, colours from the page, ids of its own."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(buffer, format="svg", dpi=200, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    width, height = (round(float(v) * 96) for v in figure.get_size_inches())
    head = (
        f'<svg class="{prefix}" role="img" aria-label="{escape(alt)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {figure.get_figwidth() * 72:g} {figure.get_figheight() * 72:g}" '
        'xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return Markup(head + svg[svg.index(">") + 1 :])
