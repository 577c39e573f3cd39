"""The report: self-contained, small, true to its numbers, and readable in a real browser."""

import html.parser
import json
import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import silhouette_score

from spdcluster import KernelSSC
from spdcluster.graph import affinity
from spdcluster.report import Measures, Run, Scene, measure, render_report
from spdcluster.report.measures import agreement, usage_and_cut
from spdcluster.report.page import certificate_in_words, spectrum_in_words
from spdcluster.report.pictures import (
    affinity_svg,
    as_picture,
    cluster_colors,
    ellipse,
    ellipsoid_pixels,
    heat_pixels,
    plane_coordinates,
)

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# set where a missing browser is a failure, not a reason to skip
BROWSER_REQUIRED = "SPDCLUSTER_REQUIRE_BROWSER"


def matrices(n, d, n_classes, *, hermitian=False):
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_classes
    mixing = rng.normal(size=(n_classes, d, d)) + (
        1j * rng.normal(size=(n_classes, d, d)) * hermitian
    )
    noise = rng.normal(size=(n, d, 8 * d)) + (1j * rng.normal(size=(n, d, 8 * d)) * hermitian)
    A = mixing[truth] @ noise
    X = A @ A.conj().swapaxes(1, 2)
    return (X if hermitian else X.real), truth


def make_run(n=60, d=4, n_classes=3, *, hermitian=False, labelled=True, images=False, scene=False):
    X, truth = matrices(n, d, n_classes, hermitian=hermitian)
    model = KernelSSC(n_classes, random_state=0).fit(X)
    pixels = np.random.default_rng(1).integers(0, 256, (n, 20, 30)).astype(np.uint8)
    painted = np.tile(np.arange(48) // 16, (48, 1))
    return Run(
        title="A <test> & its report",
        source="nowhere",
        model=model,
        X=X,
        names=[f"name <{i}>" for i in range(n)],
        measures=measure(model, X, truth if labelled else None),
        command="spdcluster cluster x.npy -k 3",
        python="print('<hello>')\n",
        facts={"Found": {"gap": "1e-15"}, "Parameters": {"alpha": "0.04"}},
        seconds=1.25,
        thumbnail=pixels.__getitem__ if images else None,
        scene=Scene(np.arange(48.0 * 48).reshape(48, 48), painted, painted) if scene else None,
    )


KINDS = {
    "2x2 ellipses": {"d": 2},
    "3x3 ellipsoids": {"d": 3},
    "matrices, no labels": {"labelled": False},
    "hermitian": {"d": 3, "hermitian": True},
    "images": {"images": True, "scene": True},
    "many clusters": {"n": 84, "n_classes": 28},
    "two matrices": {"n": 2, "n_classes": 2, "labelled": False},
    "one cluster": {"n": 12, "n_classes": 1},
}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def page(kind):
    return render_report(make_run(**KINDS[kind]))


class Elements(html.parser.HTMLParser):
    """All start tags with their attributes, and the tags that were opened and closed."""

    VOID = frozenset({"meta", "link", "img", "br", "path", "rect", "image", "use", "ellipse"})

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_page_is_well_formed_and_every_picture_has_a_size_and_a_text(page):
    elements = Elements(page)
    assert elements.open == []
    pictures = [(t, a) for t, a in elements.found if t in ("img", "svg")]
    assert len(pictures) > 4
    for tag, attributes in pictures:
        assert float(attributes["width"]) > 0
        assert float(attributes["height"]) > 0
        assert attributes["alt" if tag == "img" else "aria-label"]
    identities = [a["id"] for _, a in elements.found if "id" in a]
    assert len(identities) == len(set(identities))


def test_page_needs_no_network_and_runs_no_script(page):
    elements = Elements(page)
    for tag, attributes in elements.found:
        for name in ("src", "href", "xlink:href"):
            value = attributes.get(name, "#")
            assert value.startswith(("data:", "#")), f"<{tag} {name}={value[:60]}>"
    assert "<script" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_page_escapes_names_and_stays_small(page):
    assert "name <0>" not in page
    assert "<test>" not in page
    assert len(page) < 1_500_000


def test_page_of_50000_matrices_is_small_and_quick():
    rng = np.random.default_rng(0)
    n, k, m = 50_000, 16, 8
    labels = np.sort(rng.integers(0, k, n))
    rows = np.repeat(np.arange(n), m)
    codes = csr_array((rng.random(n * m), (rows, (rows + rng.integers(1, 40, n * m)) % n)), (n, n))
    embedding = np.eye(k)[labels]  # coincident points must not slow the map down
    W = affinity(codes)
    usage, cut = usage_and_cut(W, labels, k)
    margin = rng.normal(size=n)
    measures = Measures(
        labels, np.bincount(labels), margin, margin, labels, usage, cut, 0.9, np.linspace(1, 0, 24),
        agreement(labels, labels),
    )  # fmt: skip
    model = SimpleNamespace(embedding_=embedding, affinity_=W, dual_gap_=1e-9)
    X = np.broadcast_to(np.eye(5), (n, 5, 5))
    names = [str(i) for i in range(n)]
    text = render_report(Run("t", "s", model, X, names, measures, "c", "p", {"F": {}}, 1.0))
    assert len(text) < 1_500_000


# ----------------------------------------------------------------------------------------- numbers


def test_measures_agree_with_direct_computations():
    X, truth = matrices(60, 4, 3)
    model = KernelSSC(3, random_state=0).fit(X)
    m = measure(model, X, truth)
    W, inside = model.affinity_.toarray(), model.labels_[:, None] == model.labels_
    np.testing.assert_allclose(m.usage, (W * inside).sum(axis=1))
    for k in range(3):
        own = model.labels_ == k
        np.testing.assert_allclose(m.normalized_cut[k], W[own][:, ~own].sum() / W[own].sum())
    assert m.silhouette == pytest.approx(silhouette_score(model.embedding_, model.labels_))
    degree = W.sum(axis=1)
    spectrum = np.linalg.eigvalsh(W / np.sqrt(degree[:, None] * degree))[::-1]
    np.testing.assert_allclose(m.eigenvalues, spectrum[: len(m.eigenvalues)], atol=1e-7)
    assert m.sizes.sum() == 60
    assert (m.agreement.accuracy, m.agreement.nmi, m.agreement.ari) == (1.0, pytest.approx(1), 1.0)


def test_confusion_has_matched_pairs_on_its_diagonal():
    truth = np.array(["a", "a", "b", "b", "b", "c"])
    labels = np.array([2, 2, 0, 0, 1, 1])
    found = agreement(truth, labels)
    assert found.clusters == [2, 0, 1]
    np.testing.assert_array_equal(found.confusion, [[2, 0, 0], [0, 2, 1], [0, 0, 1]])
    assert found.accuracy == pytest.approx(5 / 6)


def test_measures_of_a_method_without_a_kernel_say_that_distances_are_unknown():
    X, _ = matrices(30, 3, 2)
    fitted = KernelSSC(2, random_state=0).fit(X)
    names = ("labels_", "affinity_", "representation_", "embedding_", "eigenvalues_")
    model = SimpleNamespace(**{name: getattr(fitted, name) for name in names})
    assert np.isnan(measure(model, X).distance).all()


@pytest.mark.parametrize(
    ("gap", "says"),
    [(1e-15, "exact to the last digits"), (1e-9, "one part in 1 billion"), (0.02, "by up to 2 %")],
)
def test_certificate_says_what_the_gap_proves(gap, says):
    assert says in certificate_in_words(SimpleNamespace(dual_gap_=gap))
    assert "no certificate" in certificate_in_words(SimpleNamespace())


def test_spectrum_says_when_another_number_of_clusters_fits_better():
    m = SimpleNamespace(
        n_clusters=3, suggested_n_clusters=3, eigenvalues=np.array([1, 0.9, 0.8, 0.1])
    )
    assert "agrees" in spectrum_in_words(m)
    m.suggested_n_clusters = 1
    assert "nothing clear" in spectrum_in_words(m)
    m.suggested_n_clusters, m.eigenvalues = 5, np.array([1, 1, 1, 1, 1, 0.2])
    assert "5 groups rather than 3" in spectrum_in_words(m)
    assert "5 separate pieces, more than" in spectrum_in_words(m)


# ---------------------------------------------------------------------------------------- pictures


def test_ellipse_points_along_the_largest_eigenvector():
    rotation = float(re.search(r"rotate\(([-\d.]+)\)", ellipse(np.diag([1.0, 9.0]), "e"))[1])
    assert abs(rotation) == pytest.approx(90)
    tilted = np.array([[2.0, 1.0], [1.0, 2.0]])  # long axis up to the right; svg's y points down
    rotation = float(re.search(r"rotate\(([-\d.]+)\)", ellipse(tilted, "e"))[1]) % 180
    assert rotation == pytest.approx(135)


def test_ellipsoid_is_a_disc_for_the_identity_and_flat_where_the_matrix_is():
    sphere = ellipsoid_pixels(np.eye(3))[..., 3]
    assert sphere.mean() == pytest.approx(np.pi / 4 / 1.08**2, abs=0.03)
    wide = ellipsoid_pixels(np.diag([1.0, 0.01, 0.01]))
    rows, columns = np.nonzero(wide[..., 3])
    assert np.ptp(columns) > 5 * np.ptp(rows)
    middle = wide[44, 44, :3]
    assert middle[0] > middle[1]  # along x: red
    assert np.isfinite(ellipsoid_pixels(1e-26 * np.eye(3))).all()


@pytest.mark.parametrize("scale", [1e-26, 1.0, 1e12])
def test_matrix_pictures_do_not_depend_on_scale(scale):
    X = matrices(1, 6, 1)[0][0]
    np.testing.assert_allclose(heat_pixels(scale * X), heat_pixels(X), atol=1e-9)


def test_the_hue_of_an_entry_is_its_phase_and_its_opacity_its_coherence():
    def with_correlation(r):
        return np.array([[4.0, 2 * r], [2 * np.conj(r), 1.0]])

    negative = heat_pixels(with_correlation(-0.5))[0, 1]
    assert negative[0] > negative[2] + 0.3  # red
    assert negative[3] == pytest.approx(0.5)
    real, same = with_correlation(0.5), with_correlation(0.5 + 0j)
    np.testing.assert_array_equal(heat_pixels(real), heat_pixels(same))
    turned = heat_pixels(with_correlation(0.5j))
    assert turned[0, 1, 1] > turned[0, 1, 0]  # 90 degrees: green
    assert turned[1, 0, 2] > turned[1, 0, 1] + 0.2  # -90 degrees: violet
    almost = heat_pixels(with_correlation(0.5 * np.exp(1e-6j)))
    np.testing.assert_allclose(almost, heat_pixels(same), atol=1e-5)


def test_variances_that_are_nearly_equal_look_equal():
    diagonal = heat_pixels(np.diag([1.0, 1.001, 1e-3, 1e-9]))[range(4), range(4), 3]
    np.testing.assert_allclose(diagonal, [1, 1, 0.1, 0.1], atol=2e-3)


def test_pictures_of_images_are_small_bytes_whatever_the_image_is():
    rng = np.random.default_rng(0)
    for image in (
        rng.normal(size=(200, 90)),
        rng.integers(0, 2**16, (50, 300, 3)),
        np.ones((7, 7)),
    ):
        picture = as_picture(image, 96)
        assert picture.dtype == np.uint8
        assert max(picture.shape[:2]) <= 96


def test_cluster_colours_differ():
    for n in (1, 10, 60):
        assert len(set(cluster_colors(n))) == n


def test_affinity_picture_is_downsampled():
    n = 3000
    W = csr_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), (n, n))
    svg = affinity_svg(W + W.T, np.arange(n) // 1000, cluster_colors(3))
    assert len(svg) < 100_000


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 5])
def test_map_has_two_coordinates_whatever_the_embedding(n_clusters):
    labels = np.arange(40) % n_clusters
    points, sample, _ = plane_coordinates(np.eye(n_clusters)[labels], labels, n_clusters)
    assert points.shape == (len(sample), 2)
    assert np.isfinite(points).all()


