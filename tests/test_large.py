"""The solvers that never form the Gram matrix give the answer of the one that does."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from samples import groups
from spdcluster import KernelSSC
from spdcluster.expression import certify, self_expression
from spdcluster.expression.active_set import largest_size
from spdcluster.expression.gaussian import gaussian_rows, gaussian_rows_single
from spdcluster.expression.intrinsics import (
    LANES,
    kernel_row,
    kernel_values,
    lanes_above,
    largest_difference,
    rows_above,
    sum_lanes,
)
from spdcluster.expression.screening import UNSURE, gradient_error, needs_double, single_margin
from spdcluster.expression.tiles import Tile
from spdcluster.expression.tree import LEAF, build_tree
from spdcluster.kernels import KernelGram, VectorGram, make_kernel
from spdcluster.kernels.base import CallableKernel


def points(rng, n, p, kind):
    """Vectors of a kind that is hard for somebody."""
    V = rng.normal(size=(n, p))
    if kind == "groups":
        V = V * 0.1 + 3 * rng.normal(size=(4, p))[rng.integers(0, 4, n)]
    elif kind == "duplicates":
        V = V[rng.integers(0, max(1, n // 3), n)]
    elif kind == "near duplicates":
        V = V[rng.integers(0, max(1, n // 3), n)] + 1e-7 * V
    elif kind == "curve":
        t = rng.uniform(0, 6, n)[:, None]
        V = np.cos(t * np.arange(1, p + 1)) + 0.01 * V
    elif kind == "all ones":
        V = V * 1e-4
    elif kind == "identity":
        V = V * 30
    elif kind == "outlier":
        V[0] += 1e6
    return V


KINDS = [
    "plain",
    "groups",
    "duplicates",
    "near duplicates",
    "curve",
    "all ones",
    "identity",
    "outlier",
]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 300),
    p=st.integers(1, 20),
    kind=st.sampled_from(KINDS),
    alpha=st.sampled_from([1e-3, 0.02, 0.1, 0.5, 3.0]),
    l1_ratio=st.sampled_from([1.0, 1.0, 0.8]),
    mode=st.sampled_from(["absolute", "relative"]),
)
def test_tiles_are_exact_over_all_columns(seed, n, p, kind, alpha, l1_ratio, mode):
    G = VectorGram(points(np.random.default_rng(seed), n, p, kind), "gaussian")
    options = {"alpha": alpha, "alpha_mode": mode, "l1_ratio": l1_ratio, "n_jobs": 1}
    tiles = self_expression(G, memory_budget=0, **options)
    proof = certify(G, tiles.coef, tiles.alpha, l1_ratio)
    np.testing.assert_allclose(tiles.objective, proof.objective, rtol=1e-8, atol=1e-12)
    assert np.all(proof.violation <= tiles.alpha * 1e-9 + 1e-12)
    assert proof.relative_gap.max() <= 1e-6
    dense = self_expression(G, **options)
    np.testing.assert_allclose(tiles.objective, dense.objective, rtol=1e-7, atol=1e-11)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 120),
    kind=st.sampled_from(KINDS[:5]),
    kernel=st.sampled_from(["gaussian", "polynomial", "linear", "own"]),
    alpha=st.sampled_from([0.01, 0.1, 0.5]),
    l1_ratio=st.sampled_from([1.0, 0.7]),
)
def test_columns_are_exact_for_any_kernel(seed, n, kind, kernel, alpha, l1_ratio):
    V = points(np.random.default_rng(seed), n, 70 if kernel == "gaussian" else 6, kind)
    if kernel == "own":
        G = KernelGram(CallableKernel(lambda A, B: 1 / (1 + ((A[:, None] - B) ** 2).sum(-1))), V)
    else:
        G = make_kernel(kernel).bind(V)
    options = {"alpha": alpha, "alpha_mode": "relative", "l1_ratio": l1_ratio, "n_jobs": 1}
    lean = self_expression(G, memory_budget=0, **options)
    dense = self_expression(G, **options)
    scale = np.abs(G.diagonal()).max()
    np.testing.assert_allclose(lean.alpha, dense.alpha, rtol=1e-12)
    np.testing.assert_allclose(lean.objective, dense.objective, rtol=1e-7, atol=1e-10 * scale)
    assert certify(G, lean.coef, lean.alpha, l1_ratio).relative_gap.max() <= 1e-6


@pytest.mark.parametrize("alpha", [0.04, 1e-4])
def test_many_tiles_do_not_depend_on_threads_or_order(alpha):
    rng = np.random.default_rng(0)
    V = points(rng, 1500, 5, "curve")
    one = self_expression(VectorGram(V, "gaussian"), alpha=alpha, memory_budget=0, n_jobs=1)
    two = self_expression(VectorGram(V, "gaussian"), alpha=alpha, memory_budget=0, n_jobs=2)
    assert (one.coef != two.coef).nnz == 0
    assert one.gap.max() < 1e-9
    order = rng.permutation(1500)
    again = self_expression(VectorGram(V[order], "gaussian"), alpha=alpha, memory_budget=0)
    np.testing.assert_allclose(again.objective, one.objective[order], rtol=1e-9)


def test_tile_size_does_not_matter(monkeypatch):
    from spdcluster.expression import columns, tiles

    V = points(np.random.default_rng(1), 700, 6, "groups")
    expected = self_expression(VectorGram(V, "gaussian"), alpha=0.03)
    for size in (64, 333, 4096):
        monkeypatch.setattr(tiles, "TILE", size)
        monkeypatch.setattr(columns, "TILE", size)
        for G in (VectorGram(V, "gaussian"), make_kernel("gaussian", gamma=1.0).bind(V)):
            lean = self_expression(G, alpha=0.03, memory_budget=0)
            np.testing.assert_allclose(lean.objective, expected.objective, rtol=1e-9)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), p=st.integers(1, 64), size=st.sampled_from([1e-3, 1.0, 30.0]))
def test_compiled_kernel_values_and_the_margin_of_single_precision(seed, p, size):
    rng = np.random.default_rng(seed)
    padded = -(-p // 4) * 4
    U, V = np.zeros((20, padded)), np.zeros((30, padded))
    centre = rng.normal(size=p) * size
    U[:, :p] = centre + rng.normal(size=(20, p)) * min(size, 1.0)
    V[:, :p] = centre + rng.normal(size=(30, p)) * min(size, 1.0)
    expected = np.exp(-((U[:, None] - V) ** 2).sum(-1))
    out = np.empty((20, 30))
    gaussian_rows(U, np.ascontiguousarray(V.T), 30, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-300)
    single = np.empty((20, 30), np.float32)
    gaussian_rows_single(
        U.astype(np.float32), np.ascontiguousarray(V.T.astype(np.float32)), 30, single,
    )  # fmt: skip
    norm = np.sqrt(max((U**2).sum(1).max(), (V**2).sum(1).max()))
    assert np.abs(single - expected).max() <= single_margin(padded, norm)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    p=st.sampled_from([4, 12, 16, 64]),
    m=st.integers(0, 30),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_gradients_at_the_members_of_a_leaf_are_within_their_margin(seed, p, m, size):
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=p) * size
    n = -(-(m + 1) // 4) * 4
    points = centre + rng.normal(size=(n, p)) * min(size, 1.0)
    columns = centre[:, None] + rng.normal(size=(3, p, 2 * LANES)) * min(size, 1.0)
    there, places = columns[1, :, 5 : 5 + LANES], rng.permutation(n)
    factors = np.concatenate([[1.0], rng.normal(size=m), np.zeros(n - m - 1)])
    kernel = np.exp(-((points[:, :, None] - there) ** 2).sum(axis=1))
    exact = factors @ kernel[places]
    norm = np.sqrt(max((points**2).sum(1).max(), (columns**2).sum(1).max()))
    margin, limit = single_margin(p, norm), np.median(np.abs(exact))
    allowed = {
        np.float32: (margin, gradient_error(-factors[1 : m + 1], margin)),
        np.float64: 1e-14 * np.array([1.0, np.abs(factors).sum()]) * (1.0 + norm),
    }
    for precision, (of_value, of_sum) in allowed.items():
        values, out = np.full((n, LANES), np.nan, precision), np.empty((2, LANES), precision)
        single = [part.astype(precision) for part in (points, columns, factors)]
        bits, apart = _gradient_at_lanes(*single, limit, places.astype(np.int32), values, *out)
        assert np.abs(values - kernel).max() <= of_value
        assert np.abs(out[0] - exact).max() <= of_sum
        assert np.array_equal(out[0], out[1])
        assert apart == np.abs(out[0] - out[0, 3]).max()
        slack, above = of_sum + 1e-6 * limit, (bits >> np.arange(LANES)) & 1 == 1
        assert np.all(above[np.abs(exact) > limit + slack])
        assert not np.any(above[np.abs(exact) < limit - slack])


@njit
def _gradient_at_lanes(points, columns, factors, limit, places, values, out, again):
    n = len(points)
    kernel_values(points, np.arange(n).astype(np.int32), n, columns, 1, 5, values)
    sum_lanes(values, places, factors, 0, n, again)
    bits = lanes_above(values, places, factors, 0, n, limit, out)
    return bits, largest_difference(out, out[3])


@pytest.mark.parametrize("p", [4, 16, 36])
def test_kernel_values_of_one_point_on_many_columns(p):
    rng = np.random.default_rng(0)
    point, columns = rng.normal(size=p) * 0.3, rng.normal(size=(3, p, 128)) * 0.3
    expected = np.exp(-((point[:, None] - columns[2]) ** 2).sum(axis=0))
    for precision, error in ((np.float32, single_margin(p, 10.0)), (np.float64, 1e-14)):
        out = np.zeros(256, precision)
        _kernel_row(point.astype(precision), columns.astype(precision), out)
        assert np.abs(out[64:192] - expected).max() <= error
        assert not np.any(out[:64])
        assert not np.any(out[192:])


@njit
def _kernel_row(point, columns, out):
    kernel_row(point, columns, 2, out, 64)


def test_rows_are_open_where_both_bounds_leave_them_open():
    rng = np.random.default_rng(0)
    g, residual, error = rng.normal(size=(20, 48)), *rng.uniform(size=(2, 48))
    reach, sums, rests = rng.uniform(size=20), rng.uniform(size=20), rng.uniform(size=(20, LANES))
    support = rng.integers(0, 20, size=(20, 5)).astype(np.int32)
    weights = rng.normal(size=(20, 5, LANES)) * 0.3
    limit = rng.uniform(0.5, 3.0, size=48)
    limit[40:] = np.inf
    single = [
        x.astype(np.float32) for x in (g, reach, weights, rests, sums, residual, error, limit)
    ]
    seen = set()
    for leaf in range(20):
        first = np.abs(g[leaf]) + residual * reach[leaf]
        members = np.abs(weights[leaf].T @ g[support[leaf]]) + residual * rests[leaf][:, None]
        second = members.max(axis=0) + sums[leaf] * error
        for start in (0, 16, 32):
            bits = _rows_above(leaf, start, support, *single)
            expected = (np.minimum(first, second) > limit)[start : start + LANES]
            assert np.array_equal((bits >> np.arange(LANES)) & 1 == 1, expected)
            seen |= set(expected)
    assert seen == {True, False}


@njit
def _rows_above(leaf, start, support, g, reach, weights, rests, sums, residual, error, limit):
    return rows_above(g, leaf, start, reach, support, weights, rests, sums, residual, error, limit)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(60, 400),
    kind=st.sampled_from(KINDS),
    alpha=st.sampled_from([1e-5, 0.02, 0.3]),
)
def test_a_sweep_finds_violators_of_any_codes_with_what_it_knows(seed, n, kind, alpha):
    rng = np.random.default_rng(seed)
    tree = build_tree(points(rng, n, 6, kind))
    rows, lam = np.arange(3, 50), np.full(n, alpha / 2)
    tile = Tile(tree, rows, lam[rows], np.zeros(len(rows)), 500, np.zeros(1, np.bool_))
    K = np.exp(-((tree.points[:, None] - tree.points) ** 2).sum(-1))
    full = np.zeros((len(rows), n))
    for size in (0.3, 1e-2, 1e-4):  # smaller and smaller moves of codes
        for t, row in enumerate(rows):
            atoms = rng.choice(np.delete(np.arange(n), row), 5, replace=False)
            atoms = np.union1d(np.flatnonzero(full[t]), atoms)
            change = rng.normal(size=len(atoms)) * size
            full[t, atoms] += change
            m, c = len(atoms), full[t, atoms]
            inner = K[np.ix_(atoms, atoms)]
            tile.known.moved[t] += np.sqrt(max(0.0, change @ inner @ change) + 1e-15)
            tile.codes.sizes[t], tile.codes.atoms[t, :m], tile.codes.c[t, :m] = m, atoms, c
            tile.codes.values[t, 2] = 1 - 2 * c @ K[row, atoms] + c @ inner @ c
        g = np.abs(K[rows] - full @ K)
        g[full != 0] = 0.0
        g[np.arange(len(rows)), rows] = 0.0
        is_double = needs_double(np.arange(len(rows)), tile.lam, tile.margin, tile.codes)
        for double in (False, True):
            todo, found = tile._sweep(np.flatnonzero(is_double == double), double)
            for s, t in enumerate(todo):
                if found.counts[s] == UNSURE:
                    assert not double
                    continue
                steepest, clear = g[t].max(), 1e-9 * alpha + 1e-12
                if abs(steepest - lam[0]) > clear:
                    assert (found.counts[s] > 0) == (steepest > lam[0])
                for column in found.columns[s, : found.counts[s]]:
                    assert g[t, column] > lam[0] - clear
                error = gradient_error(full[t, full[t] != 0], tile.margin)
                assert found.steepest[s] >= max(steepest, lam[0]) - clear
                assert found.steepest[s] <= max(steepest + 2.0 * error, lam[0]) + clear


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_largest_sizes_are_found_wherever_they_stand(dtype):
    rng = np.random.default_rng(0)
    for n in [0, 1, 7, 8, 9, 31, 100]:
        g = rng.normal(size=n + 5).astype(dtype)
        for start in range(5):
            expected = np.abs(g[start : start + n]).max(initial=0.0)
            assert largest_size(g, start, start + n) == expected


@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 9), st.sampled_from(KINDS))
def test_tree_holds_every_point_once_and_bounds_its_leaves(seed, n, p, kind):
    V = points(np.random.default_rng(seed), n, p, kind)
    tree = build_tree(V)
    assert np.array_equal(np.sort(tree.order), np.arange(n))
    np.testing.assert_array_equal(tree.points[:, :p], V[tree.order])
    sizes = np.diff(tree.leaf_starts)
    assert sizes.min() >= 1
    assert sizes.max() <= LEAF
    for leaf in range(len(sizes)):
        members = np.arange(tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1])
        assert np.all(tree.leaf_of[members] == leaf)
        square = ((tree.points[members] - tree.centres[leaf]) ** 2).sum(1)
        assert np.all(np.sqrt(-2 * np.expm1(-square)) <= tree.reach[leaf])
        assert tree.support[leaf, 0] == leaf
        w = tree.weights[leaf, :, : len(members)].astype(float)
        assert np.all(np.abs(w).sum(axis=0) <= tree.weight_sums[leaf])
        around = tree.centres[tree.support[leaf]].astype(float)
        K = np.exp(-((around[:, None] - around) ** 2).sum(-1))
        k = np.exp(-((around[:, None] - tree.points[members]) ** 2).sum(-1))
        rest = 1.0 - 2.0 * (w * k).sum(axis=0) + ((K @ w) * w).sum(axis=0)
        assert np.all(
            np.sqrt(np.maximum(rest, 0.0)) <= tree.unexplained[leaf, : len(members)] + 1e-9
        )


def test_estimator_uses_the_budget_and_predicts_without_the_gram_matrix():
    X, _ = groups(np.random.default_rng(2), 4, 60, 4, spread=0.2)
    for kernel in ("log-gaussian", "log-linear"):
        whole = KernelSSC(4, kernel=kernel, normalize=True, random_state=0).fit(X)
        lean = KernelSSC(4, kernel=kernel, normalize=True, random_state=0, memory_budget=0).fit(X)
        assert np.abs((whole.representation_ - lean.representation_).toarray()).max() < 1e-7
        assert np.array_equal(whole.labels_, lean.labels_)
        assert np.array_equal(whole.predict(X[::3]), lean.predict(X[::3]))


def test_memory_stays_far_below_the_gram_matrix():
    code = textwrap.dedent(
        """
        import resource, sys
        import numpy as np
        from spdcluster.kernels import VectorGram
        from spdcluster.expression import self_expression
        rng = np.random.default_rng(0)
        t = rng.uniform(0, 6, 9000)[:, None]
        V = np.cos(t * np.arange(1, 7)) + 0.05 * rng.normal(size=(9000, 6))
        self_expression(VectorGram(V[:500], "gaussian"), memory_budget=0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = self_expression(VectorGram(V, "gaussian"))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print((after - before) / 1024, result.gap.max())
        """
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    megabytes, gap = map(float, out.stdout.split())
    assert megabytes < 256 < 8 * 9000**2 / 2**20
    assert gap < 1e-9


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kernel", ["gaussian", "polynomial"])
def test_control_c_stops_the_solver_and_its_threads(kernel):
    code = textwrap.dedent(
        f"""
        import numpy as np, threading, time
        from spdcluster.expression import self_expression
        from spdcluster.kernels import make_kernel
        V = np.random.default_rng(0).normal(size=(40000, 8))
        G = make_kernel("{kernel}").bind(V)
        self_expression(G.subset(np.arange(200)), memory_budget=0)
        print("ready", flush=True)
        try:
            self_expression(G, alpha=0.01, alpha_mode="relative" if "{kernel}" != "gaussian" else "absolute")
        except KeyboardInterrupt:
            print(threading.active_count(), flush=True)
        """
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert child.stdout.readline() == "1\n"  # no thread is left behind
        assert child.wait(60) == 0
        print(f"stopped after {time.monotonic() - start:.2f} s")


def test_a_tile_that_fails_ends_the_run(monkeypatch):
    from spdcluster.expression import tiles

    def fail(self, todo):
        raise MemoryError("none left")

    monkeypatch.setattr(tiles, "TILE", 64)
    monkeypatch.setattr(tiles.Tile, "_finish", fail)
    V = points(np.random.default_rng(0), 600, 4, "groups")
    with pytest.raises(MemoryError, match="none left"):
        self_expression(VectorGram(V, "gaussian"), alpha=0.03, memory_budget=0, n_jobs=2)
