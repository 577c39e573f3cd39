"""`spdcluster bench solver`: a run without data, and that floor, rivals and memory are what they say."""

import csv
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

from spdcluster.bench import solver, solver_child, solver_rivals
from spdcluster.bench.solver_cases import Case, texture_images, texture_windows
from spdcluster.bench.solver_floor import KernelValues, kernel_floor
from spdcluster.expression.admm import admm
from spdcluster.kernels import make_kernel

TINY = {"quiet": True, "sizes": (60, 120), "n_blocks": 80, "n_faces": 28, "n_hostile": 100}


@pytest.fixture
def case():
    vectors = np.random.default_rng(0).normal(size=(40, 6)).round(1)
    return Case("made-up", vectors, 0.2, 0.05)


@pytest.fixture
def problem(case):
    return solver._exact(case, 1)


def test_a_quick_run_has_consistent_rows_and_writes_them(tmp_path):
    result = solver.run(
        None, tmp_path, quick=True, seconds=0.1, rivals=["ADMM", "scikit-learn"], n_jobs=1, **TINY
    )
    rows = result["rows"]
    assert [row["method"] for row in rows[:3]] == ["spdcluster", "ADMM", "scikit-learn"]
    assert [row["method"] for row in rows[3:5]] == ["spdcluster", "ADMM"]
    for row in rows:
        assert tuple(row) == solver.FIELDS
        assert row["seconds"] > 0
        assert 0 <= row["gap"] <= 1e-6
        assert row["note"]
        if row["floor64"] is not None:
            assert row["ratio_to_floor"] == row["seconds"] / row["floor64"]
            assert row["ratio_to_floor32"] == row["seconds"] / row["floor32"]
        else:
            assert row["times_easy"] > 0
        if row["method"] == "spdcluster":
            assert row["peak_mb"] >= 0
    for row, ours in ((rows[1], rows[0]), (rows[2], rows[0]), (rows[4], rows[3])):
        assert row["times_slower_than_ours"] == row["seconds"] / ours["seconds"]
        assert row["nnz_per_row"] == pytest.approx(ours["nnz_per_row"], rel=0.2)
    zero = next(row for row in rows if "all codes zero" in row["case"])
    assert zero["nnz_per_row"] == 0
    assert result["growth"]["sizes"] == [60, 120]
    with (tmp_path / "solver.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)


def test_the_floor_evaluates_every_value_of_the_kernel_once(case):
    gram = case.gram()
    expected = make_kernel("gaussian", gamma=0.2).bind(case.vectors).dense()
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        found, count = np.zeros((40, 40)), np.zeros((40, 40))

        def keep(rows, columns, block, found=found, count=count):
            found[rows, columns] = block
            count[rows, columns] += 1

        values = KernelValues(gram.vectors, dtype, 2)
        with ThreadPoolExecutor(2) as pool:
            values.evaluate(pool, (3, 7), 40, keep)
        np.testing.assert_allclose(found, expected, atol=tolerance)
        assert (count == 1).all()


def test_a_floor_from_a_share_of_the_rows_is_scaled_to_all():
    vectors = np.random.default_rng(0).normal(size=(2000, 5))
    some = kernel_floor(vectors, np.float64, 1, timed_values=400_000)
    assert some.share == 0.1
    every = kernel_floor(vectors, np.float64, 1)
    assert every.share == 1
    assert 0.1 < some.seconds / every.seconds < 10


def test_admm_without_temporaries_takes_the_same_steps(problem):
    alphas = np.full(problem.n, problem.alpha)
    for n_iter, C in zip((1, 2, 3, 4), solver_rivals.admm_iterates(problem.K, alphas, 0.7)):
        expected = admm(problem.K, alphas, rho=0.7, tol=1e-300, max_iter=n_iter).coef
        np.testing.assert_allclose(C, expected, atol=1e-13)


@pytest.mark.parametrize("name", ["ADMM", *solver_rivals.RIVALS])
def test_rivals_solve_the_same_problem(problem, name):
    if name == "ADMM":
        timing = solver_rivals.time_admm(problem, 5.0)
    else:
        package = solver_rivals.RIVALS[name][0]
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
        K = problem.K.copy()
        timing = solver_rivals.time_rival(name, problem, 5.0)
        assert np.array_equal(problem.K, K)
    assert timing.seconds > 0
    assert -1e-12 < timing.error <= 1e-6
    assert 0 < timing.nnz_per_row < problem.n


def test_the_accuracy_of_a_rival_is_the_error_of_its_objective(problem):
    C = np.random.default_rng(1).normal(size=(3, problem.n)) * 0.01
    rows = np.array([4, 7, 30])
    objective = sum(
        problem.alpha * np.abs(c).sum() + problem.K[i, i] - 2 * c @ problem.K[i] + c @ problem.K @ c
        for i, c in zip(rows, C)
    )
    assert problem.error(C, rows) == pytest.approx(objective / problem.exact[rows].sum() - 1)


def test_a_rival_that_is_not_installed_has_a_row_that_says_so(problem, monkeypatch):
    monkeypatch.setitem(solver_rivals.RIVALS, "SPAMS", ("no_such_package", None))
    timing = solver_rivals.time_rival("SPAMS", problem, 1.0)
    assert timing.seconds is None
    assert timing.note == "no_such_package is not installed"


@pytest.mark.skipif(sys.platform != "linux", reason="the peak can be restarted on Linux only")
def test_the_peak_of_memory_is_seen_after_it_is_over_and_can_be_restarted():
    np.ones(60 * 2**17)  # 60 MB that are there no longer
    before = solver_child.restart_peak()
    np.ones(40 * 2**17)
    assert 35 < solver_child.peak_mb() - before < 55


def test_a_solution_that_does_not_end_in_time_has_a_row_that_says_so(case):
    (found,) = solver_child.measure([case], 1, 0.1, limit=0.01)
    row = solver._of_measurement(found, [case.note])
    assert row == {"note": "not done within 0.01 s"}


def test_growth_is_the_exponent_over_the_windows():
    rows = [
        {"case": solver.WINDOWS, "method": "spdcluster", "n": n, "seconds": n**2, "peak_mb": n}
        for n in (100, 300, 1000)
    ]
    rows.append(rows[0] | {"case": "other", "seconds": 1e9})
    found = solver.growth(rows)
    assert found["seconds"] == pytest.approx(2)
    assert found["peak_mb"] == pytest.approx(1)


def test_more_windows_come_from_the_smaller_stride_and_too_many_are_refused():
    images = texture_images(None, np.random.default_rng(0))[:1]
    rng = np.random.default_rng(0)
    assert texture_windows(images, 57**2, rng).note == "all at stride 4"
    assert "at stride 2" in texture_windows(images, 57**2 + 1, rng).note
    with pytest.raises(ValueError, match=r"sizes must be at most 12769.*got 12770"):
        texture_windows(images, 12_770, rng)


def test_bad_options_give_one_clear_error():
    with pytest.raises(ValueError, match=r"rivals must be some of ADMM, .*got 'LARS'"):
        solver.run(quiet=True, rivals=["LARS"])
    with pytest.raises(ValueError, match="sizes must be an integer of at least 10; got 3"):
        solver.run(quiet=True, sizes=[3])
