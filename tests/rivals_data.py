"""Data with a known answer for the rival methods, and the bad input that each must refuse."""

import numpy as np
from scipy.linalg import expm

from samples import spd

GOOD = spd(np.random.default_rng(11), 8, 3)

# (parameters, input, error, message) that every estimator answers alike
BAD_MATRICES = [
    ({}, GOOD[:, :2], ValueError, r"X must hold square matrices"),
    ({}, GOOD[:0], ValueError, r"at least 2 matrices"),
    ({}, GOOD[:1], ValueError, r"at least 2 matrices"),
    ({}, np.full((4, 2, 2), np.nan), ValueError, r"X\[0\] contains NaN"),
    (
        {},
        np.where(np.arange(8)[:, None, None] == 5, np.inf, GOOD),
        ValueError,
        r"X\[5\] contains infinity \(1 of 8",
    ),
    ({}, GOOD + np.triu(np.ones((3, 3)), 1), ValueError, r"X\[0\] is not symmetric"),
    ({}, GOOD + 0.5j, ValueError, r"X\[0\] is not Hermitian"),
    ({}, [[[1.0, 2.0], [3.0]]], ValueError, r"X must be .*(differ in|inhomogeneous) shape"),
    ({}, [["a", "b"]], (TypeError, ValueError), r"X must be .*(text|convert string)"),
    ({}, np.array([[{}], [None]]), TypeError, r"X must be .*(objects|not 'dict')"),
    ({}, np.full((4, 2, 2), None), TypeError, r"X must be an array of numbers; got objects"),
    ({}, 3.0, ValueError, r"X must be 3-D"),
    ({}, GOOD[None], ValueError, r"X must be 3-D"),
    ({"n_clusters": 9}, GOOD, ValueError, r"n_clusters=9 is more than the n_samples=8"),
    ({"n_clusters": 0}, GOOD, ValueError, r"n_clusters must be an integer of at least 1"),
    ({"n_clusters": 2.0}, GOOD, TypeError, r"n_clusters must be an integer"),
    ({"n_clusters": "3"}, GOOD, TypeError, r"n_clusters must be an integer"),
    ({"n_init": 0}, GOOD, ValueError, r"n_init must be an integer of at least 1"),
    ({"random_state": "x"}, GOOD, ValueError, r"random_state must be"),
]


def subspaces(rng, dimensions, ambient, per_subspace, offset=0.0, noise=0.0):
    """Points on random subspaces (affine for offset > 0) and their subspace: (N, ambient), (N,)."""
    X = []
    for dimension in dimensions:
        basis, _ = np.linalg.qr(rng.normal(size=(ambient, dimension)))
        points = rng.normal(size=(per_subspace, dimension)) @ basis.T
        X.append(points + offset * rng.normal(size=ambient))
    X = np.concatenate(X)
    return X + noise * rng.normal(size=X.shape), np.repeat(np.arange(len(dimensions)), per_subspace)


def flat_submanifolds(rng, n_groups, size, d, spread=1.5):
    """SPD matrices on totally geodesic surfaces through the identity, all with the same eigenvectors.

    Linear in the logarithm, of 2 dimensions each and independent; curved, and all in one d-dimensional
    subspace, as flattened matrices.
    """
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    directions, _ = np.linalg.qr(rng.normal(size=(d, 2 * n_groups)))
    X = []
    for g in range(n_groups):
        coordinates = spread * rng.normal(size=(size, 2))
        logs = coordinates @ directions[:, 2 * g : 2 * g + 2].T
        X += [Q @ expm(np.diag(log)) @ Q.T for log in logs]
    X = np.array(X)
    return (X + X.swapaxes(1, 2)) / 2, np.repeat(np.arange(n_groups), size)
