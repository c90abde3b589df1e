"""NQG-T5: the grammar's answer where it has one, another system's where it has none, and always who
answered.

Section 4 of the paper. With a `Gate` the other system is also asked where the grammar is not sure
of its answer. It is asked about no other sentences, and about many at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.answers import Answer, System, checked_sentences
from nqg.errors import NqgError, SettingsError
from nqg.files import read_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import explained
from nqg.inference.parser import Parser, windows
from nqg.inference.sequences import sequence_answers
from nqg.model.checkpoint import RECORDS_FILE, Record, record_lines
from nqg.model_folder import SEQ2SEQ_KIND, is_of_kind, pretrained, push_to_hub
from nqg.preprocessing.preprocessor import FILE as TEXT
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.settings_reader import read_dataclass

if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq

FALLBACK, GATE = "seq2seq", "gate.json"  # in a model folder
NEVER = 2.0  # a threshold above any probability; JSON has no infinity
DECIMALS = 6  # of a probability, so that 1 - 1e-12, which is rounding, counts as 1


@dataclass(frozen=True)
class Hybrid:
    """A parser, a system that answers in its stead, and perhaps a gate; without one, the grammar is
    first.

    The fallback is asked only about sentences that need it, unless the hybrid `asks_both`, so that
    both can be scored.
    """

    parser: System
    fallback: System
    gate: Gate | None = None
    asks_both: bool = False
    fallback_name: str = "fallback"

    def with_options(self, options: DecodeOptions) -> Hybrid:
        """The same hybrid whose parser answers in another way."""
        if not isinstance(self.parser, Parser):
            return self
        return replace(self, parser=self.parser.with_options(options))

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence with all that explains it, as `Parser.parse` gives it."""
        if not isinstance(self.parser, Parser):
            return next(self.answers([sentence]))
        options = replace(
            self.parser.options, readings=readings, marginals=True, gaps=True
        )
        return explained(next(self.with_options(options).answers([sentence])))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order."""
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        form = None
        if isinstance(self.parser, Parser):
            form = self.parser.model.text.sequence
        for window in windows(sentences):
            yield from sequence_answers(self.single_answers, window, form)

    def single_answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answers to sentences that are each read as one command."""
        ask = self.parser.answers
        if isinstance(self.parser, Parser):
            ask = self.parser.single_answers
        for window in windows(sentences):
            answers = list(ask(window))
            # The fallback is asked about each sentence that needs it once, and about all together.
            unsolved = []
            for sentence, answer in zip(window, answers):
                if self.asks_both or rejection(answer, self.gate):
                    unsolved.append(sentence)
            fallback = self._fallback_answers(list(dict.fromkeys(unsolved)))
            for sentence, answer in zip(window, answers, strict=True):
                if sentence in fallback:
                    yield combine(answer, fallback[sentence], self.gate)
                else:
                    yield replace(answer, parts=(answer,))

    def _fallback_answers(self, sentences: Sequence[str]) -> dict[str, Answer]:
        """The fallback's answers to different sentences; without a sentence it is not asked."""
        if not sentences:
            return {}
        answers = list(self.fallback.answers(sentences))
        if len(answers) != len(sentences):
            counts = f"about {len(sentences)} sentences and gave {len(answers)} answers"
            raise NqgError(f"the fallback was asked {counts}")
        named = {}
        for sentence, answer in zip(sentences, answers):
            target = " ".join((answer.target or "").split()) or None
            named[sentence] = replace(answer, target=target, system=self.fallback_name)
        return named

    @classmethod
    def load(
        cls, folder: Path | str, device: str | None = None, *, is_free: bool = False
    ) -> Hybrid:
        """The hybrid in a model folder.

        Where the folder has a grammar of legal targets, the fallback can write no others, unless it
        `is_free` to.
        """
        from nqg.seq2seq import quantized, seq2seq  # which load transformers

        folder = Path(folder)
        parser = Parser.load(folder, device)
        if not has_fallback(folder):
            raise NqgError(
                f"{folder} holds a parser without a fallback; train one into it with: nqg train … --seq2seq"
            )
        model = seq2seq.Seq2seq.load(folder / FALLBACK, device)
        legal = None if is_free else parser.model.legal_programs
        fast = quantized.QuantizedSeq2seq.load(model, folder / FALLBACK, legal)
        gate = Gate.read(folder / GATE) if (folder / GATE).exists() else None
        return cls.joined(parser, model, gate, fast=fast, is_free=is_free)

    @classmethod
    def joined(
        cls,
        parser: Parser,
        seq2seq: Seq2seq,
        gate: Gate | None = None,
        *,
        fast: System | None = None,
        is_free: bool = False,
    ) -> Hybrid:
        """A parser and a fallback that was trained on the same examples; `fast` may answer in the
        fallback's stead.
        """
        from nqg.seq2seq.legal_decoding import LegalSeq2seq  # which loads transformers

        text, legal = parser.model.text, parser.model.legal_programs
        fallback: System = fast or seq2seq
        if fast is None and legal and not is_free:
            fallback = LegalSeq2seq(seq2seq, legal)
        if not text.is_plain:
            fallback = TokenSystem(fallback, text, bool(text.slots))
        return cls(parser, fallback, gate)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: Path | str,
        device: str | None = None,
        *,
        revision: str | None = None,
    ) -> Hybrid:
        """The hybrid in a model folder or, where there is none, on the Hugging Face Hub as
        `owner/name`.
        """
        with pretrained(name_or_folder, revision) as folder:
            return cls.load(folder, device)

    def push_to_hub(
        self,
        name: str,
        *,
        message: str = "Upload with nqg",
        private: bool | None = None,
    ) -> str:
        """Upload the hybrid, with its card, to the Hugging Face Hub as `owner/name`; gives the
        commit's address.
        """
        return push_to_hub(self.save, name, message, private)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        if not isinstance(self.parser, Parser):
            raise NqgError(
                f"a model folder holds a Parser, found {type(self.parser).__name__}"
            )
        self.parser.save(
            folder,
            also=lambda staging: write_fallback(staging, self.fallback, self.gate),
        )


