"""Affinity and normalised spectral clustering, against dense references and hostile graphs."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

import spdcluster.graph as graph_module
from spdcluster.graph import (
    affinity,
    largest_drop,
    spectral_clustering,
    spectral_embedding,
    suggest_n_clusters,
)


@pytest.fixture(autouse=True)
def _every_warning_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


def random_graph(n, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < density)
    W = np.triu(W, 1)
    return W + W.T


def block_graph(sizes, between=0.0, seed=0, density=0.6):
    """Random groups, with a few weak edges between them; the groups are known."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    same = labels[:, None] == labels
    W = np.where(same, rng.uniform(0.5, 1.0, same.shape), between * rng.random(same.shape))
    W *= rng.random(same.shape) < np.where(same, density, 0.3)
    # A path through each group keeps it connected.
    path = np.arange(len(labels) - 1)
    W[path, path + 1] = np.where(labels[path] == labels[path + 1], 0.7, W[path, path + 1])
    W = np.triu(W, 1)
    return W + W.T, labels


def ring_of_groups(n_groups, size, seed=0):
    """Large sparse graph: random groups of about 12 neighbours a point, joined in a ring."""
    rng = np.random.default_rng(seed)
    n = n_groups * size
    labels = np.repeat(np.arange(n_groups), size)
    rows = np.repeat(np.arange(n), 6)
    columns = labels[rows] * size + rng.integers(0, size, rows.size)
    bridges = np.arange(n_groups) * size
    C = sp.coo_array(
        (
            np.r_[rng.uniform(0.5, 1, rows.size), np.full(n_groups, 0.3)],
            (np.r_[rows, bridges], np.r_[columns, np.roll(bridges, 1) + 1]),
        ),
        shape=(n, n),
    )
    return affinity(C), labels


def dense_spectrum(W, t=0.0):
    degrees = W.sum(axis=1)
    degrees = degrees + t * degrees.mean()
    scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    values, vectors = np.linalg.eigh(scale[:, None] * W * scale)
    return values[::-1], vectors[:, ::-1]


# ---------------------------------------------------------------------------------------- affinity


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_affinity_is_the_formula_for_every_container(kind, dtype):
    C = (random_graph(20, seed=1) * 10 - 3).round().astype(dtype)
    C[3] = 0
    for mode in ("symmetric", "row-normalized"):
        A = np.abs(C - np.diag(np.diag(C))).astype(float)
        if mode == "row-normalized":
            norms = np.linalg.norm(A, axis=1, keepdims=True)
            A = np.divide(A, norms, out=np.zeros_like(A), where=norms > 0)
        W = affinity(kind(C), mode)
        np.testing.assert_allclose(W.toarray(), (A + A.T) / 2, rtol=1e-14)
        assert isinstance(W, sp.csr_array)
        assert W.dtype == np.float64
        assert (W != W.T).nnz == 0
        assert W.has_sorted_indices
        assert (W.data > 0).all()
        assert not W.diagonal().any()


def test_affinity_leaves_its_input_alone():
    C = sp.csr_array(random_graph(12) - 0.5)
    before = C.copy()
    affinity(C, "row-normalized")
    spectral_clustering(affinity(C), 2, random_state=0)
    np.testing.assert_array_equal(C.toarray(), before.toarray())


def test_row_normalised_affinity_has_no_scale():
    C = np.random.default_rng(0).normal(size=(15, 15))
    rows = 10.0 ** np.random.default_rng(1).choice([-200, 0, 200], size=(15, 1))
    expected = affinity(C, "row-normalized").toarray()
    np.testing.assert_allclose(affinity(C * rows, "row-normalized").toarray(), expected, rtol=1e-13)


def test_symmetric_affinity_does_not_overflow():
    assert np.isfinite(affinity(np.full((3, 3), 1.7e308)).toarray()).all()


@pytest.mark.parametrize(
    ("coef", "mode", "error", "message"),
    [
        (np.ones((2, 3)), "symmetric", ValueError, r"coef must be square.*got \(2, 3\)"),
        (np.ones(4), "symmetric", ValueError, r"coef must be square.*got \(4,\)"),
        (np.ones((0, 0)), "symmetric", ValueError, "coef must have at least one row"),
        (np.array([[0, np.nan], [1, 0]]), "symmetric", ValueError, r"coef\[0, 1\] = nan"),
        (np.array([[0, 1], [np.inf, 0]]), "symmetric", ValueError, r"coef\[1, 0\] = inf"),
        (np.eye(2, dtype=complex), "symmetric", TypeError, "coef must be an array of real numbers"),
        (np.array([["a"]]), "symmetric", TypeError, "coef must be an array of real numbers"),
        (np.eye(2), "row_normalised", ValueError, "Did you mean 'row-normalized'"),
    ],
)
def test_bad_coefficients_give_one_clear_error(coef, mode, error, message):
    with pytest.raises(error, match=message):
        affinity(coef, mode)


