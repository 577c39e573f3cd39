"""From self-expression to labels: the affinity graph and its normalised spectral clustering."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from spdcluster.arguments import check_choice, check_int, check_real

# Below this size LAPACK on the dense matrix takes a fraction of a second and nothing is surer.
_DENSE_MAX = 1000
# Graphs of low-rank codes are nearly full: up to this size LAPACK beats products with all entries.
_FULL_MAX = 4000
# Residual |S u - lambda u| at which an eigenpair counts as converged (the spectrum is in [-1, 1]).
_RESIDUAL_TOL = 1e-8
# Rows of the embedding that agree to this many decimals are one point for k-means: what they
# differ by is rounding, and must not decide on labels.
_DECIMALS = 6


@dataclass(frozen=True)
class SpectralResult:
    """Labels and the embedding they were read from.

    Attributes
    ----------
    labels : ndarray of shape (n_matrices,), int64
        Clusters, numbered in the order in which they first appear.
    embedding : ndarray of shape (n_matrices, n_components)
        Rows of unit norm; zero for points outside all components that got an eigenvector.
    eigenvalues : ndarray of shape (n_components,)
        Eigenvalues of the normalised affinity that were used, in descending order.
    """

    labels: NDArray[np.int64]
    embedding: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]


def affinity(coef: Any, mode: str = "symmetric") -> sp.csr_array:
    """Affinity graph ``W = (|C| + |C|^T) / 2`` of a self-expression matrix.

    Parameters
    ----------
    coef : sparse or dense array of shape (n_matrices, n_matrices)
        Row ``i`` codes matrix ``i``. The diagonal is ignored: it relates no two matrices.
    mode : {"symmetric", "row-normalized"}
        "row-normalized" divides each row of ``|C|`` by its Euclidean norm first (rows of zeros
        stay zero), so that every matrix spends the same weight on its neighbours.

    Returns
    -------
    csr_array of shape (n_matrices, n_matrices), float64
        Exactly symmetric and non-negative, with zero diagonal and no stored zeros.
    """
    mode = check_choice(mode, "affinity", ("symmetric", "row-normalized"))
    magnitude = _square_csr(coef, "coef")
    magnitude.data = np.abs(magnitude.data)
    magnitude = _without_diagonal(magnitude)
    if mode == "row-normalized":
        _normalize_rows(magnitude)
    # Halved before the sum, which would overflow for weights near the largest double.
    magnitude.data *= 0.5
    W = (magnitude + magnitude.T).tocsr()
    W.eliminate_zeros()
    W.sort_indices()
    return W


def spectral_embedding(
    W: Any,
    n_components: int,
    *,
    random_state: int | RandomState | None = None,
    weight_power: float = 0.0,
    degree_regularization: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of leading eigenvectors of the normalised affinity, scaled to unit norm.

    The eigenvectors are those of the largest eigenvalues of ``D^-1/2 W D^-1/2`` with ``D`` the
    degrees. Connected components are solved one by one, because a Krylov method on the whole may
    miss copies of the eigenvalue 1, of which every component has one.

    Parameters
    ----------
    W : sparse or dense array of shape (n_matrices, n_matrices)
        Symmetric and non-negative affinity, as :func:`affinity` returns it, at any scale. The
        diagonal is ignored. Weights below 1e-300 of the largest may count as zero.
    n_components : int
        Number of eigenvectors ``m``. Where there are more components than that, the ``m``
        components with the most points get one each (ties: the one with the earliest point).
    random_state : int, RandomState or None
        Seeds the start of the eigensolver for large graphs.
    weight_power : float
        Each eigenvector is multiplied by its eigenvalue to this power before rows are scaled;
        negative eigenvalues then count as zero. At 0 all weigh the same, as in [1]_.
    degree_regularization : float
        This many times the mean degree is added to every degree, which keeps small, loosely
        attached groups from claiming an eigenvector each [2]_.

    Returns
    -------
    embedding : ndarray of shape (n_matrices, n_components)
        Points outside every component that got an eigenvector have a row of zeros; isolated
        points always do.
    eigenvalues : ndarray of shape (n_components,)
        In descending order.

    References
    ----------
    .. [1] A. Ng, M. Jordan, Y. Weiss, "On Spectral Clustering: Analysis and an Algorithm",
       NIPS 2001.
    .. [2] T. Qin, K. Rohe, "Regularized Spectral Clustering under the Degree-Corrected
       Stochastic Blockmodel", NIPS 2013.
    """
    graph = _check_graph(W)
    m = check_int(n_components, "n_components", low=1, high=graph.shape[0])
    power = check_real(weight_power, "weight_power", low=0.0)
    regularization = check_real(degree_regularization, "degree_regularization", low=0.0)
    rng = check_random_state(random_state)
    # Sums in BLAS depend on the number of threads in their last bits: one thread, one answer.
    with threadpool_limits(limits=1):
        values, vectors = _leading_eigenpairs(graph, m, regularization, rng)
    if power > 0:
        vectors *= np.maximum(values, 0.0) ** power
    return _unit_rows(vectors), values


