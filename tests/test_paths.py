"""Penalties by number of atoms, and codes along lists of penalties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import lars_path_gram

from samples import gram
from spdcluster import KernelSSC
from spdcluster.expression import certify, expression_path, self_expression
from spdcluster.kernels import DenseGram, VectorGram, make_kernel
from test_large import KINDS, points


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 80),
    p=st.integers(1, 12),
    kind=st.sampled_from(KINDS),
    most=st.integers(1, 12),
    budget=st.sampled_from([0.0, 256e6]),
)
def test_atoms_are_a_cap_and_the_code_is_exact_at_its_own_penalty(seed, n, p, kind, most, budget):
    G = VectorGram(points(np.random.default_rng(seed), n, p, kind), "gaussian")
    expression = self_expression(G, alpha=most, alpha_mode="atoms", memory_budget=budget, n_jobs=1)
    assert np.diff(expression.coef.indptr).max() <= most
    assert expression.gap.max() <= 1e-6
    assert certify(G, expression.coef, expression.alpha).relative_gap.max() <= 1e-6


def test_penalty_of_the_cap_is_where_lars_would_add_one_more():
    K = gram(np.random.default_rng(0), 40, 60)
    for most in (1, 4, 9):
        expression = self_expression(DenseGram(K), alpha=most, alpha_mode="atoms")
        for i in range(0, 40, 7):
            others = np.delete(np.arange(40), i)
            lams, _, path = lars_path_gram(
                K[others, i], K[np.ix_(others, others)], n_samples=1, method="lasso"
            )
            sizes = (path != 0).sum(0)  # number of atoms at each breakpoint
            first_beyond = np.argmax(sizes > most)
            assert expression.alpha[i] == pytest.approx(2 * lams[first_beyond - 1], rel=1e-6)


def test_both_memory_regimes_give_the_same_penalties():
    V = points(np.random.default_rng(1), 700, 5, "curve")
    for G in (VectorGram(V, "gaussian"), make_kernel("polynomial").bind(V)):
        whole = self_expression(G, alpha=6, alpha_mode="atoms")
        lean = self_expression(G, alpha=6, alpha_mode="atoms", memory_budget=0)
        np.testing.assert_allclose(lean.alpha, whole.alpha, rtol=1e-6)


def test_estimator_takes_a_number_of_atoms():
    rng = np.random.default_rng(2)
    V = np.concatenate([rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 8])
    model = KernelSSC(2, kernel="gaussian", alpha=5, alpha_mode="atoms", random_state=0).fit(V)
    assert np.diff(model.representation_.indptr).max() <= 5
    assert len(set(model.labels_[:40])) == 1
    assert np.array_equal(model.predict(V), model.labels_)


@pytest.mark.parametrize("budget", [0.0, 256e6])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.8])
@pytest.mark.parametrize("mode", ["absolute", "relative"])
def test_each_step_of_a_path_is_as_exact_as_alone(budget, l1_ratio, mode):
    G = VectorGram(points(np.random.default_rng(3), 250, 4, "groups"), "gaussian")
    alphas = np.geomspace(0.5, 0.005, 6)
    options = {"alpha_mode": mode, "l1_ratio": l1_ratio}
    path = expression_path(G, alphas, memory_budget=budget, **options)
    for alpha, step in zip(alphas, path, strict=True):
        alone = self_expression(G, alpha=alpha, **options)
        np.testing.assert_allclose(step.objective, alone.objective, rtol=1e-9)
        np.testing.assert_allclose(step.alpha, alone.alpha)
        assert step.gap.max() <= 1e-9


def test_a_path_with_codes_of_many_atoms_makes_room():
    K = gram(np.random.default_rng(4), 200, 300) / 300
    path = expression_path(DenseGram(K), [0.5, 0.05, 1e-4])
    assert np.diff(path[-1].coef.indptr).max() > 100
    assert max(step.gap.max() for step in path) < 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 2.5}, r"alpha must be a number of atoms.*2.5"),
        ({"alpha": 3, "l1_ratio": 0.5}, r'alpha_mode="atoms".*l1_ratio=0.5'),
        ({"alpha": 3, "solver": "admm"}, r'alpha_mode="atoms".*solver=.admm'),
    ],
)
def test_bad_caps(arguments, message):
    with pytest.raises(ValueError, match=message):
        self_expression(DenseGram(np.eye(4)), alpha_mode="atoms", **arguments)


@pytest.mark.parametrize("alphas", [[], [0.1, 0.1], [0.1, 0.2]])
def test_bad_paths(alphas):
    with pytest.raises(ValueError, match="alphas must be decreasing"):
        expression_path(DenseGram(np.eye(4)), alphas)
