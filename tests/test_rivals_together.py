"""All methods side by side: geometry pays on curved data, the scikit-learn habits hold, imports are cheap."""

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import logm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from rivals_data import flat_submanifolds
from samples import groups, spd
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


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_exact_copies_share_a_label(model):
    X, y = groups(np.random.default_rng(2), 3, 12, 3, spread=0.1)
    twice = np.concatenate([X, X[::3], X[::5]])
    model = clone(model).set_params(random_state=0)
    labels = model.fit_predict(twice)
    assert np.array_equal(labels[36:48], labels[:36:3])
    assert np.array_equal(labels[48:], labels[:36:5])
    assert model.affinity_.shape == (56, 56)
    if not isinstance(model, TangentSSC):  # which all neighbours confuse here, copies or not
        assert clustering_accuracy(y, labels[:36]) == 1.0
    with pytest.warns(ConvergenceWarning, match="only 1 distinct matrices for n_clusters=3"):
        assert set(model.fit_predict(np.repeat(X[:1], 9, axis=0))) == {0}


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        ("gaussian", partial(rbf_kernel, gamma=0.02)),
        ("polynomial", partial(polynomial_kernel, degree=3, gamma=0.02, coef0=1.0)),
    ],
)
def test_kssce_is_kernel_ssc_on_flattened_matrices(kernel, values):
    """Patel and Vidal 2014, with the kernel matrix of another library."""
    X, _ = groups(np.random.default_rng(6), 3, 12, 3)
    parameters = {"alpha": 0.4, "normalize": True, "random_state": 0}
    model = KernelSSC(3, kernel=kernel, gamma=0.02, degree=3, coef0=1.0, **parameters).fit(X)
    K = values(X.reshape(36, 9))
    given = KernelSSC(3, kernel="precomputed", **parameters).fit(K)
    difference = (model.representation_ - given.representation_).toarray()
    assert np.abs(difference).max() < 1e-9
    assert np.array_equal(model.labels_, given.labels_)


def test_elastic_net_in_the_log_domain_is_the_problem_of_its_authors():
    """You et al. 2016: tau |c|_1 + (1 - tau)/2 |c|^2 + gamma_i/2 |x_i - cX|^2 on unit vectors."""
    X = spd(np.random.default_rng(3), 25, 3)
    model = KernelSSC(
        3, kernel="log-linear", normalize=True, alpha=0.02, alpha_mode="relative", l1_ratio=0.9,
        affinity="row-normalized", random_state=0,
    ).fit(X)  # fmt: skip
    logs = np.array([logm(x).ravel() for x in X])
    units = logs / np.linalg.norm(logs, axis=1, keepdims=True)
    tau, expected = 0.9, np.zeros((25, 25))
    for i in range(25):
        others = np.delete(np.arange(25), i)
        gamma = 50 * tau / np.abs(units[others] @ units[i]).max()
        # scikit-learn: |x - cX|^2 / (2 n) + a l1_ratio |c|_1 + a (1 - l1_ratio)/2 |c|^2, n the length of x
        net = ElasticNet(
            alpha=1 / (9 * gamma), l1_ratio=tau, fit_intercept=False, tol=1e-14, max_iter=10**6
        )
        expected[i, others] = net.fit(units[others].T, units[i]).coef_
    np.testing.assert_allclose(model.representation_.toarray(), expected, atol=1e-6)
    size = np.abs(expected) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.affinity_.toarray(), (size + size.T) / 2, atol=1e-5)


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from samples import groups
from test_rivals_together import ALL, KernelSSC
X, _ = groups(np.random.default_rng(4), 3, 200, 6, spread=0.4)
X = np.concatenate([X, X[:7]])
for model in [*ALL, KernelSSC(3), KernelSSC(3, solver="admm", tol=1e-2)]:
    print(hashlib.sha256(model.set_params(random_state=5).fit_predict(X).tobytes()).hexdigest())
"""


def test_labels_do_not_depend_on_threads_of_the_linear_algebra():
    runs = []
    for threads in ("1", "2"):
        environment = os.environ | dict.fromkeys(
            ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads
        )
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(Path(__file__).parent)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        runs.append(run.stdout)
    assert len(runs[0].split()) == len(ALL) + 2
    assert len(set(runs)) == 1


@pytest.mark.parametrize("model", [*ALL, KernelSSC()], ids=lambda model: type(model).__name__)
def test_docstrings_say_what_is_solved_what_it_costs_and_when_to_choose_it(model):
    text = type(model).__doc__
    for part in ("min_", "O(N", "Choose it", "References", "Examples", "labels_", "affinity_"):
        assert part in text


def test_import_is_cheap_and_compiles_nothing():
    code = (
        "import sys; from spdcluster import SSC, LRR, LRSC, TangentSSC, KernelLRR; "
        "print(sorted({'numba', 'pyriemann', 'matplotlib', 'skimage'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
