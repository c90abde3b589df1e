"""Decoding that cannot go wrong: after every subword the text is still the beginning of a legal target.

The grammar of legal targets speaks of tokens, the model of subwords; a subword may end a token, be a part of one, or
hold several. So the state of a text is a legal prefix of whole tokens and the beginning of one more (`DecodingState`),
and a subword is the tokens that it ends and what it begins (`Fragment`). A subword may follow if the tokens that it
ends may, and if what is then begun is the beginning of a token that may come next *and* that other subwords can bring
to its end. Hence there is always a way on, and the end may be written exactly where the target is complete. Targets
with tokens that the model has no subwords for cannot be written and count as illegal (`restricted`).

What a model answers freely stands if it is legal. Only the other sentences are decoded again (`LegalSeq2seq`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor

from nqg.answers import Answer
from nqg.errors import NqgError
from nqg.grammar.arrays import Int64Array
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import BASELINE_MODELS
from nqg.seq2seq.spelling import Spelling, decode, tokenize_targets
from nqg.types.earley import Expected, Prefix
from nqg.types.target_grammar import Category, TargetGrammar, TargetSymbol, Wildcard

Ended = tuple[str, ...]
DIGITS = "0123456789"
ALMOST_ANY = frozenset((Wildcard.UNQUOTED, Wildcard.NEW_TOKEN))  # what takes most tokens
BEAMS = 8  # of the search where a free answer is illegal
DAMAGED = "\N{REPLACEMENT CHARACTER}"  # what tokenizers write for a part of a character


class Fragment(NamedTuple):
    """What a subword adds to a text: the ends of tokens (the first may have begun before), and a beginning."""

    ended: Ended
    begun: str


@dataclass(frozen=True, slots=True)
class SubwordVocabulary:
    """The subwords of a tokenizer by what they add to a text; those that no target can contain are left out."""

    fragments: Mapping[int, Fragment]
    by_ended: Mapping[Ended, Mapping[str, list[int]]]
    opening: int | None  # the subword that a text opens with and that writes nothing, as BART's <s>
    end: int  # the subword that ends a text
    may_lead: bool  # whether a text may begin with the sign between tokens, as T5's do

    @classmethod
    def of(cls, tokenizer: Any, spelling: Spelling) -> SubwordVocabulary:
        """The vocabulary of a tokenizer whose texts are read with `spelling`."""
        numbers = range(len(tokenizer))
        alone = decode(tokenizer, [[number] for number in numbers])
        first = next(
            number for number in numbers if alone[number].strip() and DAMAGED not in alone[number]
        )
        fragments: dict[int, Fragment] = {}
        by_ended: dict[Ended, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, text in enumerate(decode(tokenizer, [[first, number] for number in numbers])):
            added = text.removeprefix(alone[first])
            if added == text or DAMAGED in added:
                continue
            if spelling.space is not None:
                added = "".join(
                    added.split()
                )  # spaces mean nothing where a mark stands between tokens
            *ended, begun = added.split(spelling.space or " ")
            if (
                added
                and all(ended[1:])
                and not any(character.isspace() for character in "".join((*ended, begun)))
            ):
                fragments[number] = Fragment(tuple(ended), begun)
                by_ended[tuple(ended)][begun].append(number)
        opening = next(iter(tokenize_targets(tokenizer, ["a"])[0]), None)
        return cls(
            fragments,
            {ended: dict(subwords) for ended, subwords in by_ended.items()},
            opening if opening in (tokenizer.bos_token_id, tokenizer.cls_token_id) else None,
            tokenizer.eos_token_id,
            spelling.space is None,
        )

    def can_finish(self, text: str) -> list[bool]:
        """For each position of a token whether subwords that end nothing can write the rest."""
        inside = self.by_ended.get((), {})
        finishes = [False] * len(text) + [True]
        for start in reversed(range(len(text))):
            ends = (end for end in range(start + 1, len(text) + 1) if finishes[end])
            finishes[start] = any(text[start:end] in inside for end in ends)
        return finishes


@dataclass(slots=True, eq=False)
class PrefixNode:
    """A legal prefix with the ones that were found to follow it, so that the rows of a batch share their beginnings."""

    prefix: Prefix
    expected: Expected
    following: dict[str, PrefixNode | None] = field(default_factory=dict)

    def then(self, token: str) -> PrefixNode | None:
        """One more token; None where no legal target continues so."""
        if token not in self.following:
            prefix = self.prefix.then(token) if self.expected.allows(token) else None
            self.following[token] = None if prefix is None else PrefixNode(prefix, prefix.expected)
        return self.following[token]


class DecodingState(NamedTuple):
    """Where a text stands: its whole tokens, the beginning of the next, and whether nothing was written yet."""

    node: PrefixNode
    begun: str = ""
    is_start: bool = False
    is_unopened: bool = False  # the subword that a text opens with must come first


class LegalTargets:
    """The legal targets of a grammar in the subwords of a model."""

    def __init__(
        self,
        grammar: TargetGrammar,
        tokenizer: Any,
        spelling: Spelling,
        vocabulary: SubwordVocabulary | None = None,
    ) -> None:
        self.spelling = spelling
        self.vocabulary = vocabulary or SubwordVocabulary.of(tokenizer, spelling)
        self.spelled = {token: spelling.spelled(token) for token in grammar.recogniser.terminals}
        self.finishes = {
            text: self.vocabulary.can_finish(text) for text in (*self.spelled.values(), *DIGITS)
        }
        self.digit = next(
            (digit for digit in DIGITS if self.finishes[digit][0]), ""
        )  # that may continue a token
        after_separator, writable = self.vocabulary.by_ended.get(("",), {}), set[str]()
        for token, text in (self.spelled | {digit: digit for digit in DIGITS}).items():
            finishes = self.finishes[text]
            as_first = self.vocabulary.may_lead or finishes[0]
            if as_first and any(
                can and text[:end] in after_separator for end, can in enumerate(finishes)
            ):
                writable.add(token)
        self.grammar = restricted(grammar, writable)
        self.known: dict[tuple[Ended, Expected, str], Int64Array] = {}

    def start(self) -> DecodingState:
        """The state before the first subword; all that is learned of prefixes lives as long as the states after it."""
        prefix = self.grammar.prefix()
        assert prefix is not None  # every grammar derives something
        is_unopened = self.vocabulary.opening is not None
        return DecodingState(
            PrefixNode(prefix, prefix.expected), is_start=True, is_unopened=is_unopened
        )

    def after(self, state: DecodingState, number: int) -> DecodingState | None:
        """The state after one more subword; None where the text is then not a beginning of a legal target."""
        if state.is_unopened:
            return state._replace(is_unopened=False) if number == self.vocabulary.opening else None
        fragment = self.vocabulary.fragments.get(number)
        reached = fragment and self._after_ends(state, fragment.ended)
        if fragment is None or reached is None:
            return None
        expected, begun = reached.node.expected, reached.begun + fragment.begun
        texts = (self.spelled[token] for token in expected.tokens)
        if expected.any_token or any(
            text.startswith(begun) and self.finishes[text][len(begun)] for text in texts
        ):
            return DecodingState(reached.node, begun)
        return (
            DecodingState(reached.node, begun) if self._begins_wildcard(begun, expected) else None
        )

    def allowed(self, state: DecodingState) -> Int64Array:
        if state.is_unopened:
            return np.array([self.vocabulary.opening])
        found = [np.array([], dtype=np.int64)]
        for ended in self.vocabulary.by_ended:
            reached = self._after_ends(state, ended)
            if reached is not None:
                expected = reached.node.expected
                # Where digits may continue it, even a quotation mark or a named token begins a token that is none.
                is_any = expected.any_token or (
                    self.digit and not ALMOST_ANY.isdisjoint(expected.wildcards)
                )
                found.append(
                    self.any_token[ended]
                    if is_any
                    else self._beginnings(ended, expected, reached.begun)
                )
        if self.is_complete(state):
            found.append(np.array([self.vocabulary.end]))
        return np.concatenate(found)

    def is_complete(self, state: DecodingState) -> bool:
        last = state.node.then(self.spelling.read(state.begun)) if state.begun else None
        return last is not None and last.expected.end

    @cached_property
    def any_token(self) -> Mapping[Ended, Int64Array]:
        """What may follow where any token may: all subwords but for a bare separator that nothing could follow."""
        kinds = self.vocabulary.by_ended
        fitting = {
            ended: [
                number for begun, same in numbers.items() if begun or () in kinds for number in same
            ]
            for ended, numbers in kinds.items()
        }
        return {ended: np.array(numbers, dtype=np.int64) for ended, numbers in fitting.items()}

    def _after_ends(self, state: DecodingState, parts: Ended) -> DecodingState | None:
        """The state after the ends of tokens; one separator is between two tokens, one or none before the first."""
        for part in parts:
            token = state.begun + part
            if token:
                node = state.node.then(self.spelling.read(token))
            else:
                node = state.node if state.is_start and self.vocabulary.may_lead else None
            if node is None or not (node.expected.tokens or node.expected.wildcards):
                return None
            state = DecodingState(node)
        return state

    def _beginnings(self, ended: Ended, expected: Expected, begun: str) -> Int64Array:
        """The subwords that end `ended` and continue with what is expected, of which `begun` is written already."""
        if (key := (ended, expected, begun)) not in self.known:
            found, numbers = set[int](), self.vocabulary.by_ended[ended]
            for text in (self.spelled[token] for token in expected.tokens):
                for end in range(len(begun), len(text) + 1) if text.startswith(begun) else ():
                    if self.finishes[text][end]:
                        found.update(numbers.get(text[len(begun) : end], ()))
            for text, same in numbers.items() if expected.wildcards else ():
                if self._begins_wildcard(begun + text, expected):
                    found.update(same)
            self.known[key] = np.array(sorted(found), dtype=np.int64)
        return self.known[key]

    def _begins_wildcard(self, text: str, expected: Expected) -> bool:
        """Whether `text` is a token that an expected wildcard matches, or becomes one with digits (`-`, `1.`)."""
        if self.digit and Wildcard.NEW_TOKEN in expected.wildcards:
            return True  # digits enough make any token new
        tokens = [self.spelling.read(each) for each in (text, text + self.digit) if each]
        return any(
            wildcard.matches(token, expected.named)
            for wildcard in expected.wildcards
            for token in tokens
        )


def restricted(grammar: TargetGrammar, tokens: Collection[str]) -> TargetGrammar:
    """The grammar of those targets that need no other named tokens than `tokens`, nor numbers where no digit is one.

    >>> print(restricted(TargetGrammar.parse("<s> ::= a <t> | a <u> | a\\n<t> ::= b\\n<u> ::= c"), {"a", "c"}), end="")
    <s> ::= a <u> | a
    <u> ::= c
    """
    known: set[Category] = set()

    def is_known(symbol: TargetSymbol) -> bool:
        match symbol:
            case Category():
                return symbol in known
            case str():
                return symbol in tokens
            case Wildcard.NUMBER:
                return any(map(symbol.matches, tokens))
            case _:
                return True

    while True:
        kept = [
            production for production in grammar.productions if all(map(is_known, production.right))
        ]
        if known == {production.left for production in kept}:
            break
        known = {production.left for production in kept}
    if grammar.start not in known:
        needed = sorted(
            {
                symbol
                for each in grammar.productions
                for symbol in each.right
                if isinstance(symbol, str)
            }
        )
        shown = ", ".join(f"'{token}'" for token in needed if token not in tokens) or "numbers"
        raise NqgError(f"no legal target can be written in the model's subwords: they lack {shown}")
    return TargetGrammar(
        tuple(sorted(kept, key=lambda production: production.left != grammar.start))
    )


class LegalContinuations(LogitsProcessor):
    """For `generate`: subwords that lead out of the legal targets get no chance, in every row and beam on its own.

    The state of a row is looked up by its subwords, never by its number, because beams change rows from step to step.
    """

    def __init__(self, legal: LegalTargets) -> None:
        self.legal = legal
        self.states: dict[tuple[int, ...], DecodingState | None] = {}

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The scores, with minus infinity for all subwords that may not follow: (rows, vocabulary)."""
        rows = [tuple(row) for row in input_ids.tolist()]
        if len(rows[0]) == 1:  # only the subword that every text starts from
            self.states = dict.fromkeys(rows, self.legal.start())
        else:
            before = {row: self.states[row[:-1]] for row in rows}
            self.states = {
                row: state and self.legal.after(state, row[-1]) for row, state in before.items()
            }
        end = np.array(
            [self.legal.vocabulary.end]
        )  # all that may follow an end, or a beam that has no chance any more
        states = [self.states[row] for row in rows]
        allowed = [end if state is None else self.legal.allowed(state) for state in states]
        numbers = torch.from_numpy(np.concatenate(allowed)).to(scores.device)
        owners = torch.repeat_interleave(torch.tensor([len(each) for each in allowed])).to(
            scores.device
        )
        masked = torch.full_like(scores, -torch.inf)
        masked[owners, numbers] = scores[owners, numbers]
        return masked  # type: ignore[return-value]


