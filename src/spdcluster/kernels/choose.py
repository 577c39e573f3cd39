"""From the `kernel` argument of an estimator to a kernel object."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdcluster.arguments import check_bool, check_choice, check_int, check_real
from spdcluster.geometry.checks import as_float_array
from spdcluster.kernels.base import CallableKernel, Kernel, NormalizedKernel, inverse_root
from spdcluster.kernels.gram import DenseGram
from spdcluster.kernels.stein import SteinKernel
from spdcluster.kernels.vector import LogVectorizer, VectorKernel, flat_vectors
from spdcluster.kernels.width import multiple_of_scale

LOG_KERNELS = ("log-gaussian", "log-polynomial", "log-exponential", "log-linear")
FLAT_KERNELS = ("gaussian", "polynomial", "linear")
KERNELS = (*LOG_KERNELS, "stein", *FLAT_KERNELS, "precomputed")


def make_kernel(
    kernel: Any = "log-gaussian",
    *,
    gamma: Any = "scale",
    degree: int = 2,
    coef0: float = 1.0,
    normalize: bool = False,
    regularization: float = 0.0,
    n_jobs: int | None = None,
) -> Kernel:
    """A kernel object from the parameters of an estimator; every parameter is checked here.

    Parameters
    ----------
    kernel : str, `Kernel`, or callable ``k(X, Y) -> (n_X, n_Y)``
        A name of `KERNELS`, or the user's own.
    gamma, degree, coef0, normalize, regularization, n_jobs
        See `spdcluster.KernelSSC`.
    """
    multiple_of_scale(gamma)
    degree = check_int(degree, "degree", low=1)
    coef0 = check_real(coef0, "coef0", low=0.0)
    normalize = check_bool(normalize, "normalize")
    regularization = check_real(regularization, "regularization", low=0.0)
    if not isinstance(kernel, str):
        own = _users_own(kernel)
        return NormalizedKernel(own) if normalize else own
    check_choice(kernel, "kernel", KERNELS)
    if kernel == "precomputed":
        return PrecomputedKernel(normalize)
    if kernel == "stein":
        return SteinKernel(gamma, regularization)
    is_log = kernel in LOG_KERNELS
    return VectorKernel(
        LogVectorizer(regularization, n_jobs) if is_log else flat_vectors,
        kernel.removeprefix("log-"),  # type: ignore[arg-type]
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        normalize=normalize,
    )


class PrecomputedKernel(Kernel):
    """The Gram matrix itself as input, (N, N) to fit and (n_new, N) to predict."""

    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def bind(self, X: ArrayLike) -> DenseGram:
        K = check_gram(X)
        if self.normalize:
            scale = inverse_root(K.diagonal())
            K = K * scale[:, None] * scale
        return DenseGram(K)

    def features(self, X: ArrayLike) -> NDArray[Any]:
        """The given values themselves, (n_new, N): they are all that is known of new points."""
        if self.normalize:
            raise ValueError(
                'normalize=True with kernel="precomputed" cannot take new points, whose values with '
                "themselves are unknown; normalise the Gram matrix before fit instead"
            )
        return as_float_array(X, "X").astype(np.float64)

    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        raise NotImplementedError("a precomputed kernel has values, no features")


def check_gram(K: ArrayLike, name: str = "X") -> NDArray[np.float64]:
    """Check a Gram matrix: square, finite, symmetric, positive semidefinite to rounding error."""
    K = as_float_array(K, name)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f'{name} must be a square Gram matrix with kernel="precomputed", shape (N, N); '
            f"got shape {K.shape}"
        )
    if not np.isfinite(K).all():
        raise ValueError(f"{name} contains NaN or infinity; a Gram matrix must be finite")
    if np.iscomplexobj(K):
        raise ValueError(f"{name} must be a real Gram matrix; got dtype {K.dtype}")
    size = float(np.abs(K).max(initial=0.0))
    tolerance = float(np.sqrt(np.finfo(K.dtype).eps))
    asymmetry = float(np.abs(K - K.T).max(initial=0.0))
    if asymmetry > tolerance * size:
        raise ValueError(
            f'{name} must be symmetric with kernel="precomputed"; it differs from its transpose by '
            f"{asymmetry:.3g} (largest entry {size:.3g})"
        )
    K = K.astype(np.float64)
    K = np.ascontiguousarray((K + K.T) / 2)
    if size > 0:
        _check_semidefinite(K, size, tolerance, name)
    return K


def _check_semidefinite(K: NDArray[np.float64], size: float, tolerance: float, name: str) -> None:
    """A Cholesky factorisation of the slightly shifted matrix exists only if it is semidefinite."""
    shifted = K / size
    shifted[np.diag_indices_from(shifted)] += tolerance
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(K)[0])
        raise ValueError(
            f'{name} must be positive semidefinite with kernel="precomputed"; its smallest '
            f"eigenvalue is {smallest:.3g} (largest entry {size:.3g})"
        ) from None


def _users_own(kernel: Any) -> Kernel:
    # `fit` writes into the kernel: a copy keeps it from being shared between estimators
    if isinstance(kernel, Kernel):
        return copy(kernel)
    if not isinstance(kernel, type) and (callable(kernel) or hasattr(kernel, "block")):
        return CallableKernel(copy(kernel))
    raise TypeError(
        f"kernel must be a name ({', '.join(KERNELS)}), a spdcluster.kernels.Kernel or a callable "
        f"k(X, Y) -> (n_X, n_Y); got {kernel!r} ({type(kernel).__name__})"
    )
