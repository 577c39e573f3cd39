"""What the commands' options are called, and what `--help` says of them."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from spdcluster.cli.estimator_options import constructor_parameters, option_name

SSC_PARAMETERS = constructor_parameters("spdcluster.estimators.kernel_ssc", "KernelSSC")
FLAGS = {
    "n_clusters": ("-k",),
    "random_state": ("--seed",),
    "n_jobs": ("-j", "--jobs"),
}
SHOWN = ("kernel", "gamma", "alpha", "regularization", "random_state", "n_jobs")
HELPS = {
    "kernel": "log-gaussian, log-linear, stein, ..., or precomputed.",
    "gamma": "Kernel: larger sees nearer neighbours. A number, scale or 0.1*scale.",
    "degree": "Of the polynomial kernels.",
    "coef0": "Constant of the polynomial kernels.",
    "normalize": "Give the kernel a unit diagonal.",
    "alpha": "Penalty: more, sparser codes.",
    "alpha_mode": "absolute, relative (to where a code is zero), or atoms: their number.",
    "l1_ratio": "1 for the lasso, less for an elastic net.",
    "affinity": "symmetric or row-normalized.",
    "solver": "active-set (exact) or admm (the paper's).",
    "rho": "ADMM's own parameter.",
    "tol": "Largest relative duality gap accepted.",
    "max_iter": "Most rounds (active-set) or iterations (admm).",
    "n_init": "Starts of k-means.",
    "random_state": "Of k-means; if not given, drawn and reported.",
    "n_jobs": "Threads; no result depends on it.  [all]",
    "verbose": "1 also logs what the library does.",
    "regularization": "Share of mean eigenvalue added.  [0]",
    "n_components": "Eigenvectors in the embedding.  [K]",
    "eigenvalue_power": "Eigenvectors times eigenvalue to this power.",
    "degree_regularization": "Share of the mean degree added to all.",
    "memory_budget": "Bytes in which the Gram matrix may be kept.  [256e6]",
}

IMAGE_HELPS = {
    "features": "Of images: texture, texture-signed, gabor or gabor-root.",
    "regions": "Of images: image, grid or window.  [image; window for one picture]",
    "size": "Side of a block or window.",
    "stride": "Distance of two windows.",
    "shrinkage": "Of a region towards its image's variances.",
    "standardize": "Bring images to mean 0, variance 1.",
}
IMAGE_SHOWN = ("features", "regions")
IMAGE_PARAMETERS = {
    name: parameter
    for name, parameter in constructor_parameters(
        "spdcluster.descriptors.region_covariance", "RegionCovariance"
    ).items()
    if name in IMAGE_HELPS
}
# what errors of the library call a parameter, and what a shell calls it
INPUT_OPTIONS = {
    name: option_name(name) for name in (*IMAGE_PARAMETERS, "key", "looks", "skip_bad")
}
OPTIONS = {name: option_name(name) for name in SSC_PARAMETERS} | INPUT_OPTIONS


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


def out_option(default: str, what: str = "results") -> Any:
    """The option --out."""
    text = f"Folder for {what}.  [{default}]"
    return typer.Option("--out", "-o", metavar="DIR", help=text, show_default=False)


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result.")]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", metavar="N", help="Threads.  [all]")]


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
        help="List all parameters, the rarer ones too.",
    ),
]
