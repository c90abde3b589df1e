"""Values of slots in charts, forests and derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.examples import Example
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.semirings import best_derivations, derivation_counts, k_best_derivations
from nqg.grammar.slots import SHAPES, columns, of_sentences, slot_seeds, views, with_slots
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.parser import Parser
from nqg.model.forest_crf import TrainingData
from nqg.model.forests import build_forests
from nqg.model.subwords import word_tokenizer
from nqg.text.mentions import Mention
from nqg.text.sentences import TokenizedSentence

GRAMMAR = """
@number ### @number
@number ### exactly ( @number )
@time ### @time
jazz ### jazz
NT_1 and NT_2 ### NT_1 ; NT_2
wake me at NT_1 ### wake ( NT_1 )
play NT_1 ### play ( NT_1 )
"""
TYPES = """
<program> ::= wake ( <time> ) | play ( <song> ) | <program> ; <program>
<time> ::= @time
<song> ::= jazz | @number
"""
Readings = Mapping[tuple[str, ...], Mapping[str, tuple[str, ...]]]
READINGS: Readings = {
    ("six",): {"number": ("6",), "time": ("6", ":", "00")},
    ("half", "past", "six"): {"time": ("6", ":", "30")},
    ("half",): {"number": ("0.5",)},
}


@dataclass(frozen=True)
class Phrases:
    """Slots that know a few phrases."""

    readings: Readings = field(default_factory=lambda: READINGS)
    free_text: tuple[str, ...] = ()

    def alternatives(self, sentence: Sequence[str] | TokenizedSentence, /) -> list[Mention]:
        tokens = sentence.words if isinstance(sentence, TokenizedSentence) else sentence
        spans = [(start, end) for start in range(len(tokens)) for end in range(start + 1, len(tokens) + 1)]
        return [
            Mention(start, end, slot, value)
            for start, end in spans
            for slot, value in self.readings.get(tuple(tokens[start:end]), {}).items()
        ]


def grammar(*, typed: bool = False) -> Grammar:
    found = replace(Grammar.parse(GRAMMAR), slots=Phrases())
    return found.typed_by(TargetGrammar.parse(TYPES)) if typed else found


def targets_of(grammar: Grammar, sentence: str) -> list[str]:
    """All targets of a sentence, by the enumeration of its best derivations."""
    source = sentence.split()
    own = of_sentences(grammar, [source])
    full = charts(own, [source])
    (found,) = k_best_derivations(own, full, np.zeros(full.hyperedges), 100)
    return sorted({" ".join(each.derivation.target) for each in found})


def test_every_reading_of_a_value_is_an_alternative() -> None:
    assert targets_of(grammar(), "wake me at half past six") == ["wake ( 6 : 30 )"]
    assert targets_of(grammar(), "wake me at six") == ["wake ( 6 )", "wake ( 6 : 00 )", "wake ( exactly ( 6 ) )"]


def test_types_choose_among_the_readings() -> None:
    assert targets_of(grammar(typed=True), "wake me at six") == ["wake ( 6 : 00 )"]
    assert targets_of(grammar(typed=True), "play six") == ["play ( 6 )"]


def test_the_terminal_of_a_slot_is_not_a_word_that_people_can_say() -> None:
    assert targets_of(grammar(), "wake me at @time") == []


def test_a_grammar_without_slots_is_left_as_it_is() -> None:
    plain = Grammar.parse(GRAMMAR)
    assert of_sentences(plain, [["six"]]) is plain
    assert targets_of(plain, "wake me at @time") == ["wake ( @time )"]


def test_a_derivation_holds_what_was_read() -> None:
    source = ["wake", "me", "at", "half", "past", "six"]
    own = of_sentences(grammar(typed=True), [source])
    full = charts(own, [source])
    (best,) = best_derivations(own, full, np.zeros(full.hyperedges))
    assert best is not None
    assert str(best.derivation) == "[0:6] wake me at NT_1 ### wake ( NT_1 )\n  [3:6] half past six ### 6 : 30"
    value = best.derivation.hyperedges[1].rule
    assert grammar().numbers[value] == grammar().numbers[Rule.parse("@time ### @time")]
    assert own.numbers[value] >= len(grammar())


WORDS = ("wake", "me", "at", "half", "past", "six", "jazz", "and", "play", "@time")
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=3)


@given(SENTENCES, st.booleans())
def test_charts_are_those_of_a_grammar_that_has_the_values_as_rules(sentences: list[list[str]], typed: bool) -> None:
    own = of_sentences(grammar(typed=typed), sentences)
    plain = [rule for rule in grammar() if not str(rule).startswith("@")]
    values = [Rule(rule.source, rule.target) for rule in list(own)[len(grammar()) :]]
    twin = Grammar.of([*plain, *values])
    if typed:
        types = TYPES.replace("@number", "6 | 0.5").replace("@time", "6 : 00 | 6 : 30")
        twin = twin.typed_by(TargetGrammar.parse(types))
    counts = derivation_counts(charts(own, sentences))
    if len(set(values)) == len(values):
        assert counts == derivation_counts(charts(twin, sentences))
    full = charts(own, sentences)
    for number, found in enumerate(best_derivations(own, full, np.zeros(full.hyperedges))):
        if found is not None:
            assert list(found.derivation.source) == sentences[number]
            goal = goal_charts(own, full.select([number]), [found.derivation.target])
            assert derivation_counts(goal)[0] >= 1
            assert set(columns(own, goal.rules)) <= set(range(len(grammar())))


def test_forests_have_the_rules_of_the_model() -> None:
    forests = build_forests(grammar(typed=True), [Example("wake me at half past six", "wake ( 6 : 30 )")])
    assert not forests.underivable()
    assert forests.full.rules.max() < len(grammar())


def test_the_right_one_of_several_values_is_the_goal() -> None:
    readings: Readings = {("5",): {"number": ("5",)}, ("7",): {"number": ("7",)}}
    both = Grammar.parse("@number ### @number\nfrom NT_1 to NT_2 ### NT_1 - NT_2")
    found = replace(both, slots=Phrases(readings))
    examples = [Example("from 5 to 7", "5 - 7"), Example("from 5 to 7", "7 - 5"), Example("from 5 to 5", "5 - 5")]
    assert build_forests(found, examples).underivable() == [1]


def test_rules_without_placeholders_stay_as_they_are() -> None:
    rules = [Rule.parse("kitchen ### kitchen"), Rule.parse("NT_1 and NT_2 ### NT_1 ; NT_2")]
    assert with_slots(rules) == rules


def test_a_model_sees_slots_in_the_place_of_values() -> None:
    sources = [["wake", "me", "at", "half", "past", "six"], ["six"]]
    assert [" ".join(each) for each in views(grammar(), sources)] == ["wake me at @time @time @time", "@number"]
    hidden = replace(grammar(), slots=Phrases(free_text=("time",)))
    assert [" ".join(each) for each in views(hidden, sources)] == ["wake me at @number past @number", "@number"]


def test_a_parser_reads_values_that_it_has_never_seen() -> None:
    readings: Readings = {(str(number),): {"number": (str(number),)} for number in range(100)}
    rules = Grammar.parse("@number ### @number\ndim to NT_1 ### dim ( NT_1 )\nraise by NT_1 ### up ( NT_1 )")
    known = replace(rules, slots=Phrases(readings))
    examples = [Example("dim to 5", "dim ( 5 )"), Example("raise by 7", "up ( 7 )")]
    parser = Parser.train(known, examples, device="cpu")
    answer = parser.parse("dim to 42")
    assert answer.target == "dim ( 42 )"
    assert parser.parse("dim to many").target is None


@pytest.mark.parametrize(
    ("induced", "expected"),
    [
        ("wake NT_1 at @time_1 ### wake ( NT_1 , @time_1 )", "wake NT_1 at NT_2 ### wake ( NT_1 , NT_2 )"),
        ("from @n_1 to @n_2 ### range ( @n_2 , @n_1 )", "from NT_1 to NT_2 ### range ( NT_2 , NT_1 )"),
        ("@time_1 ### time = @time_1", "@time ### time = @time"),
        ("kitchen @n_1 ### kitchen @n_1", "kitchen NT_1 ### kitchen NT_1"),
        ("@time_3 ### @time_3", None),
        ("from @n_1 to @n_1 ### range ( @n_1 )", None),
        ("@n_1 percent ### all", None),
    ],
    ids=["with a non-terminal", "two of a kind", "alone", "a word", "plain", "twice in the source", "on one side"],
)
def test_placeholders_become_non_terminals(induced: str, expected: str | None) -> None:
    rules = [str(rule) for rule in with_slots([Rule.parse(induced)])]
    slots = [rule for rule in rules if rule in ("@time ### @time", "@n ### @n")]
    assert len(slots) == 1
    assert [rule for rule in rules if rule not in slots] == ([expected] if expected else [])


def test_a_search_begins_with_the_arguments_whose_values_both_sides_have() -> None:
    pairs = [
        ("wake Bob-Lee at @time_1", 'wake ( who = " Bob - Lee " , at = " @time_1 " )'),
        ("volume @number_1", '{ " volume " : @number_1 , " unit " : " % " }'),
        ("nothing", "f ( x ="),
    ]
    found = slot_seeds((source.split(), target.split()) for source, target in pairs)
    assert [str(rule) for rule in found] == [
        '@number_1 ### " volume " : @number_1',
        "@number_1 ### @number_1",
        "@time_1 ### @time_1",
        '@time_1 ### at = " @time_1 "',
        'Bob-Lee ### who = " Bob - Lee "',
    ]


def test_of_unknown_words_beside_free_text_a_model_sees_how_they_are_typed() -> None:
    text: Readings = {(word.lower(),): {"song": (word,)} for word in ("Play", "Hey", "JUDE", "U2")}
    songs = replace(Grammar.parse("@song ### @song\nplay NT_1 ### play ( NT_1 )"), slots=Phrases(text, ("song",)))
    sentence = ("play", "hey", "jude", "u2", "now")
    assert views(songs, [sentence]) == [sentence]
    assert views(songs, [sentence], known={"play", "hey"}) == [("play", "hey", "@X", "@0", "@x")]


def test_in_training_every_other_sentence_is_one_of_unknown_words() -> None:
    songs = replace(
        Grammar.parse("@song ### @song\nplay NT_1 ### play ( NT_1 )"),
        slots=Phrases({("jude",): {"song": ("Jude",)}}, ("song",)),
    )
    examples = [Example("play jude", "play ( Jude )")]
    tokenizer = word_tokenizer([("play", "jude", *SHAPES)])
    data = TrainingData.of(songs, examples, build_forests(songs, examples), tokenizer, {"play"})
    assert len(data) == 1
    shown = [tokenizer.id_to_token(number) for number in data.collate([0, 0], torch.device("cpu")).sentences.ids]
    assert shown == ["[CLS]", "play", "jude", "[SEP]", "[CLS]", "play", "@Xx", "[SEP]"]
