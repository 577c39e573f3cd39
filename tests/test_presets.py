"""The preset: its rule, and that it is the parameters of `KernelSSC` that it says."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import logm

from samples import groups
from spdcluster import KernelSSC
from spdcluster.metrics import clustering_accuracy
from spdcluster.presets import atoms, best


@pytest.mark.parametrize(
    ("n", "k", "most"),
    [
        (1000, 4, 10),  # large clusters: ten
        (70, 10, 6),  # faces: as many as a matrix has companions in an average cluster
        (44, 4, 10),  # just enough
        (43, 4, 9),
        (5, 5, 1),  # never none
    ],
)
def test_atoms_are_ten_or_an_average_clusters_other_members(n, k, most):
    assert atoms(n, k) == most
    assert best(n, k)["alpha"] == most


def test_eigenvectors_are_no_more_than_matrices():
    assert best(100, 10)["n_components"] == 20
    assert best(15, 10)["n_components"] == 15


def test_best_is_a_set_of_parameters_with_its_width_and_its_atoms():
    X, y = groups(np.random.default_rng(0), 3, 15, 4, spread=0.1)
    model = KernelSSC(**best(len(X), 3), random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    # the width against distances computed one pair at a time
    L = np.array([logm(x) for x in X])
    squares = [np.linalg.norm(a - b) ** 2 for a in L for b in L]
    assert model.gamma_ == pytest.approx(0.3 / np.mean(squares))
    sizes = np.diff(sp.csr_array(model.representation_).indptr)
    assert sizes.max() == 10
    assert model.dual_gap_ <= 1e-6
    assert model.eigenvalues_.shape == (6,)


def test_best_keeps_a_class_whole_that_falls_into_two_groups():
    """Two tight sub-groups in each of two classes and a third class between: k eigenvectors are too few."""
    rng = np.random.default_rng(1)
    centres = np.array([[0, 0], [0.8, 0], [6, 0], [6.8, 0], [3.4, 5], [3.4, 5.8]], float)
    points = np.repeat(centres, 25, axis=0) + 0.12 * rng.normal(size=(150, 2))
    X = np.zeros((150, 2, 2))
    X[:, 0, 0], X[:, 1, 1] = np.exp(points.T)
    y = np.repeat([0, 1, 2], 50)
    assert clustering_accuracy(y, KernelSSC(**best(150, 3), random_state=0).fit_predict(X)) == 1.0


def test_labels_of_best_depend_on_neither_unit_nor_order_nor_threads():
    rng = np.random.default_rng(2)
    X, _ = groups(rng, 3, 20, 4, spread=0.3)
    labels = KernelSSC(**best(60, 3), random_state=0, n_jobs=1).fit_predict(X)
    again = KernelSSC(**best(60, 3), random_state=0, n_jobs=2).fit_predict(X)
    np.testing.assert_array_equal(again, labels)
    scaled = KernelSSC(**best(60, 3), random_state=0).fit_predict(X * 1e-26)
    assert clustering_accuracy(labels, scaled) == 1.0
    order = rng.permutation(60)
    turned = KernelSSC(**best(60, 3), random_state=0).fit_predict(X[order])
    assert clustering_accuracy(labels[order], turned) == 1.0


def test_best_with_copies_of_few_distinct_matrices():
    X, _ = groups(np.random.default_rng(3), 2, 2, 3, spread=0.2)
    many = np.repeat(X, 5, axis=0)
    model = KernelSSC(**best(len(many), 3), random_state=0).fit(many)
    assert model.embedding_.shape == (20, 4)
    assert all(len(set(part)) == 1 for part in model.labels_.reshape(4, 5))


def test_new_matrices_join_the_cluster_they_came_from():
    X, y = groups(np.random.default_rng(4), 3, 25, 4, spread=0.15)
    new, truth = groups(np.random.default_rng(5), 3, 10, 4, spread=0.15)
    model = KernelSSC(**best(len(X), 3), random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert clustering_accuracy(truth, model.predict(new)) == 1.0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((1, 1), ValueError, r"n_matrices must be an integer of at least 2; got 1"),
        ((10, 11), ValueError, r"n_clusters must be an integer in \[1, 10\]; got 11"),
        ((10.0, 2), TypeError, r"n_matrices must be an integer.*10\.0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        best(*arguments)
