"""What happens to text before and after parsing: one description for training, parsing, evaluation
and the web.

    raw sentence → tokens → parser → tokens of a program → raw program

It is fitted to the raw pairs of the training data, and kept in the model folder as `text.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.files import read_json, write_text
from nqg.settings_reader import read_dataclass
from nqg.slots.delexicalize import DelexicalizedPair, delexicalize_pairs
from nqg.slots.matcher import Mention, SlotMatcher
from nqg.text.argument_order import ArgumentOrder
from nqg.text.json_calls import WrittenToken
from nqg.text.programs import ProgramTokenizer
from nqg.text.sentences import (
    AS_IS,
    SentenceTokenizer,
    Token,
    TokenizedSentence,
    strip_politeness,
    with_other_contractions,
)
from nqg.text.sequences import SequenceFormat, SequenceSetting

TEXT_FILE = "text.json"  # in a model folder


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How raw text becomes tokens. "auto" lets the training data decide.

    >>> TextSettings(sequence="allow").sentences
    'auto'
    """

    # How sentences are cut into tokens.
    sentences: Literal["auto", "words", "spaces"] = "auto"
    # Whether upper and lower case of sentences count.
    casing: Literal["auto", "lower", "keep"] = "auto"
    # Whether punctuation of sentences counts.
    punctuation: Literal["auto", "drop", "keep"] = "auto"
    # Whether polite phrases such as "could you" are dropped.
    courtesy: Literal["auto", "drop", "keep"] = "auto"
    # How programs are cut into tokens.
    programs: Literal["auto", "code", "spaces"] = "auto"
    # Order of named arguments in answers: as in training, or as derived ("keep").
    arguments: Literal["auto", "keep"] = "auto"
    # Which slots there are: found ones and those of `[slots]`, or the latter alone ("given").
    slots: Literal["auto", "given"] = "auto"
    # Whether a sentence may have several commands. "auto": if training programs do.
    sequence: SequenceSetting = "auto"
    # Whether copies in programs become traces. "auto": where a keyword always has them.
    traces: Literal["auto", "none"] = "auto"
    # Whether variables may be positions of words. "auto": if they are in training.
    positions: Literal["auto", "none"] = "auto"
    # Whether JSON is learned as calls, `f(key=value)`. "auto": if nearly all programs are calls.
    calls: Literal["auto", "none"] = "auto"
    # Whether the call reader reads sentences, too, without derivations. "auto": if most programs
    # are one call with named arguments.
    call_reader: Literal["auto", "none"] = "auto"
    # The day to which training sentences refer, if programs have dates for "tomorrow".
    today: str = ""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value, options = getattr(self, name), get_args(hint)
            if options and value not in options:
                raise SettingsError(
                    f"{name} is '{value}'; expected {', '.join(options)}"
                )
        _ = self.day

    @property
    def day(self) -> date | None:
        """The day that `today` names."""
        try:
            return date.fromisoformat(self.today) if self.today else None
        except ValueError as error:
            expected = "expected a day such as 2026-11-16"
            raise SettingsError(f"today is '{self.today}'; {expected}") from error


BarePair = tuple[TokenizedSentence, tuple[str, ...]]


