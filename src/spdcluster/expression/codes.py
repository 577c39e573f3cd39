"""Codes of rows, solved in any order, as one sparse matrix with what is known of each row."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.expression.active_set import duality_gap
from spdcluster.expression.compiled import compiled


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
    gap = duality_gap(values, lam)
    some_atoms, some_c = leading(sizes, atoms, c)
    objective = values[:, 0].copy()
    return CodedRows(rows, sizes.copy(), some_atoms, some_c, objective, gap, rounds.copy())


@compiled
def leading(
    sizes: NDArray[Any], atoms: NDArray[Any], c: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:  # pragma: no cover
    """The first ``sizes[t]`` entries of each row of `atoms` and `c` (r, room), one row after the other."""
    total = sizes.sum()
    some_atoms, some_c = np.empty(total, np.int64), np.empty(total)
    at = 0
    for t in range(len(sizes)):
        for a in range(sizes[t]):
            some_atoms[at], some_c[at] = atoms[t, a], c[t, a]
            at += 1
    return some_atoms, some_c


@compiled
def place(
    rows: NDArray[Any],
    sizes: NDArray[Any],
    atoms: NDArray[Any],
    c: NDArray[Any],
    starts: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
) -> None:  # pragma: no cover
    """Put the codes of some rows (r,) where they belong in a sparse matrix whose rows begin at `starts`."""
    at = 0
    for t in range(len(rows)):
        start = starts[rows[t]]
        for a in range(sizes[t]):
            indices[start + a], data[start + a] = atoms[at], c[at]
            at += 1


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
        starts = np.zeros(n + 1, np.int64)
        for part in self.parts:
            objective[part.rows], gap[part.rows] = part.objective, part.gap
            rounds[part.rows], starts[part.rows + 1] = part.rounds, part.sizes
        np.cumsum(starts, out=starts)
        indices, data = np.empty(starts[-1], np.int64), np.empty(starts[-1])
        for part in self.parts:
            place(part.rows, part.sizes, part.atoms, part.c, starts, indices, data)
        coef = csr_array((data, indices, starts), shape=self.shape)
        coef.sort_indices()
        return Solution(coef, objective, gap, rounds)

    def solutions(self, steps: int) -> list[Solution]:
        """The rows with the numbers s, s + `steps`, s + 2 `steps`... as a `Solution` for each s below `steps`."""
        whole = self.solution()
        if steps == 1:
            return [whole]
        return [
            Solution(
                whole.coef[s::steps],
                whole.objective[s::steps],
                whole.gap[s::steps],
                whole.rounds[s::steps],
            )
            for s in range(steps)
        ]


def penalties(
    alphas: NDArray[np.float64], l1_ratio: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``lam`` and ``mu`` of `spdcluster.expression.active_set` for penalties (S, N), point by point: (N S,)."""
    flat = np.ascontiguousarray(alphas.T).ravel()
    return flat * l1_ratio / 2.0, flat * (1.0 - l1_ratio) / 2.0
