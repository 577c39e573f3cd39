"""Solvers against a convex solver, scikit-learn, and coordinate descent that is obviously right."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso

from samples import gram, objective, slow_solution
from spdcluster.expression import certify, self_expression
from spdcluster.kernels import DenseGram, make_kernel


def assert_optimal(K, expression, alpha, l1_ratio=1.0, gap=1e-9):
    """The optimality conditions of DESIGN, recomputed from K and the code alone."""
    C = expression.coef.toarray()
    alpha = np.broadcast_to(alpha, len(K))[:, None]
    assert not np.diag(C).any()
    g = 2 * (K - C @ K) - alpha * (1 - l1_ratio) * C
    np.fill_diagonal(g, 0)
    scale = np.abs(K).max()
    assert np.all(np.abs(g) <= alpha * l1_ratio * (1 + 1e-7) + 1e-11 * scale)
    on = C != 0
    np.testing.assert_allclose(g[on], (alpha * l1_ratio * np.sign(C))[on], atol=1e-9 * scale)
    expected = objective(K, C, alpha[:, 0], l1_ratio)
    np.testing.assert_allclose(expression.objective, expected, rtol=1e-7, atol=1e-10 * scale)
    assert expression.gap.max() <= gap


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 40),
    rank=st.integers(1, 50),
    scale=st.sampled_from([1e-26, 1e-3, 1.0, 1e12]),
    share=st.floats(1e-3, 1.2),
    l1_ratio=st.sampled_from([1.0, 1.0, 0.9, 0.3]),
    mode=st.sampled_from(["absolute", "relative"]),
    hostile=st.sampled_from(["plain", "duplicates", "near duplicates", "outlier", "zero", "ones"]),
)
def test_active_set_is_optimal_on_random_and_hostile_problems(
    seed, n, rank, scale, share, l1_ratio, mode, hostile
):
    rng = np.random.default_rng(seed)
    K = gram(rng, n, rank)
    if hostile == "duplicates":
        twin = rng.integers(0, n, n)
        K = K[twin][:, twin]
    elif hostile == "near duplicates":
        K = np.exp(-1e-3 * (np.diag(K)[:, None] + np.diag(K) - 2 * K))
    elif hostile == "outlier":
        K[0] *= 1e4
        K[:, 0] *= 1e4
    elif hostile == "zero":
        K[0] = K[:, 0] = 0
    elif hostile == "ones":
        K = np.ones((n, n))
    K = K * scale
    off = np.abs(K - np.diag(np.diag(K)))
    alpha = share if mode == "relative" else share * max(2 * off.max(), 1e-30)
    expression = self_expression(
        DenseGram(K), alpha=alpha, alpha_mode=mode, l1_ratio=l1_ratio, n_jobs=1
    )
    if mode == "relative":
        top = np.where(off.max(1) > 0, off.max(1), 1.0)
        np.testing.assert_allclose(expression.alpha, alpha * 2 * top / l1_ratio)
    assert_optimal(K, expression, expression.alpha, l1_ratio, gap=1e-6)
    assert expression.converged


@pytest.mark.parametrize("l1_ratio", [1.0, 0.9, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_cvxpy(seed, l1_ratio):
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    n = 12
    K = gram(rng, n, 8)
    alpha = 1.5
    ours = self_expression(DenseGram(K), alpha=alpha, l1_ratio=l1_ratio)
    root = np.linalg.cholesky(K + 1e-13 * np.eye(n)).T
    C = cp.Variable((n, n))
    fit = cp.sum_squares(root @ (np.eye(n) - C.T))
    penalty = alpha * (l1_ratio * cp.sum(cp.abs(C)) + (1 - l1_ratio) / 2 * cp.sum_squares(C))
    problem = cp.Problem(cp.Minimize(fit + penalty), [cp.diag(C) == 0])
    problem.solve(solver=cp.CLARABEL)
    assert ours.objective.sum() == pytest.approx(problem.value, rel=1e-7)
    np.testing.assert_allclose(ours.coef.toarray(), C.value, atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_agrees_with_scikit_learn_where_the_kernel_is_linear(l1_ratio):
    V = np.random.default_rng(0).normal(size=(15, 30))
    alpha = 8.0
    expression = self_expression(make_kernel("linear").bind(V), alpha=alpha, l1_ratio=l1_ratio)
    for i in range(15):
        others = np.delete(np.arange(15), i)
        # scikit-learn: |y - Xw|^2 / (2 n) + a |w|_1, n the length of y
        model = (
            Lasso(alpha=alpha / 60, fit_intercept=False, tol=1e-12, max_iter=10**6)
            if l1_ratio == 1
            else ElasticNet(
                alpha=alpha / 60, l1_ratio=l1_ratio, fit_intercept=False, tol=1e-12, max_iter=10**6
            )
        )
        model.fit(V[others].T, V[i])
        np.testing.assert_allclose(expression.coef.toarray()[i, others], model.coef_, atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.6])
def test_agrees_with_slow_coordinate_descent(l1_ratio):
    K = np.exp(-(gram(np.random.default_rng(1), 20, 20) ** 2) / 100)
    K = K @ K / 20
    C = slow_solution(K, 0.1, l1_ratio)
    expression = self_expression(DenseGram(K), alpha=0.1, l1_ratio=l1_ratio)
    np.testing.assert_allclose(expression.coef.toarray(), C, atol=1e-8)


@pytest.mark.parametrize(("rho", "l1_ratio"), [(0.3, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 0.8)])
def test_admm_and_active_set_agree(rho, l1_ratio):
    K = np.exp(-0.1 * np.abs(np.subtract.outer(np.arange(40.0), np.arange(40.0))))
    exact = self_expression(DenseGram(K), alpha=0.05, l1_ratio=l1_ratio)
    admm = self_expression(
        DenseGram(K), alpha=0.05, l1_ratio=l1_ratio, solver="admm", rho=rho, tol=1e-8
    )
    assert admm.converged
    np.testing.assert_allclose(admm.objective, exact.objective, rtol=1e-6)
    assert admm.n_iter < 5000


def test_solvers_that_stop_early_warn_and_say_how_far_they_got():
    K = gram(np.random.default_rng(2), 30, 20)
    with pytest.warns(ConvergenceWarning, match=r"ADMM stopped after max_iter=3 .*gap is"):
        early = self_expression(DenseGram(K), alpha=0.1, solver="admm", max_iter=3)
    assert not early.converged
    with pytest.warns(ConvergenceWarning, match=r"active set stopped with \d+ of 30 rows"):
        early = self_expression(DenseGram(K), alpha=0.1, max_iter=1)
    assert early.gap.max() > 1e-6


def test_certificate_tells_right_from_wrong():
    K = gram(np.random.default_rng(3), 25, 15)
    G = DenseGram(K)
    for l1_ratio in (1.0, 0.5):
        expression = self_expression(G, alpha=0.5, l1_ratio=l1_ratio)
        proof = certify(G, expression.coef, 0.5, l1_ratio)
        np.testing.assert_allclose(proof.objective, expression.objective, rtol=1e-10)
        assert proof.relative_gap.max() < 1e-12
        assert proof.violation.max() < 1e-10
        wrong = csr_array(expression.coef * 1.01)
        proof = certify(G, wrong, 0.5, l1_ratio)
        lost = objective(K, wrong.toarray(), 0.5, l1_ratio) - expression.objective
        assert np.all(proof.gap >= lost - 1e-12)  # the gap bounds the true error from above
        assert proof.violation.max() > 1e-3
        some = certify(G, wrong, 0.5, l1_ratio, rows=[3, 7])
        np.testing.assert_allclose(some.gap, proof.gap[[3, 7]])


def test_certificate_refuses_codes_that_use_the_point_itself():
    with pytest.raises(ValueError, match="zero diagonal"):
        certify(DenseGram(np.eye(3)), np.eye(3), 0.1)
    with pytest.raises(ValueError, match=r"coef must have shape \(3, 3\); got \(2, 2\)"):
        certify(DenseGram(np.eye(3)), np.zeros((2, 2)), 0.1)


def test_result_does_not_depend_on_threads_layout_or_precision_of_the_container():
    K = np.exp(-0.05 * gram(np.random.default_rng(4), 200, 5) ** 2)
    K = K @ K / 200
    first = self_expression(DenseGram(K), alpha=0.05, n_jobs=1)
    read_only = K.copy()
    read_only.setflags(write=False)
    for other, jobs in ((K, 2), (np.asfortranarray(K), 2), (read_only, 3)):
        again = self_expression(DenseGram(other), alpha=0.05, n_jobs=jobs)
        assert np.array_equal(again.coef.toarray(), first.coef.toarray())
        assert np.array_equal(again.gap, first.gap)


def test_order_of_points_does_not_matter():
    rng = np.random.default_rng(5)
    K = gram(rng, 60, 80)
    order = rng.permutation(60)
    C = self_expression(DenseGram(K), alpha=5.0).coef.toarray()
    D = self_expression(DenseGram(K[order][:, order]), alpha=5.0).coef.toarray()
    np.testing.assert_allclose(D, C[order][:, order], atol=1e-9)


def test_codes_with_hundreds_of_atoms():
    rng = np.random.default_rng(6)
    K = gram(rng, 400, 600) / 600
    expression = self_expression(DenseGram(K), alpha=1e-4)
    assert np.diff(expression.coef.indptr).max() > 300
    assert_optimal(K, expression, 1e-4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alpha": 0}, ValueError, r"alpha must be a finite real number greater than 0"),
        ({"alpha": -1}, ValueError, r"alpha must be"),
        ({"alpha": "x"}, TypeError, r"alpha must be.*'x' \(str\)"),
        ({"alpha": True}, TypeError, r"alpha must be"),
        ({"alpha": np.inf}, ValueError, r"alpha must be"),
        ({"alpha_mode": "relativ"}, ValueError, r"alpha_mode must be.*Did you mean 'relative'"),
        ({"l1_ratio": 0}, ValueError, r"l1_ratio must be a finite real number in \(0, 1\]"),
        ({"l1_ratio": 1.1}, ValueError, r"l1_ratio must be"),
        ({"solver": "active_set"}, ValueError, r"solver must be.*Did you mean 'active-set'"),
        ({"rho": 0.0}, ValueError, r"rho must be"),
        ({"tol": -1e-3}, ValueError, r"tol must be"),
        ({"max_iter": 0}, ValueError, r"max_iter must be an integer of at least 1"),
        ({"max_iter": 2.5}, TypeError, r"max_iter must be an integer"),
        ({"n_jobs": 0}, ValueError, r"n_jobs must be None or a non-zero integer"),
    ],
)
def test_bad_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        self_expression(DenseGram(np.eye(3)), **arguments)


def test_points_of_very_different_scales_get_codes_that_are_numbers_and_a_warning():
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.uniform(-20, 20, size=(45, 1))
    gram = make_kernel("linear").bind(scales * rng.normal(size=(45, 10)))
    with pytest.warns(ConvergenceWarning, match="rows above tol"):
        found = self_expression(gram, alpha=0.04)
    assert np.isfinite(found.coef.data).all()
    assert not found.converged
    K, C = gram.dense(), found.coef.toarray()
    lost = (C == 0).all(axis=1)
    np.testing.assert_allclose(found.objective[lost], np.diag(K)[lost])
    assert np.all(np.isfinite(found.gap))


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        self_expression(DenseGram(gram(np.random.default_rng(7), 50, 10)), alpha=0.1)
