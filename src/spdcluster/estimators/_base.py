"""What all estimators share: their input, and the way from an affinity to labels."""

import warnings
from textwrap import shorten
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from spdcluster.arguments import check_int, check_real, check_seed
from spdcluster.geometry.checks import as_float_array, check_finite, check_matrices

ACCEPTED = {
    "vectors": "3-D, of shape (n_matrices, d, d), or 2-D, of shape (n_samples, n_features)",
    "gram": 'a square Gram matrix with kernel="precomputed", shape (N, N)',
    "rows of gram": "the kernel between new and training points, shape (n_new, N)",
}


class AffinityClusterer(ClusterMixin, BaseEstimator):
    """Base of the estimators: `fit` checks the input, asks `_express` for the affinity, and cuts it.

    A subclass stores its parameters in ``__init__`` (among them n_clusters, n_init, random_state) and
    defines

    * ``_express(X)``: sets ``representation_``, ``affinity_`` (CSR, N x N) and what it has to report;
    * ``_input_kind()``: "matrices" for (n_matrices, d, d), SPD or HPD; "vectors" for 2-D input or
      matrices that will be flattened; "gram" for a precomputed kernel.

    Fitted attributes set here: ``labels_``, ``embedding_``, ``eigenvalues_``.
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Cluster the matrices.

        Parameters
        ----------
        X : array-like, shape (n_matrices, d, d)
            SPD or HPD matrices; for a Euclidean kernel also vectors, shape (n_samples, n_features);
            for ``kernel="precomputed"`` the Gram matrix, shape (N, N).
        y : ignored

        Returns
        -------
        self
        """
        n_clusters = check_int(self.n_clusters, "n_clusters", low=1)
        n_init = check_int(self.n_init, "n_init", low=1)
        X = self._check_input(X)
        if len(X) < n_clusters:
            raise ValueError(
                f"n_clusters={n_clusters} is more than the n_samples={len(X)} matrices given; "
                "n_clusters must be at most their number"
            )
        self._check_last_step(len(X))
        self._express(X)
        self._cut(n_clusters, n_init)
        return self

    def _check_last_step(self, n: int) -> None:
        """Raise now what cutting the graph would raise after the long work of coding."""
        check_seed(self.random_state)
        if getattr(self, "n_components", None) is not None:
            check_int(self.n_components, "n_components", low=1, high=n)
        for name in ("eigenvalue_power", "degree_regularization"):
            check_real(getattr(self, name, 0.0), name, low=0.0)

    def _cut(self, n_clusters: int, n_init: int) -> None:
        from spdcluster.graph import spectral_clustering

        W, place = self._graph()
        if W.shape[0] < n_clusters:
            warnings.warn(
                f"only {W.shape[0]} distinct matrices for n_clusters={n_clusters}: each is a cluster",
                ConvergenceWarning,
                stacklevel=3,
            )
        result = spectral_clustering(
            W,
            min(n_clusters, W.shape[0]),
            n_init=n_init,
            random_state=self.random_state,
            **self._graph_options(),
        )
        self.labels_ = result.labels if place is None else result.labels[place]
        self.embedding_ = result.embedding if place is None else result.embedding[place]
        self.eigenvalues_ = result.eigenvalues

    def _express(self, X: NDArray[Any]) -> None:
        raise NotImplementedError

    def _graph(self) -> tuple[Any, NDArray[np.intp] | None]:
        """The graph to cut, and the place in it of each input (None: one node an input, in order)."""
        return self.affinity_, None

    def _input_kind(self) -> str:
        raise NotImplementedError

    def _graph_options(self) -> dict[str, Any]:
        """Options of `spectral_clustering` beyond the number of clusters, n_init and the seed."""
        return {}

    def _check_input(self, X: Any, *, reset: bool = True) -> NDArray[Any]:
        """The input as a float array of a kind that this estimator accepts; at least two of them."""
        kind = self._input_kind()
        least = 2 if reset else 1
        if kind == "gram" or (kind == "vectors" and _dimensions(X) != 3):
            accepted = ACCEPTED["rows of gram" if kind == "gram" and not reset else kind]
            X = self._check_rows(X, reset, least, accepted)
        else:
            X = as_float_array(X, "X")
            # definiteness is checked where the logarithms or determinants are taken
            X = check_matrices(X, positive_definite=False, min_matrices=least)
        if reset:
            self._shape_of_one = X.shape[1:]
            self._is_complex = np.iscomplexobj(X)
            return X
        if X.shape[1:] != self._shape_of_one:
            raise ValueError(
                f"X must hold inputs of shape {self._shape_of_one}, as in fit; got {X.shape[1:]}"
            )
        if np.iscomplexobj(X) and not self._is_complex:
            raise ValueError(
                f"X must be real, as in fit; got dtype {X.dtype}: fit on complex matrices, "
                "or pass X.real if the imaginary parts are nothing but zeros"
            )
        # a symmetric matrix is a Hermitian one
        return X.astype(np.result_type(X, np.complex64)) if self._is_complex else X

    def _check_rows(self, X: Any, reset: bool, least: int, accepted: str) -> NDArray[Any]:
        """2-D input by scikit-learn's own check, whose messages do not all name the argument."""
        if _dimensions(X) not in (0, 2):  # where there are none, scikit-learn says why
            raise ValueError(f"X must be {accepted}; got shape {np.shape(X)}. Reshape your data")
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                ensure_min_samples=least,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            reason = shorten(str(error), 200, placeholder=" ...")
            raise kind(f"X must be {accepted}, with numbers as entries; {reason}") from None
        check_finite(X, "X", "rows")
        return np.asarray(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = self._input_kind()
        tags.input_tags.two_d_array = kind != "matrices"
        tags.input_tags.three_d_array = kind != "gram"
        tags.input_tags.pairwise = kind == "gram"
        return tags


def _dimensions(X: Any) -> int:
    try:
        return int(np.ndim(X))
    except ValueError:  # ragged lists: the checks will say so
        return 0
