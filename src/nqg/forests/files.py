"""Forests in one file: a zip of plain arrays (NumPy's .npz, nothing in it can run) and a line that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from nqg.errors import FormatError, NqgError
from nqg.files import written_atomically
from nqg.forests.forest import Forests
from nqg.grammar.graph import Graph

KIND = "nqg forests"
VERSION = 1


def write_forests(path: Path | str, forests: Forests) -> None:
    """Write forests to one file, atomically."""
    header = np.frombuffer(json.dumps({"kind": KIND, "version": VERSION}).encode(), dtype=np.uint8)
    arrays = {
        f"{side}.{name}": array
        for side, graph in (("full", forests.full), ("goal", forests.goal))
        for name, array in graph.arrays().items()
    }
    with written_atomically(Path(path)) as file:
        np.savez(file, allow_pickle=False, header=header, **arrays)


def read_forests(path: Path | str) -> Forests:
    """The forests in a file that `write_forests` wrote; anything else is refused with the reason."""
    path = Path(path)
    arrays = _arrays(path)
    try:
        _check_header(arrays.pop("header", None))
        return Forests(_graph(arrays, "full"), _graph(arrays, "goal"))
    except FormatError as error:
        raise error.at(path) from None


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > path.stat().st_size:
                raise ValueError("its arrays claim to be larger than the file")  # we never compress: a bomb
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise NqgError(f"{path}: no such file") from None
    except Exception as error:  # zipfile and NumPy raise a dozen kinds about damaged bytes
        raise FormatError(f"not a file of forests, or a damaged one ({error})", path) from error


def _check_header(raw: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None) -> None:
    try:
        header = json.loads(bytes([] if raw is None else raw))
    except (ValueError, TypeError):
        header = {}
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise FormatError(f"expected a file of forests ('{KIND}'), found something else")
    if header.get("version") != VERSION:
        raise FormatError(f"written in version {header.get('version')} of the format; this nqg reads version {VERSION}")


def _graph(arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int64]]], side: str) -> Graph:
    named = {name.removeprefix(f"{side}."): array for name, array in arrays.items() if name.startswith(f"{side}.")}
    wanted = set(Graph.__slots__) - (set() if side == "goal" else {"target_starts", "target_lengths"})
    if set(named) != wanted:
        raise FormatError(f"the {side} forests have arrays {sorted(named)}, expected {sorted(wanted)}")
    graph = Graph(**named)  # type: ignore[arg-type]  # Graph.check looks at every array
    graph.check()
    return graph
