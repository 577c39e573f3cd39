"""The experiments: draws, journal, tables, loaders and small runs on made images."""

import json
import math
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from spdcluster.datasets.brodatz import PLATES, load_brodatz
from spdcluster.datasets.feret import load_feret
from spdcluster.experiments import brodatz, feret, others, published
from spdcluster.experiments.draws import draw_subsets
from spdcluster.experiments.elastic_net import elastic_net_codes
from spdcluster.experiments.families import FAMILIES, autoregressive
from spdcluster.experiments.journal import Journal, write_file
from spdcluster.experiments.methods import Method
from spdcluster.experiments.page import score_table
from spdcluster.experiments.scene import draw_pixels, load_scene
from spdcluster.experiments.tables import paired_differences, summarise
from spdcluster.experiments.trials import Trial

QUICK = {"trials": 1, "n_jobs": 1, "quiet": True}
FEW = ["K-means", "KSSCR", "elastic net, log, exact"]


@pytest.fixture(scope="module")
def texture_folder(tmp_path_factory) -> Path:
    """Sixteen filtered-noise textures under the names of the plates."""
    from skimage.io import imsave

    folder = tmp_path_factory.mktemp("textures")
    rng = np.random.default_rng(0)
    fy, fx = np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256), indexing="ij")
    for number, plate in enumerate(PLATES):
        angle, frequency = math.pi * number / 16, 0.05 + 0.01 * number
        along = fx * math.cos(angle) + fy * math.sin(angle)
        gain = np.exp(-((np.abs(along) - frequency) ** 2) / 0.005)
        wave = np.fft.ifft2(np.fft.fft2(rng.normal(size=(256, 256))) * gain).real
        pixels = 128 + 30 * wave / wave.std() + rng.normal(size=wave.shape) * 3
        imsave(folder / f"D{plate}.png", np.clip(pixels, 0, 255).astype(np.uint8))
    return folder


