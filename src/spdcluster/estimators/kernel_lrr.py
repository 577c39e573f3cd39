"""`KernelLRR`: low-rank self-expression of SPD/HPD matrices in the space of any kernel."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_choice, check_n_jobs, check_real
from spdcluster.estimators._low_rank import WEIGHT_MODES, LowRankClusterer
from spdcluster.expression.kernel_lrr import DENSE_LIMIT, kernel_lrr, largest_eigenvalue
from spdcluster.expression.low_rank import row_space_directions
from spdcluster.kernels.choose import FLAT_KERNELS, make_kernel
from spdcluster.kernels.gram import DenseGram


class KernelLRR(LowRankClusterer):
    """Kernel low-rank representation.

    Codes all matrices together in the feature space of a kernel, by a code of small nuclear norm:

        min_C  |C|_* + tau/2 sum_i |phi_i - sum_j c_ij phi_j|^2

    In closed form: with the Gram matrix ``K = V diag(e) V^T``, ``C = V diag(max(0, 1 - 1/(tau e))) V^T``. The
    graph is ``W_ij = |cos(m_i, m_j)|^power`` for the rows of ``M = V diag(c)^(1/2)``, c the eigenvalues of C.

    Parameters
    ----------
    n_clusters : int, default=8
    kernel, gamma, degree, coef0, normalize, regularization
        As in `KernelSSC`.
    tau : float, default=100.0
        Weight of the error: eigenvalues of K above ``1/tau`` count.
    weight_mode : {"absolute", "relative"}, default="relative"
        "relative": `tau` is in units of one over the largest eigenvalue, below which the code is zero.
    max_rank : int or None, default=None
        Keep so many leading eigenvectors at most.
    power : float, default=2.0
        Of the affinity.
    n_neighbors : int or None, default=None
        Keep so many largest similarities of each matrix in the graph; None: all of them up to 4000
        matrices, 100 beyond.
    tol : float, default=1e-6
        Accuracy of the eigenvalues, for more than 3000 matrices.
    n_init : int, default=20
        k-means starts.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads that evaluate the kernel.

    Attributes
    ----------
    labels_ : ndarray, shape (n_matrices,)
    representation_ : ndarray, shape (n_matrices, n_matrices)
        C; dense, multiplied out of `factors_` on access.
    factors_ : `spdcluster.expression.low_rank.LowRankExpression`
    rank_ : int
    affinity_ : csr_array, shape (n_matrices, n_matrices)
    embedding_, eigenvalues_ : ndarray
    objective_ : float
    tau_ : float
        The weight in use.
    gamma_ : float or None
    kernel_ : `spdcluster.kernels.Kernel`

    Notes
    -----
    Up to 3000 matrices: the Gram matrix, O(N^2 d^2) for most kernels, and a dense eigendecomposition, O(N^3);
    memory O(N^2). Beyond: the r eigenvectors that count, by Lanczos on the implicit Gram matrix, time
    O(N^2 d^2 r) and memory O(N r). Choose it when clusters span low-dimensional subspaces of the feature space and N is too
    small for sparse codes to be stable.

    References
    ----------
    Y. Fu, J. Gao, X. Hong, D. Tien. Low Rank Representation on Riemannian Manifold of Symmetric Positive
    Definite Matrices. SDM 2015.
    H. Nguyen, W. Yang, F. Shen, C. Sun. Kernel Low-Rank Representation for Face Recognition. Neurocomputing 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import KernelLRR
    >>> rng = np.random.default_rng(0)
    >>> mixing = rng.normal(size=(2, 4, 4))
    >>> signals = mixing[np.repeat([0, 1], 30)] @ rng.normal(size=(60, 4, 50))
    >>> X = signals @ signals.swapaxes(1, 2) / 50
    >>> model = KernelLRR(n_clusters=2, random_state=0).fit(X)
    >>> len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "log-gaussian",
        gamma: float | Literal["scale"] = "scale",
        degree: int = 2,
        coef0: float = 1.0,
        normalize: bool = False,
        tau: float = 100.0,
        weight_mode: str = "relative",
        max_rank: int | None = None,
        power: float = 2.0,
        n_neighbors: int | None = None,
        tol: float = 1e-6,
        n_init: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
        regularization: float = 0.0,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize = normalize
        self.tau = tau
        self.weight_mode = weight_mode
        self.max_rank = max_rank
        self.power = power
        self.n_neighbors = n_neighbors
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.regularization = regularization

    def _input_kind(self) -> str:
        if not isinstance(self.kernel, str):
            return "vectors"
        if self.kernel == "precomputed":
            return "gram"
        return "vectors" if self.kernel in FLAT_KERNELS else "matrices"

    def _express(self, X: NDArray[Any]) -> None:
        tau = check_real(self.tau, "tau", low=0.0, low_open=True)
        mode = check_choice(self.weight_mode, "weight_mode", WEIGHT_MODES)
        power = check_real(self.power, "power", low=0.0, low_open=True)
        self.kernel_ = make_kernel(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            normalize=self.normalize,
            regularization=self.regularization,
            n_jobs=self.n_jobs,
        )
        gram = self.kernel_.bind(X)
        self._distinct = gram.distinct()
        if gram.n <= DENSE_LIMIT:  # two passes over it are ahead: evaluate it once
            gram = DenseGram(gram.dense(check_n_jobs(self.n_jobs)))
        self.gamma_ = self.kernel_.gamma_
        if mode == "relative":
            largest = largest_eigenvalue(gram, self.n_jobs)
            tau = tau / largest if largest > 0 else tau
        self.tau_ = tau
        factors = kernel_lrr(
            gram, tau=tau, max_rank=self.max_rank, tol=self.tol, n_jobs=self.n_jobs
        )
        M = row_space_directions(factors)
        self._keep(factors, lambda rows: np.abs(M[rows] @ M.T) ** power)
