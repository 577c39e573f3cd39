"""`TangentSSC`: its logarithms against pyRiemann, its codes against a general convex solver, its invariance."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.tangentspace import log_map_riemann
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD
from samples import groups, spd
from spdcluster import TangentSSC
from spdcluster.expression.tangent import tangent_expression
from spdcluster.expression.tangent_vectors import inverse_factors, lanes_last, tangent_vectors
from spdcluster.metrics import clustering_accuracy


def tangent_gram(X, i):
    """Inner products (n, n) at X_i of the logarithms of all matrices, from pyRiemann's log map."""
    logs = log_map_riemann(X, X[i], C12=True)
    inverse = np.linalg.inv(X[i])
    turned = inverse @ logs
    return np.einsum("aij,bji->ab", turned, turned).real


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize(("d", "n"), [(2, 33), (3, 5), (6, 40), (14, 9)])
def test_tangent_vectors_have_the_inner_products_of_another_library(d, n, complex_):
    X = spd(np.random.default_rng(d), n, d, condition=1e4, complex_=complex_, scale=1e-20)
    matrices = lanes_last(X)
    scale = np.sqrt(0.5) if complex_ else 1.0
    vectors = tangent_vectors(inverse_factors(matrices)[1], matrices, scale)
    expected = tangent_gram(X * 1e20, 1)
    np.testing.assert_allclose(vectors.T @ vectors, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("d", [3, 5, 12])
def test_logarithms_between_nearly_singular_matrices_are_those_of_the_exact_problem(d, complex_):
    """``T D T^*`` with small integers in T and powers of two in D is exact, and congruence changes nothing."""
    rng = np.random.default_rng(d)
    exponents = rng.integers(-17, 18, size=(40, d))
    exponents[0], exponents[1] = np.linspace(-17, 17, d), np.linspace(17, -17, d)
    T = np.eye(d) + np.diag(rng.choice([-1, 1], size=d - 1) * (1j if complex_ else 1), -1)
    X = (T * 2.0 ** exponents[:, None, :]) @ T.conj().T
    matrices, scale = lanes_last(X), np.sqrt(0.5) if complex_ else 1.0
    vectors = tangent_vectors(inverse_factors(matrices)[0], matrices, scale)
    logs = (exponents - exponents[0]) * np.log(2.0)
    np.testing.assert_allclose(vectors.T @ vectors, logs @ logs.T, atol=1e-6 * np.sum(logs[1] ** 2))


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize(("d", "condition"), [(3, 1e14), (5, 1e12), (12, 1e10)])
def test_nearly_singular_matrices_have_codes(d, condition, complex_):
    X = spd(np.random.default_rng(1), 30, d, condition=condition, complex_=complex_)
    model = TangentSSC(3, random_state=0).fit(X)
    assert model.dual_gap_ <= 1e-6
    np.testing.assert_allclose(model.representation_.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_objective_is_that_of_a_general_convex_solver(alpha, complex_):
    X, _ = groups(np.random.default_rng(1), 2, 6, 3, complex_=complex_)
    found = tangent_expression(X, alpha=alpha)
    W = found.coef.toarray()
    np.testing.assert_allclose(W.sum(1), 1.0, atol=1e-10)
    assert np.all(np.diag(W) == 0)
    assert (W < 0).any()
    for i in range(len(X)):
        G = tangent_gram(X, i)
        value = alpha * np.abs(W[i]).sum() + W[i] @ G @ W[i]
        assert found.objective[i] == pytest.approx(value, rel=1e-7)
        eigenvalues, V = np.linalg.eigh((G + G.T) / 2)
        root = V * np.sqrt(np.maximum(eigenvalues, 0))
        w = cp.Variable(len(X))
        cost = alpha * cp.norm1(w) + cp.sum_squares(root.T @ w)
        problem = cp.Problem(cp.Minimize(cost), [cp.sum(w) == 1, w[i] == 0])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        assert value == pytest.approx(problem.value, rel=1e-6)
    assert found.gap.max() < 1e-9


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1e-4, 0.04, 3.0]), st.booleans())
def test_code_does_not_change_under_congruence_and_copies_are_solved(seed, alpha, complex_):
    rng = np.random.default_rng(seed)
    X = spd(rng, 14, 3, condition=20, complex_=complex_)
    X = np.concatenate([X, X[:3]])
    found = tangent_expression(X, alpha=alpha)
    assert found.gap.max() < 1e-6
    A = rng.normal(size=(3, 3)) * 1e-10
    moved = tangent_expression(A @ X @ A.T, alpha=alpha)
    np.testing.assert_allclose(moved.objective, found.objective, rtol=1e-4)
    assert moved.gap.max() < 1e-6


