"""Typos: which words are read as which, when, what answers say of it, and how far they are trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer, Correction
from nqg.data.example import Example
from nqg.evaluation.calibration import knowledge
from nqg.grammar.grammar import Grammar
from nqg.inference.corrections import (
    MIN_LETTERS_FOR_TWO_EDITS,
    Corrector,
    corrector_of,
    similar_words,
)
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.confidence import PRIORS, Calibrator, RulePairs, WordPairs
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.slots.instantiate import unknown_places
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import Gazetteer, Slot
from nqg.text.sentences import AS_IS, TokenizedSentence
from oracles import edit_distance
from typed_commands import typed

GRAMMAR = Grammar.parse("""
turn on NT_1 ### on ( NT_1 )
turn off NT_1 ### off ( NT_1 )
dim NT_1 ### dim ( NT_1 )
lamp ### lamp
lamps ### lamp
ramp ### ramp
radio ### radio
hall 7 ### hall7
smallest ### small
tallest ### tall
""")
EXAMPLES = [
    Example("turn on lamp", "on ( lamp )"),
    Example("turn off radio", "off ( radio )"),
]
TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
CALIBRATOR = Calibrator(PRIORS[False], RulePairs(((-1, 0, 0, 5),)))
words = st.text("abn", min_size=1, max_size=4)


@pytest.fixture(scope="module")
def parser() -> Parser:
    trained = fit_parser(
        GRAMMAR,
        EXAMPLES,
        model=TINY,
        training=TrainingSettings(steps=2, batch_size=2),
        device="cpu",
    )
    return Parser(replace(trained.model, calibrator=CALIBRATOR))


def tokenized(sentence: str) -> TokenizedSentence:
    return TokenizedSentence(sentence, AS_IS.tokens(sentence))


def test_a_typo_is_corrected_and_said(parser: Parser) -> None:
    answer = parser.parse("tunr on lamp")
    assert answer.target == "on ( lamp )"
    assert answer.corrections == (Correction(0, "tunr", "turn"),)
    assert answer.source == "tunr on lamp"
    assert answer.source_tokens == ("turn", "on", "lamp")
    assert "read `tunr` as `turn`" in answer._repr_html_()


def test_an_exact_parser_abstains(parser: Parser) -> None:
    exact = parser.with_options(DecodeOptions(exact=True))
    answer = next(exact.answers(["tunr on lamp"]))
    assert answer == Answer("tunr on lamp", system="grammar", reason="no derivation")
    assert exact.parse("tunr on lamp").reason == "no derivation: no rule knows 'tunr'"


def test_a_sentence_with_a_derivation_is_left_as_it_is(parser: Parser) -> None:
    sentences = ["turn on lamp", "turn off radio", "dim hall 7", "turn", ""]
    exact = parser.with_options(DecodeOptions(exact=True))
    assert list(parser.answers(sentences)) == list(exact.answers(sentences))


@pytest.mark.parametrize(
    "sentence",
    [
        "turn on piano",
        "tunr on piano",
        "turn on a",
        "turn on hall 8",
        "turn on xamp",
        "tunr tunr radio",
    ],
)
def test_what_is_like_nothing_known_or_not_clear_or_not_derivable_is_left_alone(
    parser: Parser, sentence: str
) -> None:
    answer = parser.parse(sentence)
    assert (answer.target, answer.corrections, answer.reason.partition(":")[0]) == (
        None,
        (),
        "no derivation",
    )


def test_words_that_are_as_close_are_taken_where_they_mean_the_same(
    parser: Parser,
) -> None:
    assert Corrector(GRAMMAR.words).neighbours("lampz") == ("lamp", "lamps")
    answer = parser.parse("dim lampz")
    assert answer.target == "dim ( lamp )"
    assert [each.written for each in answer.corrections] == ["lampz"]


def test_several_typos_are_corrected_and_more_are_not(parser: Parser) -> None:
    assert parser.parse("tunr off raido").target == "off ( radio )"
    corrector = Corrector(GRAMMAR.words)
    many = tokenized("tunr tunr tunr tunr")
    assert corrector.readings(many, [0, 1, 2, 3]) == []
    assert corrector.readings(tokenized("lamp"), []) == []
    assert len(corrector.readings(tokenized("lampz lampz lampz"), [0, 1, 2])) == 8
    twins = Corrector(frozenset(["aaab", "aaac", "aaad"]))
    assert twins.readings(tokenized("aaae aaae"), [0, 1]) == []  # more than are tried


def test_confidence_falls_with_every_correction(parser: Parser) -> None:
    sentences = ["turn off radio", "tunr off radio", "tunr off raido"]
    sure, less, least = (
        answer.confidence or 0.0 for answer in parser.answers(sentences)
    )
    assert sure > less > least > 0
    bare = Parser(replace(parser.model, calibrator=None))
    assert bare.parse("tunr off radio").confidence is None


def test_a_hybrid_takes_the_corrected_answer(parser: Parser) -> None:
    answer = Hybrid(parser, parser).parse("tunr on lamp")
    assert [str(each) for each in answer.corrections] == ["read `tunr` as `turn`"]


@given(st.frozensets(words, max_size=8), words)
def test_neighbours_are_the_closest_words_within_one_edit(
    known: frozenset[str], word: str
) -> None:
    close = {
        other: edit_distance(word, other)
        for other in known
        if 0 < edit_distance(word, other) <= 1
    }
    found = Corrector(known).neighbours(word)
    if len(word) < 3:  # of two letters none may be changed in all of them
        kept = [
            other
            for other in close
            if all(word.count(letter) <= other.count(letter) for letter in word)
        ]
        close = close if len(word) == 2 and kept else {}
    assert found == tuple(sorted(close))


@given(st.frozensets(words, max_size=8), words)
def test_similar_words_are_one_edit_away(known: frozenset[str], word: str) -> None:
    close = [other for other in known if edit_distance(word, other) == 1]
    assert similar_words(word, known) == (sorted(close) if len(word) > 1 else [])


def test_a_typo_that_is_a_known_word_is_not_sure(parser: Parser) -> None:
    known = knowledge(parser, EXAMPLES, has_seq2seq=False)
    assert ("turn", "on", 1) in known.words.rows
    # Nothing but the suspicion tells the two sentences apart.
    weights = replace(known.weights, unseen_pairs=0.0, unknown_words=0.0)
    known = replace(known, weights=weights)
    suspicious, older = (
        Parser(replace(parser.model, calibrator=each))
        for each in (known, replace(known, words=WordPairs()))
    )
    sentences = ["turn on lamp", "turn on ramp"]
    usual, typo = suspicious.answers(sentences)
    assert usual.reading
    assert usual.reading.evidence
    assert typo.reading
    assert typo.reading.evidence
    assert (usual.reading.evidence.is_suspect, typo.reading.evidence.is_suspect) == (
        False,
        True,
    )
    trusting = [answer.confidence or 0.0 for answer in older.answers(sentences)]
    assert usual.confidence == pytest.approx(trusting[0])
    assert (typo.confidence or 0.0) < trusting[1]


def test_long_words_may_have_two_typos() -> None:
    corrector = Corrector(frozenset(["temperature", "sonntag"]))
    assert len("temprature") > MIN_LETTERS_FOR_TWO_EDITS
    assert corrector.neighbours("temprtaure") == ("temperature",)
    assert corrector.neighbours("montag") == ()


def test_what_a_slot_reads_is_not_unknown() -> None:
    names = Gazetteer.of([("sevn", "7"), ("noon", "12")])
    grammar = replace(
        GRAMMAR,
        slots=SlotMatcher(
            "en", (Slot("time", "gazetteer", ("{value}",), names=names),)
        ),
    )
    assert unknown_places(grammar, ("turn", "noon", "sevn", "lmap")) == [3]


def test_names_that_slots_read_are_known_words_and_slots_are_not() -> None:
    names = Gazetteer.of([("New York", "nyc"), ("Boston", "bos")])
    slots: Any = SlotMatcher(
        "en", (Slot("city", "gazetteer", ("{value}",), names=names),)
    )
    corrector = corrector_of(
        replace(
            Grammar.parse("@city ### @city\nfly to NT_1 ### fly ( NT_1 )"), slots=slots
        )
    )
    assert corrector.vocabulary == {"fly", "to", "new", "york", "boston"}
    assert corrector.neighbours("bostn") == ("boston",)


def test_the_command_line_says_what_was_read(parser: Parser, tmp_path: Path) -> None:
    model, file = str(tmp_path / "model"), tmp_path / "sentences.txt"
    parser.save(model)
    file.write_text("tunr on lamp\nturn on lamp\n")
    assert typed("parse", model, "tunr on lamp").stdout.split("\n")[:2] == [
        "on ( lamp )",
        "read `tunr` as `turn`",
    ]
    assert typed(
        "parse", model, "tunr on lamp", "--no-spell-correction"
    ).stdout.startswith("abstained: no derivation: no rule knows")
    first, second, _ = typed("parse", model, str(file)).stdout.split("\n")
    assert first.split("\t")[::3] == ["tunr on lamp", "read `tunr` as `turn`"]
    assert len(second.split("\t")) == 3
    found = json.loads(typed("parse", model, "tunr on lamp", "--json").stdout)
    assert found["corrections"] == [{"place": 0, "written": "tunr", "read": "turn"}]
    (tmp_path / "test.tsv").write_text("tunr on lamp\ton ( lamp )\n")
    accuracies = [
        json.loads(
            typed(
                "evaluate", model, str(tmp_path / "test.tsv"), "--json", *words
            ).stdout
        )
        for words in ([], ["--no-spell-correction"])
    ]
    assert [str(each).count("'accuracy': 1.0") > 0 for each in accuracies] == [
        True,
        False,
    ]


@pytest.mark.parametrize("word", ["cant", "don't", "no", "nicht", "cannot"])
def test_a_negation_is_not_a_typo(word: str) -> None:
    corrector = Corrector(frozenset(["can", "done", "on", "nichts", "cannon"]))
    assert corrector.neighbours(word) == ()
