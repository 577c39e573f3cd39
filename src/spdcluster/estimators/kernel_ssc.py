"""`KernelSSC`: the paper's method, exact, on any kernel."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from spdcluster.arguments import check_choice
from spdcluster.estimators._base import AffinityClusterer
from spdcluster.expression.new_points import class_residuals
from spdcluster.expression.solve import Expression, self_expression
from spdcluster.graph import affinity
from spdcluster.kernels.choose import FLAT_KERNELS, make_kernel
from spdcluster.kernels.gram import Gram


class KernelSSC(AffinityClusterer):
    """Kernel sparse subspace clustering of positive definite matrices (KSSCR).

    Codes each matrix as a sparse combination of the others in the feature space of a kernel,

        min_c  alpha (l1_ratio |c|_1 + (1 - l1_ratio)/2 |c|_2^2) + k_ii - 2 k_i.c + c.K.c,   c_i = 0

    (the paper's eq. (5) for ``l1_ratio=1``, where alpha is its lambda), makes the codes a graph,
    ``W = (|C| + |C|^T)/2``, and cuts the graph by normalised spectral clustering.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel : str, callable or `spdcluster.kernels.Kernel`, default="log-gaussian"
        On SPD/HPD matrices: "log-gaussian" ``exp(-gamma |log X - log Y|^2)``, "log-polynomial",
        "log-exponential", "log-linear" ``tr(log X log Y)``, "stein". On flattened matrices or on
        2-D vectors: "gaussian" and "polynomial" (KSSCE, Patel and Vidal 2014), "linear" (SSC). "precomputed": X is the
        Gram matrix. A callable ``k(X, Y)`` returns values of shape (n_X, n_Y).
    gamma : float or str, default="scale"
        Width. "scale" is one over the mean squared distance between two points for the Gaussian
        kernels, one over the mean squared norm for the polynomial and exponential ones, and for
        Stein the next valid width to one over the mean divergence. A function of the set of matrices
        alone: no sampling, no order. "0.1*scale" is a tenth of it (for Stein, the next valid width).
    degree, coef0 : int, float, default=2, 1.0
        Of the polynomial kernels, ``(gamma u.v + coef0)^degree``.
    normalize : bool, default=False
        Give the kernel a unit diagonal.
    alpha : float, default=0.04
        Penalty, the paper's lambda.
    alpha_mode : {"absolute", "relative", "atoms"}, default="absolute"
        "relative": row i uses ``alpha * 2 max_{j != i} |k_ij| / l1_ratio``; at 1 every code is zero.
        "atoms": alpha is a number m; each row takes the smallest penalty, along its path down from the
        zero code, at which m atoms are enough (``l1_ratio=1`` only). `spdcluster.presets.best` uses it.
    l1_ratio : float in (0, 1], default=1.0
    affinity : {"symmetric", "row-normalized"}, default="symmetric"
        "row-normalized" divides each code by its Euclidean norm first.
    solver : {"active-set", "admm"}, default="active-set"
        Exact, or the paper's Algorithm 1.
    rho : float, default=1.0
        ADMM's own parameter.
    tol : float, default=1e-6
        Active set: largest relative duality gap accepted. ADMM: the paper's epsilon.
    max_iter : int or None, default=None
        Active set: rounds a row (None: 1000). ADMM: iterations (None: 5000).
    n_init : int, default=20
        k-means starts.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads; None uses all cores. No result depends on it.
    verbose : int, default=0
    regularization : float, default=0.0
        ``regularization * tr(X_i)/d`` is added to the diagonal of each matrix.
    n_components : int or None, default=None
        Eigenvectors in the embedding; None for `n_clusters`.
    eigenvalue_power : float, default=0.0
        Each eigenvector is multiplied by its eigenvalue to this power.
    memory_budget : float, default=256e6
        Bytes. The Gram matrix is kept in memory where it fits; else the kernel is evaluated where it is
        needed, and the answer is as exact.
    degree_regularization : float, default=0.0
        This share of the mean degree is added to every degree before normalising.

    Attributes
    ----------
    labels_ : ndarray, shape (n_matrices,)
    representation_ : csr_array, shape (n_matrices, n_matrices)
        Row i codes matrix i.
    affinity_ : csr_array, shape (n_matrices, n_matrices)
    embedding_ : ndarray, shape (n_matrices, n_components)
    eigenvalues_ : ndarray, shape (n_components,)
    objective_ : float
        Sum over rows.
    dual_gap_ : float
        Largest relative duality gap of a row: no row's objective is further than this from the
        optimum.
    n_iter_ : int
    gamma_ : float or None
        The width in use; None where the kernel has none.
    kernel_ : `spdcluster.kernels.Kernel`
    alphas_ : ndarray, shape (n_matrices,)
        The penalty of each row.

    Notes
    -----
    Time O(N d^3) for the logarithms, O(N^2 d^2) for the kernel and O(N^2 s) for codes of s atoms, of which
    bounds on many matrices at once save most where N is large; memory O(N d^2 + N s), and the Gram matrix
    where it fits into `memory_budget`; see docs/performance.md. ADMM takes O(N^3) an iteration. Choose it
    for covariances, whatever their kind and number; with a Euclidean kernel, for vectors on curved surfaces.

    Exact copies of a matrix are coded by each other alone, so that they would leave the graph as
    clusters of their own. Where there are copies, the graph that is cut is that of the distinct
    matrices, and copies share a label; `representation_` and `affinity_` remain those of all.

    References
    ----------
    M. Yin, Y. Guo, J. Gao, Z. He, S. Xie. Kernel Sparse Subspace Clustering on Symmetric Positive
    Definite Manifolds. CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import KernelSSC
    >>> rng = np.random.default_rng(0)
    >>> mixing = rng.normal(size=(2, 4, 4))
    >>> signals = mixing[np.repeat([0, 1], 30)] @ rng.normal(size=(60, 4, 50))
    >>> X = signals @ signals.swapaxes(1, 2) / 50
    >>> model = KernelSSC(n_clusters=2, random_state=0).fit(X)
    >>> len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (1, 1)
    >>> model.dual_gap_ < 1e-9
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "log-gaussian",
        gamma: float | str = "scale",
        degree: int = 2,
        coef0: float = 1.0,
        normalize: bool = False,
        alpha: float = 0.04,
        alpha_mode: str = "absolute",
        l1_ratio: float = 1.0,
        affinity: str = "symmetric",
        solver: str = "active-set",
        rho: float = 1.0,
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_init: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        regularization: float = 0.0,
        n_components: int | None = None,
        eigenvalue_power: float = 0.0,
        degree_regularization: float = 0.0,
        memory_budget: float = 256e6,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize = normalize
        self.alpha = alpha
        self.alpha_mode = alpha_mode
        self.l1_ratio = l1_ratio
        self.affinity = affinity
        self.solver = solver
        self.rho = rho
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.regularization = regularization
        self.n_components = n_components
        self.eigenvalue_power = eigenvalue_power
        self.degree_regularization = degree_regularization
        self.memory_budget = memory_budget

    def _input_kind(self) -> str:
        if not isinstance(self.kernel, str):
            return "vectors"
        if self.kernel == "precomputed":
            return "gram"
        return "vectors" if self.kernel in FLAT_KERNELS else "matrices"

    def _graph_options(self) -> dict[str, Any]:
        n_components = self.n_components
        if n_components is not None and self._n_distinct is not None:
            n_components = min(n_components, self._n_distinct)
        return {
            "n_components": n_components,
            "weight_power": self.eigenvalue_power,
            "degree_regularization": self.degree_regularization,
        }

    def _make_kernel(self) -> Any:
        return make_kernel(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            normalize=self.normalize,
            regularization=self.regularization,
            n_jobs=self.n_jobs,
        )

    def _express(self, X: NDArray[Any]) -> None:
        check_choice(self.affinity, "affinity", ("symmetric", "row-normalized"))
        self.kernel_ = self._make_kernel()
        self._gram = self.kernel_.bind(X)
        self.gamma_ = self.kernel_.gamma_
        expression = self._code(self._gram)
        if expression.coef.nnz == 0:
            warnings.warn(
                f"KernelSSC: every code is zero, so that the labels say nothing: alpha={self.alpha:g} is too "
                'large for these values of the kernel; lower it, or use alpha_mode="relative" with alpha '
                "below 1",
                UserWarning,
                stacklevel=3,
            )
        self.representation_ = expression.coef
        self.affinity_ = affinity(expression.coef, self.affinity)
        self.alphas_ = expression.alpha
        self.objective_ = float(expression.objective.sum())
        self.dual_gap_ = float(expression.gap.max(initial=0.0))
        self.n_iter_ = expression.n_iter

    def _code(self, gram: Gram) -> Expression:
        return self_expression(
            gram,
            alpha=self.alpha,
            alpha_mode=self.alpha_mode,
            l1_ratio=self.l1_ratio,
            solver=self.solver,
            rho=self.rho,
            tol=self.tol,
            max_iter=self.max_iter,
            memory_budget=self.memory_budget,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _graph(self) -> tuple[Any, NDArray[np.intp] | None]:
        """The affinity; where there are exact copies, that of the distinct matrices.

        A copy is coded by its twin alone: the two would leave the graph as a cluster of their own.
        """
        distinct = self._gram.distinct()
        self._n_distinct = None
        if distinct is None:
            return self.affinity_, None
        first, place = distinct
        self._n_distinct = len(first)
        return affinity(self._code(self._gram.subset(first)).coef, self.affinity), place

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Assign new matrices: each is coded on the training set, the smallest class residual wins.

        With ``alpha_mode="atoms"`` new matrices are coded at the median penalty of the training set.

        Parameters
        ----------
        X : array-like, shape (n_new, d, d)
            Of the kind given to `fit`; for ``kernel="precomputed"`` the kernel values between the new
            and the training points, shape (n_new, N).

        Returns
        -------
        labels : ndarray, shape (n_new,)
        """
        check_is_fitted(self, "labels_")
        X = self._check_input(X, reset=False)
        classes, training_labels = np.unique(self.labels_, return_inverse=True)
        # a new point has no place among the others' paths: the typical penalty stands for its own
        by_atoms = self.alpha_mode == "atoms"
        residuals = class_residuals(
            self._gram,
            self.kernel_.features(X),
            training_labels,
            alpha=float(np.median(self.alphas_)) if by_atoms else self.alpha,
            alpha_mode="absolute" if by_atoms else self.alpha_mode,
            l1_ratio=self.l1_ratio,
            memory_budget=self.memory_budget,
            n_jobs=self.n_jobs,
        )
        return np.asarray(classes[np.argmin(residuals, axis=1)])