@pytest.mark.parametrize("alpha", [1e-6, 0.04, 100.0])
def test_copies_are_coded_by_each_other_with_a_penalty_and_no_error(alpha):
    X = np.repeat(spd(np.random.default_rng(8), 3, 4, condition=1e3), 4, axis=0)
    for copies in (X, X[:4]):
        found = tangent_expression(copies, alpha=alpha)
        W = found.coef.toarray()
        assert found.converged
        np.testing.assert_allclose(W.sum(1), 1.0, atol=1e-6)
        np.testing.assert_allclose(np.abs(W).sum(1), 1.0, atol=1e-6)
        np.testing.assert_allclose(found.objective, alpha, rtol=1e-6)
        assert np.abs(W[np.arange(len(W)) // 4 != np.arange(len(W))[:, None] // 4]).sum() < 1e-6


def test_all_neighbours_are_the_full_problem_and_few_are_a_restriction_of_it():
    X, y = groups(np.random.default_rng(2), 3, 20, 4)
    full = tangent_expression(X, alpha=0.04)
    same = tangent_expression(X, alpha=0.04, n_neighbors=59)
    assert np.array_equal(full.coef.toarray(), same.coef.toarray())
    few = tangent_expression(X, alpha=0.04, n_neighbors=12)
    assert np.all(few.objective >= full.objective * (1 - 1e-9))
    assert np.all(np.diff(few.coef.indptr) <= 12)
    assert few.coef.diagonal().max() == 0.0
    np.testing.assert_allclose(few.coef.sum(axis=1), 1.0, atol=1e-10)
    labels = TangentSSC(3, n_neighbors=12, random_state=0).fit_predict(X)
    assert clustering_accuracy(y, labels) == 1.0


@pytest.mark.parametrize("complex_", [False, True])
def test_neither_scale_nor_threads_nor_copies_change_the_labels(complex_):
    X, y = groups(np.random.default_rng(3), 3, 20, 4, spread=0.1, complex_=complex_)
    model = TangentSSC(3, alpha=1.0, random_state=0, n_jobs=1).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert model.dual_gap_ < 1e-9
    code = model.representation_.toarray()
    assert np.array_equal(model.set_params(n_jobs=2).fit(X).representation_.toarray(), code)
    assert clustering_accuracy(y, model.fit_predict(X * 1e-26)) == 1.0
    twins = model.fit_predict(np.concatenate([X, X[:10]]))
    assert clustering_accuracy(y, twins[:60]) == 1.0
    assert np.array_equal(twins[60:], twins[:10])


def test_hostile_sets_get_labels():
    X = spd(np.random.default_rng(4), 12, 3)
    for hostile in (
        np.repeat(X[:3], 4, axis=0),
        np.concatenate([X[:11], X[:1] * 1e12]),
        spd(np.random.default_rng(5), 12, 3, condition=1e10),
        X[:2],
    ):
        model = TangentSSC(2, random_state=0).fit(hostile)
        assert model.labels_.shape == (len(hostile),)
        assert model.dual_gap_ <= 1e-6
    with pytest.warns(ConvergenceWarning, match="only 1 distinct matrices"):
        assert set(TangentSSC(3).fit_predict(np.repeat(X[:1], 12, axis=0))) == {0}


def test_regularization_makes_singular_matrices_usable():
    X, _ = groups(np.random.default_rng(6), 3, 10, 4)
    X[0] = np.outer([1, 0, 0, 0], [1, 0, 0, 0]) * np.trace(X[0])
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite.*regularization=1e-6"):
        TangentSSC(3).fit(X)
    assert TangentSSC(3, regularization=1e-3, random_state=0).fit(X).dual_gap_ < 1e-6


def test_stopping_early_warns_with_how_far_it_got():
    X, _ = groups(np.random.default_rng(7), 2, 20, 4)
    with pytest.warns(ConvergenceWarning, match=r"rows above tol=1e-06 .* raise max_iter"):
        TangentSSC(2, max_iter=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({}, GOOD[0], ValueError, r"X must be 3-D"),
        ({}, -GOOD, ValueError, r"X\[0\] is not positive definite"),
        ({"alpha": 0.0}, GOOD, ValueError, r"alpha must be"),
        ({"n_neighbors": 0}, GOOD, ValueError, r"n_neighbors must be"),
        ({"affinity": "row_normalized"}, GOOD, ValueError, r"Did you mean 'row-normalized'"),
        ({"regularization": -1.0}, GOOD, ValueError, r"regularization must be"),
        ({"max_iter": 0}, GOOD, ValueError, r"max_iter must be"),
        ({"tol": 0.0}, GOOD, ValueError, r"tol must be"),
        ({"tol": "small"}, GOOD, TypeError, r"tol must be"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        TangentSSC(**{"n_clusters": 3, **parameters}).fit(X)


class DiagonalTangentSSC(TangentSSC):
    """On vectors, as diagonal matrices: scikit-learn has its checks for 2-D input only."""

    def _input_kind(self):
        return "vectors"

    def _express(self, X):
        super()._express(np.exp(np.arcsinh(X))[:, :, None] * np.eye(X.shape[1]))


@parametrize_with_checks([DiagonalTangentSSC(n_clusters=3, n_neighbors=20, n_init=3)])
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