# --------------------------------------------------------------------------------------- embedding


@pytest.mark.parametrize("t", [0.0, 0.7])
@pytest.mark.parametrize("power", [0.0, 2.0])
def test_embedding_is_that_of_the_dense_eigenproblem(t, power):
    W = random_graph(60, seed=3)
    values, vectors = dense_spectrum(W, t)
    U = vectors[:, :5] * np.maximum(values[:5], 0) ** power
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    embedding, eigenvalues = spectral_embedding(W, 5, weight_power=power, degree_regularization=t)
    np.testing.assert_allclose(eigenvalues, values[:5], atol=1e-13)
    np.testing.assert_allclose(embedding @ embedding.T, U @ U.T, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.floats(0, 0.4), st.integers(0, 10**6), st.sampled_from([0.0, 0.5]))
def test_eigenvalues_of_any_graph_are_those_of_the_whole(n, density, seed, t):
    W = random_graph(n, density, seed)
    m = 1 + seed % n
    embedding, eigenvalues = spectral_embedding(W, m, degree_regularization=t)
    np.testing.assert_allclose(eigenvalues, dense_spectrum(W, t)[0][:m], atol=1e-12)
    norms = np.linalg.norm(embedding, axis=1)
    assert (np.isclose(norms, 1) | (norms == 0)).all()


@pytest.mark.parametrize("t", [0.0, 0.5])
def test_large_graphs_have_the_eigenpairs_of_the_dense_solver(t):
    W, _ = ring_of_groups(6, 200)
    values, vectors = dense_spectrum(W.toarray(), t)
    embedding, eigenvalues = spectral_embedding(W, 6, random_state=0, degree_regularization=t)
    np.testing.assert_allclose(eigenvalues, values[:6], atol=1e-12)
    U = vectors[:, :6] / np.linalg.norm(vectors[:, :6], axis=1, keepdims=True)
    np.testing.assert_allclose(embedding @ embedding.T, U @ U.T, atol=1e-6)


def test_the_sparse_solver_finds_every_copy_of_a_multiple_eigenvalue():
    """Twelve copies of one group, joined so weakly that twelve eigenvalues equal 1 to rounding."""
    group, _ = ring_of_groups(1, 120)
    W = sp.block_diag([group] * 12, format="lil")
    for i in range(12):
        a, b = 120 * i, 120 * ((i + 1) % 12)
        W[a, b] = W[b, a] = 1e-15
    result = spectral_clustering(W.tocsr(), 12, random_state=0)
    np.testing.assert_allclose(result.eigenvalues, 1.0, atol=1e-12)
    assert same_partition(result.labels, np.repeat(np.arange(12), 120))


@pytest.mark.parametrize("size", [10, 600])
def test_points_of_tiny_degree_go_with_their_only_neighbour(size):
    """Their entries of the eigenvectors are far below the error of the others, but decide."""
    W, labels = ring_of_groups(2, size)
    tiny, neighbours = 2 * size + np.arange(8), np.arange(0, 2 * size, size // 4)[:8]
    W = W.tocoo()
    rows, columns = np.r_[W.row, tiny, neighbours], np.r_[W.col, neighbours, tiny]
    weights = np.r_[W.data, np.full(16, 1e-60)]
    W = sp.csr_array((weights, (rows, columns)), shape=(2 * size + 8,) * 2)
    found = spectral_clustering(W, 2, random_state=0).labels
    assert same_partition(found, np.r_[labels, labels[neighbours]])


# -------------------------------------------------------------------------------------- clustering


@pytest.mark.parametrize("t", [0.0, 1.0])
def test_separable_graphs_are_labelled_as_by_scikit_learn(t):
    for seed in range(5):
        W, labels = block_graph([12, 25, 18, 9], between=0.02, seed=seed)
        theirs = SpectralClustering(4, affinity="precomputed", random_state=0).fit_predict(W)
        ours = spectral_clustering(W, 4, random_state=seed, degree_regularization=t).labels
        assert same_partition(ours, theirs)
        assert same_partition(ours, labels)


def test_more_weighted_eigenvectors_than_clusters_keep_separable_groups():
    W, labels = block_graph([20, 20, 20], between=0.02)
    result = spectral_clustering(W, 3, n_components=6, weight_power=2.0, random_state=0)
    assert result.embedding.shape == (60, 6)
    assert same_partition(result.labels, labels)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(4, 20), min_size=2, max_size=5),
    st.sampled_from([0.0, 0.02]),
    st.integers(0, 10**6),
    st.sampled_from([1e-20, 1.0, 3e20]),
)
def test_order_of_points_and_scale_do_not_change_the_partition(sizes, between, seed, scale):
    W, labels = block_graph(sizes, between, seed)
    p = np.random.default_rng(seed).permutation(len(W))
    found = spectral_clustering(W[p][:, p] * scale, len(sizes), random_state=seed).labels
    assert same_partition(found, labels[p])


