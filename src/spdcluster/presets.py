"""Parameter sets for `spdcluster.KernelSSC` that were measured as a whole; see docs/results.md."""

from typing import Any

from spdcluster.arguments import check_int

# Atoms of a code: enough to reach past a matrix's own sub-group, too few to leave its cluster.
MOST_ATOMS = 10


def best(n_matrices: int, n_clusters: int) -> dict[str, Any]:
    """Parameters of `KernelSSC` that beat its defaults on most data; a rule free of labels.

    * A wide kernel, three tenths of the usual `gamma`: codes then say how a matrix lies between others, not
      only which are near.
    * Codes by their number of atoms (`atoms`) instead of a penalty, so that dense and sparse regions are
      treated alike.
    * Twice as many eigenvectors as clusters, each weighted by its eigenvalue to the third power, so that
      a cluster that falls into sub-groups does not push two others into one; degrees regularised, so
      that a few stray matrices are not a cluster.

    Parameters
    ----------
    n_matrices : int
        How many matrices will be clustered.
    n_clusters : int

    Returns
    -------
    dict
        Keyword arguments, `n_clusters` among them.

    Examples
    --------
    >>> from spdcluster import KernelSSC
    >>> from spdcluster.presets import best
    >>> model = KernelSSC(**best(n_matrices=500, n_clusters=4), random_state=0)
    >>> model.gamma, model.alpha, model.n_components
    ('0.3*scale', 10, 8)
    """
    n = check_int(n_matrices, "n_matrices", low=2)
    k = check_int(n_clusters, "n_clusters", low=1, high=n)
    return {
        "n_clusters": k,
        "gamma": "0.3*scale",
        "alpha": atoms(n, k),
        "alpha_mode": "atoms",
        "n_components": min(n, 2 * k),
        "eigenvalue_power": 3.0,
        "degree_regularization": 0.5,
        "n_init": 50,
    }


def atoms(n_matrices: int, n_clusters: int) -> int:
    """Atoms of a code: at most `MOST_ATOMS`, and no more than an average cluster has other members."""
    return max(1, min(MOST_ATOMS, n_matrices // n_clusters - 1))
