"""Kernel values against direct formulas; Gram matrices positive semidefinite; bad parameters refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm, logm

from samples import spd
from spdcluster.kernels import KERNELS, Kernel, make_kernel

MATRIX_KERNELS = [name for name in KERNELS if name != "precomputed"]


def direct(name, x, y, gamma, degree, coef0):
    """k(x, y) from the formulas of the paper, one pair at a time."""
    if name == "stein":
        det = lambda m: np.linalg.det(m).real  # noqa: E731
        return (np.sqrt(det(x) * det(y)) / det((x + y) / 2)) ** gamma
    a, b = (logm(x), logm(y)) if name.startswith("log-") else (x, y)
    inner = np.sum(a.conj() * b).real
    return {
        "gaussian": np.exp(-gamma * np.linalg.norm(a - b) ** 2),
        "polynomial": (gamma * inner + coef0) ** degree,
        "exponential": np.exp(gamma * inner),
        "linear": inner,
    }[name.removeprefix("log-")]


@pytest.mark.parametrize("name", MATRIX_KERNELS)
@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_values_against_direct_formulas(name, complex_, normalize):
    X = spd(np.random.default_rng(0), 6, 3, complex_=complex_)
    gamma, degree, coef0 = (2.0 if name == "stein" else 0.07), 3, 0.5
    kernel = make_kernel(name, gamma=gamma, degree=degree, coef0=coef0, normalize=normalize)
    G = kernel.bind(X)
    K = np.array([[direct(name, x, y, gamma, degree, coef0) for y in X] for x in X])
    if normalize:
        K /= np.sqrt(np.outer(np.diag(K), np.diag(K)))
    np.testing.assert_allclose(G.dense(), K, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(G.diagonal(), np.diag(K), rtol=1e-9)
    rows, columns = np.array([4, 1]), slice(2, 5)
    np.testing.assert_allclose(G.block(rows, columns), K[rows][:, columns], rtol=1e-9, atol=1e-12)
    values, own = G.new_rows(kernel.features(X[:2]))
    np.testing.assert_allclose(values, K[:2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(own, np.diag(K)[:2], rtol=1e-9)
    assert kernel.gamma_ is not None


@given(
    st.sampled_from(MATRIX_KERNELS), st.integers(0, 10**6), st.integers(2, 5), st.booleans(),
    st.sampled_from([1e-26, 1.0, 1e12]), st.booleans(),
)  # fmt: skip
def test_gram_matrices_are_positive_semidefinite(name, seed, d, complex_, scale, normalize):
    X = spd(np.random.default_rng(seed), 12, d, scale=scale, complex_=complex_)
    X[5] = X[4]
    K = make_kernel(name, normalize=normalize).bind(X).dense()
    eigenvalues = np.linalg.eigvalsh(K)
    assert np.isfinite(K).all()
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("name", ["log-gaussian", "stein", "gaussian"])
def test_kernels_of_differences_do_not_see_scale(name):
    X = spd(np.random.default_rng(1), 10, 4)
    K = make_kernel(name).bind(X).dense()
    for scale in (1e-26, 1e12):
        np.testing.assert_allclose(make_kernel(name).bind(X * scale).dense(), K, rtol=1e-7)


@pytest.mark.parametrize(
    "name", ["log-gaussian", "log-linear", "log-polynomial", "log-exponential"]
)
def test_log_kernels_do_not_see_rotations(name):
    rng = np.random.default_rng(2)
    X = spd(rng, 10, 4)
    Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    expected = make_kernel(name).bind(X).dense()
    np.testing.assert_allclose(make_kernel(name).bind(Q @ X @ Q.T).dense(), expected, rtol=1e-9)


def test_gaussian_kernel_is_exact_for_near_duplicates_beside_a_far_outlier():
    rng = np.random.default_rng(3)
    v = rng.normal(size=(30, 100))
    v[1] = v[0] + 1e-6
    v[2] += 1e12
    K = make_kernel("gaussian", gamma=1.0).bind(v).dense()
    assert K[0, 1] == pytest.approx(np.exp(-100 * 1e-12), abs=1e-9)
    assert K[0, 2] == 0.0


def test_scale_gamma_is_one_over_the_mean_squared_distance():
    v = np.random.default_rng(4).normal(size=(50, 7)) + 5
    kernel = make_kernel("gaussian").fit(v)
    distances = ((v[:, None] - v) ** 2).sum(-1)
    assert kernel.gamma_ == pytest.approx(1 / distances.mean())
    assert make_kernel("polynomial").fit(v).gamma_ == pytest.approx(1 / (v**2).sum(1).mean())


@pytest.mark.parametrize("name", ["log-gaussian", "gaussian", "log-polynomial", "log-exponential"])
@pytest.mark.parametrize(
    ("text", "multiple"),
    [("0.1*scale", 0.1), (" 3 * scale ", 3.0), (".5*scale", 0.5), ("2e-3*scale", 2e-3)],
)
def test_gamma_as_a_multiple_of_scale(name, text, multiple):
    X = spd(np.random.default_rng(8), 12, 3)
    scale = make_kernel(name, normalize=True).fit(X).gamma_
    kernel = make_kernel(name, gamma=text, normalize=True)
    K = kernel.bind(X).dense()
    assert kernel.gamma_ == pytest.approx(multiple * scale)
    expected = make_kernel(name, gamma=multiple * scale, normalize=True).bind(X).dense()
    np.testing.assert_allclose(K, expected, rtol=1e-12)


def test_stein_width_as_a_multiple_is_the_next_valid_one():
    X = spd(np.random.default_rng(9), 20, 5, condition=3.0)
    centre = expm(np.mean([logm(x) for x in X], axis=0))
    det = np.linalg.det
    divergence = [np.log(det((x + centre) / 2)) - np.log(det(x @ centre)) / 2 for x in X]
    target = 1 / np.mean(divergence)
    assert target > 4  # so that both sides of the limit 2 are tried
    wide, narrow = 1.2 / target, 0.5
    assert make_kernel("stein", gamma="0.5*scale").fit(X).gamma_ == pytest.approx(narrow * target)
    assert make_kernel("stein", gamma=f"{wide}*scale").fit(X).gamma_ == 1.5


@pytest.mark.parametrize(
    "text",
    ["auto", "scal", "Scale", "0*scale", "-1*scale", "nan*scale", "inf*scale", "scale*2", "2scale", "2*Scale",
     "1_0*scale", "0.1*", "*scale", "0.1", "", "1e999*scale"],
)  # fmt: skip
def test_malformed_gamma_gives_one_error_that_says_what_is_accepted(text):
    with pytest.raises(ValueError, match=r'gamma must be "scale", a multiple .*"0\.1\*scale"') as e:
        make_kernel("log-gaussian", gamma=text)
    assert repr(text) in str(e.value)


def test_large_vectors_use_products_and_agree_with_differences():
    v = np.random.default_rng(5).normal(size=(300, 200))
    expected = np.exp(-0.01 * ((v[:, None] - v) ** 2).sum(-1))
    np.testing.assert_allclose(
        make_kernel("gaussian", gamma=0.01).bind(v).dense(), expected, rtol=1e-9
    )


def test_users_own_function_and_class():
    v = np.random.default_rng(6).normal(size=(9, 4))

    class Cauchy(Kernel):
        def features(self, X):
            return np.asarray(X)

        def block(self, A, B):
            return 1 / (1 + ((A[:, None] - B) ** 2).sum(-1))

    def cauchy(X, Y):
        return 1 / (1 + ((X[:, None] - Y) ** 2).sum(-1))

    expected = cauchy(v, v)
    for own in (Cauchy(), cauchy):
        np.testing.assert_allclose(make_kernel(own).bind(v).dense(), expected)
        np.testing.assert_allclose(make_kernel(own).bind(v).diagonal(), 1.0)
    three = make_kernel(lambda X, Y: 3 * cauchy(X, Y), normalize=True)
    np.testing.assert_allclose(three.bind(v).dense(), expected)
    with pytest.raises(ValueError, match=r"returned shape \(9,\) for 9 x 9 inputs"):
        make_kernel(lambda X, Y: X[:, 0]).bind(v).dense()
    with pytest.raises(ValueError, match="returned NaN"):
        make_kernel(lambda X, Y: np.nan * cauchy(X, Y)).bind(v).dense()


def test_stein_kernel_refuses_widths_that_are_not_positive_definite():
    X = spd(np.random.default_rng(7), 5, 4)
    for good in (0.5, 1.0, 1.5, 1.7, 30.0):
        make_kernel("stein", gamma=good).bind(X)
    with pytest.raises(ValueError, match=r"gamma=0.7 .*4 x 4 symmetric.*0.5, 1, 1.5.*above 1.5"):
        make_kernel("stein", gamma=0.7).bind(X)
    with pytest.raises(ValueError, match=r"gamma=1.5 .*Hermitian.*1, 2, 3.*above 3"):
        make_kernel("stein", gamma=1.5).bind(X.astype(complex))


@pytest.mark.parametrize(
    ("complex_", "refused", "valid"),
    [(False, [0.1, 0.25, 0.4], [0.5, 0.75, 1.0]), (True, [0.25, 0.5, 0.75], [1.0, 1.5])],
)
def test_stein_widths_are_refused_where_and_only_where_a_gram_matrix_is_indefinite(
    complex_, refused, valid
):
    # a lattice around the identity carries the differential operator det(d/dX), whose square has the sign
    # of beta (beta - 1/2), or beta (beta - 1) on Hermitian matrices, in the quadratic form of the kernel
    basis = [[[1, 0], [0, 0]], [[0, 0], [0, 1]], [[0, 1], [1, 0]], [[0, 1j], [-1j, 0]]]
    basis = np.array(basis) if complex_ else np.array(basis[:3]).real
    steps = list(itertools.product((-0.4, 0.0, 0.4), repeat=len(basis)))
    X = np.eye(2) + np.tensordot(steps, basis, 1)
    for beta in refused + valid:
        K = np.array([[direct("stein", x, y, beta, 0, 0) for y in X] for x in X])
        eigenvalues = np.linalg.eigvalsh(K)
        if beta in refused:
            assert eigenvalues[0] < -1e-5 * eigenvalues[-1]
            with pytest.raises(ValueError, match=f"gamma={beta} does not give a positive definite"):
                make_kernel("stein", gamma=beta).bind(X)
        else:
            assert eigenvalues[0] > -1e-14 * eigenvalues[-1]
            np.testing.assert_allclose(
                make_kernel("stein", gamma=beta).bind(X).dense(), K, rtol=1e-9
            )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"kernel": "log-gausian"},
            ValueError,
            r"kernel must be one of.*Did you mean 'log-gaussian'",
        ),
        ({"kernel": 3}, TypeError, r"kernel must be a name.*got 3"),
        ({"gamma": "auto"}, ValueError, r'gamma must be "scale".* or a real number greater than 0'),
        ({"gamma": -1.0}, ValueError, r"gamma must be a finite real number greater than 0.*-1.0"),
        ({"gamma": np.nan}, ValueError, r"gamma must be a finite real number"),
        ({"gamma": None}, TypeError, r"gamma must be a finite real number.*None"),
        ({"degree": 1.5}, TypeError, r"degree must be an integer of at least 1"),
        ({"degree": 0}, ValueError, r"degree must be an integer of at least 1"),
        ({"coef0": -0.1}, ValueError, r"coef0 must be a finite real number of at least 0"),
        ({"normalize": "yes"}, TypeError, r"normalize must be True or False"),
        ({"regularization": -1}, ValueError, r"regularization must be"),
    ],
)
def test_bad_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        make_kernel(**arguments)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((3, 4)), r"X must be a square Gram matrix.*\(3, 4\)"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), r"X must be symmetric.*0.4"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), r"X must be positive semidefinite.*-1"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), r"X contains NaN"),
    ],
)
def test_bad_precomputed_kernels(K, message):
    with pytest.raises(ValueError, match=message):
        make_kernel("precomputed").bind(K)


def test_widths_that_no_number_can_hold_are_refused():
    X = spd(np.random.default_rng(10), 5, 3, scale=1e-300)
    with pytest.warns(RuntimeWarning), pytest.raises(ValueError, match=r"overflows.*gamma=inf"):
        make_kernel("gaussian").bind(X)
    assert np.isfinite(make_kernel("log-gaussian").bind(X).dense()).all()


def test_exponential_kernel_says_when_it_overflows():
    X = spd(np.random.default_rng(8), 5, 3, scale=1e-26)
    with pytest.raises(ValueError, match=r"overflows.*gamma=1.*normalize=True"):
        make_kernel("log-exponential", gamma=1.0).bind(X)
    assert np.isfinite(
        make_kernel("log-exponential", gamma=1.0, normalize=True).bind(X).dense()
    ).all()
