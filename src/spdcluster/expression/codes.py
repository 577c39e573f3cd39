"""Codes of rows, solved in any order, as one sparse matrix with what is known of each row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.expression.active_set import duality_gap


@dataclass(frozen=True)
class Solution:
    """Codes (n_rows, N), and of each row its objective, absolute duality gap and rounds."""

    coef: csr_array
    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    rounds: NDArray[np.int64]


class RowCodes:
    """Collects the codes of rows and gives them back as a `Solution`."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.shape = (n_rows, n_columns)
        self.parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.objective, self.gap = np.zeros(n_rows), np.zeros(n_rows)
        self.rounds = np.zeros(n_rows, np.int64)

    def store(
        self, rows: NDArray[Any], sizes: NDArray[Any], atoms: NDArray[Any], c: NDArray[Any]
    ) -> None:
        """Keep the first ``sizes[t]`` of ``atoms[t]`` and ``c[t]`` as the code of ``rows[t]``."""
        used = np.arange(atoms.shape[1]) < sizes[:, None]
        self.parts.append((np.repeat(rows, sizes), atoms[used], c[used]))

    def report(
        self, rows: NDArray[Any], values: NDArray[Any], lam: NDArray[Any], rounds: NDArray[Any]
    ) -> None:
        """Keep what `active_set.duality_gap` makes of the `values` (r, 4), and the rounds."""
        self.objective[rows], self.gap[rows] = values[:, 0], duality_gap(values, lam)
        self.rounds[rows] = rounds

    def solution(self) -> Solution:
        """All rows; indices sorted within each."""
        rows, columns, data = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        coef = csr_array((data, (rows, columns)), shape=self.shape)
        coef.sort_indices()
        return Solution(coef, self.objective, self.gap, self.rounds)