def spectral_clustering(
    W: Any,
    n_clusters: int,
    *,
    n_init: int = 20,
    random_state: int | RandomState | None = None,
    n_components: int | None = None,
    weight_power: float = 0.0,
    degree_regularization: float = 0.0,
) -> SpectralResult:
    """Normalised spectral clustering: k-means on the rows of :func:`spectral_embedding`.

    A point whose row is zero lies in a component that got no eigenvector (isolated points are
    such components), so the graph does not say where it belongs. Those components, largest
    first, take the labels that k-means left unused, one each; the rest join the largest cluster.
    With ``n_clusters`` equal to the number of points, each is its own cluster.

    Parameters
    ----------
    W : sparse or dense array of shape (n_matrices, n_matrices)
        Symmetric and non-negative affinity, at any scale.
    n_clusters : int
        Number of clusters ``k``. Fewer are found only where the embedding has fewer distinct
        rows, as with fewer eigenvectors than clusters.
    n_init : int
        Restarts of k-means; the lowest inertia wins.
    random_state : int, RandomState or None
        Same seed, same labels, whatever the number of threads.
    n_components : int or None
        Number of eigenvectors; None for ``n_clusters``.
    weight_power, degree_regularization : float
        See :func:`spectral_embedding`.

    Returns
    -------
    SpectralResult
        Labels, embedding and eigenvalues.
    """
    graph = _check_graph(W)
    n_points = graph.shape[0]
    k = check_int(n_clusters, "n_clusters", low=1, high=n_points)
    restarts = check_int(n_init, "n_init", low=1)
    rng = check_random_state(random_state)
    embedding, values = spectral_embedding(
        graph,
        k if n_components is None else n_components,
        random_state=rng,
        weight_power=weight_power,
        degree_regularization=degree_regularization,
    )
    if k == n_points:
        labels = np.arange(k, dtype=np.int64)
    else:
        placed = embedding.any(axis=1)
        labels = np.full(n_points, -1, dtype=np.int64)
        labels[placed] = _kmeans_labels(embedding[placed], k, restarts, rng)
        _place_the_rest(labels, graph, k)
        labels = _by_first_appearance(labels)
    return SpectralResult(labels, embedding, values)


def suggest_n_clusters(
    W: Any,
    *,
    most: int = 30,
    random_state: int | RandomState | None = None,
    degree_regularization: float = 0.0,
) -> int:
    """A number of clusters, from the spectrum of the graph: a hint, no more.

    It is the place of the largest drop between neighbours among the leading eigenvalues of the
    normalised affinity, the eigengap of [1]_. Groups within groups have several drops of about the
    same size, and the largest says little then.

    Parameters
    ----------
    W : sparse or dense array of shape (n_matrices, n_matrices)
        Symmetric and non-negative affinity.
    most : int
        The largest number that may be suggested; the smallest is 2.
    random_state, degree_regularization
        See :func:`spectral_embedding`.

    References
    ----------
    .. [1] U. von Luxburg, "A Tutorial on Spectral Clustering", Statistics and Computing 2007.
    """
    most = check_int(most, "most", low=2)
    n = W.shape[0] if hasattr(W, "shape") else len(W)
    _, eigenvalues = spectral_embedding(
        W,
        min(most + 1, n),
        random_state=random_state,
        degree_regularization=degree_regularization,
    )
    return largest_drop(eigenvalues, least=2)


def largest_drop(eigenvalues: NDArray[np.float64], least: int = 1) -> int:
    """How many of the descending eigenvalues stand before their largest drop; at least `least`."""
    drops = eigenvalues[least - 1 : -1] - eigenvalues[least:]
    return least + int(np.argmax(drops)) if len(drops) else min(least, len(eigenvalues))


# ------------------------------------------------------------------------------------ the graph


