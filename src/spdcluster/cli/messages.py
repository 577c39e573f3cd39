"""Errors and warnings of the library, in the words of a shell: its options, and the file's name."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def in_shell_words(message: str, options: Mapping[str, str]) -> str:
    """``alpha=0.1`` and ``skip_bad=True`` as ``--alpha 0.1`` and ``--skip-bad``.

    Parameters
    ----------
    message : str
    options : mapping of a parameter's name to its option
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2].strip("'\"")
        if name not in options:
            return match[0]
        return options[name] if value == "True" else f"{options[name]} {shlex.quote(value)}"

    message = re.sub(r"\b([a-z]\w*)=(\"[^\"]*\"|'[^']*'|[^\s,;()]*[^\s,;().:])", option, message)
    name, space, rest = message.partition(" ")
    return options[name] + space + rest if name in options and rest.startswith("must ") else message


@contextmanager
def about(
    shown: str, options: Mapping[str, str], names: Sequence[str] | None = None
) -> Iterator[None]:
    """Errors in the block name `shown` where the library, which knows no files, says X.

    With `names` of the items, X[3] becomes that of the third.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        if names is not None:
            message = re.sub(r"\bX\[(\d+)\]", lambda match: names[int(match[1])], message)
        message = re.sub(r"\bX(?=\[\d+\]|(?<=^X) must )", lambda _: shown, message)
        raise type(error)(in_shell_words(message, options)) from error
