"""NQG-T5: the grammar's answer where it has one, another system's where it has none, and always who answered.

Section 4 of the paper. With a `Gate` the other system is also asked where the grammar is not sure of its
answer. It is asked about no other sentences, and about many at once.
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
from nqg.model.checkpoint import RECORDS_FILE, Record, record_lines
from nqg.model_folder import SEQ2SEQ_KIND, is_of_kind, pretrained, push_to_hub
from nqg.preprocessing.preprocessor import FILE as TEXT
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.settings_reader import read_dataclass

if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq

FALLBACK, GATE = "seq2seq", "gate.json"  # in a model folder
NEVER = 2.0  # more than any probability
DECIMALS = 6  # so that 1 - 1e-12, which is rounding, counts as 1


@dataclass(frozen=True)
class Hybrid:
    """A parser, a system that answers in its stead, and perhaps a gate; without one, the grammar is first.

    The fallback is asked only about sentences that need it, unless the hybrid `asks_both`, so that both can be scored.
    """

    parser: System
    fallback: System
    gate: Gate | None = None
    asks_both: bool = False
    fallback_name: str = "fallback"

    def with_options(self, options: DecodeOptions) -> Hybrid:
        """The same hybrid whose parser answers in another way."""
        return (
            replace(self, parser=self.parser.with_options(options))
            if isinstance(self.parser, Parser)
            else self
        )

    def parse(self, sentence: str, *, readings: int = 0) -> Answer:
        """The answer to one sentence with all that explains it, as `Parser.parse` gives it."""
        if not isinstance(self.parser, Parser):
            return next(self.answers([sentence]))
        options = replace(self.parser.options, readings=readings, marginals=True, gaps=True)
        return explained(next(self.with_options(options).answers([sentence])))

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        """The answer to each sentence of a stream, in their order."""
        return self._answers(checked_sentences(sentences))

    def _answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        for window in windows(sentences):
            pairs = list(zip(window, self.parser.answers(window), strict=True))
            # The fallback is asked about each sentence that needs it once, and about all of them together.
            asked = dict.fromkeys(
                sentence for sentence, own in pairs if self.asks_both or objection(own, self.gate)
            )
            others = dict(zip(asked, self._fallbacks_answers(list(asked)), strict=True))
            for sentence, own in pairs:
                if sentence in others:
                    yield combine(own, others[sentence], self.gate)
                else:
                    yield replace(own, parts=(own,))

    def _fallbacks_answers(self, sentences: Sequence[str]) -> list[Answer]:
        """What the fallback says of different sentences; it is not asked where there is nothing to ask."""
        if not sentences:
            return []
        answers = list(self.fallback.answers(sentences))
        if len(answers) != len(sentences):
            raise NqgError(
                f"the fallback was asked about {len(sentences)} sentences and gave {len(answers)} answers"
            )
        named = []
        for answer in answers:
            target = " ".join((answer.target or "").split())
            named.append(replace(answer, target=target or None, system=self.fallback_name))
        return named

    @classmethod
    def load(
        cls, folder: Path | str, device: str | None = None, *, is_free: bool = False
    ) -> Hybrid:
        """The hybrid in a model folder.

        Where the folder has a grammar of legal targets, the fallback can write no others, unless it `is_free` to.
        """
        from nqg.seq2seq import quantized, seq2seq  # which load transformers

        folder = Path(folder)
        parser = Parser.load(folder, device)
        if not has_fallback(folder):
            raise NqgError(
                f"{folder} holds a parser without a fallback; train one into it with: nqg train … --seq2seq"
            )
        free, legal = seq2seq.Seq2seq.load(folder / FALLBACK, device), parser.model.legal_programs
        fast = quantized.QuantizedSeq2seq.load(free, folder / FALLBACK, None if is_free else legal)
        gate = Gate.read(folder / GATE) if (folder / GATE).exists() else None
        return cls.joined(parser, free, gate, fast=fast, is_free=is_free)

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
        """A parser and a fallback that was trained on the same examples; `fast` may answer in the fallback's stead."""
        from nqg.seq2seq.legal_decoding import LegalSeq2seq  # which loads transformers

        legal = None if is_free else parser.model.legal_programs
        fallback: System = LegalSeq2seq(seq2seq, legal) if legal else seq2seq
        if fast is not None:
            fallback = fast
        if not parser.model.text.is_plain:
            fallback = TokenSystem(fallback, parser.model.text, bool(parser.model.text.slots))
        return cls(parser, fallback, gate)

    @classmethod
    def from_pretrained(
        cls, name_or_folder: Path | str, device: str | None = None, *, revision: str | None = None
    ) -> Hybrid:
        """The hybrid in a model folder or, where there is none, on the Hugging Face Hub as `owner/name`."""
        with pretrained(name_or_folder, revision) as folder:
            return cls.load(folder, device)

    def push_to_hub(
        self, name: str, *, message: str = "Upload with nqg", private: bool | None = None
    ) -> str:
        """Upload the hybrid, with its card, to the Hugging Face Hub as `owner/name`; gives the commit's address."""
        return push_to_hub(self.save, name, message, private)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        if not isinstance(self.parser, Parser):
            raise NqgError(f"a model folder holds a Parser, found {type(self.parser).__name__}")
        self.parser.save(folder, also=lambda part: write_fallback(part, self.fallback, self.gate))


