"""`KernelSSC` as its users meet it: labels, certificate, invariances, scikit-learn, bad input."""

import pickle
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import ElasticNet
from sklearn.metrics import normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from rivals_data import BAD_MATRICES, GOOD, subspaces
from samples import groups, objective, spd
from spdcluster import KernelSSC
from spdcluster.kernels import make_kernel
from spdcluster.kernels.stein import SteinKernel
from spdcluster.metrics import clustering_accuracy

MATRIX_KERNELS = [
    "log-gaussian", "log-polynomial", "log-exponential", "log-linear", "stein",
    "gaussian", "polynomial", "linear",
]  # fmt: skip


@pytest.mark.parametrize("kernel", MATRIX_KERNELS)
@pytest.mark.parametrize("complex_", [False, True])
def test_every_kernel_runs_and_its_certificate_is_true(kernel, complex_):
    X, _y = groups(np.random.default_rng(0), 3, 20, 4, complex_=complex_)
    model = KernelSSC(
        3, kernel=kernel, normalize=True, alpha=0.1, alpha_mode="relative", random_state=0
    ).fit(X)
    K = make_kernel(kernel, normalize=True).bind(X).dense()
    C = model.representation_.toarray()
    g = 2 * np.abs(K - C @ K)
    np.fill_diagonal(g, 0)
    assert np.all(g.max(1) <= model.alphas_ * (1 + 1e-6))
    assert model.objective_ == pytest.approx(objective(K, C, model.alphas_).sum(), rel=1e-9)
    assert model.dual_gap_ <= 1e-6
    assert model.labels_.shape == (60,)
    np.testing.assert_allclose(model.affinity_.toarray(), (np.abs(C) + np.abs(C.T)) / 2, atol=1e-15)
    assert model.embedding_.shape == (60, 3)


def gap_and_violation(K, C, alphas):
    """Largest relative gap and violation from the formulas of DESIGN, one row at a time; and each row's gap."""
    gaps, violations = [], []
    for i, (k, c, alpha) in enumerate(zip(K, C, alphas)):
        correlation = k - K @ c
        steepest = np.abs(np.delete(correlation, i)).max()
        s = min(1.0, alpha / (2 * steepest)) if steepest > 0 else 1.0
        squared = k[i] - 2 * k @ c + c @ K @ c
        primal = alpha * np.abs(c).sum() + squared
        gaps.append([primal - 2 * s * (k[i] - k @ c) + s**2 * squared, primal])
        violations.append(max(0.0, 2 * steepest - alpha))
    gap, primal = np.array(gaps).T
    return (gap / primal).max(), np.array(violations), gap


@pytest.mark.parametrize(
    ("parameters", "unfinished"),
    [({}, False), ({"max_iter": 1, "alpha": 1e-3}, True), ({"solver": "admm", "tol": 1e-2}, True)],
)
@pytest.mark.parametrize("kernel", ["log-gaussian", "log-polynomial", "stein", "linear"])
def test_reported_gap_is_true_whether_or_not_the_solver_has_finished(
    kernel, parameters, unfinished
):
    X, _ = groups(np.random.default_rng(12), 3, 20, 4)
    model = KernelSSC(3, kernel=kernel, normalize=True, random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    K = make_kernel(kernel, normalize=True).bind(X).dense()
    largest, violation, gap = gap_and_violation(K, model.representation_.toarray(), model.alphas_)
    assert model.dual_gap_ == pytest.approx(largest, rel=1e-6, abs=1e-12)
    assert (largest > model.tol) == unfinished
    # one step along the worst coordinate gains violation^2 / (4 k_jj), k_jj = 1: never more than the gap
    assert np.all(violation**2 / 4 <= np.maximum(gap, 0.0) + 1e-13)


@pytest.mark.parametrize(
    ("dimensions", "ambient"), [([2, 3, 4], 20), ([4, 5, 6], 50), ([6, 6, 6, 6], 100)]
)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.9])
def test_independent_subspaces_are_found_with_the_linear_kernel(dimensions, ambient, l1_ratio):
    X, y = subspaces(np.random.default_rng(13), dimensions, ambient, 40)
    model = KernelSSC(
        len(dimensions), kernel="linear", alpha=0.01, alpha_mode="relative", l1_ratio=l1_ratio,
        random_state=0,
    ).fit(X)  # fmt: skip
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert np.abs(model.representation_.toarray()[y[:, None] != y]).max() < 0.05


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("solver", ["active-set", "admm"])
def test_labels_are_perfect_on_separable_groups(complex_, solver):
    X, y = groups(np.random.default_rng(1), 4, 25, 5, spread=0.1, complex_=complex_)
    model = KernelSSC(4, solver=solver, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    new, truth = groups(np.random.default_rng(2), 4, 10, 5, spread=0.1, complex_=complex_)
    assert clustering_accuracy(truth, model.predict(new)) == 1.0
    assert np.array_equal(model.predict(X), model.labels_)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1e-26, 1e12]), st.booleans())