# ----------------------------------------------------------------------------------------- browser

PROBE = """<!doctype html><meta charset="utf-8"><title>waiting</title>
<iframe id="frame" src="report.html" width="{width}" height="900" style="border:0"></iframe>
<pre id="result"></pre>
<script>
frame.onload = () => {{
  const d = frame.contentDocument, w = frame.contentWindow;
  const pictures = [...d.querySelectorAll("img, svg")].map(p => p.getBoundingClientRect());
  const small = [...d.querySelectorAll("p, td, th, figcaption, svg text")]
    .filter(e => e.getBoundingClientRect().width > 0)
    .map(e => parseFloat(w.getComputedStyle(e).fontSize) *
      (e.ownerSVGElement ? e.ownerSVGElement.getScreenCTM().a : 1));
  result.textContent = JSON.stringify({{
    overflow: d.documentElement.scrollWidth - {width},
    empty: pictures.filter(r => r.width < 1 || r.height < 1).length,
    outside: pictures.filter(r => r.left < 0 || r.right > {width} + 1).length,
    broken: [...d.images].filter(i => !i.complete || i.naturalWidth === 0).length,
    pictures: pictures.length,
    smallest: Math.min(...small),
    paper: w.getComputedStyle(d.body).backgroundColor,
    ink: w.getComputedStyle(d.body).color,
  }});
}};
</script>"""


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        if os.environ.get(BROWSER_REQUIRED):
            pytest.fail(f"{BROWSER_REQUIRED} is set, but there is no chromium")
        pytest.skip("no chromium here; install the package chromium to run this test")
    return BROWSER


