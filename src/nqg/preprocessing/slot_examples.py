"""Examples with slots in the place of values, and values for pairs that a grammar with slots draws."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nqg.data.example import Example
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.slots.delexicalize import delexicalize_pairs, strip_indices
from nqg.slots.mention import Tokens


class SlotValue(NamedTuple):
    """A value of a slot: words of a sentence as they were written, and what the program has for them."""

    words: str
    value: str


@dataclass(frozen=True, slots=True)
class SlotExamples:
    """Delexicalised examples, and the values that each slot had."""

    examples: Sequence[Example]
    values: Mapping[str, list[SlotValue]] = field(default_factory=dict)

    @classmethod
    def of(cls, raw: Sequence[Example], text: Preprocessor, *, is_distinct: bool) -> SlotExamples:
        """The examples as in training; with `is_distinct`, each pair of sentence and program counts once."""
        pairs = [text.training_sentence(example.source, example.target) for example in raw]
        examples: list[Example] = []
        seen: set[tuple[Tokens, Tokens]] = set()
        values = defaultdict[str, list[SlotValue]](list)
        for (sentence, target), pair in zip(
            pairs, delexicalize_pairs(text.slots, pairs), strict=True
        ):
            if (
                is_distinct and (sentence.words, target) in seen
            ):  # those that differ in values alone all count
                continue
            seen.add((sentence.words, target))
            examples.append(
                Example(" ".join(strip_indices(pair.source)), " ".join(strip_indices(pair.target)))
            )
            for mention in pair.mentions:
                words = sentence.as_written(mention.start, mention.end)
                values[mention.token].append(SlotValue(words, " ".join(mention.value)))
        return cls(examples, values)

    def with_values(self, pairs: Iterable[Example], rng: random.Random) -> list[Example]:
        """Pairs with values of the examples for slots, drawn as often as there.

        All places of a slot in a pair have one value: a drawn pair does not tell which of two numbers in the sentence
        is which in the program.
        """
        return [self._with_values(pair, rng) for pair in pairs]

    def _with_values(self, pair: Example, rng: random.Random) -> Example:
        chosen: dict[str, SlotValue] = {}
        for token in pair.source_tokens:
            if token in self.values and token not in chosen:
                chosen[token] = rng.choice(self.values[token])
        words = [chosen[token].words if token in chosen else token for token in pair.source_tokens]
        program = [
            chosen[token].value if token in chosen else token for token in pair.target_tokens
        ]
        return Example(" ".join(words), " ".join(program))
