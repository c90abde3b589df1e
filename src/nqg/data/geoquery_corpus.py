"""GeoQuery's corpus.xml: the English sentence and the FunQL program of every example, and nothing else of it.

Entity declarations are refused, so that no file can make the reader expand text without end or open other files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from nqg.errors import FormatError, Place
from nqg.files import numbered_lines

SENTENCE = ("nl", "en")
PROGRAM = ("mrl", "geo-funql")


@dataclass(frozen=True, slots=True)
class CorpusExample:
    """A sentence and a program as corpus.xml has them, less the white space around them."""

    id: str
    sentence: str
    program: str
    place: Place


def read_corpus(path: Path) -> list[CorpusExample]:
    """The examples of a corpus in its order; bad XML and incomplete examples are refused with their line."""
    text = "\n".join(line for _, line in numbered_lines(path))
    reader = _CorpusReader(path)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = f"bad XML: {expat.ErrorString(error.code)}; expected well-formed XML, perhaps the file was cut off"
        raise FormatError(reason, Place(path, error.lineno)) from error
    return reader.examples


class _CorpusReader:
    """Listens to the XML parser and collects one example at a time."""

    def __init__(self, path: Path) -> None:
        self.parser = expat.ParserCreate("utf-8")
        self.examples: list[CorpusExample] = []
        self._path = path
        self._ids: set[str] = set()
        self._begin("", Place(path, 1))
        self.parser.StartElementHandler = self._opened
        self.parser.EndElementHandler = self._closed
        self.parser.CharacterDataHandler = self._read
        self.parser.EntityDeclHandler = self._refusal("an entity declaration", "a document type of elements alone")
        self.parser.SkippedEntityHandler = self._refusal("an undeclared entity", "plain text")

    def _begin(self, example_id: str, place: Place) -> None:
        self._id, self._place = example_id, place
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._current: list[str] | None = None

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "example":
            self._begin(self._new_id(attributes), self._here)
        part = (tag, attributes.get("lang", ""))
        self._current = self._texts.setdefault(part, []) if part in (SENTENCE, PROGRAM) else None

    def _read(self, text: str) -> None:
        if self._current is not None:
            self._current.append(text)

    def _closed(self, tag: str) -> None:
        self._current = None
        if tag == "example":
            example = CorpusExample(self._id, self._text(SENTENCE), self._text(PROGRAM), self._place)
            self.examples.append(example)

    def _new_id(self, attributes: dict[str, str]) -> str:
        example_id = attributes.get("id", "")
        if not example_id or example_id in self._ids:
            found = f"found the id '{example_id}' again" if example_id else "found an example without an id"
            raise FormatError(f"{found}, expected an id of its own for every example", self._here)
        self._ids.add(example_id)
        return example_id

    def _text(self, part: tuple[str, str]) -> str:
        text = "".join(self._texts.get(part, [])).strip()
        if not text:
            reason = f'example {self._id} has no text in <{part[0]} lang="{part[1]}">, expected one'
            raise FormatError(reason, self._place)
        return text

    @property
    def _here(self) -> Place:
        return Place(self._path, self.parser.CurrentLineNumber)

    def _refusal(self, found: str, expected: str) -> Callable[..., NoReturn]:
        def refuse(name: str, *_: object) -> NoReturn:
            raise FormatError(f"found {found} ('{name}'), expected {expected}", self._here)

        return refuse
