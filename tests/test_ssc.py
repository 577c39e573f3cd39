"""`SSC`: optimal against a general convex solver, the same as `KernelSSC` where it must be, right on subspaces."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD, subspaces
from samples import groups
from spdcluster import SSC, KernelSSC
from spdcluster.estimators.ssc import keep_largest
from spdcluster.expression.ssc import noise_scale, outlier_scale, ssc
from spdcluster.metrics import clustering_accuracy


def objective(X, C, O, lambda_z, lambda_e):
    """Elhamifar and Vidal's objective of each row, as in the docstring."""
    E = X - C @ X - O
    return np.abs(C).sum(1) + (lambda_e or 0.0) * np.abs(O).sum(1) + lambda_z / 2 * (E**2).sum(1)


def convex_solution(X, i, lambda_z, lambda_e, affine):
    c, o = cp.Variable(len(X)), cp.Variable(X.shape[1])
    rest = [c[i] == 0]
    if affine:
        rest.append(cp.sum(c) == 1)
    cost = cp.norm1(c) + lambda_z / 2 * cp.sum_squares(X[i] - X.T @ c - o)
    if lambda_e is None:
        rest.append(o == 0)
    else:
        cost = cost + lambda_e * cp.norm1(o)
    problem = cp.Problem(cp.Minimize(cost), rest)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("strength", [3.0, 60.0])
def test_objective_is_that_of_a_general_convex_solver(affine, outliers, strength):
    rng = np.random.default_rng(0)
    X, _ = subspaces(rng, [2, 2], 6, 8, noise=0.05)
    X[0, 1] += 2.0
    lambda_z = strength / noise_scale(X)
    lambda_e = 3.0 / outlier_scale(X) if outliers else None
    found = ssc(X, lambda_z=lambda_z, lambda_e=lambda_e, affine=affine)
    C = found.codes.coef.toarray()
    O = np.zeros_like(X) if found.outliers is None else found.outliers.toarray()
    value = objective(X, C, O, lambda_z, lambda_e)
    np.testing.assert_allclose(found.codes.objective, value, rtol=1e-9)
    assert np.all(np.diag(C) == 0)
    if affine:
        np.testing.assert_allclose(C.sum(1), 1.0, atol=1e-10)
    best = [convex_solution(X, i, lambda_z, lambda_e, affine) for i in range(len(X))]
    np.testing.assert_allclose(value, best, rtol=1e-6)
    assert found.codes.gap.max() < 1e-9
    assert found.codes.converged


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.5, 30.0, 1e4]),
    st.booleans(),
)
def test_degenerate_data_are_solved_to_a_small_gap(seed, affine, outliers, alpha, repeat):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(12, 4)).astype(float)  # ties, dependent and parallel points
    X = X[np.abs(X).sum(1) > 0]
    X = np.concatenate([X, X[:3]]) if repeat else X
    lambda_e = 5.0 / outlier_scale(X) if outliers else None
    found = ssc(X, lambda_z=alpha, lambda_e=lambda_e, affine=affine)
    C = found.codes.coef.toarray()
    O = np.zeros_like(X) if found.outliers is None else found.outliers.toarray()
    np.testing.assert_allclose(
        objective(X, C, O, alpha, lambda_e), found.codes.objective, rtol=1e-7
    )
    assert found.codes.gap.max() < 1e-6
    if affine:
        np.testing.assert_allclose(C.sum(1), 1.0, atol=1e-8)


def test_noise_only_is_kernel_ssc_with_the_linear_kernel():
    X, _ = groups(np.random.default_rng(1), 3, 15, 4)
    model = SSC(3, alpha=50.0, affinity="symmetric", random_state=0).fit(X)
    kernel = KernelSSC(3, kernel="linear", alpha=2 / model.lambda_z_, random_state=0).fit(X)
    difference = (model.representation_ - kernel.representation_).toarray()
    assert np.abs(difference).max() < 1e-9
    assert np.array_equal(model.labels_, kernel.labels_)
    assert model.objective_ == pytest.approx(kernel.objective_ * model.lambda_z_ / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("dimensions", "ambient"), [([2, 3, 4], 20), ([4, 5, 6], 50), ([6, 6, 6, 6], 100)]
)
def test_independent_subspaces_are_found(dimensions, ambient):
    X, y = subspaces(np.random.default_rng(2), dimensions, ambient, 40)
    for parameters in ({}, {"outlier_alpha": 20.0}, {"threshold": 0.9}):
        model = SSC(len(dimensions), random_state=0, **parameters).fit(X)
        assert clustering_accuracy(y, model.labels_) == 1.0
        assert model.dual_gap_ < 1e-6


