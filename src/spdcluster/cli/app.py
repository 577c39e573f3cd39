"""The commands. Whatever is slow to import is imported inside them."""

import logging
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from spdcluster import __version__
from spdcluster.cli.estimator_options import with_options
from spdcluster.cli.options import (
    FLAGS,
    HELPS,
    IMAGE_HELPS,
    IMAGE_PARAMETERS,
    IMAGE_SHOWN,
    INPUT_OPTIONS,
    OPTIONS,
    SHOWN,
    SSC_PARAMETERS,
    Benchmark,
    Data,
    HelpAll,
    Jobs,
    Overwrite,
    Preset,
    Quiet,
    ReproductionPreset,
    out_option,
)

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Cluster covariance matrices (symmetric or Hermitian positive definite) by sparse "
    "self-expression, exactly and with a certificate.",
    epilog="First steps: spdcluster demo, then spdcluster cluster matrices.npy -k 3",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"spdcluster {__version__}")
        raise typer.Exit


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
    short_help="Cluster matrices, images or one picture; write a report.",
    epilog="Example: spdcluster cluster covariances.npy -k 4 --labels truth.csv",
)
@with_options(
    {k: p for k, p in SSC_PARAMETERS.items() if k != "n_clusters"},
    flags=FLAGS,
    helps=HELPS,
    shown=SHOWN,
)
@with_options(IMAGE_PARAMETERS, helps=IMAGE_HELPS, shown=IMAGE_SHOWN)
def cluster(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="File of matrices (.npy, .npz, .mat; - for stdin), folder of such files or of "
            "images, one picture, or PolSARpro folder.",
        ),
    ],
    n_clusters: Annotated[
        str,
        typer.Option(
            "-k",
            "--n-clusters",
            metavar="K",
            help="Number of clusters; auto reads it off the spectrum, a hint.",
        ),
    ],
    out: Annotated[Path | None, out_option("spdcluster-INPUT")] = None,
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
    looks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of scenes: mean over N x N pixels.  [few enough for 60,000 matrices]",
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out unreadable files and singular pixels.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    **options: Any,
) -> None:
    """Cluster matrices or images; write labels.csv, summary.json and report.html."""
    folder = out or Path(f"spdcluster-{_stem(source)}")
    given = {name: value for name, value in options.items() if _given(context, name)}
    descriptor = {name: given.pop(name) for name in IMAGE_PARAMETERS if name in given}
    parameters = _parameters(n_clusters, given, quiet)
    _log(int(options["verbose"]))

    from spdcluster.cli import job
    from spdcluster.cli.clock import Clock
    from spdcluster.cli.inputs import load
    from spdcluster.cli.messages import about
    from spdcluster.cli.output import check_folder

    check_folder(folder, job.RESULTS, overwrite=overwrite)
    clock = Clock(on_compile=None if quiet else _say_compiling)
    with clock.step("read"):
        with about(source, INPUT_OPTIONS):
            collection = load(
                source, key=key, skip_bad=skip_bad, descriptor=descriptor, looks=looks
            )
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
    names = None if collection.column == "id" else collection.names
    with about(collection.source, OPTIONS, names):
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


@app.command(
    short_help="Segment three textures: the main job, no data needed.",
    epilog="Example: spdcluster demo --out my-first-result",
)
def demo(
    out: Annotated[Path, out_option("spdcluster-demo")] = Path("spdcluster-demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of k-means.")] = 0,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Segment a mosaic of brick, grass and gravel: the main job on an example, no data needed."""
    from spdcluster.cli.clock import Clock
    from spdcluster.cli.demo import run_demo

    clock = Clock(on_compile=None if quiet else _say_compiling)
    run_demo(out, seed=seed, n_jobs=jobs, quiet=quiet, clock=clock)


@app.command(
    short_help="Make the paper's tables and figures from its data.",
    epilog="Example: spdcluster reproduce brodatz --data textures --trials 20",
)
def reproduce(
    name: Annotated[Data, typer.Argument(metavar="NAME", help="Data set: brodatz or feret.")],
    data: Annotated[
        Path, typer.Option(metavar="PATH", help="Where the images are (folder, .npz or .mat).")
    ],
    out: Annotated[Path | None, out_option("spdcluster-NAME")] = None,
    preset: Annotated[
        ReproductionPreset,
        typer.Option(metavar="{paper|best}", help="The paper's parameters, or ours."),
    ] = ReproductionPreset.paper,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Random draws.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draws.")] = 0,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Make the paper's tables and figures from its data, beside the paper's own numbers.

    Runs again into the same folder go on where they stopped.
    """
    from spdcluster.cli.messages import about

    if not data.exists():
        raise FileNotFoundError(f"there is no file or folder {data}; --data must name the images")
    run = _load_run(f"spdcluster.experiments.{name.value}")
    folder = out or Path(f"spdcluster-{name.value}")
    no_bars = quiet or not sys.stderr.isatty()
    try:
        with about(str(data), {"out": "--out", "seed": "--seed", "n_jobs": "--jobs"}):
            run(
                data,
                folder,
                preset=preset.value,
                trials=trials,
                seed=seed,
                n_jobs=jobs,
                quiet=no_bars,
            )
    except KeyboardInterrupt:
        raise InterruptedError("interrupted; the same command goes on where it stopped") from None
    if not quiet:
        typer.echo(f"results are in {folder}")


@app.command(
    short_help="Measure speed and quality beside rivals.",
    epilog="Example: spdcluster bench solver --quick",
)
def bench(
    name: Annotated[
        Benchmark, typer.Argument(metavar="NAME", help="solver, methods or descriptors.")
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data folder.  [made-up data]")
    ] = None,
    out: Annotated[Path | None, out_option("spdcluster-bench-NAME", "bench.json")] = None,
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


def _parameters(n_clusters: str, given: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """What KernelSSC is called with: only what was given."""
    words = {"n_clusters": n_clusters} | given
    parameters = {name: SSC_PARAMETERS[name].parse(value) for name, value in words.items()}
    if sys.stderr.isatty() and not quiet:
        parameters.setdefault("verbose", 1)  # progress bars, for somebody who is watching
    return parameters


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


def _say_compiling() -> None:
    """For somebody who is watching: the first run after installation takes longer."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        # over a progress bar, where there is one
        tqdm.write("compiling, about a minute, which only the first run does ...", sys.stderr)


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
    from spdcluster.report import count_of

    m, seconds = outcome.measures, outcome.summary["seconds"]
    for note in outcome.notes:
        typer.echo(note)
    sizes = ", ".join(f"{size:,}" for size in m.sizes[:12]) + (", ..." if len(m.sizes) > 12 else "")
    found = count_of(m.n_clusters, "cluster")
    typer.echo(f"{found} of {sizes} in {seconds['cluster']:.2f} s")
    if m.agreement is not None:
        typer.echo(
            f"accuracy {m.agreement.accuracy:.1%}, NMI {m.agreement.nmi:.1%}, ARI {m.agreement.ari:.3f}"
        )
    typer.echo(f"largest relative duality gap {outcome.model.dual_gap_:.1e}")
    typer.echo(f"wrote {', '.join(outcome.files)} to {shlex.quote(str(folder))}")
