"""What every sequence-to-sequence model can be asked, whichever runtime answers and whether or not
it decodes under types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from nqg.answers import Answer


@runtime_checkable
class Seq2seqReader(Protocol):
    """A `Seq2seq`, a `LegalSeq2seq` or a `QuantizedSeq2seq`, or one of them that reads raw sentences."""

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        """The target of each sentence, with its probability."""
        ...

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        """Up to `count` different targets of each sentence, the likeliest first, each with its
        probability.
        """
        ...

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The natural logarithm of p(target | sentence) for each pair (sentence, target), under
        the free model.
        """
        ...


def distinct_candidates(answers: Iterable[Answer]) -> list[Answer]:
    """The answers to one sentence with each target once, the likeliest first.

    Two sequences of subwords may spell one target, so their probabilities are added up.

    >>> spelled = [Answer("a", "x", 0.3), Answer("a", "y", 0.4), Answer("a", "x", 0.2)]
    >>> [(answer.target, answer.probability) for answer in distinct_candidates(spelled)]
    [('x', 0.5), ('y', 0.4)]
    """
    by_target: dict[str, Answer] = {}
    for answer in answers:
        target = answer.target
        if target is None:
            continue
        earlier = by_target.get(target)
        if earlier is not None:
            total = (earlier.probability or 0.0) + (answer.probability or 0.0)
            answer = replace(earlier, probability=total)
        by_target[target] = answer
    return sorted(
        by_target.values(),
        key=lambda answer: (-(answer.probability or 0.0), answer.target),
    )
