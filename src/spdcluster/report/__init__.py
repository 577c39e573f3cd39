"""The page that shows a clustering: what was found, how sure it is, how to repeat it."""

from spdcluster.report.measures import Agreement, Measures, measure
from spdcluster.report.page import Run, Scene, count_of, in_words, render_report

__all__ = [
    "Agreement",
    "Measures",
    "Run",
    "Scene",
    "count_of",
    "in_words",
    "measure",
    "render_report",
]