def test_labels_do_not_depend_on_scale_order_or_rotation(seed, scale, complex_):
    rng = np.random.default_rng(seed)
    X, _y = groups(rng, 3, 12, 3, spread=0.05, complex_=complex_)
    model = KernelSSC(3, random_state=0, n_init=5)
    labels = model.fit_predict(X)
    assert np.array_equal(model.fit_predict(X * scale), labels)
    order = rng.permutation(len(X))
    assert clustering_accuracy(labels[order], model.fit_predict(X[order])) == 1.0
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    assert clustering_accuracy(labels, model.fit_predict(Q @ X @ Q.T)) == 1.0
    twins = np.concatenate([X, X[:10]])
    assert clustering_accuracy(labels, model.fit_predict(twins)[: len(X)]) == 1.0


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(MATRIX_KERNELS))
def test_complex_input_without_imaginary_part_is_the_real_problem(seed, kernel):
    X, _ = groups(np.random.default_rng(seed), 3, 10, 3, spread=0.05)
    # a width that is valid for both: Stein's "scale" rounds to another grid on Hermitian matrices
    gamma = 2.0 if kernel == "stein" else "scale"
    model = KernelSSC(3, kernel=kernel, gamma=gamma, normalize=True, random_state=0, n_init=5)
    real, as_complex = clone(model).fit(X), clone(model).fit(X.astype(complex))
    assert clustering_accuracy(real.labels_, as_complex.labels_) == 1.0
    assert as_complex.objective_ == pytest.approx(real.objective_, rel=1e-8)
    difference = real.representation_ - as_complex.representation_
    assert np.abs(difference.toarray()).max() < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_and_other_containers(dtype):
    X, y = groups(np.random.default_rng(4), 3, 15, 4)
    model = KernelSSC(3, random_state=0)
    assert clustering_accuracy(y, model.fit_predict(X.astype(dtype))) == 1.0
    read_only = X.copy()
    read_only.setflags(write=False)
    expected = model.fit_predict(X)
    for same in (read_only, np.asfortranarray(X), X.tolist()):
        assert np.array_equal(model.fit_predict(same), expected)


def test_hostile_sets_get_labels():
    rng = np.random.default_rng(5)
    X = spd(rng, 12, 3)
    for hostile in (
        np.repeat(X[:3], 4, axis=0),  # exact duplicates
        np.concatenate([X[:11], X[:1] * 1e12]),  # one far outlier
        spd(rng, 12, 3, condition=1e12),  # nearly singular
    ):
        model = KernelSSC(3, random_state=0).fit(hostile)
        assert model.labels_.shape == (12,)
        assert model.dual_gap_ <= 1e-6
    with pytest.warns(ConvergenceWarning, match="only 1 distinct matrices for n_clusters=3"):
        assert set(KernelSSC(3).fit_predict(np.repeat(X[:1], 12, axis=0))) == {0}
    assert len(set(KernelSSC(12, random_state=0).fit_predict(X))) == 12
    assert set(KernelSSC(1).fit_predict(X)) == {0}


