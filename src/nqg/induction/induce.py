"""From examples to a grammar: the whole of induction, step by step or at once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, check_arity
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
from nqg.slots.delexicalize import slot_of
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Signatures

BALANCED_BRACKETS = (("(", ")"),)
CHECKED_AT_ONCE = 4096  # examples


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

    With a `target_grammar`, the search proposes only rules whose targets can be a part of legal programs.
    """

    def __init__(
        self,
        examples: Iterable[Example],
        settings: InductionSettings | None = None,
        seed_rules: Iterable[Rule] = (),
        target_grammar: TargetGrammar | None = None,
    ) -> None:
        self.settings = settings or InductionSettings()
        self._examples = examples if isinstance(examples, Sequence) else list(examples)
        self._seeds = list(seed_rules)
        self._target_grammar = target_grammar
        self._types = Signatures.shared(target_grammar) if target_grammar else None
        self._lexicon: list[Rule] = []
        for rule in lexical_rules(self._examples) if self.settings.lexical else []:
            is_fitting = self._types is None or self._types.fits(rule.target)
            if is_fitting and not any(map(slot_of, (*rule.source, *rule.target))):
                self._lexicon.append(rule)
        for rule in self._seeds:
            check_arity(rule, self.settings.max_non_terminals)
        self._sample: list[Example] = []
        self._stage = 0
        self._evaluations = 0  # of searches that were begun again
        # What all targets begin and end with: they are searched without it first.
        self._affix = CommonAffix.of(self._examples) if self.settings.frame else None
        sample = shortest_first(map(self._searched, self._examples), self.settings.shortest)
        if not sample:
            raise NqgError("there are no examples to learn from")
        known = Grammar.of(self._seeds, self.settings.max_non_terminals)
        derived = {*sample}.difference(_underivable(known, sample)) if self._seeds else set()
        self._begin(sample, self._seeds, derived)

    def _begin(
        self, examples: Sequence[Example], rules: Iterable[Rule], derived: Container[Example] = ()
    ) -> None:
        """Begin a search with `rules`, and one for each of `examples` not `derived`; all of them join the sample."""
        self._sample += examples
        self._vocabulary = TerminalVocabulary.of(self._sample, [*self._seeds, *self._lexicon])
        new = [self._vocabulary.pair(example) for example in examples if example not in derived]
        # Lexical rules, and whether they stay although no example needs them.
        lexicon: dict[LabelRule, bool] = {}
        for rule in self._lexicon:
            lexicon[self._vocabulary.label_rule(rule)] = is_cognate(
                str(rule.source[0]), str(rule.target[0])
            )
        first_rules = dict.fromkeys(
            [
                *new,
                *self._identity_rules(new),
                *_lexical_rules_of(new, lexicon),
                *(self._vocabulary.label_rule(rule) for rule in rules),
            ]
        )
        corpus = EncodedExamples.of([self._vocabulary.pair(example) for example in self._sample])
        self._search = Search(corpus, first_rules, self.settings, self._split_settings(), lexicon)

    def _identity_rules(self, pairs: Iterable[LabelRule]) -> Iterator[LabelRule]:
        """A rule for each string that a source and its target share, if it can be a part of legal programs."""
        if not self.settings.identity_rules:
            return
        for source, target in pairs:
            for string in shared_strings(source, target):
                if self._types is None or self._types.fits(self._vocabulary.symbols(string)):
                    yield LabelRule(string, string)

    def _split_settings(self) -> SplitSettings:
        """Which rules may be split off, in the numbers of the vocabulary."""
        numbers, brackets = self._vocabulary.numbers, []
        absent = len(numbers)  # neither a terminal's number nor a non-terminal's
        if self.settings.balanced:
            for opening, closing in BALANCED_BRACKETS:
                if opening in numbers or closing in numbers:
                    brackets.append((numbers.get(opening, absent), numbers.get(closing, absent)))
        return SplitSettings(
            repeated_targets=self.settings.repeated_targets,
            max_non_terminals=self.settings.max_non_terminals,
            brackets=tuple(brackets),
            bare_targets=self.settings.bare_targets,
            placeholders=frozenset(number for token, number in numbers.items() if slot_of(token)),
            composes=None if self._types is None else self._composes(self._types),
        )

    def _composes(self, types: Signatures) -> Callable[[Labels, int, Labels], bool]:
        """Whether a target in numbers can stand for a non-terminal of another one in legal programs."""
        symbols = self._vocabulary.symbols
        parts = cache(lambda target: types.fragments(symbols(target)))
        parts_of = cache(
            lambda hole, target: types.argument_fragments(NonTerminal(hole), symbols(target))
        )

        def composes(outer: Labels, hole: int, inner: Labels) -> bool:
            inner_parts = parts(inner)
            return bool(inner_parts) and any(
                inner_parts.issuperset(needed) for needed in parts_of(hole, outer)
            )

        return composes

    @property
    def length(self) -> DescriptionLength:
        """The objective on the examples that are searched."""
        return DescriptionLength(self._search.grammar_bits, float(self._search.data_bits.sum()))

    @property
    def sample(self) -> Sequence[Example]:
        """The examples that are searched, each pair once."""
        return tuple(self._sample)

    @property
    def searched_rules(self) -> int:
        """How many rules there are now, before the examples left out of the search get theirs."""
        return len(self._search.rules)

    @property
    def evaluations(self) -> int:
        """How often grammars were looked at so far: the same on every machine, unlike the time that it takes."""
        return self._evaluations + self._search.evaluations

    @property
    def spared_bits(self) -> float:
        """What lexical rules cost that are there for new sentences, since no example needs them."""
        return self._search.spared_bits()

    def steps(self) -> Iterator[InductionStep]:
        """Make one step after the other; the grammar is valid after each."""
        while True:
            for move in self._search.moves():
                yield InductionStep(
                    phase=move.phase,
                    added=tuple(map(self._vocabulary.rule, move.added)),
                    removed=tuple(map(self._vocabulary.rule, move.removed)),
                    saved=DescriptionLength(move.grammar_bits, move.data_bits),
                    rules=self.searched_rules,
                    length=self.length,
                )
            widening = self._widen() or self._restore_affix()
            if widening is None:
                return
            yield widening

    def _widen(self) -> InductionStep | None:
        """Take as many examples again into the sample, the shortest of those that the rules do not derive."""
        if self._stage == self.settings.stages or self.settings.shortest is None:
            return None
        grammar = Grammar.of(self._rules(), self.settings.max_non_terminals)
        missing = shortest_first(
            _underivable(grammar, self._examples, self._searched), len(self._sample)
        )
        if not missing:
            return None
        self._stage += 1
        return self._begun_again(Phase.SAMPLING, missing)

    def _restore_affix(self) -> InductionStep | None:
        """Go on with whole targets, and with the rules for what is inside them."""
        if self._affix is None:
            return None
        whole = [self._affix.restore(example) for example in self._sample]
        self._sample, self._affix = [], None
        return self._begun_again(Phase.FRAMING, whole)

    def _begun_again(self, phase: Phase, examples: Sequence[Example]) -> InductionStep:
        """The step that begins a search anew with the rules found so far and more examples."""
        rules, before = dict.fromkeys(self._rules()), self.length
        self._evaluations += self._search.evaluations
        self._begin(examples, rules)
        after = self.length
        return InductionStep(
            phase=phase,
            added=tuple(rule for rule in self._rules() if rule not in rules),
            removed=(),
            saved=DescriptionLength(
                before.grammar_bits - after.grammar_bits, before.data_bits - after.data_bits
            ),
            rules=self.searched_rules,
            length=after,
        )

    @property
    def grammar(self) -> Grammar:
        """The rules so far, and a rule for each example that they do not derive.

        Such an example was left out of the search or, with a target grammar, has lost its last well-typed derivation:
        a step looks at the types of the rules that it splits, not at all of the derivations that they take part in.
        """
        rules = self._rules()
        if self.settings.shortest is not None or self._affix is not None:
            grammar = Grammar.of(rules, self.settings.max_non_terminals)
            rules += map(_own_rule, _underivable(grammar, self._examples))
        if self._target_grammar is not None:
            typed = Grammar.of(rules, self.settings.max_non_terminals).typed_by(
                self._target_grammar
            )
            lost = _underivable(typed, self._examples)
            rules += [
                _own_rule(example)
                for example in lost
                if self._target_grammar.accepts(example.target_tokens)
            ]
        return Grammar.of(rules, self.settings.max_non_terminals)

    def _rules(self) -> list[Rule]:
        return [self._vocabulary.rule(rule) for rule in self._search.rules]

    def _searched(self, example: Example) -> Example:
        """An example as the search sees it now."""
        return example if self._affix is None else self._affix.strip(example)