@pytest.fixture(scope="module")
def face_file(tmp_path_factory) -> Path:
    """Six blurred patterns, five noisy images of each."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(1)
    patterns = [gaussian_filter(rng.normal(size=(40, 40)), 2) for _ in range(6)]
    images = [p / p.std() + 0.2 * rng.normal(size=p.shape) for p in patterns for _ in range(5)]
    path = tmp_path_factory.mktemp("faces") / "feret.npz"
    np.savez(path, images=np.array(images), labels=np.repeat(np.arange(6), 5))
    return path


def test_draws_do_not_depend_on_other_draws():
    labels = np.repeat(np.arange(6), 10)
    few = draw_subsets(labels, "classes", [3], 2, seed=5)
    many = draw_subsets(labels, "classes", [2, 3, 4], 7, seed=5)
    same = [d for d in many if d.n_classes == 3 and d.trial < 2]
    for a, b in zip(few, same):
        np.testing.assert_array_equal(a.members, b.members)
        assert a.seed == b.seed
        assert len(a.members) == 30
        assert len(np.unique(labels[a.members])) == 3


def test_unbalanced_draws_keep_to_the_sizes():
    labels = np.repeat(np.arange(5), 20)
    draws = draw_subsets(labels, "unbalanced", [5], 20, seed=0, class_sizes=(3, 12))
    sizes = np.concatenate([np.bincount(labels[d.members]) for d in draws])
    assert sizes.min() == 3
    assert sizes.max() == 12


def test_journal_survives_a_line_that_was_cut_short(tmp_path):
    path = tmp_path / "trials.jsonl"
    Journal(path).add({"method": "a"}, {"accuracy": 1.0})
    with path.open("a") as file:
        file.write('{"key": "half of a li')
    journal = Journal(path)
    assert journal.get({"method": "a"}) == {"accuracy": 1.0}
    journal.add({"method": "b"}, {"accuracy": 2.0})
    again = Journal(path)
    assert again.get({"method": "a"}) == {"accuracy": 1.0}
    assert again.get({"method": "b"}) == {"accuracy": 2.0}
    assert again.get({"method": "c"}) is None


def test_write_file_leaves_no_temporary_file(tmp_path):
    write_file(tmp_path / "a.csv", "one")
    write_file(tmp_path / "a.csv", b"two")
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "two"


def test_summary_and_differences_against_hand_made_scores():
    def trial(k, number, method, accuracy):
        return Trial("classes", k, number, method, 10, accuracy, accuracy / 2, 0.1, [])

    trials = [
        *(trial(2, i, "a", v) for i, v in enumerate([90.0, 100.0])),
        *(trial(4, i, "a", v) for i, v in enumerate([70.0, 80.0])),
        *(trial(2, i, "b", v) for i, v in enumerate([80.0, 100.0])),
        *(trial(4, i, "b", v) for i, v in enumerate([60.0, 70.0])),
    ]
    summary = summarise(trials, "classes", (2, 4), ["a", "b"])
    assert summary["accuracy"]["a"] == {"mean": [95.0, 75.0], "std": [5.0, 5.0], "average": 85.0}
    ahead = paired_differences(trials, "classes", "a", ["a", "b"])
    assert ahead["b"]["accuracy"] == pytest.approx(7.5)
    assert ahead["b"]["accuracy_standard_error"] == pytest.approx(
        np.std([10, 0, 10, 10], ddof=1) / 2
    )
    table = score_table("t", (2, 4), summary["accuracy"], {"a": ((99.0, 1.0), (50.0, 0.0))})
    assert [row.method for row in table.rows] == ["a", "in the paper", "b"]
    assert table.rows[1].cells == ["99.00 ± 1.00", "50.00 ± 0.00", "74.50"]
    assert table.rows[0].best == [True, True, True]


def test_the_papers_numbers_are_complete():
    for table in (published.ACCURACY, published.NMI):
        assert set(table) == set(published.FERET)
        assert all(len(row) == len(published.N_CLASSES) for row in table.values())
    # the averages that section IV names, and one cell of each table
    assert published.ACCURACY["KSSCR"][2] == (97.85, 0)
    assert published.NMI["KSSCE"][4] == (79.42, 0.08)
    assert published.FERET["KSSCR"] == (80.42, 88.46)


def covariance_groups(d: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(3, d, d))
    A = np.repeat(mixing, size, axis=0) @ rng.normal(size=(3 * size, d, 4 * d))
    return A @ A.swapaxes(1, 2)


def test_the_shipped_elastic_net_is_its_objective_where_vectors_are_long():
    pytest.importorskip("spams")
    from spdcluster import KernelSSC
    from spdcluster.experiments.presets import exact_elastic_net

    X = covariance_groups(10, 8)  # 55 numbers a matrix, 24 matrices: no path is stopped
    codes = elastic_net_codes(X, n_jobs=1).toarray()
    exact = KernelSSC(3, **exact_elastic_net("").parameters, random_state=0).fit(X)
    np.testing.assert_allclose(codes, exact.representation_.toarray(), atol=1e-5)
    assert np.abs(codes).max() > 0.1


def test_the_shipped_elastic_net_stops_early_where_vectors_are_short():
    pytest.importorskip("spams")
    from spdcluster import KernelSSC
    from spdcluster.experiments.presets import exact_elastic_net

    X = covariance_groups(3, 20)  # 6 numbers a matrix
    codes = elastic_net_codes(X, n_jobs=1)
    assert np.diff(codes.indptr).max() <= 6
    exact = KernelSSC(3, **exact_elastic_net("").parameters, random_state=0).fit(X)
    assert np.diff(exact.representation_.indptr).max() > 6


def test_without_spams_its_row_is_left_out_with_a_note(texture_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("spdcluster.experiments.methods.has_spams", lambda: False)
    names = ["K-means", "elastic net, log"]
    results = brodatz.run(texture_folder, tmp_path, **QUICK, n_classes=(2,), methods=names)
    assert list(results["methods"]) == ["K-means"]
    assert "elastic net, log is left out: the package spams is not installed." in results["notes"]


def ksscr_by_hand(folder, k):
    """The first trial of k textures, without the experiment's machinery."""
    from spdcluster import KernelSSC
    from spdcluster.descriptors import RegionCovariance
    from spdcluster.metrics import clustering_accuracy

    X = RegionCovariance(regions="grid", size=32).fit_transform(load_brodatz(folder).images)
    labels = np.repeat(np.arange(16), 64)
    draw = draw_subsets(labels, "classes", [k], 1, seed=0)[0]
    model = KernelSSC(k, gamma=0.5, alpha=0.04, random_state=draw.seed, n_jobs=1)
    found = model.fit_predict(X[draw.members])
    return 100 * clustering_accuracy(labels[draw.members], found)


