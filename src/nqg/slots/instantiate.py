"""Slots in a grammar: `@time ### @time` reads whatever is a time in a sentence, and yields its value.

What a slot may read is known when there is a sentence. Each value that is found there is a rule of its own, such as
`half past six ### 6:30`, with the type and the score of the slot's rule; readings that overlap are alternatives like
any others. Charts know the spans of values and, of free text, how long it may be; what a value means is asked when a
derivation has it, or a target is to be derived. In all other rules a slot is a non-terminal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import chain

import numpy as np

from nqg.errors import LimitExceeded
from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.encoding import (
    MOST_RULES,
    UNKNOWN_WORD,
    EncodedGrammar,
    FreeTextIds,
    free_text_id,
    free_text_row,
    free_text_span,
)
from nqg.grammar.grammar import SLOT, Grammar, Rule, SlotInstance, Symbol
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import offsets_from_lengths
from nqg.slots.matcher import SlotMatcher
from nqg.slots.mention import Mention, Sentence, longest_spans, spans_matching_target, words_of
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Typing

Tokens = Sequence[str]


@dataclass(frozen=True)
class SlotInstances:
    """A grammar as it reads certain sentences: the values in them are rules, whose numbers come behind its own."""

    grammar: Grammar
    sentences: Sequence[Sentence]
    mentions: Sequence[Sequence[Mention]]

    def __len__(self) -> int:
        """How many rules the grammar has, and a model scores."""
        return len(self.grammar)

    def __getitem__(self, number: int) -> Rule:
        if number < len(self.grammar):
            return self.grammar[number]
        sentence, mention = self._value(number)
        rule_id = int(self.model_rule_ids(np.array([number], dtype=np.int32))[0])
        slot, rule = self.grammar.slot_rules[rule_id], self.grammar[rule_id]
        target: list[Symbol] = []
        for symbol in rule.target:
            target += mention.value if symbol == slot else [symbol]
        return SlotInstance(
            self.sources[sentence][mention.start : mention.end], tuple(target), rule
        )

    @property
    def numbers(self) -> Mapping[Rule, int]:
        return self.grammar.numbers

    @property
    def typing(self) -> Typing | None:
        return self.grammar.typing

    @property
    def slots(self) -> SlotMatcher | None:
        return self.grammar.slots

    def typed_by(self, target_grammar: TargetGrammar | None) -> SlotInstances:
        return replace(self, grammar=self.grammar.typed_by(target_grammar))

    def model_rule_ids(self, rules: Int32Array) -> Int32Array:
        """For every rule the one of the grammar whose score it has: the slot's of a value's, else itself."""
        return rules if self.slots is None else self.encoded.arrays.values.slot_rules(rules)

    @cached_property
    def encoded(self) -> EncodedGrammar:
        known = self.grammar.encoded
        if self.slots is None:
            return known
        rows = [(each.start, each.end, rule) for found in self._values for each, rule in found]
        starts, ends, rules = np.array(rows, dtype=np.int32).reshape(-1, 3).T.copy()
        max_length = max((rule.max_length for rule in self.grammar.text_rules), default=0)
        texts = FreeTextIds(
            first=len(self.grammar) + len(rows),
            max_length=min(max_length, max(map(len, self.sources), default=0)),
            rules=len(self.grammar.text_rules),
        )
        values = known.arrays.values._replace(
            first=len(self.grammar),
            texts=texts,
            first_value=offsets_from_lengths([len(found) for found in self._values]),
            starts=starts,
            ends=ends,
            rules=rules,
        )
        words = int(self._first_words[-1])
        if free_text_id(texts, words, 1, 0) > MOST_RULES:
            reason = f"there are too many ways to read {words:,} words as free text of up to {texts.max_length} words"
            raise LimitExceeded(
                f"{reason}; give a smaller length in [slots], or fewer or shorter sentences"
            )
        return EncodedGrammar(known.vocabulary, known.arrays._replace(values=values))

    @cached_property
    def sources(self) -> list[tuple[str, ...]]:
        return list(map(words_of, self.sentences))

    @cached_property
    def _first_words(self) -> Int64Array:
        return offsets_from_lengths([len(source) for source in self.sources])

    @cached_property
    def _values(self) -> list[list[tuple[Mention, int]]]:
        """For every sentence what was found there, in the order of charts, with each rule that reads it."""
        readers = self.grammar.slot_readers
        values: list[list[tuple[Mention, int]]] = []
        for mentions in self.mentions:
            ordered = sorted(mentions, key=lambda each: (-each.start, each.end))
            values.append(
                [(mention, rule) for mention in ordered for rule in readers.get(mention.slot, ())]
            )
        return values

    def _value(self, number: int) -> tuple[int, Mention]:
        """What the rule of a value reads, and the sentence in which it does."""
        values = self.encoded.arrays.values
        if number < values.texts.first:
            value = number - values.first
            sentence = int(np.searchsorted(values.first_value, value, side="right")) - 1
            return sentence, self._values[sentence][value - int(values.first_value[sentence])][0]
        token, length, text = free_text_span(values.texts, number)
        slot = self.grammar.slot_rules[int(values.text_rules[text])].removeprefix(SLOT)
        sentence = bisect_right(self._first_words, token) - 1
        start = token - self._first_words.item(sentence)
        end = start + length
        return sentence, Mention(start, end, slot, self._text_value(sentence, slot, start, end))

    def _text_value(self, sentence: int, slot: str, start: int, end: int) -> tuple[str, ...]:
        assert self.slots is not None, "there is free text"
        return self.slots.text_value(self.sentences[sentence], slot, start, end)

    def with_meanings(self, graph: Hypergraph, targets: Sequence[Tokens]) -> EncodedGrammar:
        """The encoded grammar, which knows what the values in a graph mean that can be part of its targets."""
        encoded = self.encoded
        if self.slots is None:
            return encoded
        vocabulary, values, slots = (
            encoded.vocabulary,
            encoded.arrays.values,
            self.grammar.text_slots,
        )
        # Tokens of the targets that no rule has.
        more: dict[str, int] = {}
        for token in chain.from_iterable(targets):
            if token not in vocabulary:
                more.setdefault(token, len(vocabulary) + len(more))
        # What each value means, and its row: values that were found come first, then all spans of free text.
        meanings = [mention.value for mention, _ in chain.from_iterable(self._values)]
        rows = list(range(len(meanings)))
        for sentence, start, end in self._texts_in(graph, targets):
            place = self._first_words.item(sentence) + start
            for group, slot in enumerate(slots):
                rows.append(
                    len(values.rules)
                    + free_text_row(values.texts, len(slots), place, end - start, group)
                )
                meanings.append(self._text_value(sentence, slot, start, end))
        size = len(values.rules) + free_text_row(
            values.texts, len(slots), self._first_words.item(-1), 1, 0
        )
        first_token, sizes = np.zeros((2, size), dtype=np.int32)
        sizes[rows] = lengths = [len(meaning) for meaning in meanings]
        first_token[rows] = offsets_from_lengths(lengths)[:-1]
        tokens = [
            vocabulary.get(token, more.get(token, UNKNOWN_WORD))
            for token in chain.from_iterable(meanings)
        ]
        values = values._replace(
            first_token=first_token, sizes=sizes, tokens=np.array(tokens, dtype=np.int32)
        )
        arrays = encoded.arrays._replace(values=values)
        return EncodedGrammar(ChainMap(more, vocabulary) if more else vocabulary, arrays)  # type: ignore[arg-type]

    def _texts_in(
        self, graph: Hypergraph, targets: Sequence[Tokens]
    ) -> Iterator[tuple[int, int, int]]:
        """The sentence, start and end of what may be free text in a graph's sentences and is in their targets."""
        texts = self.encoded.arrays.values.texts
        if not texts.rules or not len(graph.rules):
            return
        asked = [(0, target) for target in targets]
        if len(self.sources) > 1:
            # The greatest number in a chart is that of a free text, if it has one, and tells the sentence.
            bounds = graph.first_hyperedge[graph.first_node]
            (charted,) = (bounds[1:] > bounds[:-1]).nonzero()
            greatest = np.maximum.reduceat(graph.rules, bounds[charted])
            asked = []
            for chart, number in zip(charted.tolist(), greatest.tolist(), strict=True):
                if number >= texts.first:
                    token, _, _ = free_text_span(texts, number)
                    asked.append((bisect_right(self._first_words, token) - 1, targets[chart]))
        for sentence, target in asked:
            for start, end in spans_matching_target(
                self.sources[sentence], target, texts.max_length
            ):
                yield sentence, start, end


