"""The text of training data: raw examples as tokens, and with placeholders for the values of slots.

Every pair is tokenised once, when the text is fitted to it. What comes later
asks a `TrainingText`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from nqg.data.example import Example
from nqg.grammar.grammar import Rule
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings, TokenizedPair
from nqg.slots.delexicalize import delexicalize_pairs, slot_seeds, strip_indices
from nqg.slots.fit import fit_slots
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import read_slots
from nqg.slots.target_grammars import add_placeholder_productions
from nqg.slots.tool_slots import tool_slots
from nqg.text.argument_order import ArgumentOrder
from nqg.text.json_calls import fit_json_calls
from nqg.text.positions import fit_positions
from nqg.text.programs import fit_programs
from nqg.text.sentences import (
    SentenceTokenizer,
    Token,
    TokenizedSentence,
    fit_and_tokenize,
)
from nqg.text.sequences import fit_sequences
from nqg.text.traces import fit_traces
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tools import Tool


@dataclass(frozen=True)
class TrainingText:
    """Raw examples, how their text is read, and for each of them what was read."""

    raw: Sequence[Example]
    text: Preprocessor
    pairs: Sequence[TokenizedPair]

    @classmethod
    def of(cls, examples: Sequence[Example], text: Preprocessor) -> TrainingText:
        """Examples as a text reads them that was fitted before."""
        pairs = text.tokenized_pairs(
            (example.source, example.target) for example in examples
        )
        return cls(examples, text, pairs)

    def with_traces(self) -> TrainingText:
        """The same with traces for copies in programs, where these have any."""
        traces = fit_traces((pair.sentence.words, pair.program) for pair in self.pairs)
        if traces is None:
            return self
        programs = replace(self.text.programs, traces=traces)
        return TrainingText.of(self.raw, replace(self.text, programs=programs))

    def with_positions(self) -> TrainingText:
        """The same with terms for programs, where the variables of these are positions of words."""
        # Placeholders may stand for several words.
        if self.has_slots:
            return self
        positions = fit_positions(
            [(pair.sentence.words, pair.program) for pair in self.pairs]
        )
        if positions is None:
            return self
        programs = replace(self.text.programs, positions=positions)
        return TrainingText.of(self.raw, replace(self.text, programs=programs))

    @property
    def has_slots(self) -> bool:
        return bool(self.text.slots)

    @cached_property
    def examples(self) -> Sequence[Example]:
        """The examples as a grammar and a model learn from them: with spaces between tokens."""
        if self.text.is_plain and not self.text.programs.is_encoded:
            return self.raw
        examples = []
        for example, pair in zip(self.raw, self.pairs):
            examples.append(_joined(pair.sentence.words, pair.program, example.id))
        return examples

    @cached_property
    def with_raw_sentences(self) -> list[Example]:
        """The examples as a sequence-to-sequence model learns from them: sentences as somebody wrote
        them, whose words it copies, and the tokens of programs.
        """
        examples = []
        for example, pair in zip(self.raw, self.pairs):
            examples.append(_joined(example.source.split(), pair.program, example.id))
        return examples

    @cached_property
    def slots(self) -> SlotMatcher | None:
        """The slots, which know their mentions in these examples; None where the text has none."""
        if not self.has_slots:
            return None
        sentences = (pair.sentence for pair in self.pairs)
        return self.text.slots.with_known(
            sentences, (pair.mentions for pair in self.pairs)
        )

    def delexicalize(self, examples: Iterable[Example]) -> list[Example]:
        """Some of the tokenised examples with placeholders for values."""
        return [
            self._delexicalized.get((example.source, example.target), example)
            for example in examples
        ]

    @cached_property
    def _delexicalized(self) -> Mapping[tuple[str, str], Example]:
        by_pair = {}
        for example, pair in zip(self.examples, self.pairs):
            bare = pair.delexicalized
            if bare:
                delexicalized = _joined(bare.source, bare.target, example.id)
                by_pair[example.source, example.target] = delexicalized
        return by_pair

    def as_written(self, sentences: Iterable[str]) -> list[str]:
        """Tokenised sentences, with slots in their own casing, which alone tells names."""
        return [self._as_written.get(sentence, sentence) for sentence in sentences]

    @cached_property
    def _as_written(self) -> Mapping[str, str]:
        surfaces = {}
        if self.has_slots:
            for pair in self.pairs:
                words = " ".join(pair.sentence.words)
                surfaces[words] = " ".join(pair.sentence.words_as_written)
        return surfaces

    def searched(
        self, examples: Sequence[Example], types: TargetGrammar | None
    ) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """What rules are searched in.

        These are examples with placeholders, rules to begin with, and the types of programs.
        """
        if not self.has_slots:
            return examples, [], types
        searched = self.delexicalize(examples)
        pairs = [(example.source_tokens, example.target_tokens) for example in searched]
        if types:
            types = add_placeholder_productions(
                types, (program for _, program in pairs)
            )
        return searched, slot_seeds(pairs), types

    def with_legal_placeholders(self, types: TargetGrammar) -> TrainingText:
        """The text with placeholders where these types have a place for them.

        A pair whose program is legal only as it was written keeps its values.
        """
        if not self.has_slots:
            return self
        accepts = cache(types.accepts)
        pairs = []
        for pair in self.pairs:
            bare = pair.delexicalized
            has_place = bare is None or accepts(strip_indices(bare.target))
            if not has_place and accepts(pair.program):
                pair = pair._replace(delexicalized=None)
            pairs.append(pair)
        return replace(self, pairs=pairs)

    def programs(self, examples: Iterable[Example]) -> list[tuple[str, ...]]:
        """The programs of tokenised examples with slots for values: types are inferred
        from them.
        """
        if not self.has_slots:
            return [example.target_tokens for example in examples]
        return [
            strip_indices(example.target_tokens)
            for example in self.delexicalize(examples)
        ]


def _joined(
    source: Iterable[str], target: Iterable[str], name: str | None = None
) -> Example:
    return Example(" ".join(source), " ".join(target), name)


def fit_training_text(
    examples: Sequence[Example],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
    tools: Sequence[Tool] = (),
) -> TrainingText:
    """Raw examples as the text reads them that is fitted to them; see `Preprocessor.fit`.

    The values of `tools` become slots where sentences mention them.
    """
    chosen: dict[str, Any] = asdict(settings)
    for name, value in chosen.items():
        if value == "auto":
            chosen[name] = None
    raw = [example.source for example in examples]
    raw_targets = [example.target for example in examples]
    # Programs, then sentences.
    programs = fit_programs(raw_targets, chosen["programs"])
    targets = list(map(programs.normalized, raw_targets))
    if programs.scheme == "code" and settings.calls == "auto":
        calls = fit_json_calls(targets)
        if calls:
            programs = replace(programs, calls=calls)
            targets = [programs.encoded(target) for target in targets]
    scheme = chosen["sentences"]
    if scheme is None and programs.scheme == "code":
        # Where programs need a tokenizer, sentences do.
        scheme = "words"
    sentences, tokens = fit_and_tokenize(
        raw,
        targets,
        scheme,
        chosen["casing"],
        chosen["punctuation"],
    )
    # Polite frames.
    courtesy = chosen["courtesy"]
    if courtesy is None:
        courtesy = "keep" if _are_tokenised(raw, tokens, sentences) else "drop"
    text = Preprocessor(sentences, programs, courtesy)
    # Programs that are tokenised already are formal: their order is never touched.
    if programs.scheme == "code" and settings.arguments == "auto":
        text = replace(text, arguments=ArgumentOrder.fit(targets))
    pairs = []
    for sentence, sentence_tokens, target in zip(raw, tokens, targets):
        stripped = text.stripped(sentence_tokens, target)
        pairs.append((TokenizedSentence(sentence, stripped), target))
    # Slots.
    declared = read_slots(slots or {}, place, sentences.tokenize)
    offered = []
    if settings.slots != "given":
        offered = tool_slots(tools, sentences.tokenize)
    finds_others = settings.slots != "given" and not text.is_plain
    if declared or offered or finds_others:
        matcher = fit_slots(
            pairs,
            declared,
            tokenize_value=programs.tokenize,
            today=settings.day,
            finds_others=finds_others,
            finds_texts=finds_others,
            offered=offered,
        )
        # Text that is plain stays so where tools offer nothing that it shows.
        if declared or finds_others or matcher.slots:
            text = replace(text, slots=matcher)
    # Sequences of commands.
    form = fit_sequences(
        raw,
        raw_targets,
        settings.sequence,
        is_spaced=programs.scheme == "spaces",
    )
    text = replace(text, sequence=form)
    return TrainingText(examples, text, text.with_values(pairs))


def fit_text(
    examples: Iterable[Example],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
) -> Preprocessor:
    """How the text of raw examples becomes tokens, and which values it has (`Preprocessor.fit`).

    >>> pairs = [Example(f"Turn on the {name}.", f"turn_on({name})") for name in ("lamp", "fan")]
    >>> fit_text(pairs).tokenized("Turn on the fan!")[0].words
    ('turn', 'on', 'the', 'fan')
    """
    return fit_training_text(list(examples), settings, slots, place).text


def tokenized(examples: Sequence[Example], text: Preprocessor) -> Sequence[Example]:
    """Raw examples as a grammar and a model learn from them: with spaces between tokens.

    >>> pairs = [Example(f"Turn on the {name}.", f"turn_on({name})") for name in ("lamp", "fan")]
    >>> tokenized(pairs, fit_text(pairs))[0].target
    'turn_on ( lamp )'
    """
    if text.is_plain and not text.programs.is_encoded:
        return examples
    return [
        Example(*text.training_pair(example.source, example.target), example.id)
        for example in examples
    ]


def _are_tokenised(
    raw: Sequence[str], tokens: Sequence[Sequence[Token]], tokenizer: SentenceTokenizer
) -> bool:
    """Whether the tokens of all sentences are what stands between spaces."""
    for sentence, sentence_tokens in zip(raw, tokens):
        words = [token.text for token in sentence_tokens]
        if tokenizer.scheme == "spaces":
            words = list(tokenizer.tokenize(sentence))
        if words != sentence.split():
            return False
    return True


class SlotValue(NamedTuple):
    """A value of a slot: words of a sentence as they were written, and their value in
    the program.
    """

    words: str
    value: str


@dataclass(frozen=True, slots=True)
class SlotExamples:
    """Delexicalised examples, and the values that each slot had."""

    examples: Sequence[Example]
    values: Mapping[str, list[SlotValue]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, raw: Sequence[Example], text: Preprocessor, *, is_distinct: bool
    ) -> SlotExamples:
        """The examples as in training; with `is_distinct`, each pair counts once.

        Pairs that differ in values alone all count.
        """
        examples = []
        values = defaultdict(list)
        seen = set()
        pairs = [
            text.training_sentence(example.source, example.target) for example in raw
        ]
        for (sentence, program), pair in zip(
            pairs, delexicalize_pairs(text.slots, pairs)
        ):
            # Whether a pair is new is decided with its values, not with placeholders.
            if is_distinct and (sentence.words, program) in seen:
                continue
            seen.add((sentence.words, program))
            examples.append(
                _joined(strip_indices(pair.source), strip_indices(pair.target))
            )
            for mention in pair.mentions:
                words = sentence.as_written(mention.start, mention.end)
                values[mention.token].append(SlotValue(words, " ".join(mention.value)))
        return cls(examples, values)

    def with_values(
        self, pairs: Iterable[Example], rng: random.Random
    ) -> list[Example]:
        """Pairs with values of the examples for slots, drawn as often as there.

        All occurrences of a slot in a pair have one value: a drawn pair does not tell which of two
        numbers in the sentence is which in the program.
        """
        filled = []
        for pair in pairs:
            words = {}
            values = {}
            # Each slot is drawn once for a pair, its words and its value together.
            for token in pair.source_tokens:
                if token in self.values and token not in words:
                    words[token], values[token] = rng.choice(self.values[token])
            source = [words.get(token, token) for token in pair.source_tokens]
            target = [values.get(token, token) for token in pair.target_tokens]
            filled.append(_joined(source, target))
        return filled
