"""Model folders: written whole or not at all, with checksums, validated when read."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Self

from filelock import lock_descriptor
from safetensors import safe_open

from nqg.errors import FormatError, NqgError, Place
from nqg.extensions import load_extension
from nqg.files import strict_json, write_text

# What a staging folder holds: the folder that is written, and the one that it replaces.
NEW, OLD = "new", "old"


def _staging_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.staging")


@contextmanager
def folder_written_atomically(folder: Path) -> Iterator[Path]:
    """A folder to write into, which replaces `folder` at the end, unless anything fails.

    It is written in a staging folder beside `folder`, where the old one is moved at the end.
    Another process that writes the same folder waits. A kill may leave the staging folder behind,
    which the next writer brings into order.
    """
    staging = _staging_folder(folder)
    with exclusive(staging, wait=True):
        _clear(staging, folder)
        new = staging / NEW
        new.mkdir()
        try:
            yield new
            # Files get the modes of the umask: safetensors lets the owner alone read. They are on
            # the disk before their folder is seen.
            readable = new.stat().st_mode & 0o666
            for path in new.rglob("*"):
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
    """Empty a staging folder; an old folder in it goes back where no new one has replaced it."""
    if (staging / OLD).exists() and not folder.exists():
        os.rename(staging / OLD, folder)
    shutil.rmtree(staging / OLD, ignore_errors=True)
    shutil.rmtree(staging / NEW, ignore_errors=True)


@contextmanager
def exclusive(folder: Path, *, wait: bool) -> Iterator[None]:
    """A folder for work in progress, made where need be, which no other process has meanwhile.

    Where another has it, wait for that one to end, or refuse. The block may remove the folder; an
    empty one is removed.
    """
    with ExitStack() as stack:
        while not _locks(folder, wait, stack):
            continue
        try:
            yield
        finally:
            # It cannot be removed where it is not empty.
            with suppress(OSError):
                folder.rmdir()


def _locks(folder: Path, wait: bool, stack: ExitStack) -> bool:
    """Make and lock a folder until `stack` is closed; False if somebody removed it meanwhile.

    The system unlocks the folder if this process is killed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Windows cannot open folders, and so cannot lock them.
        if sys.platform == "win32":
            return True
        handle = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, handle)
        if not lock_descriptor(handle, blocking=wait):
            raise NqgError(
                f"{folder}: another process is at work here; wait until it has ended"
            )
        # Whoever had the folder may have removed it while we waited.
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False
    except FileExistsError:
        # A file, or a folder that was removed before `mkdir` could see that it is one.
        if folder.is_file():
            raise
        return False


INDEX = "nqg.json"
# The kind of a folder that holds a sequence-to-sequence model and no grammar.
SEQ2SEQ_KIND = "nqg seq2seq"
# For people, who may edit it.
CARD = "README.md"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
# What a model folder may hold: data, never code.
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
)


@contextmanager
def model_written(
    folder: Path, manifest: Mapping[str, Any], replaces: bytes | None = None
) -> Iterator[Path]:
    """A model folder to write files into; the manifest and their checksums become its index.

    It replaces only an empty folder or an older model: if `replaces` is given, the one with just
    that index.
    """
    # Never replace a folder of something else.
    is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free and not (folder / INDEX).exists():
        raise NqgError(
            f"{folder} exists and is not a model folder: choose another name, or remove it first"
        )
    try:
        with folder_written_atomically(folder) as new:
            yield new
            index = {**manifest, "files": checksums(new)}
            write_text(new / INDEX, json.dumps(index, indent=1) + "\n")
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
                f"{folder}: a process was killed while it replaced it; "
                f"put it back: mv {old} {folder}"
            )
        raise NqgError(
            f"{folder}: no such folder; `nqg train TRAIN -o {folder}` would make a model there"
        )
    # Reading a pipe would never end.
    if not (folder / INDEX).is_file():
        hint = ""
        for index in sorted(folder.glob(f"*/{INDEX}"))[:1]:
            hint = f"; did you mean {index.parent}?"
        raise NqgError(f"{folder} is not a model folder: it has no {INDEX}{hint}")
    check_inside(folder, folder / INDEX)
    try:
        return (folder / INDEX).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NqgError(f"{folder} is not a model folder: it has no {INDEX}") from None


def check_inside(folder: Path, path: Path) -> None:
    """Refuse a link that leads out of a model folder.

    A model must not show its owner's other files, nor change with them.
    """
    if Path(os.path.realpath(folder)) not in Path(os.path.realpath(path)).parents:
        raise NqgError(
            f"{path} is a link that leads out of the model folder; "
            "copy what it leads to into its place"
        )


def _parsed_index(folder: Path, index: bytes, kind: str) -> dict[str, Any]:
    try:
        manifest = strict_json(index.decode(), Place(folder / INDEX, 1))
    except UnicodeDecodeError as error:
        raise FormatError(f"damaged: {error}", folder / INDEX) from None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise FormatError(f"expected an object with 'kind': '{kind}'", folder / INDEX)
    return manifest


