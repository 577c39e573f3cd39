"""Positive definite matrices as points: input checks, the log map, distances."""

from spdcluster.geometry.checks import check_matrices
from spdcluster.geometry.distances import distances
from spdcluster.geometry.logarithm import log_vectors, matrices_from_log_vectors

__all__ = ["check_matrices", "distances", "log_vectors", "matrices_from_log_vectors"]
