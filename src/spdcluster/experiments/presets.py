"""The rows of the tables: the paper's methods with its parameters, and the preset beyond them."""

from spdcluster.experiments import published
from spdcluster.experiments.methods import Method

OURS = {"paper": "KSSCR", "best": "best"}
BEST_NOTE = (
    "best is KernelSSC(**spdcluster.presets.best(n_matrices, n_clusters)), the same for every data set "
    'and free of labels; its descriptors are balanced (normalize="balanced").'
)


def ksscr(descriptor: str, gamma: float | str, alpha: float, name: str = "KSSCR") -> Method:
    """The paper's method, solved exactly."""
    return Method(name, descriptor, "KernelSSC", {"gamma": gamma, "alpha": alpha})


def paper_methods(gamma: float, alpha: float, rho: float, descriptor: str) -> list[Method]:
    """The paper's tables, with the parameters it names, and what they lack.

    The paper does not give KSSCE's kernel width: the package's rule stands in.
    """
    admm = {"gamma": gamma, "alpha": alpha, "solver": "admm", "rho": rho, "tol": 1e-3}
    return [
        Method("K-means", descriptor, "k-means"),
        Method("SSC", descriptor, "SSC", {"alpha": 100.0}),
        Method("LRSC", descriptor, "LRSC", {"tau": 1.0, "alpha": 0.01}),
        Method("LRR", descriptor, "LRR", {"lam": 0.4}),
        Method("KSSCE", descriptor, "KernelSSC", {"kernel": "gaussian", "alpha": 0.4}),
        ksscr(descriptor, gamma, alpha),
        Method("KSSCR, ADMM", descriptor, "KernelSSC", admm),
        ksscr(descriptor, "scale", published.BRODATZ_ALPHA, "KernelSSC, defaults"),
        Method("K-means, log", descriptor, "k-means", {"logarithm": True}),
        neighbour_graph(descriptor),
        elastic_net(descriptor),
        exact_elastic_net(descriptor),
        Method("KernelLRR", descriptor, "KernelLRR"),
        Method("TangentSSC", descriptor, "TangentSSC", {"n_neighbors": 100}),
    ]


def neighbour_graph(descriptor: str, name: str = "neighbour graph") -> Method:
    """Spectral clustering of the log-Euclidean 10-nearest-neighbour graph."""
    return Method(name, descriptor, "neighbour graph", {"n_neighbors": 10})


def elastic_net(descriptor: str, name: str = "elastic net, log") -> Method:
    """Elastic-net subspace clustering of unit log vectors as its authors ship it."""
    return Method(name, descriptor, "elastic net, SPAMS")


def exact_elastic_net(descriptor: str, name: str = "elastic net, log, exact") -> Method:
    """Its objective, solved exactly."""
    parameters = {
        "kernel": "log-linear",
        "normalize": True,
        "alpha": 0.02,
        "alpha_mode": "relative",
        "l1_ratio": 0.9,
        "affinity": "row-normalized",
    }
    return Method(name, descriptor, "KernelSSC", parameters)


def best(descriptor: str, name: str = "best") -> Method:
    """The preset: one rule for every data set, free of labels."""
    return Method(name, descriptor, "spdcluster.presets.best")


def best_methods(
    gamma: float, alpha: float, paper_descriptor: str, best_descriptor: str
) -> list[Method]:
    """The preset and its rivals, on the paper's descriptor and on the preset's own."""
    plain = "KSSCR"
    return [
        best(best_descriptor),
        best(paper_descriptor, "best, the paper's descriptor"),
        ksscr(paper_descriptor, gamma, alpha),
        ksscr(best_descriptor, gamma, alpha, f"{plain}, best's descriptor"),
        neighbour_graph(paper_descriptor),
        neighbour_graph(best_descriptor, "neighbour graph, best's descriptor"),
        elastic_net(paper_descriptor),
        elastic_net(best_descriptor, "elastic net, log, best's descriptor"),
    ]
