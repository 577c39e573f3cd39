"""Codes of many atoms beyond the memory budget are those of the solver that has the Gram matrix in memory."""

import numpy as np
import pytest

from spdcluster.expression import certify, many_atoms, self_expression, tiles
from spdcluster.expression.factor import (
    MANY,
    append_atom,
    remove_atom,
    solve_transposed,
    solve_upper,
)
from spdcluster.kernels import VectorGram


def points(kind, n, p, seed=0):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(n, p)) * 0.5
    if kind == "duplicates":
        V = V[rng.integers(0, n // 3, n)]
    elif kind == "near duplicates":
        V = V[rng.integers(0, n // 3, n)] + 1e-6 * rng.normal(size=(n, p))
    elif kind == "near singular":
        V *= 0.1
    elif kind == "groups":
        V = V * 0.5 + 2.0 * rng.normal(size=(5, p))[rng.integers(0, 5, n)]
    elif kind == "outlier":
        V[0] += 1e5
    return V


@pytest.mark.parametrize(
    ("kind", "alpha", "l1_ratio"),
    [
        ("plain", 1e-4, 1.0),
        ("plain", 1e-5, 1.0),
        ("plain", 1e-3, 0.9),
        ("plain", 1e-4, 0.5),
        ("groups", 1e-4, 1.0),
        ("duplicates", 1e-4, 1.0),
        ("near duplicates", 1e-4, 1.0),
        ("near singular", 1e-4, 1.0),
        ("near singular", 1e-6, 1.0),
        ("outlier", 1e-4, 1.0),
    ],
)
def test_codes_of_many_atoms_are_those_of_the_gram_matrix_in_memory(kind, alpha, l1_ratio):
    G = VectorGram(points(kind, 500, 3), "gaussian")
    options = {"alpha": alpha, "l1_ratio": l1_ratio}
    lean = self_expression(G, memory_budget=0, **options)
    dense = self_expression(G, **options)
    np.testing.assert_allclose(lean.objective, dense.objective, rtol=1e-7, atol=1e-12)
    assert lean.gap.max() <= 1e-8
    proof = certify(G, lean.coef, alpha, l1_ratio)
    np.testing.assert_allclose(lean.objective, proof.objective, rtol=1e-8, atol=1e-12)
    assert proof.violation.max() <= alpha * 1e-9 + 1e-12


def test_rows_of_many_atoms_are_solved_in_step(monkeypatch):
    G = VectorGram(points("plain", 600, 4), "gaussian")
    solved = []
    whole = tiles.solve_many_atoms

    def watch(tree, rows, todo, *rest):
        solved.extend(rows[todo])
        whole(tree, rows, todo, *rest)

    monkeypatch.setattr(tiles, "solve_many_atoms", watch)
    result = self_expression(G, alpha=1e-4, memory_budget=0)
    assert result.coef.nnz / 600 > 64
    assert len(set(solved)) == 600
    solved.clear()
    self_expression(G, alpha=0.3, memory_budget=0)
    assert solved == []


def test_more_atoms_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(tiles, "ROOM", 64)
    G = VectorGram(points("plain", 600, 4), "gaussian")
    lean = self_expression(G, alpha=1e-4, memory_budget=0)
    assert np.diff(lean.coef.indptr).max() > 64
    np.testing.assert_allclose(
        lean.objective, self_expression(G, alpha=1e-4).objective, rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_of_many_atoms_do_not_depend_on_threads(dtype, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 256)
    G = VectorGram(points("groups", 700, 3).astype(dtype).astype(np.float64), "gaussian")
    one = self_expression(G, alpha=1e-4, memory_budget=0, n_jobs=1)
    two = self_expression(G, alpha=1e-4, memory_budget=0, n_jobs=2)
    assert (one.coef != two.coef).nnz == 0
    assert certify(G, one.coef, 1e-4).relative_gap.max() <= 1e-6


def test_factors_are_kept_or_made_again():
    rng = np.random.default_rng(0)
    bench = many_atoms.make_bench(4, 60)
    V = rng.normal(size=(60, 4))
    K = np.exp(-((V[:, None] - V) ** 2).sum(-1))
    store = many_atoms.Store(
        np.empty(2500), np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.int64),
        np.zeros(1, np.int64),
    )  # fmt: skip
    sizes = {}
    for s, m in [(0, 20), (1, 30), (0, 35), (2, 10), (3, 59), (2, 25), (1, 12)]:
        atoms = np.arange(s, s + m) % 60
        for a in range(m):
            append_atom(bench.U, a, np.append(K[atoms[:a], atoms[a]], 0.0), 1.0)
        bench.k_atoms[:m] = K[59, atoms]
        many_atoms.keep_factor(m, s, store, bench)
        sizes[s] = m
    assert np.any(store.counts < 0)
    assert np.sum(store.counts > 0) >= 2
    for s, m in sizes.items():
        atoms = np.arange(s, s + m) % 60
        bench.U[:], bench.k_atoms[:] = np.nan, np.nan
        many_atoms.load_factor(V, 59, 0.0, atoms, m, s, store, bench)
        U = np.triu(bench.U[:m, :m])
        U[np.arange(m), np.arange(m)] = 1.0 / np.diagonal(U)
        np.testing.assert_allclose(U.T @ U, K[np.ix_(atoms, atoms)], atol=1e-12)
        np.testing.assert_allclose(bench.k_atoms[:m], K[59, atoms], rtol=1e-12)


@pytest.mark.parametrize("m", [1, MANY - 1, MANY, MANY + 1, 37, 64, 131])
def test_a_factor_follows_atoms_of_any_number(m):
    rng = np.random.default_rng(m)
    X = rng.normal(size=(m + 3, 2 * m + 6))
    A = X @ X.T / m + np.eye(m + 3)
    U, rest, y = np.full((m + 3, m + 3), np.nan), list(range(m + 3)), np.empty(0)
    for a in rest:
        append_atom(U, a, A[:a, a].copy(), A[a, a])
    for place in (0, m + 1, m // 2):
        remove_atom(U, len(rest), place, y)
        del rest[place]
        b = rng.normal(size=len(rest))
        x = b.copy()
        solve_transposed(U, len(rest), x)
        solve_upper(U, len(rest), x, x)
        np.testing.assert_allclose(A[np.ix_(rest, rest)] @ x, b, atol=1e-9)
