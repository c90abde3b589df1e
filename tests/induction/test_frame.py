"""What all targets begin and end with: found, taken off before the search, and put back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.grammar import Rule
from nqg.induction.corpus import CommonAffix, underivable
from nqg.induction.induce import Induction, induce
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import trials
from nqg.text.brackets import is_balanced
from strategies import corpora

FRAMED = InductionSettings(repeated_targets=True, data_weight=0.25, frame=True)
WORDS = ("city", "river", "lake")
PAIRS = [
    Example(f"{asked}{words} {word}", f"answer ( {function} ( {word} ) )")
    for asked in ("", "what is ", "tell me ", "show ")
    for words, function in (
        ("the biggest", "largest"),
        ("the number of", "count"),
        ("a small", "small"),
    )
    for word in WORDS
]


PAIRS_BY_LENGTH = sorted(PAIRS, key=lambda example: len(example.source_tokens))


def brute_force(
    targets: list[tuple[str, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    first = targets[0]
    found = []
    for left in range(len(first)):
        for right in range(len(first)):
            opening, closing = first[:left], first[len(first) - right :]
            fits = all(
                left + right < len(target)
                and target[:left] == opening
                and target[len(target) - right :] == closing
                and is_balanced(target[left : len(target) - right])
                for target in targets
            )
            if fits and left + right and len({*targets}) > 1:
                found.append((left + right, left, opening, closing))
    return max(found)[2:] if found else None


@given(
    st.lists(
        st.lists(st.sampled_from("ab()"), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    st.text("ab(", max_size=3),
)
def test_the_frame_is_the_longest_that_all_targets_share(
    inner: list[list[str]], opening: str
) -> None:
    closing = [")"] * opening.count("(")
    targets = [(*opening, *tokens, *closing) for tokens in inner]
    frame = CommonAffix.of([Example("x", " ".join(target)) for target in targets])
    assert (frame and (frame.opening, frame.closing)) == brute_force(targets)


@given(corpora())
def test_what_is_taken_off_is_put_back(corpus: list[Example]) -> None:
    if frame := CommonAffix.of(corpus):
        inner = [frame.strip(example) for example in corpus]
        assert all(example.target for example in inner)
        assert [frame.restore(example).target_tokens for example in inner] == [
            each.target_tokens for each in corpus
        ]


def test_rules_for_what_is_inside_come_first() -> None:
    induction = Induction(PAIRS, FRAMED)
    steps = list(induction.steps())
    framing = [step.phase for step in steps].index(Phase.FRAMING)
    assert not any(
        "answer" in rule.target for step in steps[:framing] for rule in step.added
    )
    assert steps[framing].added == tuple(
        Rule(each.source_tokens, each.target_tokens) for each in PAIRS_BY_LENGTH
    )
    assert all(
        "answer" in rule.target
        for rule in induction.grammar
        if rule.source[0] in ("a", "the")
    )


def test_the_grammar_is_valid_before_targets_are_whole() -> None:
    induction = Induction(PAIRS, FRAMED)
    assert not underivable(induction.grammar, PAIRS)
    for _ in induction.steps():
        assert not underivable(induction.grammar, PAIRS)


def test_trials_leave_the_frame_out_where_there_is_none() -> None:
    assert {"frame": False} in [trial.changed for trial in trials(PAIRS)]
    bare = [CommonAffix(("answer", "("), (")",)).strip(example) for example in PAIRS]
    found = list(trials(bare))
    assert not any("frame" in trial.changed for trial in found)
    best = [trial for trial in found if trial.is_best][-1]
    assert best.rules == len(induce(bare, best.best))
