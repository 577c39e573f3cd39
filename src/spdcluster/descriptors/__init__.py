"""Region covariance descriptors: from images to symmetric positive definite matrices."""

from spdcluster.descriptors.region_covariance import RegionCovariance

__all__ = ["RegionCovariance"]
