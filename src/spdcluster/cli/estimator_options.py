"""Command-line options that are an estimator's parameters: same names, same defaults.

They are read from the constructor's source text. Importing the estimator would say the same, but
takes scikit-learn along, and `spdcluster --help` should answer at once.
"""

import ast
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

import spdcluster


@dataclass(frozen=True)
class Parameter:
    """A constructor parameter: its name, its annotation as text, and its default."""

    name: str
    annotation: str
    default: Any

    @property
    def type(self) -> Any:
        """What the command line parses: the default's type, or that of the annotation without one."""
        if self.default is not None:
            return type(self.default)
        if self.annotation == "int | None" or self.name == "random_state":
            return int | None
        return float | None if self.annotation == "float | None" else str | None

    def parse(self, value: Any) -> Any:
        """The constructor's argument from the command line's: words that are numbers become them."""
        if not isinstance(value, str):
            return value
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                pass
        return value


@cache
def constructor_parameters(module: str, name: str) -> dict[str, Parameter]:
    """Parameters of ``module.name.__init__`` without importing the module."""
    # by path: importlib's find_spec would import the packages above the module
    source = Path(spdcluster.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    tree = ast.parse(source.read_text("utf-8"))
    owner = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    init = next(n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    plain = init.args.args[1:]
    pairs = list(zip(plain[len(plain) - len(init.args.defaults) :], init.args.defaults))
    pairs += list(zip(init.args.kwonlyargs, init.args.kw_defaults))  # type: ignore[arg-type]
    return {
        arg.arg: Parameter(
            arg.arg, "" if arg.annotation is None else ast.unparse(arg.annotation), _value(default)
        )
        for arg, default in pairs
    }


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:  # a name: its value is the constructor's affair
        return None


def with_options(
    parameters: Mapping[str, Parameter],
    *,
    helps: Mapping[str, str],
    shown: Collection[str],
    flags: Mapping[str, tuple[str, ...]] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: append one option for each parameter to a command that takes ``**options``.

    Parameters
    ----------
    parameters : mapping of name to Parameter
    helps : mapping
        A text that ends with the default, as in "Threads.  [all]", stands as it is.
    shown : collection of str
        Those that plain ``--help`` lists; the others it leaves to ``--help-all``.
    flags : mapping
        More spellings of an option than ``--its-name``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for name, parameter in parameters.items():
            spellings = (*(flags or {}).get(name, ()), option_name(name))
            text = helps.get(name, "")
            option = typer.Option(
                *spellings,
                help=text,
                hidden=name not in shown,
                metavar=None if parameter.type is bool else _metavar(parameter),
                show_default=parameter.default is not None and not text.endswith("]"),
            )
            kept.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=parameter.default,
                    annotation=Annotated[parameter.type, option],
                )
            )
        command.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in kept} | {"return": None}
        return command

    return decorate


def option_name(parameter: str) -> str:
    """``alpha_mode`` as ``--alpha-mode``."""
    return "--" + parameter.replace("_", "-")


def _metavar(parameter: Parameter) -> str:
    if "int" in str(parameter.type):
        return "N"
    return "X" if parameter.type is float or parameter.name == "gamma" else "NAME"
