"""Where `nqg evaluate` has replies from: a parser, a hybrid, or files of predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.cli.terminal import tracked
from nqg.data.example import Example

if TYPE_CHECKING:
    from nqg.evaluation.evaluation import Reply
    from nqg.inference.hybrid import Hybrid
    from nqg.inference.parser import Parser

TOGETHER = 256  # sentences that are answered before the bar moves


@dataclass(frozen=True, slots=True)
class Replies:
    """What a system replies to examples, and perhaps what its fallback does; both to all of them."""

    own: Sequence[Reply]
    fallback: Sequence[Reply] | None = None


def read_replies(path: Path, examples: Sequence[Example]) -> list[Reply]:
    """What a file says of every example."""
    from nqg.evaluation.evaluation import Reply
    from nqg.inference.fallback import PredictionFile

    said = PredictionFile.read(path, refuses_unknown=True).predict([example.source for example in examples])
    return [Reply(target, path.name, reason="" if target else "no prediction") for target in said]


def parsers_replies(parser: Parser, examples: Sequence[Example], *, only_legal: bool) -> Replies:
    """What a parser says, with a bar while it does."""
    from nqg.evaluation.evaluation import Reply

    parses = (parse for part in _parts(examples) for parse in parser.parse_all(part, only_legal=only_legal))
    return Replies([Reply(parse.target, "grammar", parse.probability, parse.reason) for parse in parses])


def hybrids_replies(hybrid: Hybrid, examples: Sequence[Example], *, only_legal: bool) -> Replies:
    """What both parts of a hybrid say; an answer of the grammar that the gate holds back is an abstention."""
    from nqg.evaluation.evaluation import Reply
    from nqg.inference.hybrid import doubt, predictions

    own, others = [], []
    for part in _parts(examples):
        said = predictions(hybrid.fallback, part)
        for sentence, parse in zip(part, hybrid.parser.parse_all(part, only_legal=only_legal), strict=True):
            # A doubtful answer is better than none, where the fallback has none.
            reason = doubt(parse, hybrid.gate) if said[sentence] else parse.reason
            own.append(Reply(None if reason else parse.target, "grammar", parse.probability, reason))
            others.append(Reply(said[sentence], "fallback", reason="" if said[sentence] else "no answer"))
    return Replies(own, others)


def _parts(examples: Sequence[Example]) -> Iterator[list[str]]:
    """The sentences, some at a time, with a bar."""
    starts = range(0, len(examples), TOGETHER)
    for start in tracked(starts, "answering", len(starts)):
        yield [example.source for example in examples[start : start + TOGETHER]]
