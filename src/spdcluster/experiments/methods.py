"""What is compared: each method with its parameters, from matrices to labels."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.experiments.elastic_net import has_spams


@dataclass(frozen=True)
class Clustering:
    """Labels, and the graph they were read from where the method has one."""

    labels: NDArray[np.int64]
    affinity: Any = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Method:
    """A row of the tables.

    Attributes
    ----------
    name : str
    descriptor : str
        Which of the experiment's sets of matrices it is given.
    estimator : str
        A class of `spdcluster`, or one of `BASELINES`.
    parameters : mapping
        Of the estimator.
    """

    name: str
    descriptor: str
    estimator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its result, given the matrices."""
        return {
            "estimator": self.estimator,
            "parameters": dict(self.parameters),
            "descriptor": self.descriptor,
        }

    def available(self) -> bool:
        """Whether it can be run here."""
        return self.lacking() is None

    def lacking(self) -> str | None:
        """Why it cannot be run here; None where it can."""
        if self.estimator == "elastic net, SPAMS" and not has_spams():
            return "the package spams is not installed"
        if self.estimator in BASELINES or _estimator_class(self.estimator) is not None:
            return None
        return "this version has no such estimator"

    def fit(
        self, X: NDArray[Any], n_clusters: int, seed: int, n_jobs: int | None = None
    ) -> Clustering:
        """Cluster matrices, shape (n_matrices, d, d)."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if self.estimator in BASELINES:
                baseline = BASELINES[self.estimator]
                done = baseline(X, n_clusters, seed, n_jobs=n_jobs, **self.parameters)
            else:
                done = self._fit_estimator(X, n_clusters, seed, n_jobs)
        said = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
        return Clustering(done.labels, done.affinity, said)

    def _fit_estimator(
        self, X: NDArray[Any], n_clusters: int, seed: int, n_jobs: int | None
    ) -> Clustering:
        parameters = dict(self.parameters)
        model = _estimator_class(self.estimator)(n_clusters, random_state=seed, **parameters)
        if "n_jobs" in model.get_params():
            model.set_params(n_jobs=n_jobs)
        model.fit(X)
        return Clustering(model.labels_, model.affinity_)


def _estimator_class(name: str) -> Any:
    try:
        return getattr(import_module("spdcluster"), name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("spdcluster."):
            raise
        return None


# ------------------------------------------------------------------------- baselines of the tables


def k_means(
    X: NDArray[Any],
    n_clusters: int,
    seed: int,
    *,
    n_jobs: int | None = None,
    logarithm: bool = False,
) -> Clustering:
    """k-means on flattened matrices, or on their log vectors."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from spdcluster.geometry import log_vectors

    vectors = log_vectors(X, n_jobs=n_jobs) if logarithm else X.reshape(len(X), -1)
    # one thread: sums in parallel would depend on how many there are in their last bits
    with threadpool_limits(1):
        model = KMeans(n_clusters, n_init=20, random_state=seed).fit(vectors)
    return Clustering(model.labels_.astype(np.int64))


def neighbour_graph(
    X: NDArray[Any], n_clusters: int, seed: int, *, n_jobs: int | None = None, n_neighbors: int = 10
) -> Clustering:
    """Normalised spectral clustering of the graph of log-Euclidean nearest neighbours.

    No more neighbours than an average cluster has other members.
    """
    from sklearn.neighbors import kneighbors_graph

    from spdcluster.geometry import log_vectors
    from spdcluster.graph import affinity, spectral_clustering

    count = max(1, min(n_neighbors, len(X) // n_clusters - 1))
    near = kneighbors_graph(log_vectors(X, n_jobs=n_jobs), count)
    W = affinity(near)
    return Clustering(spectral_clustering(W, n_clusters, random_state=seed).labels, W)


def elastic_net(
    X: NDArray[Any], n_clusters: int, seed: int, *, n_jobs: int | None = None
) -> Clustering:
    """Elastic-net subspace clustering of unit log vectors as its authors ship it."""
    from spdcluster.experiments.elastic_net import elastic_net_codes
    from spdcluster.graph import affinity, spectral_clustering

    W = affinity(elastic_net_codes(X, n_jobs), "row-normalized")
    return Clustering(spectral_clustering(W, n_clusters, random_state=seed).labels, W)


def preset(X: NDArray[Any], n_clusters: int, seed: int, *, n_jobs: int | None = None) -> Clustering:
    """`spdcluster.KernelSSC` with the parameters of `spdcluster.presets.best`."""
    from spdcluster import KernelSSC
    from spdcluster.presets import best

    model = KernelSSC(**best(len(X), n_clusters), random_state=seed, n_jobs=n_jobs).fit(X)
    return Clustering(model.labels_, model.affinity_)


BASELINES: dict[str, Callable[..., Clustering]] = {
    "k-means": k_means,
    "neighbour graph": neighbour_graph,
    "elastic net, SPAMS": elastic_net,
    "spdcluster.presets.best": preset,
}