def test_penalty_so_large_that_all_codes_are_zero():
    X, _ = groups(np.random.default_rng(6), 2, 6, 3)
    with pytest.warns(UserWarning, match=r'every code is zero.*alpha=100.*alpha_mode="relative"'):
        model = KernelSSC(2, alpha=100.0, random_state=0).fit(X)
    assert model.representation_.nnz == 0
    assert model.dual_gap_ == 0.0
    assert model.predict(X).shape == (12,)


def test_precomputed_and_own_kernels_give_the_answer_of_the_named_one():
    X, _ = groups(np.random.default_rng(7), 3, 15, 4)
    named = KernelSSC(3, gamma=0.2, random_state=0).fit(X)
    kernel = make_kernel("log-gaussian", gamma=0.2)
    K = kernel.bind(X).dense()
    given_ = KernelSSC(3, kernel="precomputed", random_state=0).fit(K)
    assert np.array_equal(named.labels_, given_.labels_)
    assert np.array_equal(given_.predict(K[:20]), named.labels_[:20])

    def own(A, B):
        return kernel.block(kernel.features(A), kernel.features(B))

    users = KernelSSC(3, kernel=own, random_state=0).fit(X)
    assert np.array_equal(named.labels_, users.labels_)
    assert np.array_equal(users.predict(X[:20]), named.labels_[:20])
    assert named.gamma_ == 0.2


def test_one_kernel_object_serves_two_estimators():
    X, Y = spd(np.random.default_rng(13), 20, 4), spd(np.random.default_rng(14), 20, 4, 1.0, 1e4)
    for own in (make_kernel("log-gaussian"), SteinKernel()):
        model = KernelSSC(3, kernel=own, random_state=0).fit(X)
        gamma, labels = model.gamma_, model.predict(X[:5])
        assert KernelSSC(3, kernel=own, random_state=0).fit(Y).gamma_ != gamma
        assert model.kernel_.gamma_ == gamma
        assert np.array_equal(model.predict(X[:5]), labels)
        assert own.gamma_ is None


