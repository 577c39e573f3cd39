"""Exact sparse codes of one point under a linear constraint: a primal active set with a certificate.

Solves, for one target t and atoms T_j,

    min_w  alpha |w|_1 + |t - sum_j w_j T_j|^2    subject to  a.w = 1 (when constrained),

which is a row of the tangent-space method (t = 0, the paper's eq. (2)) and of sparse subspace
clustering with its affine constraint or its outlier term (whose atoms are the unit vectors).

Under the constraint, one more coordinate that holds ``sqrt(kappa) a_j`` for every atom and
``sqrt(kappa)`` for the target adds ``kappa (a.w - 1)^2 = 0`` to the objective. It changes no solution and
makes the Gram matrix of affinely independent atoms definite. The callers append it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spdcluster.expression.cholesky import (
    append_atom,
    remove_atom,
    solve_factored,
    solve_upper,
)
from spdcluster.expression.compiled import compiled

Array = NDArray[Any]

# an atom whose Cholesky pivot falls below this share of its squared norm depends on the active ones
DEPENDENT = 1e-11


def as_sparse(sizes: Array, indices: Array, weights: Array, n_atoms: int) -> csr_array:
    """The first ``sizes[i]`` of ``indices[i]`` and ``weights[i]`` as row i of a sparse (n, n_atoms)."""
    used = np.arange(indices.shape[1]) < sizes[:, None]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    coef = csr_array((weights[used], indices[used], indptr), shape=(len(sizes), n_atoms))
    coef.sort_indices()
    return coef


@compiled
def solve_codes(
    gram: Array,
    rows: Array,
    constraint: Array,
    alpha: float,
    starts: Array,
    tol: float,
    max_steps: int,
    capacity: int,
) -> tuple[Array, Array, Array, Array, Array, Array]:  # pragma: no cover
    """`solve_code` for some atoms of a Gram matrix, each coded by the others.

    Returns sizes (r,), indices and weights (r, capacity), objectives (r,), gaps (r,) and steps (r,).
    """
    r = len(rows)
    sizes, steps = np.zeros(r, np.int64), np.zeros(r, np.int64)
    indices, weights = np.zeros((r, capacity), np.int64), np.zeros((r, capacity))
    objective, gap = np.zeros(r), np.zeros(r)
    factor = np.zeros((capacity, capacity))
    atoms, target = np.zeros((0, 0)), np.zeros(0)
    for t in range(r):
        sizes[t], objective[t], gap[t], steps[t] = solve_code(
            atoms, target, gram, constraint, alpha, rows[t], starts[t], tol, max_steps,
            factor, indices[t], weights[t],
        )  # fmt: skip
    return sizes, indices, weights, objective, gap, steps


@compiled
def solve_code(
    atoms: Array,
    target: Array,
    gram: Array,
    constraint: Array,
    alpha: float,
    skip: int,
    start: int,
    tol: float,
    max_steps: int,
    factor: Array,
    indices: Array,
    weights: Array,
) -> tuple[int, float, float, int]:  # pragma: no cover
    """Solve one code; the arrays `factor`, `indices` and `weights` are work space and result.

    Parameters
    ----------
    atoms : ndarray, shape (p, n_atoms)
        Atoms as columns; with shape (0, 0) the problem is read from `gram` alone.
    target : ndarray, shape (p,)
        The vector t (unused when the problem is read from `gram`).
    gram : ndarray, shape (n_atoms, n_atoms), or (0, 0)
        Inner products of the atoms; the target is then atom `skip`.
    constraint : ndarray, shape (n_atoms,), or (0,)
        The coefficients a, each zero or one; empty for no constraint.
    alpha : float
        Weight of the l1 norm.
    skip : int
        An atom that must keep weight zero, or -1.
    start : int
        A feasible first atom (``a[start] = 1``); -1 starts from zero, without constraint only.
    tol : float
        Largest violation of the optimality conditions, relative to alpha.
    max_steps : int
        Atoms added and dropped at most.

    Returns
    -------
    count, objective, gap, steps : int, float, float, int
        Size of the support, objective, absolute duality gap, atoms added and dropped.
    """
    use_gram = gram.shape[0] > 0
    n = gram.shape[0] if use_gram else atoms.shape[1]
    has_constraint = constraint.shape[0] > 0
    capacity = len(factor)
    signs, candidate, work = np.empty(capacity), np.empty(capacity), np.empty(capacity)
    allowed = np.ones(n, dtype=np.bool_)
    if skip >= 0:
        allowed[skip] = False
    target_norm = gram[skip, skip] if use_gram else np.dot(target, target)
    correlation = np.empty(n)
    residual = np.empty(target.shape[0])
    _correlate(atoms, target, gram, skip, indices, weights, 0, residual, correlation)
    to_target = correlation.copy()
    size = 0
    multiplier = 0.0
    scale = np.abs(to_target).max()
    if start >= 0:
        _append(atoms, gram, factor, indices, size, start, work)
        indices[0], weights[0], signs[0], size = start, 1.0, 1.0, 1
        allowed[start] = False
    steps = 0
    newest = -1
    while True:
        multiplier = _minimise(
            factor, indices, size, signs, to_target, constraint, alpha, candidate, work
        )
        drop, fraction = _first_sign_change(weights, candidate, signs, size)
        for k in range(size):
            weights[k] += fraction * (candidate[k] - weights[k])
        steps += 1
        if drop >= 0 and steps < max_steps:
            # an atom that leaves without having moved is at its bound up to rounding: not again
            allowed[indices[drop]] = not (indices[drop] == newest and fraction == 0.0)
            size = _delete(factor, indices, weights, signs, size, drop)
            continue
        _correlate(atoms, target, gram, skip, indices, weights, size, residual, correlation)
        best, excess = _worst_violator(correlation, constraint, multiplier, alpha, allowed)
        if excess <= tol * alpha + 1e-14 * scale or steps >= max_steps:
            break
        slope = 2.0 * correlation[best]
        if has_constraint:
            slope -= multiplier * constraint[best]
        sign = 1.0 if slope > 0 else -1.0
        value = 0.0
        if not _append(atoms, gram, factor, indices, size, best, work):
            drop, value = _exchange(factor, weights, signs, size, sign, work)
            if drop < 0:
                allowed[best] = False
                continue
            allowed[indices[drop]] = True
            size = _delete(factor, indices, weights, signs, size, drop)
            if not _append(atoms, gram, factor, indices, size, best, work):
                # three or more dependent atoms: without it the constraint would be off by `value`
                allowed[best] = False
                continue
        indices[size], weights[size], signs[size] = best, value, sign
        size += 1
        allowed[best] = False
        newest = best
    objective, gap = _certificate(
        target_norm, to_target, correlation, constraint, multiplier, alpha, skip,
        indices, weights, size,
    )  # fmt: skip
    return size, objective, gap, steps


@compiled
def _correlate(
    atoms: Array,
    target: Array,
    gram: Array,
    skip: int,
    indices: Array,
    weights: Array,
    size: int,
    residual: Array,
    correlation: Array,
) -> None:  # pragma: no cover
    """Inner products of every atom with the residual ``t - sum_j w_j T_j``."""
    if gram.shape[0] > 0:
        correlation[:] = gram[skip]
        for k in range(size):
            weight = weights[k]
            row = gram[indices[k]]
            for j in range(correlation.shape[0]):
                correlation[j] -= weight * row[j]
        return
    residual[:] = target
    for k in range(size):
        for c in range(residual.shape[0]):
            residual[c] -= weights[k] * atoms[c, indices[k]]
    correlation[:] = 0.0
    for c in range(residual.shape[0]):
        value = residual[c]
        row = atoms[c]
        for j in range(correlation.shape[0]):
            correlation[j] += value * row[j]


@compiled
def _inner(atoms: Array, gram: Array, i: int, j: int) -> float:  # pragma: no cover
    if gram.shape[0] > 0:
        return gram[i, j]
    total = 0.0
    for c in range(atoms.shape[0]):
        total += atoms[c, i] * atoms[c, j]
    return total


@compiled
def _append(
    atoms: Array, gram: Array, factor: Array, indices: Array, size: int, new: int, work: Array
) -> bool:  # pragma: no cover
    """Write the Cholesky column of a new atom; False if the atom depends on the active ones."""
    squared = _inner(atoms, gram, new, new)
    for k in range(size):
        work[k] = _inner(atoms, gram, indices[k], new)
    pivot = append_atom(factor, size, work, squared)
    return pivot > DEPENDENT * squared and size + 1 < len(factor)


@compiled
def _delete(
    factor: Array, indices: Array, weights: Array, signs: Array, size: int, drop: int
) -> int:  # pragma: no cover
    """Take one atom out of the factor and of the lists; return the new size."""
    remove_atom(factor, size, drop, np.zeros(0))
    for k in range(drop, size - 1):
        indices[k], weights[k], signs[k] = indices[k + 1], weights[k + 1], signs[k + 1]
    return size - 1


@compiled
def _minimise(
    factor: Array,
    indices: Array,
    size: int,
    signs: Array,
    to_target: Array,
    constraint: Array,
    alpha: float,
    candidate: Array,
    work: Array,
) -> float:  # pragma: no cover
    """Minimiser on the active atoms for the current signs; returns the constraint's multiplier."""
    for k in range(size):
        candidate[k] = to_target[indices[k]] - 0.5 * alpha * signs[k]
    solve_factored(factor, size, candidate)
    if constraint.shape[0] == 0:
        return 0.0
    for k in range(size):
        work[k] = constraint[indices[k]]
    solve_factored(factor, size, work)
    reached = 0.0
    curvature = 0.0
    for k in range(size):
        reached += constraint[indices[k]] * candidate[k]
        curvature += constraint[indices[k]] * work[k]
    half = (reached - 1.0) / curvature
    for k in range(size):
        candidate[k] -= half * work[k]
    return 2.0 * half


