"""The learning curve: growing parts of the examples, and held-out ones that no part has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from nqg import Answer, Example
from nqg.errors import NqgError
from nqg.pipeline.learning_curve import learning_curve

EXAMPLES = [Example(f"say {number}", f"say({number})") for number in range(50)]


class Memory:
    """Answers the sentences that it knows, and the others with a wrong program if even."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.known = {example.source for example in examples}
        self.asked: list[str] = []

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        for sentence in sentences:
            self.asked.append(sentence)
            number = int(sentence.split()[-1])
            yield Answer(sentence, "wrong" if number % 2 == 0 else None)


def test_parts_grow_and_no_part_has_a_held_out_sentence() -> None:
    systems: list[Memory] = []

    def learn(part: Sequence[Example]) -> Memory:
        systems.append(Memory(part))
        return systems[-1]

    points = list(learning_curve([*EXAMPLES, *EXAMPLES], learn))
    # Repeated pairs count once.
    assert [point.examples for point in points] == [10, 20, 30, 40]
    for smaller, larger in pairwise(systems):
        assert smaller.known < larger.known
        assert smaller.asked == larger.asked
    assert len(systems[0].asked) == 10
    assert not systems[-1].known & set(systems[-1].asked)
    # An abstention is neither answered nor right.
    even = sum(int(each.split()[-1]) % 2 == 0 for each in systems[0].asked)
    assert {point.scores.answered for point in points} == {even}
    assert {point.scores.right for point in points} == {0}


def test_the_seed_decides_what_is_held_out() -> None:
    def asked(seed: int) -> list[str]:
        systems: list[Memory] = []

        def learn(part: Sequence[Example]) -> Memory:
            systems.append(Memory(part))
            return systems[-1]

        list(learning_curve(EXAMPLES, learn, seed))
        return systems[0].asked

    assert asked(0) == asked(0) != asked(1)


def test_too_few_examples_have_no_curve() -> None:
    with pytest.raises(NqgError, match="at least 20 examples, found 19 examples"):
        list(learning_curve(EXAMPLES[:19], Memory))
