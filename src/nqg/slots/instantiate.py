"""Slots in a grammar: `@time ### @time` reads any time in a sentence, and yields its value.

The values are found when there is a sentence. Each is a rule of its own, such as
`half past six ### 6:30`, with the type and the score of the slot's rule; readings that overlap are
alternatives like any others. Charts have the spans of values and, for free text, the greatest
length. The tokens of a value are looked up when a derivation has the value, or a target is to be
derived. In all other rules a slot is a non-terminal.
"""

from __future__ import annotations

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
    slot_rules,
)
from nqg.grammar.grammar import SLOT, Grammar, Rule, SlotInstance
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged, offsets_from_lengths
from nqg.slots.matcher import (
    Mention,
    Sentence,
    SlotMatcher,
    fill_slot,
    longest_spans,
    spans_matching_target,
    words_of,
)
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Typing

Tokens = Sequence[str]


@dataclass(frozen=True)
class SlotInstances:
    """A grammar as it reads certain sentences.

    The values in the sentences are rules. Their numbers come behind those of the grammar: first the
    mentions, sentence by sentence in the order of charts, then every span of free text, numbered
    by `FreeTextIds`.
    """

    grammar: Grammar
    sentences: Sequence[Sentence]
    mentions: Sequence[Sequence[Mention]]

    def __len__(self) -> int:
        """How many rules the grammar has, and a model scores."""
        return len(self.grammar)

    def __getitem__(self, number: int) -> Rule:
        if number < len(self.grammar):
            return self.grammar[number]
        sentence, mention, rule_id = self._value(number)
        rule = self.grammar[rule_id]
        words = self.sources[sentence][mention.start : mention.end]
        target = fill_slot(rule.target, self.grammar.slot_rules[rule_id], mention.value)
        return SlotInstance(words, target, rule)

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
        """The grammar's rules whose scores these rules have: for a value the rule of its slot."""
        if self.slots is None:
            return rules
        return slot_rules(rules, self.encoded.arrays.values)

    @cached_property
    def sources(self) -> list[tuple[str, ...]]:
        return list(map(words_of, self.sentences))

    @cached_property
    def _first_words(self) -> Int64Array:
        return offsets_from_lengths([len(source) for source in self.sources])

    @cached_property
    def _values(self) -> list[tuple[int, Mention, int]]:
        """Mentions in the order of charts, with their sentence and each rule that reads them."""
        values = []
        for sentence, mentions in enumerate(self.mentions):
            for mention in sorted(
                mentions, key=lambda mention: (-mention.start, mention.end)
            ):
                rules = self.grammar.slot_readers.get(mention.slot, ())
                values += [(sentence, mention, rule) for rule in rules]
        return values

    @cached_property
    def encoded(self) -> EncodedGrammar:
        encoded = self.grammar.encoded
        if self.slots is None:
            return encoded
        # There is one row for each mention and each rule that reads its slot.
        rows = [
            (sentence, *mention[:2], rule) for sentence, mention, rule in self._values
        ]
        table = np.array(rows, dtype=np.int32).reshape(-1, 4).T.copy()
        # No free text is longer than the longest sentence, which keeps numbers small.
        max_length = max(
            (rule.max_length for rule in self.grammar.text_rules), default=0
        )
        texts = FreeTextIds(
            first=len(self.grammar) + len(rows),
            max_length=min(max_length, max(map(len, self.sources), default=0)),
            rules=len(self.grammar.text_rules),
        )
        words = int(self._first_words[-1])
        # Every span of free text takes a rule number, and these may run out.
        if free_text_id(texts, words, 1, 0) > MOST_RULES:
            reason = f"there are too many ways to read {words:,} words as free text"
            advice = "give a smaller length in [slots], or fewer or shorter sentences"
            raise LimitExceeded(f"{reason} of up to {texts.max_length} words; {advice}")
        values = encoded.arrays.values._replace(
            first=len(self.grammar),
            texts=texts,
            first_value=offsets_from_lengths(
                np.bincount(table[0], minlength=len(self.sources))
            ),
            starts=table[1],
            ends=table[2],
            rules=table[3],
        )
        return replace(encoded, arrays=encoded.arrays._replace(values=values))

    def _sentence_of(self, token: int) -> int:
        return int(np.searchsorted(self._first_words, token, side="right")) - 1

    def _value(self, number: int) -> tuple[int, Mention, int]:
        """What the rule of a value reads: the sentence, the mention and the rule of the slot."""
        values = self.encoded.arrays.values
        if number < values.texts.first:
            return self._values[number - values.first]
        token, length, text = free_text_span(values.texts, number)
        rule = int(values.text_rules[text])
        slot = self.grammar.slot_rules[rule].removeprefix(SLOT)
        sentence = self._sentence_of(token)
        start = token - self._first_words.item(sentence)
        span = start, start + length
        assert self.slots is not None, "there is free text"
        value = self.slots.text_value(self.sentences[sentence], slot, *span)
        return sentence, Mention(*span, slot, value), rule

    def with_meanings(
        self, graph: Hypergraph, targets: Sequence[Tokens]
    ) -> EncodedGrammar:
        """The encoded grammar with the tokens of those values of a graph that its
        targets can have.
        """
        encoded = self.encoded
        if self.slots is None:
            return encoded
        values, slots = encoded.arrays.values, self.grammar.text_slots
        # Tokens of the targets that no rule has.
        more: dict[str, int] = {}
        for token in chain.from_iterable(targets):
            if token not in encoded.vocabulary and token not in more:
                more[token] = len(encoded.vocabulary) + len(more)
        # The tokens of each value, and its row: mentions come first, then all spans of free text.
        meanings = [mention.value for _, mention, _ in self._values]
        rows = list(range(len(meanings)))
        for sentence, start, end in self._texts_in(graph, targets):
            word = self._first_words.item(sentence) + start
            first_row = free_text_row(values.texts, len(slots), word, end - start, 0)
            for group, slot in enumerate(slots, start=len(values.rules)):
                rows.append(first_row + group)
                text = self.slots.text_value(self.sentences[sentence], slot, start, end)
                meanings.append(text)
        words = self._first_words.item(-1)
        size = len(values.rules) + free_text_row(values.texts, len(slots), words, 1, 0)
        # This mapping is never written to, which its type would allow.
        vocabulary = ChainMap(more, encoded.vocabulary)  # type: ignore[arg-type]
        token_numbers = []
        for meaning in meanings:
            numbers = [vocabulary.get(token, UNKNOWN_WORD) for token in meaning]
            token_numbers.append(numbers)
        tokens = Ragged.of(token_numbers)
        first_token, sizes = np.zeros((2, size), dtype=np.int32)
        first_token[rows] = tokens.offsets[:-1]
        sizes[rows] = np.diff(tokens.offsets)
        values = values._replace(
            first_token=first_token, sizes=sizes, tokens=tokens.values
        )
        return EncodedGrammar(vocabulary, encoded.arrays._replace(values=values))

    def _texts_in(
        self, graph: Hypergraph, targets: Sequence[Tokens]
    ) -> Iterator[tuple[int, int, int]]:
        """The sentence, start and end of what may be free text in a graph and its targets."""
        texts = self.encoded.arrays.values.texts
        if not texts.rules or not len(graph.rules):
            return
        # The greatest rule of a chart is one of free text, if it has any, and tells the sentence.
        bounds = graph.first_hyperedge[graph.first_node]
        (charted,) = (bounds[1:] > bounds[:-1]).nonzero()
        greatest = np.maximum.reduceat(graph.rules, bounds[charted])
        for chart, rule in zip(charted.tolist(), greatest.tolist()):
            if rule >= texts.first:
                sentence = self._sentence_of(free_text_span(texts, rule)[0])
                source = self.sources[sentence]
                for span in spans_matching_target(
                    source, targets[chart], texts.max_length
                ):
                    yield sentence, *span


