"""Examples, pairs of a sentence and its program, and their files: `.tsv` or `.jsonl`, plain or `.gz`."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError, NqgError, Place
from nqg.files import decoded, numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Rule
from nqg.grammar.slots import slot_seeds, unnumbered, with_placeholders
from nqg.grammar.target_grammar import TargetGrammar
from nqg.settings_reader import read_dataclass
from nqg.text.mentions import KnownMentions
from nqg.text.preprocessing import Preprocessor, TextSettings


@dataclass(frozen=True, slots=True)
class Example:
    """A (source, target) pair of strings; `id` is its name in the dataset it came from, where it has one.

    >>> Example("jump twice", "I_JUMP I_JUMP").source_tokens
    ('jump', 'twice')
    """

    source: str
    target: str
    id: str | None = None

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The source, cut at white space."""
        return tuple(self.source.split())

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The target, cut at white space."""
        return tuple(self.target.split())


def distinct_pairs(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose source and target came before, whatever their ids.

    >>> distinct_pairs([Example("jump", "J", "1"), Example("walk", "W", "2"), Example("jump", "J", "3")])
    [Example(source='jump', target='J', id='1'), Example(source='walk', target='W', id='2')]
    """
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        first.setdefault((example.source, example.target), example)
    return list(first.values())


def tokenized(examples: Sequence[Example], text: Preprocessor) -> Sequence[Example]:
    """Raw examples as a grammar and a model learn from them: with spaces between tokens."""
    if text.is_plain:
        return examples
    return [Example(*text.training_pair(example.source, example.target), example.id) for example in examples]


def fit_text(
    examples: Iterable[Example],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
) -> Preprocessor:
    """How the text of raw examples becomes tokens, and which values it has; see `Preprocessor.fit`."""
    return Preprocessor.fit([(example.source, example.target) for example in examples], settings, slots, place)


@dataclass(frozen=True)
class Values:
    """The values of slots in training data: for each tokenised example one with placeholders, and what slots found."""

    marked: Mapping[tuple[str, str], Example]
    typed: Mapping[str, str]  # tokenised sentences in the casing that somebody typed
    mentions: KnownMentions

    @classmethod
    def of(cls, examples: Sequence[Example], text: Preprocessor) -> Values | None:
        """Those in raw examples; None where the text has no slots."""
        if not text.slots.slots:
            return None
        pairs = [text.training_sentence(example.source, example.target) for example in examples]
        marked = (
            Example(" ".join(pair.source), " ".join(pair.target), example.id)
            for example, pair in zip(examples, text.slots.marked(pairs), strict=True)
        )
        keys = ((" ".join(sentence.words), " ".join(target)) for sentence, target in pairs)
        known = KnownMentions.of(text.slots, (sentence for sentence, _ in pairs))
        typed = {" ".join(sentence.words): " ".join(sentence.typed_words) for sentence, _ in pairs}
        return cls(dict(zip(keys, marked, strict=True)), typed, known)

    def mark(self, examples: Iterable[Example]) -> list[Example]:
        """Tokenised examples with placeholders in the place of values."""
        return [self.marked.get((example.source, example.target), example) for example in examples]

    def as_typed(self, sentences: Iterable[str]) -> list[str]:
        """Tokenised sentences in the casing that somebody typed: what else could tell how a name is written?"""
        return [self.typed.get(sentence, sentence) for sentence in sentences]

    def searched(
        self, examples: Iterable[Example], types: TargetGrammar | None
    ) -> tuple[list[Example], list[Rule], TargetGrammar | None]:
        """What rules are searched in: marked examples, rules to begin with, and the types of marked programs."""
        marked = self.mark(examples)
        programs = [each.target_tokens for each in marked]
        seeds = slot_seeds(zip((each.source_tokens for each in marked), programs, strict=True))
        return marked, seeds, with_placeholders(types, programs) if types else None

    def programs(self, examples: Iterable[Example]) -> list[tuple[str, ...]]:
        """The programs of tokenised examples with slots in the place of values: what types are inferred from."""
        return [unnumbered(each.target_tokens) for each in self.mark(examples)]


def read_tokenized(path: Path | str) -> Sequence[Example]:
    """The raw examples of a file, tokenised in the way that suits them."""
    raw = read_examples(path)
    return tokenized(raw, fit_text(raw))


def read_examples(path: Path | str) -> list[Example]:
    """The examples of a `.tsv` or `.jsonl` file; a bad line is refused with file, line and reason.

    A `.tsv` file has no ids: its examples have `id=None` and are known by their position.
    """
    path, examples = Path(path), list(streamed_examples(path))
    _check_ids(examples, path)
    return examples


def required_examples(path: Path | str) -> list[Example]:
    """The examples of a file that must have some."""
    if not (examples := read_examples(path)):
        raise FormatError("expected at least one example, found none", Path(path))
    return examples


def streamed_examples(path: Path | str) -> Iterator[Example]:
    """The examples of a file one after the other, for files that memory cannot hold; ids are not compared."""
    form = format_of(Path(path))
    return (form.read(text, place) for place, text in numbered_lines(Path(path)))


