"""The one page with tables and pictures, self-contained."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A line of a table: "mean ± std" for each column and the average."""

    method: str
    cells: list[str]
    kind: str = "ours"
    best: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """A table of the page; the paper's rows stand beside ours."""

    title: str
    columns: list[str]
    rows: list[Row]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of the page."""

    png: bytes
    caption: str

    @property
    def source(self) -> str:
        """As a data URL."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


def score_table(
    title: str,
    n_classes: Sequence[int],
    rows: Mapping[str, Mapping[str, Any]],
    paper: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    note: str = "",
) -> Table:
    """Our means and standard deviations, each method followed by the paper's numbers for it.

    Parameters
    ----------
    rows : mapping from methods to {"mean", "std", "average"}, as `tables.summarise` returns
    paper : mapping from methods to (mean, std) a column
    """
    columns = [str(k) for k in n_classes] + ["average"]
    top = [max(row["mean"][j] for row in rows.values()) for j in range(len(n_classes))]
    top.append(max(row["average"] for row in rows.values()))
    lines = []
    for method, row in rows.items():
        values = [*row["mean"], row["average"]]
        cells = [_cell(m, s) for m, s in zip(row["mean"], row["std"])] + [f"{row['average']:.2f}"]
        best = [round(v, 2) == round(t, 2) for v, t in zip(values, top)]
        lines.append(Row(method, cells, "ours", best))
        if paper is not None and method in paper:
            published = paper[method]
            mean = sum(m for m, _ in published) / len(published)
            cells = [_cell(m, s) for m, s in published] + [f"{mean:.2f}"]
            lines.append(Row("in the paper", cells, "paper", [False] * len(cells)))
    return Table(title, columns, lines, note)


def render(
    title: str, results: Mapping[str, Any], tables: Sequence[Table], pictures: Sequence[Picture]
) -> str:
    """The page as HTML."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("spdcluster.experiments", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html.jinja")
    return template.render(title=title, results=results, tables=tables, pictures=pictures)


def _cell(mean: float, std: float) -> str:
    return f"{mean:.2f} ± {std:.2f}"
