"""Where the program starts and ends: exit code 0, or 2 with one line on stderr."""

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

PROGRAM = "spdcluster"
INTERRUPTED = "interrupted; nothing was written"
REMEDIES = {
    errno.EACCES: "; change its permissions",
    errno.ENOSPC: "; free some space and run again",
}
PATIENCE = 2.0  # seconds in which an interrupt should have ended the program


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    replace_closed_streams()
    insist_on_interrupts()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.stdout.flush()
    sys.exit(code)


def replace_closed_streams() -> None:
    """Empty streams for those that a shell closed (``>&-``), which Python has as None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (for good)


def insist_on_interrupts() -> None:
    """Let Ctrl-C end the program even where Python drops it.

    A KeyboardInterrupt that is raised inside a finaliser or a callback, as they run while modules
    are imported and code is compiled, is printed and forgotten. So it is raised again.
    """

    def interrupt(*_: Any) -> None:
        again = threading.Timer(PATIENCE, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
        raise KeyboardInterrupt

    # whoever started us in the background with interrupts ignored keeps that
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    try:
        from typer.main import get_command

        from spdcluster.cli.app import app

        warnings.showwarning = _one_line_warning  # type: ignore[assignment]
        result = get_command(app).main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except KeyboardInterrupt:
        return _fail(INTERRUPTED)
    except SystemExit:
        # how the parser ends when the reader of our output has left, as in `... | head -1`
        return _fail("standard output was closed; run with --quiet to print nothing")
    except MemoryError as error:
        return _fail(f"not enough memory ({error}); use fewer matrices")
    except OSError as error:
        return _fail(_os_error(error))
    except (ValueError, TypeError) as error:
        if os.environ.get("SPDCLUSTER_TRACEBACK"):
            raise
        return _fail(str(error))
    except Exception as error:
        return _parser_error(error)
    # the parser turns Ctrl-C into an exit code
    return _fail(INTERRUPTED) if result == 130 else 0


def _parser_error(error: Any) -> int:
    """Bad arguments on one line; anything that is not the parser's own goes on as it is."""
    if type(error).__name__ == "Abort":
        return _fail(INTERRUPTED)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(error.format_message() + "\n")
        return 0
    if not hasattr(error, "format_message"):
        raise error
    context = getattr(error, "ctx", None)
    where = f"{context.command_path} --help" if context is not None else f"{PROGRAM} --help"
    message = error.format_message().rstrip(".")
    return _fail(f"{message}; see {where}")


def _fail(message: str) -> int:
    sys.stderr.write(f"{PROGRAM}: {' '.join(message.split())}\n")
    return 2


def _os_error(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror}{where}{REMEDIES.get(error.errno or 0, '')}"


def _one_line_warning(message: Any, category: Any, filename: Any, lineno: Any, *_: Any) -> None:
    if issubclass(category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning)):
        return
    from spdcluster.cli.messages import in_shell_words
    from spdcluster.cli.options import OPTIONS

    told = in_shell_words(" ".join(str(message).split()), OPTIONS)
    sys.stderr.write(f"{PROGRAM}: warning: {told}\n")