def mentions_of(
    grammar: Grammar, sources: Iterable[Sentence], today: date | None = None
) -> list[Sequence[Mention]]:
    """What the grammar's slots find in each source, free text aside; how it is written matters to names."""
    return [
        () if grammar.slots is None else grammar.slots.mentions(source, today=today)
        for source in sources
    ]


def unknown_places(grammar: Grammar, words: Tokens) -> list[int]:
    """Where the words stand that are in no rule and in no value of a slot; that words may be any text, says nothing."""
    (mentions,) = mentions_of(grammar, [words])
    free_text = grammar.slots.free_text if grammar.slots else ()
    values = {
        place
        for each in mentions
        if each.slot not in free_text
        for place in range(each.start, each.end)
    }
    return [
        place
        for place, word in enumerate(words)
        if word not in grammar.words and place not in values
    ]


def instantiate_slots(
    grammar: Grammar,
    sources: Sequence[Sentence],
    mentions: Sequence[Sequence[Mention]] | None = None,
) -> SlotInstances:
    """The grammar as it reads these sources: what its slots find in them become rules."""
    if mentions is None:
        mentions = mentions_of(grammar, sources)
    return SlotInstances(grammar, sources, mentions)


def encoder_tokens(
    grammar: Grammar,
    sources: Sequence[Sentence],
    mentions: Sequence[Sequence[Mention]] | None = None,
    known: Container[str] | None = None,
) -> list[tuple[str, ...]]:
    """Sentences as a model sees them: of values it sees their slots, for what matters is seldom which value it is.

    Where mentions overlap, the longest counts, then the first. What slots of free text read is seen as it is, but of
    words that are not `known` only their casing.
    """
    slots = grammar.slots
    if slots is None:
        return list(map(words_of, sources))
    shown: list[tuple[str, ...]] = []
    for sentence, found in zip(
        sources, mentions_of(grammar, sources) if mentions is None else mentions, strict=True
    ):
        seen = list(words_of(sentence))
        words = dict(enumerate(seen))
        for readings in longest_spans(each for each in found if each.slot not in slots.free_text):
            first = min(readings)
            for place in range(first.start, first.end):
                seen[place] = first.token
                del words[place]
        if slots.free_text and known is not None:
            *_, slot = slots.free_text
            for place, word in words.items():
                if word not in known:
                    seen[place] = shape("".join(slots.text_value(sentence, slot, place, place + 1)))
        shown.append(tuple(seen))
    return shown


SHAPES = ("@x", "@X", "@Xx", "@0")


def shape(word: str) -> str:
    """The casing of a word.

    >>> [shape(word) for word in ("jude", "Jude", "USA", "X", "U2")]
    ['@x', '@Xx', '@X', '@Xx', '@0']
    """
    if any(map(str.isdigit, word)):
        return "@0"
    return (
        "@x" if word == word.lower() else "@X" if len(word) > 1 and word == word.upper() else "@Xx"
    )