def test_brodatz_run_writes_everything_and_resumes_to_the_same_numbers(texture_folder, tmp_path):
    options = {**QUICK, "n_classes": (2, 4), "methods": FEW}
    first = brodatz.run(texture_folder, tmp_path / "a", **options)
    written = {p.name for p in (tmp_path / "a").iterdir()}
    assert written >= {
        "results.json",
        "report.html",
        "trials.csv",
        "trials.jsonl",
        "timings.csv",
        "classes_accuracy.csv",
        "unbalanced_nmi.csv",
        "affinities.png",
        "textures.png",
        "curves_classes.png",
    }
    assert json.loads((tmp_path / "a" / "results.json").read_text()) == first
    mean = first["protocols"]["classes"]["accuracy"]["KSSCR"]["mean"]
    assert mean[1] == pytest.approx(ksscr_by_hand(texture_folder, 4))
    lines = (tmp_path / "a" / "trials.jsonl").read_text().splitlines()
    assert len(lines) == 2 * 2 * len(FEW)

    # half of the trials lost: the rest is kept, and the result is the same to the last byte
    (tmp_path / "a" / "trials.jsonl").write_text("\n".join(lines[:5]) + "\n")
    second = brodatz.run(texture_folder, tmp_path / "a", **options)
    assert second == first
    assert (tmp_path / "a" / "trials.jsonl").read_text().splitlines()[:5] == lines[:5]
    page = (tmp_path / "a" / "report.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    assert page.count('<img src="data:image/png;base64,') == 4


def test_the_seed_decides_the_draws(texture_folder, tmp_path):
    options = {**QUICK, "n_classes": (4,), "methods": ["K-means"]}
    brodatz.run(texture_folder, tmp_path / "a", seed=1, **options)
    brodatz.run(texture_folder, tmp_path / "b", seed=1, **options)
    brodatz.run(texture_folder, tmp_path / "c", seed=2, **options)
    a, b, c = ((tmp_path / x / "trials.csv").read_text() for x in "abc")
    assert a == b
    assert a != c


def test_best_is_kernel_ssc_with_the_public_preset():
    from spdcluster import KernelSSC
    from spdcluster.experiments.presets import best
    from spdcluster.presets import best as parameters

    X = covariance_groups(4, 15)
    found = best("any").fit(X, 3, 7, n_jobs=1)
    model = KernelSSC(**parameters(45, 3), random_state=7).fit(X)
    np.testing.assert_array_equal(found.labels, model.labels_)
    np.testing.assert_array_equal(found.affinity.toarray(), model.affinity_.toarray())


def test_best_preset_is_ahead_of_its_rivals_on_its_own_line(texture_folder, tmp_path):
    results = brodatz.run(
        texture_folder, tmp_path, preset="best", **QUICK, n_classes=(4,), methods=["best", "KSSCR"]
    )
    ahead = results["protocols"]["classes"]["best minus"]["KSSCR"]
    mean = {m: results["protocols"]["classes"]["accuracy"][m]["average"] for m in ("best", "KSSCR")}
    assert ahead["accuracy"] == pytest.approx(mean["best"] - mean["KSSCR"])
    assert mean["best"] > 90


def test_feret_run_with_its_sweep(face_file, tmp_path, monkeypatch):
    monkeypatch.setattr(feret, "GAMMAS", (1e-3, 1e-2))
    monkeypatch.setattr(feret, "paper_methods", lambda *a: [Method("K-means", "gabor", "k-means")])
    results = feret.run(face_file, tmp_path, **QUICK, n_classes=(3, 5))
    assert set(results["protocols"]) == {"subjects", "unbalanced", "gamma"}
    assert set(results["protocols"]["gamma"]["accuracy"]) == {
        "KSSCR, gamma=0.001",
        "KSSCR, gamma=0.01",
    }
    assert (tmp_path / "gamma.png").stat().st_size > 0
    assert results["data"]["n_subjects"] == 6


def test_feret_best_preset_separates_distinct_patterns(face_file, tmp_path):
    results = feret.run(
        face_file, tmp_path, preset="best", **QUICK, n_classes=(4,), methods=["best"]
    )
    assert results["protocols"]["subjects"]["accuracy"]["best"]["average"] > 90


def test_missing_estimators_are_left_out_with_a_note(texture_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        brodatz,
        "_methods",
        lambda preset: [
            Method("K-means", "texture", "k-means"),
            Method("new", "texture", "NotThere"),
        ],
    )
    import spdcluster

    monkeypatch.setitem(spdcluster._HOME, "NotThere", "spdcluster.estimators.not_there")
    results = brodatz.run(texture_folder, tmp_path, **QUICK, n_classes=(2,))
    assert list(results["methods"]) == ["K-means"]
    assert any("new is left out" in note for note in results["notes"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "bets"}, r"preset must be one of .*Did you mean 'best'"),
        ({"trials": 0}, "trials must be an integer of at least 1"),
        ({"n_classes": (2, 17)}, r"n_classes must be an integer in \[2, 16\]; got 17"),
        ({"methods": ["KSSC"]}, r"methods must be one of 'K-means', .*; got 'KSSC'"),
    ],
)
def test_bad_options_are_named(texture_folder, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        brodatz.run(texture_folder, tmp_path, **{**QUICK, **options})


def test_data_with_few_subjects_gives_the_subsets_that_it_has(face_file, tmp_path):
    with pytest.raises(
        ValueError, match="the data has 6 classes; the experiment needs at least 10"
    ):
        feret.run(face_file, tmp_path, **QUICK)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "f.npz", images=rng.random((24, 24, 24)), labels=np.arange(24) // 2)
    results = feret.run(tmp_path / "f.npz", tmp_path, **QUICK, methods=["K-means"])
    assert results["protocols"]["subjects"]["n_classes"] == [10]
    assert any("12 subjects: larger subsets are left out" in note for note in results["notes"])


def test_brodatz_folder_errors(texture_folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*D3, D4"):
        load_brodatz(tmp_path / "none")
    (tmp_path / "D3.png").write_bytes((texture_folder / "D3.png").read_bytes())
    with pytest.raises(ValueError, match="lacks 15 of the 16 Brodatz plates: D4, D5"):
        load_brodatz(tmp_path)
    for plate in PLATES:
        (tmp_path / f"D{plate}.png").write_bytes((texture_folder / f"D{plate}.png").read_bytes())
    (tmp_path / "D9.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"D9\.png cannot be read as an image"):
        load_brodatz(tmp_path)
    (tmp_path / "D9.png").unlink()
    (tmp_path / "d009.png").write_bytes((texture_folder / "D9.png").read_bytes())
    assert load_brodatz(tmp_path).names[4] == "D9"
    (tmp_path / "D9.png").write_bytes((texture_folder / "D9.png").read_bytes())
    with pytest.raises(ValueError, match="two images of plate D9"):
        load_brodatz(tmp_path)


def test_brodatz_images_must_be_square_and_large_enough(texture_folder, tmp_path):
    from skimage.io import imsave

    for plate in PLATES:
        (tmp_path / f"D{plate}.png").write_bytes((texture_folder / f"D{plate}.png").read_bytes())
    imsave(tmp_path / "D3.png", np.zeros((100, 300), np.uint8), check_contrast=False)
    with pytest.raises(ValueError, match=r"D3\.png has 100 x 300 pixels"):
        load_brodatz(tmp_path)


def test_textures_from_subfolders_and_from_array_files(texture_folder, tmp_path):
    from scipy.io import savemat

    expected = load_brodatz(texture_folder)
    for plate in PLATES:
        (tmp_path / "folders" / f"D{plate:03d}").mkdir(parents=True)
        image = (texture_folder / f"D{plate}.png").read_bytes()
        (tmp_path / "folders" / f"D{plate:03d}" / "scan.png").write_bytes(image)
    shuffled = np.random.default_rng(0).permutation(16)
    images, plates = expected.images[shuffled], np.array(PLATES)[shuffled]
    np.savez(tmp_path / "a.npz", images=images, labels=[f"D{p}" for p in plates])
    savemat(tmp_path / "a.mat", {"X": np.moveaxis(images, 0, -1), "y": plates[:, None]})
    for source in ("folders", "a.npz", "a.mat"):
        np.testing.assert_allclose(load_brodatz(tmp_path / source).images, expected.images)

    (tmp_path / "folders" / "D003" / "scan2.png").write_bytes(image)
    with pytest.raises(ValueError, match=r"D003 holds 2 images"):
        load_brodatz(tmp_path / "folders")
    np.savez(tmp_path / "b.npz", images=images[[0, 0]], labels=plates[[0, 0]])
    with pytest.raises(ValueError, match="two images of plate D"):
        load_brodatz(tmp_path / "b.npz")


def test_faces_from_a_folder_of_subjects_and_from_names(face_file, tmp_path):
    from skimage.io import imsave

    pixels = (np.random.default_rng(0).random((4, 20, 20)) * 255).astype(np.uint8)
    for i, image in enumerate(pixels):
        inside = tmp_path / "folders" / f"subject {i // 2}"
        inside.mkdir(parents=True, exist_ok=True)
        imsave(inside / f"{i}.png", image)
        (tmp_path / "names").mkdir(exist_ok=True)
        imsave(tmp_path / "names" / f"{i // 2:05d}b{'ad'[i % 2]}010_960521.png", image)
    for source, subjects in (
        ("folders", ["subject 0", "subject 1"]),
        ("names", ["00000", "00001"]),
    ):
        faces = load_feret(tmp_path / source)
        assert faces.images.shape == (4, 20, 20)
        assert list(np.unique(faces.subjects)) == subjects
        np.testing.assert_array_equal(faces.images, pixels)


def test_faces_from_a_matlab_file(tmp_path):
    from scipy.io import savemat

    images = np.random.default_rng(0).random((6, 400))
    savemat(tmp_path / "f.mat", {"fea": images, "gnd": np.repeat([1, 2, 3], 2)[:, None]})
    faces = load_feret(tmp_path / "f.mat")
    # MATLAB stores an image column by column
    np.testing.assert_array_equal(faces.images, images.reshape(6, 20, 20).swapaxes(1, 2))
    np.testing.assert_array_equal(faces.subjects, [1, 1, 2, 2, 3, 3])


def test_face_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        load_feret(tmp_path / "none.npz")
    np.savez(tmp_path / "no.npz", other=np.zeros((3, 20, 20)))
    with pytest.raises(ValueError, match="images"):
        load_feret(tmp_path / "no.npz")
    np.savez(tmp_path / "short.npz", images=np.zeros((3, 20, 20)), labels=[1, 2])
    with pytest.raises(ValueError, match="one label for each of the 3"):
        load_feret(tmp_path / "short.npz")


def test_real_textures_reach_the_preset_target_on_eight_classes(data_folder, tmp_path):
    folder = data_folder / "brodatz16"
    if not folder.is_dir():
        pytest.skip("no brodatz16 folder")
    results = brodatz.run(
        folder,
        tmp_path,
        preset="best",
        trials=3,
        n_jobs=1,
        quiet=True,
        n_classes=(8,),
        methods=["best", "KSSCR"],
    )
    scores = results["protocols"]["classes"]["accuracy"]
    assert scores["best"]["average"] > 95
    assert scores["best"]["average"] > scores["KSSCR"]["average"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_made_families_are_definite_and_have_the_classes_they_say(family):
    X, y = family.draw(np.random.default_rng(0))
    assert np.array_equal(np.bincount(y), [family.size] * family.n_classes)
    assert len(X) == len(y)
    assert np.linalg.eigvalsh(X)[:, 0].min() > 0
    np.testing.assert_allclose(X, X.conj().swapaxes(1, 2), atol=1e-12 * np.abs(X).max())
    again, _ = family.draw(np.random.default_rng(0))
    np.testing.assert_array_equal(again, X)
    sizes = np.bincount(family.draw(np.random.default_rng(1), unbalanced=True)[1])
    assert sizes.min() >= 8
    assert sizes.max() <= family.size
    assert len(set(sizes)) > 1


def test_autoregressive_family_has_the_autocovariance_of_its_process():
    """Yule-Walker: r_1 = a_1 r_0 / (1 - a_2), from the poles that the generator draws first."""
    rng = np.random.default_rng(3)
    radius, angle = rng.uniform(0.5, 0.9), rng.uniform(0.2, np.pi - 0.2)
    a1, a2 = 2 * radius * np.cos(angle), -(radius**2)
    X = autoregressive(4, 5000)(np.random.default_rng(3), np.array([20])).mean(axis=0)
    assert X[0, 1] / X[0, 0] == pytest.approx(a1 / (1 - a2), abs=0.01)
    assert X[0, 2] / X[0, 0] == pytest.approx(a1 * a1 / (1 - a2) + a2, abs=0.01)


def write_scene(folder):
    """Two fields of 12 x 20 pixels, constant but for noise, and a strip without class."""
    from skimage.io import imsave

    rng = np.random.default_rng(0)
    labels = np.repeat([1, 1, 0, 2, 2], 4)[None].repeat(12, axis=0).astype(np.uint8)
    (folder / "T3").mkdir(parents=True)
    (folder / "T3" / "config.txt").write_text("Nrow\n12\n---------\nNcol\n20\n")
    parts = {"T11": 3.0, "T22": 2.0, "T33": 1.0, "T12_real": 0.5, "T12_imag": 0.4}
    parts |= {f"T{ij}_{part}": 0.1 for ij in ("13", "23") for part in ("real", "imag")}
    for name, value in parts.items():
        field = np.where(labels == 2, 2 * value, value) + 0.001 * rng.normal(size=labels.shape)
        field.astype("<f4").tofile(folder / "T3" / f"{name}.bin")
    imsave(folder / "labels.png", labels, check_contrast=False)
    return labels


def test_scene_is_read_averaged_and_sampled(tmp_path):
    labels = write_scene(tmp_path)
    matrices, read = load_scene(tmp_path, 3)
    np.testing.assert_array_equal(read, labels)
    raw = np.fromfile(tmp_path / "T3" / "T12_imag.bin", "<f4").reshape(12, 20)
    assert matrices[5, 6, 0, 1].imag == pytest.approx(raw[4:7, 5:8].mean(), rel=1e-5)
    assert matrices[5, 6, 1, 0] == matrices[5, 6, 0, 1].conj()
    X, y = draw_pixels(matrices, labels, np.random.default_rng(0), (10, 10))
    assert np.array_equal(np.bincount(y), [0, 10, 10])
    assert np.median(X[y == 2, 0, 0].real) == pytest.approx(6.0, abs=0.01)
    assert np.median(X[y == 1, 0, 0].real) == pytest.approx(3.0, abs=0.01)
    raw[:, :3] = 10.0  # |t_12| above (t_11 t_22)^(1/2): not definite
    raw.tofile(tmp_path / "T3" / "T12_imag.bin")
    _, read = load_scene(tmp_path, 1)
    np.testing.assert_array_equal(read[:, :3], 0)
    np.testing.assert_array_equal(read[:, 3:], labels[:, 3:])
    (tmp_path / "T3" / "config.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no T3/config\.txt"):
        load_scene(tmp_path, 3)


def test_other_sets_are_scored_tabled_and_resumed(tmp_path, monkeypatch):
    from spdcluster.metrics import clustering_accuracy

    monkeypatch.setattr(
        others, "METHODS", (Method("K-means, log", "", "k-means", {"logarithm": True}),)
    )
    write_scene(tmp_path / "scene")
    names = ["clouds", "scene, 5 x 5"]
    options = {"scene": tmp_path / "scene", "trials": 2, "n_jobs": 1, "names": names}
    first = others.run(tmp_path / "a", **options)
    assert list(first["scores"]) == names
    draw = others.sources()["clouds"][1]
    expected = []
    for trial in range(2):
        X, y = draw(np.random.default_rng([0, crc32(b"clouds"), False, trial]), False)
        found = others.METHODS[0].fit(X, 6, trial, 1).labels
        expected.append(100 * clustering_accuracy(y, found))
    score = first["scores"]["clouds"]["balanced"]["K-means, log"]
    assert score[0] == pytest.approx(np.mean(expected))
    assert (
        f"| clouds | balanced | **{score[0]:.1f}** / {score[1]:.1f} |"
        in (tmp_path / "a" / "others.md").read_text()
    )
    lines = (tmp_path / "a" / "trials.jsonl").read_text()
    assert others.run(tmp_path / "a", **options) == first
    assert (tmp_path / "a" / "trials.jsonl").read_text() == lines