@dataclass(frozen=True)
class LegalSeq2seq:
    """A sequence-to-sequence model that answers with legal targets or, where it comes to no end, with none."""

    seq2seq: Seq2seq
    grammar: TargetGrammar
    vocabulary: SubwordVocabulary | None = None  # made where it is not given

    @cached_property
    def legal(self) -> LegalTargets:
        """The grammar in the model's subwords, made on first use."""
        return LegalTargets(
            self.grammar, self.seq2seq.tokenizer, self.seq2seq.spelling, self.vocabulary
        )

    @cached_property
    def searching(self) -> Seq2seq:
        """The model with beams, if it can have them: one path that has to leave its way often ends in nonsense."""
        settings = self.seq2seq.settings
        beams = settings.beams if settings.model in BASELINE_MODELS else max(settings.beams, BEAMS)
        return replace(self.seq2seq, settings=replace(settings, beams=beams))

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The legal target of every sentence."""
        return self.corrected(self.seq2seq.answers(sentences))

    def corrected(self, answers: Iterable[Answer]) -> list[Answer]:
        """Free answers that are legal, and for the others the likeliest legal targets of a beam search."""
        found = list(answers)
        illegal = [position for position, answer in enumerate(found) if not self._is_legal(answer)]
        sources = [found[position].source for position in illegal]
        again = (
            self.searching.answers(sources, allowed=LegalContinuations(self.legal))
            if illegal
            else []
        )
        for position, answer in zip(illegal, again, strict=True):
            unfinished = replace(answer, target=None, reason="no legal target came to an end")
            found[position] = answer if self._is_legal(answer) else unfinished
        return found

    def _is_legal(self, answer: Answer) -> bool:
        return answer.target is not None and self.grammar.accepts(answer.target.split())
