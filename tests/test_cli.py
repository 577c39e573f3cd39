"""The command line: what it writes, what it says, how it fails."""

import csv
import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spdcluster import KernelSSC, __version__
from spdcluster.cli import output
from spdcluster.cli.benchmarks import run_benchmark
from spdcluster.cli.clock import Clock
from spdcluster.cli.entry import run
from spdcluster.cli.options import FLAGS, HELPS, IMAGE_PARAMETERS, SSC_PARAMETERS
from spdcluster.descriptors import RegionCovariance
from spdcluster.experiments.journal import prepare_folder
from spdcluster.presets import best

PROGRAM = [sys.executable, "-c", "from spdcluster.cli import main; main()"]
RESULTS = {"labels.csv", "summary.json", "report.html"}


def matrices(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    A = rng.normal(size=(3, d, d))[truth] @ rng.normal(size=(n, d, 8 * d))
    return A @ A.swapaxes(1, 2), truth


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working folder with good.npy and its truth.csv."""
    monkeypatch.chdir(tmp_path)
    X, truth = matrices()
    np.save("good.npy", X)
    Path("truth.csv").write_text("label\n" + "\n".join(map(str, truth)) + "\n")
    return tmp_path


@pytest.fixture
def pictures(place):
    from skimage import data
    from skimage.io import imsave

    Path("images").mkdir()
    for name in ("brick", "gravel"):
        for i in range(4):
            imsave(f"images/{name}{i}.png", getattr(data, name)()[50 * i :][:48, :48])
    return place / "images"


def labels_csv(folder):
    """Its lines as dicts."""
    return list(csv.DictReader((Path(folder) / "labels.csv").read_text().splitlines()))


def fails(arguments, capsys, mentions):
    """Exit code 2, one line on stderr that mentions what it should, and no new file."""
    before = sorted(Path().rglob("*"))
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("spdcluster: ")
    assert error.count("\n") == 1
    assert re.search(mentions, error), error
    assert sorted(Path().rglob("*")) == before


# -------------------------------------------------------------------------------------- good input


def test_cluster_writes_labels_summary_and_report(place, capsys):
    line = ["cluster", "good.npy", "-k", "3", "--labels", "truth.csv", "--seed", "7", "-o", "a/b"]
    assert run(line) == 0
    out = Path("a/b")
    assert {p.name for p in out.iterdir()} == RESULTS
    X, _ = matrices()
    model = KernelSSC(3, random_state=7).fit(X)
    rows = labels_csv(out)
    assert [int(row["label"]) for row in rows] == model.labels_.tolist()
    assert list(rows[0]) == ["id", "label", "distance", "margin"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["parameters"]["random_state"] == 7
    assert summary["dual_gap"] == model.dual_gap_ < 1e-9
    assert sum(summary["sizes"]) == len(X)
    assert summary["quality"]["accuracy"] == 1.0
    assert summary["versions"]["spdcluster"] == __version__
    assert set(summary["seconds"]) >= {"read", "cluster", "report"}
    printed = capsys.readouterr()
    assert "accuracy 100.0%" in printed.out
    assert printed.err == ""


def test_command_and_python_of_the_summary_repeat_the_run(place):
    assert run(["cluster", "good.npy", "-k", "3", "--alpha", "0.1", "-q", "-o", "one"]) == 0
    summary = json.loads(Path("one/summary.json").read_text())
    words = summary["command"].split()
    assert run([*words[1:], "-q", "--out", "two"]) == 0
    assert Path("one/labels.csv").read_bytes() == Path("two/labels.csv").read_bytes()
    namespace = {}
    exec(summary["python"], namespace)
    labels = [int(row["label"]) for row in labels_csv("one")]
    assert namespace["model"].labels_.tolist() == labels
    assert namespace["model"].alpha == 0.1


def test_the_preset_is_the_librarys_and_options_that_are_given_win(place):
    assert (
        run(["cluster", "good.npy", "-k", "3", "--preset", "best", "--seed", "3", "-o", "o"]) == 0
    )
    summary = json.loads(Path("o/summary.json").read_text())
    model = KernelSSC(**best(60, 3), random_state=3).fit(matrices()[0])
    assert [int(row["label"]) for row in labels_csv("o")] == model.labels_.tolist()
    assert summary["preset"] == "best"
    assert summary["parameters"] == model.get_params()
    assert "--preset best" in summary["command"]
    assert "alpha_mode='atoms'" in summary["python"]
    assert re.search(r"preset</th><td>best</td>", Path("o/report.html").read_text())
    # "scale" is the default, and was asked for
    assert run([*summary["command"].split()[1:], "--gamma", "scale", "-q", "-o", "p"]) == 0
    changed = json.loads(Path("p/summary.json").read_text())
    assert changed["parameters"] == model.get_params() | {"gamma": "scale"}
    assert "--gamma scale" in changed["command"]
    assert run([*changed["command"].split()[1:], "-q", "-o", "r"]) == 0
    assert Path("p/labels.csv").read_bytes() == Path("r/labels.csv").read_bytes()


@pytest.mark.parametrize("preset", ["default", "best"])
def test_auto_takes_the_largest_drop_of_the_spectrum_and_says_that_it_is_a_hint(
    place, capsys, preset
):
    line = ["cluster", "good.npy", "-k", "auto", "--preset", preset, "--seed", "0"]
    assert run([*line, "-o", "o"]) == 0
    printed = capsys.readouterr()
    assert "after eigenvalue 3, so 3 clusters; that is a hint, no more" in printed.out
    summary = json.loads(Path("o/summary.json").read_text())
    assert summary["parameters"]["n_clusters"] == summary["n_clusters"] == 3
    assert "hint" in summary["notes"][0]
    assert "hint, no more: look" in Path("o/report.html").read_text()
    assert run([*line[:3], "3", *line[4:], "-q", "-o", "p"]) == 0
    assert Path("o/labels.csv").read_bytes() == Path("p/labels.csv").read_bytes()


def test_a_warning_of_the_library_is_one_line_in_the_words_of_the_shell(place, capsys):
    assert run(["cluster", "good.npy", "-k", "3", "--max-iter", "1", "-q", "-o", "o"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("spdcluster: warning: the active set stopped")
    assert "above --tol 1e-06" in error
    assert error.count("\n") == 1
    assert "stopped early" in Path("o/report.html").read_text()


def test_distances_are_those_of_the_codes_in_feature_space(place):
    """Against a direct computation with the dense Gram matrix."""
    assert run(["cluster", "good.npy", "-k", "3", "--seed", "0", "-q", "-o", "o"]) == 0
    X, _ = matrices()
    model = KernelSSC(3, random_state=0).fit(X)
    K, C = model.kernel_.bind(X).dense(), model.representation_.toarray()
    distance = np.empty((len(X), 3))
    for k in range(3):
        part = C * (model.labels_ == k)
        square = K.diagonal() - 2 * (part * K).sum(axis=1) + ((part @ K) * part).sum(axis=1)
        distance[:, k] = np.sqrt(np.maximum(square, 0))
    own = distance[np.arange(len(X)), model.labels_]
    distance[np.arange(len(X)), model.labels_] = np.inf
    rows = labels_csv("o")
    np.testing.assert_allclose([float(r["distance"]) for r in rows], own, atol=1e-5)
    np.testing.assert_allclose([float(r["margin"]) for r in rows], distance.min(1) - own, atol=1e-5)


def test_quiet_prints_nothing(place, capfd):
    assert run(["cluster", "good.npy", "-k", "3", "--quiet", "-o", "o"]) == 0
    assert capfd.readouterr() == ("", "")


def test_the_other_axis_order_is_recognised_and_said(place, capsys):
    np.save("last.npy", np.moveaxis(np.load("good.npy"), 0, -1))
    assert run(["cluster", "last.npy", "-k", "3", "-o", "o"]) == 0
    assert "(4, 4, 60) read as 60 matrices" in capsys.readouterr().out


def test_a_folder_of_images_is_clustered_by_file_name(pictures):
    assert run(["cluster", "images", "-k", "2", "-q", "-o", "o"]) == 0
    rows = labels_csv("o")
    assert [row["file"] for row in rows][:2] == ["brick0.png", "brick1.png"]
    assert len({row["label"] for row in rows[:4]}) == 1


def test_a_picture_is_segmented(place):
    from skimage import data
    from skimage.io import imsave

    imsave("photo.png", np.hstack([data.brick()[:96, :64], data.gravel()[:96, :64]]))
    assert run(["cluster", "photo.png", "-k", "2", "-q", "-o", "o"]) == 0
    assert 'id="segmentation"' in Path("o/report.html").read_text()


def test_a_broken_image_is_named_and_skip_bad_goes_on(pictures, capsys):
    (pictures / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    fails(["cluster", "images", "-k", "2"], capsys, r"bad\.png.*--skip-bad")
    assert run(["cluster", "images", "-k", "2", "--skip-bad", "-o", "o"]) == 0
    assert "left out bad.png" in capsys.readouterr().out


def test_a_picture_with_a_flat_region_is_refused_with_the_option_that_helps(place, capsys):
    from skimage import data
    from skimage.io import imsave

    photo = data.brick()[:96, :96].copy()
    photo[:48, :48] = 255
    imsave("photo.png", photo)
    line = ["cluster", "photo.png", "-k", "2"]
    fails(line, capsys, r"photo\.png.* constant over that region\. Set --shrinkage 1e-3, ")
    assert run([*line, "--shrinkage", "1e-3", "-q", "-o", "o"]) == 0


def test_an_image_whose_covariance_is_singular_is_named(pictures, capsys):
    from skimage.io import imsave

    imsave("images/flat.png", np.zeros((48, 48), dtype=np.uint8), check_contrast=False)
    fails(["cluster", "images", "-k", "2"], capsys, r"flat\.png.*constant")


def scene(path, *, blank=True, indefinite=False):
    """A scene of 12 x 8 pixels in three stripes; one pixel without data, one not definite."""
    rng = np.random.default_rng(0)
    truth = np.arange(12)[:, None] // 4 + np.zeros((1, 8), dtype=int)
    A = rng.normal(size=(3, 3, 3))[truth] @ rng.normal(size=(12, 8, 3, 24))
    X = A @ A.swapaxes(2, 3)
    if blank:
        X[0, 0] = 0
    if indefinite:
        X[5, 2] = np.diag([1, 1, -1])
    np.save(path, X)
    return truth


def test_a_scene_is_segmented_without_the_pixels_that_have_no_data(place, capsys):
    truth = scene("scene.npy")
    assert run(["cluster", "scene.npy", "-k", "3", "--seed", "0", "-o", "o"]) == 0
    assert "left out 1 of 96 pixels" in capsys.readouterr().out
    rows = labels_csv("o")
    assert rows[0]["row,column"] == "0,1"
    assert len(rows) == 95
    found = {(truth[tuple(map(int, r["row,column"].split(",")))], r["label"]) for r in rows}
    assert len(found) == 3, "each stripe is one cluster"
    assert 'id="segmentation"' in Path("o/report.html").read_text()
    namespace = {}
    exec(json.loads(Path("o/summary.json").read_text())["python"], namespace)
    assert namespace["model"].labels_.tolist() == [int(row["label"]) for row in rows]


def test_pixels_of_a_scene_that_are_not_definite_are_counted_and_skip_bad_goes_on(place, capsys):
    scene("scene.npy", indefinite=True)
    line = ["cluster", "scene.npy", "-k", "3"]
    fails(line, capsys, r"1 of 96 pixels .* not positive definite.*--looks 2.*--skip-bad")
    assert run([*line, "--skip-bad", "-o", "o"]) == 0
    assert "left out 2 of 96 pixels" in capsys.readouterr().out
    assert run([*line, "--looks", "4", "-o", "p"]) == 0
    assert "6 matrices of 3 x 3 from a scene of 3 x 2 pixels" in capsys.readouterr().out


def test_a_folder_of_matrix_files_is_clustered_by_file_name(place, capsys):
    X, truth = matrices()
    Path("subjects").mkdir()
    for i in range(12):
        np.save(f"subjects/s{i}.npy", X[i])
    assert run(["cluster", "subjects", "-k", "3", "--seed", "0", "-q", "-o", "o"]) == 0
    rows = labels_csv("o")
    assert [row["file"] for row in rows] == [f"s{i}.npy" for i in range(12)]
    assert len({(kind, row["label"]) for kind, row in zip(truth, rows)}) == 3
    np.save("subjects/s3.npy", -X[3])
    fails(["cluster", "subjects", "-k", "3"], capsys, r": s3\.npy is not positive definite")
    Path("subjects/s3.npy").write_text("no matrix")
    fails(["cluster", "subjects", "-k", "3"], capsys, r"s3\.npy is not a .*--skip-bad")
    assert run(["cluster", "subjects", "-k", "3", "--skip-bad", "-o", "p"]) == 0
    assert len(labels_csv("p")) == 11


def test_standard_input_is_read(place):
    with open("good.npy", "rb") as file:
        done = subprocess.run(
            [*PROGRAM, "cluster", "-", "-k", "3", "-o", "o"], stdin=file, capture_output=True
        )
    assert done.returncode == 0, done.stderr
    assert {p.name for p in Path("o").iterdir()} == RESULTS
    assert done.stderr == b"", "progress belongs on terminals only"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a shell and a full device")
@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        ("cluster - -k 3 --out o <&-", 2, "spdcluster: standard input is empty (0 bytes)"),
        ("cluster good.npy -k 3 --out o >&-", 0, ""),
        ("cluster good.npy -k 3 --out o >/dev/full", 2, "spdcluster: No space left on device; "),
    ],
)
def test_streams_that_the_shell_closed_or_that_are_full(place, line, code, error):
    words = " ".join(map(shlex.quote, PROGRAM))
    done = subprocess.run(f"{words} {line}", shell=True, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == bool(error)
    assert Path("o").exists() == (code == 0)


def test_vectors_and_gram_matrices_can_be_clustered_too(place):
    V = np.random.default_rng(0).normal(size=(30, 4))
    np.save("vectors.npy", V)
    np.save("gram.npy", V @ V.T)
    assert run(["cluster", "vectors.npy", "-k", "2", "--kernel", "linear", "-q", "-o", "v"]) == 0
    assert run(["cluster", "gram.npy", "-k", "2", "--kernel", "precomputed", "-q", "-o", "g"]) == 0
    assert Path("v/report.html").stat().st_size > 10_000


# --------------------------------------------------------------------------------------- bad input


def truncated(path):
    path.write_bytes(Path("good.npy").read_bytes()[:-100])


def several(path):
    np.savez(path, a=np.load("good.npy"), b=np.load("good.npy"))


def objects(path):
    array = np.empty(2, dtype=object)
    array[:] = [np.eye(2), np.eye(3)]
    np.save(path, array, allow_pickle=True)


def with_nan(path):
    X = np.load("good.npy")
    X[7, 0, 1] = np.nan
    np.save(path, X)


def indefinite(path):
    X = np.load("good.npy")
    X[17] -= 1e3 * np.eye(4)
    np.save(path, X)


def singular(path):
    X = np.load("good.npy")
    X[5] = np.outer([1, 2, 3, 4], [1, 2, 3, 4])
    np.save(path, X)


def one_image(path):
    from skimage.io import imsave

    path.mkdir()
    rng = np.random.default_rng(0)
    imsave(path / "only.png", rng.integers(0, 256, (32, 32)).astype(np.uint8))


def cut_scene(path):
    path.mkdir()
    (path / "config.txt").write_text("Nrow\n4\n---------\nNcol\n4\n")
    np.ones(16, "<f4").tofile(path / "T11.bin")
    np.ones(2, "<f4").tofile(path / "T12_real.bin")


BAD_FILES = [
    ("missing.npy", lambda path: None, "there is no file or folder missing.npy; check the name"),
    ("empty.npy", lambda path: path.touch(), "empty.npy is empty"),
    ("cut.npy", truncated, "cut.npy is truncated"),
    ("two.npz", several, "two.npz holds 2 arrays.*--key a"),
    ("objects.npy", objects, "Python objects"),
    ("text.npy", lambda path: path.write_text("1,2\n3,4\n"), "text.npy is not a .npy"),
    ("nan.npy", with_nan, r"nan\.npy\[7\] contains NaN .*; .*: drop or mend"),
    ("indefinite.npy", indefinite, r"indefinite\.npy\[17\] is not positive definite.*drop it or"),
    ("singular.npy", singular, r"singular\.npy\[5\] is not .*, or add --regularization 1e-6 "),
    ("flat.npy", lambda path: np.save(path, np.eye(3)), r": flat\.npy must be 3-D"),
    ("folder", lambda path: path.mkdir(), "holds no images.*name another folder"),
    (
        "vector.npy",
        lambda path: np.save(path, np.arange(5.0)),
        r"vector\.npy .* shape \(5,\); save",
    ),
    ("number.npy", lambda path: np.save(path, np.pi), r"number\.npy .* shape \(\); save"),
    ("single", one_image, "holds one image, only.png.*name the file: single/only.png"),
    ("T3", cut_scene, r"T12_real\.bin has 8 bytes; 4 x 4 pixels of float32 take 64"),
]


@pytest.mark.parametrize(("name", "make", "mentions"), BAD_FILES, ids=[b[0] for b in BAD_FILES])
def test_bad_input_is_one_line_and_nothing_is_written(place, capsys, name, make, mentions):
    make(Path(name))
    fails(["cluster", name, "-k", "3", "--out", "out"], capsys, mentions)


BAD_ARGUMENTS = [
    (["-k", "61"], "61"),
    (["-k", "0"], "--n-clusters must be an integer of at least 1; got 0"),
    (["-k", "many"], "--n-clusters must be an integer of at least 1; got 'many'"),
    ([], "-k"),
    (["-k", "3", "--alpha", "-1"], "--alpha must be a finite real number greater than 0; got -1.0"),
    (["-k", "61", "--preset", "best"], "--n-clusters must be an integer in [1, 60]; got 61"),
    (["-k", "3", "--preset", "worst"], "'worst' is not one of 'default', 'best'"),
    (["-k", "3", "--preset", "best", "--alpha", "0.04"], "with --alpha-mode atoms; got 0.04"),
    (["-k", "3", "--key", "X"], "good.npy holds one array, without a name; leave the key 'X' out"),
    (["-k", "3", "--alpha", "much"], "--alpha"),
    (["-k", "3", "--gamma", "wide"], "gamma"),
    (["-k", "3", "--kernel", "log-gausian"], "Did you mean 'log-gaussian'"),
    (["-k", "3", "--solver", "admn"], "Did you mean 'admm'"),
    (["-k", "3", "--no-such-option"], "--no-such-option"),
    (["-k", "3", "--features", "gabor"], "--features is for images"),
    (["-k", "3", "--looks", "2"], "--looks is for scenes"),
    (["-k", "3", "--labels", "missing.csv"], "missing.csv"),
    (["-k", "3", "--labels", "good.npy"], "one label for each of the 60"),
    (["-k", "3", "--labels", "two.npz"], "choose one with --labels-key a"),
]


@pytest.mark.parametrize(
    ("arguments", "mentions"), BAD_ARGUMENTS, ids=[b[1] for b in BAD_ARGUMENTS]
)
def test_bad_arguments_are_one_line_and_nothing_is_written(place, capsys, arguments, mentions):
    np.savez("two.npz", a=np.zeros(60), b=np.ones(60))
    fails(["cluster", "good.npy", "--out", "out", *arguments], capsys, re.escape(mentions))


@pytest.mark.parametrize(
    "line", [["clster"], ["reproduce", "mnist", "--data", "."], ["bench", "speed"], ["demo", "--x"]]
)
def test_unknown_commands_and_names_are_one_line(place, capsys, line):
    fails(line, capsys, "see spdcluster")


def test_bad_input_of_a_reproduction_is_one_line(place, capsys, monkeypatch):
    fails(["reproduce", "brodatz", "--data", "nowhere"], capsys, "nowhere")
    fails(["reproduce", "brodatz", "--data", "good.npy"], capsys, r"good\.npy .* \.npz or \.mat")

    def prepare(data, out, **_):
        prepare_folder(out)

    monkeypatch.setattr("spdcluster.cli.app._load_run", lambda module: prepare)
    line = ["reproduce", "brodatz", "--data", ".", "--out", "good.npy"]
    fails(line, capsys, "--out good.npy cannot be used as a folder: .*; choose another")


def test_control_c_in_a_reproduction_says_how_to_go_on(place, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("spdcluster.cli.app._load_run", lambda module: interrupted)
    line = ["reproduce", "brodatz", "--data", "."]
    fails(line, capsys, "interrupted; the same command goes on where it stopped")


@pytest.mark.parametrize("folder", ["good.npy", "good.npy/x", "/proc/x", "/dev/null/x"])
def test_an_output_folder_that_cannot_be_is_told_before_the_work(place, capsys, folder):
    fails(["cluster", "good.npy", "-k", "3", "--out", folder], capsys, f"{folder}.*--out")


def test_no_right_to_write_the_output_folder(place, capsys):
    # root may write into any folder of a disk: for root, one that the kernel refuses
    folder = "/proc/locked" if os.geteuid() == 0 else "locked"
    if folder == "locked":
        Path(folder).mkdir(mode=0o555)
    fails(["cluster", "good.npy", "-k", "3", "--out", folder], capsys, folder)


def test_a_second_run_does_not_overwrite_unless_told(place, capsys):
    line = ["cluster", "good.npy", "-k", "3", "-q", "--out", "o"]
    assert run([*line, "--seed", "1"]) == 0
    first = {p.name: p.read_bytes() for p in Path("o").iterdir()}
    fails([*line, "--seed", "2"], capsys, "earlier result.*--overwrite")
    assert {p.name: p.read_bytes() for p in Path("o").iterdir()} == first
    assert run([*line, "--seed", "2", "--overwrite"]) == 0
    assert json.loads(Path("o/summary.json").read_text())["parameters"]["random_state"] == 2


@pytest.mark.parametrize("failing_call", [1, 2, 3])
@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_leaves_no_file_behind(place, capsys, monkeypatch, failing_call, existing):
    if existing:
        Path("o").mkdir()
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == failing_call:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", fsync)
    fails(["cluster", "good.npy", "-k", "3", "-q", "-o", "o"], capsys, "No space left.*free some")


def test_a_crash_while_writing_leaves_the_earlier_result_whole(place, monkeypatch):
    folder = Path("o")
    output.write_files(folder, {"a": "old", "b": "old"}, overwrite=False)

    def crash(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        output.write_files(folder, {"a": "new", "b": "new"}, overwrite=True)
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"a": "old", "b": "old"}


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_control_c_in_the_middle_is_one_line_and_nothing_is_written(place):
    np.save("large.npy", matrices(1500)[0])
    line = ["cluster", "large.npy", "-k", "3", "--solver", "admm", "--tol", "1e-300", "-o", "o"]
    process = subprocess.Popen(
        [*PROGRAM, *line, "--max-iter", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # the input has been read, the work begins
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, error = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode == 2
    assert error == b"spdcluster: interrupted; nothing was written\n"
    assert not Path("o").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_control_c_that_python_drops_is_heard_in_the_end():
    code = (
        "import os, signal, time\n"
        "from spdcluster.cli.entry import insist_on_interrupts\n"
        "insist_on_interrupts()\n"
        "class Dying:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.1)\n"
        "Dying()\n"
        "print('dropped', flush=True)\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "dropped\n"
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


# ----------------------------------------------------------------------------------------- manners


def test_options_are_the_constructors_parameters_and_defaults():
    """Read from the source text, they must be what the class itself says."""
    assert list(SSC_PARAMETERS) == list(inspect.signature(KernelSSC).parameters)
    for found, owner in ((SSC_PARAMETERS, KernelSSC), (IMAGE_PARAMETERS, RegionCovariance)):
        signature = inspect.signature(owner).parameters
        for name, parameter in found.items():
            assert parameter.default == signature[name].default


def test_every_parameter_has_an_option_and_no_help_is_for_a_parameter_that_is_gone(capsys):
    assert run(["cluster", "--help-all"]) == 0
    text = capsys.readouterr().out
    for name in [*SSC_PARAMETERS, *IMAGE_PARAMETERS]:
        assert f"--{name.replace('_', '-')}" in text, name
    assert set(HELPS) | {"n_clusters"} == set(SSC_PARAMETERS)
    assert set(FLAGS) <= set(SSC_PARAMETERS)


@pytest.mark.parametrize("columns", ["80", "100"])
@pytest.mark.parametrize("command", ["cluster", "demo", "reproduce", "bench"])
def test_help_fits_on_a_screen_and_has_an_example(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 40
    assert f"spdcluster {command}" in text.split("Example:")[1]


def test_version_and_help_import_nothing_slow():
    code = (
        "import sys\nfrom spdcluster.cli.entry import run\n"
        "assert run(['--version']) == 0 and run(['cluster', '--help']) == 0\n"
        "slow = {'sklearn', 'scipy', 'numba', 'matplotlib', 'skimage', 'numpy'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"spdcluster {__version__}\n")


def test_compiling_is_told_apart_from_the_step_that_needs_it():
    import numba

    said = []
    clock = Clock(on_compile=lambda: said.append("compiling"))

    @numba.njit
    def slow_to_compile(x):
        return np.sort(x)[::-1].cumsum().mean()

    for step in ("first", "second"):
        with clock.step(step):
            slow_to_compile(np.arange(3.0))
    assert said == ["compiling"]
    assert list(clock.seconds) == ["compile, once", "first", "second"]
    assert clock.seconds["compile, once"] > clock.seconds["first"] > 0
    assert clock.seconds["second"] < clock.seconds["compile, once"] / 10


def test_shell_completion_is_offered():
    environment = os.environ | {
        "_SPDCLUSTER_COMPLETE": "complete_bash",
        "COMP_WORDS": "spdcluster cl",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "cluster"


def test_demo_finds_the_textures_and_replaces_only_its_own_result(place, capsys):
    assert run(["demo"]) == 0
    text = capsys.readouterr().out
    assert "N = 1,849" in text
    assert "What to try next" in text
    folder = Path("spdcluster-demo")
    assert {p.name for p in folder.iterdir()} == RESULTS | {"mosaic.png"}
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["quality"]["accuracy"] > 0.93
    assert summary["quality"]["nmi"] > 0.78
    assert run(["demo", "-q"]) == 0
    (folder / "summary.json").write_text("{}")
    fails(["demo"], capsys, "earlier result")


def test_benchmarks_and_reproductions_draw_no_bars_where_nobody_watches(place, monkeypatch):
    told = []

    def fake(*_, quiet, **__):
        told.append(quiet)
        return {"rows": []}

    monkeypatch.setattr("spdcluster.cli.app._load_run", lambda module: fake)
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        assert run(["bench", "solver", "--overwrite"]) == 0
        assert run(["reproduce", "brodatz", "--data", "."]) == 0
    assert told == [True, True, False, False]


def test_bench_prints_its_rows_and_writes_them(place, capsys):
    def fake(data, quick):
        return {"rows": [{"what": "a", "seconds": 0.5}, {"what": "bb", "ratio": 2}]}

    arguments = {"quick": True, "overwrite": False, "quiet": False}
    run_benchmark("fake", fake, None, Path("b"), **arguments)
    assert json.loads(Path("b/bench.json").read_text())["rows"][1] == {"what": "bb", "ratio": 2}
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["what  seconds  ratio", "a     0.5", "bb             2"]
    with pytest.raises(FileExistsError, match="earlier result"):
        run_benchmark("fake", fake, None, Path("b"), **arguments)
