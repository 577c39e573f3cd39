"""What `summary.json` says of a run: everything needed to judge it and to repeat it."""

import json
import platform
import shlex
import sys
from importlib.metadata import version
from typing import Any

import numpy as np

from spdcluster import __version__
from spdcluster.cli.inputs import Collection
from spdcluster.report import Measures

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyriemann")


def summarize(
    collection: Collection,
    model: Any,
    m: Measures,
    preset: str,
    arguments: list[str],
    python: str,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The content of `summary.json`, as Python objects."""
    X = collection.X
    quality: dict[str, Any] = {
        "silhouette": m.silhouette,
        "normalized_cut": m.normalized_cut.tolist(),
    }
    if m.agreement is not None:
        quality |= {
            "accuracy": m.agreement.accuracy,
            "nmi": m.agreement.nmi,
            "ari": m.agreement.ari,
            "confusion": {
                "classes": m.agreement.classes,
                "clusters": m.agreement.clusters,
                "counts": m.agreement.confusion.tolist(),
            },
        }
    return {
        "command": shlex.join(arguments),
        "python": python,
        "input": {
            "source": collection.source,
            "shape": list(X.shape),
            "dtype": str(X.dtype),
        },
        "preset": preset,
        "parameters": model.get_params(),
        "gamma": model.gamma_,
        "n_clusters": m.n_clusters,
        "sizes": m.sizes.tolist(),
        "dual_gap": model.dual_gap_,
        "objective": model.objective_,
        "n_iter": model.n_iter_,
        "atoms_per_item": model.representation_.nnz / len(m.labels),
        "eigenvalues": m.eigenvalues.tolist(),
        "quality": quality,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
        "versions": {"spdcluster": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }


def python_snippet(collection: Collection, parameters: dict[str, Any]) -> str:
    """The run as a Python program."""
    arguments = [f"{name}={value!r}" for name, value in parameters.items()]
    call = ", ".join(arguments)
    if len(call) > 60:
        call = "".join(f"\n    {argument}," for argument in arguments) + "\n"
    return (
        f"from spdcluster import KernelSSC\n{collection.python}"
        f"model = KernelSSC({call}).fit(X)\n"
        "print(model.labels_, model.dual_gap_)\n"
    )


def facts(summary: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Parts of the summary as tables for people: group, name, value."""
    memory = summary["peak_memory_bytes"]
    found = {
        "gamma of the kernel": _shown(summary["gamma"]),
        "objective": _shown(summary["objective"]),
        "largest duality gap": f"{summary['dual_gap']:.1e}",
        "items in a code, on average": _shown(summary["atoms_per_item"]),
        "time to cluster": f"{summary['seconds']['cluster']:.2f} s",
        "peak memory": "unknown" if memory is None else f"{memory / 2**20:.0f} MiB",
    }
    return {
        "Found": found,
        "Parameters": {"preset": summary["preset"]}
        | {k: _shown(v) for k, v in summary["parameters"].items()},
        "Versions": summary["versions"],
    }


def peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None where it is not known."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def as_json(summary: dict[str, Any]) -> str:
    """The text of `summary.json`."""
    return json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Only what JSON knows: no NaN, no numpy."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