@pytest.mark.parametrize("alpha_mode", ["absolute", "relative"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_new_points_go_to_the_class_of_smallest_residual_by_the_code_of_another_library(
    alpha_mode, l1_ratio
):
    rng = np.random.default_rng(15)
    X, new = rng.normal(size=(40, 6)), rng.normal(size=(25, 6))
    model = KernelSSC(
        3, kernel="linear", alpha=0.2, alpha_mode=alpha_mode, l1_ratio=l1_ratio, random_state=0
    ).fit(X)
    expected = []
    for x in new:
        alpha = 0.2 * (2 * np.abs(X @ x).max() / l1_ratio if alpha_mode == "relative" else 1.0)
        # scikit-learn divides the square by twice the number of features
        net = ElasticNet(
            alpha=alpha / 12, l1_ratio=l1_ratio, fit_intercept=False, tol=1e-10, max_iter=10**6
        )
        c = net.fit(X.T, x).coef_
        classes = [model.labels_ == label for label in range(3)]
        expected.append(np.argmin([np.sum((x - c[own] @ X[own]) ** 2) for own in classes]))
    assert np.array_equal(model.predict(new), expected)


def test_solution_and_labels_do_not_depend_on_threads():
    X, _ = groups(np.random.default_rng(8), 4, 60, 5, spread=0.3)
    one = KernelSSC(4, n_jobs=1, random_state=3).fit(X)
    two = KernelSSC(4, n_jobs=2, random_state=3).fit(X)
    assert np.array_equal(one.labels_, two.labels_)
    assert np.array_equal(one.representation_.toarray(), two.representation_.toarray())


def test_clone_pickle_set_params_and_pipeline():
    from pyriemann.estimation import Covariances

    rng = np.random.default_rng(9)
    mixing = rng.normal(size=(2, 6, 6)) * 1e-6
    y = np.repeat([0, 1], 20)
    trials = mixing[y] @ rng.normal(size=(40, 6, 200))
    pipeline = make_pipeline(Covariances("oas"), KernelSSC(2, random_state=0))
    assert clustering_accuracy(y, pipeline.fit_predict(trials)) == 1.0
    assert clustering_accuracy(y, pipeline.predict(trials)) == 1.0
    model = clone(pipeline[-1]).set_params(n_clusters=3, alpha=0.1)
    assert (model.n_clusters, model.alpha) == (3, 0.1)
    again = pickle.loads(pickle.dumps(pipeline))
    assert np.array_equal(again.predict(trials), pipeline.predict(trials))


def test_regularization_makes_singular_matrices_usable():
    rng = np.random.default_rng(10)
    X, _y = groups(rng, 3, 10, 4)
    X[0] = np.outer([1, 0, 0, 0], [1, 0, 0, 0]) * np.trace(X[0])
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite.*regularization=1e-6"):
        KernelSSC(3).fit(X)
    for kernel in ("log-gaussian", "stein"):
        model = KernelSSC(3, kernel=kernel, regularization=1e-3, random_state=0).fit(X)
        assert model.dual_gap_ < 1e-6


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        *BAD_MATRICES,
        ({}, GOOD[0], ValueError, r"X must be 3-D"),
        (
            {},
            -GOOD,
            ValueError,
            r"X\[0\] is not positive definite: its smallest eigenvalue is -0\.9.*no small regularization",
        ),
        (
            {},
            np.ones((4, 2, 2)),
            ValueError,
            r"X\[0\] is not positive definite.*regularization=1e-6",
        ),
        ({}, [["a"]], TypeError, r"X must be an array of numbers; got text"),
        ({"alpha": -0.1}, GOOD, ValueError, r"alpha must be"),
        ({"alpha": None}, GOOD, TypeError, r"alpha must be"),
        ({"gamma": 0.0}, GOOD, ValueError, r"gamma must be"),
        ({"gamma": [1.0]}, GOOD, TypeError, r"gamma must be"),
        ({"l1_ratio": 2.0}, GOOD, ValueError, r"l1_ratio must be"),
        ({"l1_ratio": 0.0}, GOOD, ValueError, r"l1_ratio must be"),
        ({"l1_ratio": "1"}, GOOD, TypeError, r"l1_ratio must be"),
        ({"rho": "big"}, GOOD, TypeError, r"rho must be"),
        ({"rho": -1.0}, GOOD, ValueError, r"rho must be"),
        ({"tol": 0}, GOOD, ValueError, r"tol must be"),
        ({"tol": True}, GOOD, TypeError, r"tol must be"),
        ({"max_iter": 0.5}, GOOD, TypeError, r"max_iter must be"),
        ({"alpha_mode": "rel"}, GOOD, ValueError, r"Did you mean 'relative'"),
        ({"degree": 0, "kernel": "log-polynomial"}, GOOD, ValueError, r"degree must be"),
        ({"normalize": 1}, GOOD, TypeError, r"normalize must be True or False"),
        ({"kernel": "stein", "gamma": 0.3}, GOOD, ValueError, r"valid are 0.5, 1 and every value"),
        ({"kernel": "log-euclid"}, GOOD, ValueError, r"kernel must be one of"),
        ({"kernel": None}, GOOD, TypeError, r"kernel must be a name .*; got None"),
        ({"kernel": SteinKernel}, GOOD, TypeError, r"kernel must be a name .*; got <class"),
        ({"solver": "adm"}, GOOD, ValueError, r"Did you mean 'admm'"),
        ({"affinity": "row_normalized"}, GOOD, ValueError, r"Did you mean 'row-normalized'"),
        ({"kernel": "precomputed"}, np.ones((3, 4)), ValueError, r"square Gram matrix"),
        ({"kernel": "precomputed"}, -np.eye(4), ValueError, r"positive semidefinite"),
        ({"kernel": "precomputed"}, np.tri(4), ValueError, r"X must be symmetric"),
        ({"kernel": "precomputed"}, [["a"]], ValueError, r"X must be a square Gram matrix"),
    ],
)
def test_bad_input_gives_one_clear_error(parameters, X, error, message):
    with pytest.raises(error, match=message):
        KernelSSC(**{"n_clusters": 3, **parameters}).fit(X)


