"""From examples to a grammar: the whole of induction, step by step or at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nqg.data.examples import Example
from nqg.engines import Engine, Here
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar, Rule, check_arity
from nqg.induction.candidates import SplitSettings
from nqg.induction.corpus import Corpus, shared_strings, shortest_first, streamed_underivable
from nqg.induction.corpus import underivable as underivable
from nqg.induction.description_length import DescriptionLength, LabelRule, Vocabulary
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
    """A search that can be watched, stopped at any step, and taken up again from its steps.

    Examples that are not searched stay where they are: a `MappedExamples` is never in memory as a whole. The `engine`
    tells which of them the rules derive.
    """

    def __init__(
        self,
        examples: Iterable[Example],
        settings: InductionSettings | None = None,
        seed_rules: Iterable[Rule] = (),
        engine: Engine | None = None,
    ) -> None:
        self.settings, self._engine = settings or InductionSettings(), engine or Here()
        self._examples = examples if isinstance(examples, Sequence) else list(examples)
        self._seeds = list(seed_rules)
        for rule in self._seeds:
            check_arity(rule, self.settings.max_non_terminals)
        self._sample: list[Example] = []
        self._stage = 0
        sample = shortest_first(self._examples, self.settings.shortest)
        if not sample:
            raise NqgError("there are no examples to learn from")
        self._take(sample, self._seeds)

    def _take(self, examples: Sequence[Example], rules: Iterable[Rule]) -> None:
        """Begin a search with `rules`, and with a rule for each of `examples`, which join the sample."""
        self._sample += examples
        self._vocabulary = Vocabulary.of(self._sample, self._seeds)
        pairs = [_pair(example, self._vocabulary) for example in self._sample]
        new = pairs[len(pairs) - len(examples) :]
        labels = dict.fromkeys([*new, *self._identity_rules(new), *map(self._vocabulary.label_rule, rules)])
        self._search = Search(Corpus.of(pairs), labels, self.settings, self._split_settings())

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
        while True:
            for move in self._search.moves():
                yield self._step(move)
            widening = self._widened()
            if widening is None:
                return
            yield widening

    def _widened(self) -> Step | None:
        """Take as many examples again into the sample, the shortest of those that the rules do not derive."""
        if self._stage == self.settings.stages or self.settings.shortest is None:
            return None
        missing = shortest_first(self._underivable(), len(self._sample))
        if not missing:
            return None
        self._stage += 1
        rules, length = self._rules(), self.length
        self._take(missing, rules)
        return Step(
            phase=Phase.SAMPLING,
            added=tuple(rule for rule in self._rules() if rule not in {*rules}),
            removed=(),
            saved=DescriptionLength(
                length.grammar_bits - self.length.grammar_bits, length.data_bits - self.length.data_bits
            ),
            rules=self.searched_rules,
            length=self.length,
        )

    def replay(self, steps: Iterable[Step]) -> None:
        """Make the steps of an earlier run on the same examples, without searching for them."""
        for step in steps:
            if step.phase is Phase.SAMPLING:
                self._check_widening(step)
                continue
            self._check_own(step)
            added = tuple(map(self._vocabulary.label_rule, step.added))
            removed = tuple(map(self._vocabulary.label_rule, step.removed))
            self._search.make(Move(step.phase, added, removed, step.saved.grammar_bits, step.saved.data_bits))

    def _check_widening(self, step: Step) -> None:
        widening = self._widened()
        if widening is None or widening.added != step.added:
            raise NqgError("the steps are not from these examples and settings: another sample was searched")

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
        own = [Rule(example.source_tokens, example.target_tokens) for example in self._underivable()]
        return Grammar.of([*self._rules(), *own], self.settings.max_non_terminals)

    def _rules(self) -> list[Rule]:
        return [self._vocabulary.rule(rule) for rule in self._search.rules]

    def _underivable(self) -> Iterator[Example]:
        """The examples that the rules so far do not derive; those in the sample are never among them."""
        if self.settings.shortest is None:
            return iter(())
        grammar = Grammar.of(self._rules(), self.settings.max_non_terminals)
        return streamed_underivable(grammar, self._examples, self._engine)


def induce(
    examples: Iterable[Example],
    settings: InductionSettings | None = None,
    seed_rules: Iterable[Rule] = (),
    engine: Engine | None = None,
) -> Grammar:
    """The grammar that explains `examples` in few bits; every one of them is derivable from it.

    >>> print(induce([Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")],
    ...              InductionSettings.named("scan")))
    NT_1 twice ### NT_1 NT_1
    jump ### J
    walk ### W
    """
    induction = Induction(examples, settings, seed_rules, engine)
    for _ in induction.steps():
        pass
    return induction.grammar


def _pair(example: Example, vocabulary: Vocabulary) -> LabelRule:
    return LabelRule(vocabulary.labels(example.source_tokens), vocabulary.labels(example.target_tokens))
