"""`spdcluster bench solver`: the self-expression step against the least work it needs and its rivals.

Each solution runs in a fresh process, all on the same number of threads as everything it is compared
with. The floor is numpy's time to evaluate every value of the kernel once (`solver_floor`), in float64
and in float32, measured just before. Rivals (`solver_rivals`) get the Gram matrix for nothing and are
stopped at a relative error of the objective of 1e-6.

Seconds are the best of up to 20 solutions where these take less than 10 s together; kernel values are
computed within them. Memory is the peak of the process above what it held before the solution, with the
vectors and all code loaded.
"""

import csv
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_int, check_n_jobs, check_real
from spdcluster.bench.solver_cases import (
    FACES,
    HOSTILE,
    TEXTURES,
    WINDOWS,
    Case,
    faces,
    hostile_cases,
    texture_blocks,
    texture_images,
    texture_windows,
)
from spdcluster.bench.solver_child import Measurement, measure
from spdcluster.bench.solver_floor import kernel_floor
from spdcluster.bench.solver_rivals import RIVALS, Problem, Timing, time_admm, time_rival

OURS = "spdcluster"
SIZES = (3000, 6500, 13_000, 26_000, 51_984, 204_304)
MADE_UP_SIZES = (3000, 6500, 13_000)
QUICK_SIZES = (1000, 2000, 3000)
ADMM_LIMIT = 900.0  # seconds a rho
LARGE = 13_000  # from here on the growth says something
FIELDS = (
    "case", "n", "method", "seconds", "floor64", "floor32", "ratio_to_floor", "ratio_to_floor32",
    "times_slower_than_ours", "times_easy", "peak_mb", "gap", "nnz_per_row", "note",
)  # fmt: skip
Row = dict[str, Any]
logger = logging.getLogger(__name__)


