"""NQG-T5: the grammar's answer where it has one, another system's where it has none, and always who answered.

Section 4 of the paper. With a gate (`nqg.inference.gate`) the other system is also asked where the grammar is not sure
of its answer. It is asked about no other sentences, and about all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nqg.errors import NqgError
from nqg.inference.fallback import Fallback, spaced
from nqg.inference.gate import Gate
from nqg.inference.parser import Parse

Answerer = Literal["grammar", "fallback"]


class GrammarParser(Protocol):
    """What the hybrid needs of `Parser`."""

    def parse_all(self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False) -> list[Parse]:
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


@dataclass(frozen=True)
class Hybrid:
    """A parser, a system that answers in its stead, and perhaps a gate; without one, the grammar is first."""

    parser: GrammarParser
    fallback: Fallback
    gate: Gate | None = None

    def answer(self, sentence: str, *, readings: int = 0, only_legal: bool = False) -> Answer:
        """The program of a sentence."""
        return self.answers([sentence], readings=readings, only_legal=only_legal)[0]

    def answers(self, sentences: Iterable[str], *, readings: int = 0, only_legal: bool = False) -> list[Answer]:
        """The programs of several sentences; `readings` and `only_legal` are those of `Parser.parse_all`."""
        sentences = list(sentences)
        parses = self.parser.parse_all(sentences, readings=readings, only_legal=only_legal)
        doubts = [doubt(parse, self.gate) for parse in parses]
        handed_over = [sentence for sentence, reason in zip(sentences, doubts, strict=True) if reason]
        said = predictions(self.fallback, handed_over)
        return [
            _answer(sentence, parse, reason, said.get(sentence))
            for sentence, parse, reason in zip(sentences, parses, doubts, strict=True)
        ]


def doubt(parse: Parse, gate: Gate | None) -> str:
    """Why the fallback is asked about a sentence; nothing where the grammar's answer is taken."""
    if parse.best is None:
        return parse.reason
    if gate is None or gate.lets_pass(parse.best.probability):
        return ""
    return f"probability {parse.best.probability:.6g} is below {gate.threshold:g}"


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