def browse(browser, folder, address, *options):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update",
             "--disable-dev-shm-usage", "--enable-logging=stderr", "--allow-file-access-from-files",
             "--window-size=1500,1000", f"--user-data-dir={folder / 'profile'}"]  # fmt: skip
    done = subprocess.run(
        [browser, *flags, *options, address], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1400, False)])
def test_page_reads_well_in_a_browser(browser, tmp_path, width, dark):
    run = make_run(images=True, scene=True)
    (tmp_path / "report.html").write_text(render_report(run), "utf-8")
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width), "utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    done = browse(
        browser, tmp_path, probe.as_uri(), scheme, "--virtual-time-budget=5000", "--dump-dom"
    )
    assert ":CONSOLE" not in done.stderr, done.stderr
    text = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)[1]
    seen = json.loads(text)
    assert seen["pictures"] > 20
    assert seen["overflow"] <= 0
    assert (seen["empty"], seen["outside"], seen["broken"]) == (0, 0, 0)
    assert seen["smallest"] >= 9
    assert (brightness(seen["paper"]) < 60 < 200 < brightness(seen["ink"])) == dark
    assert (brightness(seen["ink"]) < 60 < 200 < brightness(seen["paper"])) == (not dark)


def test_the_browser_test_would_see_a_console_error(browser, tmp_path):
    (tmp_path / "bad.html").write_text("<script>console.error('seen')</script>")
    done = browse(browser, tmp_path, (tmp_path / "bad.html").as_uri(), "--dump-dom")
    assert ":CONSOLE" in done.stderr


def test_page_prints_on_a_few_sheets(browser, tmp_path):
    (tmp_path / "report.html").write_text(render_report(make_run()), "utf-8")
    pdf = tmp_path / "report.pdf"
    browse(browser, tmp_path, (tmp_path / "report.html").as_uri(), f"--print-to-pdf={pdf}")
    sheets = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    assert 2 <= sheets <= 8


def brightness(color):
    return np.mean([float(v) for v in re.findall(r"[\d.]+", color)[:3]])
