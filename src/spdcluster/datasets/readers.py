"""Files of matrices, images and labels, read without ever running code that a file brings along.

What a file is, its first bytes say, not its name. Sizes that a header promises are compared with the
file before memory is taken for them, and Python pickles (object arrays) are refused.
"""

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

FORMATS = ".npy, .npz or .mat (MATLAB 5 to 7.3)"
AGAIN = "copy or save it again"
BINARY_SUFFIXES = (".npy", ".npz", ".mat")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# from the shapes of a file's arrays to the name of the one to read
Choose = Callable[[dict[str, tuple[int, ...]]], str]


@dataclass(frozen=True)
class MatrixFile:
    """Matrices read from a file.

    Attributes
    ----------
    matrices : ndarray, shape (n_matrices, d, d)
        Or (n, m) where the file holds a 2-D array: vectors, or a Gram matrix. Or (n_rows, n_columns,
        d, d) where it holds a scene.
    key : str or None
        The array's name in a file of several.
    note : str
        What was done to the axes, "" if nothing.
    """

    matrices: NDArray[Any]
    key: str | None = None
    note: str = ""


@dataclass(frozen=True)
class MatrixFolder:
    """Matrices of a folder, one or more a file.

    Attributes
    ----------
    matrices : ndarray, shape (n_matrices, d, d)
    names : list of str
        File names, with ``[3]`` behind them where a file holds several matrices.
    skipped : list of str
        One sentence for each file that was left out.
    """

    matrices: NDArray[Any]
    names: list[str]
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ImageSet:
    """Images of a folder.

    Attributes
    ----------
    images : list of ndarray, each (h, w) or (h, w, 3)
    names : list of str
        Paths relative to the folder.
    skipped : list of str
        One sentence for each broken image that was left out.
    """

    images: list[NDArray[Any]]
    names: list[str]
    skipped: list[str] = field(default_factory=list)


def read_matrices(source: str | Path | BinaryIO, key: str | None = None) -> MatrixFile:
    """Read an array of matrices from a .npy, .npz or .mat file, or from an open binary stream.

    Parameters
    ----------
    source : str, Path or binary file object
    key : str or None
        Which array of a .npz or .mat file; needed where several could be meant.

    Returns
    -------
    MatrixFile
        The matrices along the first axis, whichever of (n, d, d) and (d, d, n) the file has.
    """
    name, content = _open(source)
    with content:
        array, found = _read_array(content, name, key, _holds_matrices)
    if array.dtype.kind not in "fciub":
        raise ValueError(
            f"{name} holds {array.dtype} values; matrices must be numbers: save them as such"
        )
    if array.size == 0:
        raise ValueError(
            f"{name} holds an empty array of shape {array.shape}; "
            "save an array of shape (n_matrices, d, d), n_matrices at least 2"
        )
    if array.ndim not in (2, 3) and not _is_scene(array.shape):
        raise ValueError(
            f"{name} holds an array of shape {array.shape}; save one of shape (n_matrices, d, d), "
            "or (n_rows, n_columns, d, d) for a scene"
        )
    matrices, note = first_axis_matrices(array)
    return MatrixFile(matrices, found, note)


def first_axis_matrices(array: NDArray[Any]) -> tuple[NDArray[Any], str]:
    """Matrices (n, d, d) of an array that may be (d, d, n), and what was done."""
    if array.ndim != 3:
        return array, ""
    a, b, c = array.shape
    said = f"shape {array.shape} read as {c} matrices of {a} x {b}, the last axis counting"
    if a == b != c:
        return np.ascontiguousarray(np.moveaxis(array, -1, 0)), said
    if a == b == c and not _all_hermitian(array):
        moved = np.moveaxis(array, -1, 0)
        if _all_hermitian(moved):
            return np.ascontiguousarray(moved), said
    return array, ""


def matrix_files(folder: str | Path) -> list[Path]:
    """The folder's files of matrices in natural order; text counts where there is nothing else."""
    files = [path for path in Path(folder).iterdir() if path.is_file() and path.name[0] != "."]
    for suffixes in (BINARY_SUFFIXES, TEXT_SUFFIXES):
        found = [path for path in files if path.suffix.lower() in suffixes]
        if found:
            return sorted(found, key=_natural_order)
    return []


