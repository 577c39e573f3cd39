"""`spdcluster bench methods`: the table, the files, the same subsets for all, and going on after a stop."""

import csv

import numpy as np
import pytest

from spdcluster.bench import methods as bench
from spdcluster.experiments.methods import Method

SOME = ["K-means", "KSSCR", "LRSC", "K-means, pyRiemann"]


def test_table_and_files(tmp_path):
    result = bench.run(None, tmp_path, quick=True, quiet=True, methods=SOME, n_classes=(2, 3))
    rows = result["rows"]
    assert [(row["n_classes"], row["method"]) for row in rows] == [
        (k, name) for k in (2, 3) for name in sorted(SOME, key=list(result["methods"]).index)
    ]
    for row in rows:
        assert 0 <= row["nmi"] <= 100
        assert 100 / row["n_classes"] <= row["accuracy"] <= 100
        assert row["seconds"] > 0
        assert row["peak_mb"] > 0
        assert row["n_points"] == 64 * row["n_classes"]
    with (tmp_path / "methods.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in written] == [row["accuracy"] for row in rows]
    assert (tmp_path / "methods.png").stat().st_size > 10_000


def test_a_stopped_run_goes_on_where_it_was_on_the_same_subsets(tmp_path, monkeypatch):
    options = {"quick": True, "quiet": True, "methods": SOME[:2], "n_classes": (2,)}
    fitted = []
    fit = Method.fit

    def watched(self, X, n_clusters, seed, n_jobs=None):
        if len(X) > 16:  # not the fits that compile
            fitted.append((self.name, X.copy()))
            if len(fitted) == 3:
                raise KeyboardInterrupt
        return fit(self, X, n_clusters, seed, n_jobs)

    monkeypatch.setattr(Method, "fit", watched)
    with pytest.raises(KeyboardInterrupt):
        bench.run(None, tmp_path, **options)
    result = bench.run(None, tmp_path, **options)
    names = [name for name, _ in fitted]
    assert names[:3] == ["K-means", "KSSCR", "K-means"]  # stopped in the second draw
    assert names[3:5] == ["K-means", "KSSCR"]  # goes on with it, then memory of each
    assert len(names) == 7
    assert np.array_equal(fitted[0][1], fitted[1][1])
    assert np.array_equal(fitted[3][1], fitted[4][1])
    assert not np.array_equal(fitted[0][1], fitted[3][1])
    again = bench.run(None, tmp_path, **options)
    assert len(fitted) == 7
    assert again == result


def test_bad_options_give_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match=r"methods must be one of .*'LRSCC'"):
        bench.run(None, tmp_path, quiet=True, methods=["LRSCC"])
    with pytest.raises(ValueError, match="n_classes must be an integer in"):
        bench.run(None, tmp_path, quiet=True, n_classes=(17,), methods=["LRSC"])
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        bench.run(tmp_path / "none", tmp_path, quiet=True, methods=["LRSC"])