@dataclass(frozen=True, slots=True)
class TokenSystem:
    """A system that was taught tokens, asked about raw sentences for raw programs."""

    system: System
    text: Preprocessor
    keeps_casing: bool = False  # of words as they were typed
    records: tuple[
        Record, ...
    ] = ()  # of the steps of its training, where it was trained here

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> TokenSystem:
        """A system without a grammar, as `nqg.paper` trains them."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        path, text = Path(folder) / TEXT, Preprocessor()
        if path.exists():
            text = Preprocessor.read(path)
        return cls(Seq2seq.load(folder, device), text)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        def write_more(staging: Path) -> None:
            self.text.write(staging / TEXT)
            write_text(staging / RECORDS_FILE, record_lines(self.records))

        if not isinstance(self.system, Seq2seq):
            raise NqgError(
                f"a model folder holds a Seq2seq, found {type(self.system).__name__}"
            )
        self.system.save(Path(folder), write_more)

    def with_options(self, options: DecodeOptions) -> TokenSystem:
        """The same system: options of decoding are a grammar's."""
        return self

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence; other readings are a grammar's."""
        return next(self.answers([sentence]))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        tokenized = [self.text.tokenized(sentence)[0] for sentence in sentences]
        read = []
        for sentence in tokenized:
            words = sentence.words_as_written if self.keeps_casing else sentence.words
            read.append(" ".join(words))
        for sentence, answer in zip(tokenized, self.system.answers(read), strict=True):
            target = answer.target
            if target is not None:
                target = self.text.programs.render(target.split())
            yield replace(
                answer, source=sentence.raw, target=target, words=sentence.words
            )


def rejection(answer: Answer, gate: Gate | None) -> str:
    """Why the grammar's answer is not taken; nothing where it is."""
    if answer.target is None:
        return answer.reason or "no answer"
    if gate is None:
        return ""
    name = "probability" if answer.confidence is None else "confidence"
    return gate.objection(gate_score(answer), name)


def gate_score(answer: Answer) -> float:
    """What a gate judges: the grammar's confidence or, in a model without, its probability."""
    if answer.confidence is None:
        return answer.probability or 0.0
    return answer.confidence


def combine(grammar: Answer, fallback: Answer, gate: Gate | None = None) -> Answer:
    """The hybrid's answer: the grammar's where it has one that passes the gate, else the
    fallback's.

    >>> grammar, fallback = Answer("run", "RUN", 0.4), Answer("run", "JOG", system="fallback")
    >>> combine(grammar, fallback).target, combine(grammar, fallback, Gate(0.5)).target
    ('RUN', 'JOG')
    """
    reason, both = rejection(grammar, gate), (grammar, fallback)
    if not reason:
        return replace(grammar, parts=both)
    # A doubtful answer is better than none.
    if fallback.target is None:
        reason = f"{reason}, and the {fallback.system} has no answer"
        return replace(grammar, reason=reason, parts=both)
    held_back = replace(grammar, target=None, reason=reason)
    return replace(
        fallback, source=grammar.source, reason=reason, parts=(held_back, fallback)
    )