def test_affine_constraint_finds_affine_subspaces_that_are_linearly_dependent():
    # three lines and their offsets span R^5, one dimension less than their linear hulls would need
    X, y = subspaces(np.random.default_rng(3), [1, 1, 1], 5, 40, offset=2.0)
    model = SSC(3, affine=True, alpha=1e4, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    np.testing.assert_allclose(model.representation_.sum(axis=1), 1.0, atol=1e-9)
    across = np.abs(model.representation_.toarray()[y[:, None] != y[None, :]])
    assert across.max() < 0.05


def test_outlier_term_takes_up_corrupted_entries():
    rng = np.random.default_rng(4)
    X, y = subspaces(rng, [3, 3, 3], 40, 40)
    corrupted = rng.uniform(size=X.shape) < 0.02
    X[corrupted] += 3.0 * rng.choice([-1, 1], size=corrupted.sum())
    robust = SSC(3, outlier_alpha=4.0, random_state=0).fit(X)
    plain = SSC(3, random_state=0).fit(X)
    assert clustering_accuracy(y, robust.labels_) == 1.0
    assert clustering_accuracy(y, plain.labels_) < 0.9
    found = np.abs(robust.outliers_.toarray()) > 0.5
    assert found[corrupted].mean() > 0.98
    assert found[~corrupted].mean() < 0.01
    assert plain.outliers_ is None


def test_threshold_keeps_the_largest_weights():
    coef = csr_array(np.array([[0.0, 5.0, -3.0, 2.0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]))
    kept = keep_largest(coef, 0.7).toarray()
    assert np.array_equal(kept[0], [0, 5, -3, 0])
    assert np.array_equal(kept[1:3], coef.toarray()[1:3])
    assert np.count_nonzero(kept[3]) == 3
    assert np.array_equal(keep_largest(coef, 1.0).toarray(), coef.toarray())


def test_neither_scale_nor_threads_nor_copies_change_the_labels():
    X, _ = groups(np.random.default_rng(5), 3, 20, 3)
    for parameters in ({}, {"affine": True}, {"affine": True, "outlier_alpha": 5.0}):
        model = SSC(3, random_state=0, n_jobs=1, **parameters)
        labels = model.fit_predict(X)
        code = model.representation_.toarray()
        assert np.array_equal(model.set_params(n_jobs=2).fit_predict(X), labels)
        assert np.array_equal(model.representation_.toarray(), code)
        for scale in (1e-26, 1e12):
            assert clustering_accuracy(labels, model.fit_predict(X * scale)) == 1.0
            np.testing.assert_allclose(model.representation_.toarray(), code, atol=1e-6)
        twins = model.fit_predict(np.concatenate([X, X[:10]]))
        assert np.array_equal(twins[60:], twins[:10])


def certified(X, C, lambda_z):
    """The least that the objective of each affine row can be: the dual of docs/methods.md."""
    alpha, residual = 2 / lambda_z, X - C @ X
    least = []
    for c, r, x in zip(C, residual, X):
        slope, used = 2 * X @ r, c != 0
        nu = np.mean(slope[used] - alpha * np.sign(c[used]))
        others = (x != X).any(axis=1)
        s = min(1.0, alpha / np.abs(slope - nu)[others].max())
        least.append((s * (2 * r @ x - nu) - s * s * r @ r) / alpha)
    return np.array(least)


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e6])
def test_a_far_outlier_leaves_affine_codes_exact(factor):
    X, _ = groups(np.random.default_rng(8), 3, 15, 4, spread=0.1)
    X[7] *= factor
    model = SSC(3, affine=True, random_state=0).fit(X)
    C = model.representation_.toarray()
    np.testing.assert_allclose(C.sum(axis=1), 1.0, atol=1e-9)
    X = X.reshape(45, -1)
    reached = objective(X, C, np.zeros_like(X), model.lambda_z_, None)
    assert np.all(reached - certified(X, C, model.lambda_z_) <= 1e-6 * reached)
    assert model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("rotated", [False, True])
def test_points_orthogonal_to_all_others_have_no_code(rotated):
    rng = np.random.default_rng(7)
    X = np.concatenate([np.eye(4)[:2], rng.normal(size=(10, 2)) @ np.eye(4)[2:]])
    if rotated:  # orthogonal up to rounding
        X = X @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    model = SSC(3, random_state=0).fit(X)
    assert model.representation_[:2].nnz == 0
    assert np.all(np.diff(model.representation_.indptr)[2:] > 0)
    assert SSC(2, random_state=0).fit(np.eye(4)).representation_.nnz == 0


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("n_others", [0, 1])
def test_rows_of_zeros_have_codes_of_zero(affine, n_others):
    X = np.zeros((6, 3))
    X[:n_others] = [1.0, 2.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        model = SSC(3, affine=affine, outlier_alpha=5.0, random_state=0).fit(X)
    assert model.dual_gap_ <= 1e-6
    assert len(set(model.labels_)) == 1 + n_others
    assert affine or np.abs(model.representation_).max() == 0.0


def test_stopping_early_warns_with_how_far_it_got():
    X, _ = subspaces(np.random.default_rng(6), [4, 4], 20, 20, noise=0.1)
    with pytest.warns(ConvergenceWarning, match=r"40 of 40 rows above tol=1e-06 .* raise max_iter"):
        SSC(2, affine=True, max_iter=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({"alpha": -1.0}, GOOD, ValueError, r"alpha must be"),
        ({"alpha": "x"}, GOOD, TypeError, r"alpha must be"),
        ({"outlier_alpha": 0.0}, GOOD, ValueError, r"outlier_alpha must be"),
        ({"affine": 1}, GOOD, TypeError, r"affine must be True or False"),
        ({"threshold": 1.5}, GOOD, ValueError, r"threshold must be"),
        ({"affinity": "max_normalized"}, GOOD, ValueError, r"Did you mean 'max-normalized'"),
        ({"tol": 0.0}, GOOD, ValueError, r"tol must be"),
        ({"tol": None, "affine": True}, GOOD, TypeError, r"tol must be"),
        ({"tol": -1.0, "outlier_alpha": 9.0}, GOOD, ValueError, r"tol must be"),
        ({"max_iter": 0, "affine": True}, GOOD, ValueError, r"max_iter must be"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        SSC(**{"n_clusters": 3, **parameters}).fit(X)


CANNOT_APPLY = {
    "check_clustering": "in the plane every point is an affine combination of any three others",
}


@parametrize_with_checks(
    [
        SSC(n_clusters=3, n_init=3, random_state=0),
        SSC(n_clusters=3, n_init=3, affine=True, outlier_alpha=10.0, random_state=0),
    ],
    expected_failed_checks=lambda estimator: CANNOT_APPLY if estimator.affine else {},
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
