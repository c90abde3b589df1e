"""Words that must be there: rules that erase a word are undone where constructions always have it.

To write *was* once instead of in every passive rule, a search may find a rule that erases it:

    NT_1 was                  ### NT_1
    NT_1 NT_2 by NT_3         ### NT_2 ( theme = NT_1 , agent = NT_3 )

Then nothing says that a cake that *was painted* did not paint. But no example has the second rule
without the first: in this place *was* is *obligatory*, and belongs to the construction. Such an
eraser is composed with the rules that training has it below, and goes:

    NT_1 was NT_2 by NT_3     ### NT_2 ( theme = NT_1 , agent = NT_3 )

An eraser that is obligatory nowhere, such as that of *a*, stays: its word may be another one, or none.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nqg.data.example import Example
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbol
from nqg.grammar.hypergraph import NO_CHILD
from nqg.induction.corpus import underivable

# Examples that are asked for each rule that may be needed. With 50 or 2,000 the grammars of docs/slog.md
# are the same.
MOST_EXAMPLES = 500
# Rules that an obligatory word may take for each rule that never goes without it. From 2 to 20 the
# grammars are the same; with 1 fewer held-out pairs are derivable (docs/slog.md).
MOST_GROWTH = 3
# Charts in memory together.
AT_ONCE = 1024
# The numbers of erasers are bits.
MOST_ERASERS = 63

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class RuleArgument:
    """An argument of a rule, by the rule's number."""

    rule: int
    argument: int


@dataclass
class Uses:
    """Which erasers can be in each place of the right derivations of examples, as bits."""

    always: dict[RuleArgument, int] = field(default_factory=dict)
    ever: defaultdict[RuleArgument, int] = field(
        default_factory=lambda: defaultdict(int)
    )

    def add(self, place: RuleArgument, erasers: int) -> None:
        self.always[place] = self.always.get(place, erasers) & erasers
        self.ever[place] |= erasers


def erased_words(rule: Rule) -> Words:
    """The words of a rule that means what its only argument means; none of other rules.

    >>> erased_words(Rule.parse("NT_1 was ### NT_1"))
    ('was',)
    """
    if len(rule.target) != 1 or rule.arity != 1:
        return ()
    words = tuple(symbol for symbol in rule.source if isinstance(symbol, str))
    is_bare = isinstance(rule.target[0], NonTerminal)
    return words if is_bare and len(rule.source) > 1 else ()


def composed(rule: Rule, argument: int, eraser: Rule) -> Rule:
    """A rule with the words of an eraser around one of its arguments.

    >>> rule, was = Rule.parse("NT_1 by NT_2 ### by ( NT_2 , NT_1 )"), Rule.parse("NT_1 was ### NT_1")
    >>> print(composed(rule, 0, was))
    NT_1 was by NT_2 ### by ( NT_2 , NT_1 )
    """
    source: list[Symbol] = []
    for symbol in rule.source:
        if symbol == NonTerminal(argument + 1):
            source += [
                inner if isinstance(inner, str) else symbol for inner in eraser.source
            ]
        else:
            source.append(symbol)
    return Rule(tuple(source), rule.target)


def uses(grammar: Grammar, examples: Sequence[Example], erasers: Sequence[int]) -> Uses:
    """The erasers in the derivations of examples; each place of a span counts once."""
    bits = np.zeros(len(grammar), dtype=np.int64)
    bits[list(erasers)] = 1 << np.arange(len(erasers))
    found = Uses()
    for start in range(0, len(examples), AT_ONCE):
        batch = examples[start : start + AT_ONCE]
        full = charts(grammar, [example.source_tokens for example in batch])
        goal = goal_charts(grammar, full, [example.target_tokens for example in batch])
        owners = goal.owners()
        below = np.zeros(goal.nodes + 1, dtype=np.int64)
        np.bitwise_or.at(below, owners, bits[goal.rules])
        # However a span is divided among the arguments of a rule, it is one use of the rule.
        keys = owners.astype(np.int64) * len(grammar) + goal.rules
        every, groups = np.unique(keys, return_inverse=True)
        for argument in range(goal.children.shape[1]):
            children = goal.children[:, argument]
            erased = np.zeros(len(every), dtype=np.int64)
            np.bitwise_or.at(erased, groups, below[children])
            has_child = np.zeros(len(every), dtype=bool)
            has_child[groups[children != NO_CHILD]] = True
            rules = every % len(grammar)
            for rule, mask in zip(
                rules[has_child].tolist(), erased[has_child].tolist()
            ):
                found.add(RuleArgument(rule, argument), mask)
    return found


def with_obligatory_words(grammar: Grammar, examples: Sequence[Example]) -> Grammar:
    """The grammar without erasers of words that are obligatory in some constructions.

    It derives the same examples.
    """
    erasers = [number for number, rule in enumerate(grammar) if erased_words(rule)]
    erasers = erasers[:MOST_ERASERS]
    found = uses(grammar, examples, erasers)
    for words in sorted({erased_words(grammar[number]) for number in erasers}):
        having = [
            example for example in examples if set(words) <= set(example.source_tokens)
        ]
        without = _without(grammar, words, erasers, found, having)
        if without is not None:
            # The rules have other numbers now.
            return with_obligatory_words(without, examples)
    return grammar


def _without(
    grammar: Grammar,
    words: Words,
    erasers: Sequence[int],
    found: Uses,
    examples: Sequence[Example],
) -> Grammar | None:
    """The grammar without the erasers of some words, if these are obligatory; None if not.

    `examples` are those with the words.
    """
    bits = {
        bit: grammar[number]
        for bit, number in enumerate(erasers)
        if erased_words(grammar[number]) == words
    }
    mask = sum(1 << bit for bit in bits)
    replaced: dict[Rule, None] = {}
    added: dict[Rule, None] = {}
    for place in sorted(found.ever):
        rule = grammar[place.rule]
        if erased_words(rule):
            continue
        if found.always[place] & mask:
            replaced[rule] = None
        for bit, eraser in bits.items():
            if found.ever[place] >> bit & 1:
                added[composed(rule, place.argument, eraser)] = None
    if not replaced:
        return None
    gone = {*bits.values(), *replaced}
    kept = [rule for rule in grammar if rule not in gone]
    needed = needed_rules(kept, list(added), examples, grammar.max_non_terminals)
    if needed is None or len(needed) > MOST_GROWTH * len(replaced):
        return None
    return Grammar.of([*kept, *needed], grammar.max_non_terminals)


def needed_rules(
    rules: Sequence[Rule],
    candidates: Sequence[Rule],
    examples: Sequence[Example],
    bound: int,
) -> list[Rule] | None:
    """Candidates without which the rules do not derive the examples; None if all are too few."""

    def missing(chosen: Iterable[Rule], among: Sequence[Example]) -> Iterator[Example]:
        grammar = Grammar.of([*rules, *chosen], bound)
        for start in range(0, len(among), AT_ONCE):
            yield from underivable(grammar, among[start : start + AT_ONCE])

    if next(missing(candidates, examples), None) is not None:
        return None
    sample = random.Random(0).sample(examples, min(MOST_EXAMPLES, len(examples)))
    chosen = list(candidates)
    # Rules that say little, such as `The NT_1 was ### * NT_1`, go first.
    for candidate in sorted(candidates, key=lambda rule: (len(rule.target), str(rule))):
        others = [rule for rule in chosen if rule != candidate]
        if next(missing(others, sample), None) is None:
            chosen = others
    # What the sample did not show comes back.
    left = list(missing(chosen, examples))
    for candidate in candidates:
        if not left or candidate in chosen:
            continue
        still = list(missing([*chosen, candidate], left))
        if len(still) < len(left):
            chosen.append(candidate)
            left = still
    return chosen if not left else list(candidates)
