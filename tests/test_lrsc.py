"""`LRSC`: each closed form against a general solver of the same objective."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD, subspaces
from samples import groups
from spdcluster import LRSC
from spdcluster.expression.lrsc import clean_singular_values, expression_cost, lrsc
from spdcluster.metrics import clustering_accuracy

VARIANTS = ("noisy", "noisy-exact", "uncorrupted", "noise-free")


def clean_data(X, factors, tau, alpha):
    """The A that goes with a code: the data with their singular values thresholded."""
    U, s, V = np.linalg.svd(X, full_matrices=False)
    return (U * clean_singular_values(s, tau, alpha)) @ V


@pytest.mark.parametrize("tau", [0.05, 1.0, 20.0])
def test_uncorrupted_is_the_solution_of_a_general_convex_solver(tau):
    X = np.random.default_rng(0).normal(size=(9, 5))
    found = lrsc(X, tau=tau, variant="uncorrupted")
    C = found.dense()
    value = np.linalg.norm(C, "nuc") + tau / 2 * np.sum((X - C @ X) ** 2)
    assert found.objective == pytest.approx(value, rel=1e-12)
    variable = cp.Variable((9, 9), symmetric=True)
    cost = cp.normNuc(variable) + tau / 2 * cp.sum_squares(X - variable @ X)
    best = cp.Problem(cp.Minimize(cost)).solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9)
    assert value == pytest.approx(best, rel=1e-5)


def test_noise_free_is_the_solution_of_a_general_convex_solver():
    X = np.random.default_rng(1).normal(size=(8, 3))
    found = lrsc(X, variant="noise-free")
    np.testing.assert_allclose(found.dense() @ X, X, atol=1e-12)
    C = cp.Variable((8, 8), symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.normNuc(C)), [C @ X == X])
    best = problem.solve(solver="SCS", eps_abs=1e-9, eps_rel=1e-9)
    assert found.objective == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(found.dense(), C.value, atol=1e-4)


@pytest.mark.parametrize(("tau", "alpha"), [(1.0, 0.01), (1.0, 1.0), (0.5, 20.0), (5.0, 0.5)])
def test_no_alternating_minimisation_beats_the_noisy_closed_form(tau, alpha):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(10, 4)) * np.array([4.0, 2.0, 1.0, 0.3])
    found = lrsc(X, tau=tau, alpha=alpha)
    C, A = found.dense(), clean_data(X, found, tau, alpha)

    def cost(A, C):
        fit = tau / 2 * np.sum((A - C @ A) ** 2) + alpha / 2 * np.sum((X - A) ** 2)
        return np.linalg.norm(C, "nuc") + fit

    assert found.objective == pytest.approx(cost(A, C), rel=1e-9)
    for start in range(40):
        # A for fixed C is a linear system; C for fixed A the convex problem tested above
        A = X * rng.uniform(0, 2) if start % 2 else rng.normal(size=X.shape) * 3
        for _ in range(200):
            C = lrsc(A, tau=tau, variant="uncorrupted").dense() if np.any(A) else np.zeros((10, 10))
            M = np.eye(10) - C
            A = np.linalg.solve(tau * M.T @ M + alpha * np.eye(10), alpha * X)
        assert cost(A, C) >= found.objective * (1 - 1e-9)


@given(st.floats(0.0, 50.0), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_polynomial_thresholding_is_the_global_minimum_of_the_scalar_problem(s, tau, alpha):
    found = clean_singular_values(np.array([s]), tau, alpha)[0]
    grid = np.linspace(0.0, s, 20001)

    def cost(value):
        return expression_cost(tau * value**2) + alpha / 2 * (s - value) ** 2

    assert 0.0 <= found <= s
    assert cost(found) <= cost(grid).min() * (1 + 1e-12) + 1e-15


def test_variants_are_limits_of_the_noisy_one():
    X = np.random.default_rng(3).normal(size=(12, 4))
    exact = lrsc(X, alpha=0.3, variant="noisy-exact")
    np.testing.assert_allclose(lrsc(X, tau=1e9, alpha=0.3).dense(), exact.dense(), atol=1e-6)
    assert lrsc(X, tau=1e9, alpha=0.3).objective == pytest.approx(exact.objective, rel=1e-6)
    given_data = lrsc(X, tau=0.5, variant="uncorrupted")
    np.testing.assert_allclose(lrsc(X, tau=0.5, alpha=1e9).dense(), given_data.dense(), atol=1e-6)
    free = lrsc(X, variant="noise-free")
    np.testing.assert_allclose(
        lrsc(X, tau=1e9, variant="uncorrupted").dense(), free.dense(), atol=1e-6
    )


@pytest.mark.parametrize(
    ("dimensions", "ambient"), [([2, 3, 4], 20), ([4, 5, 6], 50), ([6, 6, 6, 6], 100)]
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_independent_subspaces_are_found(dimensions, ambient, variant):
    X, y = subspaces(np.random.default_rng(4), dimensions, ambient, 40)
    model = LRSC(len(dimensions), tau=1e4, alpha=1e4, variant=variant, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert model.rank_ == sum(dimensions)


def test_scale_does_not_matter_in_relative_mode_and_a_zero_code_is_announced():
    X, _ = groups(np.random.default_rng(5), 3, 15, 3)
    model = LRSC(3, tau=1e4, alpha=1e4, weight_mode="relative", random_state=0)
    labels = model.fit_predict(X)
    for scale in (1e-13, 1e6):
        assert clustering_accuracy(labels, model.fit_predict(X * scale)) == 1.0
    with pytest.warns(UserWarning, match=r'LRSC: the code is zero.*weight_mode="relative"'):
        LRSC(3, random_state=0).fit(X * 1e-13)


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({"tau": 0.0}, GOOD, ValueError, r"tau must be"),
        ({"alpha": "x"}, GOOD, TypeError, r"alpha must be"),
        ({"variant": "noise free"}, GOOD, ValueError, r"Did you mean 'noise-free'"),
        ({"weight_mode": "relativ"}, GOOD, ValueError, r"Did you mean 'relative'"),
        ({"n_neighbors": 0}, GOOD, ValueError, r"n_neighbors must be"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        LRSC(**{"n_clusters": 3, **parameters}).fit(X)


@parametrize_with_checks(
    [
        LRSC(n_clusters=3, n_init=3, random_state=0, tau=1e4, alpha=1e4, weight_mode="relative"),
        LRSC(n_clusters=3, n_init=3, random_state=0, variant="noise-free"),
    ]
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