def test_more_components_than_clusters_keep_the_largest_apart():
    """Sparse solver or not, the k largest components are apart and the rest join the largest."""
    for groups, isolated in (((5, 9, 3, 7), 0), ((400, 900, 2, 300), 3)):
        W = sp.block_diag([ring_of_groups(1, size)[0] for size in groups], format="csr")
        W.resize((sum(groups) + isolated,) * 2)
        labels = np.r_[np.repeat([0, 1, 1, 2], groups), [1] * isolated]
        assert same_partition(spectral_clustering(W, 3, random_state=0).labels, labels)


def test_regularised_components_are_ranked_by_eigenvalue():
    """A component of light points with one heavy edge outranks what its mean degree suggests."""
    many = [ring_of_groups(1, 20, seed=i)[0].toarray() * (i + 1) for i in range(30)]
    many[0][0, 1] = many[0][1, 0] = 1000.0
    W = sp.block_diag(many, format="csr")
    _, eigenvalues = spectral_embedding(W, 4, degree_regularization=0.3)
    np.testing.assert_allclose(eigenvalues, dense_spectrum(W.toarray(), 0.3)[0][:4], atol=1e-12)


def test_small_groups_do_not_claim_eigenvectors_when_degrees_are_regularised():
    W, labels = block_graph([40, 40], between=0.02)
    W = np.pad(W, (0, 2))
    W[80, 81] = W[81, 80] = 0.5
    found = spectral_clustering(W, 2, degree_regularization=0.5, random_state=0).labels
    assert same_partition(found[:80], labels)


@pytest.mark.parametrize("n_groups", [2, 5, 12])
def test_loosely_linked_groups_are_counted(n_groups):
    W, _ = block_graph([15] * n_groups, between=1e-3)
    assert suggest_n_clusters(W) == n_groups
    assert suggest_n_clusters(W, most=2) == 2


def test_the_largest_drop_is_where_the_eigenvalues_fall_most():
    values = np.array([1.0, 0.5, 0.45, 0.1, 0.05])
    assert largest_drop(values) == 1
    assert largest_drop(values, least=2) == 3
    assert largest_drop(values[:1], least=2) == 1
    assert suggest_n_clusters(np.ones((2, 2))) == 2


def test_isolated_points_join_the_largest_cluster():
    W, labels = block_graph([8, 15, 6], between=0.01)
    W = np.pad(W, ((2, 1), (2, 1)))
    result = spectral_clustering(W, 3, random_state=0)
    assert same_partition(result.labels, np.r_[1, 1, labels, 1])
    assert not result.embedding[[0, 1, -1]].any()


def test_labels_left_over_go_to_the_largest_components_left_out():
    W = np.zeros((6, 6))
    W[:3, :3] = 1.0
    assert spectral_clustering(W, 3, random_state=0).labels.tolist() == [0, 0, 0, 1, 2, 0]


@pytest.mark.parametrize("n_clusters", [1, 3, 7])
def test_empty_graphs_have_the_documented_labels(n_clusters):
    result = spectral_clustering(sp.csr_array((7, 7)), n_clusters, random_state=0)
    expected = list(range(n_clusters)) + [0] * (7 - n_clusters)
    assert result.labels.tolist() == expected
    assert not result.embedding.any()
    assert not result.eigenvalues.any()


def test_every_point_is_a_cluster_when_there_are_as_many():
    for W in (random_graph(9), np.ones((9, 9)), np.zeros((9, 9))):
        assert spectral_clustering(W, 9, random_state=0).labels.tolist() == list(range(9))
    assert spectral_clustering([[0.0]], 1).labels.tolist() == [0]


def test_one_cluster_holds_everything():
    assert not spectral_clustering(random_graph(30), 1, random_state=0).labels.any()