def _square_csr(matrix: Any, name: str) -> sp.csr_array:
    """A float64 CSR copy of a square, finite, real matrix, or one clear error."""
    if not sp.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of real numbers; got dtype {matrix.dtype}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, (n_matrices, n_matrices); got {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row; got shape {matrix.shape}")
    csr = sp.csr_array(matrix, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(csr.data))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        where = f"{name}[{row}, {csr.indices[bad[0]]}] = {csr.data[bad[0]]}"
        raise ValueError(f"{name} must be finite; {bad.size} entries are not, the first {where}")
    return csr


def _check_graph(W: Any) -> sp.csr_array:
    """`W` without its diagonal and scaled by a power of two (exactly) to a largest weight near 1."""
    graph = _without_diagonal(_square_csr(W, "W"))
    if graph.nnz == 0:
        return graph
    if graph.data.min() < 0:
        raise ValueError(
            f"W must be non-negative; its smallest entry is {graph.data.min():.3g}. "
            "Build it with affinity(coef)"
        )
    graph.data = np.ldexp(graph.data, -int(np.frexp(graph.data.max())[1]))
    graph.eliminate_zeros()
    skew = abs(graph - graph.T).max()
    if skew > 1e-10:
        raise ValueError(
            f"W must be symmetric; |W - W^T| reaches {skew:.3g} of its largest entry. "
            "Build it with affinity(coef), or pass (W + W.T) / 2"
        )
    return graph


def _without_diagonal(csr: sp.csr_array) -> sp.csr_array:
    rows = _row_of_entry(csr)
    csr.data[rows == csr.indices] = 0.0
    csr.eliminate_zeros()
    return csr


def _row_of_entry(csr: sp.csr_array) -> NDArray[np.intp]:
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))


def _normalize_rows(magnitude: sp.csr_array) -> None:
    """Divide each row by its Euclidean norm, in place; squares neither over- nor underflow."""
    rows = _row_of_entry(magnitude)
    largest = magnitude.max(axis=1).toarray().ravel()
    magnitude.data /= largest[rows]
    norms = np.sqrt(np.bincount(rows, weights=magnitude.data**2, minlength=len(largest)))
    magnitude.data /= norms[rows]


# ------------------------------------------------------------------------------ the eigenvectors


def _leading_eigenpairs(
    graph: sp.csr_array, m: int, regularization: float, rng: RandomState
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The m largest eigenvalues of the normalised graph and their vectors, (m,) and (N, m).

    The spectrum is the union of those of the connected components. Isolated points add zeros,
    whose eigenvectors are given as zero columns: they would say nothing about any other point.
    """
    order, bounds = _components_largest_first(graph)
    graph = graph[order][:, order]
    degrees = np.asarray(graph.sum(axis=1), dtype=np.float64)
    sizes = np.diff(bounds)
    n_connected = int(np.sum(sizes > 1))
    normalized = _normalize(graph, degrees + regularization * degrees.mean())
    chosen, wanted = _component_shares(degrees, bounds[: n_connected + 1], m, regularization)

    values, owners, blocks = [np.zeros(min(m, len(sizes) - n_connected))], [], []
    for c in chosen:
        part = slice(bounds[c], bounds[c + 1])
        if wanted == 1 and regularization == 0:
            # The eigenvector of the eigenvalue 1 of a connected graph is known.
            top, block = np.ones(1), np.sqrt(degrees[part] / degrees[part].sum())[:, None]
        else:
            top, block = _component_eigenpairs(normalized[part, part], wanted, rng)
        values.append(top)
        blocks.append(block)
        owners += [(part, block, j) for j in range(len(top))]
    # Components first, so that a stable sort prefers them to the zeros of isolated points.
    everything = np.concatenate([*values[1:], values[0]])
    leading = np.argsort(-everything, kind="stable")[:m]
    vectors = np.zeros((graph.shape[0], m))
    for column, index in enumerate(leading):
        if index < len(owners):
            part, block, j = owners[index]
            vectors[part, column] = _with_sign(block[:, j])
    unsorted = np.empty_like(vectors)
    unsorted[order] = vectors
    return everything[leading], unsorted


def _components_largest_first(graph: sp.csr_array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Points ordered by component, and where each component starts; ties by earliest point."""
    count, component = connected_components(graph, directed=False)
    sizes = np.bincount(component, minlength=count)
    _, first = np.unique(component, return_index=True)
    by_size = np.lexsort((first, -sizes))
    rank = np.empty(count, dtype=np.intp)
    rank[by_size] = np.arange(count)
    order = np.argsort(rank[component], kind="stable")
    return order, np.concatenate([[0], np.cumsum(sizes[by_size])])


def _component_shares(
    degrees: NDArray[np.float64], bounds: NDArray[np.intp], m: int, regularization: float
) -> tuple[NDArray[np.intp], int]:
    """Components that can own one of the m leading eigenpairs, and how many each may own."""
    count = len(bounds) - 1
    if regularization == 0:
        # Every component owns the eigenvalue 1 once, so the others leave it this many.
        return np.arange(min(count, m)), max(1, m - count + 1)
    # The largest eigenvalue of a component lies between its Rayleigh quotient at (D + t)^1/2 1
    # and its largest row sum in (D + t)^-1 W: those below m lower bounds are out.
    shift = regularization * degrees.mean()
    total = np.add.reduceat(degrees, bounds[:-1]) if count else np.zeros(0)
    lower = total / (total + shift * np.diff(bounds))
    peak = np.maximum.reduceat(degrees, bounds[:-1]) if count else np.zeros(0)
    upper = peak / (peak + shift)
    threshold = np.partition(lower, count - m)[count - m] if count > m else 0.0
    return np.flatnonzero(upper >= threshold * (1 - 1e-12)), m


def _normalize(graph: sp.csr_array, degrees: NDArray[np.float64]) -> sp.csr_array:
    """``D^-1/2 W D^-1/2``; one factor after the other, so that tiny degrees do not overflow."""
    scale = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=scale, where=degrees > 0)
    normalized = graph.copy()
    normalized.data *= scale[_row_of_entry(graph)]
    normalized.data *= scale[graph.indices]
    return normalized