def read_matrix_folder(
    folder: str | Path, key: str | None = None, *, skip_bad: bool = False
) -> MatrixFolder:
    """Read the matrices of a folder of files, one matrix a file or several.

    Parameters
    ----------
    folder : str or Path
        Of .npy, .npz or .mat files; or else of text, a line a row: .csv, .tsv or .txt.
    key : str or None
        Which array of the .npz or .mat files.
    skip_bad : bool
        Leave out files that cannot be read instead of raising.
    """
    stacks: list[NDArray[Any]] = []
    names: list[str] = []
    skipped: list[str] = []
    for path in matrix_files(folder):
        try:
            stack = _stack_of_file(path, key, None if not stacks else stacks[0].shape[1])
        except (ValueError, TypeError, OSError) as error:
            if not skip_bad:
                raise ValueError(f"{error}; or go on without it by skip_bad=True") from error
            skipped.append(str(error))
            continue
        stacks.append(stack)
        names += [path.name if len(stack) == 1 else f"{path.name}[{i}]" for i in range(len(stack))]
    if not stacks:
        raise ValueError(f"the folder {folder} holds no file of matrices that can be read")
    return MatrixFolder(np.concatenate(stacks), names, skipped)


def read_images(folder: str | Path, *, skip_bad: bool = False) -> ImageSet:
    """Read the images of a folder, or of its subfolders where it has none itself.

    Parameters
    ----------
    folder : str or Path
    skip_bad : bool
        Leave out images that cannot be read instead of raising.
    """
    from spdcluster.descriptors.images import load_images

    folder = Path(folder)
    images: list[NDArray[Any]] = []
    names: list[str] = []
    skipped: list[str] = []
    for path in _image_files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a reader's remarks on odd files
                images += [image.pixels for image in load_images(path)]
            names.append(name)
        except (ValueError, TypeError, OSError) as error:
            what = _what_is_wrong(error)
            if not skip_bad:
                raise ValueError(
                    f"image {name} in {folder} {what}; "
                    "mend or remove it, or go on without it by skip_bad=True"
                ) from error
            skipped.append(f"{name}: it {what}")
    if not images:
        raise ValueError(
            f"none of the {len(skipped)} files in {folder} that are named as images can be read; "
            "give another folder"
        )
    return ImageSet(images, names, skipped)


def read_labels(
    source: str | Path, names: Sequence[str] | int, key: str | None = None
) -> NDArray[Any]:
    """Known classes, one for each item: array of shape (n,).

    Parameters
    ----------
    source : str or Path
        A 1-D array in a .npy, .npz or .mat file; a text file with one label a line; or a CSV file
        with a column ``label`` and, in any order of lines, a column ``file`` or ``id``.
    names : sequence of str, or int
        The items' file names, or how many items there are.
    key : str or None
        Which array of a .npz or .mat file; needed where several could be meant.
    """
    n = names if isinstance(names, int) else len(names)
    name, content = _open(source)
    with content:
        if _is_binary(content.read(8)):
            content.seek(0)
            array, _ = _read_array(content, name, key, _is_vector)
            labels = np.squeeze(array)
        else:
            content.seek(0)
            ids = [str(i) for i in range(n)] if isinstance(names, int) else list(names)
            labels = _labels_from_text(content.read(), name, ids)
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(
            f"{name} must hold one label for each of the {n} items; got shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"{name} holds NaN or infinity; give those items a label of their own")
    if labels.dtype.kind == "f" and (labels % 1 == 0).all():
        labels = labels.astype(np.int64)
    return labels


# ------------------------------------------------------------------------------------ which array


def _open(source: str | Path | BinaryIO) -> tuple[str, BinaryIO]:
    """A name for messages and a seekable stream."""
    if not isinstance(source, (str, Path)):
        return "standard input", io.BytesIO(source.read())
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}; check the name")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; a file is needed here")
    file = path.open("rb")
    if file.seekable():
        return str(path), file
    with file:  # a pipe
        return str(path), io.BytesIO(file.read())


def _is_binary(magic: bytes) -> bool:
    return magic == HDF5_MAGIC or magic.startswith(
        (npy_format.MAGIC_PREFIX, b"PK\x03\x04", b"MATLAB")
    )


def _holds_matrices(shape: tuple[int, ...]) -> bool:
    """Whether these are square matrices, along either end, or a scene of them."""
    stack = len(shape) == 3 and (shape[0] == shape[1] or shape[1] == shape[2])
    return stack or _is_scene(shape)


