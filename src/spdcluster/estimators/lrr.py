"""`LRR`: low-rank representation of flattened matrices or vectors (Liu, Lin, Yu 2010)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_choice, check_real
from spdcluster.estimators._low_rank import WEIGHT_MODES, LowRankClusterer
from spdcluster.expression.low_rank import row_space_directions
from spdcluster.expression.lrr import lrr, smallest_lam
from spdcluster.kernels import make_kernel
from spdcluster.kernels.vector import flat_vectors


class LRR(LowRankClusterer):
    """Low-rank representation.

    Codes all points together, by the code of smallest nuclear norm, with an error that few points have:

        min_{C, E}  |C|_* + lam |E|_{2,1},    X = C X + E    (rows of X are points; |E|_{2,1} sums their norms)

    and cuts the graph ``W_ij = |cos(m_i, m_j)|^power`` of the rows of ``M = V S^(1/2)``, ``C = U S V^T``.

    Parameters
    ----------
    n_clusters : int, default=8
    lam : float, default=0.4
        The papers' lambda. It has the unit of one over the data: see `weight_mode`.
    weight_mode : {"absolute", "relative"}, default="absolute"
        "relative": `lam` is in units of the smallest weight that gives a code other than zero, so that
        the scale of the data plays no part.
    power : float, default=2.0
        Of the affinity; the papers use 2 and 4.
    n_neighbors : int or None, default=None
        Keep so many largest similarities of each point in the graph; None: all of them up to 4000
        points, 100 beyond.
    solver : {"variational", "alm"}, default="variational"
        To a duality gap (see `spdcluster.expression.lrr`), or the papers' inexact augmented Lagrangian.
    tol : float, default=1e-6
        "variational": relative duality gap. "alm": residual of the constraints.
    max_iter : int or None, default=None
        None: 1000.
    n_init : int, default=20
        k-means starts.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Threads of the linear algebra where the rank is 500 or more.

    Attributes
    ----------
    labels_ : ndarray, shape (n_samples,)
    representation_ : ndarray, shape (n_samples, n_samples)
        Row i codes point i; dense, multiplied out of `factors_` on access.
    factors_ : `spdcluster.expression.low_rank.LowRankExpression`
    rank_ : int
    affinity_ : csr_array, shape (n_samples, n_samples)
    embedding_, eigenvalues_ : ndarray
    lam_ : float
        The weight in use.
    objective_ : float
    dual_gap_ : float
        Relative duality gap: the objective is no further than this from the optimum.
    n_iter_ : int

    Notes
    -----
    Matrices are flattened to D = d^2 numbers. With k the rank of the data, k <= min(N, D), an iteration
    takes O(k^2 N + k^3) and there are tens of them; memory O(k N), and O(N^2) for the full graph. Choose it
    for independent linear subspaces where some points are entirely wrong; sparse methods do better where
    subspaces intersect.

    References
    ----------
    G. Liu, Z. Lin, Y. Yu. Robust Subspace Segmentation by Low-Rank Representation. ICML 2010.
    G. Liu, Z. Lin, S. Yan, J. Sun, Y. Yu, Y. Ma. Robust Recovery of Subspace Structures by Low-Rank
    Representation. IEEE TPAMI 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import LRR
    >>> rng = np.random.default_rng(0)
    >>> planes = rng.normal(size=(2, 2, 10))
    >>> X = np.concatenate([rng.normal(size=(30, 2)) @ plane for plane in planes])
    >>> model = LRR(n_clusters=2, random_state=0).fit(X)
    >>> model.rank_, len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (4, 1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        lam: float = 0.4,
        weight_mode: str = "absolute",
        power: float = 2.0,
        n_neighbors: int | None = None,
        solver: str = "variational",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_init: int = 20,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.lam = lam
        self.weight_mode = weight_mode
        self.power = power
        self.n_neighbors = n_neighbors
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _input_kind(self) -> str:
        return "vectors"

    def _express(self, X: NDArray[Any]) -> None:
        vectors = flat_vectors(X).astype(np.float64)
        self._distinct = make_kernel("linear").bind(vectors).distinct()
        lam = check_real(self.lam, "lam", low=0.0, low_open=True)
        mode = check_choice(self.weight_mode, "weight_mode", WEIGHT_MODES)
        power = check_real(self.power, "power", low=0.0, low_open=True)
        smallest = smallest_lam(vectors) if mode == "relative" else 1.0
        self.lam_ = lam * smallest if np.isfinite(smallest) else lam
        factors = lrr(
            vectors,
            lam=self.lam_,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )
        M = row_space_directions(factors)
        self._keep(factors, lambda rows: np.abs(M[rows] @ M.T) ** power)
        self.dual_gap_ = factors.gap
        self.n_iter_ = factors.n_iter
