"""What is told about a clustering: distances to classes, quality, spectrum; numbers only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

SILHOUETTE_SAMPLE = 2000
EXTRA_EIGENVALUES = 8


@dataclass(frozen=True)
class Agreement:
    """How far the clusters are the known classes.

    Attributes
    ----------
    accuracy, nmi, ari : float
    classes : list of str
    clusters : list of int
        Ordered so that matched pairs stand on the diagonal.
    confusion : ndarray of int, shape (n_classes, n_clusters)
    """

    accuracy: float
    nmi: float
    ari: float
    classes: list[str]
    clusters: list[int]
    confusion: NDArray[np.int64]


@dataclass(frozen=True)
class Measures:
    """Everything that the report, `labels.csv` and `summary.json` say about a fitted model.

    Attributes
    ----------
    labels : ndarray of int, shape (N,)
    sizes : ndarray of int, shape (K,)
    distance : ndarray, shape (N,)
        Of each point to what its own cluster's members contribute to its code, in feature space;
        NaN where the method has no kernel.
    margin : ndarray, shape (N,)
        By how much the next cluster explains the point worse; negative where it does better.
    runner_up : ndarray of int, shape (N,)
        That next cluster.
    usage : ndarray, shape (N,)
        How much the point's own cluster leans on it: sum of its affinities within.
    normalized_cut : ndarray, shape (K,)
        Share of each cluster's affinity that leads out of it.
    silhouette : float or None
        In the spectral embedding; None where it is undefined.
    eigenvalues : ndarray
        Largest ones of the normalised affinity, descending, some more than there are clusters.
    agreement : Agreement or None
    """

    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    distance: NDArray[np.float64]
    margin: NDArray[np.float64]
    runner_up: NDArray[np.int64]
    usage: NDArray[np.float64]
    normalized_cut: NDArray[np.float64]
    silhouette: float | None
    eigenvalues: NDArray[np.float64]
    agreement: Agreement | None

    @property
    def n_clusters(self) -> int:
        return len(self.sizes)

    @property
    def suggested_n_clusters(self) -> int:
        """Where the spectrum has its largest drop."""
        from spdcluster.graph import largest_drop

        return largest_drop(self.eigenvalues)


def measure(model: Any, X: NDArray[Any], truth: ArrayLike | None = None) -> Measures:
    """Measure a fitted estimator on the data it was fitted to.

    Parameters
    ----------
    model : fitted estimator with labels_, affinity_, representation_, embedding_
    X : ndarray, shape (n_matrices, d, d)
    truth : array-like of labels, shape (n_matrices,), or None
    """
    labels = np.asarray(model.labels_, dtype=np.int64)
    sizes = np.bincount(labels)
    # blocks of a few dozen rows: threads would only wait for each other
    with threadpool_limits(1, user_api="blas"):
        residuals = class_residuals_of_codes(model, X, labels, len(sizes))
    distance, margin, runner_up = distances_and_margins(residuals, labels)
    usage, cut = usage_and_cut(model.affinity_, labels, len(sizes))
    return Measures(
        labels=labels,
        sizes=sizes,
        distance=distance,
        margin=margin,
        runner_up=runner_up,
        usage=usage,
        normalized_cut=cut,
        silhouette=_silhouette(model.embedding_, labels),
        eigenvalues=_eigenvalues(model, len(sizes)),
        agreement=None if truth is None else agreement(np.asarray(truth), labels),
    )


def class_residuals_of_codes(
    model: Any, X: NDArray[Any], labels: NDArray[np.int64], n_classes: int
) -> NDArray[np.float64]:
    """``|phi_i - sum_{j in class} c_ij phi_j|^2`` for every point and class: shape (N, K).

    Computed from the codes alone, on the few atoms of each. NaN for methods without a kernel.
    """
    n = len(labels)
    if not hasattr(model, "kernel_"):
        return np.full((n, n_classes), np.nan)
    gram = model.kernel_.bind(X)
    own = gram.diagonal()
    residuals = np.repeat(own[:, None], n_classes, axis=1)
    codes = csr_array(model.representation_)
    for i in range(n):
        part = slice(codes.indptr[i], codes.indptr[i + 1])
        atoms, c = codes.indices[part], codes.data[part]
        if len(atoms) == 0:
            continue
        # one block holds the atoms' values with each other and, in its last row, with the point
        block = gram.block(np.append(atoms, i), atoms)
        shares = np.zeros((len(atoms), n_classes))
        shares[np.arange(len(atoms)), labels[atoms]] = c
        residuals[i] += ((block[:-1] @ shares) * shares).sum(axis=0) - 2 * block[-1] @ shares
    return np.maximum(residuals, 0.0)


def distances_and_margins(
    residuals: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Distance to the own class, how much farther the next one is, and which: (N,) each."""
    everyone = np.arange(len(labels))
    roots = np.sqrt(residuals)
    distance = roots[everyone, labels]
    others = roots.copy()
    others[everyone, labels] = np.inf
    runner_up = others.argmin(axis=1)
    margin = others[everyone, runner_up] - distance
    return distance, np.where(np.isinf(margin), np.nan, margin), runner_up


def usage_and_cut(
    W: Any, labels: NDArray[np.int64], n_classes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Affinity of each point to its own cluster (N,), and the normalised cut of each cluster (K,)."""
    W = csr_array(W)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    inside = labels[rows] == labels[W.indices]
    usage = np.bincount(rows, weights=W.data * inside, minlength=W.shape[0])
    volume = np.bincount(labels[rows], weights=W.data, minlength=n_classes)
    leaving = np.bincount(labels[rows], weights=W.data * ~inside, minlength=n_classes)
    cut = np.divide(leaving, volume, out=np.zeros(n_classes), where=volume > 0)
    return usage, cut


def agreement(truth: NDArray[Any], labels: NDArray[np.int64]) -> Agreement:
    """Accuracy, NMI, ARI and the confusion matrix."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from spdcluster.metrics import clustering_accuracy

    names, codes = np.unique(truth, return_inverse=True)
    n_clusters = int(labels.max()) + 1
    table = np.bincount(codes * n_clusters + labels, minlength=len(names) * n_clusters)
    table = table.reshape(len(names), n_clusters)
    _, matched = linear_sum_assignment(table, maximize=True)
    clusters = [*matched.tolist(), *np.setdiff1d(np.arange(n_clusters), matched).tolist()]
    return Agreement(
        accuracy=clustering_accuracy(truth, labels),
        nmi=float(normalized_mutual_info_score(truth, labels)),
        ari=float(adjusted_rand_score(truth, labels)),
        classes=[str(name) for name in names],
        clusters=clusters,
        confusion=table[:, clusters],
    )


def _silhouette(embedding: NDArray[np.float64], labels: NDArray[np.int64]) -> float | None:
    from sklearn.metrics import silhouette_score

    sample = np.random.default_rng(0).permutation(len(labels))[:SILHOUETTE_SAMPLE]
    if not 1 < len(np.unique(labels[sample])) < len(sample):
        return None
    return float(silhouette_score(embedding[sample], labels[sample]))


def _eigenvalues(model: Any, n_clusters: int) -> NDArray[np.float64]:
    from spdcluster.graph import spectral_embedding

    n = model.affinity_.shape[0]
    wanted = min(n, n_clusters + EXTRA_EIGENVALUES)
    known = np.asarray(model.eigenvalues_)
    if len(known) >= wanted:
        return known
    regularization = getattr(model, "degree_regularization", 0.0)
    _, values = spectral_embedding(
        model.affinity_, wanted, random_state=0, degree_regularization=regularization
    )
    return values
