"""What a kernel is. Subclass `Kernel` to add one; see CONTRIBUTING.md for an example."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spdcluster.kernels.gram import Gram, KernelGram


class Kernel(ABC):
    """A positive semidefinite kernel, evaluated block by block.

    A subclass says what it keeps of each matrix (`features`) and its value on two sets of those
    (`block`). `fit` is for what depends on the training data, such as a width; `bind` fits the kernel and
    joins it to those data.
    """

    gamma_: float | None = None

    def fit(self, X: ArrayLike) -> Self:
        """Settle whatever depends on the training data; by default nothing does."""
        return self

    @abstractmethod
    def features(self, X: ArrayLike) -> NDArray[Any]:
        """What the kernel needs of each input: one row (or slice) an input, length n."""

    @abstractmethod
    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        """Kernel values between features `A` (n_A, ...) and `B` (n_B, ...): shape (n_A, n_B)."""

    def diagonal(self, A: NDArray[Any]) -> NDArray[np.float64]:
        """``k(a, a)`` for each of the features: shape (n_A,)."""
        return np.array([self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(len(A))])

    def bind(self, X: ArrayLike) -> Gram:
        """Fit on the data `X` and return the Gram matrix on them, implicit."""
        self.fit(X)
        return KernelGram(self, self.features(X))


class CallableKernel(Kernel):
    """A user's function ``k(X, Y) -> (n_X, n_Y)``, or an object with `block` and perhaps more."""

    def __init__(self, user: Any) -> None:
        self.user = user
        self._block: Callable[..., Any] = user.block if hasattr(user, "block") else user

    def fit(self, X: ArrayLike) -> Self:
        if hasattr(self.user, "fit"):
            self.user.fit(X)
        return self

    def features(self, X: ArrayLike) -> NDArray[Any]:
        kept = self.user.features(X) if hasattr(self.user, "features") else X
        return np.asarray(kept)

    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        values = np.asarray(self._block(A, B), dtype=np.float64)
        if values.shape != (len(A), len(B)):
            raise ValueError(
                f"kernel {self.user!r} returned shape {values.shape} for {len(A)} x {len(B)} inputs; "
                "it must return one value for each pair, shape (n_X, n_Y)"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"kernel {self.user!r} returned NaN or infinity; it must be finite")
        return values

    def diagonal(self, A: NDArray[Any]) -> NDArray[np.float64]:
        if hasattr(self.user, "diagonal"):
            return np.asarray(self.user.diagonal(A), dtype=np.float64)
        return super().diagonal(A)


class NormalizedKernel(Kernel):
    """``k(x, y) / sqrt(k(x, x) k(y, y))``: a unit diagonal for any kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, X: ArrayLike) -> Self:
        self.kernel.fit(X)
        self.gamma_ = self.kernel.gamma_
        return self

    def features(self, X: ArrayLike) -> NDArray[Any]:
        return self.kernel.features(X)

    def block(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
        scale_A = inverse_root(self.kernel.diagonal(A))
        scale_B = inverse_root(self.kernel.diagonal(B))
        return self.kernel.block(A, B) * scale_A[:, None] * scale_B

    def diagonal(self, A: NDArray[Any]) -> NDArray[np.float64]:
        return np.where(self.kernel.diagonal(A) > 0, 1.0, 0.0)


def inverse_root(diagonal: NDArray[Any]) -> NDArray[np.float64]:
    """``1 / sqrt(k_ii)``, and zero for an input of norm zero, which no scaling can help."""
    with np.errstate(divide="ignore"):
        return np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 0.0)), 0.0)