def _lexical_rules_of(pairs: Iterable[LabelRule], lexicon: Iterable[LabelRule]) -> list[LabelRule]:
    """The lexical rules whose words some of the pairs have."""
    words = {word for pair in pairs for word in pair.source}
    return [rule for rule in lexicon if words.issuperset(rule.source)]


def _own_rule(example: Example) -> Rule:
    return Rule(example.source_tokens, example.target_tokens)


def _underivable(
    grammar: Grammar,
    examples: Sequence[Example],
    seen: Callable[[Example], Example] = lambda example: example,
) -> Iterator[Example]:
    """`underivable` examples, as they are `seen`; few charts at a time are in memory."""
    for start in range(0, len(examples), CHECKED_AT_ONCE):
        yield from underivable(grammar, list(map(seen, examples[start : start + CHECKED_AT_ONCE])))


def induce(
    examples: Iterable[Example],
    settings: InductionSettings | None = None,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
) -> Grammar:
    """The grammar that explains `examples` in few bits; every one of them is derivable from it.

    Without settings, trials choose them, as `nqg induce` does.

    >>> print(induce([Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")],
    ...              InductionSettings.named("scan")))
    NT_1 twice ### NT_1 NT_1
    jump ### J
    walk ### W
    """
    if settings is None:
        from nqg.induction.tuning import chosen_settings  # which searches, too

        examples = examples if isinstance(examples, Sequence) else list(examples)
        settings = chosen_settings(examples, target_grammar)
    induction = Induction(examples, settings, seed_rules, target_grammar)
    for _ in induction.steps():
        pass
    return induction.grammar
