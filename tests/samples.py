"""Random matrices and problems for the tests, and the slow solver that is obviously right."""

import numpy as np


def spd(rng, n, d, scale=1.0, condition=1e2, complex_=False, dtype=None):
    """n random SPD (HPD) matrices with eigenvalues between scale/condition and scale."""
    A = rng.normal(size=(n, d, d))
    if complex_:
        A = A + 1j * rng.normal(size=(n, d, d))
    Q, _ = np.linalg.qr(A)
    eigenvalues = scale * condition ** -rng.uniform(size=(n, d))
    X = (Q * eigenvalues[:, None, :]) @ Q.conj().swapaxes(1, 2)
    X = (X + X.conj().swapaxes(1, 2)) / 2
    return X if dtype is None else X.astype(dtype)


def groups(rng, n_groups, size, d, spread=0.15, complex_=False):
    """SPD matrices around well separated centres: (n_groups * size, d, d) and their group."""
    X = []
    for g in range(n_groups):
        centre = np.diag(np.roll(np.exp(np.linspace(-3, 3, d)), g))
        if complex_:
            centre = centre.astype(complex)
        noise = np.eye(d) + spread * rng.normal(size=(size, d, d))
        X.append(noise @ centre @ noise.swapaxes(1, 2))
    return np.concatenate(X), np.repeat(np.arange(n_groups), size)


def gram(rng, n, rank, scale=1.0):
    """A random Gram matrix of n points in `rank` dimensions."""
    U = rng.normal(size=(n, rank)) * np.sqrt(scale)
    return U @ U.T


def objective(K, C, alpha, l1_ratio=1.0):
    """Objective of each row of C, written as in DESIGN."""
    alpha = np.broadcast_to(alpha, len(K))
    penalty = l1_ratio * np.abs(C).sum(1) + (1 - l1_ratio) / 2 * (C**2).sum(1)
    return alpha * penalty + np.diag(K) - 2 * np.sum(K * C, 1) + np.sum((C @ K) * C, 1)


def slow_solution(K, alpha, l1_ratio=1.0, sweeps=20000):
    """Coordinate descent, one coordinate at a time, until nothing moves: dense, slow, obviously right."""
    n = len(K)
    alpha = np.broadcast_to(alpha, n)
    C = np.zeros((n, n))
    lam, mu = alpha * l1_ratio / 2, alpha * (1 - l1_ratio) / 2
    for _ in range(sweeps):
        before = C.copy()
        for j in range(n):
            if K[j, j] + mu.min() <= 0:
                continue
            g = K[:, j] - C @ K[:, j] + C[:, j] * K[j, j]
            C[:, j] = np.sign(g) * np.maximum(np.abs(g) - lam, 0) / (K[j, j] + mu)
            C[j, j] = 0
        if np.abs(C - before).max() <= 1e-14 * max(1.0, np.abs(C).max()):
            break
    return C
