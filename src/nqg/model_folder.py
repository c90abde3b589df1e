"""Model folders: written whole or not at all, listed in a manifest with checksums, validated when read."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from filelock import lock_descriptor
from safetensors import safe_open

from nqg.errors import FormatError, NqgError, Place
from nqg.files import strict_json, write_text

if TYPE_CHECKING:
    from torch import Tensor, nn

NEW, OLD = "new", "old"  # in the staging folder


def _staging_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.staging")


@contextmanager
def folder_written_atomically(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` at the end; when anything fails, nothing changes.

    It is written in a staging folder beside its place, where the old one is moved at the end. Another process that
    writes the same folder waits. A kill may leave the staging folder behind, which the next writer brings into order.
    """
    staging = _staging_folder(folder)
    with held(staging, wait=True):
        _clear(staging, folder)
        new = staging / NEW
        new.mkdir()
        try:
            yield new
            readable = (
                new.stat().st_mode & 0o666
            )  # as the umask has it; safetensors lets the owner alone read
            for path in new.rglob("*"):  # on the disk before their folder is seen
                if path.is_file():
                    path.chmod(readable)
                    with open(path, "rb") as file:
                        os.fsync(file.fileno())
            if folder.exists():
                os.rename(folder, staging / OLD)
            os.rename(new, folder)
        finally:
            _clear(staging, folder)


def _clear(staging: Path, folder: Path) -> None:
    """Empty a staging folder; an old folder in it goes back to its place where no new one has come there."""
    if (staging / OLD).exists() and not folder.exists():
        os.rename(staging / OLD, folder)
    shutil.rmtree(staging / OLD, ignore_errors=True)
    shutil.rmtree(staging / NEW, ignore_errors=True)


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[int | None]:
    """Hold a folder against other processes; the system lets go when we are killed. BlockingIOError: it is held."""
    if sys.platform == "win32":  # which cannot open folders
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not lock_descriptor(handle, blocking=wait):
            raise BlockingIOError(f"{folder} is held by another process")
        yield handle
    finally:
        os.close(handle)


@contextmanager
def held(folder: Path, *, wait: bool) -> Iterator[None]:
    """A folder for work in progress, made where need be, which no other process has meanwhile.

    Where another has it, wait for that one to end, or refuse. The block may remove the folder; an empty one is removed.
    """
    with ExitStack() as lock:
        is_ours = False
        while not is_ours:  # whoever had it may remove it while we wait
            try:
                folder.mkdir(parents=True, exist_ok=True)
                handle = lock.enter_context(_locked(folder, wait=wait))
                is_ours = handle is None or os.path.samestat(os.fstat(handle), folder.stat())
            except FileNotFoundError:
                continue
            except (
                FileExistsError
            ):  # a file, or a folder that was removed before `mkdir` could see that it is one
                if folder.is_file():
                    raise
            except BlockingIOError as error:
                raise NqgError(
                    f"{folder}: another process is at work here; wait until it has ended"
                ) from error
        try:
            yield
        finally:
            with suppress(OSError):  # most likely because it is not empty
                folder.rmdir()


INDEX = "nqg.json"
SEQ2SEQ_KIND = "nqg seq2seq"  # of a folder that holds a sequence-to-sequence model and no grammar
CARD = "README.md"  # for people, who may edit it
DATA_FILES = (
    ".grammar",
    ".gz",
    ".jinja",
    ".json",
    ".jsonl",
    ".md",
    ".model",
    ".safetensors",
    ".txt",
)  # never code


@contextmanager
def model_written(
    folder: Path, manifest: Mapping[str, Any], replaces: bytes | None = None
) -> Iterator[Path]:
    """A model folder to write files into; the manifest and their checksums become its index.

    Only an older model may be at its place, or nothing; if it has an index that the new one `replaces`, just that one.
    """
    is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free and not (folder / INDEX).exists():
        raise NqgError(
            f"{folder} exists and is not a model folder: choose another name, or remove it first"
        )
    try:
        with folder_written_atomically(folder) as part:
            yield part
            write_text(
                part / INDEX, json.dumps({**manifest, "files": checksums(part)}, indent=1) + "\n"
            )
            if replaces is not None and index_bytes(folder) != replaces:
                raise NqgError(
                    f"{folder}: another process changed the model meanwhile; run the command again"
                )
    except OSError as error:
        raise NqgError(
            f"{folder}: the model cannot be written ({error.strerror or error})"
        ) from error