class TokenizedPair(NamedTuple):
    """A training pair as tokens, the mentions of values, and the pair with
    placeholders for them.
    """

    sentence: TokenizedSentence
    program: tuple[str, ...]
    mentions: Sequence[Mention] = ()
    delexicalized: DelexicalizedPair | None = None


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """From raw text to tokens and back. The default leaves text that is tokenised already as it is.

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
    slots: SlotMatcher = SlotMatcher()  # noqa: RUF009 (frozen)
    # None where a sentence holds one command.
    sequence: SequenceFormat | None = None
    arguments: ArgumentOrder = ArgumentOrder()  # noqa: RUF009 (frozen)

    @classmethod
    def fit(
        cls,
        pairs: Sequence[tuple[str, str]],
        settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
        slots: Mapping[str, Any] | None = None,
    ) -> Preprocessor:
        """The preprocessor that suits raw pairs. Polite phrases stay in sentences that need no other
        change.

        `slots` are those of a settings file. Raw text has the built-in ones that both
        sides of the pairs show, too, and free text where programs quote words of sentences.
        """
        # Parsing does not need this module.
        from nqg.preprocessing.training_text import fit_text

        examples = [Example(*pair) for pair in pairs]
        return fit_text(examples, settings, slots)

    def tokenized_pairs(self, pairs: Iterable[tuple[str, str]]) -> list[TokenizedPair]:
        """Raw pairs as tokens, with the values that they have."""
        return self.with_values([self.training_sentence(*pair) for pair in pairs])

    def with_values(self, pairs: Sequence[BarePair]) -> list[TokenizedPair]:
        """Pairs of tokens, with the values that they have."""
        if not self.slots:
            return [TokenizedPair(*pair) for pair in pairs]
        mentions = [self.slots.mentions(sentence) for sentence, _ in pairs]
        delexicalized = delexicalize_pairs(self.slots, pairs, mentions)
        return [
            TokenizedPair(*pair, mentioned, bare)
            for pair, mentioned, bare in zip(pairs, mentions, delexicalized)
        ]

    def training_sentence(self, sentence: str, program: str) -> BarePair:
        """A raw pair as tokens. Of polite phrases, only words that the program has are kept."""
        target = self.programs.normalized(program)
        tokens = self.stripped(self.sentences.tokens(sentence), target)
        read = TokenizedSentence(sentence, tokens)
        if self.programs.positions:
            target = self.programs.normalized(program, read.words)
        return read, target

    def stripped(
        self, tokens: tuple[Token, ...], target: Sequence[str]
    ) -> tuple[Token, ...]:
        """The tokens of a training sentence without polite phrases, unless the program has their words."""
        if self.courtesy == "keep":
            return tokens
        bare = strip_politeness(tokens)
        polite = {token.text for token in set(tokens) - set(bare)}
        if polite.isdisjoint(map(str.lower, target)):
            return bare
        return tokens

    def training_pair(self, sentence: str, program: str) -> tuple[str, str]:
        """A raw pair as the grammar and the model learn from it: tokens with single spaces
        between them.
        """
        tokens, target = self.training_sentence(sentence, program)
        return " ".join(tokens.words), " ".join(target)

    def tokenized(self, sentence: str) -> list[TokenizedSentence]:
        """The tokenisations of a sentence to try in turn: without polite phrases, with them, and
        with other contractions (*what is* for *what's*).
        """
        tokens = self.sentences.tokens(sentence)
        if self.is_plain:
            return [TokenizedSentence(sentence, tokens)]
        forms = [tokens, strip_politeness(tokens)]
        if self.courtesy == "drop":
            forms.reverse()
        forms.append(with_other_contractions(forms[0]))
        return [TokenizedSentence(sentence, form) for form in dict.fromkeys(forms)]

    @property
    def is_plain(self) -> bool:
        """Whether sentences and programs are taken as they are, split at white space.

        Programs may have traces, or variables that are positions, all the same.
        """
        programs = replace(self.programs, traces=None, positions=None)
        return replace(self, sequence=None, programs=programs) == Preprocessor()

    def program(self, tokens: Sequence[str], words: Sequence[str] = ()) -> str:
        """The program of tokens for a sentence of `words`, as training data would write it."""
        return self.programs.render(self.arguments.ordered(tokens), words)

    def written(self, tokens: Sequence[str]) -> list[WrittenToken[str]]:
        """The tokens of a program as training data has them, and from which of `tokens` each comes;
        none where that is not known, or where they are the same.
        """
        programs, places = self.programs, self.arguments.places(tokens)
        if programs.traces or programs.positions:
            return []
        written: list[WrittenToken[str]] = []
        for symbol, origin in programs.written(tokens[place] for place in places):
            written.append(WrittenToken(symbol, places[origin]))
        if [token.symbol for token in written] == list(tokens):
            return []
        return written

    def write(self, path: Path) -> None:
        """Write it as JSON, and names of slots beside it. `read` gives it back."""
        values: dict[str, Any] = {
            "sentences": asdict(self.sentences),
            "programs": asdict(self.programs),
            "courtesy": self.courtesy,
        }
        for encoding in ("traces", "positions", "calls"):
            if values["programs"][encoding] is None:
                del values["programs"][encoding]
        if self.slots:
            values["slots"] = self.slots.to_dict()
        if self.sequence:
            values["sequence"] = asdict(self.sequence)
        if self.arguments:
            values["arguments"] = asdict(self.arguments)
        self.slots.write_names(path.parent)
        write_text(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Preprocessor:
        """What `write` wrote. Anything else is refused with the reason."""
        values = read_json(path)
        slots = sequence = arguments = None
        if isinstance(values, dict):
            slots = values.pop("slots", None)
            sequence = values.pop("sequence", None)
            arguments = values.pop("arguments", None)
        stored = read_dataclass(
            _StoredText, values, "the text settings", path, complete=True
        )
        text = cls(stored.sentences, stored.programs, stored.courtesy)
        if sequence is not None:
            form = read_dataclass(
                SequenceFormat, sequence, "the sequences", path, complete=True
            )
            text = replace(text, sequence=form)
        if arguments is not None:
            order = read_dataclass(
                ArgumentOrder, arguments, "the arguments", path, complete=True
            )
            text = replace(text, arguments=order)
        if slots is None:
            return text
        matcher = SlotMatcher.from_dict(slots, path.parent, text.programs.tokenize)
        return replace(text, slots=matcher)


@dataclass(frozen=True, slots=True)
class _StoredText:
    """Everything but what a model need not have: slots, sequences, the order of arguments."""

    sentences: SentenceTokenizer
    programs: ProgramTokenizer
    courtesy: Literal["drop", "keep"]
