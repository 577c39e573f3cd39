"""Which classes and which of their members each trial clusters: the same for every method."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Draw:
    """One trial's subset.

    Attributes
    ----------
    protocol : str
    n_classes : int
    trial : int
    members : ndarray of int, shape (n_points,)
        Ascending indices into the whole set.
    seed : int
        For k-means.
    """

    protocol: str
    n_classes: int
    trial: int
    members: NDArray[np.intp]
    seed: int


def draw_subsets(
    labels: NDArray[np.int64],
    protocol: str,
    n_classes: Sequence[int],
    n_trials: int,
    seed: int,
    *,
    class_sizes: tuple[int, int] | None = None,
) -> list[Draw]:
    """Random classes for every number of classes and every trial.

    Parameters
    ----------
    labels : ndarray, shape (n_points,)
    protocol : str
        Name of this family of draws; draws of two protocols are independent.
    n_classes : sequence of int
    n_trials : int
    seed : int
    class_sizes : (int, int) or None
        Unbalanced draws: each class gives so many members, a number drawn evenly between the two
        (but no more than it has). None: all members of the classes.

    Returns
    -------
    list of Draw
        A trial's draw depends on the seed, its protocol, its number of classes and its own number
        alone, so that more trials or other class counts leave it as it is.
    """
    names = np.unique(labels)
    draws = []
    for k in n_classes:
        for trial in range(n_trials):
            rng = np.random.default_rng([seed, crc32(protocol.encode()), k, trial])
            chosen = rng.choice(names, k, replace=False)
            parts = [np.flatnonzero(labels == name) for name in chosen]
            if class_sizes is not None:
                sizes = rng.integers(class_sizes[0], class_sizes[1] + 1, size=k)
                parts = [
                    rng.choice(part, min(len(part), size), replace=False)
                    for part, size in zip(parts, sizes)
                ]
            members = np.sort(np.concatenate(parts))
            draws.append(Draw(protocol, k, trial, members, int(rng.integers(2**31))))
    return draws
