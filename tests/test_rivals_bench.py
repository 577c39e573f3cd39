"""`spdcluster bench methods`: the table, the files, the same subsets for all, and going on after a stop."""

import csv
import warnings

import numpy as np
import pytest
from pyriemann.clustering import Kmeans

from samples import groups
from spdcluster.bench import methods as bench
from spdcluster.bench import methods_floors
from spdcluster.experiments.methods import Method
from spdcluster.metrics import clustering_accuracy

SOME = ["K-means", "KSSCR", "LRSC", "K-means, pyRiemann"]


def test_table_and_files(tmp_path):
    result = bench.run(None, tmp_path, quick=True, quiet=True, methods=SOME, n_classes=(2, 3))
    rows = result["cells"]
    assert [(row["n_classes"], row["method"]) for row in rows] == [
        (k, name) for k in (2, 3) for name in sorted(SOME, key=list(result["methods"]).index)
    ]
    for row in rows:
        assert 0 <= row["nmi"] <= 100
        assert 100 / row["n_classes"] <= row["accuracy"] <= 100
        assert row["seconds"] > 0
        assert row["peak_mb"] > 0
        assert row["n_points"] == 64 * row["n_classes"]
    lines = {line["method"]: line for line in result["rows"]}
    assert set(lines) == set(SOME)
    for name, line in lines.items():
        own = [row for row in rows if row["method"] == name]
        assert [line["acc 2"], line["acc 3"]] == [row["accuracy"] for row in own]
        assert line["mean nmi"] == np.mean([row["nmi"] for row in own])
        assert line["seconds"] == own[-1]["seconds"]
    floor = next(row for row in result["floors"] if row["what"] == "code")
    assert floor["method"] == "LRSC"
    assert lines["LRSC"]["code / floor"] == floor["ratio"]
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
    n_fits = len(fitted)
    assert names[:3] == ["K-means", "KSSCR", "K-means"]  # stopped in the second draw
    assert names[3:7] == ["K-means", "KSSCR"] * 2  # goes on with it, then memory of each
    assert set(names[7:]) == {"K-means", "KSSCR"}  # the floors
    assert len(fitted[7][1]) == 64 * bench.QUICK_FLOOR_CLASSES
    assert np.array_equal(fitted[0][1], fitted[1][1])
    assert np.array_equal(fitted[3][1], fitted[4][1])
    assert not np.array_equal(fitted[0][1], fitted[3][1])
    again = bench.run(None, tmp_path, **options)
    assert len(fitted) == n_fits
    assert again == result


def test_each_method_is_set_beside_kernel_ssc_and_its_own_floor(monkeypatch):
    monkeypatch.setattr(methods_floors, "REPETITIONS", 1)
    X, _ = groups(np.random.default_rng(0), 3, 20, 4)
    names = ["K-means", "LRSC", "KernelSSC, defaults", "KernelLRR", "LRR", "TangentSSC"]
    chosen = [m for m in bench.all_methods() if m.name in [*names, "TangentSSC, all neighbours"]]
    rows = methods_floors.floors(chosen, X, 3)
    fits = {row["method"]: row for row in rows if row["what"] == "fit"}
    codes = {row["method"]: row for row in rows if row["what"] == "code"}
    assert set(fits) == {m.name for m in chosen}
    assert set(codes) == {"LRSC", "LRR", "KernelLRR"}
    reference = fits["KernelSSC, defaults"]["seconds"]
    for name, row in fits.items():
        assert row["n_points"] == 60
        assert row["times_kernel_ssc"] == row["seconds"] / reference
        assert ("ratio" in row) == (name in codes or name == "TangentSSC, all neighbours")
    for row in [*codes.values(), *fits.values()]:
        if "ratio" in row:
            assert row["ratio"] == row["seconds"] / row["floor_seconds"] > 0
            assert row["met"] == (row["ratio"] <= row["target"])
    for name, code in codes.items():
        assert code["floor_seconds"] < fits[name]["floor_seconds"]  # which has the graph as well
        assert code["seconds"] < fits[name]["seconds"]


def test_the_least_of_several_times_is_kept_but_long_calls_are_not_repeated(monkeypatch):
    clock = iter([0.0, 0.4, 1.0, 1.1, 2.0, 2.5, 3.0, 3.6, 4.0, 4.2])
    monkeypatch.setattr(methods_floors.time, "process_time", lambda: next(clock))
    calls = []
    assert methods_floors.best_time(lambda: calls.append(1)) == pytest.approx(0.1)
    assert len(calls) == 5
    clock = iter([0.0, 9.0])
    assert methods_floors.best_time(lambda: calls.append(1)) == 9.0
    assert len(calls) == 6


def test_what_the_rival_from_another_library_says_is_kept_and_not_shown(recwarn, monkeypatch):
    X, y = groups(np.random.default_rng(1), 3, 20, 4)
    method = next(m for m in bench.all_methods() if m.name == "K-means, pyRiemann")
    assert clustering_accuracy(y, method.fit(X, 3, 0).labels) == 1.0
    fit = Kmeans.fit

    def complain(self, X):
        warnings.warn("Convergence not reached", UserWarning, stacklevel=2)
        return fit(self, X)

    monkeypatch.setattr(Kmeans, "fit", complain)
    assert "UserWarning: Convergence not reached" in method.fit(X, 3, 0).warnings
    assert not recwarn.list


def test_bad_options_give_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match=r"methods must be one of .*'LRSCC'"):
        bench.run(None, tmp_path, quiet=True, methods=["LRSCC"])
    with pytest.raises(ValueError, match="n_classes must be an integer in"):
        bench.run(None, tmp_path, quiet=True, n_classes=(17,), methods=["LRSC"])
    with pytest.raises(FileNotFoundError, match="there is no"):
        bench.run(tmp_path / "none", tmp_path, quiet=True, methods=["LRSC"])
