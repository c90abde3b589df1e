"""Where predictions go wrong, and what training targets never showed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.evaluation.error_analysis import (
    TARGET_END,
    TARGET_START,
    Difference,
    TargetStatistics,
    first_difference,
    trigrams,
)

symbols = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6).map(
    " ".join
)


def test_the_first_difference_is_the_first() -> None:
    assert first_difference("a b x d", "a b y e") == Difference(2, "x", "y")


def test_a_prediction_that_stops_early_or_late_differs_at_the_end() -> None:
    early, late = first_difference("a", "a b"), first_difference("a b", "a")
    assert (early, late) == (
        Difference(1, TARGET_END, "b"),
        Difference(1, "b", TARGET_END),
    )
    assert str(early) == "symbol 2 is the end, expected 'b'"
    assert str(late) == "symbol 2 is 'b', expected the end"


def test_white_space_makes_no_difference() -> None:
    assert first_difference("answer(state)", "answer ( state )") is None


def test_trigrams_begin_before_the_first_symbol_and_end_with_the_end() -> None:
    first = (TARGET_START, TARGET_START, "a")
    assert list(trigrams("a b")) == [
        first,
        (TARGET_START, "a", "b"),
        ("a", "b", TARGET_END),
    ]


def test_a_trigram_is_known_if_some_training_target_has_it_anywhere() -> None:
    statistics = TargetStatistics.of(["a b c", "c a b"])
    assert statistics.knows_trigram("c a b c", 3)
    assert not statistics.knows_trigram("b a c", 0)
    assert not statistics.knows_trigram("c a b a", 3)


def test_the_end_of_a_target_has_a_trigram_too() -> None:
    statistics = TargetStatistics.of(["a b"])
    assert statistics.knows_trigram("a b", 2)
    assert not TargetStatistics.of(["a b c"]).knows_trigram("a b", 2)


def test_atoms_are_counted_by_examples_not_by_occurrences() -> None:
    statistics = TargetStatistics.of(["a a a b", "b c"])
    assert statistics.atoms_seen("b a z c a", times=1) == ("a", "c")
    assert statistics.atoms_seen("b a z c z", times=0) == ("z",)


def test_a_target_is_longer_only_than_shorter_ones() -> None:
    statistics = TargetStatistics.of(["a", "a b"])
    assert [statistics.is_longer(target) for target in ("b b", "b b b")] == [
        False,
        True,
    ]
    assert TargetStatistics.of([]).is_longer("a")


@given(symbols, symbols)
def test_up_to_the_difference_both_programs_are_the_same(
    prediction: str, gold: str
) -> None:
    found = first_difference(prediction, gold)
    left, right = prediction.split(), gold.split()
    if found is None:
        assert left == right
    else:
        assert left[: found.place] == right[: found.place]
        assert [*left, TARGET_END][found.place : found.place + 1] == [found.found]
        assert (
            [*right, TARGET_END][found.place : found.place + 1]
            == [found.expected]
            != [found.found]
        )


@given(st.lists(symbols, min_size=1, max_size=5))
def test_nothing_about_a_training_target_is_new(targets: list[str]) -> None:
    statistics = TargetStatistics.of(targets)
    for target in targets:
        assert not statistics.is_longer(target)
        assert all(
            statistics.knows_trigram(target, place)
            for place in range(len(target.split()) + 1)
        )
        assert not statistics.atoms_seen(target, times=0)
