"""`KernelLRR`: its closed form against a general convex solver, partial spectra against full ones."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD, subspaces
from samples import gram, groups, spd
from spdcluster import LRSC, KernelLRR
from spdcluster.expression import kernel_lrr as module
from spdcluster.expression.kernel_lrr import kernel_lrr, largest_eigenvalue
from spdcluster.kernels import make_kernel
from spdcluster.kernels.gram import DenseGram
from spdcluster.metrics import clustering_accuracy


def objective(K, C, tau):
    rest = np.eye(len(K)) - C
    return np.linalg.norm(C, "nuc") + tau / 2 * np.trace(rest @ K @ rest.T)


@pytest.mark.parametrize("tau", [0.02, 0.3, 5.0])
def test_closed_form_is_the_solution_of_a_general_convex_solver(tau):
    K = gram(np.random.default_rng(0), 10, 6)
    found = kernel_lrr(DenseGram(K), tau=tau)
    C = found.dense()
    assert found.objective == pytest.approx(objective(K, C, tau), rel=1e-10)
    eigenvalues, V = np.linalg.eigh(K)
    root = (V * np.sqrt(np.maximum(eigenvalues, 0))) @ V.T
    variable = cp.Variable(K.shape)
    cost = cp.normNuc(variable) + tau / 2 * cp.sum_squares((np.eye(10) - variable) @ root)
    best = cp.Problem(cp.Minimize(cost)).solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9)
    assert found.objective == pytest.approx(best, rel=1e-5)


def test_proximal_gradient_from_anywhere_ends_at_the_closed_form():
    X = spd(np.random.default_rng(1), 15, 3)
    K = make_kernel("log-gaussian").bind(X).dense()
    found = kernel_lrr(DenseGram(K), tau=3.0)
    step = 1.0 / (3.0 * np.linalg.eigvalsh(K)[-1])
    C = np.random.default_rng(2).normal(size=K.shape)
    for _ in range(3000):
        u, s, v = np.linalg.svd(C + step * 3.0 * (np.eye(15) - C) @ K)
        C = (u * np.maximum(s - step, 0.0)) @ v
    np.testing.assert_allclose(found.dense(), C, atol=1e-7)
    assert objective(K, C, 3.0) >= found.objective * (1 - 1e-12)


def test_linear_kernel_is_the_uncorrupted_lrsc():
    X, _ = groups(np.random.default_rng(3), 3, 12, 3)
    tau = 1e3 / np.linalg.norm(X.reshape(36, 9), 2) ** 2
    kernel = KernelLRR(3, kernel="linear", tau=tau, weight_mode="absolute", random_state=0).fit(X)
    vector = LRSC(3, tau=tau, variant="uncorrupted", random_state=0).fit(X)
    np.testing.assert_allclose(kernel.representation_, vector.representation_, atol=1e-9)
    assert kernel.objective_ == pytest.approx(vector.objective_, rel=1e-9)


@pytest.mark.parametrize("tau", [1.0, 30.0])
def test_partial_spectrum_gives_the_code_of_the_full_one(monkeypatch, tau):
    X, _ = groups(np.random.default_rng(4), 3, 60, 4)
    implicit = make_kernel("log-gaussian").bind(X)
    full, top = kernel_lrr(implicit, tau=tau), largest_eigenvalue(implicit)
    monkeypatch.setattr(module, "DENSE_LIMIT", 10)
    monkeypatch.setattr(module, "FIRST_RANK", 4)
    monkeypatch.setattr(module, "ROWS_PER_TASK", 50)
    partial = kernel_lrr(implicit, tau=tau)
    assert len(partial.values) == len(full.values) > 4
    np.testing.assert_allclose(partial.dense(), full.dense(), atol=1e-6)
    assert partial.objective == pytest.approx(full.objective, rel=1e-6)
    assert largest_eigenvalue(implicit) == pytest.approx(top, rel=1e-7)


def test_largest_rank_keeps_the_leading_part_and_says_so():
    X, _ = groups(np.random.default_rng(5), 3, 20, 4)
    full = KernelLRR(3, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"kept max_rank=3 .*, above 1/tau"):
        model = KernelLRR(3, max_rank=3, random_state=0).fit(X)
    assert model.rank_ == 3 < full.rank_
    np.testing.assert_allclose(model.factors_.values, full.factors_.values[:3])


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("kernel", ["log-gaussian", "log-linear", "stein"])
def test_groups_are_found_at_any_scale(kernel, complex_):
    X, y = groups(np.random.default_rng(6), 3, 20, 4, spread=0.1, complex_=complex_)
    for scale in (1.0, 1e-20):
        model = KernelLRR(3, kernel=kernel, normalize=True, random_state=0).fit(X * scale)
        if kernel != "log-linear" or scale == 1.0:  # the logarithm of the scale is a common part
            assert clustering_accuracy(y, model.labels_) == 1.0
        assert model.representation_.shape == (60, 60)


@pytest.mark.parametrize(
    ("dimensions", "ambient"), [([2, 3, 4], 20), ([4, 5, 6], 50), ([6, 6, 6, 6], 100)]
)
def test_independent_subspaces_are_found_with_the_linear_kernel(dimensions, ambient):
    X, y = subspaces(np.random.default_rng(7), dimensions, ambient, 40)
    model = KernelLRR(len(dimensions), kernel="linear", tau=1e6, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert model.rank_ == sum(dimensions)


def test_precomputed_kernel_gives_the_answer_of_the_named_one():
    X, _ = groups(np.random.default_rng(8), 3, 15, 4)
    named = KernelLRR(3, gamma=0.2, random_state=0).fit(X)
    K = make_kernel("log-gaussian", gamma=0.2).bind(X).dense()
    given = KernelLRR(3, kernel="precomputed", random_state=0).fit(K)
    assert np.array_equal(named.labels_, given.labels_)
    assert named.tau_ == pytest.approx(given.tau_)


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({}, GOOD[0], ValueError, r"X must be 3-D"),
        ({}, -GOOD, ValueError, r"X\[0\] is not positive definite"),
        ({"tau": 0.0}, GOOD, ValueError, r"tau must be"),
        ({"max_rank": 0}, GOOD, ValueError, r"max_rank must be"),
        ({"weight_mode": "relativ"}, GOOD, ValueError, r"Did you mean 'relative'"),
        ({"kernel": "log-euclid"}, GOOD, ValueError, r"kernel must be one of"),
        ({"kernel": "log-gausian"}, GOOD, ValueError, r"Did you mean 'log-gaussian'"),
        ({"gamma": -1.0}, GOOD, ValueError, r"gamma must be"),
        ({"kernel": "stein", "gamma": 0.3}, GOOD, ValueError, r"valid are 0.5, 1 and every value"),
        ({"power": "x"}, GOOD, TypeError, r"power must be"),
        ({"tol": 0.0}, GOOD, ValueError, r"tol must be"),
        ({"tol": None}, GOOD, TypeError, r"tol must be"),
        ({"kernel": "precomputed"}, -np.eye(4), ValueError, r"positive semidefinite"),
        ({"kernel": "precomputed"}, np.tri(4), ValueError, r"X must be symmetric"),
        ({"kernel": "precomputed"}, np.ones((3, 4)), ValueError, r"square Gram matrix"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        KernelLRR(**{"n_clusters": 3, **parameters}).fit(X)


@parametrize_with_checks([KernelLRR(n_clusters=3, kernel="gaussian", n_init=3, random_state=0)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
