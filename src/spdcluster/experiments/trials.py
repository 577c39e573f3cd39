"""Every method on every draw: scores kept as they come, progress shown, a stopped run resumed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

from spdcluster import __version__
from spdcluster.experiments.draws import Draw
from spdcluster.experiments.journal import Journal
from spdcluster.experiments.methods import Method
from spdcluster.metrics import clustering_accuracy


@dataclass(frozen=True)
class Trial:
    """One method on one draw; scores in per cent."""

    protocol: str
    n_classes: int
    trial: int
    method: str
    n_points: int
    accuracy: float
    nmi: float
    seconds: float
    warnings: list[str]


def run_trials(
    draws: Sequence[Draw],
    methods: Sequence[Method],
    matrices: Mapping[str, NDArray[Any]],
    labels: NDArray[np.int64],
    *,
    journal: Journal,
    origin: Mapping[str, Any],
    n_jobs: int | None = None,
    quiet: bool = False,
    title: str = "",
) -> list[Trial]:
    """Fit what the journal does not have yet.

    Parameters
    ----------
    draws : sequence of Draw
    methods : sequence of Method
    matrices : mapping from the methods' descriptor names to arrays (n_points, d, d)
    labels : ndarray, shape (n_points,)
    journal : Journal
    origin : mapping
        What the matrices were made from: descriptor name -> anything that JSON can write.
    n_jobs, quiet, title
        Of the estimators and the progress bar.

    Returns
    -------
    list of Trial
        Draw by draw, in the order of the methods.
    """
    from tqdm import tqdm

    done = []
    pairs = [(draw, method) for draw in draws for method in methods]
    with tqdm(pairs, desc=title, unit="fit", disable=quiet) as progress:
        for draw, method in progress:
            progress.set_postfix_str(f"{method.name}, {draw.n_classes} classes", refresh=False)
            settings = _settings(draw, method, origin)
            result = journal.get(settings)
            if result is None:
                X = matrices[method.descriptor][draw.members]
                result = _score(method, X, labels[draw.members], draw, n_jobs)
                journal.add(settings, result)
            place = (draw.protocol, draw.n_classes, draw.trial, method.name, len(draw.members))
            done.append(Trial(*place, **result))
    return done


def _settings(draw: Draw, method: Method, origin: Mapping[str, Any]) -> dict[str, Any]:
    drawn = {**asdict(draw), "members": draw.members.tolist()}
    return {
        "version": __version__,
        "draw": drawn,
        "method": method.settings,
        "matrices": origin[method.descriptor],
    }


def _score(
    method: Method, X: NDArray[Any], truth: NDArray[np.int64], draw: Draw, n_jobs: int | None
) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        found = method.fit(X, draw.n_classes, draw.seed, n_jobs)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{method.name} failed on {len(X)} matrices of {draw.n_classes} classes "
            f"(trial {draw.trial}): {error}"
        ) from error
    return {
        "accuracy": 100 * clustering_accuracy(truth, found.labels),
        "nmi": 100 * float(normalized_mutual_info_score(truth, found.labels)),
        "seconds": time.perf_counter() - start,
        "warnings": found.warnings,
    }
