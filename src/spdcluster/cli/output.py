"""Results on disk: all files or none, and never over somebody's earlier ones by accident."""

import errno
import os
import secrets
from collections.abc import Mapping
from pathlib import Path


def check_folder(folder: Path, names: list[str], *, overwrite: bool) -> None:
    """Raise now what writing to `folder` would raise after the work.

    Nothing is left behind: a folder made to find out is removed again.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; --out must name a folder")
    there = [name for name in names if (folder / name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"{folder} holds an earlier result ({', '.join(there)}); "
            "choose another --out, or replace it with --overwrite"
        )
    made: list[Path] = []
    try:
        made = _make(folder)
        probe = folder / _temporary("probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        _unmake(made)


def write_files(folder: Path, contents: Mapping[str, str | bytes], *, overwrite: bool) -> None:
    """Write all files or none.

    Every file is complete under a temporary name in the same folder before the first one gets its
    own name. Whatever happens before that (full disk, Ctrl-C), the temporary files are removed, and
    so are folders made here.
    """
    if not overwrite:
        check_folder(folder, list(contents), overwrite=False)
    made = _make(folder)
    temporary = {name: folder / _temporary(name) for name in contents}
    try:
        for name, content in contents.items():
            with temporary[name].open("xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
        for name, path in temporary.items():
            path.replace(folder / name)
    except BaseException as error:
        for path in temporary.values():
            path.unlink(missing_ok=True)
        _unmake(made)
        if isinstance(error, OSError):
            raise cannot_write(folder, error) from error
        raise


def cannot_write(folder: Path, error: OSError) -> OSError:
    """The error with the folder's name and what to do."""
    remedy = "free some space, or choose another --out"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "change its permissions, or choose another --out"
    elif error.errno not in (errno.ENOSPC, errno.EDQUOT):
        remedy = "choose another --out"
    return OSError(
        f"cannot write to the folder {folder} ({error.strerror or error}); nothing was written; {remedy}"
    )


def _temporary(name: str) -> str:
    return f".{name}.{secrets.token_hex(4)}.tmp"


def _make(folder: Path) -> list[Path]:
    """Make the folder and return those that did not exist, innermost first."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return made


def _unmake(made: list[Path]) -> None:
    for path in made:
        try:
            path.rmdir()
        except OSError:  # somebody put something there: it stays
            return