def _component_eigenpairs(
    S: sp.csr_array, wanted: int, rng: RandomState
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest eigenvalues, descending, and eigenvectors of one connected component."""
    n = S.shape[0]
    wanted = min(wanted, n)
    is_full = n <= _FULL_MAX and S.nnz > n * n // 10
    if n <= _DENSE_MAX or is_full or 2 * _BlockSizes(wanted).capacity > n:
        values, vectors = scipy.linalg.eigh(S.toarray(), subset_by_index=(n - wanted, n - 1))
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        # Neighbours close in memory: products with large graphs in random order are 5 times slower.
        order = reverse_cuthill_mckee(S, symmetric_mode=True)
        values, ordered = _chebyshev_davidson(S[order][:, order], wanted, rng)
        vectors = np.empty_like(ordered)
        vectors[order] = ordered
    # One product makes entries of points with a tiny degree right relative to themselves: their
    # row is scaled to unit norm later, and must not be the rounding of the others' entries.
    clear = np.abs(values) > 1e-3
    vectors = np.where(clear, S @ vectors, vectors) / np.where(clear, values, 1.0)
    return np.minimum(values, 1.0), vectors


def _with_sign(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sign of an eigenvector is arbitrary: its largest entry is made positive."""
    return vector if vector[np.argmax(np.abs(vector))] >= 0 else -vector


def _unit_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of unit norm, rows of zeros kept; by the largest entry first, so that no square vanishes."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    vectors = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=vectors, where=norms > 0)


# --------------------------------------------------------------- the eigensolver for large graphs


@dataclass(frozen=True)
class _BlockSizes:
    """Columns of the search space when `wanted` eigenpairs are sought."""

    wanted: int

    @property
    def block(self) -> int:
        return 16

    @property
    def kept(self) -> int:
        return self.wanted + max(self.block, self.wanted // 4)

    @property
    def capacity(self) -> int:
        return self.kept + 4 * self.block


def _chebyshev_davidson(
    S: sp.csr_array, wanted: int, rng: RandomState, max_blocks: int = 1000
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest eigenpairs of a sparse symmetric matrix with its spectrum in [-1, 1].

    Block Davidson method with a Chebyshev filter [1]_: the search space grows by a filtered block
    of the unconverged Ritz vectors, and restarts from the best ones when full. A block method
    with vectors to spare finds every copy of a (nearly) multiple eigenvalue, where Lanczos with
    one start vector reports convergence to a lower one. As the spectrum of a normalised affinity
    has known bounds, the filter needs no estimate of them.

    References
    ----------
    .. [1] Y. Zhou, "A block Chebyshev-Davidson method with inner-outer restart for large
       eigenvalue problems", Journal of Computational Physics 229, 2010.
    """
    n, sizes = S.shape[0], _BlockSizes(wanted)
    basis = np.empty((n, sizes.capacity), order="F")
    start = _chebyshev_filter(S, rng.standard_normal((n, sizes.kept)), cut=0.0, degree=10)
    used = sizes.kept
    basis[:, :used] = np.linalg.qr(start)[0]
    projected = np.zeros((sizes.capacity, sizes.capacity))
    projected[:used, :used] = basis[:, :used].T @ (S @ basis[:, :used])
    for _ in range(max_blocks):
        ritz, rotation = np.linalg.eigh(projected[:used, :used], UPLO="U")
        ritz, rotation = ritz[::-1], rotation[:, ::-1]
        vectors = np.ascontiguousarray(basis[:, :used] @ rotation[:, : sizes.kept])
        leading = vectors[:, :wanted]
        residuals = np.linalg.norm(S @ leading - leading * ritz[:wanted], axis=0)
        open_pairs = np.flatnonzero(residuals > _RESIDUAL_TOL)
        if not open_pairs.size:
            break
        if used + sizes.block > sizes.capacity:
            used = sizes.kept
            basis[:, :used] = vectors
            projected[:used, :used] = np.diag(ritz[:used])
        spare = np.arange(wanted, sizes.kept)
        block = vectors[:, np.concatenate([open_pairs, spare])[: sizes.block]]
        cut = float(np.clip(ritz[sizes.kept - 1], -0.95, 1 - 1e-9))
        block = _chebyshev_filter(S, block, cut, _filter_degree(cut))
        block = _orthonormal_to(basis[:, :used], block)
        new = slice(used, used + sizes.block)
        used += sizes.block
        basis[:, new] = block
        projected[:used, new] = basis[:, :used].T @ (S @ block)
    else:
        warnings.warn(
            f"The eigensolver stopped after {max_blocks} blocks with {open_pairs.size} of {wanted} "
            f"eigenvectors at a residual of up to {residuals.max():.1e} (asked: {_RESIDUAL_TOL}).",
            ConvergenceWarning,
            stacklevel=2,
        )
    return ritz[:wanted], leading


def _filter_degree(cut: float) -> int:
    """Degree at which the filter lifts the eigenvalue 1 over those below `cut` by some e^6.

    More would save few blocks and lose the smaller wanted directions beside the largest.
    """
    growth = np.arccosh(1.0 + 2.0 * (1.0 - cut) / (1.0 + cut))
    return int(np.clip(6.0 / growth, 8, 300))


def _chebyshev_filter(
    S: sp.csr_array, block: NDArray[np.float64], cut: float, degree: int
) -> NDArray[np.float64]:
    """Chebyshev polynomial of S, small on [-1, cut] and 1 at the eigenvalue 1, times a block."""
    half_width, centre = (cut + 1.0) / 2.0, (cut - 1.0) / 2.0
    identity = sp.eye_array(S.shape[0], format="csr")
    doubled = sp.csr_array((S - centre * identity) * (2.0 / half_width))
    # Scaled recurrence: `ratio` is T_j(x) / T_{j+1}(x) at the point x to which 1 is mapped.
    first = half_width / (1.0 - centre)
    ratio = first
    before, now = block.copy(), (doubled @ block) * (ratio / 2.0)
    for _ in range(degree - 1):
        next_ratio = 1.0 / (2.0 / first - ratio)
        following = doubled @ now
        following *= next_ratio
        before *= ratio * next_ratio
        following -= before
        before, now, ratio = now, following, next_ratio
    return now


def _orthonormal_to(basis: NDArray[np.float64], block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns that extend an orthonormal basis; twice is enough (Kahan)."""
    for _ in range(2):
        block = block - basis @ (basis.T @ block)
        block = np.linalg.qr(block)[0]
    return block


# ------------------------------------------------------------------------------------ the labels


def _kmeans_labels(
    rows: NDArray[np.float64], k: int, n_init: int, rng: RandomState
) -> NDArray[np.int64]:
    """K-means on unit rows; rows equal up to rounding are one point."""
    rows = np.round(rows, _DECIMALS) + 0.0
    if len(rows) <= k:
        return np.unique(rows, axis=0, return_inverse=True)[1].astype(np.int64)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Fewer distinct rows than clusters: the labels left over are given out afterwards.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(n_clusters=k, n_init=n_init, random_state=rng, copy_x=False)
        return means.fit_predict(rows).astype(np.int64)


def _place_the_rest(labels: NDArray[np.int64], graph: sp.csr_array, k: int) -> None:
    """Label the components that the embedding left out (label -1), in place."""
    if labels.min() >= 0:
        return
    order, bounds = _components_largest_first(graph)
    left_out = [c for c in range(len(bounds) - 1) if labels[order[bounds[c]]] < 0]
    unused = np.setdiff1d(np.arange(k), labels)
    for c, label in zip(left_out, unused):
        labels[order[bounds[c] : bounds[c + 1]]] = label
    largest = int(np.argmax(np.bincount(labels[labels >= 0], minlength=k)))
    labels[labels < 0] = largest


def _by_first_appearance(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[codes]