def index_bytes(folder: Path) -> bytes:
    if not folder.exists():
        old = _staging_folder(folder) / OLD
        if old.exists():
            raise NqgError(
                f"{folder}: a process was killed while it replaced it; put it back: mv {old} {folder}"
            )
        raise NqgError(
            f"{folder}: no such folder; `nqg train TRAIN -o {folder}` would make a model there"
        )
    if not (folder / INDEX).is_file():  # a pipe would be waited for
        inner = [path.parent for path in sorted(folder.glob(f"*/{INDEX}"))]
        hint = f"; did you mean {inner[0]}?" if inner else ""
        raise NqgError(f"{folder} is not a model folder: it has no {INDEX}{hint}")
    check_inside(folder, folder / INDEX)
    try:
        return (folder / INDEX).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NqgError(f"{folder} is not a model folder: it has no {INDEX}") from None


def check_inside(folder: Path, path: Path) -> None:
    """Refuse what a link leads to elsewhere: a model must not show its owner's other files, nor change with them."""
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        raise NqgError(
            f"{path} is a link that leads out of the model folder; copy what it leads to into its place"
        )


def read_manifest(folder: Path, index: bytes, kind: str, version: int) -> dict[str, Any]:
    """The index of a model folder, if it is one that this version of nqg reads."""
    try:
        manifest = strict_json(index.decode(), Place(folder / INDEX, 1))
    except UnicodeDecodeError as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise FormatError(f"expected an object with 'kind': '{kind}'", folder / INDEX)
    found = manifest.get("version")
    if found != version:
        way_out = "train again with this nqg"
        if isinstance(found, int) and found > version:
            way_out = "use the nqg that wrote it, or a newer one"
        versions = f"was written in version {found} of the format; this nqg reads version {version}"
        raise NqgError(f"{folder} {versions}: {way_out}")
    return manifest


def is_of_kind(folder: Path, kind: str) -> bool:
    """Whether the index of a folder can be read and names this kind."""
    try:
        manifest = strict_json(index_bytes(folder).decode(), Place(folder / INDEX, 1))
    except (NqgError, UnicodeDecodeError):
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == kind


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that the index of `folder` vouches for, by its name inside.

    Those are all files but the index itself, the card, hidden ones, and subfolders that have an index of their own.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        is_apart = any((folder / parent / INDEX).exists() for parent in inside.parents[:-1])
        if (
            path.is_file()
            and not is_hidden
            and not is_apart
            and inside.as_posix() not in (INDEX, CARD)
        ):
            found[inside.as_posix()] = checksum(path)
    return found


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """The SHA-256 that stands for everything in a model folder that is read, by way of its indexes."""
    indexes = [folder / INDEX, *sorted(folder.glob(f"*/{INDEX}"))]
    lines = (f"{checksum(index)}  {index.relative_to(folder).as_posix()}\n" for index in indexes)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_digest(folder: Path, expected: str | None) -> None:
    """Refuse a model folder whose digest is another than the one expected, if one is."""
    index_bytes(folder)
    if expected is not None and not hmac.compare_digest(
        found := folder_digest(folder), expected.strip().lower()
    ):
        raise NqgError(
            f"{folder} has the digest {found}, expected {expected}: it is not the model that was meant"
        )


def check_contents(folder: Path, files: Any, needed: tuple[str, ...]) -> None:
    """Refuse a folder with a file that is missing, damaged, of an unknown kind, or not named in `files`."""
    index = folder / INDEX
    if not isinstance(files, dict) or not files.keys() >= set(needed):
        raise FormatError(f"damaged: 'files' should name at least {', '.join(needed)}", index)
    for name, expected in files.items():
        inside, path = PurePosixPath(name), folder / name
        if (
            inside.is_absolute()
            or ".." in inside.parts
            or str(inside) != name
            or "\\" in name
            or ":" in name
        ):
            raise FormatError(f"'{name}' is not the name of a file inside the model folder", index)
        if inside.suffix not in DATA_FILES:
            raise FormatError(
                f"'{name}' is not a file that a model holds; expected {', '.join(DATA_FILES)}",
                index,
            )
        check_inside(folder, path)
        if not path.is_file():
            raise NqgError(f"{path} is missing: the model folder is incomplete")
        if checksum(path) != expected:
            raise NqgError(f"{path} is damaged: it is not the file that was saved")
    for path in sorted(folder.iterdir()):
        check_inside(folder, path)
        if not (
            path.name in files
            or path.name in (INDEX, CARD)
            or path.name.startswith(".")
            or path.is_dir()
        ):
            raise NqgError(
                f"{path} is unknown: {INDEX} does not name it; move it out of the model folder"
            )


