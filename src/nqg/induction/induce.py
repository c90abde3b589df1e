"""From examples to a grammar: the whole of induction, step by step or at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.compilation import compile_kernels
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbols, check_arity
from nqg.induction.candidates import SplitSettings
from nqg.induction.corpus import (
    CommonAffix,
    EncodedExamples,
    is_cognate,
    lexical_rules,
    shared_strings,
    shortest_first,
    underivable,
)
from nqg.induction.description_length import (
    DescriptionLength,
    LabelRule,
    Labels,
    TerminalVocabulary,
)
from nqg.induction.search import Phase, Search
from nqg.induction.settings import InductionSettings
from nqg.induction.work import SYMBOL_UNITS, SearchStopped, WorkMeter, work_units
from nqg.slots.delexicalize import slot_of
from nqg.types.target_grammar import Category, TargetGrammar
from nqg.types.tree_automaton import Arguments, Fragment, Signatures

# Examples whose charts are in memory together.
CHECKED_AT_ONCE = 1024
# With a common affix, so much of the work may be done before targets are whole again: without their
# affix, rules derive nothing.
FRAMELESS_SHARE = 3 / 4
# A search that more examples may follow takes at most this share of the work that is left.
STAGE_SHARE = 1 / 2
# No stage begins with less than this share of all work.
LEAST_STAGE_SHARE = 1 / 32


@dataclass(frozen=True, slots=True)
class InductionStep:
    """One step of the search: what changed, the bits that it saved, and where it led."""

    phase: Phase
    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    saved: DescriptionLength
    rules: int
    length: DescriptionLength


class Induction:
    """A search that can be watched, and stopped at any step.

    With a `target_grammar`, the search proposes only rules whose targets legal programs can have.
    The `watcher` is called several times a second, also while a step is looked for, and returns
    whether to stop: the grammar is then that of the last step.

    >>> pairs = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")]
    >>> search = Induction(pairs, InductionSettings.named("scan"))
    >>> for step in search.steps():
    ...     print(*step.added)
    NT_1 twice ### NT_1 NT_1
    walk ### W
    """

    def __init__(
        self,
        examples: Iterable[Example],
        settings: InductionSettings | None = None,
        seed_rules: Iterable[Rule] = (),
        target_grammar: TargetGrammar | None = None,
        watcher: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings or InductionSettings()
        self._examples = list(examples)
        compile_kernels(len(self._examples))
        self.work = WorkMeter(watcher)
        # Whether a search ended at its share of the budget, with candidates left.
        self.is_truncated = False
        self._most_work = math.inf
        if self.settings.budget is not None:
            self._most_work = self.settings.budget * work_units(self._examples)
        self._seeds = list(seed_rules)
        self._target_grammar = target_grammar
        self._types = Signatures.shared(target_grammar) if target_grammar else None
        self._lexicon: list[Rule] = []
        for rule in lexical_rules(self._examples) if self.settings.lexical else []:
            has_slot = any(map(slot_of, (*rule.source, *rule.target)))
            if self._fits(rule.target) and not has_slot:
                self._lexicon.append(rule)
        for rule in self._seeds:
            check_arity(rule, self.settings.max_non_terminals)
        self._sample: list[Example] = []
        self._stage = 0
        # Those of searches that came before the current one.
        self._evaluations = 0
        # Targets are searched without their common affix first.
        self._affix = CommonAffix.of(self._examples) if self.settings.frame else None
        sample = shortest_first(
            map(self._searched, self._examples), self.settings.shortest
        )
        if not sample:
            raise NqgError("there are no examples to learn from")
        # Examples that the seed rules derive get no rules of their own.
        derived: set[Example] = set()
        if self._seeds:
            derived = set(sample).difference(
                underivable_examples(self._grammar_of(self._seeds), sample, self.work)
            )
        self._begin(sample, self._seeds, derived)

    def _grammar_of(self, rules: Iterable[Rule]) -> Grammar:
        return Grammar.of(rules, self.settings.max_non_terminals)

    def _fits(self, target: Symbols) -> bool:
        """Whether legal programs can have a target."""
        return self._types is None or self._types.fits(target)

    def _begin(
        self,
        examples: Sequence[Example],
        rules: Iterable[Rule],
        derived: Container[Example] = (),
    ) -> None:
        """Begin a search with `rules` and with a rule for each of `examples` that is not `derived`.

        All of the examples join the sample.
        """
        self._sample += examples
        # The vocabulary covers the whole sample, so it is built anew when that grows.
        self._vocabulary = TerminalVocabulary.of(
            self._sample, [*self._seeds, *self._lexicon]
        )
        pairs = [
            self._vocabulary.pair(example)
            for example in examples
            if example not in derived
        ]
        # Pruning spares the lexical rules that are marked here: those of cognates.
        lexicon: dict[LabelRule, bool] = {}
        for rule in self._lexicon:
            stays = is_cognate(str(rule.source[0]), str(rule.target[0]))
            lexicon[self._vocabulary.label_rule(rule)] = stays
        seeds = [
            *pairs,
            *self._identity_rules(pairs),
            *_lexical_rules_of(pairs, lexicon),
        ]
        seeds += map(self._vocabulary.label_rule, rules)
        # The corpus is all of the sample, also what older rules derive.
        corpus = EncodedExamples.of(
            [self._vocabulary.pair(example) for example in self._sample]
        )
        self._search = Search(
            corpus,
            dict.fromkeys(seeds),
            self.settings,
            self._split_settings(),
            lexicon,
            meter=self.work,
        )

    def _identity_rules(self, pairs: Iterable[LabelRule]) -> Iterator[LabelRule]:
        """A rule for each string that a source and its target share, if legal programs
        can have it.
        """
        if not self.settings.identity_rules:
            return
        for source, target in pairs:
            for string in shared_strings(source, target):
                if self._fits(self._vocabulary.symbols(string)):
                    yield LabelRule(string, string)

    def _split_settings(self) -> SplitSettings:
        """Which rules may be split off, in the numbers of the vocabulary."""
        numbers = self._vocabulary.numbers
        brackets: list[tuple[int, int]] = []
        if self.settings.balanced and not numbers.keys().isdisjoint("()"):
            # The number of a bracket that is absent is that of no other symbol.
            absent = len(numbers)
            brackets.append((numbers.get("(", absent), numbers.get(")", absent)))
        return SplitSettings(
            repeated_targets=self.settings.repeated_targets,
            max_non_terminals=self.settings.max_non_terminals,
            brackets=tuple(brackets),
            bare_targets=self.settings.bare_targets,
            placeholders=frozenset(
                number for token, number in numbers.items() if slot_of(token)
            ),
            composes=self._composes(self._types) if self._types else None,
        )

    def _composes(self, types: Signatures) -> Callable[[Labels, int, Labels], bool]:
        """Whether a target in numbers can stand for a non-terminal of another one in
        legal programs.
        """
        symbols = self._vocabulary.symbols

        # The search asks for the same targets again and again, so answers are cached.
        @cache
        def fragments(target: Labels) -> frozenset[Fragment]:
            self.work.spend(SYMBOL_UNITS * len(target))
            return types.fragments(symbols(target))

        @cache
        def arguments(hole: int, target: Labels) -> frozenset[Arguments]:
            self.work.spend(SYMBOL_UNITS * len(target))
            return types.argument_fragments(NonTerminal(hole), symbols(target))

        @cache
        def sequences(target: Labels) -> frozenset[Category]:
            return types.sequences(symbols(target))

        def composes(outer: Labels, hole: int, inner: Labels) -> bool:
            # Where sequences of anything are legal, most splits need no closer look.
            if not sequences(outer).isdisjoint(sequences(inner)):
                return True
            available = fragments(inner)
            return bool(available) and any(
                map(available.issuperset, arguments(hole, outer))
            )

        return composes

    @property
    def length(self) -> DescriptionLength:
        """The objective on the examples that are searched."""
        return DescriptionLength(
            self._search.grammar_bits, float(self._search.data_bits.sum())
        )

    @property
    def sample(self) -> Sequence[Example]:
        """The examples that are searched, each pair once."""
        return tuple(self._sample)

    @property
    def searched_rules(self) -> int:
        """The number of rules now, without those for examples that are left out of the search."""
        return len(self._search.rules)

    @property
    def evaluations(self) -> int:
        """The number of grammars evaluated so far, which is the same on every machine."""
        return self._evaluations + self._search.evaluations

    @property
    def spared_bits(self) -> float:
        """The cost of lexical rules that no example needs. They are there for new sentences."""
        return self._search.spared_bits()

    def steps(self) -> Iterator[InductionStep]:
        """Make the steps of the search, one by one. The grammar is valid after each."""
        while True:
            self._limit_work()
            try:
                for move in self._search.moves():
                    yield InductionStep(
                        phase=move.phase,
                        added=tuple(map(self._vocabulary.rule, move.added)),
                        removed=tuple(map(self._vocabulary.rule, move.removed)),
                        saved=DescriptionLength(move.grammar_bits, move.data_bits),
                        rules=self.searched_rules,
                        length=self.length,
                    )
            except SearchStopped:
                self.is_truncated = True
            if self.work.is_interrupted:
                return
            # Go on with more examples or, if there are none, with whole targets.
            missing = self._missing()
            if missing:
                self._stage += 1
                yield self._begin_again(Phase.SAMPLING, missing)
            elif self._affix is not None:
                whole = [self._affix.restore(example) for example in self._sample]
                self._sample, self._affix = [], None
                yield self._begin_again(Phase.FRAMING, whole)
            else:
                return

    def _limit_work(self) -> None:
        """Set the limit of the search that is about to begin."""
        most = self._searchable_work
        if self._may_grow:
            most = self.work.spent + STAGE_SHARE * (most - self.work.spent)
        self.work.limit = most

    @property
    def _searchable_work(self) -> float:
        """The work that may be done before targets are whole again, or in all."""
        if self._affix is None:
            return self._most_work
        return FRAMELESS_SHARE * self._most_work

    @property
    def _may_grow(self) -> bool:
        """Whether more examples may join the sample."""
        if self._stage == self.settings.stages or self.settings.shortest is None:
            return False
        return len(self._sample) < len(self._examples)

    def _missing(self) -> list[Example]:
        """The shortest examples that the rules do not derive, as many as there are in
        the sample.
        """
        if not self._may_grow:
            return []
        # A search that could do next to nothing would only add rules of single examples.
        left = self._searchable_work - self.work.spent
        if left < LEAST_STAGE_SHARE * self._most_work:
            return []
        missing = underivable_examples(
            self._grammar_of(self._rules()), self._examples, self.work, self._searched
        )
        return shortest_first(missing, len(self._sample))

    def _begin_again(self, phase: Phase, examples: Sequence[Example]) -> InductionStep:
        """The step that begins a search anew with the rules found so far and more examples."""
        # The bits are taken now, since `_begin` replaces the search they belong to.
        rules, before = dict.fromkeys(self._rules()), self.length
        self._evaluations += self._search.evaluations
        self._begin(examples, rules)
        after = self.length
        return InductionStep(
            phase=phase,
            added=tuple(rule for rule in self._rules() if rule not in rules),
            removed=(),
            saved=DescriptionLength(
                before.grammar_bits - after.grammar_bits,
                before.data_bits - after.data_bits,
            ),
            rules=self.searched_rules,
            length=after,
        )

    @property
    def grammar(self) -> Grammar:
        """The rules so far, and a rule for each example that they do not derive.

        Such an example was left out of the search or, with a target grammar, has lost its last
        well-typed derivation: a step looks at the types of the rules that it splits, not at all of
        the derivations that they take part in.
        """
        grammar = self._grammar_of(self._rules())
        if self.settings.shortest is not None or self._affix is not None:
            grammar = self._grammar_with(
                grammar, underivable_examples(grammar, self._examples, self.work)
            )
        # Legal examples that no well-typed derivation yields get their rules back.
        legal = self._target_grammar
        if legal is not None:
            lost = underivable_examples(
                grammar.typed_by(legal), self._examples, self.work
            )
            is_legal = (
                example for example in lost if legal.accepts(example.target_tokens)
            )
            grammar = self._grammar_with(grammar, is_legal)
        return grammar

    def _grammar_with(self, grammar: Grammar, examples: Iterable[Example]) -> Grammar:
        rules = [
            Rule(example.source_tokens, example.target_tokens) for example in examples
        ]
        return self._grammar_of([*grammar, *rules])

    def _rules(self) -> list[Rule]:
        return list(map(self._vocabulary.rule, self._search.rules))

    def _searched(self, example: Example) -> Example:
        """An example as the search sees it now."""
        return self._affix.strip(example) if self._affix else example


def _lexical_rules_of(
    pairs: Iterable[LabelRule], lexicon: Iterable[LabelRule]
) -> list[LabelRule]:
    """The lexical rules whose words some of the pairs have."""
    words: set[int] = set()
    for pair in pairs:
        words.update(pair.source)
    return [rule for rule in lexicon if words.issuperset(rule.source)]


def underivable_examples(
    grammar: Grammar,
    examples: Sequence[Example],
    meter: WorkMeter | None = None,
    searched: Callable[[Example], Example] = lambda example: example,
) -> Iterator[Example]:
    """The underivable examples, as they are searched, from few charts at a time."""
    for start in range(0, len(examples), CHECKED_AT_ONCE):
        batch = examples[start : start + CHECKED_AT_ONCE]
        yield from underivable(grammar, list(map(searched, batch)), meter)


def induce(
    examples: Iterable[Example],
    settings: InductionSettings | None = None,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
) -> Grammar:
    """The grammar that explains `examples` in few bits. Every one of them is derivable from it.

    Without settings, trials choose them, as `nqg induce` does.

    >>> print(induce([Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")],
    ...              InductionSettings.named("scan")))
    NT_1 twice ### NT_1 NT_1
    jump ### J
    walk ### W
    """
    examples = list(examples)
    if settings is None:
        # Imported here, since trials are inductions.
        from nqg.induction.tuning import chosen_settings

        settings = chosen_settings(examples, target_grammar)
    induction = Induction(examples, settings, seed_rules, target_grammar)
    for _ in induction.steps():
        pass
    return induction.grammar
