"""From examples to a grammar: the whole of induction, step by step or at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import NO_ROOT
from nqg.grammar.rule import Rule
from nqg.induction.candidates import SplitSettings
from nqg.induction.corpus import Corpus
from nqg.induction.description_length import DescriptionLength
from nqg.induction.identity import shared_strings
from nqg.induction.labels import LabelRule, Vocabulary
from nqg.induction.search import Move, Phase, Search
from nqg.induction.settings import InductionSettings

BRACKETS = (("(", ")"),)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the search: what changed, the bits that it saved, and where it led."""

    phase: Phase
    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    saved: DescriptionLength
    rules: int
    length: DescriptionLength


class Induction:
    """A search that can be watched, stopped at any step, and taken up again from its steps."""

    def __init__(
        self, examples: Iterable[Example], settings: InductionSettings | None = None, seed_rules: Iterable[Rule] = ()
    ) -> None:
        self.settings = settings or InductionSettings()
        ordered = _shortest_first(examples)
        if not ordered:
            raise NqgError("there are no examples to learn from")
        self._rest = ordered[self.settings.shortest :] if self.settings.shortest else []
        searched = ordered[: self.settings.shortest]
        seeds = list(seed_rules)
        self._vocabulary = Vocabulary.of(searched, seeds)
        pairs = [_pair(example, self._vocabulary) for example in searched]
        rules = dict.fromkeys([*pairs, *self._identity_rules(pairs), *map(self._vocabulary.label_rule, seeds)])
        corpus = Corpus.of(pairs)
        self._search = Search(corpus, rules, self.settings, self._split_settings())

    def _identity_rules(self, pairs: Sequence[LabelRule]) -> Iterator[LabelRule]:
        if self.settings.identity_rules:
            for pair in pairs:
                yield from (LabelRule(string, string) for string in shared_strings(pair.source, pair.target))

    def _split_settings(self) -> SplitSettings:
        numbers = self._vocabulary.numbers
        absent = len(numbers)  # neither a terminal's number nor a non-terminal's
        brackets = [pair for pair in BRACKETS if self.settings.balanced and numbers.keys() & set(pair)]
        return SplitSettings(
            self.settings.repeated_targets,
            self.settings.max_non_terminals,
            tuple((numbers.get(opening, absent), numbers.get(closing, absent)) for opening, closing in brackets),
        )

    @property
    def length(self) -> DescriptionLength:
        """The objective on the examples that are searched."""
        return DescriptionLength(self._search.grammar_bits, float(self._search.data_bits.sum()))

    @property
    def searched_rules(self) -> int:
        """How many rules there are now, before the examples left out of the search get theirs."""
        return len(self._search.rules)

    def steps(self) -> Iterator[Step]:
        """Make one step after the other; the grammar is valid after each."""
        for move in self._search.moves():
            yield self._step(move)

    def replay(self, steps: Iterable[Step]) -> None:
        """Make the steps of an earlier run on the same examples, without searching for them."""
        for step in steps:
            self._check_own(step)
            added = tuple(map(self._vocabulary.label_rule, step.added))
            removed = tuple(map(self._vocabulary.label_rule, step.removed))
            self._search.make(Move(step.phase, added, removed, step.saved.grammar_bits, step.saved.data_bits))

    def _check_own(self, step: Step) -> None:
        missing = [
            f"'{rule}' is removed but not there" for rule in step.removed if self._known(rule) not in self._search.rules
        ]
        foreign = [f"'{rule}' has words that no example has" for rule in step.added if self._known(rule) is None]
        if missing or foreign:
            raise NqgError(f"the steps are not from these examples and settings: rule {[*missing, *foreign][0]}")

    def _known(self, rule: Rule) -> LabelRule | None:
        try:
            return self._vocabulary.label_rule(rule)
        except KeyError:
            return None

    def _step(self, move: Move) -> Step:
        return Step(
            phase=move.phase,
            added=tuple(map(self._vocabulary.rule, move.added)),
            removed=tuple(map(self._vocabulary.rule, move.removed)),
            saved=DescriptionLength(move.grammar_bits, move.data_bits),
            rules=self.searched_rules,
            length=self.length,
        )

    @property
    def grammar(self) -> Grammar:
        """The rules so far, and a rule for each example left out of the search that they do not derive."""
        rules = [self._vocabulary.rule(rule) for rule in self._search.rules]
        found = Grammar.of(rules, self.settings.max_non_terminals)
        missing = underivable(found, self._rest)
        own = [Rule(example.source_tokens, example.target_tokens) for example in missing]
        return Grammar.of([*found, *own], self.settings.max_non_terminals)


def induce(
    examples: Iterable[Example], settings: InductionSettings | None = None, seed_rules: Iterable[Rule] = ()
) -> Grammar:
    """The grammar that explains `examples` in few bits; every one of them is derivable from it.

    >>> print(induce([Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")],
    ...              InductionSettings.named("scan")))
    NT_1 twice ### NT_1 NT_1
    jump ### J
    walk ### W
    """
    induction = Induction(examples, settings, seed_rules)
    for _ in induction.steps():
        pass
    return induction.grammar


def underivable(grammar: Grammar, examples: Sequence[Example]) -> list[Example]:
    """The examples whose target no derivation of the source yields."""
    full = charts(grammar, [example.source_tokens for example in examples])
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples])
    return [example for example, root in zip(examples, goal.roots(), strict=True) if root == NO_ROOT]


def _shortest_first(examples: Iterable[Example]) -> list[Example]:
    """Each pair once, by the length of its source; equally long ones stay in order."""
    distinct: dict[object, Example] = {}
    for example in examples:
        distinct.setdefault((example.source_tokens, example.target_tokens), example)
    return sorted(distinct.values(), key=lambda example: len(example.source_tokens))


def _pair(example: Example, vocabulary: Vocabulary) -> LabelRule:
    return LabelRule(vocabulary.labels(example.source_tokens), vocabulary.labels(example.target_tokens))
