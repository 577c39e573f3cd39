"""The report: one self-contained HTML page, filled from a template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from spdcluster.report import pictures
from spdcluster.report.measures import Agreement, Measures

SHOWN_CLUSTERS = 24
SHOWN_EXEMPLARS = 6
SHOWN_UNCERTAIN = 12
SHOWN_CLASSES = 30
SCENE_PIXELS = 480
EXACT = 1e-12  # a relative gap below this is rounding error


@dataclass(frozen=True)
class Scene:
    """A picture whose regions were clustered.

    Attributes
    ----------
    image : ndarray, shape (h, w) or (h, w, 3)
    painted : ndarray of int, shape (h, w)
        Cluster of every pixel, -1 where there is none.
    truth : ndarray of int, shape (h, w), or None
        Known class of every pixel, as an index into the sorted class names.
    caption : str
        What the painted picture shows.
    """

    image: NDArray[Any]
    painted: NDArray[np.int64]
    truth: NDArray[np.int64] | None = None
    caption: str = "Its clusters"


@dataclass(frozen=True)
class Run:
    """What the report is about.

    Attributes
    ----------
    title : str
    source : str
        What was clustered, in words.
    model : fitted estimator
    X : ndarray, shape (n_matrices, d, d)
    names : sequence of str, one for each matrix
    measures : Measures
    command, python : str
        How to repeat the run.
    facts : dict
        Parameters, versions, times: shown as tables, group by group.
    seconds : float
        Of the fit.
    notes : list of str
        What the reader of the input had to say.
    thumbnail : callable or None
        The image of item i, where the input was images.
    scene : Scene or None
    """

    title: str
    source: str
    model: Any
    X: NDArray[Any]
    names: Sequence[str]
    measures: Measures
    command: str
    python: str
    facts: dict[str, dict[str, str]]
    seconds: float
    notes: list[str] = field(default_factory=list)
    thumbnail: Callable[[int], NDArray[Any]] | None = None
    scene: Scene | None = None


def render_report(run: Run) -> str:
    """The page as HTML."""
    from jinja2 import Environment, StrictUndefined

    home = files("spdcluster.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((home / "report.html.jinja").read_text("utf-8"))
    m = run.measures
    colors = pictures.cluster_colors(m.n_clusters)
    points, sample, how = pictures.plane_coordinates(run.model.embedding_, m.labels, m.n_clusters)
    one_point = np.ptp(points, axis=0).max() < 1e-9
    return template.render(
        run=run,
        m=m,
        n=len(m.labels),
        items=in_words(run.X).replace(" x ", " × "),
        count_of=count_of,
        style=Markup((home / "report.css").read_text("utf-8")),
        colors=colors,
        tiles=_tiles(run),
        clusters=_clusters(run),
        hidden_clusters=max(0, m.n_clusters - SHOWN_CLUSTERS),
        scene=None if run.scene is None else _scene(run.scene, colors, m.agreement),
        map=None if one_point else pictures.map_svg(points, m.labels[sample], colors),
        map_method=how,
        map_size=len(sample),
        affinity=pictures.affinity_svg(run.model.affinity_, m.labels, colors),
        spectrum=pictures.spectrum_svg(m.eigenvalues, m.n_clusters),
        spectrum_words=spectrum_in_words(m),
        uncertain=_uncertain(run),
        doubts=int(np.sum(m.margin < 0)),
        certificate=certificate_in_words(run.model),
        confusion=_confusion(m.agreement),
        silhouette_words=_silhouette_in_words(m.silhouette),
    )


def in_words(X: NDArray[Any]) -> str:
    """How many of what: "1,849 matrices of 5 x 5"."""
    n, *shape = X.shape
    kind = ("vector", "vectors") if X.ndim == 2 else ("matrix", "matrices")
    field = "complex " if np.iscomplexobj(X) else ""
    return f"{n:,} {field}{kind[n != 1]} of {' x '.join(map(str, shape))}"


def count_of(n: int, singular: str) -> str:
    """A number with its noun: "1 cluster", "1,849 items"."""
    return f"{n:,} {singular}{'' if n == 1 else 's'}"


def certificate_in_words(model: Any) -> str:
    """How good the codes are proved to be, for somebody who has never met a duality gap."""
    gap = getattr(model, "dual_gap_", None)
    if gap is None:
        return (
            "This method gives no certificate of how close its codes are to the best possible ones."
        )
    gap = float(gap)
    if gap < EXACT:
        proof = "they are the best possible ones, exact to the last digits that the computer keeps"
    elif gap < 1e-3:
        proof = f"no other mixes could do better by more than one part in {_round_words(1 / gap)}"
    else:
        return (
            "Each item was rebuilt as a mix of a few others, but the search stopped early: better "
            f"mixes may exist, by up to {100 * gap:.2g} % for at least one item. "
            "Raise max_iter or tighten tol to be sure."
        )
    return (
        "Each item was rebuilt as a mix of a few others, and a mathematical bound that anybody can "
        f"recompute proves for the mixes found here that {proof}."
    )


def _round_words(number: float) -> str:
    number = float(f"{number:.2g}")  # 1 / 1e-9 is a little below a billion
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.0f} {word}"
    return f"{number:,.0f}"


def spectrum_in_words(m: Measures) -> str:
    """What the spectrum says about the number of clusters."""
    k, suggested = m.n_clusters, m.suggested_n_clusters
    ones = int(np.sum(m.eigenvalues > 1 - 1e-9))
    words = f"The largest drop comes after eigenvalue {suggested}"
    if suggested == k:
        words += f", which agrees with the number of clusters, {k}."
    elif suggested == 1:
        words += (
            ": all items hang together, and the spectrum says nothing clear about the number of "
            "clusters."
        )
    else:
        words += (
            f": seen this way the data fall into {suggested} groups rather than {k}. "
            "The drop is a hint, no more; other numbers of clusters can be just as meaningful."
        )
    if ones > k:
        words += (
            f" {ones} eigenvalues equal 1: the graph falls into {ones} separate pieces, more than "
            f"there are clusters, so that some clusters hold several pieces that nothing connects."
        )
    elif ones > 1:
        words += f" {ones} eigenvalues equal 1: the graph falls into {ones} separate pieces."
    return words


def _tiles(run: Run) -> list[tuple[str, str]]:
    m = run.measures
    counts = (count_of(len(m.labels), "item"), count_of(m.n_clusters, "cluster"))
    tiles = [(number, noun) for number, noun in map(str.split, counts)]
    if m.agreement is not None:
        tiles += [
            (f"{100 * m.agreement.accuracy:.1f} %", "accuracy"),
            (f"{100 * m.agreement.nmi:.1f} %", "NMI"),
        ]
    elif m.silhouette is not None:
        tiles.append((f"{m.silhouette:.2f}", "silhouette"))
    gap = getattr(run.model, "dual_gap_", None)
    if gap is not None:
        proved = gap < EXACT
        tiles.append(
            ("exact", "codes, proved") if proved else (f"{gap:.0e}", "proved gap of the codes")
        )
    tiles.append((f"{run.seconds:.1f} s", "to cluster"))
    return tiles


def _clusters(run: Run) -> list[dict[str, Any]]:
    m = run.measures
    largest = np.argsort(-m.sizes, kind="stable")[:SHOWN_CLUSTERS]
    rows = []
    for k in sorted(largest.tolist()):
        members = np.flatnonzero(m.labels == k)
        best = members[np.argsort(-m.usage[members], kind="stable")][:SHOWN_EXEMPLARS]
        rows.append(
            {
                "number": k,
                "size": int(m.sizes[k]),
                "share": float(m.sizes[k] / m.sizes.max()),
                "percent": 100 * float(m.sizes[k]) / len(m.labels),
                "cut": 100 * float(m.normalized_cut[k]),
                "mostly": _mostly(m.agreement, k),
                "exemplars": [_item(run, int(i), f"exemplar of cluster {k}") for i in best],
            }
        )
    return rows


def _mostly(agreement: Agreement | None, k: int) -> str:
    """The class that most members of cluster k have, and how many do."""
    if agreement is None:
        return ""
    counts = agreement.confusion[:, agreement.clusters.index(k)]
    share = 100 * counts.max() / counts.sum()
    return f"{share:.0f}\N{NO-BREAK SPACE}% in class {agreement.classes[counts.argmax()]}"


def _uncertain(run: Run) -> list[dict[str, Any]]:
    m = run.measures
    if m.n_clusters < 2 or np.isnan(m.margin).all():
        return []
    rows = []
    for i in np.argsort(m.margin, kind="stable")[:SHOWN_UNCERTAIN].tolist():
        item = _item(run, i, f"cluster {m.labels[i]}, nearly {m.runner_up[i]}")
        item |= {"label": int(m.labels[i]), "next": int(m.runner_up[i]), "margin": m.margin[i]}
        rows.append(item)
    return rows


def _item(run: Run, i: int, what: str) -> dict[str, Any]:
    name = run.names[i]
    alt = f"{name}, {what}"
    if run.thumbnail is not None:
        pixels = pictures.as_picture(run.thumbnail(i), 96)
        height, width = pixels.shape[:2]
        scale = 88 / max(height, width)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        picture = pictures.img(pixels, alt, *size, crisp=max(height, width) < 88)
    else:
        picture = pictures.matrix_picture(run.X[i], alt)
    return {"name": name, "picture": picture}


def _scene(scene: Scene, colors: Sequence[str], agreement: Agreement | None) -> dict[str, Markup]:
    image = pictures.as_picture(scene.image, SCENE_PIXELS)
    height, width = image.shape[:2]
    size = (round(440 * width / max(height, width)), round(440 * height / max(height, width)))
    out = {"image": pictures.img(image, "The picture that was segmented", *size)}
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colors], dtype=np.uint8)

    def painted(labels: NDArray[np.int64]) -> NDArray[np.uint8]:
        rows = np.arange(height) * labels.shape[0] // height
        columns = np.arange(width) * labels.shape[1] // width
        small = labels[np.ix_(rows, columns)]
        opaque = np.where(small >= 0, 255, 0).astype(np.uint8)
        return np.dstack([rgb[np.clip(small, 0, len(rgb) - 1)], opaque])

    out["labels"] = pictures.img(
        painted(scene.painted), "The same picture, each pixel in the colour of its cluster", *size
    )
    if scene.truth is not None and agreement is not None:
        # a class has the colour of its cluster, or none where clusters are too few
        matched = [*agreement.clusters, *[-1] * len(agreement.classes)]
        truth = np.array(matched)[scene.truth]
        out["truth"] = pictures.img(painted(truth), "The known classes of the pixels", *size)
    return out


def _confusion(agreement: Agreement | None) -> Agreement | None:
    if agreement is None or len(agreement.classes) > SHOWN_CLASSES:
        return None
    return agreement if len(agreement.clusters) <= SHOWN_CLASSES else None


def _silhouette_in_words(silhouette: float | None) -> str:
    if silhouette is None:
        return "defined for two clusters or more, not all of a single item"
    words = (
        (0.7, "clearly apart"),
        (0.5, "mostly apart"),
        (0.25, "partly overlapping"),
        (-1.0, "hardly apart"),
    )
    said = next(word for limit, word in words if silhouette >= limit)
    return f"clusters in the embedding are {said}"
