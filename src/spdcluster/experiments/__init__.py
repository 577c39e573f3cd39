"""The paper's tables and figures, and the preset that goes beyond them.

`spdcluster.experiments.brodatz.run` and `spdcluster.experiments.feret.run` take the data, draw the
subsets, run every method on each of them, and write tables, pictures and one page.
"""
