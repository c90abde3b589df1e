"""The text of training data: raw examples as tokens, and with placeholders in the place of the values of slots.

Every pair is tokenised and delexicalised once, when the text is fitted to it; what comes later asks a `TrainingText`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.grammar.grammar import Rule
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings, TokenizedPair, with_values
from nqg.slots.delexicalize import delexicalize_pairs, slot_seeds, strip_indices
from nqg.slots.fit import SlotFitting, infer_free_text_slots
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import read_slots
from nqg.slots.target_grammars import add_placeholder_productions
from nqg.text.programs import fit_programs
from nqg.text.sentences import SentenceTokenizer, Token, TokenizedSentence, fit_and_tokenize
from nqg.types.target_grammar import TargetGrammar


@dataclass(frozen=True)
class TrainingText:
    """Raw examples, how their text is read, and what was read: tokens, values, and examples with placeholders."""

    raw: Sequence[Example]
    text: Preprocessor
    pairs: Sequence[TokenizedPair]  # one for each of the raw examples

    @classmethod
    def of(cls, examples: Sequence[Example], text: Preprocessor) -> TrainingText:
        """Examples as a text reads them that was fitted before."""
        return cls(
            examples,
            text,
            text.tokenized_pairs((example.source, example.target) for example in examples),
        )

    @property
    def has_slots(self) -> bool:
        return bool(self.text.slots.slots)

    @cached_property
    def examples(self) -> Sequence[Example]:
        """The examples as a grammar and a model learn from them: with spaces between tokens."""
        if self.text.is_plain:
            return self.raw
        return [
            Example(" ".join(pair.sentence.words), " ".join(pair.program), example.id)
            for example, pair in zip(self.raw, self.pairs, strict=True)
        ]

    @cached_property
    def slots(self) -> SlotMatcher | None:
        """The slots, which know what they found in these examples; None where the text has none."""
        if not self.has_slots:
            return None
        sentences = (pair.sentence for pair in self.pairs)
        return self.text.slots.with_known(sentences, (pair.mentions for pair in self.pairs))

    def delexicalize(self, examples: Iterable[Example]) -> list[Example]:
        """Some of the tokenised examples with placeholders in the place of values."""
        return [
            self._delexicalized.get((example.source, example.target), example)
            for example in examples
        ]

    @cached_property
    def _delexicalized(self) -> Mapping[tuple[str, str], Example]:
        found: dict[tuple[str, str], Example] = {}
        for example, pair in zip(self.examples, self.pairs, strict=True):
            if pair.delexicalized:
                source, target = (
                    " ".join(pair.delexicalized.source),
                    " ".join(pair.delexicalized.target),
                )
                found[example.source, example.target] = Example(source, target, example.id)
        return found

    def as_written(self, sentences: Iterable[str]) -> list[str]:
        """Tokenised sentences, with slots in their own casing: what else could tell how a name is written?"""
        return [self._as_written.get(sentence, sentence) for sentence in sentences]

    @cached_property
    def _as_written(self) -> Mapping[str, str]:
        if not self.has_slots:
            return {}
        sentences = [pair.sentence for pair in self.pairs]
        return {
            " ".join(sentence.words): " ".join(sentence.words_as_written) for sentence in sentences
        }

    def searched(
        self, examples: Sequence[Example], types: TargetGrammar | None
    ) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """What rules are searched in: examples with placeholders, rules to begin with, and the types of programs."""
        if not self.has_slots:
            return examples, [], types
        searched = self.delexicalize(examples)
        programs = [each.target_tokens for each in searched]
        seeds = slot_seeds(zip((each.source_tokens for each in searched), programs, strict=True))
        return searched, seeds, add_placeholder_productions(types, programs) if types else None

    def programs(self, examples: Iterable[Example]) -> list[tuple[str, ...]]:
        """The programs of tokenised examples with slots in the place of values: what types are inferred from."""
        if not self.has_slots:
            return [example.target_tokens for example in examples]
        return [strip_indices(each.target_tokens) for each in self.delexicalize(examples)]


def fit_training_text(
    examples: Sequence[Example],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
) -> TrainingText:
    """Raw examples as the text reads them that is fitted to them; see `Preprocessor.fit`."""
    raw = [(example.source, example.target) for example in examples]
    return TrainingText(examples, *fit_and_tokenize_pairs(raw, settings, slots, place))


def fit_text(
    examples: Iterable[Example],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
) -> Preprocessor:
    """How the text of raw examples becomes tokens, and which values it has; see `Preprocessor.fit`."""
    return fit_training_text(list(examples), settings, slots, place).text


def tokenized(examples: Sequence[Example], text: Preprocessor) -> Sequence[Example]:
    """Raw examples as a grammar and a model learn from them: with spaces between tokens."""
    if text.is_plain:
        return examples
    return [
        Example(*text.training_pair(example.source, example.target), example.id)
        for example in examples
    ]


def read_tokenized(path: Path | str) -> Sequence[Example]:
    """The raw examples of a file, tokenised in the way that suits them."""
    return fit_training_text(read_examples(path)).examples


def fit_and_tokenize_pairs(
    pairs: Sequence[tuple[str, str]],
    settings: TextSettings = TextSettings(),  # noqa: B008 (frozen)
    slots: Mapping[str, Any] | None = None,
    place: Path | None = None,
) -> tuple[Preprocessor, list[TokenizedPair]]:
    """`Preprocessor.fit`, and the pairs as tokens with their values: every one is tokenised once."""
    chosen: dict[str, Any] = {
        name: None if value == "auto" else value for name, value in asdict(settings).items()
    }
    # Programs, then sentences.
    programs = fit_programs((program for _, program in pairs), chosen["programs"])
    scheme = chosen["sentences"]
    if scheme is None and programs.scheme == "code":
        scheme = "words"  # what is tokenised is so on both sides
    raw = [sentence for sentence, _ in pairs]
    targets = [programs.normalized(program) for _, program in pairs]
    sentences, tokens = fit_and_tokenize(
        raw, targets, scheme, chosen["casing"], chosen["punctuation"]
    )
    # Polite frames.
    courtesy = chosen["courtesy"]
    if courtesy is None:
        courtesy = "keep" if _are_tokenised(raw, tokens, sentences) else "drop"
    text = Preprocessor(sentences, programs, courtesy)
    tokenized: list[TokenizedPair] = []
    for sentence, sentence_tokens, target in zip(raw, tokens, targets, strict=True):
        tokenized.append(
            TokenizedPair(
                TokenizedSentence(sentence, text.stripped(sentence_tokens, target)), target
            )
        )
    # Slots.
    declared = read_slots(slots or {}, place, sentences.tokenize)
    finds_others = settings.slots != "given" and not text.is_plain
    if not declared and not finds_others:
        return text, tokenized
    bare = [(pair.sentence, pair.program) for pair in tokenized]
    fitting = SlotFitting.of(
        bare, declared, None, programs.tokenize, settings.day, finds_others=finds_others
    )
    matcher = fitting.matcher()
    mentions = [matcher.mentions(sentence) for sentence, _ in bare]
    delexicalized = delexicalize_pairs(matcher, bare, mentions)
    if finds_others:
        texts = infer_free_text_slots([sentence for sentence, _ in bare], delexicalized, matcher)
        if texts:
            matcher = fitting.matcher(texts)
            delexicalized = delexicalize_pairs(matcher, bare, mentions)
    if not matcher.slots:
        return replace(text, slots=matcher), tokenized
    return replace(text, slots=matcher), with_values(tokenized, mentions, delexicalized)


def _are_tokenised(
    raw: Sequence[str], tokens: Sequence[Sequence[Token]], tokenizer: SentenceTokenizer
) -> bool:
    """Whether the tokens of all sentences are what stands between spaces."""
    if tokenizer.scheme == "spaces":
        return all(tokenizer.tokenize(sentence) == tuple(sentence.split()) for sentence in raw)
    return all(
        [token.text for token in each] == sentence.split()
        for sentence, each in zip(raw, tokens, strict=True)
    )
