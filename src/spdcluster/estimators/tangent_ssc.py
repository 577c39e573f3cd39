"""`TangentSSC`: sparse coding of each matrix in its own tangent space (Ho, Xie, Vemuri 2013)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.arguments import check_choice, check_real
from spdcluster.estimators._base import AffinityClusterer
from spdcluster.expression.solve import Expression
from spdcluster.expression.tangent import tangent_expression
from spdcluster.geometry.checks import check_matrices
from spdcluster.geometry.logarithm import regularized
from spdcluster.graph import affinity
from spdcluster.kernels import make_kernel


class TangentSSC(AffinityClusterer):
    """Sparse subspace clustering in the tangent spaces of the manifold of SPD/HPD matrices.

    For each matrix, zero is coded in its own tangent space by the logarithms of the others, under the
    affine-invariant metric (the paper's eq. (2)):

        min_w  alpha |w|_1 + |sum_j w_j log_{X_i}(X_j)|^2_{X_i},    sum_j w_j = 1,  w_i = 0

    Weights may be negative. Each row is solved exactly by an active set: `dual_gap_` proves it.

    Parameters
    ----------
    n_clusters : int, default=8
    alpha : float, default=0.04
        The paper's lambda. The metric has no unit, so that the scale of the matrices plays no part.
    n_neighbors : int or None, default=None
        Code by so many log-Euclidean nearest neighbours only; None: by all.
    affinity : {"symmetric", "row-normalized"}, default="symmetric"
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
    regularization : float, default=0.0
        ``regularization * tr(X_i)/d`` is added to the diagonal of each matrix.

    Attributes
    ----------
    labels_ : ndarray, shape (n_matrices,)
    representation_ : csr_array, shape (n_matrices, n_matrices)
        Row i holds the weights w of matrix i; rows sum to one.
    affinity_ : csr_array, shape (n_matrices, n_matrices)
    embedding_, eigenvalues_ : ndarray
    objective_ : float
        Sum over rows.
    dual_gap_ : float
        Largest relative duality gap of a row, among the matrices that it was allowed to use.
    n_iter_ : int
        Most active-set steps of a row.

    Notes
    -----
    Time O(N^2 d^3) for the logarithms, which no tangent space shares with another, or O(N m d^3) with m
    neighbours; memory O(N d^2) a thread. Choose it where the affine-invariant geometry is wanted and N
    is at most a few thousand; `KernelSSC` with ``kernel="log-linear"`` is its fixed-tangent-space relative,
    N d^3.

    Exact copies of a matrix share a label, as in `KernelSSC`.

    References
    ----------
    J. Ho, Y. Xie, B. C. Vemuri. On A Nonlinear Generalization of Sparse Coding and Dictionary Learning.
    ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import TangentSSC
    >>> rng = np.random.default_rng(0)
    >>> mixing = rng.normal(size=(2, 4, 4))
    >>> signals = mixing[np.repeat([0, 1], 30)] @ rng.normal(size=(60, 4, 50))
    >>> X = signals @ signals.swapaxes(1, 2) / 50
    >>> model = TangentSSC(n_clusters=2, random_state=0).fit(X)
    >>> len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float = 0.04,
        n_neighbors: int | None = None,
        affinity: str = "symmetric",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_init: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        regularization: float = 0.0,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.n_neighbors = n_neighbors
        self.affinity = affinity
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.regularization = regularization

    def _input_kind(self) -> str:
        return "matrices"

    def _express(self, X: NDArray[Any]) -> None:
        check_choice(self.affinity, "affinity", ("symmetric", "row-normalized"))
        ridge = check_real(self.regularization, "regularization", low=0.0)
        X = check_matrices(regularized(X, ridge))
        self._matrices = X.astype(np.complex128 if np.iscomplexobj(X) else np.float64)
        self._distinct = make_kernel("linear").bind(X).distinct()
        expression = self._code(self._matrices)
        self.representation_ = expression.coef
        self.affinity_ = affinity(expression.coef, self.affinity)
        self.objective_ = float(expression.objective.sum())
        self.dual_gap_ = float(expression.gap.max(initial=0.0))
        self.n_iter_ = expression.n_iter

    def _code(self, X: NDArray[Any]) -> Expression:
        return tangent_expression(
            X,
            alpha=self.alpha,
            n_neighbors=self.n_neighbors,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _graph(self) -> tuple[Any, NDArray[np.intp] | None]:
        """The affinity; where there are exact copies, that of the distinct matrices (see `KernelSSC`)."""
        if self._distinct is None:
            return self.affinity_, None
        first, place = self._distinct
        if len(first) == 1:
            return csr_array((1, 1)), place
        return affinity(self._code(self._matrices[first]).coef, self.affinity), place