@contextmanager
def pretrained(name: Path | str, revision: str | None = None) -> Iterator[Path]:
    """A model folder or, where there is none of this name, a copy of the one on the Hugging Face Hub for the block."""
    if Path(name).exists():
        yield Path(name)
        return
    from huggingface_hub import snapshot_download  # which folders do not need

    way_out = "expected a folder, or a model on the Hub as OWNER/NAME"
    with refused_with("could not be downloaded from the Hugging Face Hub", Path(name), way_out):
        cached = snapshot_download(
            str(name), revision=revision, allow_patterns=[f"*{kind}" for kind in DATA_FILES]
        )
    with (
        tempfile.TemporaryDirectory() as parent
    ):  # what is cached are links, which models must not have
        yield Path(shutil.copytree(cached, Path(parent) / "model"))


def push_to_hub(
    save: Callable[[Path], object], name: str, message: str, private: bool | None
) -> str:
    """Make what `save` writes the content of a model on the Hugging Face Hub; gives the address of the commit."""
    from huggingface_hub import HfApi  # which other commands do not need

    with tempfile.TemporaryDirectory() as parent:
        save(folder := Path(parent) / "model")
        with refused_with(
            "could not be uploaded to the Hugging Face Hub",
            Path(name),
            "log in with: hf auth login",
        ):
            api = HfApi()
            api.create_repo(name, private=private, exist_ok=True)
            done = api.upload_folder(
                repo_id=name, folder_path=folder, commit_message=message, delete_patterns="*"
            )
    return done.commit_url


LARGEST = 1 << 22  # of all numbers in a config: vocabularies have a million entries at most
LONGEST_REASON = 500  # characters of an error of a library, which may quote what it was given
RUST_PANIC = "PanicException"  # of the tokenizers, which is no Exception and has no public name
Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def refused_with(reason: str, place: Path, way_out: str = "") -> Iterator[None]:
    """Errors of the libraries that read a model, of which there are dozens of kinds, as one of ours."""
    try:
        yield
    except NqgError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != RUST_PANIC:
            raise
        line = str(error).strip().split("\n")[0] or type(error).__name__
        cut = line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."
        raise FormatError(f"{reason}: {cut}{way_out and f'; {way_out}'}", place) from error


def weight_shapes(*paths: Path) -> Shapes:
    """The shapes of the weights in files, without reading them."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in paths:
        with refused_with("damaged", path), safe_open(path, framework="pt") as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return shapes


def check_config(path: Path, shapes: Shapes) -> None:
    """Refuse a config that asks for more than weights of these shapes can fill."""
    with refused_with("damaged", path):
        left = [("config", strict_json(path.read_text(encoding="utf-8"), Place(path, 1)))]
    while left:
        name, value = left.pop(0)
        if isinstance(value, dict):
            left.extend(value.items())
        elif isinstance(value, list):
            left.extend((name, each) for each in value)
        if isinstance(value, int | float) and value < 0 and name.endswith(("eps", "epsilon")):
            raise FormatError(f"'{name}' is {value}, expected 0 or more", path)
        most = len(shapes) if any(part in name for part in ("layer", "group", "block")) else LARGEST
        if isinstance(value, int) and abs(value) > most:
            raise FormatError(f"'{name}' is {value}, expected {most:,} at most", path)


def check_shapes(model: nn.Module, shapes: Shapes, path: Path) -> None:
    """Refuse weights in a file that are not just those of a model, which may have no memory yet."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in [*wanted, *shapes]:
        if (there := shapes.get(name)) != (here := wanted.get(name)):
            raise FormatError(f"the weights '{name}' have the shape {there}, expected {here}", path)


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are no numbers, or infinite."""
    for name, weight in weights.items():
        if weight.is_floating_point() and weight.numel():
            least, most = weight.aminmax()  # both are NaN where one weight is
            if not (most - least).isfinite():
                raise FormatError(f"the weights '{name}' are not all numbers", path)


def check_vocabulary(vocabulary: Mapping[str, int], known: int, place: Path) -> None:
    """Refuse a tokenizer with subwords that the model, which has so many vectors, has none for."""
    if (highest := max(vocabulary.values(), default=0)) >= known:
        raise FormatError(
            f"the tokenizer has a subword {highest}, the model has vectors for {known}", place
        )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers report errors alone, and draw no bars; afterwards it is as talkative as before."""
    from transformers.utils import logging as reports

    level, has_bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
    reports.set_verbosity(logging.ERROR)
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        reports.set_verbosity(level)
        if has_bars:
            reports.enable_progress_bar()  # type: ignore[no-untyped-call]
