"""`SSC`: sparse subspace clustering of flattened matrices or vectors (Elhamifar and Vidal 2013)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.arguments import check_bool, check_choice, check_real
from spdcluster.estimators._base import AffinityClusterer
from spdcluster.expression.ssc import SSCExpression, noise_scale, outlier_scale, ssc
from spdcluster.graph import affinity
from spdcluster.kernels import make_kernel
from spdcluster.kernels.vector import flat_vectors

AFFINITIES = ("max-normalized", "symmetric", "row-normalized")


class SSC(AffinityClusterer):
    """Sparse subspace clustering.

    Codes each point by few others, with noise e, sparse outlying entries o and, for affine subspaces,
    weights that sum to one:

        min_c  |c|_1 + lambda_e |o|_1 + lambda_z/2 |e|^2,   x_i = sum_j c_j x_j + o + e,   c_i = 0  [, sum_j c_j = 1]

    (the paper's eq. (1) with its error terms), ``lambda_z = alpha / mu_z``, ``lambda_e = outlier_alpha / mu_e``.
    The noise-only problem is `KernelSSC` with ``kernel="linear"`` and ``alpha = 2 / lambda_z``, solved by
    the same code. All variants are solved by an active set, exactly: `dual_gap_` proves it.

    Parameters
    ----------
    n_clusters : int, default=8
    alpha : float, default=100.0
        Elhamifar and Vidal's alpha_z: the weight of the noise, in units of the smallest that gives
        every point a code. The scale of the data plays no part.
    outlier_alpha : float or None, default=None
        Their alpha_e: the weight of sparse outlying entries, in the same units. None: no outlier term.
    affine : bool, default=False
        Weights sum to one: clusters are affine subspaces.
    threshold : float in (0, 1], default=1.0
        Keep the largest weights of each code, up to this share of its l1 norm.
    affinity : {"max-normalized", "symmetric", "row-normalized"}, default="max-normalized"
        Each code is divided by its largest entry (theirs), by nothing, or by its Euclidean norm.
    tol : float, default=1e-6
        Largest relative duality gap of a row.
    max_iter : int or None, default=None
        Steps of the active set a row.
    n_init : int, default=20
        k-means starts.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None uses all cores. No result depends on it.
    verbose : int, default=0

    Attributes
    ----------
    labels_ : ndarray, shape (n_samples,)
    representation_ : csr_array, shape (n_samples, n_samples)
        Row i codes point i, before thresholding.
    outliers_ : csr_array, shape (n_samples, n_features), or None
        The outlying entries o of each (flattened) point.
    affinity_ : csr_array, shape (n_samples, n_samples)
    embedding_, eigenvalues_ : ndarray
    lambda_z_, lambda_e_ : float, float or None
        The weights in use.
    objective_ : float
        Sum over rows of the objective above.
    dual_gap_ : float
        Largest relative duality gap of a row.
    n_iter_ : int
        Most active-set steps of a row.

    Notes
    -----
    Matrices are flattened to D = d^2 numbers (2 d^2 if complex). Time O(N^2 s) for codes of s atoms plus
    the Gram matrix, O(N^2 D); memory O(N^2), with the outlier term O((N + D)^2). Choose it for vectors in
    linear or affine subspaces; for covariances `KernelSSC` respects their geometry.

    Exact copies of a point share a label, as in `KernelSSC`.

    References
    ----------
    E. Elhamifar, R. Vidal. Sparse Subspace Clustering: Algorithm, Theory, and Applications. IEEE TPAMI 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import SSC
    >>> rng = np.random.default_rng(0)
    >>> planes = rng.normal(size=(2, 2, 10))
    >>> X = np.concatenate([rng.normal(size=(30, 2)) @ plane for plane in planes])
    >>> model = SSC(n_clusters=2, random_state=0).fit(X)
    >>> len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float = 100.0,
        outlier_alpha: float | None = None,
        affine: bool = False,
        threshold: float = 1.0,
        affinity: str = "max-normalized",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_init: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.outlier_alpha = outlier_alpha
        self.affine = affine
        self.threshold = threshold
        self.affinity = affinity
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _input_kind(self) -> str:
        return "vectors"

    def _express(self, X: NDArray[Any]) -> None:
        check_choice(self.affinity, "affinity", AFFINITIES)
        check_real(self.threshold, "threshold", low=0.0, high=1.0, low_open=True)
        vectors = flat_vectors(X).astype(np.float64)
        self._distinct = make_kernel("linear").bind(vectors).distinct()
        self._vectors = vectors
        expression, self.lambda_z_, self.lambda_e_ = self._code(vectors)
        self.representation_ = expression.codes.coef
        self.outliers_ = expression.outliers
        self.affinity_ = self._affinity_of(expression.codes.coef)
        self.objective_ = float(expression.codes.objective.sum())
        self.dual_gap_ = float(expression.codes.gap.max(initial=0.0))
        self.n_iter_ = expression.codes.n_iter

    def _code(self, X: NDArray[np.float64]) -> tuple[SSCExpression, float, float | None]:
        alpha = check_real(self.alpha, "alpha", low=0.0, low_open=True)
        lambda_z, lambda_e = alpha / noise_scale(X), None
        if self.outlier_alpha is not None:
            weight = check_real(self.outlier_alpha, "outlier_alpha", low=0.0, low_open=True)
            lambda_e = weight / outlier_scale(X)
        expression = ssc(
            X,
            lambda_z=lambda_z,
            lambda_e=lambda_e,
            affine=check_bool(self.affine, "affine"),
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return expression, lambda_z, lambda_e

    def _affinity_of(self, coef: csr_array) -> csr_array:
        coef = keep_largest(coef, self.threshold)
        if self.affinity != "max-normalized":
            return affinity(coef, self.affinity)
        largest = abs(coef).max(axis=1).toarray().ravel()
        coef.data /= np.repeat(largest, np.diff(coef.indptr))
        return affinity(coef)

    def _graph(self) -> tuple[Any, NDArray[np.intp] | None]:
        """The affinity; where there are exact copies, that of the distinct points (see `KernelSSC`)."""
        if self._distinct is None:
            return self.affinity_, None
        first, place = self._distinct
        if len(first) == 1:
            return csr_array((1, 1)), place
        return self._affinity_of(self._code(self._vectors[first])[0].codes.coef), place


def keep_largest(coef: csr_array, share: float) -> csr_array:
    """The largest entries of each row, as few as reach `share` of its l1 norm; a copy."""
    coef = csr_array(coef, copy=True)
    if share < 1.0:
        for start, stop in zip(coef.indptr[:-1], coef.indptr[1:]):
            row = coef.data[start:stop]
            order = np.argsort(-np.abs(row), kind="stable")
            reached = np.cumsum(np.abs(row[order]))
            enough = np.searchsorted(reached, share * reached[-1]) + 1 if len(row) else 0
            row[order[enough:]] = 0.0
    coef.eliminate_zeros()
    return coef
