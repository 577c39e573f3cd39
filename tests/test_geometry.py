"""Geometry against matrix logarithms of scipy and against its own invariances."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import logm

from samples import spd
from spdcluster.geometry import check_matrices, distances, log_vectors, matrices_from_log_vectors


@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans(), st.sampled_from([1e-26, 1.0, 1e12]))
def test_log_vectors_inner_product_is_trace_of_logarithms(seed, d, complex_, scale):
    X = spd(np.random.default_rng(seed), 3, d, scale=scale, complex_=complex_)
    logs = np.array([logm(x / scale) + np.log(scale) * np.eye(d) for x in X])
    expected = np.einsum("iab,jba->ij", logs, logs).real
    v = log_vectors(X)
    assert v.shape == (3, d * d if complex_ else d * (d + 1) // 2)
    np.testing.assert_allclose(v @ v.T, expected, rtol=1e-8, atol=1e-8)


def test_log_vectors_do_not_depend_on_threads_or_layout():
    X = spd(np.random.default_rng(0), 40_000, 4)
    expected = log_vectors(X, n_jobs=1)
    X.setflags(write=False)
    assert np.array_equal(log_vectors(X, n_jobs=2), expected)
    assert np.array_equal(log_vectors(np.asfortranarray(X)), expected)
    assert np.array_equal(log_vectors(X[:5].tolist()), expected[:5])


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64, np.complex128])
def test_log_vectors_keep_single_precision_but_compute_in_double(dtype):
    X = spd(np.random.default_rng(1), 50, 5, complex_=np.issubdtype(dtype, np.complexfloating))
    v = log_vectors(X.astype(dtype))
    single = dtype in (np.float32, np.complex64)
    assert v.dtype == (np.float32 if single else np.float64)
    np.testing.assert_allclose(v, log_vectors(X), atol=1e-4 if single else 1e-12)


def test_exponential_of_log_vectors_gives_the_matrices_back():
    for complex_ in (False, True):
        X = spd(np.random.default_rng(2), 20, 6, complex_=complex_)
        np.testing.assert_allclose(matrices_from_log_vectors(log_vectors(X), 6), X, atol=1e-12)


def test_regularization_is_relative_to_each_matrix():
    X = spd(np.random.default_rng(3), 4, 3)
    singular = X.copy()
    singular[2] = np.outer([1, 2, 3], [1, 2, 3]) * 1e-26
    v = log_vectors(singular, regularization=1e-3)
    ridge = 1e-3 * np.trace(singular, axis1=1, axis2=2) / 3
    expected = singular + ridge[:, None, None] * np.eye(3)
    np.testing.assert_allclose(matrices_from_log_vectors(v, 3), expected, rtol=1e-9, atol=1e-36)


@pytest.mark.parametrize("metric", ["log-euclidean", "affine-invariant", "stein"])
@pytest.mark.parametrize("complex_", [False, True])
def test_distances_against_direct_formulas(metric, complex_):
    rng = np.random.default_rng(4)
    X, Y = spd(rng, 5, 3, complex_=complex_), spd(rng, 4, 3, complex_=complex_)

    def direct(a, b):
        if metric == "log-euclidean":
            return np.linalg.norm(logm(a) - logm(b))
        if metric == "affine-invariant":
            return np.sqrt(np.sum(np.log(np.linalg.eigvals(np.linalg.solve(a, b)).real) ** 2))
        det = lambda m: np.linalg.det(m).real  # noqa: E731
        return np.sqrt(np.log(det((a + b) / 2)) - 0.5 * np.log(det(a) * det(b)))

    expected = [[direct(a, b) for b in Y] for a in X]
    np.testing.assert_allclose(distances(X, Y, metric), expected, rtol=1e-9)
    D = distances(X, metric=metric)
    np.testing.assert_allclose(D, D.T, atol=1e-7)
    np.testing.assert_allclose(np.diag(D), 0, atol=1e-7)
    wide = spd(rng, 2, 3, complex_=True)
    mixed = distances(X.real * np.eye(3), wide, metric)
    np.testing.assert_allclose(mixed, [[direct(a, b) for b in wide] for a in X.real * np.eye(3)])
    for scale in (1e-26, 1e12):
        np.testing.assert_allclose(distances(X * scale, Y * scale, metric), expected, rtol=1e-9)


def test_affine_invariance_and_rotation_invariance():
    rng = np.random.default_rng(5)
    X = spd(rng, 6, 4)
    A = rng.normal(size=(4, 4))
    Q, _ = np.linalg.qr(A)
    for metric in ("affine-invariant", "stein"):
        moved = distances(A @ X @ A.T, metric=metric)
        np.testing.assert_allclose(moved, distances(X, metric=metric), atol=1e-6)
    np.testing.assert_allclose(distances(Q @ X @ Q.T), distances(X), atol=1e-12)


GOOD = spd(np.random.default_rng(6), 4, 3)


def bad(change):
    X = GOOD.copy()
    change(X)
    return X


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (GOOD[0], ValueError, r"X must be 3-D.*\(3, 3\).*X\[np.newaxis\]"),
        (np.ones(3), ValueError, r"X must be 3-D.*\(3,\)"),
        (np.ones((4, 2, 3)), ValueError, r"X must hold square matrices.*\(4, 2, 3\)"),
        (np.ones((0, 3, 3)), ValueError, r"at least 1 matrix.*\(0, 3, 3\)"),
        (bad(lambda X: X.__setitem__((2, 0, 0), np.nan)), ValueError, r"X\[2\] contains NaN"),
        (bad(lambda X: X.__setitem__((1, 0, 0), np.inf)), ValueError, r"X\[1\] contains infinity"),
        (bad(lambda X: X.__setitem__((3, 0, 1), 9.0)), ValueError, r"X\[3\] is not symmetric.*9"),
        (GOOD + 0.3j, ValueError, r"X\[0\] is not Hermitian"),
        (bad(lambda X: X.__setitem__(1, -X[1])), ValueError,
         r"X\[1\] is not positive definite: its smallest eigenvalue is -.*largest -.*regulari[sz]ation"),
        (bad(lambda X: X.__setitem__(2, np.ones((3, 3)))), ValueError,
         r"X\[2\] is not positive definite.*smallest eigenvalue.*regulari[sz]ation=1e-6"),
        (np.array([["a", "b"]]), TypeError, r"X must be an array of numbers; got text"),
        (np.array([{}, None], dtype=object), TypeError, r"X must be an array of numbers; got objects"),
        ([[[1.0, 2.0], [3.0]]], ValueError, r"X must be an array of numbers; its parts differ"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", [check_matrices, log_vectors])
def test_bad_matrices_give_one_clear_error(function, X, error, message):
    with pytest.raises(error, match=message):
        function(X)


def test_matrices_of_zeros_are_told_that_no_regularization_helps():
    for function in (check_matrices, partial(log_vectors, regularization=1e-6)):
        with pytest.raises(
            ValueError, match=r"X\[1\] is not .*drop it: regularization is relative"
        ):
            function(bad(lambda X: X.__setitem__(1, 0.0)))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_singular_matrices_are_refused_in_single_precision_too(dtype):
    """Rounding gives them eigenvalues of some 1e-8 of the largest, which say nothing."""
    rng = np.random.default_rng(7)
    A = rng.normal(size=(200, 5, 3)).astype(dtype)
    singular = A @ A.conj().swapaxes(1, 2)
    scales = np.diag([1.0, 0.01, 100.0, 0.1, 10.0])  # features in units of their own
    definite = (scales @ spd(rng, 200, 5, condition=1e4) @ scales).astype(dtype)
    for function in (check_matrices, log_vectors, distances):
        function(definite)
        for x in singular:
            with pytest.raises(ValueError, match=r"X\[0\] is not positive definite"):
                function(x[None])
    v = log_vectors(singular, regularization=1e-6)
    ridge = 1e-6 * np.trace(singular, axis1=1, axis2=2).real / 5
    smallest = np.linalg.eigvalsh(matrices_from_log_vectors(v.astype(float), 5))[:, 0]
    np.testing.assert_allclose(smallest, ridge, rtol=0.2)


def test_distances_refuse_unknown_metric_and_different_sizes():
    with pytest.raises(ValueError, match=r"metric must be one of.*'steni'.*Did you mean 'stein'"):
        distances(GOOD, metric="steni")
    with pytest.raises(ValueError, match=r"Y must hold matrices of the size of X"):
        distances(GOOD, spd(np.random.default_rng(0), 2, 4))
