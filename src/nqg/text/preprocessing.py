"""What happens to text before and after parsing: one description for training, parsing, evaluation and the web.

    raw sentence → tokens → parser → tokens of a program → raw program

It is fitted to the raw pairs of the training data, and kept in the model folder as `text.json`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from nqg.errors import SettingsError
from nqg.files import read_json, write_text
from nqg.settings_reader import read_dataclass
from nqg.text.courtesy import without_courtesy
from nqg.text.programs import ProgramTokenizer, fit_programs
from nqg.text.sentences import AS_IS, SentenceTokenizer, fit_sentences
from nqg.text.sentences import TokenizedSentence as TokenizedSentence

FILE = "text.json"  # in a model folder


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How raw text becomes tokens; "auto" lets the training data decide."""

    sentences: Literal["auto", "words", "spaces"] = "auto"
    casing: Literal["auto", "lower", "keep"] = "auto"
    punctuation: Literal["auto", "drop", "keep"] = "auto"
    courtesy: Literal["auto", "drop", "keep"] = "auto"
    programs: Literal["auto", "code", "spaces"] = "auto"

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if (value := getattr(self, name)) not in get_args(hint):
                raise SettingsError(f"{name} is '{value}'; expected {', '.join(get_args(hint))}")


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

    @classmethod
    def fit(cls, pairs: Sequence[tuple[str, str]], settings: TextSettings = TextSettings()) -> Preprocessor:  # noqa: B008
        """What suits pairs of raw sentences and programs; polite frames stay in sentences that need no other change."""
        chosen: dict[str, Any] = {name: None if value == "auto" else value for name, value in asdict(settings).items()}
        programs = fit_programs((program for _, program in pairs), chosen.pop("programs"))
        courtesy, scheme = chosen.pop("courtesy"), chosen.pop("sentences")
        if scheme is None and programs.scheme == "code":
            scheme = "words"  # what is tokenised is so on both sides
        meanings = [(sentence, programs.normalized(program)) for sentence, program in pairs]
        sentences = fit_sentences(meanings, scheme, **chosen)
        if courtesy is None:
            is_tokenised = all(sentences.tokenize(sentence) == tuple(sentence.split()) for sentence, _ in pairs)
            courtesy = "keep" if is_tokenised else "drop"
        return cls(sentences, programs, courtesy)

    def training_pair(self, sentence: str, program: str) -> tuple[str, str]:
        """A raw pair as the grammar and the model learn from it: tokens with single spaces between them."""
        tokens, target = self.sentences.tokens(sentence), self.programs.normalized(program)
        if self.courtesy == "drop":
            bare, named = without_courtesy(tokens), {token.lower() for token in target}
            tokens = bare if named.isdisjoint(token.text for token in set(tokens) - set(bare)) else tokens
        return " ".join(token.text for token in tokens), " ".join(target)

    def tokenized(self, sentence: str, known: Collection[str] = ()) -> list[TokenizedSentence]:
        """The ways to read a sentence, the first to be tried first: without polite frames and with them.

        `known` are the words of the grammar; see `without_courtesy`.
        """
        tokens = self.sentences.tokens(sentence)
        found = [tokens] if self.is_plain else [tokens, without_courtesy(tokens, known)]
        ways = list(dict.fromkeys(reversed(found) if self.courtesy == "drop" else found))
        return [TokenizedSentence(sentence, way) for way in ways]

    @property
    def is_plain(self) -> bool:
        """Whether sentences and programs are taken as they are, cut at white space."""
        return self == Preprocessor()

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Preprocessor:
        """What `write` wrote; anything else is refused with the reason."""
        return read_dataclass(cls, read_json(path), "the text settings", path, complete=True)
