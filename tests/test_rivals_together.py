"""All methods side by side: geometry pays on curved data, the scikit-learn habits hold, imports are cheap."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from rivals_data import flat_submanifolds
from samples import groups
from spdcluster import LRR, LRSC, SSC, KernelLRR, KernelSSC, TangentSSC
from spdcluster.metrics import clustering_accuracy

RIEMANNIAN = [
    KernelSSC(3, kernel="log-linear", alpha=0.01, alpha_mode="relative", random_state=0),
    TangentSSC(3, alpha=0.01, random_state=0),
    KernelLRR(3, kernel="log-linear", tau=1e4, random_state=0),
]
EUCLIDEAN = [
    KernelSSC(3, kernel="linear", alpha=0.01, alpha_mode="relative", random_state=0),
    SSC(3, random_state=0),
    SSC(3, affine=True, random_state=0),
    LRR(3, lam=100.0, weight_mode="relative", random_state=0),
    LRSC(3, tau=1e4, alpha=1e4, weight_mode="relative", random_state=0),
    KernelLRR(3, kernel="linear", tau=1e4, random_state=0),
]
ALL = [SSC(3), LRR(3), LRSC(3), TangentSSC(3), KernelLRR(3)]


def mean_accuracy(model):
    scores = []
    for seed in range(3):
        X, y = flat_submanifolds(np.random.default_rng(seed), 3, 40, 6)
        scores.append(clustering_accuracy(y, model.fit_predict(X)))
    return np.mean(scores)


@pytest.mark.parametrize("model", RIEMANNIAN, ids=str)
def test_riemannian_methods_find_curved_submanifolds(model):
    assert mean_accuracy(model) > 0.98


@pytest.mark.parametrize("model", EUCLIDEAN, ids=str)
def test_euclidean_methods_do_not(model):
    assert mean_accuracy(model) < 0.9


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_every_method_takes_spd_and_hpd_matrices_and_reports(model, dtype):
    X, _ = groups(np.random.default_rng(0), 3, 12, 3, complex_=np.dtype(dtype).kind == "c")
    model = clone(model).set_params(random_state=0).fit(X.astype(dtype))
    assert model.labels_.shape == (36,)
    assert model.representation_.shape == model.affinity_.shape == (36, 36)
    assert abs(model.affinity_ - model.affinity_.T).max() == 0
    assert model.affinity_.diagonal().max() == 0
    assert model.objective_ > 0
    if hasattr(model, "tol") and not isinstance(model, KernelLRR):
        assert model.dual_gap_ <= 1e-6
        assert model.n_iter_ >= 1


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_every_method_clones_pickles_and_repeats(model):
    X, _ = groups(np.random.default_rng(1), 3, 12, 3)
    model = clone(model).set_params(random_state=7).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(clone(again).fit_predict(X), model.labels_)
    read_only = X.copy()
    read_only.setflags(write=False)
    for same in (read_only, np.asfortranarray(X), X.tolist()):
        assert np.array_equal(clone(model).fit_predict(same), model.labels_)


def test_import_is_cheap_and_compiles_nothing():
    code = (
        "import sys; from spdcluster import SSC, LRR, LRSC, TangentSSC, KernelLRR; "
        "print(sorted({'numba', 'pyriemann', 'matplotlib', 'skimage'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
