"""Self-expression with a cap on the atoms of a code, and the graph steps of the preset."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spdcluster.experiments.methods import Clustering

# Penalties of the path, as shares of each row's largest: from codes of one or two atoms on.
PENALTIES = tuple(0.7 * 0.72**step for step in range(16))


def capped_codes(
    gram: Any, n_atoms: int, *, l1_ratio: float = 1.0, n_jobs: int | None = None
) -> sp.csr_array:
    """For each row the exact code at the smallest penalty of a path that has at most `n_atoms` atoms.

    A row that has more at every penalty keeps the code of the largest.

    Parameters
    ----------
    gram : `spdcluster.kernels.gram.Gram`
    n_atoms : int
    l1_ratio : float in (0, 1]
    n_jobs : int or None

    Returns
    -------
    csr_array, shape (N, N)
    """
    from spdcluster.expression.solve import self_expression

    chosen: Any = None
    for alpha in PENALTIES:
        codes = self_expression(
            gram, alpha=alpha, alpha_mode="relative", l1_ratio=l1_ratio, n_jobs=n_jobs
        ).coef
        fits = np.diff(codes.indptr) <= n_atoms
        if chosen is None:
            chosen = codes
        elif fits.any():
            new = sp.diags_array(fits.astype(float))
            old = sp.diags_array((~fits).astype(float))
            chosen = new @ codes + old @ chosen
        else:
            break
    kept = sp.csr_array(chosen)
    kept.eliminate_zeros()
    return kept


def cluster_capped(
    X: NDArray[Any],
    n_clusters: int,
    seed: int,
    *,
    n_jobs: int | None = None,
    kernel: str = "log-gaussian",
    width: float = 1.0,
    normalize: bool = False,
    n_atoms: int = 10,
    atoms_by_size: bool = False,
    l1_ratio: float = 1.0,
    affinity: str = "symmetric",
    components_per_cluster: float = 1.0,
    eigenvalue_power: float = 0.0,
    degree_regularization: float = 0.0,
    n_init: int = 20,
) -> Clustering:
    """`KernelSSC` with capped codes.

    Parameters
    ----------
    width : float
        Gaussian kernel: gamma as a multiple of one over the mean squared distance.
    n_atoms : int
    atoms_by_size : bool
        No more atoms than an average cluster has other members, ``n / n_clusters - 1``.
    components_per_cluster : float
        Eigenvectors in the embedding, by the number of clusters.
    kernel, normalize, l1_ratio, affinity, eigenvalue_power, degree_regularization, n_init
        As in `spdcluster.KernelSSC`.
    """
    from spdcluster.graph import affinity as make_affinity
    from spdcluster.graph import spectral_clustering
    from spdcluster.kernels import make_kernel

    bound = make_kernel(kernel, normalize=normalize, n_jobs=n_jobs)
    gram = bound.bind(X)
    if kernel == "log-gaussian" and width != 1.0:
        assert bound.gamma_ is not None
        gram = make_kernel(kernel, gamma=width * bound.gamma_, n_jobs=n_jobs).bind(X)
    if atoms_by_size:
        n_atoms = max(1, min(n_atoms, len(X) // n_clusters - 1))
    codes = capped_codes(gram, n_atoms, l1_ratio=l1_ratio, n_jobs=n_jobs)
    W = make_affinity(codes, affinity)
    result = spectral_clustering(
        W,
        n_clusters,
        n_init=n_init,
        random_state=seed,
        n_components=min(len(X), round(components_per_cluster * n_clusters)),
        weight_power=eigenvalue_power,
        degree_regularization=degree_regularization,
    )
    return Clustering(result.labels, W)