def mentions_of(
    grammar: Grammar, sources: Iterable[Sentence], today: date | None = None
) -> list[Sequence[Mention]]:
    """What the grammar's slots find in each source, without free text."""
    if grammar.slots is None:
        return [() for _ in sources]
    return [grammar.slots.mentions(source, today=today) for source in sources]


def instantiate_slots(
    grammar: Grammar,
    sources: Sequence[Sentence],
    mentions: Sequence[Sequence[Mention]] | None = None,
) -> SlotInstances:
    """The grammar as it reads these sources: what its slots find in them become rules."""
    return SlotInstances(grammar, sources, mentions or mentions_of(grammar, sources))


def unknown_places(grammar: Grammar, sentence: Sentence) -> list[int]:
    """The positions of words that are in no rule and in no value of a slot, free text aside."""
    (mentions,) = mentions_of(grammar, [sentence])
    words = words_of(sentence)
    unknown = {at for at, word in enumerate(words) if word not in grammar.words}
    for mention in mentions:
        if grammar.slots and mention.slot not in grammar.slots.free_text:
            unknown.difference_update(range(mention.start, mention.end))
    return sorted(unknown)


def encoder_tokens(
    grammar: Grammar,
    sources: Sequence[Sentence],
    mentions: Sequence[Sequence[Mention]] | None = None,
    known: Container[str] | None = None,
) -> list[tuple[str, ...]]:
    """Tokens for the encoder: values are replaced by their slots, for seldom does the value matter.

    Where mentions overlap, the longest counts, then the first. What slots of free text read stays
    as it is, but words that are not `known` are replaced by their casing.
    """
    slots = grammar.slots
    if slots is None:
        return list(map(words_of, sources))
    replaced = []
    for sentence, mentioned in zip(sources, mentions or mentions_of(grammar, sources)):
        tokens = list(words_of(sentence))
        # Unknown words show their casing alone, as the last slot of free text has it.
        if slots.free_text and known is not None:
            *_, slot = slots.free_text
            for at, word in enumerate(tokens):
                if word not in known:
                    tokens[at] = shape(
                        "".join(slots.text_value(sentence, slot, at, at + 1))
                    )
        # These spans do not overlap, and their length stays, so that positions hold.
        for readings in longest_spans(
            mention for mention in mentioned if mention.slot not in slots.free_text
        ):
            first = min(readings)
            length = first.end - first.start
            tokens[first.start : first.end] = [first.token] * length
        replaced.append(tuple(tokens))
    return replaced


SHAPES = ("@x", "@X", "@Xx", "@0")


def shape(word: str) -> str:
    """The casing of a word.

    >>> [shape(word) for word in ("jude", "Jude", "USA", "X", "U2")]
    ['@x', '@Xx', '@X', '@Xx', '@0']
    """
    if any(map(str.isdigit, word)):
        return "@0"
    if word == word.lower():
        return "@x"
    if len(word) > 1 and word == word.upper():
        return "@X"
    return "@Xx"
