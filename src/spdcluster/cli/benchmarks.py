"""`spdcluster bench`: run one, print its table, write bench.json."""

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from spdcluster.cli.output import check_folder, write_files


def run_benchmark(
    name: str,
    run: Callable[..., dict[str, Any]],
    data: Path | None,
    out: Path,
    *,
    quick: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Run a benchmark; it returns a dict whose "rows" (list of dict) are the table."""
    check_folder(out, ["bench.json"], overwrite=overwrite)
    # what a benchmark is quiet about are its progress bars
    no_bars = quiet or not sys.stderr.isatty()
    offered = {"data": data, "out": out, "quick": quick, "quiet": no_bars}
    # a benchmark without a quick version, say, has no such argument
    wanted = inspect.signature(run).parameters
    result = run(**{key: value for key, value in offered.items() if key in wanted})
    text = json.dumps(result, indent=2, default=str) + "\n"
    write_files(out, {"bench.json": text}, overwrite=overwrite)
    if not quiet:
        typer.echo(table(result.get("rows", [])))
        typer.echo(f"wrote {out / 'bench.json'}")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of equal or different keys as aligned text."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns] + [[_cell(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.3g}"
