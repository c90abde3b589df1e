"""Decoding that cannot leave the legal targets: after every subword the text is still the beginning
of one.

The grammar of legal targets has tokens as symbols, the model writes subwords; a subword may end a
token, lie inside one, or hold several. So the state of a text is a legal prefix of whole tokens and
the beginning of one more (`DecodingState`), and a subword is the tokens that it ends and what it
begins (`Fragment`). A subword may follow if the tokens that it ends may, and if what is then begun
is the beginning of a token that may come next *and* that other subwords can complete. Hence some
subword may always follow, and the end may be written exactly where the target is complete. Targets
with tokens that the model has no subwords for count as illegal (`restricted`).

A free answer stands if it is legal. Only the other sentences are decoded again (`LegalSeq2seq`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nqg.answers import SEQ2SEQ, Answer
from nqg.errors import NqgError
from nqg.grammar.arrays import Int64Array
from nqg.seq2seq.settings import BASELINE_MODELS
from nqg.seq2seq.target_codec import TargetCodec, decode, tokenize_targets
from nqg.types.earley import Expected, Prefix
from nqg.types.target_grammar import Category, TargetGrammar, TargetSymbol, Wildcard

if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq
    from nqg.seq2seq.t5_reader import T5Reader

Ended = tuple[str, ...]
Index = tuple[Int64Array, Int64Array]
DIGITS = "0123456789"
# Wildcards that match most tokens.
ALMOST_ANY = {Wildcard.UNQUOTED, Wildcard.NEW_TOKEN}
# A bound of work: beams of the search where a free answer is illegal. docs/teaching.md has the
# exact match with them, and with a greedy search.
BEAMS = 8
# Why a model under a grammar abstains.
UNFINISHED = "no legal target came to an end"
# Tokenizers write this for a fragment of a character.
DAMAGED = "\N{REPLACEMENT CHARACTER}"


class Fragment(NamedTuple):
    """What a subword adds to a text: the ends of tokens (the first may have begun before), and a
    beginning.
    """

    ended: Ended
    begun: str


@dataclass(frozen=True, slots=True)
class SubwordVocabulary:
    """The subwords of a tokenizer by what they add to a text, without those that no target can
    contain.

    `opening` is the subword that a text opens with and that writes nothing, as BART's <s>. `end` is
    the subword that ends a text. `may_lead` says whether a text may begin with the separator of
    tokens, as T5's do.
    """

    fragments: Mapping[int, Fragment]
    by_ended: Mapping[Ended, Mapping[str, list[int]]]
    opening: int | None
    end: int
    may_lead: bool

    @classmethod
    def of(cls, tokenizer: Any, codec: TargetCodec) -> SubwordVocabulary:
        """The vocabulary of a tokenizer whose texts `codec` decodes."""
        # A subword is decoded after another one, because many tokenizers drop the space that a text
        # begins with.
        alone = decode(tokenizer, [[number] for number in range(len(tokenizer))])
        first, before = next(
            (number, text)
            for number, text in enumerate(alone)
            if text.strip() and DAMAGED not in text
        )
        texts = decode(tokenizer, [[first, number] for number in range(len(tokenizer))])
        fragments: dict[int, Fragment] = {}
        by_ended: dict[Ended, dict[str, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for number, text in enumerate(texts):
            added = text.removeprefix(before)
            if added == text or DAMAGED in added:
                continue
            # Spaces mean nothing where a mark separates tokens.
            if codec.space is not None:
                added = "".join(added.split())
            *ended, begun = added.split(codec.space or " ")
            has_space = any(map(str.isspace, "".join((*ended, begun))))
            if added and all(ended[1:]) and not has_space:
                fragments[number] = Fragment(tuple(ended), begun)
                by_ended[tuple(ended)][begun].append(number)
        opening = next(iter(tokenize_targets(tokenizer, ["a"])[0]), None)
        if opening not in (tokenizer.bos_token_id, tokenizer.cls_token_id):
            opening = None
        return cls(
            fragments, by_ended, opening, tokenizer.eos_token_id, codec.space is None
        )

    def can_finish(self, text: str) -> list[bool]:
        """For each position of a token whether subwords that end nothing can write the rest."""
        inside = self.by_ended.get((), {})
        finishes = [False] * len(text) + [True]
        for start in reversed(range(len(text))):
            for end in range(start + 1, len(text) + 1):
                if finishes[end] and text[start:end] in inside:
                    finishes[start] = True
        return finishes


@dataclass(slots=True, eq=False)
class PrefixNode:
    """A legal prefix with those that follow it, as far as they were asked for: rows of a batch
    share beginnings.
    """

    prefix: Prefix
    expected: Expected
    following: dict[str, PrefixNode | None] = field(default_factory=dict)

    def then(self, token: str) -> PrefixNode | None:
        """One more token; None where no legal target continues so."""
        if token not in self.following:
            prefix = self.prefix.then(token) if self.expected.allows(token) else None
            self.following[token] = (
                PrefixNode(prefix, prefix.expected) if prefix else None
            )
        return self.following[token]


class DecodingState(NamedTuple):
    """The whole tokens of a text, the beginning of the next, and whether nothing was written yet.

    Where `is_unopened`, the subword that a text opens with must come first.
    """

    node: PrefixNode
    begun: str = ""
    is_start: bool = False
    is_unopened: bool = False


class LegalTargets:
    """The legal targets of a grammar in the subwords of a model."""

    def __init__(
        self,
        grammar: TargetGrammar,
        tokenizer: Any,
        codec: TargetCodec,
        vocabulary: SubwordVocabulary | None = None,
    ) -> None:
        self.codec = codec
        self.vocabulary = vocabulary or SubwordVocabulary.of(tokenizer, codec)
        self.encoded = {
            token: codec.encode(token) for token in grammar.recogniser.terminals
        }
        self.finishes: dict[str, list[bool]] = {}
        writable = set()
        for token, text in (*self.encoded.items(), *zip(DIGITS, DIGITS)):
            self.finishes[text] = self.vocabulary.can_finish(text)
            if self._is_writable(text):
                writable.add(token)
        # A digit that may continue a token, if there is one.
        self.digit = next((digit for digit in DIGITS if self.finishes[digit][0]), "")
        self.grammar = restricted(grammar, writable)
        self.cache: dict[tuple[Ended, Expected, str], Int64Array] = {}

    def _is_writable(self, text: str) -> bool:
        """Whether a token with this text may stand anywhere in a target.

        A target may begin with any token, and a first token may have no separator before it.
        """
        finishes = self.finishes[text]
        if not (self.vocabulary.may_lead or finishes[0]):
            return False
        after_separator = self.vocabulary.by_ended.get(("",), {})
        ends = (end for end, can_finish in enumerate(finishes) if can_finish)
        return any(text[:end] in after_separator for end in ends)

    def start(self) -> DecodingState:
        """The state before the first subword; what is known of prefixes lives as long as the states
        after it.
        """
        prefix = self.grammar.prefix()
        assert prefix is not None  # every grammar derives something
        is_unopened = self.vocabulary.opening is not None
        return DecodingState(PrefixNode(prefix, prefix.expected), "", True, is_unopened)

    def after(self, state: DecodingState, number: int) -> DecodingState | None:
        """The state after one more subword; None where the text is then not a beginning of a legal
        target.
        """
        if state.is_unopened:
            return (
                state._replace(is_unopened=False)
                if number == self.vocabulary.opening
                else None
            )
        fragment = self.vocabulary.fragments.get(number)
        if fragment is None:
            return None
        reached = self._after_ends(state, fragment.ended)
        if reached is None:
            return None
        expected, begun = reached.node.expected, reached.begun + fragment.begun
        texts = (self.encoded[token] for token in expected.tokens)
        may_follow = (
            expected.any_token
            or any(
                text.startswith(begun) and self.finishes[text][len(begun)]
                for text in texts
            )
            or self._begins_wildcard(begun, expected)
        )
        return DecodingState(reached.node, begun) if may_follow else None

    def allowed(self, state: DecodingState) -> Int64Array:
        """The subwords that may come next."""
        if state.is_unopened:
            return np.array([self.vocabulary.opening])
        allowed = [np.array([], dtype=np.int64)]
        for ended in self.vocabulary.by_ended:
            reached = self._after_ends(state, ended)
            if reached is None:
                continue
            # Where digits may continue a token, even a quotation mark or a named token begins
            # another one.
            expected = reached.node.expected
            is_almost_any = self.digit and not ALMOST_ANY.isdisjoint(expected.wildcards)
            if expected.any_token or is_almost_any:
                allowed.append(self.any_token[ended])
            else:
                allowed.append(self._beginnings(ended, expected, reached.begun))
        last = state.node.then(self.codec.decode(state.begun)) if state.begun else None
        if last and last.expected.end:
            allowed.append(np.array([self.vocabulary.end]))
        return np.concatenate(allowed)

    @cached_property
    def any_token(self) -> Mapping[Ended, Int64Array]:
        """The subwords where any token may follow: all but a bare separator after which nothing can
        be written.
        """
        subwords = {}
        for ended, by_begun in self.vocabulary.by_ended.items():
            numbers: list[int] = []
            for begun, same in by_begun.items():
                if begun or () in self.vocabulary.by_ended:
                    numbers += same
            subwords[ended] = np.array(numbers, dtype=np.int64)
        return subwords

    def _after_ends(self, state: DecodingState, ends: Ended) -> DecodingState | None:
        """The state after the ends of tokens: one separator between two tokens, one or none before
        the first.
        """
        for end in ends:
            token = state.begun + end
            node = None
            if token:
                node = state.node.then(self.codec.decode(token))
            elif state.is_start and self.vocabulary.may_lead:
                node = state.node
            if node is None or not (node.expected.tokens or node.expected.wildcards):
                return None
            state = DecodingState(node)
        return state

    def _beginnings(self, ended: Ended, expected: Expected, begun: str) -> Int64Array:
        """The subwords that end `ended` and continue with what is expected, of which `begun` is
        written already.
        """
        key = ended, expected, begun
        if key in self.cache:
            return self.cache[key]
        numbers: set[int] = set()
        by_begun = self.vocabulary.by_ended[ended]
        for text in (self.encoded[token] for token in expected.tokens):
            if not text.startswith(begun):
                continue
            for end in range(len(begun), len(text) + 1):
                if self.finishes[text][end]:
                    numbers.update(by_begun.get(text[len(begun) : end], ()))
        if expected.wildcards:
            for text, same in by_begun.items():
                if self._begins_wildcard(begun + text, expected):
                    numbers.update(same)
        self.cache[key] = np.array(sorted(numbers), dtype=np.int64)
        return self.cache[key]

    def _begins_wildcard(self, text: str, expected: Expected) -> bool:
        """Whether `text` is a token that an expected wildcard matches, or becomes one with digits
        (`-`, `1.`).
        """
        # Enough digits make any token new.
        if self.digit and Wildcard.NEW_TOKEN in expected.wildcards:
            return True
        for candidate in filter(None, (text, text + self.digit)):
            token = self.codec.decode(candidate)
            if any(
                wildcard.matches(token, expected.named)
                for wildcard in expected.wildcards
            ):
                return True
        return False


def restricted(grammar: TargetGrammar, tokens: Collection[str]) -> TargetGrammar:
    """The grammar of the targets that need no named tokens but `tokens`, nor numbers where no digit
    is one.

    >>> grammar = TargetGrammar.parse("<s> ::= a <t> | a <u> | a\\n<t> ::= b\\n<u> ::= c")
    >>> print(restricted(grammar, {"a", "c"}), end="")
    <s> ::= a <u> | a
    <u> ::= c
    """
    derivable: set[Category] = set()

    def is_derivable(symbol: TargetSymbol) -> bool:
        match symbol:
            case Category():
                return symbol in derivable
            case str():
                return symbol in tokens
            case Wildcard.NUMBER:
                return any(map(symbol.matches, tokens))
            case _:
                return True

    # Categories become derivable round by round, until no production brings another one.
    while True:
        productions = [
            production
            for production in grammar.productions
            if all(map(is_derivable, production.right))
        ]
        reached = {production.left for production in productions}
        if reached == derivable:
            break
        derivable = reached
    if grammar.start not in derivable:
        missing = sorted(grammar.terminals - {*tokens})
        lacking = ", ".join(f"'{token}'" for token in missing) or "numbers"
        raise NqgError(
            f"no legal target can be written in the model's subwords: they lack {lacking}"
        )
    productions.sort(key=lambda production: production.left != grammar.start)
    return TargetGrammar(tuple(productions))


class LegalContinuations:
    """The subwords that lead out of the legal targets in no row, for beam searches.

    The state of a row is looked up by its subwords, never by its number, because beams change rows
    from step to step.
    """

    def __init__(self, legal: LegalTargets) -> None:
        self.legal = legal
        self.states: dict[tuple[int, ...], DecodingState | None] = {}

    def allowed(self, sequences: Sequence[Sequence[int]]) -> Index:
        """The numbers of rows and the subwords that may follow there; all rows are equally long."""
        rows = list(map(tuple, sequences))
        before, self.states = self.states, dict.fromkeys(rows)
        # The first subword is the one that every text starts from.
        if len(rows[0]) == 1:
            self.states = dict.fromkeys(rows, self.legal.start())
        else:
            for row in self.states:
                state = before[row[:-1]]
                self.states[row] = state and self.legal.after(state, row[-1])

        # Only an end may follow an end, or a beam that has no legal continuation.
        end = np.array([self.legal.vocabulary.end])
        allowed = []
        for row in rows:
            state = self.states[row]
            allowed.append(end if state is None else self.legal.allowed(state))
        owners = np.repeat(np.arange(len(rows)), list(map(len, allowed)))
        return owners, np.concatenate(allowed)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """For `generate` of transformers: the scores, minus infinity for all subwords that may not
        follow: (rows, vocabulary).
        """
        owners, subwords = self.allowed(input_ids.tolist())
        rows, columns = input_ids.new_tensor(np.stack([owners, subwords]))
        masked = scores.new_full(scores.shape, -np.inf)
        masked[rows, columns] = scores[rows, columns]
        return masked


@dataclass(frozen=True)
class LegalSeq2seq:
    """A sequence-to-sequence model that answers with legal targets or, where none comes to an end,
    abstains.
    """

    seq2seq: Seq2seq | T5Reader
    grammar: TargetGrammar
    vocabulary: SubwordVocabulary | None = None

    @cached_property
    def legal(self) -> LegalTargets:
        """The grammar in the model's subwords, made on first use."""
        seq2seq = self.seq2seq
        return LegalTargets(
            self.grammar, seq2seq.tokenizer, seq2seq.spelling, self.vocabulary
        )

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        """The legal target of every sentence."""
        return self.corrected(self.seq2seq.answers(sentences))

    def corrected(self, answers: Iterable[Answer]) -> list[Answer]:
        """Free answers that are legal, and for the others the likeliest legal targets of a beam
        search.
        """
        answers = list(answers)
        sentences = [answer.source for answer in answers]
        free = [[answer] for answer in answers]
        corrected = []
        for sentence, legal in zip(
            sentences, self.legal_candidates(sentences, free, 1)
        ):
            answer = Answer(sentence, system=SEQ2SEQ, reason=UNFINISHED)
            corrected.append(legal[0] if legal else answer)
        return corrected

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        """Up to `count` different legal targets of each sentence, the likeliest first; none where
        no legal target comes to an end.
        """
        free = self.seq2seq.candidates(sentences, count)
        return self.legal_candidates(sentences, free, count)

    def legal_candidates(
        self, sentences: Sequence[str], free: Sequence[Sequence[Answer]], count: int
    ) -> list[list[Answer]]:
        """Those of the free candidates that are legal; a sentence that has none is decoded again
        under the grammar.
        """
        candidates = [list(filter(self._is_legal, answers)) for answers in free]
        without = [number for number, legal in enumerate(candidates) if not legal]
        if not without:
            return candidates
        # A greedy search that must leave its path often ends in nonsense.
        settings = self.seq2seq.settings
        if settings.model not in BASELINE_MODELS:
            settings = replace(settings, beams=max(settings.beams, BEAMS))
        searching = replace(self.seq2seq, settings=settings)
        again = searching.candidates(
            [sentences[number] for number in without],
            count,
            allowed=LegalContinuations(self.legal),
        )
        for number, answers in zip(without, again):
            candidates[number] = list(filter(self._is_legal, answers))
        return candidates

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The natural logarithm of p(target | sentence) for each pair, under the free model."""
        return self.seq2seq.log_probabilities(pairs)

    def _is_legal(self, answer: Answer) -> bool:
        return answer.target is not None and self.grammar.accepts(answer.target.split())
