"""Clustering of symmetric and Hermitian positive definite matrices by sparse self-expression.

The line from matrices to labels is ``geometry -> kernels -> expression -> graph``; the estimators
of this module only compose those rooms. Names are imported on first use, so that
``import spdcluster`` stays cheap.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "KernelSSC": "spdcluster.estimators.kernel_ssc",
    "SSC": "spdcluster.estimators.ssc",
    "LRR": "spdcluster.estimators.lrr",
    "LRSC": "spdcluster.estimators.lrsc",
    "TangentSSC": "spdcluster.estimators.tangent_ssc",
    "KernelLRR": "spdcluster.estimators.kernel_lrr",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'spdcluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
