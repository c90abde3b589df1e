"""Whether the files of a model folder fit together; a folder from elsewhere may say anything.

What a config claims is compared with the weights before memory is taken for it, so that no file of a few bytes can ask
for terabytes. What passes here can be used without further questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, NqgError, Place

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
        raise FormatError(f"{reason}: {_first_line(error)}{way_out and f'; {way_out}'}", place) from error


def _first_line(error: BaseException) -> str:
    line = str(error).strip().split("\n")[0] or type(error).__name__
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


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
        settings = list(_settings(strict_json(path.read_text(encoding="utf-8"), Place(path, 1))))
    for name, value in settings:
        most = len(shapes) if any(part in name for part in ("layer", "group", "block")) else LARGEST
        if isinstance(value, int) and abs(value) > most:
            raise FormatError(f"'{name}' is {value}, expected {most:,} at most", path)


def _settings(value: Any, name: str = "config") -> Iterator[tuple[str, Any]]:
    """The names and values of all settings, those of a model's parts among them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _settings(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _settings(each, name)
    else:
        yield name, value


def check_shapes(model: nn.Module, shapes: Shapes, path: Path) -> None:
    """Refuse weights in a file that are not just those of a model, which may have no memory yet."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in [*wanted, *shapes]:
        there, here = shapes.get(name), wanted.get(name)
        if there != here:
            raise FormatError(f"the weights '{name}' have the shape {there}, expected {here}", path)


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are no numbers, or infinite."""
    for name, weight in weights.items():
        if weight.is_floating_point() and weight.numel():
            least, most = torch.aminmax(weight)  # both are NaN where one weight is
            if not bool(torch.isfinite(most - least)):
                raise FormatError(f"the weights '{name}' are not all numbers", path)


def check_vocabulary(tokenizer: Any, model: Any, place: Path) -> None:
    """Refuse a tokenizer that has pieces which the model has no vector for, or none to fill up with."""
    known = int(model.get_input_embeddings().num_embeddings)
    padding = tokenizer.pad_token_id
    if padding is None:
        raise FormatError("the tokenizer has no piece for padding", place)
    highest = max([padding, *tokenizer.get_vocab().values()])
    if highest >= known:
        raise FormatError(f"the tokenizer has a piece {highest}, the model has vectors for {known}", place)
