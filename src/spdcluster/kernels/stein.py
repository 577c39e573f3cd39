"""The Stein kernel ``exp(-beta * delta_s(X, Y))`` on positive definite matrices (Sra 2012)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdcluster.geometry.checks import check_matrices
from spdcluster.geometry.distances import stein_divergences
from spdcluster.geometry.logarithm import log_vectors, matrices_from_log_vectors, regularized
from spdcluster.kernels.base import Kernel
from spdcluster.kernels.width import multiple_of_scale


class SteinKernel(Kernel):
    """``exp(-gamma (log|(X + Y)/2| - log|XY|/2))``.

    It is positive definite only for some widths: multiples of 1/2 below ``(d - 1)/2`` and everything
    above for real d x d matrices; integers below ``d - 1`` and everything above for complex ones (the
    Gindikin set of the cone). Other widths are refused.

    Parameters
    ----------
    gamma : float or str
        The paper's beta. "scale" is the smallest valid width that is at least one over the mean
        divergence from the log-Euclidean mean, "c*scale" the smallest that is at least c times that.
    regularization : float
        As in `spdcluster.geometry.log_vectors`.
    """

    def __init__(self, gamma: float | str = "scale", regularization: float = 0.0) -> None:
        self.gamma = gamma
        self.regularization = regularization

    def fit(self, X: ArrayLike) -> Self:
        self._fit_matrices(self.features(X))
        return self

    def features(self, X: ArrayLike) -> NDArray[Any]:
        X = check_matrices(X, positive_definite=self.regularization == 0.0)
        X = regularized(X, self.regularization)
        return X if self.regularization == 0.0 else check_matrices(X)

    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        assert self.gamma_ is not None
        return np.exp(-self.gamma_ * stein_divergences(A, B))

    def diagonal(self, A: NDArray[Any]) -> NDArray[np.float64]:
        return np.ones(len(A))

    def _fit_matrices(self, X: NDArray[Any]) -> None:
        d = X.shape[-1]
        unit = 1.0 if np.iscomplexobj(X) else 0.5
        multiple = multiple_of_scale(self.gamma)
        if multiple is not None:
            centre = matrices_from_log_vectors(
                log_vectors(X).astype(np.float64).mean(axis=0)[None], d
            )
            spread = float(stein_divergences(X, centre).mean())
            self.gamma_ = _next_valid_width(multiple / spread if spread > 0 else 1.0, d, unit)
        else:
            self.gamma_ = float(self.gamma)
            check_stein_width(self.gamma_, d, unit)


def check_stein_width(beta: float, d: int, unit: float) -> None:
    """Raise unless ``exp(-beta delta_s)`` is positive definite for d x d matrices."""
    limit = (d - 1) * unit
    if beta >= limit or (beta / unit).is_integer():
        return
    steps = ", ".join(f"{unit * i:g}" for i in range(1, d))
    raise ValueError(
        f"gamma={beta:g} does not give a positive definite Stein kernel on {d} x {d} "
        f"{'Hermitian' if unit == 1.0 else 'symmetric'} matrices; valid are {steps} and every value "
        f"above {limit:g}"
    )


def _next_valid_width(beta: float, d: int, unit: float) -> float:
    return beta if beta >= (d - 1) * unit else float(unit * np.ceil(beta / unit))
