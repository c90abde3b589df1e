"""Values of slots in charts, forests and derivations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import LimitExceeded
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import ChartGrammar, Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.semirings import best_derivations, k_best_derivations
from nqg.model.forest_crf import TrainingData
from nqg.model.forests import TrainingForests, build_forests
from nqg.model.subwords import word_tokenizer
from nqg.pipeline.parser import fit_parser
from nqg.slots.delexicalize import relexicalize_rules, slot_seeds
from nqg.slots.instantiate import SHAPES, encoder_tokens, instantiate_slots
from nqg.slots.matcher import (
    Mention,
    Sentence,
    SlotMatcher,
    letters_of,
    spans_matching_target,
    words_of,
)
from nqg.slots.slot import Slot
from nqg.text.sentences import SentenceTokenizer, TokenizedSentence
from nqg.types.target_grammar import TargetGrammar

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


class Phrases(SlotMatcher):
    """Slots that know a few phrases; free text is what was written, in capitals."""

    def __init__(
        self, phrases: Readings = READINGS, free_text: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        lengths = dict(free_text or {})
        same_texts = {slot: min(lengths) for slot in lengths}
        self.__dict__.update(phrases=phrases, free_text=lengths, same_texts=same_texts)

    def __len__(self) -> int:
        return 1

    def mentions(self, sentence: Sentence, today: date | None = None) -> list[Mention]:
        tokens = words_of(sentence)
        spans = [
            (start, end)
            for start in range(len(tokens))
            for end in range(start + 1, len(tokens) + 1)
        ]
        return [
            Mention(start, end, slot, value)
            for start, end in spans
            for slot, value in self.__dict__["phrases"]
            .get(tuple(tokens[start:end]), {})
            .items()
        ]

    def text_value(
        self, sentence: Sentence, slot: str, start: int, end: int
    ) -> tuple[str, ...]:
        return tuple(word.upper() for word in words_of(sentence)[start:end])


def grammar(*, typed: bool = False) -> Grammar:
    found = replace(Grammar.parse(GRAMMAR), slots=Phrases())
    return found.typed_by(TargetGrammar.parse(TYPES)) if typed else found


def free_texts(slots: SlotMatcher, sentence: TokenizedSentence) -> Iterator[Mention]:
    """Every run of words as all that it may be as free text."""
    count = len(sentence.tokens)
    for slot, length in slots.free_text.items():
        for start in range(count):
            for end in range(start + 1, min(start + length, count) + 1):
                yield Mention(
                    start, end, slot, slots.text_value(sentence, slot, start, end)
                )


def targets_of(grammar: Grammar, sentence: str) -> list[str]:
    """All targets of a sentence, by the enumeration of its best derivations."""
    source = sentence.split()
    own = instantiate_slots(grammar, [source])
    full = charts(own, [source])
    (found,) = k_best_derivations(own, full, np.zeros(full.hyperedges), 100)
    return sorted({" ".join(each.derivation.target) for each in found})


def test_every_reading_of_a_value_is_an_alternative() -> None:
    assert targets_of(grammar(), "wake me at half past six") == ["wake ( 6 : 30 )"]
    assert targets_of(grammar(), "wake me at six") == [
        "wake ( 6 )",
        "wake ( 6 : 00 )",
        "wake ( exactly ( 6 ) )",
    ]


def test_types_choose_among_the_readings() -> None:
    assert targets_of(grammar(typed=True), "wake me at six") == ["wake ( 6 : 00 )"]
    assert targets_of(grammar(typed=True), "play six") == ["play ( 6 )"]


def test_the_terminal_of_a_slot_is_not_a_word_that_people_can_say() -> None:
    assert targets_of(grammar(), "wake me at @time") == []


def test_a_grammar_without_slots_is_left_as_it_is() -> None:
    plain = Grammar.parse(GRAMMAR)
    assert instantiate_slots(plain, [["six"]]).encoded is plain.encoded
    assert targets_of(plain, "wake me at @time") == ["wake ( @time )"]


def test_a_derivation_holds_what_was_read() -> None:
    source = ["wake", "me", "at", "half", "past", "six"]
    own = instantiate_slots(grammar(typed=True), [source])
    full = charts(own, [source])
    (best,) = best_derivations(own, full, np.zeros(full.hyperedges))
    assert best is not None
    assert (
        str(best.derivation)
        == "[0:6] wake me at NT_1 ### wake ( NT_1 )\n  [3:6] half past six ### 6 : 30"
    )
    value = best.derivation.hyperedges[1].rule
    assert grammar().numbers[value] == grammar().numbers[Rule.parse("@time ### @time")]


TEXT = """
@song ### @song
@song ### song = @song or @song
@album ### album = @album
"""
TEXT_TYPES = TYPES.replace(
    "jazz |", "jazz | @song | song = @song or @song | album = @album |"
)
WORDS = ("wake", "me", "at", "half", "past", "six", "jazz", "and", "play", "@time")
SENTENCES = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=3
)


@given(SENTENCES, st.booleans(), st.integers(0, 3))
@example([["play", "wake"], ["play", "six", "and", "wake", "me", "at", "six"]], True, 2)
def test_charts_are_those_of_a_grammar_that_has_the_values_as_rules(
    sentences: list[list[str]], typed: bool, longest: int
) -> None:
    slots = Phrases(free_text={"song": longest, "album": 2} if longest else {})
    known = replace(Grammar.parse(GRAMMAR + TEXT), slots=slots)
    own = instantiate_slots(
        known.typed_by(TargetGrammar.parse(TEXT_TYPES)) if typed else known, sentences
    )
    full = charts(own, sentences)
    for number, sentence in enumerate(sentences):
        raw = TokenizedSentence.of(sentence)
        found = [*slots.mentions(sentence), *free_texts(slots, raw)]
        values = [
            Rule(tuple(sentence[each.start : each.end]), _filled(rule, each))
            for each in found
            for rule in known
            if rule.source == (each.token,)
        ]
        twin = Grammar.of(
            [*(rule for rule in known if not str(rule).startswith("@")), *values]
        )
        if typed:
            twin = twin.typed_by(TargetGrammar.parse(_with_values(TEXT_TYPES, found)))
        expected = charts(twin, [sentence])
        assert _targets(own, full.select([number])) == _targets(twin, expected)
        for target in {*_targets(own, full.select([number]))}:
            goal = goal_charts(own, full.select([number]), [target])
            assert _targets(own, goal) == {target}
            assert set(own.model_rule_ids(goal.rules)) <= set(range(len(known)))
            right = goal_charts(twin, expected, [target])
            assert set(zip(goal.starts, goal.ends, strict=True)) == set(
                zip(right.starts, right.ends, strict=True)
            )


PIECES = st.lists(st.sampled_from(["a", "A", "b", "ab", "ba", "-", "a-b"]), max_size=7)


@given(PIECES, PIECES, st.integers(1, 4))
def test_runs_of_words_are_alike_whose_letters_are_those_of_a_run_of_tokens(
    words: list[str], target: list[str], longest: int
) -> None:
    runs = {
        (start, end)
        for start in range(len(words))
        for end in range(start + 1, min(start + longest, len(words)) + 1)
    }
    parts = {
        letters_of("".join(target[low:high]))
        for low in range(len(target) + 1)
        for high in range(low, len(target) + 1)
    }
    assert {*spans_matching_target(words, target, longest)} == {
        run for run in runs if letters_of("".join(words[slice(*run)])) in parts
    }


def _filled(rule: Rule, mention: Mention) -> tuple[str, ...]:
    """What the rule of a slot says of a value."""
    return tuple(
        token
        for each in rule.target
        for token in (mention.value if each == mention.token else (str(each),))
    )


def _with_values(types: str, mentions: Sequence[Mention]) -> str:
    """Types with the values in the place of slots."""
    for slot in ("time", "number", "song", "album"):
        values = {" ".join(each.value) for each in mentions if each.slot == slot} or {
            "none"
        }
        for form in ("song = {} or {}", "album = {}", "{}"):
            written = (form.replace("{}", each) for each in sorted(values))
            types = types.replace(form.replace("{}", f"@{slot}"), " | ".join(written))
    return types


def _targets(grammar: ChartGrammar, graph: Hypergraph) -> set[tuple[str, ...]]:
    """All targets of a sentence, by the enumeration of its derivations."""
    (found,) = k_best_derivations(grammar, graph, np.zeros(graph.hyperedges), 100_000)
    return {each.derivation.target for each in found}


def test_of_equal_words_the_first_way_of_writing_counts() -> None:
    slots = SlotMatcher("en", (Slot("song", "text", ("{verbatim}",), length=2),))
    ways = [
        TokenizedSentence(raw, SentenceTokenizer().tokens(raw))
        for raw in ("play Hey", "play hey")
    ]
    known = slots.with_known(ways, map(slots.mentions, ways))
    assert known.text_value(("play", "hey"), "song", 1, 2) == ("Hey",)


def test_forests_have_the_rules_of_the_model() -> None:
    forests = build_forests(
        grammar(typed=True), [Example("wake me at half past six", "wake ( 6 : 30 )")]
    )
    assert not forests.underivable()
    assert forests.full.rules.max() < len(grammar())


def test_the_right_one_of_several_values_is_the_goal() -> None:
    readings: Readings = {("5",): {"number": ("5",)}, ("7",): {"number": ("7",)}}
    both = Grammar.parse("@number ### @number\nfrom NT_1 to NT_2 ### NT_1 - NT_2")
    found = replace(both, slots=Phrases(readings))
    examples = [
        Example("from 5 to 7", "5 - 7"),
        Example("from 5 to 7", "7 - 5"),
        Example("from 5 to 5", "5 - 5"),
    ]
    assert build_forests(found, examples).underivable() == [1]


def test_rules_without_placeholders_stay_as_they_are() -> None:
    rules = [
        Rule.parse("kitchen ### kitchen"),
        Rule.parse("NT_1 and NT_2 ### NT_1 ; NT_2"),
    ]
    assert relexicalize_rules(rules) == rules


def test_a_model_sees_slots_in_the_place_of_values() -> None:
    sources = [["wake", "me", "at", "half", "past", "six"], ["six"]]
    assert [" ".join(each) for each in encoder_tokens(grammar(), sources)] == [
        "wake me at @time @time @time",
        "@number",
    ]
    hidden = replace(grammar(), slots=Phrases(free_text={"time": 1}))
    assert [" ".join(each) for each in encoder_tokens(hidden, sources)] == [
        "wake me at @number past @number",
        "@number",
    ]


def test_a_parser_reads_values_that_it_has_never_seen() -> None:
    readings: Readings = {
        (str(number),): {"number": (str(number),)} for number in range(100)
    }
    rules = Grammar.parse(
        "@number ### @number\ndim to NT_1 ### dim ( NT_1 )\nraise by NT_1 ### up ( NT_1 )"
    )
    known = replace(rules, slots=Phrases(readings))
    examples = [Example("dim to 5", "dim ( 5 )"), Example("raise by 7", "up ( 7 )")]
    parser = fit_parser(known, examples, device="cpu")
    answer = parser.parse("dim to 42")
    assert answer.target == "dim ( 42 )"
    assert parser.parse("dim to many").target is None


@pytest.mark.parametrize(
    ("induced", "expected"),
    [
        (
            "wake NT_1 at @time_1 ### wake ( NT_1 , @time_1 )",
            "wake NT_1 at NT_2 ### wake ( NT_1 , NT_2 )",
        ),
        (
            "from @n_1 to @n_2 ### range ( @n_2 , @n_1 )",
            "from NT_1 to NT_2 ### range ( NT_2 , NT_1 )",
        ),
        ("@time_1 ### time = @time_1", "@time ### time = @time"),
        ("kitchen @n_1 ### kitchen @n_1", "kitchen NT_1 ### kitchen NT_1"),
        ("@time_3 ### @time_3", None),
        ("from @n_1 to @n_1 ### range ( @n_1 )", None),
        ("@n_1 percent ### all", None),
    ],
    ids=[
        "with a non-terminal",
        "two of a kind",
        "alone",
        "a word",
        "plain",
        "twice in the source",
        "on one side",
    ],
)
def test_placeholders_become_non_terminals(induced: str, expected: str | None) -> None:
    rules = [str(rule) for rule in relexicalize_rules([Rule.parse(induced)])]
    slots = [rule for rule in rules if rule in ("@time ### @time", "@n ### @n")]
    assert len(slots) == 1
    assert [rule for rule in rules if rule not in slots] == (
        [expected] if expected else []
    )


def test_a_search_begins_with_the_arguments_whose_values_both_sides_have() -> None:
    pairs = [
        ("wake Bob-Lee at @time_1", 'wake ( who = " Bob - Lee " , at = " @time_1 " )'),
        ("volume @number_1", '{ " volume " : @number_1 , " unit " : " % " }'),
        ("nothing", "f ( x ="),
        (
            "in @city_1",
            "select name where city . name = ' @city_1 '",
        ),  # a comparison, not an argument
    ]
    found = slot_seeds((source.split(), target.split()) for source, target in pairs)
    assert [str(rule) for rule in found] == [
        "@city_1 ### @city_1",
        '@number_1 ### " volume " : @number_1',
        "@number_1 ### @number_1",
        "@time_1 ### @time_1",
        '@time_1 ### at = " @time_1 "',
        'Bob-Lee ### who = " Bob - Lee "',
    ]


def test_free_text_has_at_most_as_many_readings_as_there_are_numbers() -> None:
    slots = SlotMatcher("en", (Slot("song", "text", ("{verbatim}",), length=50_000),))
    songs = replace(Grammar.parse("@song ### @song"), slots=slots)
    with pytest.raises(
        LimitExceeded,
        match="too many ways to read 50,000 words as free text of up to 50000 words",
    ):
        charts(instantiate_slots(songs, [["la"] * 50_000]), [["la"] * 50_000])


SONGS = SlotMatcher("en", (Slot("song", "text", ("{verbatim}",), length=3),))


def test_of_unknown_words_beside_free_text_a_model_sees_how_they_are_typed() -> None:
    songs = replace(
        Grammar.parse("@song ### @song\nplay NT_1 ### play ( NT_1 )"), slots=SONGS
    )
    raw = "Play Hey JUDE U2 now"
    sentence = TokenizedSentence(raw, SentenceTokenizer().tokens(raw))
    assert encoder_tokens(songs, [sentence]) == [sentence.words]
    assert encoder_tokens(songs, [sentence], known={"play", "hey"}) == [
        ("play", "hey", "@X", "@0", "@x")
    ]


def test_in_training_every_other_sentence_is_one_of_unknown_words() -> None:
    songs = replace(
        Grammar.parse("@song ### @song\nplay NT_1 ### play ( NT_1 )"),
        slots=SONGS.with_known(
            [TokenizedSentence("play Jude", SentenceTokenizer().tokens("play Jude"))],
            [()],
        ),
    )
    examples = [Example("play jude", "play ( Jude )")]
    tokenizer = word_tokenizer([("play", "jude", *SHAPES)])
    data = TrainingData.of(
        songs, examples, TrainingForests.of(songs, examples), tokenizer, {"play"}
    )
    assert len(data) == 1
    shown = [
        tokenizer.id_to_token(number)
        for number in data.collate([0, 0], torch.device("cpu")).tensors.sentences.ids
    ]
    assert shown == ["[CLS]", "play", "jude", "[SEP]", "[CLS]", "play", "@Xx", "[SEP]"]
