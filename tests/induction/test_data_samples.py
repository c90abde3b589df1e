"""The data term, estimated on examples that are drawn anew at each step."""

from __future__ import annotations

from nqg.grammar.grammar import Rule
from nqg.induction.candidates import SplitSettings
from nqg.induction.corpus import EncodedExamples
from nqg.induction.description_length import LabelRule, TerminalVocabulary
from nqg.induction.search import Candidate, Search
from nqg.induction.settings import InductionSettings

WORDS = "abcdefghij"
VOCABULARY = TerminalVocabulary(("go", "G", *WORDS))


def label(text: str) -> LabelRule:
    return VOCABULARY.label_rule(Rule.parse(text))


PAIRS = [label(f"go {word} ### G {word}") for word in WORDS]
CANDIDATE = Candidate(label("go NT_1 ### G NT_1"), 0.0)


def search(*more: LabelRule, sample: int | None = 3) -> Search:
    settings = InductionSettings(sample=sample)
    corpus = EncodedExamples.of(PAIRS)
    return Search(corpus, [*PAIRS, *more], settings, SplitSettings(), {})


def test_a_sample_stands_for_all_examples_that_the_candidate_touches() -> None:
    numbers, scale = search().judging_examples(CANDIDATE)
    assert len(set(numbers.tolist())) == 3
    assert scale == len(PAIRS) / 3


def test_each_grammar_has_a_sample_of_its_own_and_always_the_same() -> None:
    first, _ = search().judging_examples(CANDIDATE)
    again, _ = search().judging_examples(CANDIDATE)
    later, _ = search(label("a ### a")).judging_examples(CANDIDATE)
    assert first.tolist() == again.tolist()
    assert first.tolist() != later.tolist()


def test_without_a_sample_every_example_counts_once() -> None:
    numbers, scale = search(sample=None).judging_examples(CANDIDATE)
    assert numbers.tolist() == list(range(len(PAIRS)))
    assert scale == 1.0
