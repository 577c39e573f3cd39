"""The one place that sets up numba: machine code without the GIL, cached on disk where that is possible."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.cpu import CPUTargetOptions

# Reassociation and fused multiply-add let the sums vectorise; NaN and infinity keep their meaning,
# because comparisons with them end the active-set loops.
FAST = {"reassoc", "contract", "arcp", "nsz"}


# not every numba knows them, and without them all is as right, but slower
LEAF_OPTIONS = {
    name: value
    for name, value in {"forceinline": True, "_nrt": False}.items()
    if hasattr(CPUTargetOptions, name)
}
OPTIONS = {"nogil": True, "fastmath": FAST, "error_model": "numpy", "boundscheck": False}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call, release the GIL, keep the machine code for the next process.

    numba puts its cache beside the source or, where that is read-only, in the user's cache folder;
    where neither can be written it raises, and the function is compiled anew in each process.
    """
    return _compiled(function, **OPTIONS)


def leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a step of a compiled function that is called very often and makes no arrays.

    It becomes part of its caller, and does not count references to the arrays that it is given: each count is
    an atomic instruction, and a function with many arrays spent a third of its time on them.
    """
    return _compiled(function, **LEAF_OPTIONS, **OPTIONS)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:
        return njit(**options)(function)
