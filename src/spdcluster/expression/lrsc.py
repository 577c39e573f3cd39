"""Low-rank subspace clustering in closed form (Vidal and Favaro 2014), from one singular value decomposition.

    min_{A, C}  |C|_* + tau/2 |A - A C|_F^2 + alpha/2 |D - A|_F^2,    C = C^T    (columns of D are points)

With ``D = U diag(s) V^T`` the optimum has ``A = U diag(l) V^T`` and ``C = V diag(p(l)) V^T``,
``p(l) = 1 - 1/(tau l^2)`` where ``l > 1/sqrt(tau)`` and zero elsewhere. What C costs at its best is

    phi(l) = 1 - 1/(2 tau l^2)  where  l > 1/sqrt(tau),      tau l^2 / 2  elsewhere,

so that each singular value solves ``min_l phi(l) + alpha/2 (s - l)^2`` by itself: on the lower branch
``l = s alpha/(alpha + tau)``, on the upper the largest root of ``l^4 - s l^3 + 1/(alpha tau)``. The better
of the two is the global minimum: the problem as a whole is not convex, each of these is decided exactly.
The four variants are limits of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdcluster.arguments import check_choice, check_real
from spdcluster.expression.low_rank import LowRankExpression, row_space

Array = NDArray[np.float64]

VARIANTS = ("noisy", "noisy-exact", "uncorrupted", "noise-free")


def lrsc(
    X: NDArray[Any], *, tau: float = 1.0, alpha: float = 0.01, variant: str = "noisy"
) -> LowRankExpression:
    """Low-rank code of the rows of `X`.

    Parameters
    ----------
    X : ndarray, shape (N, D)
    tau : float
        Weight of the self-expression error ``|A - A C|^2 / 2``.
    alpha : float
        Weight of the noise ``|D - A|^2 / 2``.
    variant : {"noisy", "noisy-exact", "uncorrupted", "noise-free"}
        "noisy" is the problem above; "noisy-exact" requires ``A = A C`` (tau without bound);
        "uncorrupted" requires ``A = D`` (alpha without bound); "noise-free" requires ``D = D C``.

    Returns
    -------
    LowRankExpression
    """
    tau = check_real(tau, "tau", low=0.0, low_open=True)
    alpha = check_real(alpha, "alpha", low=0.0, low_open=True)
    check_choice(variant, "variant", VARIANTS)
    s, V = row_space(np.asarray(X, dtype=np.float64))
    if variant == "noise-free":
        values = np.ones_like(s)
        objective = float(len(s))
    elif variant == "noisy-exact":
        values = (0.5 * alpha * s * s > 1.0).astype(np.float64)
        objective = float(np.minimum(1.0, 0.5 * alpha * s * s).sum())
    else:
        clean = s if variant == "uncorrupted" else clean_singular_values(s, tau, alpha)
        values = shrink(tau * clean**2)
        objective = float(expression_cost(tau * clean**2).sum())
        objective += 0.5 * alpha * float(np.sum((s - clean) ** 2))
    kept = values > 0.0
    return LowRankExpression(V[:, kept], values[kept], V[:, kept], objective)


def shrink(strength: Array) -> Array:
    """``1 - 1/strength`` where it is positive: the eigenvalues of C for ``strength = tau l^2``."""
    return np.maximum(0.0, 1.0 - 1.0 / np.maximum(strength, 1.0))


def expression_cost(strength: Array) -> Array:
    """``phi`` as a function of ``tau l^2``."""
    return np.where(strength > 1.0, 1.0 - 0.5 / np.maximum(strength, 1.0), 0.5 * strength)


def clean_singular_values(s: Array, tau: float, alpha: float) -> Array:
    """The polynomial thresholding: ``argmin_l phi(l) + alpha/2 (s - l)^2`` for each singular value."""
    lower = np.minimum(s * (alpha / (alpha + tau)), 1.0 / np.sqrt(tau))
    upper = _largest_root(s, 1.0 / (alpha * tau))
    has_root = ~np.isnan(upper)
    upper = np.where(has_root, np.maximum(upper, 1.0 / np.sqrt(tau)), lower)

    def cost(l: Array) -> Array:
        return np.asarray(expression_cost(tau * l * l) + 0.5 * alpha * (s - l) ** 2)

    return np.where(cost(upper) < cost(lower), upper, lower)


def _largest_root(s: Array, constant: float) -> Array:
    """The largest root of ``l^4 - s l^3 + constant`` in l > 0; NaN where there is none.

    Newton's method from ``l = s``, where the quartic is positive: it is convex from there down to its
    minimum at ``3 s / 4``, so that the steps never pass the root.
    """
    has_root = 27.0 * s**4 >= 256.0 * constant
    l = np.where(has_root, s, 1.0)
    lowest = 0.75 * l
    for _ in range(200):
        value = l**3 * (l - s) + constant
        slope = l * l * (4.0 * l - 3.0 * s)
        step = np.where(has_root & (slope > 0.0), value / np.where(slope > 0.0, slope, 1.0), 0.0)
        following = np.maximum(l - step, lowest)
        if np.all(np.abs(following - l) <= 1e-15 * l):
            break
        l = following
    return np.where(has_root, l, np.nan)
