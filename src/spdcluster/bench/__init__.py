"""Benchmarks with their rivals, one run and one table each; `spdcluster bench NAME` runs them."""
