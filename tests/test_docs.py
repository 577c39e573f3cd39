"""Every code block of the documents and every docstring example runs."""

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import spdcluster
from spdcluster.cli.entry import run

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# blocks in these languages show code of other systems, a picture, or formulas
NOT_OURS = {"text", "matlab", "json", ""}
# minutes of work, or another program's: only their options are checked
LONG = ("spdcluster reproduce", "spdcluster bench")


def blocks(document: Path) -> list[tuple[str, str]]:
    """Language and text of the fenced blocks."""
    return re.findall(
        r"^```(\w*)\n(.*?)^```", document.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def ids(path: Path) -> str:
    return path.name


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the documents speak of."""
    from skimage import data
    from skimage.io import imsave

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(3, 5, 5))
    kind = np.repeat([0, 1, 2], 20)
    signals = mixing[kind] @ rng.normal(size=(60, 5, 50))
    np.save("covariances.npy", signals @ signals.swapaxes(1, 2) / 50)
    np.save("matrices.npy", signals @ signals.swapaxes(1, 2) / 50)
    Path("truth.csv").write_text("label\n" + "\n".join(map(str, kind)) + "\n")
    Path("pictures").mkdir()
    for name in ("brick", "gravel"):
        image = getattr(data, name)()
        for i in range(6):
            imsave(f"pictures/{name}{i}.png", image[40 * i :][:64, :64], check_contrast=False)
    both = np.hstack([data.brick()[:128, :96], data.gravel()[:128, :96]])
    imsave("photo.png", both, check_contrast=False)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_python_blocks_of_a_document_run_one_after_the_other(document, workplace):
    from skimage import data

    textures = [getattr(data, name)()[:256, :256] for name in ("brick", "grass", "gravel")]
    namespace = {"images": np.stack(textures), "__name__": "__main__"}
    for number, (language, code) in enumerate(blocks(document)):
        if language == "python":
            exec(compile(code, f"{document.name}, block {number + 1}", "exec"), namespace)
        else:
            assert language in NOT_OURS | {"sh"}, f"nothing runs a block in {language!r}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_shell_blocks_of_a_document_run(document, workplace):
    for language, code in blocks(document):
        if language != "sh":
            continue
        for line in code.splitlines():
            command = line.split("#")[0].strip()
            if command.startswith("make "):
                target = command.split()[1]
                makefile = (ROOT / "Makefile").read_text("utf-8")
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"no target {target}"
            elif command.startswith(LONG):
                # an unknown option or a missing folder is told apart by the message
                assert run([*shlex.split(command)[1:3], "--help"]) == 0
            elif command:
                assert command.startswith("spdcluster "), f"nothing runs {command!r}"
                arguments = shlex.split(command)[1:]
                assert (
                    run([*arguments, "--overwrite"] if "cluster" in arguments else arguments) == 0
                )


def test_documents_link_to_files_that_exist():
    missing = []
    for document in DOCUMENTS:
        text = re.sub(
            r"^```.*?^```", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for target in re.findall(r"\]\(([^)#]+)", text):
            if "://" not in target and not (document.parent / target).exists():
                missing.append(f"{document.name}: {target}")
    assert not missing


def modules() -> list[str]:
    found = pkgutil.walk_packages(spdcluster.__path__, "spdcluster.")
    return ["spdcluster", *(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=ids)
def test_examples_are_short_and_end_in_a_picture(example, workplace):
    code = example.read_text("utf-8")
    assert len(code.splitlines()) < 60
    exec(compile(code, example.name, "exec"), {"__name__": "__main__"})
    picture = workplace / f"{example.stem}.png"
    assert picture.stat().st_size > 10_000