def test_exact_duplicates_are_one_cluster_and_warn_of_nothing():
    """Complete blocks: rows of the embedding repeat, and there are fewer of them than points."""
    W = sp.block_diag([np.ones((5, 5))] * 3).toarray()
    labels = np.repeat(np.arange(3), 5)
    assert same_partition(spectral_clustering(W, 3, random_state=0).labels, labels)
    fewer = spectral_clustering(W, 5, n_components=3, random_state=0).labels
    assert same_partition(fewer, labels)


def test_rounding_does_not_split_points_that_are_one():
    """Equal rows up to rounding, because eigenvalues equal to rounding mix their vectors."""
    group = random_graph(20, density=0.8, seed=4)
    W = sp.block_diag([group] * 6).toarray()
    for i in range(5):
        W[20 * i, 20 * i + 20] = W[20 * i + 20, 20 * i] = 1e-17
    labels = spectral_clustering(W, 9, n_components=6, random_state=0).labels
    assert same_partition(labels, np.repeat(np.arange(6), 20))


@pytest.mark.parametrize("scale", [1e-290, 1e307])
def test_weights_at_the_ends_of_the_number_range_are_checked_and_clustered(scale):
    W, labels = block_graph([10, 12], between=0.02)
    assert same_partition(spectral_clustering(W * scale, 2, random_state=0).labels, labels)
    W[0, 1] += 0.1
    with pytest.raises(ValueError, match="W must be symmetric"):
        spectral_clustering(W * scale, 2)


def test_labels_are_numbered_by_first_appearance():
    W, _ = block_graph([6, 5, 4], seed=2)
    order = np.r_[11:15, 0:11]
    labels = spectral_clustering(W[order][:, order], 3, random_state=5).labels
    assert labels.dtype == np.int64
    assert labels.tolist() == [0] * 4 + [1] * 6 + [2] * 5


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_graph import block_graph, ring_of_groups
from spdcluster.graph import spectral_clustering
digest = hashlib.sha256()
for W in (block_graph([300, 350, 250], between=0.6)[0], ring_of_groups(12, 100)[0]):
    result = spectral_clustering(W, 7, n_init=2, random_state=3)
    for part in (result.labels, result.embedding, result.eigenvalues):
        digest.update(part.tobytes())
print(digest.hexdigest())
"""


def test_same_seed_gives_the_same_bits_whatever_the_number_of_threads():
    """Graphs without clear clusters, where the last bit decides; dense and sparse solvers."""
    here = os.path.dirname(os.path.abspath(__file__))
    runs = []
    for threads in ("1", "2"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        command = [sys.executable, "-c", SCRIPT, here]
        environment = os.environ | dict.fromkeys(names, threads)
        runs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    runs = [run.communicate(timeout=120)[0] for run in runs]
    assert runs[0]
    assert len(set(runs)) == 1, runs


def test_a_solver_that_stops_early_says_so(monkeypatch):
    W, _ = ring_of_groups(6, 200)
    monkeypatch.setattr(graph_module, "_RESIDUAL_TOL", 0.0)
    S = graph_module._normalize(W, W.sum(axis=1))
    with pytest.warns(match="eigensolver stopped after 2 blocks"):
        graph_module._chebyshev_davidson(S, 6, np.random.RandomState(0), max_blocks=2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"W": np.ones((2, 3))}, ValueError, "W must be square"),
        ({"W": np.array([[0, 1.0], [0.5, 0]])}, ValueError, "W must be symmetric"),
        ({"W": np.array([[0, -1.0], [-1.0, 0]])}, ValueError, "W must be non-negative"),
        ({"W": np.array([[0, np.nan], [np.nan, 0]])}, ValueError, "W must be finite"),
        ({"n_clusters": 0}, ValueError, "n_clusters must be"),
        ({"n_clusters": 31}, ValueError, "n_clusters must be"),
        ({"n_clusters": 2.0}, TypeError, "n_clusters must be"),
        ({"n_init": 0}, ValueError, "n_init must be"),
        ({"n_components": 0}, ValueError, "n_components must be"),
        ({"n_components": 31}, ValueError, "n_components must be"),
        ({"weight_power": -1}, ValueError, "weight_power must be"),
        ({"degree_regularization": -0.1}, ValueError, "degree_regularization must be"),
        ({"degree_regularization": "much"}, TypeError, "degree_regularization must be"),
    ],
)
def test_bad_arguments_give_one_clear_error(change, error, message):
    arguments = {"W": random_graph(30), "n_clusters": 3} | change
    with pytest.raises(error, match=message):
        spectral_clustering(**arguments)
