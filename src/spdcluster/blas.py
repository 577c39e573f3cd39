"""BLAS on one thread while our own threads work, or where a result must not depend on their number."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    # looking for the loaded libraries takes milliseconds, as long as coding a thousand matrices: once
    # will do, when all that this package calls are loaded
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """A context in which numpy's and scipy's BLAS use one thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit
