"""A grammar as integer arrays, the form in which the chart kernels read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.rule import Rule
from nqg.grammar.symbols import NonTerminal
from nqg.grammar.trie import NOWHERE, Integers, Trie, TrieArrays, firsts_of

LEAF = -16  # tokens from here downwards are leaves: they derive themselves (see `induction`)
NT = -1  # the one non-terminal's label on source sides; terminals are 0, 1, 2, …
UNKNOWN = -2  # a token that no rule mentions: it matches no label


class GrammarArrays(NamedTuple):
    """Rules as kernels see them. In `targets` terminals are >= 0 and NT_k is -k."""

    trie: TrieArrays  # source sides; items are rule numbers
    over_nt: Integers  # (trie nodes,) the node behind the edge NT, or NOWHERE
    active: NDArray[np.bool_]  # (R,) rules that may be applied; the others are as if they were not there
    arities: Integers  # (R,)
    first_target: Integers  # (R + 1,) target of rule r is targets[first_target[r]:first_target[r + 1]]
    targets: Integers


@dataclass(frozen=True, slots=True)
class EncodedGrammar:
    """The arrays of a grammar and the numbers of its terminals."""

    vocabulary: Mapping[str, int]
    arrays: GrammarArrays
    max_arity: int

    @classmethod
    def of(cls, rules: Sequence[Rule]) -> EncodedGrammar:
        """The encoded form of `rules`; rule r keeps its position as its number."""
        vocabulary = _vocabulary(rules)
        sources = [_source_labels(rule, vocabulary) for rule in rules]
        targets = [_target_labels(rule, vocabulary) for rule in rules]
        arrays = grammar_arrays(sources, targets)
        return cls(vocabulary, arrays, int(arrays.arities.max(initial=0)))

    def laid_out(self, sentences: Sequence[Sequence[str]]) -> tuple[Integers, Integers]:
        """Where each sentence begins when all lie end to end, and their tokens' numbers, UNKNOWN where unknown."""
        firsts = firsts_of(sentences)
        tokens = map(self.vocabulary.get, chain.from_iterable(sentences), repeat(UNKNOWN))
        return firsts, np.fromiter(tokens, dtype=np.int32, count=firsts[-1])


def grammar_arrays(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> GrammarArrays:
    """The arrays of rules given by their labels: NT on source sides, -k for NT_k on target sides."""
    firsts, labels = firsts_of(sources), flat(sources)
    trie = Trie.of_labels(firsts, labels)
    arities = np.diff(np.concatenate([[0], np.cumsum(labels == NT)])[firsts]).astype(np.int32)
    everything = np.ones(len(sources), dtype=np.bool_)
    return GrammarArrays(trie.arrays, _over_nt(trie.arrays), everything, arities, firsts_of(targets), flat(targets))


def flat(sequences: Iterable[Iterable[int]]) -> Integers:
    """Sequences of labels end to end."""
    return np.fromiter(chain.from_iterable(sequences), dtype=np.int32)


def _vocabulary(rules: Iterable[Rule]) -> dict[str, int]:
    symbols = chain.from_iterable((*rule.source, *rule.target) for rule in rules)
    terminals = dict.fromkeys(symbol for symbol in symbols if isinstance(symbol, str))
    return {terminal: number for number, terminal in enumerate(terminals)}


def _source_labels(rule: Rule, vocabulary: Mapping[str, int]) -> list[int]:
    return [NT if isinstance(symbol, NonTerminal) else vocabulary[symbol] for symbol in rule.source]


def _target_labels(rule: Rule, vocabulary: Mapping[str, int]) -> list[int]:
    return [-symbol.index if isinstance(symbol, NonTerminal) else vocabulary[symbol] for symbol in rule.target]


def _over_nt(trie: TrieArrays) -> Integers:
    """For every node, where NT leads: its edges are sorted and NT is the smallest label, so it is the first edge."""
    over = np.full(len(trie.first_edge) - 1, NOWHERE, dtype=np.int32)
    owners = np.flatnonzero(np.diff(trie.first_edge))
    firsts = trie.first_edge[owners]
    starts_with_nt = trie.labels[firsts] == NT
    over[owners[starts_with_nt]] = trie.successors[firsts[starts_with_nt]]
    return over
