"""What every estimator says of bad parameters and input, before it does any work."""

import re
import time

import numpy as np
import pytest

from spdcluster import LRR, LRSC, SSC, KernelSSC
from spdcluster.presets import best


def matrices(n=30, d=3, *, hermitian=False, seed=0):
    rng = np.random.default_rng(seed)
    shape = (3, d, d)
    mixing = rng.normal(size=shape) + (1j * rng.normal(size=shape) if hermitian else 0)
    A = mixing[np.arange(n) % 3] @ rng.normal(size=(n, d, 12 * d))
    return A @ A.conj().swapaxes(1, 2)


LAST_STEP = [
    ({"n_components": 0}, ValueError, r"n_components must be an integer in \[1, 30\]; got 0"),
    ({"n_components": 31}, ValueError, r"n_components must be an integer in \[1, 30\]; got 31"),
    ({"n_components": 2.5}, TypeError, r"n_components must be an integer .*; got 2\.5 \(float\)"),
    ({"eigenvalue_power": -1}, ValueError, "eigenvalue_power must be a .* at least 0; got -1"),
    ({"eigenvalue_power": "2"}, TypeError, "eigenvalue_power must be .*; got '2'"),
    ({"degree_regularization": -1.0}, ValueError, "degree_regularization must be .*; got -1.0"),
    ({"random_state": "seed"}, ValueError, "random_state must be None, an integer .* got 'seed'"),
    ({"random_state": -1}, ValueError, "random_state must be None, an integer from 0 .* got -1"),
    ({"n_init": 0}, ValueError, "n_init must be an integer of at least 1; got 0"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), LAST_STEP)
def test_parameters_of_the_last_step_are_checked_before_the_work(
    parameters, error, message, monkeypatch
):
    def express(self, X):
        raise AssertionError("the work began")

    monkeypatch.setattr(KernelSSC, "_express", express)
    with pytest.raises(error, match=message):
        KernelSSC(3, **parameters).fit(matrices())


GRAM = matrices().reshape(30, -1) @ matrices().reshape(30, -1).T


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (matrices(), r'square Gram matrix with kernel="precomputed".*got shape \(30, 3, 3\)'),
        (GRAM[:, :20], r"square Gram matrix .*got shape \(30, 20\)"),
        (np.where(np.eye(30), np.nan, GRAM), r"X\[0\] contains NaN \(30 of 30 rows do\)"),
        (np.where(np.arange(30) == 4, np.inf, GRAM), r"X\[0\] contains infinity"),
    ],
)
def test_what_is_no_gram_matrix_is_said_in_one_line(X, message):
    with pytest.raises(ValueError, match=message) as caught:
        KernelSSC(3, kernel="precomputed").fit(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(5,), (1, 5, 3, 3)])
@pytest.mark.parametrize("model", [KernelSSC(kernel="gaussian"), SSC(), LRR(), LRSC()], ids=str)
def test_neither_matrices_nor_vectors_are_told_by_their_shape(model, shape):
    with pytest.raises(
        ValueError, match=re.escape("3-D, of shape (n_matrices, d, d), or 2-D")
    ) as caught:
        model.fit(np.ones(shape))
    assert f"got shape {shape}" in str(caught.value)


def test_new_rows_of_a_gram_matrix_need_not_be_square_but_as_long_as_it():
    K = np.exp(-(np.subtract.outer(np.arange(6.0), np.arange(6.0)) ** 2))
    model = KernelSSC(2, kernel="precomputed", random_state=0).fit(K)
    assert np.array_equal(model.predict(K[:2]), model.labels_[:2])
    with pytest.raises(ValueError, match=r"shape \(n_new, N\).*4 features.* expecting 6"):
        model.predict(K[:, :4])


def test_real_matrices_are_hermitian_to_a_model_fitted_to_complex_ones():
    X = matrices(hermitian=True)
    model = KernelSSC(3, random_state=0).fit(X)
    new = matrices(seed=1)
    np.testing.assert_array_equal(model.predict(new), model.predict(new.astype(complex)))


def test_complex_matrices_are_refused_by_a_model_fitted_to_real_ones():
    model = KernelSSC(3, random_state=0).fit(matrices())
    with pytest.raises(ValueError, match="X must be real, as in fit; got dtype complex128: fit on"):
        model.predict(matrices(hermitian=True))


def test_more_components_than_distinct_matrices_are_no_error():
    X = np.repeat(matrices(5), 6, axis=0)
    model = KernelSSC(**best(len(X), 3), random_state=0).fit(X)
    assert model.get_params()["n_components"] == 6
    assert len(set(model.labels_)) == 3


def test_a_wrong_number_of_clusters_is_told_at_once():
    X = np.broadcast_to(np.eye(3), (200_000, 3, 3))
    start = time.perf_counter()
    with pytest.raises(ValueError, match="n_clusters=200001 is more than the n_samples=200000"):
        KernelSSC(200_001).fit(X)
    assert time.perf_counter() - start < 5
