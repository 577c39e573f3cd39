"""`LRR`: optimal against a general convex solver and against the papers' augmented Lagrangian."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD, subspaces
from samples import groups
from spdcluster import LRR
from spdcluster.estimators._low_rank import full_graph
from spdcluster.expression.error_norms import error_norms
from spdcluster.expression.lrr import lrr, smallest_lam
from spdcluster.graph import affinity
from spdcluster.metrics import clustering_accuracy


def objective(X, C, lam):
    return np.linalg.norm(C, "nuc") + lam * np.linalg.norm(X - C @ X, axis=1).sum()


@pytest.mark.parametrize("factor", [1.05, 3.0, 20.0])
@pytest.mark.parametrize("shape", [(10, 4), (7, 12)])
def test_objective_is_that_of_a_general_convex_solver(factor, shape):
    X = np.random.default_rng(0).normal(size=shape)
    X[0] *= 5.0
    lam = factor * smallest_lam(X)
    found = lrr(X, lam=lam, tol=1e-7)
    value = objective(X, found.dense(), lam)
    assert found.objective == pytest.approx(value, rel=1e-7)
    C = cp.Variable((len(X), len(X)))
    cost = cp.normNuc(C) + lam * cp.sum(cp.norm(X - C @ X, 2, axis=1))
    best = cp.Problem(cp.Minimize(cost)).solve(solver="SCS", eps_abs=1e-8, eps_rel=1e-8)
    assert value == pytest.approx(best, rel=1e-5)
    assert found.gap <= 1e-7


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.1, 1e4), st.sampled_from([1e-13, 1.0, 1e6]))
@example(79, 1.63, 1.0)  # a copy represented exactly by a code of lower rank: a kink at the minimum
def test_gap_is_small_whatever_the_data(seed, factor, scale):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(2, 20, size=2)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 0, size=d) * scale
    X[rng.integers(n)] = X[0]
    lam = factor * smallest_lam(X)
    found = lrr(X, lam=lam)
    assert found.converged
    assert found.gap <= 1e-6
    assert found.objective == pytest.approx(objective(X, found.dense(), lam), rel=1e-6)


def test_the_papers_algorithm_comes_close_and_never_below():
    X, _ = subspaces(np.random.default_rng(1), [3, 3], 15, 20, noise=0.05)
    for factor in (2.0, 10.0):
        lam = factor * smallest_lam(X)
        exact = lrr(X, lam=lam)
        alm = lrr(X, lam=lam, solver="alm")
        assert alm.converged
        assert exact.objective * (1 - 1e-6) <= alm.objective <= exact.objective * 1.01


def test_from_a_certain_weight_on_the_code_is_the_shape_interaction_matrix_and_not_below():
    X = np.random.default_rng(9).normal(size=(12, 4)) * [3.0, 1.0, 0.5, 0.2]
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    least = np.linalg.norm(U / s, axis=1).max()
    for lam, is_exact in ((1.01 * least, True), (1e12 * least, True), (0.9 * least, False)):
        found = lrr(X, lam=lam, tol=1e-8)
        assert found.gap <= 1e-8
        distance = np.abs(found.dense() - U @ U.T).max()
        assert distance < 1e-12 if is_exact else distance > 1e-3
    C = cp.Variable((12, 12))
    cost = cp.normNuc(C) + 1.01 * least * cp.sum(cp.norm(X - C @ X, 2, axis=1))
    best = cp.Problem(cp.Minimize(cost)).solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9)
    assert lrr(X, lam=1.01 * least).objective == pytest.approx(best, rel=1e-6)
    # the paper's 0.4 on large numbers is such a weight, and the error of rounding is no error of the code
    assert LRR(2, random_state=0).fit(X * 1e12).dual_gap_ == 0.0


def test_code_is_zero_below_the_smallest_weight_and_not_above():
    X = np.random.default_rng(2).normal(size=(12, 5))
    assert len(lrr(X, lam=0.999 * smallest_lam(X)).values) == 0
    assert len(lrr(X, lam=1.01 * smallest_lam(X)).values) > 0
    with pytest.warns(UserWarning, match=r"LRR: the code is zero"):
        LRR(2, lam=0.5, weight_mode="relative", random_state=0).fit(X)


@pytest.mark.parametrize(
    ("dimensions", "ambient"), [([2, 3, 4], 20), ([4, 5, 6], 50), ([6, 6, 6, 6], 100)]
)
@pytest.mark.parametrize("solver", ["variational", "alm"])
def test_independent_subspaces_are_found(dimensions, ambient, solver):
    X, y = subspaces(np.random.default_rng(3), dimensions, ambient, 40)
    model = LRR(len(dimensions), lam=10.0, solver=solver, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert model.rank_ == sum(dimensions)
    # without noise the code is the shape interaction matrix, block diagonal
    assert np.abs(model.representation_[y[:, None] != y[None, :]]).max() < 1e-6


def test_points_that_are_entirely_wrong_get_the_error():
    rng = np.random.default_rng(4)
    X, y = subspaces(rng, [3, 3, 3], 40, 40)
    X[::20] = 0.3 * rng.normal(size=(6, 40))
    model = LRR(3, lam=0.1, random_state=0).fit(X)
    right = np.arange(len(X)) % 20 != 0
    assert clustering_accuracy(y[right], model.labels_[right]) == 1.0
    error = np.linalg.norm(X - model.representation_ @ X, axis=1)
    assert error[~right].min() > 5 * error[right].max()


def test_scale_matters_in_absolute_mode_only():
    X, _ = groups(np.random.default_rng(5), 3, 15, 3)
    model = LRR(3, lam=20.0, weight_mode="relative", random_state=0)
    labels, code = model.fit_predict(X), model.representation_
    for scale in (1e-13, 1e6):
        assert clustering_accuracy(labels, model.fit_predict(X * scale)) == 1.0
        np.testing.assert_allclose(model.representation_, code, atol=1e-3)


def test_graph_of_the_largest_similarities():
    X, y = subspaces(np.random.default_rng(6), [2, 2], 10, 60)
    full = LRR(2, random_state=0).fit(X)
    few = LRR(2, n_neighbors=10, random_state=0).fit(X)
    assert few.affinity_.nnz < full.affinity_.nnz
    assert few.affinity_.nnz <= 2 * 10 * len(X)
    assert clustering_accuracy(y, few.labels_) == 1.0
    both = few.affinity_.toarray() > 0
    ratio = few.affinity_.toarray()[both] / full.affinity_.toarray()[both]
    assert np.all(np.isclose(ratio, 1.0) | np.isclose(ratio, 0.5))


@pytest.mark.parametrize("n", [2, 3, 40])
def test_full_graph_is_the_affinity_of_a_sparse_one(n):
    rng = np.random.default_rng(n)
    similarity = rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.7)
    full, sparse = full_graph(similarity.copy()), affinity(csr_array(similarity))
    assert np.array_equal(full.toarray(), sparse.toarray())
    assert np.array_equal(full.indices, sparse.indices)  # sorted, no zeros
    assert np.array_equal(full.indptr, sparse.indptr)


@pytest.mark.parametrize("singular", [False, True])
def test_error_norms_solve_their_equation_or_are_zero_where_it_has_no_root(singular):
    rng = np.random.default_rng(8)
    variance = 10.0 ** rng.uniform(-6, 1, size=7)
    if singular:
        variance[2] = 0.0
    squared = 10.0 ** rng.uniform(-12, 3, size=(200, 7))
    with np.errstate(divide="ignore"):
        at_zero = (squared / variance**2).sum(axis=1)
    squared[::3] *= np.where(at_zero > 0, 0.5 / at_zero, 1.0)[::3, None]  # some without a root
    found = error_norms(squared, variance)
    has_root = np.arange(200) % 3 != 0
    if singular:
        has_root[:] = squared[:, 2] > 0
    some = has_root & (found > 0)
    left = (squared[some] / (found[some, None] + variance) ** 2).sum(axis=1)
    np.testing.assert_allclose(left, 1.0, rtol=1e-9)
    assert np.all(found[~has_root] == 0.0)
    assert np.all(found[has_root & (at_zero > 1)] > 0.0)


def test_stopping_early_warns_with_how_far_it_got():
    X, _ = subspaces(np.random.default_rng(7), [4, 4], 20, 20, noise=0.2)
    lam = 4.0 * smallest_lam(X)
    for solver in ("variational", "alm"):
        with pytest.warns(ConvergenceWarning, match=r"after \d iterations .* relative duality gap"):
            LRR(2, lam=lam, solver=solver, max_iter=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({"lam": 0.0}, GOOD, ValueError, r"lam must be"),
        ({"lam": "x"}, GOOD, TypeError, r"lam must be"),
        ({"weight_mode": "relativ"}, GOOD, ValueError, r"Did you mean 'relative'"),
        ({"solver": "admm"}, GOOD, ValueError, r"solver must be one of"),
        ({"power": 0.0}, GOOD, ValueError, r"power must be"),
        ({"n_neighbors": 0}, GOOD, ValueError, r"n_neighbors must be"),
        ({"tol": 0.0}, GOOD, ValueError, r"tol must be"),
        ({"n_jobs": 0}, GOOD, ValueError, r"n_jobs must be"),
        ({"max_iter": 0}, GOOD, ValueError, r"max_iter must be"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        LRR(**{"n_clusters": 3, **parameters}).fit(X)


@parametrize_with_checks([LRR(n_clusters=3, n_init=3, random_state=0)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
