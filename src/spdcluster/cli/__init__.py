"""The command line: `spdcluster cluster`, `demo`, `reproduce`, `bench`."""

from spdcluster.cli.entry import main

__all__ = ["main"]
