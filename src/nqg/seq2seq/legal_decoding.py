"""Decoding that cannot go wrong: after every word piece the text is still the beginning of a legal target.

The grammar of legal targets speaks of tokens, the model of word pieces; a piece may end a token, be a part of one, or
hold several. So a place in a text is a legal prefix of whole tokens and the beginning of one more (`Place`), and a
piece is the tokens that it ends and what it begins. A piece may follow if the tokens that
it ends may, and if what is then begun is the beginning of a token that may come next *and* that other pieces can bring
to its end. Hence there is always a way on, and the end may be written exactly where the target is complete. Targets
with tokens that the model has no pieces for cannot be written and count as illegal (`restricted`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor

from nqg.answers import Answer
from nqg.errors import NqgError
from nqg.grammar.earley import Expected, Prefix
from nqg.grammar.target_grammar import Category, TargetGrammar, TargetSymbol
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.spelling import Spelling, tokenize_targets, written

Ended = tuple[str, ...]

_DAMAGED = "\N{REPLACEMENT CHARACTER}"  # what tokenizers write for a part of a character


class Piece(NamedTuple):
    """What a word piece adds to a text: the ends of tokens (the first may have begun before), and a beginning."""

    ended: Ended
    begun: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The word pieces of a tokenizer by what they add to a text; those that no target can contain are left out."""

    pieces: Mapping[int, Piece]
    by_ended: Mapping[Ended, Mapping[str, list[int]]]
    opening: int | None  # the piece that a text opens with and that writes nothing, as BART's <s>
    end: int  # the piece that ends a text
    may_lead: bool  # whether a text may begin with the sign between tokens, as T5's do

    @classmethod
    def of(cls, tokenizer: Any, spelling: Spelling) -> Vocabulary:
        """The vocabulary of a tokenizer whose texts are read with `spelling`."""
        texts = ((number, _without_spaces(text, spelling.space)) for number, text in _added_texts(tokenizer))
        pieces = {number: piece for number, text in texts if (piece := _piece(text, spelling.space or " "))}
        by_ended: dict[Ended, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, piece in pieces.items():
            by_ended[piece.ended][piece.begun].append(number)
        plain = {ended: dict(numbers) for ended, numbers in by_ended.items()}
        return cls(pieces, plain, _opening(tokenizer), tokenizer.eos_token_id, spelling.space is None)

    def can_finish(self, text: str) -> list[bool]:
        """For each position of a token whether pieces that end nothing can write the rest."""
        inside = self.by_ended.get((), {})
        finishes = [False] * len(text) + [True]
        for start in reversed(range(len(text))):
            ends = (end for end in range(start + 1, len(text) + 1) if finishes[end])
            finishes[start] = any(text[start:end] in inside for end in ends)
        return finishes


def _opening(tokenizer: Any) -> int | None:
    first = next(iter(tokenize_targets(tokenizer, ["a"])[0]), None)
    return first if first in (tokenizer.bos_token_id, tokenizer.cls_token_id) else None


def _added_texts(tokenizer: Any) -> Iterator[tuple[int, str]]:
    """What each piece adds to a text that has begun; nothing is said of pieces that add nothing."""
    numbers = range(len(tokenizer))
    alone = written(tokenizer, [[number] for number in numbers])
    first = next(number for number in numbers if alone[number].strip() and _DAMAGED not in alone[number])
    for number, text in zip(numbers, written(tokenizer, [[first, number] for number in numbers]), strict=True):
        added = text.removeprefix(alone[first])
        if added and added != text and _DAMAGED not in added:
            yield number, added


def _without_spaces(text: str, mark: str | None) -> str:
    """`text` as it is, or less its spaces where they mean nothing because a mark stands between tokens."""
    return text if mark is None else "".join(text.split())


def _piece(text: str, separator: str) -> Piece | None:
    """The piece of a text; None where it holds other white space, or an empty token."""
    *ended, begun = text.split(separator)
    if not text or not all(ended[1:]) or any(character.isspace() for part in (*ended, begun) for character in part):
        return None
    return Piece(tuple(ended), begun)


Ids = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Step:
    """A legal prefix with the ones that were found to follow it, so that the rows of a batch share their beginnings."""

    prefix: Prefix
    expected: Expected
    following: dict[str, Step | None] = field(default_factory=dict)

    @classmethod
    def of(cls, prefix: Prefix) -> Step:
        """The step that has read `prefix`."""
        return cls(prefix, prefix.expected)

    def then(self, token: str) -> Step | None:
        """One more token; None where no legal target goes on so."""
        if token not in self.following:
            prefix = self.prefix.then(token) if self.expected.allows(token) else None
            self.following[token] = None if prefix is None else Step.of(prefix)
        return self.following[token]


class Place(NamedTuple):
    """Where a text stands: its whole tokens, the beginning of the next, and whether nothing was written yet."""

    step: Step
    begun: str = ""
    is_start: bool = False
    is_unopened: bool = False  # the piece that a text opens with must come first


class LegalTargets:
    """The legal targets of a grammar in the word pieces of a model."""

    def __init__(self, grammar: TargetGrammar, tokenizer: Any, spelling: Spelling) -> None:
        self.spelling = spelling
        self.vocabulary = Vocabulary.of(tokenizer, spelling)
        self._spelled = {token: spelling.spelled(token) for token in grammar.recogniser.terminals}
        self._finishes = {text: self.vocabulary.can_finish(text) for text in self._spelled.values()}
        self.grammar = restricted(grammar, {token for token, text in self._spelled.items() if self._can_write(text)})
        self._continuations: dict[tuple[Ended, tuple[str, ...], str], Ids] = {}

    def start(self) -> Place:
        """The place before the first piece; all that is learned of prefixes lives as long as the places after it."""
        prefix = self.grammar.prefix()
        assert prefix is not None  # every grammar derives something
        return Place(Step.of(prefix), is_start=True, is_unopened=self.vocabulary.opening is not None)

    def after(self, place: Place, number: int) -> Place | None:
        """The place after one more piece; None where the text is then no beginning of a legal target."""
        if place.is_unopened:
            return place._replace(is_unopened=False) if number == self.vocabulary.opening else None
        piece = self.vocabulary.pieces.get(number)
        reached = piece and self._ended(place, piece.ended)
        if piece is None or reached is None:
            return None
        longer = Place(reached.step, reached.begun + piece.begun)
        return longer if self._is_beginning(longer) else None

    def allowed(self, place: Place) -> Ids:
        """The pieces that may follow."""
        if place.is_unopened:
            return np.array([self.vocabulary.opening])
        found = [self._after_ended(place, ended) for ended in self.vocabulary.by_ended]
        if self.is_complete(place):
            found.append(np.array([self.vocabulary.end]))
        return np.concatenate(found)

    def is_complete(self, place: Place) -> bool:
        """Whether the text is a whole legal target."""
        last = place.step.then(self.spelling.read(place.begun)) if place.begun else None
        return last is not None and last.expected.end

    def _ended(self, place: Place, parts: Ended) -> Place | None:
        """The place after the ends of tokens; one separator stands between two tokens, one or none before the first."""
        for part in parts:
            token = place.begun + part
            if token:
                step = place.step.then(self.spelling.read(token))
            else:
                step = place.step if place.is_start and self.vocabulary.may_lead else None
            if step is None or not (step.expected.tokens or step.expected.any_token):
                return None
            place = Place(step)
        return place

    def _is_beginning(self, place: Place) -> bool:
        expected, begun = place.step.expected, place.begun
        texts = (self._spelled[token] for token in expected.tokens)
        return expected.any_token or any(text.startswith(begun) and self._finishes[text][len(begun)] for text in texts)

    def _after_ended(self, place: Place, ended: Ended) -> Ids:
        """The pieces that end the tokens `ended` and may follow."""
        reached = self._ended(place, ended)
        if reached is None:
            return _NONE
        if reached.step.expected.any_token:
            return self._any[ended]
        key = (ended, reached.step.expected.tokens, reached.begun)
        if key not in self._continuations:
            self._continuations[key] = np.array(sorted(set(self._named(*key))), dtype=np.int64)
        return self._continuations[key]

    def _named(self, ended: Ended, tokens: Sequence[str], begun: str) -> Iterator[int]:
        """The pieces that end `ended` and go on with one of `tokens`, of which `begun` is written already."""
        numbers, length = self.vocabulary.by_ended[ended], len(begun)
        for text in (self._spelled[token] for token in tokens):
            ends = range(length, len(text) + 1) if text.startswith(begun) else ()
            for end in ends:
                if self._finishes[text][end]:
                    yield from numbers.get(text[length:end], ())

    @cached_property
    def _any(self) -> Mapping[Ended, Ids]:
        """The pieces that may follow where any token may: all, but for a bare separator that nothing could follow."""
        kinds = self.vocabulary.by_ended
        fitting = {
            ended: [number for begun, same in numbers.items() if begun or () in kinds for number in same]
            for ended, numbers in kinds.items()
        }
        return {ended: np.array(numbers, dtype=np.int64) for ended, numbers in fitting.items()}

    def _can_write(self, text: str) -> bool:
        """Whether a token can be written after a separator, and as the first."""
        finishes, after_separator = self._finishes[text], self.vocabulary.by_ended.get(("",), {})
        as_first = self.vocabulary.may_lead or finishes[0]
        return as_first and any(can and text[:end] in after_separator for end, can in enumerate(finishes))


_NONE = np.array([], dtype=np.int64)


def restricted(grammar: TargetGrammar, tokens: Collection[str]) -> TargetGrammar:
    """The grammar of those targets that need no other named tokens than `tokens`.

    >>> print(restricted(TargetGrammar.parse("<s> ::= a <t> | a <u> | a\\n<t> ::= b\\n<u> ::= c"), {"a", "c"}), end="")
    <s> ::= a <u> | a
    <u> ::= c
    """
    known: set[Category] = set()
    while True:
        kept = [each for each in grammar.productions if all(_is_known(symbol, known, tokens) for symbol in each.right)]
        if known == {production.left for production in kept}:
            break
        known = {production.left for production in kept}
    if grammar.start not in known:
        needed = sorted({symbol for each in grammar.productions for symbol in each.right if isinstance(symbol, str)})
        shown = ", ".join(f"'{token}'" for token in needed if token not in tokens)
        raise NqgError(f"no legal target can be written in the model's word pieces: they lack {shown}")
    return TargetGrammar(tuple(sorted(kept, key=lambda production: production.left != grammar.start)))


def _is_known(symbol: TargetSymbol, categories: Collection[Category], tokens: Collection[str]) -> bool:
    match symbol:
        case Category():
            return symbol in categories
        case str():
            return symbol in tokens
        case _:
            return True


class LegalContinuations(LogitsProcessor):
    """For `generate`: pieces that lead out of the legal targets get no chance, in every row and beam on its own.

    A row's place is looked up by its pieces, never by its number, because beams change rows from step to step.
    """

    def __init__(self, legal: LegalTargets) -> None:
        self.legal = legal
        self._places: dict[tuple[int, ...], Place | None] = {}

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The scores, with minus infinity for all pieces that may not follow: (rows, vocabulary)."""
        rows = [tuple(row) for row in input_ids.tolist()]
        if len(rows[0]) == 1:  # only the piece that every text starts from
            self._places = dict.fromkeys(rows, self.legal.start())
        else:
            before = ((row, self._places[row[:-1]]) for row in rows)
            self._places = {row: place and self.legal.after(place, row[-1]) for row, place in before}
        ended = np.array([self.legal.vocabulary.end])  # so a text that has ended, or a beam without a chance, goes on
        allowed = [ended if place is None else self.legal.allowed(place) for place in map(self._places.get, rows)]
        numbers = torch.from_numpy(np.concatenate(allowed)).to(scores.device)
        owners = torch.repeat_interleave(torch.tensor([len(each) for each in allowed])).to(scores.device)
        masked = torch.full_like(scores, -torch.inf)
        masked[owners, numbers] = scores[owners, numbers]
        return masked  # type: ignore[return-value]


@dataclass(frozen=True)
class LegalSeq2seq:
    """A sequence-to-sequence model that answers with legal targets or, where it comes to no end, with none."""

    seq2seq: Seq2seq
    grammar: TargetGrammar

    @cached_property
    def legal(self) -> LegalTargets:
        """The grammar in the model's pieces, made on first use."""
        return LegalTargets(self.grammar, self.seq2seq.tokenizer, self.seq2seq.spelling)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The legal target of every sentence."""
        found = self.seq2seq.answers(sentences, allowed=LegalContinuations(self.legal))
        is_legal = [each.target is not None and self.grammar.accepts(each.target.split()) for each in found]
        silent = [replace(each, target=None, reason="no legal target came to an end") for each in found]
        return [each if legal else none for each, legal, none in zip(found, is_legal, silent, strict=True)]
