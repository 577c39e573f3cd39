"""`LRSC`: low-rank subspace clustering in closed form (Vidal and Favaro 2014)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_choice, check_real
from spdcluster.estimators._low_rank import WEIGHT_MODES, LowRankClusterer
from spdcluster.expression.lrsc import lrsc
from spdcluster.kernels import make_kernel
from spdcluster.kernels.vector import flat_vectors


class LRSC(LowRankClusterer):
    """Low-rank subspace clustering.

    Splits the data D (points in rows) into a clean, self-expressive A and noise:

        min_{A, C}  |C|_* + tau/2 |A - C A|_F^2 + alpha/2 |D - A|_F^2,    C = C^T

    The global optimum is a thresholding of the singular values of D; the graph is ``W = |C|``.

    Parameters
    ----------
    n_clusters : int, default=8
    tau : float, default=1.0
    alpha : float, default=0.01
        Weights of the two errors; the paper's LRSC(1, 0.01). They have the unit of one over the squared
        data: see `weight_mode`.
    variant : {"noisy", "noisy-exact", "uncorrupted", "noise-free"}, default="noisy"
        The problem above; with ``A = C A`` required (`tau` unused); with ``A = D`` (`alpha` unused); with
        ``D = C D`` (neither is used: C is the shape interaction matrix).
    weight_mode : {"absolute", "relative"}, default="absolute"
        "relative": `tau` and `alpha` are in units of one over the largest squared singular value, so that
        the scale of the data plays no part.
    n_neighbors : int or None, default=None
        Keep so many largest similarities of each point in the graph; None: all of them up to 4000
        points, 100 beyond.
    n_init : int, default=20
        k-means starts.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : ndarray, shape (n_samples,)
    representation_ : ndarray, shape (n_samples, n_samples)
        C; dense, multiplied out of `factors_` on access.
    factors_ : `spdcluster.expression.low_rank.LowRankExpression`
    rank_ : int
    affinity_ : csr_array, shape (n_samples, n_samples)
    embedding_, eigenvalues_ : ndarray
    objective_ : float
        The global optimum, from the closed form.

    Notes
    -----
    Matrices are flattened to D = d^2 numbers. Time O(N D min(N, D)), one singular value decomposition;
    memory O(N^2) for the full graph. The fastest method here. Choose it for linear subspaces with dense
    noise, or as the baseline that costs nothing; covariances in their raw units are rarely that.

    References
    ----------
    R. Vidal, P. Favaro. Low Rank Subspace Clustering (LRSC). Pattern Recognition Letters 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from spdcluster import LRSC
    >>> rng = np.random.default_rng(0)
    >>> planes = rng.normal(size=(2, 2, 10))
    >>> X = np.concatenate([rng.normal(size=(30, 2)) @ plane for plane in planes])
    >>> model = LRSC(n_clusters=2, variant="noise-free", random_state=0).fit(X)
    >>> model.rank_, len(set(model.labels_[:30])), len(set(model.labels_[30:]))
    (4, 1, 1)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        tau: float = 1.0,
        alpha: float = 0.01,
        variant: str = "noisy",
        weight_mode: str = "absolute",
        n_neighbors: int | None = None,
        n_init: int = 20,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.tau = tau
        self.alpha = alpha
        self.variant = variant
        self.weight_mode = weight_mode
        self.n_neighbors = n_neighbors
        self.n_init = n_init
        self.random_state = random_state

    def _input_kind(self) -> str:
        return "vectors"

    def _express(self, X: NDArray[Any]) -> None:
        vectors = flat_vectors(X).astype(np.float64)
        self._distinct = make_kernel("linear").bind(vectors).distinct()
        tau = check_real(self.tau, "tau", low=0.0, low_open=True)
        alpha = check_real(self.alpha, "alpha", low=0.0, low_open=True)
        if check_choice(self.weight_mode, "weight_mode", WEIGHT_MODES) == "relative":
            vectors = vectors / (np.linalg.norm(vectors, 2) or 1.0)
        factors = lrsc(vectors, tau=tau, alpha=alpha, variant=self.variant)
        self._keep(
            factors,
            lambda rows: np.abs((factors.left[rows] * factors.values) @ factors.right.T),
        )
