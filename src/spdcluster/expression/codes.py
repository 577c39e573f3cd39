"""Codes of rows, solved in any order, as one sparse matrix with what is known of each row."""

from dataclasses import dataclass
from typing import Any, NamedTuple

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


class CodedRows(NamedTuple):
    """Codes of some rows, the atoms of all in one array: what is left of a finished task.

    Attributes
    ----------
    rows, sizes : (r,); atoms, c : (sum of sizes,); objective, gap, rounds : (r,)
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]
    atoms: NDArray[np.int64]
    c: NDArray[np.float64]
    objective: NDArray[np.float64]
    gap: NDArray[np.float64]
    rounds: NDArray[np.int64]


def coded_rows(
    rows: NDArray[Any], sizes: NDArray[Any], atoms: NDArray[Any], c: NDArray[Any],
    values: NDArray[Any], lam: NDArray[Any], rounds: NDArray[Any],
) -> CodedRows:  # fmt: skip
    """Keep the first ``sizes[t]`` of ``atoms[t]`` and ``c[t]``, and what `duality_gap` makes of `values`."""
    used = np.arange(atoms.shape[1]) < sizes[:, None]
    gap = duality_gap(values, lam)
    return CodedRows(rows, sizes, atoms[used], c[used], values[:, 0].copy(), gap, rounds)


class RowCodes:
    """Collects the codes of rows and gives them back as a `Solution`."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.shape = (n_rows, n_columns)
        self.parts: list[CodedRows] = []

    def add(self, part: CodedRows) -> None:
        """Take the codes of rows that were not there before."""
        self.parts.append(part)

    def solution(self) -> Solution:
        """All rows; indices sorted within each."""
        n = self.shape[0]
        objective, gap, rounds = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
        for part in self.parts:
            objective[part.rows], gap[part.rows] = part.objective, part.gap
            rounds[part.rows] = part.rounds
        rows = np.concatenate([np.repeat(part.rows, part.sizes) for part in self.parts])
        columns = np.concatenate([part.atoms for part in self.parts])
        data = np.concatenate([part.c for part in self.parts])
        coef = csr_array((data, (rows, columns)), shape=self.shape)
        coef.sort_indices()
        return Solution(coef, objective, gap, rounds)
