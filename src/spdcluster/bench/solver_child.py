"""The solver in a process of its own: seconds, memory above what was there before, and a certificate.

``python -m spdcluster.bench.solver_child JOBS RESULTS`` reads a list of jobs (JSON) and writes a line
of JSON for each as soon as it is done.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from spdcluster.bench.solver_cases import Case

CERTIFIED_ALL, CERTIFIED_ROWS = 3000, 512
WARM_UP = 200
MB = 2.0**20


@dataclass(frozen=True)
class Measurement:
    """What a child found; `seconds` is the best of `n_repetitions`, infinite if it did not end."""

    seconds: float
    n_repetitions: int = 0
    peak_mb: float | None = None
    gap: float | None = None
    certified_gap: float | None = None
    certified_rows: int = 0
    nnz_per_row: float | None = None
    failure: str = ""


def measure(cases: Sequence[Case], n_jobs: int, seconds: float, limit: float) -> list[Measurement]:
    """Solve each case in one fresh process.

    Parameters
    ----------
    cases : sequence of Case
    n_jobs : int
    seconds : float
        A solution is repeated, up to 20 times, until so many seconds are spent.
    limit : float
        Seconds after which the process is ended; cases that are not done then count as failed.
    """
    with tempfile.TemporaryDirectory(prefix="spdcluster-bench-") as folder:
        jobs, results = Path(folder) / "jobs.json", Path(folder) / "results.jsonl"
        listed = []
        for i, case in enumerate(cases):
            path = Path(folder) / f"vectors{i}.npy"
            np.save(path, case.vectors)
            listed.append(
                {
                    "name": case.name,
                    "path": str(path),
                    "gamma": case.gamma,
                    "alpha": case.alpha,
                    "n_jobs": n_jobs,
                    "seconds": seconds,
                }
            )
        jobs.write_text(json.dumps(listed))
        command = [sys.executable, "-m", __name__, str(jobs), str(results)]
        failure = ""
        try:
            done = subprocess.run(command, timeout=limit, capture_output=True, text=True)
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
                failure = f"failed: {lines[-1]}"
        except subprocess.TimeoutExpired:
            failure = f"not done within {limit:g} s"
        lines = results.read_text().splitlines() if results.exists() else []
    found = [Measurement(**json.loads(line)) for line in lines]
    missing = len(cases) - len(found)
    return found + missing * [Measurement(float("inf"), failure=failure)]


def solve_job(job: dict[str, Any]) -> Measurement:
    """Solve one case of this process's list."""
    from spdcluster.expression import certify, self_expression

    case = Case(job["name"], np.load(job["path"]), job["gamma"], job["alpha"])
    solve = partial(self_expression, alpha=case.alpha, n_jobs=job["n_jobs"])
    few = Case(case.name, case.vectors[:WARM_UP], case.gamma, case.alpha).gram()
    # load the machine code of both ways, with the Gram matrix in memory and without it
    solve(few)
    solve(few, memory_budget=1.0)
    gram = case.gram()
    before = restart_peak()
    times: list[float] = []
    while not times or (len(times) < 20 and sum(times) + times[-1] < job["seconds"]):
        start = perf_counter()
        expression = solve(gram)
        times.append(perf_counter() - start)
    above = peak_mb() - before
    rows = np.arange(gram.n)
    if gram.n > CERTIFIED_ALL:
        rows = np.sort(np.random.default_rng(0).choice(gram.n, CERTIFIED_ROWS, replace=False))
    certificate = certify(gram, expression.coef, expression.alpha, rows=rows)
    return Measurement(
        seconds=min(times),
        n_repetitions=len(times),
        peak_mb=above,
        gap=float(expression.gap.max()),
        certified_gap=float(certificate.relative_gap.max()),
        certified_rows=len(rows),
        nnz_per_row=expression.coef.nnz / gram.n,
    )


def restart_peak() -> float:
    """Let the peak begin anew where the system can do that; return the memory in use now, in MB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return peak_mb()
    return _status("VmRSS") or peak_mb()


def peak_mb() -> float:
    """The largest resident memory of this process so far, in MB.

    On Linux not from `getrusage`, whose peak begins with that of the process that started this one.
    """
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    import resource

    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB


def _status(field: str) -> float | None:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) / 1024
    return None


def main(jobs: str, results: str) -> None:
    """Do the jobs in turn."""
    with Path(results).open("w") as file:
        for job in json.loads(Path(jobs).read_text()):
            file.write(json.dumps(asdict(solve_job(job))) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
