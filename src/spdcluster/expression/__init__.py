"""Solvers of the self-expression problem: each matrix as a sparse combination of the others."""

from spdcluster.expression.certificate import Certificate, certify
from spdcluster.expression.solve import Expression, expression_path, self_expression

__all__ = ["Certificate", "Expression", "certify", "expression_path", "self_expression"]