def _is_scene(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[2] == shape[3]


def _is_vector(shape: tuple[int, ...]) -> bool:
    return sum(side != 1 for side in shape) == 1


def _read_array(
    content: BinaryIO, name: str, key: str | None, fits: Callable[[tuple[int, ...]], bool]
) -> tuple[NDArray[Any], str | None]:
    """The array called `key`, or else the only one whose shape fits, and its name."""
    choose = partial(_choose, name=name, key=key, fits=fits)
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    magic = content.read(128)
    content.seek(0)
    if size == 0:
        raise ValueError(f"{name} is empty (0 bytes); a {FORMATS} file is needed")
    if magic[:6] == npy_format.MAGIC_PREFIX:
        if key is not None:
            raise ValueError(f"{name} holds one array, without a name; leave the key {key!r} out")
        return _read_npy(content, size, name), None
    if magic[:4] == b"PK\x03\x04":
        return _read_npz(content, name, choose)
    if magic.startswith(b"MATLAB 5.0"):
        return _read_mat5(content, name, choose)
    if magic.startswith(HDF5_MAGIC) or magic.startswith(b"MATLAB 7.3"):
        return _read_hdf5(content, name, choose)
    raise ValueError(
        f"{name} is not a {FORMATS} file: it begins with {magic[:16]!r}; "
        "save the matrices with numpy.save(file, X), X of shape (n_matrices, d, d)"
    )


def _choose(
    shapes: dict[str, tuple[int, ...]],
    *,
    name: str,
    key: str | None,
    fits: Callable[[tuple[int, ...]], bool],
) -> str:
    """The wanted array of a file that may hold several."""
    if not shapes:
        raise ValueError(f"{name} holds no array of numbers; save one of shape (n_matrices, d, d)")
    listed = ", ".join(f"{k} {shape}" for k, shape in list(shapes.items())[:8])
    listed += ", ..." if len(shapes) > 8 else ""
    if key is not None:
        if key not in shapes:
            raise ValueError(f"{name} has no array {key!r}; choose one that it has: {listed}")
        return key
    fitting = [k for k, shape in shapes.items() if fits(shape)]
    if len(shapes) > 1 and len(fitting) != 1:
        raise ValueError(
            f"{name} holds {len(shapes)} arrays: {listed}; "
            f"choose one with key={[*fitting, *shapes][0]!r}"
        )
    return fitting[0] if fitting else next(iter(shapes))


# ------------------------------------------------------------------------------------ numpy files


def _read_npy(stream: BinaryIO, size: int, name: str) -> NDArray[Any]:
    """An array of numbers; `size` is the number of bytes in the stream."""
    shape, dtype = _npy_header(stream, name)
    if dtype.hasobject:
        raise ValueError(
            f"{name} holds Python objects (dtype object), which are not opened because a pickle can "
            "run code; save an array of numbers: numpy.save(file, numpy.stack(matrices))"
        )
    promised = int(np.prod(shape, dtype=object)) * dtype.itemsize
    there = size - stream.tell()
    if there < promised:
        raise ValueError(
            f"{name} is truncated: its header promises {promised} bytes for shape {shape}, "
            f"{there} are there; {AGAIN}"
        )
    stream.seek(0)
    try:
        return np.asarray(npy_format.read_array(stream, allow_pickle=False))
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{name} is damaged ({error}); {AGAIN}") from error


def _npy_header(stream: BinaryIO, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = npy_format.read_magic(stream)
        read: Callable[..., Any] = (
            npy_format.read_array_header_1_0
            if version == (1, 0)
            else npy_format.read_array_header_2_0
        )
        shape, _, dtype = read(stream)
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{name} is damaged: no .npy header ({error}); {AGAIN}") from error
    return shape, dtype


def _read_npz(content: BinaryIO, name: str, choose: Choose) -> tuple[NDArray[Any], str]:
    try:
        archive = zipfile.ZipFile(content)
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{name} is a damaged or truncated .npz file ({error}); {AGAIN}"
        ) from error
    with archive:
        members = {i.filename[:-4]: i for i in archive.infolist() if i.filename.endswith(".npy")}
        shapes: dict[str, tuple[int, ...]] = {}
        for member, info in members.items():
            with archive.open(info) as stream:
                shapes[member] = _npy_header(stream, f"{name} [{member}]")[0]  # type: ignore[arg-type]
        chosen = choose(shapes)
        info = members[chosen]
        with archive.open(info) as stream:
            return _read_npy(stream, info.file_size, f"{name} [{chosen}]"), chosen  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------- MATLAB files


def _read_mat5(content: Any, name: str, choose: Choose) -> tuple[NDArray[Any], str]:
    from scipy.io import loadmat, whosmat

    numeric = (
        "double",
        "single",
        "logical",
        *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)),
    )
    try:
        shapes = {k: shape for k, shape, kind in whosmat(content) if kind in numeric}
        chosen = choose(shapes)
        content.seek(0)
        return np.asarray(loadmat(content, variable_names=[chosen])[chosen]), chosen
    except ValueError as error:
        if str(error).startswith(name):
            raise
        raise ValueError(
            f"{name} is a damaged or truncated .mat file ({error}); {AGAIN}"
        ) from error
    except Exception as error:  # the reader trips over damaged files in many ways
        raise ValueError(
            f"{name} is a damaged or truncated .mat file ({error!r}); {AGAIN}"
        ) from error


