"""What happens to text before and after parsing: one description for training, parsing, evaluation and the web.

    raw sentence → tokens → parser → tokens of a program → raw program

It is fitted to the raw pairs of the training data, and kept in the model folder as `text.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from nqg.errors import SettingsError
from nqg.files import read_json, write_text
from nqg.settings_reader import read_dataclass
from nqg.text.programs import ProgramTokenizer, fit_programs
from nqg.text.sentences import AS_IS, SentenceTokenizer, fit_sentences, without_courtesy
from nqg.text.sentences import TokenizedSentence as TokenizedSentence
from nqg.text.slots import Slots, open_texts, read_slots

FILE = "text.json"  # in a model folder


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How raw text becomes tokens; "auto" lets the training data decide."""

    sentences: Literal["auto", "words", "spaces"] = "auto"
    casing: Literal["auto", "lower", "keep"] = "auto"
    punctuation: Literal["auto", "drop", "keep"] = "auto"
    courtesy: Literal["auto", "drop", "keep"] = "auto"
    programs: Literal["auto", "code", "spaces"] = "auto"
    slots: Literal["auto", "given"] = "auto"
    today: str = ""  # the day on which training sentences were said, if programs have dates for "tomorrow"

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if (value := getattr(self, name)) not in get_args(hint) and name != "today":
                raise SettingsError(f"{name} is '{value}'; expected {', '.join(get_args(hint))}")
        _ = self.day

    @property
    def day(self) -> date | None:
        try:
            return date.fromisoformat(self.today) if self.today else None
        except ValueError as error:
            raise SettingsError(f"today is '{self.today}'; expected a day such as 2026-11-16") from error


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """From raw text to tokens and back; the default leaves text that is tokenised already as it is.

    >>> pairs = [("Turn on the lamp, please.", "on(lamp)"), ("Is the fan on?", "is_on(fan)")]
    >>> text = Preprocessor.fit(pairs)
    >>> text.training_pair(*pairs[0])
    ('turn on the lamp', 'on ( lamp )')
    >>> text.programs.render("on ( fan )".split())
    'on(fan)'
    """

    sentences: SentenceTokenizer = AS_IS
    programs: ProgramTokenizer = ProgramTokenizer()  # noqa: RUF009 (frozen)
    courtesy: Literal["drop", "keep"] = "keep"
    slots: Slots = Slots()  # noqa: RUF009 (frozen)

    @classmethod
    def fit(
        cls,
        pairs: Sequence[tuple[str, str]],
        settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
        slots: Mapping[str, Any] | None = None,
        place: Path | None = None,
    ) -> Preprocessor:
        """What suits pairs of raw sentences and programs; polite frames stay in sentences that need no other change.

        `slots` are those of a settings file at `place`. Raw text has the built-in ones that both sides of the pairs
        show, too, and free text where programs quote words of sentences.
        """
        chosen: dict[str, Any] = {name: None if value == "auto" else value for name, value in asdict(settings).items()}
        programs = fit_programs((program for _, program in pairs), chosen.pop("programs"))
        del chosen["today"]
        courtesy, scheme, finds_slots = chosen.pop("courtesy"), chosen.pop("sentences"), chosen.pop("slots") != "given"
        if scheme is None and programs.scheme == "code":
            scheme = "words"  # what is tokenised is so on both sides
        meanings = [(sentence, programs.normalized(program)) for sentence, program in pairs]
        sentences = fit_sentences(meanings, scheme, **chosen)
        if courtesy is None:
            is_tokenised = all(sentences.tokenize(sentence) == tuple(sentence.split()) for sentence, _ in pairs)
            courtesy = "keep" if is_tokenised else "drop"
        text = cls(sentences, programs, courtesy)
        declared = read_slots(slots or {}, place, sentences.tokenize)
        read = [text.training_sentence(*pair) for pair in pairs]
        if not declared and (text.is_plain or not finds_slots):
            return text
        finds_others = finds_slots and not text.is_plain
        fit = partial(Slots.fit, read, cut=programs.tokenize, today=settings.day, finds_others=finds_others)
        found = fit(declared)
        texts = open_texts(read, found) if finds_others else []
        return replace(text, slots=fit([*declared, *texts]) if texts else found)

    def training_sentence(self, sentence: str, program: str) -> tuple[TokenizedSentence, tuple[str, ...]]:
        """A raw pair as tokens; of polite frames only words that the program has are kept."""
        tokens, target = self.sentences.tokens(sentence), self.programs.normalized(program)
        if self.courtesy == "drop":
            bare, named = without_courtesy(tokens), {token.lower() for token in target}
            tokens = bare if named.isdisjoint(token.text for token in set(tokens) - set(bare)) else tokens
        return TokenizedSentence(sentence, tokens), target

    def training_pair(self, sentence: str, program: str) -> tuple[str, str]:
        """A raw pair as the grammar and the model learn from it: tokens with single spaces between them."""
        tokens, target = self.training_sentence(sentence, program)
        return " ".join(tokens.words), " ".join(target)

    def tokenized(self, sentence: str) -> list[TokenizedSentence]:
        """The ways to read a sentence, the first to be tried first: without polite frames and with them."""
        tokens = self.sentences.tokens(sentence)
        bare = tokens if self.is_plain else without_courtesy(tokens)
        ways = [tokens] if bare == tokens else [bare, tokens] if self.courtesy == "drop" else [tokens, bare]
        return [TokenizedSentence(sentence, way) for way in ways]

    @property
    def is_plain(self) -> bool:
        """Whether sentences and programs are taken as they are, cut at white space."""
        return self == Preprocessor()

    def write(self, path: Path) -> None:
        """Write it as JSON, and names of slots beside it; `read` gives it back."""
        values: dict[str, Any] = {name: asdict(getattr(self, name)) for name in ("sentences", "programs")}
        values |= {"courtesy": self.courtesy} | ({"slots": self.slots.to_dict()} if self.slots.slots else {})
        self.slots.write_names(path.parent)
        write_text(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Preprocessor:
        """What `write` wrote; anything else is refused with the reason."""
        values = read_json(path)
        slots = values.pop("slots", None) if isinstance(values, dict) else None
        text = read_dataclass(_StoredText, values, "the text settings", path, complete=True)
        found = cls(text.sentences, text.programs, text.courtesy)
        if slots is None:
            return found
        return replace(found, slots=Slots.from_dict(slots, path.parent, text.programs.tokenize))


@dataclass(frozen=True, slots=True)
class _StoredText:
    """Everything but the slots."""

    sentences: SentenceTokenizer
    programs: ProgramTokenizer
    courtesy: Literal["drop", "keep"]