@compiled
def _first_sign_change(
    weights: Array, candidate: Array, signs: Array, size: int
) -> tuple[int, float]:  # pragma: no cover
    """The first weight to reach zero on the way to `candidate`, and how far along (-1, 1.0: none)."""
    drop, fraction = -1, 1.0
    for k in range(size):
        if signs[k] * candidate[k] <= 0.0:
            length = weights[k] - candidate[k]
            ratio = weights[k] / length if length != 0.0 else 0.0
            if ratio < fraction or drop < 0:
                drop, fraction = k, ratio
    return drop, fraction


@compiled
def _worst_violator(
    correlation: Array, constraint: Array, multiplier: float, alpha: float, allowed: Array
) -> tuple[int, float]:  # pragma: no cover
    best, excess = -1, -np.inf
    for j in range(correlation.shape[0]):
        slope = 2.0 * correlation[j]
        if constraint.shape[0] > 0:
            slope -= multiplier * constraint[j]
        value = abs(slope) - alpha
        if value > excess and allowed[j]:
            best, excess = j, value
    return best, excess


@compiled
def _exchange(
    factor: Array, weights: Array, signs: Array, size: int, sign: float, z: Array
) -> tuple[int, float]:  # pragma: no cover
    """Move along ``T_new = sum_k z_k T_k``, which leaves the residual alone, until a weight is zero.

    The factor's column `size` belongs to the new atom, so that ``U z`` equals it. Returns the atom to
    drop (-1 if none shrinks) and the new atom's weight.
    """
    for k in range(size):
        z[k] = factor[k, size]
    solve_upper(factor, size, z, z)
    drop, distance = -1, np.inf
    for k in range(size):
        speed = sign * z[k] * signs[k]
        if speed > 0.0 and abs(weights[k]) < distance * speed:
            drop, distance = k, abs(weights[k]) / speed
    if drop >= 0:
        for k in range(size):
            weights[k] -= sign * distance * z[k]
    return drop, sign * distance


@compiled
def _certificate(
    target_norm: float,
    to_target: Array,
    correlation: Array,
    constraint: Array,
    multiplier: float,
    alpha: float,
    skip: int,
    indices: Array,
    weights: Array,
    size: int,
) -> tuple[float, float]:  # pragma: no cover
    """Objective and duality gap; the dual point is the scaled residual and multiplier."""
    absolute = 0.0
    fitted = 0.0
    explained = 0.0
    for k in range(size):
        absolute += abs(weights[k])
        fitted += weights[k] * to_target[indices[k]]
        explained += weights[k] * correlation[indices[k]]
    largest = 0.0
    for j in range(correlation.shape[0]):
        slope = 2.0 * correlation[j]
        if constraint.shape[0] > 0:
            slope -= multiplier * constraint[j]
        if j != skip:
            largest = max(largest, abs(slope))
    with_target = target_norm - fitted
    squared = max(0.0, with_target - explained)
    shrink = min(1.0, alpha / largest) if largest > 0.0 else 1.0
    objective = alpha * absolute + squared
    dual = shrink * (2.0 * with_target - multiplier) - shrink * shrink * squared
    return objective, objective - dual
