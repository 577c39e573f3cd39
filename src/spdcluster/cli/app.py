"""The commands. Whatever is slow to import is imported inside them."""

import logging
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from spdcluster import __version__
from spdcluster.cli.estimator_options import constructor_parameters, with_options

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Cluster covariance matrices (symmetric or Hermitian positive definite) by sparse "
    "self-expression, exactly and with a certificate.",
    epilog="First steps: spdcluster demo, then spdcluster cluster matrices.npy -k 3",
)

SSC_PARAMETERS = constructor_parameters("spdcluster.estimators.kernel_ssc", "KernelSSC")
IMAGE_OPTIONS = ("features", "regions", "size", "stride", "shrinkage", "standardize")
# what errors of the library call a parameter, and what a shell calls it
OPTIONS = {
    name: "--" + name.replace("_", "-")
    for name in (*SSC_PARAMETERS, *IMAGE_OPTIONS, "key", "skip_bad")
}
IMAGE_PARAMETERS = constructor_parameters(
    "spdcluster.descriptors.region_covariance", "RegionCovariance"
)
FLAGS = {
    "n_clusters": ("-k",),
    "random_state": ("--seed",),
    "n_jobs": ("-j", "--jobs"),
}
SHOWN = ("kernel", "gamma", "alpha", "regularization", "random_state", "n_jobs")
HELPS = {
    "kernel": "log-gaussian, log-linear, stein, ..., or precomputed.",
    "gamma": "Width of the kernel: a number, or scale.",
    "degree": "Of the polynomial kernels.",
    "coef0": "Constant of the polynomial kernels.",
    "normalize": "Give the kernel a unit diagonal.",
    "alpha": "Penalty: more makes sparser codes.",
    "alpha_mode": "absolute, or relative to the penalty at which a code is zero.",
    "l1_ratio": "1 for the lasso, less for an elastic net.",
    "affinity": "symmetric or row-normalized.",
    "solver": "active-set (exact) or admm (the paper's).",
    "rho": "ADMM's own parameter.",
    "tol": "Largest relative duality gap accepted.",
    "max_iter": "Most rounds (active-set) or iterations (admm).",
    "n_init": "Starts of k-means.",
    "random_state": "Drawn if not given; the report names it.",
    "n_jobs": "Threads; no result depends on it.  [all]",
    "verbose": "1 also logs what the library does.",
    "regularization": "Share of its mean eigenvalue added to a matrix.",
    "n_components": "Eigenvectors in the embedding.  [K]",
    "eigenvalue_power": "Eigenvectors times eigenvalue to this power.",
    "degree_regularization": "Share of the mean degree added to all.",
}


class Data(StrEnum):
    """The paper's data sets."""

    brodatz = "brodatz"
    feret = "feret"


class Preset(StrEnum):
    """Starting values of KernelSSC's parameters."""

    default = "default"
    best = "best"


class ReproductionPreset(StrEnum):
    """Parameters of a reproduction."""

    paper = "paper"
    best = "best"


class Benchmark(StrEnum):
    """What can be measured."""

    solver = "solver"
    methods = "methods"
    descriptors = "descriptors"


Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result.")]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"spdcluster {__version__}")
        raise typer.Exit


def _show_all_help(context: typer.Context, value: bool) -> None:
    if value:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all_help,
        help="Also list the other parameters of KernelSSC and RegionCovariance.",
    ),
]


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command(
    epilog="Example: spdcluster cluster covariances.npy -k 4 --labels truth.csv --out result"
)
@with_options(
    {k: p for k, p in SSC_PARAMETERS.items() if k != "n_clusters"},
    flags=FLAGS,
    helps=HELPS,
    shown=SHOWN,
)
def cluster(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help=".npy, .npz or .mat of matrices, - for stdin, a picture, a folder of images.",
        ),
    ],
    n_clusters: Annotated[
        str,
        typer.Option(
            "-k", "--n-clusters", metavar="K", help="Number of clusters, or auto: a hint."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for results.  [spdcluster-INPUT]",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which array of a .npz or .mat file.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Known classes, to compare with: .npy, text or CSV."),
    ] = None,
    labels_key: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which array of the labels file.", hidden=True),
    ] = None,
    preset: Annotated[
        Preset,
        typer.Option(
            metavar="{default|best}", help="Parameters to start from; other options win over it."
        ),
    ] = Preset.default,
    features: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of images: texture, texture-signed or gabor."),
    ] = None,
    regions: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of images: image, grid or window."),
    ] = None,
    size: Annotated[
        int | None, typer.Option(metavar="N", help="Side of a block or window.", hidden=True)
    ] = None,
    stride: Annotated[
        int | None, typer.Option(metavar="N", help="Distance of two windows.", hidden=True)
    ] = None,
    shrinkage: Annotated[
        float | None,
        typer.Option(metavar="X", help="Of a region towards its image's variances.", hidden=True),
    ] = None,
    standardize: Annotated[
        bool,
        typer.Option("--standardize", help="Bring images to mean 0, variance 1.", hidden=True),
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on without images that cannot be read.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    **options: Any,
) -> None:
    """Cluster matrices or images; write labels.csv, summary.json and report.html."""
    folder = out or Path(f"spdcluster-{_stem(source)}")
    descriptor = {
        "features": features,
        "regions": regions,
        "size": size,
        "stride": stride,
        "shrinkage": shrinkage,
        "standardize": standardize or None,
    }
    parameters = _parameters(context, n_clusters, options, quiet)
    _log(int(options["verbose"]))

    from spdcluster.cli import job
    from spdcluster.cli.inputs import load
    from spdcluster.cli.messages import about
    from spdcluster.cli.output import check_folder

    check_folder(folder, job.RESULTS, overwrite=overwrite)
    clock = job.Clock()
    with clock.step("read"):
        with about(source, OPTIONS):
            collection = load(source, key=key, skip_bad=skip_bad, descriptor=descriptor)
        truth = None
        if labels is not None:
            from spdcluster.datasets import read_labels

            with about(str(labels), {"key": "--labels-key"}):
                truth = read_labels(labels, collection.names, labels_key)
    if not quiet:
        from spdcluster.report import in_words

        for note in collection.notes:
            typer.echo(note)
        typer.echo(f"{in_words(collection.X)} from {collection.source}")
    parameters.setdefault("random_state", job.draw_seed())
    with about(collection.source, OPTIONS):
        outcome = job.cluster(
            collection,
            parameters,
            preset=preset.value,
            arguments=_repeat(context, source, n_clusters, parameters["random_state"]),
            truth=truth,
            title=f"Clusters of {_stem(source)}",
            clock=clock,
        )
    job.write(outcome, folder, overwrite=overwrite)
    if not quiet:
        _tell(outcome, folder)


