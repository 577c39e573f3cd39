"""Rows solved from float32 kernel values: as exact as from float64, and who is left for another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdcluster.expression import active_set, certify, mixed, self_expression
from spdcluster.expression.screening import gradient_error
from spdcluster.kernels import DenseGram, VectorGram, make_kernel


def gaussian_points(rng, n, p=6, groups=5, spread=0.5):
    """Vectors around a few centres."""
    return (
        spread * rng.normal(size=(n, p))
        + 2 * rng.normal(size=(groups, p))[rng.integers(0, groups, n)]
    )


def solve(source, n, alpha, l1_ratio=1.0, max_rounds=1000, capacity=mixed.CAPACITIES[0]):
    """All rows of a source; sizes, atoms, coefficients, values, rounds, states."""
    lam, mu = np.full(n, alpha * l1_ratio / 2), np.full(n, alpha * (1 - l1_ratio) / 2)
    sizes, rounds, states = (np.zeros(n, np.int64) for _ in range(3))
    known = (sizes, np.zeros((n, 4)), rounds, states)
    stop, rows = np.zeros(1, np.bool_), np.arange(n)
    atoms, c = mixed.solve_rows_mixed(
        source, rows, rows, lam, mu, max_rounds, capacity, known, stop
    )
    return sizes, atoms, c, known[1], rounds, states


def dense_codes(found, n):
    """Codes as a matrix (n, n)."""
    sizes, atoms, c, *_ = found
    C = np.zeros((n, n))
    C[np.repeat(np.arange(n), sizes), atoms] = c
    return C


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 200),
    alpha=st.sampled_from([0.01, 0.04, 0.2, 1.0]),
    l1_ratio=st.sampled_from([1.0, 1.0, 0.7, 0.2]),
    copies=st.sampled_from([1, 1, 3]),
    of_matrix=st.booleans(),
)
def test_every_solved_row_is_optimal_in_float64(seed, n, alpha, l1_ratio, copies, of_matrix):
    rng = np.random.default_rng(seed)
    V = gaussian_points(rng, n)[rng.integers(0, -(-n // copies), n)]
    G = VectorGram(V, "gaussian")
    K = G.dense(1)
    source = mixed.source_of_matrix(K) if of_matrix else mixed.source_of_vectors(V, 1)
    found = solve(source, n, alpha, l1_ratio)
    done = found[5] == active_set.SOLVED
    C = dense_codes(found, n)
    c, lam, mu = C[done], alpha * l1_ratio / 2, alpha * (1 - l1_ratio) / 2
    g = K[done] - c @ K - mu * c
    g[np.arange(len(c)), np.flatnonzero(done)] = 0
    assert not np.diag(C).any()
    assert np.all(np.abs(g) <= lam * (1 + 1e-9) + 1e-14)
    on = c != 0
    np.testing.assert_allclose(g[on], (lam * np.sign(c))[on], rtol=1e-10, atol=1e-14)
    objective = 2 * lam * np.abs(c).sum(1) + mu * (c**2).sum(1) + 1 - 2 * (c * K[done]).sum(1)
    objective += ((c @ K) * c).sum(1)
    np.testing.assert_allclose(found[3][done, 0], objective, rtol=1e-12, atol=1e-14)


def test_almost_no_row_of_an_ordinary_problem_is_left():
    rng = np.random.default_rng(0)
    V = gaussian_points(rng, 600, p=10)
    found = solve(mixed.source_of_vectors(V, 1), 600, 0.04)
    assert found[0].mean() > 3
    assert np.mean(found[5] == active_set.SOLVED) > 0.95


@pytest.mark.parametrize("scale", [1e-26, 1e-3, 1e12, 1e150])
def test_the_scale_of_the_kernel_changes_nothing(scale):
    rng = np.random.default_rng(1)
    K = VectorGram(gaussian_points(rng, 150), "gaussian").dense(1)
    one = dense_codes(solve(mixed.source_of_matrix(K), 150, 0.05), 150)
    other = dense_codes(solve(mixed.source_of_matrix(K * scale), 150, 0.05 * scale), 150)
    np.testing.assert_allclose(other, one, atol=1e-12)


def test_float32_values_are_within_their_margin_and_zero_beyond():
    rng = np.random.default_rng(2)
    for n, shift in ((70, 0.0), (64, 1e3)):
        V = gaussian_points(rng, n, p=7) + shift
        K = VectorGram(V, "gaussian").dense(1)
        of_vectors, of_matrix = mixed.source_of_vectors(V, 1), mixed.source_of_matrix(3e5 * K)
        for source, wanted in ((of_vectors, K), (of_matrix, 3e5 * K)):
            assert source.single.shape == (n, mixed.padded(n))
            values = source.scale * source.single[:, :n].astype(np.float64)
            assert np.abs(values - wanted).max() <= source.scale * source.margin
            assert not source.single[:, n:].any()
    assert mixed.padded(n) / mixed.COLUMNS % 2 == 1


def test_columns_that_float32_cannot_tell_from_the_penalty_are_asked_in_float64():
    # copies of atoms have exactly the penalty as their gradient; near copies are beyond it by 1e-9 of it
    rng = np.random.default_rng(3)
    V = gaussian_points(rng, 60)
    V = np.vstack([V, V[:30], V[:30] + 1e-9 * rng.normal(size=(30, 6))])
    n, alpha = len(V), 0.05
    K = VectorGram(V, "gaussian").dense(1)
    found = solve(mixed.source_of_vectors(V, 1), n, alpha)
    done = found[5] == active_set.SOLVED
    assert done.sum() > n / 4
    g = K - dense_codes(found, n) @ K
    np.fill_diagonal(g, 0)
    worst = np.abs(g).max(axis=1)
    assert np.all(worst[done] <= alpha / 2 * (1 + 1e-9))
    np.testing.assert_allclose(found[3][done, 3], np.maximum(worst, alpha / 2)[done], rtol=1e-11)


def test_penalties_below_float32_many_atoms_and_few_rounds_are_left():
    rng = np.random.default_rng(4)
    V = gaussian_points(rng, 300, p=20, spread=1.5)
    source = mixed.source_of_vectors(V, 1)
    assert gradient_error(np.zeros(0), source.margin) > mixed.MOST_ERROR * 1e-6
    assert np.all(solve(source, 300, 2e-6)[5] == mixed.LEFT)
    wide = mixed.source_of_vectors(0.15 * V, 1)
    many = solve(wide, 300, 2e-4)
    assert np.any(many[5] == active_set.OUT_OF_ROOM)
    assert np.all(many[0] <= mixed.CAPACITIES[0])
    assert not np.any(solve(wide, 300, 2e-4, capacity=192)[5] == active_set.OUT_OF_ROOM)
    assert np.any(solve(wide, 300, 0.02, max_rounds=2)[5] == mixed.LEFT)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
@pytest.mark.parametrize("alpha", [0.04, 3e-4])
def test_rows_that_are_left_are_solved_whatever_the_memory(kernel, alpha):
    V = gaussian_points(np.random.default_rng(5), 400, p=8)
    G = make_kernel(kernel).bind(V)
    full = self_expression(DenseGram(G.dense(1)), alpha=alpha, memory_budget=0, n_jobs=1)
    for budget in (1.05 * mixed.bytes_for(400), 8.5 * 400**2, 1e9):
        one = self_expression(G, alpha=alpha, memory_budget=budget, n_jobs=1)
        two = self_expression(G, alpha=alpha, memory_budget=budget, n_jobs=2)
        np.testing.assert_allclose(one.objective, full.objective, rtol=1e-9, atol=1e-12)
        assert certify(G, one.coef, one.alpha).relative_gap.max() <= 1e-9
        np.testing.assert_array_equal(one.coef.toarray(), two.coef.toarray())


def test_a_few_rows_that_are_left_get_columns_of_their_own():
    # a knot of near copies among ordinary points: only its rows need more than float32
    rng = np.random.default_rng(6)
    V = gaussian_points(rng, 500, spread=1.0)
    V[:20] = V[0] + 1e-4 * rng.normal(size=(20, 6))
    G = VectorGram(V, "gaussian")
    budget = 1.05 * mixed.bytes_for(500)
    assert budget < 8 * 500**2
    left = np.flatnonzero(solve(mixed.source_of_vectors(V, 1), 500, 0.01)[5] == mixed.LEFT)
    assert 0 < len(left) < 500 / 8
    few = self_expression(G, alpha=0.01, memory_budget=budget, n_jobs=1)
    assert certify(G, few.coef, few.alpha).relative_gap.max() <= 1e-9
