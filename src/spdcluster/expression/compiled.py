"""The one place that sets up numba: machine code without the GIL, cached on disk where that is possible."""

from collections.abc import Callable
from typing import Any

from numba import njit

# Reassociation and fused multiply-add let the sums vectorise; NaN and infinity keep their meaning,
# because comparisons with them end the active-set loops.
FAST = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call, release the GIL, keep the machine code for the next process.

    numba puts its cache beside the source or, where that is read-only, in the user's cache folder;
    where neither can be written it raises, and the function is compiled anew in each process.
    """
    options = {"nogil": True, "fastmath": FAST, "error_model": "numpy", "boundscheck": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)