def _read_hdf5(content: BinaryIO, name: str, choose: Choose) -> tuple[NDArray[Any], str]:
    """An array of a MATLAB 7.3 file; MATLAB's first axis is HDF5's last."""
    import h5py

    try:
        with h5py.File(content, "r") as file:
            sets = {k: file[k] for k in file if _is_plain_dataset(file, k)}
            # the transpose is what MATLAB shows
            shapes = {k: tuple(reversed(s.shape)) for k, s in sets.items()}
            chosen = choose(shapes)
            array = np.asarray(sets[chosen][()])
    except OSError as error:
        raise ValueError(
            f"{name} is a damaged or truncated MATLAB 7.3 file ({error}); {AGAIN}"
        ) from error
    if array.dtype.names == ("real", "imag"):
        array = array["real"] + 1j * array["imag"]
    return array.T, chosen


def _is_plain_dataset(file: Any, key: str) -> bool:
    """Whether the entry is numbers stored in this very file: links could lead to any other."""
    import h5py

    if not isinstance(file.get(key, getlink=True), h5py.HardLink):
        return False
    entry = file[key]
    if not isinstance(entry, h5py.Dataset) or entry.external or entry.is_virtual:
        return False
    kind = entry.attrs.get("MATLAB_class", b"double")
    is_number = entry.dtype.kind in "fiub" or entry.dtype.names == ("real", "imag")
    return is_number and kind not in (b"char", b"cell", b"struct") and entry.shape is not None


# ---------------------------------------------------------------------- folders of matrices, images


def _natural_order(path: Path) -> list[Any]:
    """A key that puts D3 before D21."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name.lower())]


def _stack_of_file(path: Path, key: str | None, d: int | None) -> NDArray[Any]:
    """The matrices of one file, (n, d, d); `d` is that of the files before."""
    if path.suffix.lower() in TEXT_SUFFIXES:
        array = _matrix_from_text(path)
    else:
        array = read_matrices(path, key).matrices
    stack = array[np.newaxis] if array.ndim == 2 else array
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
        raise ValueError(f"{path} holds no square matrix but an array of shape {array.shape}")
    if d is not None and stack.shape[1] != d:
        raise ValueError(
            f"{path} holds a matrix of {stack.shape[1]} x {stack.shape[1]}, the files before it "
            f"{d} x {d}; all must have one size: remove it"
        )
    return stack


def _matrix_from_text(path: Path) -> NDArray[np.float64]:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
        separator = next((mark for mark in ",;\t" if lines and mark in lines[0]), None)
        return np.atleast_2d(np.loadtxt(lines, delimiter=separator, comments="#"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is no matrix of numbers, a line a row ({error}); mend or remove it"
        ) from None


def _what_is_wrong(error: Exception) -> str:
    """What the decoders say (in __cause__) means little to somebody with a broken picture."""
    if isinstance(error.__cause__, PermissionError):
        return "may not be read: permission denied"
    return "is damaged, or no image" if error.__cause__ else f"cannot be used ({error})"


def _image_files(folder: Path) -> list[Path]:
    from spdcluster.descriptors.images import SUFFIXES, image_paths

    try:
        return image_paths(folder)
    except ValueError:
        inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
        files = []
        for subfolder in inside:
            if any(p.suffix.lower() in SUFFIXES for p in subfolder.iterdir()):
                files += image_paths(subfolder)
        if not files:
            raise ValueError(
                f"the folder {folder} holds no images ({', '.join(SUFFIXES)}), nor do its subfolders; "
                "name another folder"
            ) from None
        return files


def _labels_from_text(content: bytes, name: str, ids: list[str]) -> NDArray[Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} holds no labels: neither text nor a {FORMATS} file") from None
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    if not rows:
        raise ValueError(f"{name} is empty; it must hold one label for each of {len(ids)} items")
    header = [cell.strip().lower() for cell in rows[0]]
    if "label" not in header:
        if any(len(row) > 1 for row in rows):
            raise ValueError(
                f"{name} has several columns; name them in its first line, one of them 'label'"
            )
        return _typed([row[0].strip() for row in rows])
    column = header.index("label")
    identity = next((header.index(h) for h in ("file", "id", "name") if h in header), None)
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{name} has lines of different length")
    if identity is None:
        return _typed([row[column].strip() for row in rows[1:]])
    by_id = {row[identity].strip(): row[column].strip() for row in rows[1:]}
    missing = [i for i in ids if i not in by_id]
    if missing:
        raise ValueError(
            f"{name} has no label for {missing[0]!r} ({len(missing)} of {len(ids)} are missing)"
        )
    return _typed([by_id[i] for i in ids])


def _typed(labels: list[str]) -> NDArray[Any]:
    try:
        return np.array([int(label) for label in labels])
    except ValueError:
        return np.array(labels)


def _all_hermitian(X: NDArray[Any]) -> bool:
    size = np.abs(X).max(axis=(1, 2), keepdims=True)
    return bool((np.abs(X - X.conj().swapaxes(1, 2)) <= 1e-6 * size).all())