def test_predict_before_fit_or_with_another_size():
    with pytest.raises(NotFittedError):
        KernelSSC(2).predict(GOOD)
    failed = KernelSSC(2, alpha=-1.0)
    with pytest.raises(ValueError, match="alpha must be"):
        failed.fit(GOOD)
    with pytest.raises(NotFittedError):
        failed.predict(GOOD)
    model = KernelSSC(2, random_state=0).fit(GOOD)
    with pytest.raises(ValueError, match=r"inputs of shape \(3, 3\), as in fit; got \(4, 4\)"):
        model.predict(spd(np.random.default_rng(0), 2, 4))
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite"):
        model.predict(-GOOD)
    vectors = KernelSSC(2, kernel="gaussian", random_state=0).fit(GOOD.reshape(8, 9))
    with pytest.raises(ValueError, match=r"X has 4 features, but KernelSSC is expecting 9"):
        vectors.predict(np.ones((2, 4)))


def test_import_is_cheap_and_compiles_nothing():
    code = (
        "import sys, sklearn.cluster, time; t = time.perf_counter(); import spdcluster; "
        "from spdcluster import KernelSSC; "
        "heavy = {'numba', 'pyriemann', 'matplotlib', 'torch', 'skimage', 'h5py'} & set(sys.modules); "
        "print(sorted(heavy))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_import_takes_little_longer_than_that_of_scikit_learn():
    code = (
        "import sklearn.cluster, time; t = time.process_time(); "
        "from spdcluster import KernelSSC, SSC, LRR, LRSC, TangentSSC, KernelLRR; "
        "print(time.process_time() - t)"
    )
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, check=True)
    assert any(float(run().stdout) <= 0.3 for _ in range(3))


def test_brodatz_textures_reach_the_accuracy_of_the_prototype(data_folder):
    from skimage.io import imread
    from skimage.transform import resize

    X, y = [], []
    for label, path in enumerate(sorted((data_folder / "brodatz16").glob("*.png"))):
        image = resize(imread(path, as_gray=True) / 255.0, (256, 256), anti_aliasing=True)
        Iy, Ix = np.gradient(image)
        features = np.stack(
            [image, abs(Ix), abs(Iy), abs(np.gradient(Ix, axis=1)), abs(np.gradient(Iy, axis=0))]
        )
        blocks = features.reshape(5, 8, 32, 8, 32).transpose(1, 3, 0, 2, 4).reshape(64, 5, 1024)
        X += [np.cov(block) for block in blocks]
        y += [label] * 64
    model = KernelSSC(16, gamma=0.5, alpha=0.04, random_state=0).fit(np.array(X))
    assert model.dual_gap_ < 1e-9
    assert clustering_accuracy(y, model.labels_) == pytest.approx(0.80, abs=0.03)
    assert normalized_mutual_info_score(y, model.labels_) == pytest.approx(0.905, abs=0.015)


# Checks of scikit-learn that cannot apply, each with its reason.
CANNOT_APPLY: dict[str, str] = {}


@parametrize_with_checks(
    [
        KernelSSC(n_clusters=3, kernel="gaussian", n_init=3, random_state=0),
        KernelSSC(n_clusters=3, kernel="linear", alpha=0.1, alpha_mode="relative", n_init=3),
        KernelSSC(n_clusters=2, kernel="gaussian", solver="admm", tol=1e-4, n_init=3),
    ],
    expected_failed_checks=lambda estimator: CANNOT_APPLY,
)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
