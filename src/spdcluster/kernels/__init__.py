"""Kernels between matrices, and the Gram matrix that a kernel spans on data, never formed unless asked for."""

from spdcluster.kernels.base import Kernel
from spdcluster.kernels.choose import KERNELS, make_kernel
from spdcluster.kernels.gram import DenseGram, Gram, KernelGram, VectorGram

__all__ = ["KERNELS", "DenseGram", "Gram", "Kernel", "KernelGram", "VectorGram", "make_kernel"]
