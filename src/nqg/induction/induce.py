"""From examples to a grammar: the whole of induction, step by step or at once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, check_arity
from nqg.grammar.slots import slot_of
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.types import Signatures
from nqg.induction.candidates import SplitSettings
from nqg.induction.corpus import (
    EncodedExamples,
    Frame,
    is_cognate,
    lexical_rules,
    shared_strings,
    shortest_first,
    underivable,
)
from nqg.induction.description_length import DescriptionLength, LabelRule, Labels, TerminalVocabulary
from nqg.induction.search import Move, Phase, Search
from nqg.induction.settings import InductionSettings

BRACKETS = (("(", ")"),)
PART_SIZE = 4096  # examples that are checked at once
FOREIGN = "the steps are not from these examples and settings"


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
    """A search that can be watched, stopped at any step, and resumed from its steps.

    Examples that are not searched stay where they are: a `MappedExamples` is never in memory as a whole. With a
    `target_grammar`, the search proposes only rules whose targets can be a part of legal programs.
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
        lexicon = lexical_rules(self._examples) if self.settings.lexical else []
        fitting = (rule for rule in lexicon if self._types is None or self._types.fits(rule.target))
        self._lexicon = [rule for rule in fitting if not any(map(slot_of, (*rule.source, *rule.target)))]
        for rule in self._seeds:
            check_arity(rule, self.settings.max_non_terminals)
        self._sample: list[Example] = []
        self._stage = 0
        self._evaluations = 0  # of searches that were begun again
        self._frame = Frame.of(self._examples) if self.settings.frame else None  # which targets are searched without
        sample = shortest_first(map(self._searched, self._examples), self.settings.shortest)
        if not sample:
            raise NqgError("there are no examples to learn from")
        known = Grammar.of(self._seeds, self.settings.max_non_terminals)
        derived = {*sample}.difference(_underivable_parts(known, sample)) if self._seeds else set()
        self._begin(sample, self._seeds, derived)

    def _begin(self, examples: Sequence[Example], rules: Iterable[Rule], derived: Container[Example] = ()) -> None:
        """Begin a search with `rules`, and one for each of `examples` not `derived`; all of them join the sample."""
        settings = self.settings
        self._sample += examples
        self._vocabulary = vocabulary = TerminalVocabulary.of(self._sample, [*self._seeds, *self._lexicon])
        pairs = [
            LabelRule(vocabulary.labels(example.source_tokens), vocabulary.labels(example.target_tokens))
            for example in self._sample
        ]
        joined = zip(pairs[len(pairs) - len(examples) :], examples, strict=True)
        new = [pair for pair, example in joined if example not in derived]
        shared = (string for pair in new if settings.identity_rules for string in shared_strings(*pair))
        types = self._types
        identities = (each for each in shared if types is None or types.fits(vocabulary.symbols(each)))
        lexicon = {
            vocabulary.label_rule(rule): is_cognate(*map(str, (*rule.source, *rule.target))) for rule in self._lexicon
        }
        words = {word for pair in new for word in pair.source}
        first_rules = [
            *new,
            *(LabelRule(string, string) for string in identities),
            *(rule for rule in lexicon if words.issuperset(rule.source)),
            *map(vocabulary.label_rule, rules),
        ]
        numbers, absent = vocabulary.numbers, len(vocabulary.numbers)  # neither a terminal's nor a non-terminal's
        brackets = [pair for pair in BRACKETS if settings.balanced and numbers.keys() & set(pair)]
        splits = SplitSettings(
            settings.repeated_targets,
            settings.max_non_terminals,
            tuple((numbers.get(opening, absent), numbers.get(closing, absent)) for opening, closing in brackets),
            settings.bare_targets,
            frozenset(number for token, number in numbers.items() if slot_of(token)),
            None if types is None else self._composes(types),
        )
        self._search = Search(EncodedExamples.of(pairs), dict.fromkeys(first_rules), settings, splits, lexicon)

    def _composes(self, types: Signatures) -> Callable[[Labels, int, Labels], bool]:
        """Whether a target in numbers can stand for a non-terminal of another one in legal programs."""
        symbols = self._vocabulary.symbols
        parts = cache(lambda target: types.parts(symbols(target)))
        parts_of = cache(lambda hole, target: types.parts_of(NonTerminal(hole), symbols(target)))
        return lambda outer, hole, inner: (
            bool(parts(inner)) and any(map(parts(inner).issuperset, parts_of(hole, outer)))
        )

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
            if (widening := self._widen(self._examples) or self._put_in_frame()) is None:
                return
            yield widening

    def _widen(self, examples: Sequence[Example]) -> InductionStep | None:
        """Take as many examples again into the sample, the shortest of those that the rules do not derive."""
        if self._stage == self.settings.stages or self.settings.shortest is None:
            return None
        grammar = Grammar.of(self._rules(), self.settings.max_non_terminals)
        missing = shortest_first(_underivable_parts(grammar, examples, self._searched), len(self._sample))
        if not missing:
            return None
        self._stage += 1
        return self._begun_again(Phase.SAMPLING, missing)

    def _put_in_frame(self) -> InductionStep | None:
        """Go on with whole targets, and with the rules for what is inside them."""
        if self._frame is None:
            return None
        whole = [self._frame.put_on(example) for example in self._sample]
        self._sample, self._frame = [], None
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
            saved=DescriptionLength(before.grammar_bits - after.grammar_bits, before.data_bits - after.data_bits),
            rules=self.searched_rules,
            length=after,
        )

    def replay(self, steps: Iterable[InductionStep]) -> None:
        """Make the steps of an earlier run on the same examples, without searching for them."""
        for step in steps:
            if step.phase in (Phase.SAMPLING, Phase.FRAMING):
                joined = {*step.added}
                more = [each for each in self._examples if _own_rule(self._searched(each)) in joined]
                widening = self._widen(more) if step.phase is Phase.SAMPLING else self._put_in_frame()
                if widening is None or widening.added != step.added:
                    raise NqgError(f"{FOREIGN}: another sample was searched")
                continue
            try:
                added = tuple(map(self._vocabulary.label_rule, step.added))
                removed = tuple(map(self._vocabulary.label_rule, step.removed))
            except KeyError as error:
                raise NqgError(f"{FOREIGN}: no example has the word {error}") from error
            for rule in removed:
                if rule not in self._search.rules:
                    raise NqgError(f"{FOREIGN}: rule '{self._vocabulary.rule(rule)}' is removed but not there")
            self._search.note(Move(step.phase, added, removed, step.saved.grammar_bits, step.saved.data_bits))
        self._search.refresh()

    @property
    def grammar(self) -> Grammar:
        """The rules so far, and a rule for each example that they do not derive.

        Such an example was left out of the search or, with a target grammar, has lost its last well-typed derivation:
        a step looks at the types of the rules that it cuts, not at all of the derivations that they take part in.
        """
        rules = self._rules()
        if self.settings.shortest is not None or self._frame is not None:
            found = Grammar.of(rules, self.settings.max_non_terminals)
            rules += map(_own_rule, _underivable_parts(found, self._examples))
        if self._target_grammar is not None:
            typed = Grammar.of(rules, self.settings.max_non_terminals).typed_by(self._target_grammar)
            lost = _underivable_parts(typed, self._examples)
            rules += [_own_rule(example) for example in lost if self._target_grammar.accepts(example.target_tokens)]
        return Grammar.of(rules, self.settings.max_non_terminals)

    def _rules(self) -> list[Rule]:
        return [self._vocabulary.rule(rule) for rule in self._search.rules]

    def _searched(self, example: Example) -> Example:
        """An example as the search sees it now."""
        return example if self._frame is None else self._frame.taken_off(example)


def _own_rule(example: Example) -> Rule:
    return Rule(example.source_tokens, example.target_tokens)


def _underivable_parts(
    grammar: Grammar, examples: Sequence[Example], seen: Callable[[Example], Example] = lambda example: example
) -> Iterator[Example]:
    """`underivable` examples, as they are `seen`, never more than a part of all in memory."""
    for start in range(0, len(examples), PART_SIZE):
        yield from underivable(grammar, list(map(seen, examples[start : start + PART_SIZE])))


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
        from nqg.induction.choice import chosen_settings  # which searches, too

        examples = examples if isinstance(examples, Sequence) else list(examples)
        settings = chosen_settings(examples, target_grammar)
    induction = Induction(examples, settings, seed_rules, target_grammar)
    for _ in induction.steps():
        pass
    return induction.grammar
