"""What the low-rank estimators share: a code kept as factors, and the graph made of it."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.arguments import check_int
from spdcluster.estimators._base import AffinityClusterer
from spdcluster.expression.low_rank import LowRankExpression
from spdcluster.graph import affinity

WEIGHT_MODES = ("absolute", "relative")
# beyond so many points each keeps its largest similarities only, unless told otherwise
POINTS_FOR_FULL_GRAPH = 4000
NEIGHBORS_BEYOND = 100
ROWS = 512


class LowRankClusterer(AffinityClusterer):
    """Base of the estimators whose code is ``left diag(values) right^T``, kept as `factors_`."""

    factors_: LowRankExpression
    _distinct: tuple[NDArray[np.intp], NDArray[np.intp]] | None

    @property
    def representation_(self) -> NDArray[np.float64]:
        """The code, (N, N), multiplied out when asked for."""
        return self.factors_.dense()

    def _keep(
        self, factors: LowRankExpression, similarity: Callable[[slice], NDArray[np.float64]]
    ) -> None:
        if len(factors.values) == 0:
            warnings.warn(
                f"{type(self).__name__}: the code is zero, so that the labels say nothing: its weights "
                'are too small for the scale of the data; raise them or use weight_mode="relative"',
                UserWarning,
                stacklevel=5,
            )
        self.factors_ = factors
        self.rank_ = len(factors.values)
        self.objective_ = factors.objective
        self.affinity_ = similarity_graph(similarity, len(factors.left), self.n_neighbors)

    def _graph(self) -> tuple[csr_array, NDArray[np.intp] | None]:
        """The affinity; where there are exact copies, that of the distinct points: copies share a label."""
        if self._distinct is None:
            return self.affinity_, None
        first, place = self._distinct
        return self.affinity_[first][:, first], place


def similarity_graph(
    similarity: Callable[[slice], NDArray[np.float64]], n: int, n_neighbors: Any
) -> csr_array:
    """CSR graph of non-negative similarities, asked for by rows: all of them or the largest of each row."""
    if n_neighbors is None:
        kept = n - 1 if n <= POINTS_FOR_FULL_GRAPH else NEIGHBORS_BEYOND
    else:
        kept = min(check_int(n_neighbors, "n_neighbors", low=1), n - 1)
    if kept == n - 1:
        return full_graph(similarity(slice(None)))
    indices, data = np.empty((n, kept), np.int64), np.empty((n, kept))
    for start in range(0, n, ROWS):
        values = similarity(slice(start, min(n, start + ROWS)))
        rows = np.arange(len(values))
        values[rows, start + rows] = -1.0
        largest = np.argpartition(-values, kept - 1, axis=1)[:, :kept]
        indices[start + rows] = largest
        data[start + rows] = np.take_along_axis(values, largest, axis=1)
    indptr = np.arange(0, n * kept + 1, kept)
    return affinity(csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, n)))


def full_graph(W: NDArray[np.float64]) -> csr_array:
    """`spdcluster.graph.affinity` of a dense non-negative (N, N), without its passes over a sparse one."""
    n = len(W)
    W = (W + W.T) / 2
    index = np.int32 if n * n < 2**31 else np.int64
    columns = np.broadcast_to(np.arange(n, dtype=index), (n, n))
    rows = np.arange(0, n * (n - 1) + 1, n - 1, dtype=index)
    graph = csr_array((_without_diagonal(W), _without_diagonal(columns), rows), shape=(n, n))
    graph.eliminate_zeros()
    return graph


def _without_diagonal(A: NDArray[Any]) -> NDArray[Any]:
    """The other entries of (n, n), row by row: of each n + 1 in line all but the first."""
    n = len(A)
    return A.ravel()[:-1].reshape(n - 1, n + 1)[:, 1:].ravel()