@app.command(epilog="Example: spdcluster demo --out my-first-result")
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for results.")
    ] = Path("spdcluster-demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of k-means.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Threads.  [all]")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Segment a mosaic of brick, grass and gravel: the main job on an example, no data needed."""
    from spdcluster.cli.demo import run_demo

    run_demo(out, seed=seed, n_jobs=jobs, quiet=quiet)


@app.command(epilog="Example: spdcluster reproduce brodatz --data textures --trials 20")
def reproduce(
    name: Annotated[Data, typer.Argument(metavar="NAME", help="Data set: brodatz or feret.")],
    data: Annotated[
        Path, typer.Option(metavar="PATH", help="Where the images are (folder, .npz or .mat).")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for results.  [spdcluster-NAME]",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        ReproductionPreset,
        typer.Option(metavar="{paper|best}", help="The paper's parameters, or ours."),
    ] = ReproductionPreset.paper,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Random draws.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draws.")] = 0,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Threads.  [all]")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make the paper's tables and figures from its data, beside the paper's own numbers.

    Runs again into the same folder go on where they stopped.
    """
    if not data.exists():
        raise FileNotFoundError(f"there is no file or folder {data}; --data must name the images")
    run = _load_run(f"spdcluster.experiments.{name.value}")
    folder = out or Path(f"spdcluster-{name.value}")
    no_bars = quiet or not sys.stderr.isatty()
    run(data, folder, preset=preset.value, trials=trials, seed=seed, n_jobs=jobs, quiet=no_bars)
    if not quiet:
        typer.echo(f"results are in {folder}")


@app.command(epilog="Example: spdcluster bench solver --quick")
def bench(
    name: Annotated[
        Benchmark, typer.Argument(metavar="NAME", help="solver, methods or descriptors.")
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data folder.  [made-up data]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for bench.json.  [spdcluster-bench-NAME]",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, a minute.")] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed and quality beside rivals in one run; write bench.json."""
    from spdcluster.cli.benchmarks import run_benchmark

    if data is not None and not data.exists():
        raise FileNotFoundError(f"there is no folder {data}; --data must name the data")
    run_benchmark(
        name.value,
        _load_run(f"spdcluster.bench.{name.value}"),
        data,
        out or Path(f"spdcluster-bench-{name.value}"),
        quick=quick,
        overwrite=overwrite,
        quiet=quiet,
    )


def _load_run(module: str) -> Any:
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ValueError(f"{module} is not part of this version of spdcluster")
    return import_module(module).run


def _given(context: typer.Context, name: str) -> bool:
    """Whether the user gave the option, be it its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _parameters(
    context: typer.Context, n_clusters: str, options: dict[str, Any], quiet: bool
) -> dict[str, Any]:
    """What KernelSSC is called with: only what was given."""
    given: dict[str, Any] = {"n_clusters": SSC_PARAMETERS["n_clusters"].parse(n_clusters)}
    for name, value in options.items():
        if _given(context, name):
            given[name] = SSC_PARAMETERS[name].parse(value)
    if sys.stderr.isatty() and not quiet:
        given.setdefault("verbose", 1)  # progress bars, for somebody who is watching
    return given


def _repeat(context: typer.Context, source: str, n_clusters: str, seed: int) -> list[str]:
    """The command line that gives the same labels again."""
    line = ["spdcluster", "cluster", source, "-k", n_clusters]
    leave_out = {"source", "n_clusters", "out", "overwrite", "quiet", "random_state", "n_jobs"}
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in leave_out or not _given(context, name):
            continue
        value = context.params[name]
        line += [parameter.opts[-1]] if value is True else [parameter.opts[-1], str(value)]
    return [*line, "--seed", str(seed)]


def _stem(source: str) -> str:
    if source == "-":
        return "stdin"
    path = Path(source)
    return path.stem or path.resolve().stem or "input"


def _log(verbose: int) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s"
    )


def _tell(outcome: Any, folder: Path) -> None:
    m = outcome.measures
    for note in outcome.notes:
        typer.echo(note)
    sizes = ", ".join(f"{size:,}" for size in m.sizes[:12]) + (", ..." if len(m.sizes) > 12 else "")
    typer.echo(
        f"{m.n_clusters} clusters of {sizes} in {outcome.summary['seconds']['cluster']:.2f} s"
    )
    if m.agreement is not None:
        typer.echo(
            f"accuracy {m.agreement.accuracy:.1%}, NMI {m.agreement.nmi:.1%}, ARI {m.agreement.ari:.3f}"
        )
    typer.echo(f"largest relative duality gap {outcome.model.dual_gap_:.1e}")
    typer.echo(f"wrote {', '.join(outcome.files)} to {shlex.quote(str(folder))}")