def read_manifest(
    folder: Path, index: bytes, kind: str, version: int
) -> dict[str, Any]:
    """The index of a model folder, if it is one that this version of nqg reads."""
    manifest = _parsed_index(folder, index, kind)
    written = manifest.get("version")
    if written != version:
        advice = "train again with this nqg"
        if isinstance(written, int) and written > version:
            advice = "use the nqg that wrote it, or a newer one"
        raise NqgError(
            f"{folder} was written in version {written} of the format; "
            f"this nqg reads version {version}: {advice}"
        )
    return manifest


def is_of_kind(folder: Path, kind: str) -> bool:
    """Whether the index of a folder can be read and names this kind."""
    try:
        _parsed_index(folder, index_bytes(folder), kind)
    except NqgError:
        return False
    return True


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that the index of `folder` vouches for, by its name inside.

    Those are all files but the index itself, the card, hidden ones, and subfolders that have an
    index of their own.
    """
    sums = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        name = inside.as_posix()
        is_hidden = name.startswith(".") or "/." in name
        has_index = any(
            (folder / parent / INDEX).exists() for parent in inside.parents[:-1]
        )
        if (
            path.is_file()
            and not is_hidden
            and not has_index
            and name not in (INDEX, CARD)
        ):
            sums[name] = checksum(path)
    return sums


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """The SHA-256 of everything in a model folder that is read, by way of its indexes."""
    lines = ""
    for index in [folder / INDEX, *sorted(folder.glob(f"*/{INDEX}"))]:
        lines += f"{checksum(index)}  {index.relative_to(folder).as_posix()}\n"
    return hashlib.sha256(lines.encode()).hexdigest()


def check_digest(folder: Path, expected: str | None) -> None:
    """Refuse a model folder whose digest is not the expected one, if one is expected."""
    index_bytes(folder)
    if expected is None:
        return
    digest = folder_digest(folder)
    if not hmac.compare_digest(digest, expected.strip().lower()):
        raise NqgError(
            f"{folder} has the digest {digest}, expected {expected}: "
            "this is not the expected model"
        )


def check_contents(folder: Path, files: Any, needed: tuple[str, ...]) -> None:
    """Refuse a folder with a missing, damaged, unknown or unnamed file."""
    index = folder / INDEX
    if not isinstance(files, dict) or not files.keys() >= set(needed):
        raise FormatError(
            f"damaged: 'files' should name at least {', '.join(needed)}", index
        )
    # The index names files inside the folder, and they are as they were saved.
    for name, expected in files.items():
        inside, path = PurePosixPath(name), folder / name
        leads_out = inside.is_absolute() or ".." in inside.parts
        if leads_out or str(inside) != name or "\\" in name or ":" in name:
            raise FormatError(
                f"'{name}' is not the name of a file inside the model folder", index
            )
        if inside.suffix not in DATA_FILES:
            kinds = ", ".join(DATA_FILES)
            raise FormatError(
                f"'{name}' is not a file that a model holds; expected {kinds}", index
            )
        check_inside(folder, path)
        if not path.is_file():
            raise NqgError(f"{path} is missing: the model folder is incomplete")
        if checksum(path) != expected:
            raise NqgError(f"{path} is damaged: it is not the file that was saved")
    # The folder has no other files.
    for path in sorted(folder.iterdir()):
        check_inside(folder, path)
        is_named = path.name in files or path.name in (INDEX, CARD)
        if not is_named and not path.name.startswith(".") and not path.is_dir():
            raise NqgError(
                f"{path} is unknown: {INDEX} does not name it; move it out of the model folder"
            )


@contextmanager
def pretrained(name: Path | str, revision: str | None = None) -> Iterator[Path]:
    """A model folder or, if there is none, a copy of that model on the Hugging Face Hub."""
    if Path(name).exists():
        yield Path(name)
        return
    snapshot_download = load_extension(
        "huggingface_hub:snapshot_download",
        f"{name} is not a folder, and a model on the Hugging Face Hub",
    )
    advice = "expected a folder, or a model on the Hub as OWNER/NAME"
    patterns = [f"*{kind}" for kind in DATA_FILES]
    with convert_errors(
        "could not be downloaded from the Hugging Face Hub", Path(name), advice
    ):
        cached = snapshot_download(
            str(name), revision=revision, allow_patterns=patterns
        )
    # What is cached are links, which models must not have.
    with tempfile.TemporaryDirectory() as parent:
        yield Path(shutil.copytree(cached, Path(parent) / "model"))


class HubModel:
    """What `save` writes into a model folder and `load` reads, also on the Hugging Face Hub."""

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> Self:
        raise NotImplementedError

    def save(self, folder: Path | str) -> None:
        raise NotImplementedError

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: Path | str,
        device: str | None = None,
        *,
        revision: str | None = None,
    ) -> Self:
        """The model in a folder or, where there is none, on the Hugging Face Hub as `owner/name`."""
        with pretrained(name_or_folder, revision) as folder:
            return cls.load(folder, device)

    def push_to_hub(
        self,
        name: str,
        *,
        message: str = "Upload with nqg",
        private: bool | None = None,
    ) -> str:
        """Upload the model, with its card, to the Hugging Face Hub as `owner/name`; gives the
        commit's address.
        """
        hub = load_extension("huggingface_hub:HfApi", "the Hugging Face Hub")
        advice = "log in with: hf auth login"
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "model"
            self.save(folder)
            with convert_errors(
                "could not be uploaded to the Hugging Face Hub", Path(name), advice
            ):
                api = hub()
                api.create_repo(name, private=private, exist_ok=True)
                commit = api.upload_folder(
                    repo_id=name,
                    folder_path=folder,
                    commit_message=message,
                    delete_patterns="*",
                )
        return str(commit.commit_url)


# The largest number in a config: vocabularies have a million entries at most.
LARGEST = 1 << 22
# Characters of an error of a library, which may quote what it was given.
LONGEST_REASON = 500
# An error of the tokenizers, which is not an Exception and has no public name.
RUST_PANIC = "PanicException"
Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def convert_errors(reason: str, place: Path, advice: str = "") -> Iterator[None]:
    """Turn errors of the libraries that read a model, of dozens of kinds, into one of ours."""
    try:
        yield
    except NqgError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != RUST_PANIC:
            raise
        line = str(error).strip().split("\n")[0] or type(error).__name__
        if len(line) > LONGEST_REASON:
            line = f"{line[:LONGEST_REASON]}..."
        if advice:
            line += f"; {advice}"
        raise FormatError(f"{reason}: {line}", place) from error


def weight_shapes(*paths: Path) -> Shapes:
    """The shapes of the weights in files, without reading them."""
    shapes = {}
    for path in paths:
        with (
            convert_errors("damaged", path),
            safe_open(path, framework="numpy") as file,
        ):
            for name in file.keys():  # noqa: SIM118
                shapes[name] = tuple(file.get_slice(name).get_shape())
    return shapes


def check_config(path: Path, shapes: Shapes) -> None:
    """Refuse a config that asks for more than weights of these shapes can fill."""
    with convert_errors("damaged", path):
        config = strict_json(path.read_text(encoding="utf-8"), Place(path, 1))
    # The list grows while it is read: tables and lists add what they hold.
    entries = [("config", config)]
    for name, value in entries:
        if isinstance(value, dict):
            entries.extend(value.items())
        elif isinstance(value, list):
            entries.extend((name, entry) for entry in value)
        elif isinstance(value, int | float):
            if value < 0 and name.endswith(("eps", "epsilon")):
                raise FormatError(f"'{name}' is {value}, expected 0 or more", path)
            most = LARGEST
            if re.search("layer|group|block", name):
                most = len(shapes)
            if isinstance(value, int) and abs(value) > most:
                raise FormatError(
                    f"'{name}' is {value}, expected {most:,} at most", path
                )


def check_shapes(needed: Shapes, shapes: Shapes, path: Path) -> None:
    """Refuse weights in a file that are not those of a model."""
    for name in {**needed, **shapes}:
        there, here = shapes.get(name), needed.get(name)
        if there != here:
            raise FormatError(
                f"the weights '{name}' have the shape {there}, expected {here}", path
            )


def check_finite(weights: Mapping[str, Any], path: Path) -> None:
    """Refuse weights, arrays of NumPy or tensors of torch, that are not finite."""
    for name, weight in weights.items():
        if 0 in weight.shape:
            continue
        # Both are NaN where one weight is.
        if not math.isfinite(float(weight.max()) - float(weight.min())):
            raise FormatError(f"the weights '{name}' are not all numbers", path)


def check_vocabulary(vocabulary: Mapping[str, int], vectors: int, place: Path) -> None:
    """Refuse a tokenizer with subwords for which the model, with so many vectors, has none."""
    highest = max(vocabulary.values(), default=0)
    if highest >= vectors:
        raise FormatError(
            f"the tokenizer has a subword {highest}, the model has vectors for {vectors}",
            place,
        )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers and its hub report errors alone, and draw no bars, for the block."""
    from transformers.utils import logging as reports

    level, has_bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
    # The hub warns of every attempt to reach it, and the last error says it all.
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    hub.setLevel(logging.ERROR)
    reports.set_verbosity(logging.ERROR)
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        hub.setLevel(hub_level)
        reports.set_verbosity(level)
        if has_bars:
            reports.enable_progress_bar()  # type: ignore[no-untyped-call]
