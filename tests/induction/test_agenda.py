"""The queue of candidates against sorting them all, after any series of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.induction.corpus import Mask
from nqg.induction.description_length import LabelRule
from nqg.induction.search import Agenda, DataTerm, Replacement
from nqg.induction.settings import InductionSettings

RULES = [LabelRule((number,), (number,)) for number in range(6)]  # 16 bits each
EXAMPLES = 3
A, B, C, D = RULES[:4]


def mask(*examples: int) -> Mask:
    return np.isin(np.arange(EXAMPLES), examples)


class Sorted:
    """The obvious twin: every candidate's savings are added up anew whenever somebody asks."""

    def __init__(
        self, grammar: set[LabelRule], settings: InductionSettings, data_weight: float
    ) -> None:
        self.grammar, self.least, self.data_weight = (
            grammar,
            settings.minimum_gain,
            data_weight,
        )
        self.replaces: dict[LabelRule, dict[LabelRule, float]] = {}
        self.data: dict[LabelRule, tuple[float, Mask]] = {}

    def propose(self, rule: LabelRule, replaced: LabelRule, bits: float) -> None:
        before = self.replaces.setdefault(rule, {}).get(replaced)
        if before is None or bits > before:
            self.replaces[rule][replaced] = bits
            self.data.pop(rule, None)

    def withdraw(self, replaced: LabelRule) -> None:
        for rule in [
            rule
            for rule, found in self.replaces.items()
            if found.pop(replaced, None) is not None
        ]:
            self.data.pop(rule, None)
            if not self.replaces[rule]:
                del self.replaces[rule]

    def invalidate(self, examples: Mask) -> None:
        self.data = {
            rule: found
            for rule, found in self.data.items()
            if not np.any(found[1] & examples)
        }

    def saving(self, rule: LabelRule) -> float:
        data_bits = self.data[rule][0] if rule in self.data else 0.0
        return (
            sum(self.replaces[rule].values())
            - 16.0
            + self.data_weight * min(0.0, data_bits)
        )

    def first(self) -> LabelRule | None:
        ranked = sorted(
            (-self.saving(rule), rule)
            for rule in self.replaces
            if rule not in self.grammar
        )
        return ranked[0][1] if ranked and -ranked[0][0] > self.least else None


rules = st.sampled_from(RULES)
masks = st.lists(st.integers(0, EXAMPLES - 1)).map(lambda examples: mask(*examples))
changes = st.one_of(
    st.tuples(
        st.just("propose"), rules, rules, st.sampled_from([4.0, 16.0, 20.0, 40.0])
    ),
    st.tuples(
        st.just("propose"), rules, rules, st.sampled_from([4.0, 16.0, 20.0, 40.0])
    ),
    st.tuples(
        st.just("settle"), st.sampled_from([-30.0, -8.0, -1.0, 0.0, 50.0]), masks
    ),
    st.tuples(st.just("disturb"), masks),
    st.tuples(st.just("leave"), rules),
    st.tuples(st.just("add"), rules),
)


@given(
    st.lists(changes, min_size=8, max_size=25),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([0.0, 0.25, 1.0]),
)
@hypothesis_settings(max_examples=150)
def test_the_first_candidate_is_the_best_of_all(
    changes: list[tuple[object, ...]], least: float, weight: float
) -> None:
    grammar: set[LabelRule] = set()
    settings = InductionSettings(minimum_gain=least)
    agenda, twin = Agenda(grammar, settings, weight), Sorted(grammar, settings, weight)
    for change in changes:
        make(change, grammar, agenda, twin)
        found = agenda.first()
        assert (found and found.rule) == twin.first()
        if found is not None:
            assert found.grammar_bits == sum(twin.replaces[found.rule].values()) - 16.0
            assert (found.data_bits is None) == (found.rule not in twin.data)


def make(
    change: tuple[object, ...], grammar: set[LabelRule], agenda: Agenda, twin: Sorted
) -> None:
    match change:
        case ("propose", LabelRule() as rule, LabelRule() as replaced, float(bits)):
            agenda.propose(rule, replaced, Replacement(bits))
            twin.propose(rule, replaced, bits)
        case ("settle", float(data_bits), np.ndarray() as examples):
            if (candidate := agenda.first()) is not None:
                numbers = np.flatnonzero(examples)
                candidate.outcome = DataTerm(
                    numbers,
                    np.ones_like(numbers, dtype=np.bool_),
                    np.zeros(len(numbers)),
                )
                agenda.record_data_term(candidate, data_bits)
                twin.data[candidate.rule] = data_bits, examples
        case ("disturb", np.ndarray() as examples):
            agenda.invalidate(examples)
            twin.invalidate(examples)
        case ("leave", LabelRule() as rule):
            grammar.discard(rule)
            agenda.withdraw(rule)
            twin.withdraw(rule)
        case ("add", LabelRule() as rule):
            grammar.add(rule)


def agenda_of(*proposals: tuple[LabelRule, LabelRule, Replacement]) -> Agenda:
    agenda = Agenda((), InductionSettings(), 1.0)
    for rule, replaced, replacement in proposals:
        agenda.propose(rule, replaced, replacement)
    return agenda


def test_an_empty_agenda_has_no_first_candidate() -> None:
    assert agenda_of().first() is None
    assert agenda_of().top(3) == []


def test_a_gain_in_the_data_does_not_count_and_a_loss_does() -> None:
    agenda = agenda_of(
        (A, RULES[4], Replacement(20.0)), (B, RULES[5], Replacement(19.0))
    )
    first = agenda.first()
    assert first is not None
    agenda.record_data_term(first, 100.0)
    agenda.propose(C, D, Replacement(21.0))
    assert (better := agenda.first()) is not None
    assert better.rule == C
    agenda.withdraw(D)
    assert agenda.first() is first
    agenda.record_data_term(first, -2.0)
    second = agenda.first()
    assert second is not None
    assert (second.rule, second.data_bits) == (B, None)


def test_a_replacement_without_a_companion_goes_before_one_with() -> None:
    for order in (1, -1):
        offers = [(A, C, Replacement(40.0)), (A, C, Replacement(24.0, companion=D))][
            ::order
        ]
        first = agenda_of(*offers).first()
        assert first is not None
        assert (first.added, first.grammar_bits) == ((A,), 24.0)


def test_companions_are_added_with_the_candidate_each_once_and_in_order() -> None:
    e, f, g = RULES[3:]
    first = agenda_of(
        (B, e, Replacement(30.0, companion=C)),
        (B, f, Replacement(30.0, companion=A)),
        (B, g, Replacement(30.0, companion=C)),
        (B, D, Replacement(30.0, companion=B)),
    ).first()
    assert first is not None
    assert first.added == (B, A, C)


def test_the_foremost_candidates_include_the_first() -> None:
    agenda = agenda_of(
        *(
            (rule, RULES[0], Replacement(17.0 + 3 * rule.source[0]))
            for rule in RULES[1:]
        )
    )
    assert [candidate.rule for candidate in agenda.top(2)] == [RULES[5], RULES[4]]
    assert len(agenda.top(50)) == 5


@pytest.mark.parametrize(
    ("examples", "matters"), [((0,), True), ((2,), False), ((), False)]
)
def test_an_outcome_forgets_what_has_changed(
    examples: tuple[int, ...], matters: bool
) -> None:
    outcome = DataTerm(np.array([0, 1]), np.ones(2, dtype=np.bool_), np.zeros(2))
    assert outcome.forget(mask(*examples)) is matters
    assert outcome.is_current.tolist() == [0 not in examples, True]
