"""SNIPS: utterances with marked slots, as programs: an intent and its slots in the order in which they are said.

Play Making Out by Alexander Rosenbaum off Google Music.
play_music(track="Making Out", artist="Alexander Rosenbaum", service="Google Music")
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.examples import Example
from nqg.errors import FormatError
from nqg.files import read_json
from nqg.settings_reader import read_value


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of an utterance; a slot's value if it names the slot as its `entity`."""

    text: str
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Utterance:
    data: tuple[Chunk, ...]

    def example(self, intent: str, example_id: str) -> Example:
        sentence = " ".join("".join(chunk.text for chunk in self.data).split())
        values = ((chunk.entity, " ".join(chunk.text.split())) for chunk in self.data if chunk.entity)
        slots = ", ".join(f'{slot}="{_escaped(value)}"' for slot, value in values)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", intent).lower()
        return Example(sentence, f"{name}({slots})", example_id)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def load_snips(*paths: Path) -> list[Example]:
    """The examples of files of one intent each, one file after the other."""
    examples: list[Example] = []
    for path in paths:
        found: dict[str, Any] = read_value(dict[str, tuple[Utterance, ...]], read_json(path), "the utterances", path)
        if len(found) != 1:
            raise FormatError(f"expected the utterances of one intent, found {len(found)} intents", path)
        ((intent, utterances),) = found.items()
        examples += [each.example(intent, f"{path.stem}-{number}") for number, each in enumerate(utterances)]
    return examples


def snips_settings(*texts: str) -> str:
    """A settings file that declares slots of free text."""
    return "[slots]\n" + "".join(f"{name} = {{ text = 8 }}\n" for name in texts)