def load(
    folder: Path | str, device: str | None = None
) -> Parser | Hybrid | TokenSystem:
    """What a model folder holds: a parser, a hybrid where there is a fallback, or a system without
    a grammar.
    """
    if is_of_kind(Path(folder), SEQ2SEQ_KIND):
        return TokenSystem.load(folder, device)
    return (
        Hybrid.load(folder, device)
        if has_fallback(folder)
        else Parser.load(folder, device)
    )


def load_with_grammar(folder: Path | str, device: str | None = None) -> Parser | Hybrid:
    """What a model folder holds, unless it has no grammar."""
    system = load(folder, device)
    if isinstance(system, TokenSystem):
        commands = "`nqg parse`, `evaluate` and `verify` take it"
        raise NqgError(f"{folder} holds a system without a grammar; {commands}")
    return system


def grammar_of(system: System) -> Grammar | None:
    """The grammar that a parser, or the parser of a hybrid, holds; other systems have none."""
    parser = system.parser if isinstance(system, Hybrid) else system
    return parser.grammar if isinstance(parser, Parser) else None


def has_fallback(folder: Path | str) -> bool:
    return (Path(folder) / FALLBACK).is_dir()


def write_fallback(folder: Path, fallback: System, gate: Gate | None) -> None:
    """Write into the model folder of a parser what makes it that of a hybrid."""
    from nqg.seq2seq import (
        legal_decoding,
        quantized,
        seq2seq,
    )  # which load transformers

    model = fallback.system if isinstance(fallback, TokenSystem) else fallback
    if isinstance(model, legal_decoding.LegalSeq2seq | quantized.QuantizedSeq2seq):
        model = model.seq2seq
    if not isinstance(model, seq2seq.Seq2seq):
        raise NqgError(
            f"a model folder holds a Seq2seq as fallback, found {type(model).__name__}; "
            "save the parser alone, and join them again with Hybrid(parser, fallback)"
        )
    model.save(folder / FALLBACK)
    if gate is not None:
        gate.write(folder / GATE)


@dataclass(frozen=True, slots=True)
class Gate:
    """The grammar answers where its confidence is at least `threshold`: 0 is always, more than 1 is
    never.

    In a model without confidence its probability takes the place. Probability 1 means that there is
    no other reading, which is not the same as being sure: the only rule that fits may fit badly. So
    whether the gate `trusts_only_readings` is a choice of its own.

    >>> [Gate(0.5).accepts(probability) for probability in (0.2, 0.5, 1.0)]
    [False, True, True]
    """

    threshold: float = 0.0
    trusts_only_readings: bool = True
    calibration: Calibration | None = None  # what it was chosen on

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SettingsError(
                f"the gate's threshold is {self.threshold}; expected 0 (always the grammar) or more"
            )

    def accepts(self, probability: float) -> bool:
        """Whether the grammar's answer of this probability is taken."""
        return not self.objection(probability)

    def objection(self, probability: float, name: str = "probability") -> str:
        """Why the grammar's answer of this probability, or confidence, is not taken; nothing where
        it is.
        """
        rounded = round(probability, DECIMALS)
        if rounded < self.threshold:
            return f"{name} {probability:.6g} is below {self.threshold:g}"
        if rounded >= 1 and not self.trusts_only_readings:
            return "the only reading, which the gate does not trust"
        return ""

    def __str__(self) -> str:
        if self.threshold > 1:
            return "the fallback answers always"
        where = "whenever it can"
        if self.threshold:
            where = f"where its confidence is at least {self.threshold:g}"
        if not self.trusts_only_readings:
            where += ", but not where it is 1"
        return f"the grammar answers {where}"

    def write(self, path: Path) -> None:
        """Write the gate as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Gate:
        """What `write` wrote; anything else is refused with the reason."""
        return read_dataclass(cls, read_json(path), "the gate", path, complete=True)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many held-out sentences each way of answering gets right."""

    trials: int
    grammar_alone: int
    fallback_alone: int
    grammar_first: int  # the paper's hybrid
    gated: int

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise SettingsError(
                f"expected at least one trial in the calibration, found {self.trials}"
            )
        for name, right in asdict(self).items():
            if not 0 <= right <= self.trials:
                expected = f"expected 0 to {self.trials} as '{name}' of the calibration"
                raise SettingsError(f"{expected}, found {right}")

    def __str__(self) -> str:
        _, *counts = asdict(self).items()
        shares = [
            f"{name.replace('_', ' ')} {right / self.trials:.1%}"
            for name, right in counts
        ]
        return f"right on {self.trials:,} held-out examples: {', '.join(shares)}"
