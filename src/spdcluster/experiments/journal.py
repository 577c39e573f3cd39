"""Finished trials on disk, so that a run that was stopped goes on where it was; safe file writing."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """A JSON-lines file of results, each under the hash of everything that decided it.

    A line is written at once when its trial is done. A line that a crash cut short is ignored.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, dict[str, Any]] = {}
        self._needs_newline = False
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            self._needs_newline = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            entry = json.loads(line)
            self._known[entry["key"]] = entry["result"]
        except (ValueError, KeyError, TypeError):
            return

    def get(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result for these settings, or None."""
        return self._known.get(settings_key(settings))

    def add(self, settings: Mapping[str, Any], result: dict[str, Any]) -> None:
        """Keep a result for these settings."""
        key = settings_key(settings)
        self._known[key] = result
        line = json.dumps({"key": key, "result": result}) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + line if self._needs_newline else line)
        self._needs_newline = False


def settings_key(settings: Mapping[str, Any]) -> str:
    """Hash of settings, the same for the same content in any order."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def write_file(path: Path, content: str | bytes) -> None:
    """Write under a temporary name, then rename: a reader sees the old file or the whole new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def prepare_folder(out: str | Path) -> Path:
    """The output folder, made if need be; one clear error if that cannot be."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"out={str(out)!r} cannot be used as a folder: {error.strerror or error}; "
            "choose another"
        ) from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"out={str(out)!r} cannot be written to; choose another folder")
    return folder