def run(
    data: Path | None = None,
    out: Path | None = None,
    *,
    quick: bool = False,
    quiet: bool = False,
    sizes: Sequence[int] | None = None,
    n_blocks: int | None = None,
    n_faces: int | None = None,
    n_hostile: int | None = None,
    rivals: Sequence[str] | None = None,
    seconds: float | None = None,
    limit: float = 3600.0,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Measure, and return the table.

    Parameters
    ----------
    data : Path or None
        Folder with ``brodatz16`` and, if the faces are wanted, ``feret_b_40x40.npz``; None for
        made-up textures and matrices.
    out : Path or None
        Folder for ``solver.csv``, which grows row by row, so that a stopped run leaves what it found.
    quick : bool
        At most 3000 points, about a minute.
    quiet : bool
        No progress bar.
    sizes : sequence of int or None
        Numbers of texture windows; up to 51,984 a random subset of those at stride 4, above at
        stride 2. None: 3000 to 204,304; 3000 to 13,000 without data.
    n_blocks, n_faces, n_hostile : int or None
        Points of the other cases; None: 1024, 1400 (350 without data), 10,000.
    rivals : sequence of str or None
        Some of "ADMM", "scikit-learn", "celer", "skglm", "SPAMS"; None: all.
    seconds : float or None
        For repetitions of a solution, and for all rows of a rival before they are sampled; None: 10.
    limit : float
        Seconds after which a solution, or (at most 900) a rho of ADMM, is given up.
    n_jobs : int or None
        Threads, of ours and of all it is compared with.
    random_state : int

    Returns
    -------
    dict
        ``rows``: a measurement each; ``seconds`` None where there is no result, and ``note`` says
        why. ``gap`` is the largest duality gap of a row relative to its objective, by the solver and
        by `spdcluster.expression.certify`; for rivals the relative error of the summed objective.
        ``times_easy``: seconds over those of the easy case of as many points.
        ``growth``: exponents of time and memory in the number of windows, by least squares.
        ``targets``: what was hoped for at these sizes, and whether it is so; empty without data.
    """
    sizes = tuple(sizes or (QUICK_SIZES if quick else SIZES if data else MADE_UP_SIZES))
    for size in sizes:
        check_int(size, "sizes", low=10)
    usual = (512, 210, 1000) if quick else (1024, 1400 if data else 350, 10_000)
    given = (n_blocks, n_faces, n_hostile)
    counts = [check_int(n or u, "n", low=10) for n, u in zip(given, usual)]
    spend = check_real(seconds or (2.0 if quick else 10.0), "seconds", low=0.0)
    bench = _Bench(out, check_n_jobs(n_jobs), spend, limit, quiet)
    rng = np.random.default_rng(random_state)
    try:
        return _measure_all(bench, data, sizes, counts, _choose(rivals), rng)
    finally:
        bench.close()


def _measure_all(
    bench: "_Bench",
    data: Path | None,
    sizes: Sequence[int],
    counts: Sequence[int],
    rivals: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    images = texture_images(data, rng)
    blocks = texture_blocks(images, counts[0], rng)
    bench.expect(len(sizes) + 3 + len(rivals) + ("ADMM" in rivals))
    bench.rivals(blocks, bench.ours(blocks), rivals)
    face = faces(data, counts[1], rng)
    if face is not None:
        bench.rivals(face, bench.ours(face), [name for name in rivals if name == "ADMM"])
    bench.hostile(texture_windows(images, counts[2], rng))
    for size in sorted(sizes):  # the longest last
        bench.ours(texture_windows(images, size, rng))
    return {
        "benchmark": "solver",
        "data": "made-up" if data is None else "16 Brodatz textures, FERET faces",
        "n_threads": bench.n_jobs,
        "rows": bench.rows,
        "growth": growth(bench.rows),
        "targets": [] if data is None else targets(bench.rows),
    }


class _Bench:
    """The rows so far, where they go, and how they are measured."""

    def __init__(
        self, out: Path | None, n_jobs: int, seconds: float, limit: float, quiet: bool
    ) -> None:
        from tqdm import tqdm

        from spdcluster.experiments.journal import prepare_folder

        self.folder = None if out is None else prepare_folder(out)
        self.n_jobs, self.seconds, self.limit = n_jobs, seconds, limit
        self.rows: list[Row] = []
        self.bar = tqdm(desc="solver", unit="case", disable=quiet)

    def close(self) -> None:
        """Leave the progress bar as it is."""
        self.bar.close()

    def expect(self, n_steps: int) -> None:
        """Tell the progress bar how many there will be."""
        self.bar.total = n_steps
        self.bar.refresh()

    def ours(self, case: Case, *, name: str | None = None) -> Row:
        """Measure the solver on a case beside its floor, and add a row."""
        self.bar.set_postfix_str(f"{case.name}, n={case.n}")
        vectors = case.gram().vectors
        double = kernel_floor(vectors, np.float64, self.n_jobs)
        single = kernel_floor(vectors, np.float32, self.n_jobs)
        timed = min(double.share, single.share)
        floor_note = "" if timed == 1 else f"floor from {timed:.0%} of the rows, scaled"
        (found,) = measure([case], self.n_jobs, self.seconds, self.limit)
        row = _row(name or case.name, case.n, OURS, floor64=double.seconds, floor32=single.seconds)
        row |= _of_measurement(found, [case.note, floor_note])
        if row["seconds"] is not None:
            row["ratio_to_floor"] = row["seconds"] / double.seconds
            row["ratio_to_floor32"] = row["seconds"] / single.seconds
        return self._add(row)

    def rivals(self, case: Case, ours: Row, names: Sequence[str]) -> None:
        """Time rivals on the case that made the row `ours`, and add a row for each."""
        if names and ours["seconds"] is not None:
            problem = _exact(case, self.n_jobs)
            for name in names:
                self.bar.set_postfix_str(f"{case.name}, {name}")
                timing = (
                    time_admm(problem, min(self.limit, ADMM_LIMIT))
                    if name == "ADMM"
                    else time_rival(name, problem, self.seconds)
                )
                self._add(_of_rival(case, name, timing, ours))

    def hostile(self, easy: Case) -> None:
        """Measure the hostile cases in one process, each beside the easy case of its size."""
        base = self.ours(easy, name=f"{HOSTILE}: none, the easy case")
        cases = hostile_cases(easy)
        self.bar.set_postfix_str(f"{HOSTILE}, n={easy.n}")
        for case, found in zip(cases, measure(cases, self.n_jobs, self.seconds / 4, self.limit)):
            row = _row(case.name, case.n, OURS) | _of_measurement(found, [case.note])
            if row["seconds"] is not None and base["seconds"] is not None:
                row["times_easy"] = row["seconds"] / base["seconds"]
            self._add(row, step=case is cases[-1])

    def _add(self, row: Row, *, step: bool = True) -> Row:
        logger.info("%s", {key: value for key, value in row.items() if value is not None})
        self.rows.append(row)
        if self.folder is not None:
            from spdcluster.experiments.journal import write_file

            text = io.StringIO()
            writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
            write_file(self.folder / "solver.csv", text.getvalue())
        if step:
            self.bar.update()
        return row


def growth(rows: Sequence[Row]) -> dict[str, Any]:
    """Exponents of seconds and memory in the number of points, over the rows of texture windows."""
    ours = [row for row in rows if row["case"] == WINDOWS and row["method"] == OURS]
    result: dict[str, Any] = {"case": WINDOWS, "sizes": [row["n"] for row in ours]}
    for field in ("seconds", "peak_mb"):
        pairs = [(row["n"], row[field]) for row in ours if row[field]]
        if len({n for n, _ in pairs}) < 2:
            result[field] = None
            continue
        n, values = np.log(np.array(pairs, dtype=float)).T
        result[field] = float(np.polyfit(n, values, 1)[0])
    return result


def targets(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What was hoped for at the sizes that were measured: its value, its limit, whether it is met."""
    wanted = [
        (TEXTURES, 1024, "ratio_to_floor", 3.0),
        (TEXTURES, 1024, "gap", 1e-9),
        (WINDOWS, 51_984, "ratio_to_floor32", 2.5),
        (WINDOWS, 51_984, "peak_mb", 1024.0),
        (WINDOWS, 204_304, "ratio_to_floor32", 2.5),
        (WINDOWS, 204_304, "peak_mb", 2048.0),
    ]
    found = []
    for case, n, field, limit in wanted:
        for row in rows:
            if (row["case"], row["n"], row["method"]) == (case, n, OURS):
                found.append(_target(f"{case}, N={n}: {field}", row[field], limit))
    faster = {(TEXTURES, 1024, "ADMM"): 1500.0, (FACES, 1400, "ADMM"): 300.0}
    faster |= {(TEXTURES, 1024, name): 20.0 for name in RIVALS}
    for row in rows:
        key = (row["case"], row["n"], row["method"])
        if key in faster:
            what = f"{row['case']}, N={row['n']}: times faster than {row['method']}"
            found.append(_target(what, row["times_slower_than_ours"], faster[key], low=True))
        if row["times_easy"] is not None:
            found.append(_target(f"{row['case']}, N={row['n']}: times easy", row["times_easy"], 10))
    exponents = growth(rows)
    if max(exponents["sizes"], default=0) >= LARGE:
        for field, limit in (("seconds", 2.0), ("peak_mb", 1.1)):
            found.append(_target(f"{WINDOWS}: growth of {field}", exponents[field], limit))
    return [target for target in found if target["value"] is not None]


def _target(what: str, value: float | None, limit: float, *, low: bool = False) -> dict[str, Any]:
    met = value is not None and (value >= limit if low else value <= limit)
    return {"target": what, "value": value, "at_least" if low else "at_most": limit, "met": met}


def _choose(rivals: Sequence[str] | None) -> list[str]:
    known = ["ADMM", *RIVALS]
    for name in rivals or ():
        if name not in known:
            raise ValueError(f"rivals must be some of {', '.join(known)}; got {name!r}")
    return [name for name in known if rivals is None or name in rivals]


def _exact(case: Case, n_jobs: int) -> Problem:
    """The problem with its exact objective, evaluated by code that is not the solver's."""
    from spdcluster.expression import certify, self_expression

    gram = case.gram()
    expression = self_expression(gram, alpha=case.alpha, n_jobs=n_jobs)
    exact: NDArray[np.float64] = certify(gram, expression.coef, case.alpha).objective
    most = int(np.diff(expression.coef.indptr).max())
    return Problem(gram.dense(n_jobs), case.alpha, exact, n_jobs, most)


def _row(case: str, n: int, method: str, **values: Any) -> Row:
    return dict.fromkeys(FIELDS) | {"case": case, "n": n, "method": method, "note": ""} | values


def _of_measurement(found: Measurement, notes: Sequence[str]) -> Row:
    if found.failure:
        return {"note": "; ".join(note for note in (*notes, found.failure) if note)}
    proof = f"certified by a second pass: {found.certified_rows} rows"
    best = f"best of {found.n_repetitions}"
    return {
        "seconds": found.seconds,
        "peak_mb": found.peak_mb,
        "gap": max(found.gap or 0.0, found.certified_gap or 0.0),
        "nnz_per_row": found.nnz_per_row,
        "note": "; ".join(note for note in (*notes, best, proof) if note),
    }


def _of_rival(case: Case, name: str, timing: Timing, ours: Row) -> Row:
    row = _row(case.name, case.n, name, floor64=ours["floor64"], floor32=ours["floor32"])
    row["gap"] = None if timing.error is None else max(timing.error, 0.0)
    row |= {"nnz_per_row": timing.nnz_per_row, "note": timing.note}
    if timing.seconds is not None:
        row["seconds"] = timing.seconds
        row["ratio_to_floor"] = timing.seconds / ours["floor64"]
        row["ratio_to_floor32"] = timing.seconds / ours["floor32"]
        row["times_slower_than_ours"] = timing.seconds / ours["seconds"]
    return row