def write_examples(path: Path | str, examples: Iterable[Example]) -> None:
    """Write examples as the extension of `path` says, atomically; `.tsv` drops ids, `.jsonl` keeps them."""
    path, examples = Path(path), list(examples)
    form = format_of(path)
    if form is Jsonl:
        _check_ids(examples, path)
    lines = (form.line(example, Place(path, number)) for number, example in enumerate(examples, start=1))
    write_text(path, "".join(f"{line}\n" for line in lines))


def format_of(path: Path) -> type[LineFormat]:
    extension = Path(path.name.removesuffix(".gz")).suffix
    if extension not in FORMATS:
        found = f"found '{extension}'" if extension else "found none"
        raise FormatError(f"expected the extension .tsv or .jsonl (or either with .gz), {found}; rename the file", path)
    return FORMATS[extension]


def _check_ids(examples: Sequence[Example], path: Path) -> None:
    first_lines: dict[str, int] = {}
    for line, example in enumerate(examples, start=1):
        if example.id is not None and first_lines.setdefault(example.id, line) != line:
            reason = f"the id '{example.id}' is already that of line {first_lines[example.id]}"
            raise FormatError(reason, Place(path, line))


def _checked(example: Example, place: Place) -> Example:
    """`example`, or an error where a string of it could not survive a file."""
    for name, text in (("source", example.source), ("target", example.target), ("id", example.id)):
        if text is None:
            continue
        if not text.strip():
            raise FormatError(f"the {name} is empty", place)
        if found := _NOT_TEXT.search(text):
            raise FormatError(f"the {name} holds U+{ord(found[0]):04X}, which is not text", place)
    return example


_NOT_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of characters that UTF-8 cannot write


class LineFormat(Protocol):
    """How one example becomes one line, and back; what cannot is refused with its place."""

    @staticmethod
    def read(text: str, place: Place) -> Example: ...

    @staticmethod
    def line(example: Example, place: Place) -> str: ...


def tsv_columns(text: str, place: Place, second: str) -> list[str]:
    columns = text.split("\t")
    if len(columns) != 2:
        found = f"{len(columns)} column{'s' if len(columns) > 1 else ''}" if text else "an empty line"
        if len(columns) == 1 and "," in text:
            found += "; it looks comma-separated: put a tab between the two, or write .jsonl"
        raise FormatError(f"expected 'source<TAB>{second}', found {found}", place)
    return columns


class Tsv:
    """`source<TAB>target`."""

    @staticmethod
    def read(text: str, place: Place) -> Example:
        return _checked(Example(*tsv_columns(text, place, "target")), place)

    @staticmethod
    def line(example: Example, place: Place) -> str:
        unwritable = {"\t": "a tab", "\n": "a line feed", "\r": "a carriage return", "\ufeff": "a byte order mark"}
        for name, text in (("source", example.source), ("target", example.target)):
            if held := [word for character, word in unwritable.items() if character in text]:
                reason = f"the {name} holds {held[0]}, which a .tsv file cannot keep; write .jsonl instead"
                raise FormatError(reason, place)
        _checked(example, place)
        return f"{example.source}\t{example.target}"


class Jsonl:
    """`{"id": …, "source": …, "target": …}`, with or without an id."""

    @staticmethod
    def read(text: str, place: Place) -> Example:
        return _checked(read_dataclass(Example, strict_json(text, place), "the example", place), place)

    @staticmethod
    def line(example: Example, place: Place) -> str:
        name = {} if _checked(example, place).id is None else {"id": example.id}
        return json.dumps({**name, "source": example.source, "target": example.target}, ensure_ascii=False)


FORMATS: dict[str, type[LineFormat]] = {".tsv": Tsv, ".jsonl": Jsonl}
BLOCK = 1 << 24  # bytes that are searched for line ends at once
LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True)
class MappedExamples(Sequence[Example]):
    """The examples of a plain `.tsv` or `.jsonl` file; a line is read, or refused as bad, when it is asked for."""

    path: Path
    content: mmap.mmap | bytes
    firsts: NDArray[np.int64]  # where each line begins, and where the last one ends

    @classmethod
    def of(cls, path: Path | str) -> MappedExamples:
        """The examples of a file, which must not change while they are in use."""
        path = Path(path)
        if path.suffix == ".gz":
            raise FormatError("a compressed file cannot be read from the middle; unpack it: gunzip", path)
        format_of(path)
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise NqgError(f"{path}: cannot be read ({error.strerror})") from error
        starts = [np.zeros(1, dtype=np.int64)]
        for begin in range(0, size, BLOCK):
            block = np.frombuffer(content[begin : begin + BLOCK], dtype=np.uint8)
            starts.append(np.flatnonzero(block == LINE_FEED) + begin + 1)
        firsts = np.concatenate(starts)
        return cls(path, content, firsts if firsts[-1] == size else np.append(firsts, size))

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @overload
    def __getitem__(self, number: int) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> list[Example]: ...
    def __getitem__(self, number: int | slice) -> Example | list[Example]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        raw = self.content[int(self.firsts[number]) : int(self.firsts[number + 1])]
        place = Place(self.path, number + 1)
        text = decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), place)
        return format_of(self.path).read(text, place)

    def __iter__(self) -> Iterator[Example]:
        return streamed_examples(self.path)
