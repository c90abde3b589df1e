"""NQG-T5: the grammar's answer where it has one, another system's where it has none, and always who answered.

Section 4 of the paper. With a gate (`nqg.inference.gate`) the other system is also asked where the grammar is not sure
of its answer. It is asked about no other sentences, and about many at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from nqg.errors import NqgError
from nqg.inference.fallback import Fallback, spaced
from nqg.inference.gate import Gate
from nqg.inference.parser import Parser
from nqg.inference.reading import Parse
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq

Answerer = Literal["grammar", "fallback"]
FALLBACK, GATE = "seq2seq", "gate.json"  # in a model folder
WINDOW = 1024  # sentences that are parsed before the fallback is asked about some of them


class GrammarParser(Protocol):
    """What the hybrid needs of `Parser`."""

    def parse_all(
        self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False, marginals: bool = False
    ) -> list[Parse]:
        """What each sentence means, according to the grammar."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence's program, and who gave it; `reason` says why the grammar, or nobody, did not."""

    source: str
    target: str | None
    by: Answerer | None
    parse: Parse
    said: str | None = None  # by the fallback, where it was asked
    reason: str = ""

    @classmethod
    def of_grammar(cls, parse: Parse) -> Answer:
        """The answer of a parser that has no fallback."""
        by: Answerer | None = "grammar" if parse.best else None
        return cls(" ".join(parse.source), parse.target, by, parse, reason=parse.reason)


@dataclass(frozen=True)
class Hybrid:
    """A parser, a system that answers in its stead, and perhaps a gate; without one, the grammar is first."""

    parser: GrammarParser
    fallback: Fallback
    gate: Gate | None = None

    def answer(self, sentence: str, *, readings: int = 0, only_legal: bool = False, marginals: bool = False) -> Answer:
        """The program of a sentence."""
        return next(self.answers([sentence], readings=readings, only_legal=only_legal, marginals=marginals))

    def answers(
        self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False, marginals: bool = False
    ) -> Iterator[Answer]:
        """The program of each sentence of a stream; the options are those of `Parser.parses`."""
        stream = iter(sentences)
        while window := list(islice(stream, WINDOW)):
            parses = self.parser.parse_all(window, readings=readings, only_legal=only_legal, marginals=marginals)
            yield from self._window(window, parses)

    def _window(self, sentences: Sequence[str], parses: Sequence[Parse]) -> list[Answer]:
        doubts = [doubt(parse, self.gate) for parse in parses]
        handed_over = [sentence for sentence, reason in zip(sentences, doubts, strict=True) if reason]
        said = predictions(self.fallback, handed_over)
        return [
            _answer(sentence, parse, reason, said.get(sentence))
            for sentence, parse, reason in zip(sentences, parses, doubts, strict=True)
        ]

    @classmethod
    def load(cls, folder: Path | str, device: str | None = None, *, is_free: bool = False) -> Hybrid:
        """The hybrid in a model folder.

        Where the folder has a grammar of legal targets, the fallback can write no others, unless it `is_free` to.
        """
        folder = Path(folder)
        parser = Parser.load(folder, device)
        if not has_fallback(folder):
            raise NqgError(f"{folder} holds a parser without a fallback; train one into it with: nqg train … --seq2seq")
        seq2seq, legal = Seq2seq.load(folder / FALLBACK, device), parser.model.target_grammar
        fallback = LegalSeq2seq(seq2seq, legal) if legal and not is_free else seq2seq
        gate = folder / GATE
        return cls(parser, fallback, Gate.read(gate) if gate.exists() else None)

    def save(self, folder: Path | str) -> None:
        """Write everything that `load` needs into a folder, whole or not at all."""
        if not isinstance(self.parser, Parser):
            raise NqgError(f"a model folder holds a Parser, found {type(self.parser).__name__}")
        self.parser.save(folder, also=lambda part: write_fallback(part, self.fallback, self.gate))


def has_fallback(folder: Path | str) -> bool:
    """Whether a model folder holds a hybrid."""
    return (Path(folder) / FALLBACK).is_dir()


def write_fallback(folder: Path, fallback: Fallback, gate: Gate | None) -> None:
    """Write into the model folder of a parser what makes it that of a hybrid."""
    seq2seq = fallback.seq2seq if isinstance(fallback, LegalSeq2seq) else fallback
    if not isinstance(seq2seq, Seq2seq):
        raise NqgError(
            f"a model folder holds a Seq2seq as fallback, found {type(seq2seq).__name__}; "
            "save the parser alone, and join them again with Hybrid(parser, fallback)"
        )
    seq2seq.save(folder / FALLBACK)
    if gate is not None:
        gate.write(folder / GATE)


def doubt(parse: Parse, gate: Gate | None) -> str:
    """Why the fallback is asked about a sentence; nothing where the grammar's answer is taken."""
    if parse.best is None:
        return parse.reason
    return gate.objection(parse.best.probability) if gate else ""


def predictions(fallback: Fallback, sentences: Sequence[str]) -> dict[str, str | None]:
    """What the fallback says of each sentence; it is asked once, and not at all where there is nothing to ask."""
    asked = list(dict.fromkeys(sentences))
    said = fallback.predict(asked) if asked else []
    if len(said) != len(asked):
        raise NqgError(f"the fallback was asked about {len(asked)} sentences and gave {len(said)} answers")
    targets = (None if target is None else spaced(target) or None for target in said)
    return dict(zip(asked, targets, strict=True))


def _answer(sentence: str, parse: Parse, reason: str, said: str | None) -> Answer:
    if not reason:
        return Answer(sentence, parse.target, "grammar", parse)
    if said is not None:
        return Answer(sentence, said, "fallback", parse, said, reason)
    reason = f"{reason}, and the fallback has no answer"
    return Answer(sentence, parse.target, "grammar" if parse.best else None, parse, None, reason)