@dataclass(frozen=True, slots=True)
class TokenSystem:
    """A system that was taught tokens, asked about raw sentences for raw programs."""

    system: System
    text: Preprocessor
    keeps_casing: bool = False  # of words as they were typed
    records: tuple[Record, ...] = ()  # of the steps of its training, where it was trained here

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None) -> TokenSystem:
        """A system without a grammar, as `nqg.paper` trains them."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        found, text = Seq2seq.load(folder, device), Path(folder) / TEXT
        return cls(found, Preprocessor.read(text) if text.exists() else Preprocessor())

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        from nqg.seq2seq.seq2seq import Seq2seq  # which loads transformers

        def write_more(part: Path) -> None:
            self.text.write(part / TEXT)
            write_text(part / RECORDS_FILE, record_lines(self.records))

        if not isinstance(self.system, Seq2seq):
            raise NqgError(f"a model folder holds a Seq2seq, found {type(self.system).__name__}")
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
        raw = list(sentences)
        tokenized = [self.text.tokenized(sentence)[0] for sentence in raw]
        read = (
            " ".join(each.words_as_written if self.keeps_casing else each.words)
            for each in tokenized
        )
        for sentence, each, answer in zip(raw, tokenized, self.system.answers(read), strict=True):
            target = (
                None if answer.target is None else self.text.programs.render(answer.target.split())
            )
            yield replace(answer, source=sentence, target=target, words=each.words)


def objection(own: Answer, gate: Gate | None) -> str:
    """Why the grammar's answer is not taken; nothing where it is."""
    if own.target is None:
        return own.reason or "no answer"
    return (
        gate.objection(gate_score(own), "probability" if own.confidence is None else "confidence")
        if gate
        else ""
    )


def gate_score(own: Answer) -> float:
    """What a gate goes by: the confidence of the grammar or, in a model without, its probability."""
    return (own.probability or 0.0) if own.confidence is None else own.confidence


def combine(own: Answer, other: Answer, gate: Gate | None = None) -> Answer:
    """The hybrid's answer: the grammar's where it has one that passes the gate, else the fallback's.

    >>> own, other = Answer("run", "RUN", 0.4, "grammar"), Answer("run", "JOG", system="fallback")
    >>> combine(own, other).target, combine(own, other, Gate(0.5)).target
    ('RUN', 'JOG')
    """
    reason = objection(own, gate)
    if not reason:
        return replace(own, parts=(own, other))
    if other.target is None:  # a doubtful answer is better than none
        return replace(
            own, reason=f"{reason}, and the {other.system} has no answer", parts=(own, other)
        )
    return replace(
        other,
        source=own.source,
        reason=reason,
        parts=(replace(own, target=None, reason=reason), other),
    )


def load(folder: Path | str, device: str | None = None) -> Parser | Hybrid | TokenSystem:
    """What a model folder holds: a parser, a hybrid where there is a fallback, or a system without a grammar."""
    if is_seq2seq_only(folder):
        return TokenSystem.load(folder, device)
    return load_with_grammar(folder, device)


def load_with_grammar(folder: Path | str, device: str | None = None) -> Parser | Hybrid:
    """What a model folder holds, unless it has no grammar."""
    if is_seq2seq_only(folder):
        raise NqgError(
            f"{folder} holds a system without a grammar; `nqg parse`, `evaluate` and `verify` take it"
        )
    return Hybrid.load(folder, device) if has_fallback(folder) else Parser.load(folder, device)


def is_seq2seq_only(folder: Path | str) -> bool:
    """Whether a folder holds a sequence-to-sequence model, and no grammar that asks it."""
    return is_of_kind(Path(folder), SEQ2SEQ_KIND)


def grammar_of(system: System) -> Grammar | None:
    """The grammar that a parser, or the parser of a hybrid, holds; other systems have none."""
    parser = system.parser if isinstance(system, Hybrid) else system
    return parser.grammar if isinstance(parser, Parser) else None


def has_fallback(folder: Path | str) -> bool:
    return (Path(folder) / FALLBACK).is_dir()


def write_fallback(folder: Path, fallback: System, gate: Gate | None) -> None:
    """Write into the model folder of a parser what makes it that of a hybrid."""
    from nqg.seq2seq import legal_decoding, quantized, seq2seq  # which load transformers

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
    """The grammar answers where its confidence is at least `threshold`: 0 is always, more than 1 is never.

    In a model without confidence its probability takes the place. Probability 1 means that there is no other reading,
    which is not the same as being sure: the only rule that fits may fit badly. So whether the gate
    `trusts_only_readings` is a choice of its own.

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
        """Why the grammar's answer of this probability, or confidence, is not taken; nothing where it is."""
        level = round(probability, DECIMALS)
        if level < self.threshold:
            return f"{name} {probability:.6g} is below {self.threshold:g}"
        return (
            ""
            if level < 1 or self.trusts_only_readings
            else "the only reading, which the gate does not trust"
        )

    def __str__(self) -> str:
        if self.threshold > 1:
            return "the fallback answers always"
        where = (
            f"where its confidence is at least {self.threshold:g}"
            if self.threshold
            else "whenever it can"
        )
        return f"the grammar answers {where}{'' if self.trusts_only_readings else ', but not where it is 1'}"

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
        for way, right in asdict(self).items():
            if not 0 <= right <= self.trials:
                raise SettingsError(
                    f"expected 0 to {self.trials} as '{way}' of the calibration, found {right}"
                )

    def __str__(self) -> str:
        _, *ways = asdict(self).items()
        shares = (f"{way.replace('_', ' ')} {right / self.trials:.1%}" for way, right in ways)
        return f"right on {self.trials:,} held-out examples: {', '.join(shares)}"
