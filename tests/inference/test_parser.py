"""The parser on the shortest commands of SCAN, trained in seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.data.scan import scan_examples
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.inference import parser as parser_module
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.model.confidence import (
    PRIORS,
    ROOT_PARENT,
    Calibrator,
    RulePairs,
    rule_pairs,
)
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.model.subwords import Subwords, tokenize
from nqg.pipeline.parser import fit_parser
from nqg.types.target_grammar import TargetGrammar
from oracles import all_derivations
from scoring import score_table

TINY = ModelSettings(
    dimension=32, embedded=EncoderSettings(hidden_size=32, layers=1, heads=2)
)
NO_JUMPS = TargetGrammar.parse(
    "<program> ::= <step> | <step> <program>\n<step> ::= I_WALK | I_RUN | I_LOOK"
)
SHORT = [example for example in scan_examples() if len(example.source_tokens) <= 4]


def is_held_out(example: Example) -> bool:
    """`jump` is trained on alone, never in a combination."""
    return "jump" in example.source_tokens and example.source != "jump"


TRAIN = [example for example in SHORT if not is_held_out(example)]
TEST = [example for example in SHORT if is_held_out(example)]


@pytest.fixture(scope="module")
def trained() -> Parser:
    grammar = induce(TRAIN, InductionSettings.named("scan"))
    training = TrainingSettings(steps=60, batch_size=64, warm_up=10, learning_rate=3e-3)
    return fit_parser(grammar, TRAIN, model=TINY, training=training, device="cpu")


@pytest.fixture(scope="module")
def ambiguous() -> Parser:
    """A parser that is not sure of anything: several readings, some of them by several derivations."""
    grammar = Grammar.parse("""
        walk ### W
        walk ### J
        jump ### J
        run ### R
        NT_1 twice ### NT_1 NT_1
        NT_1 and NT_2 ### NT_1 NT_2
        NT_1 and NT_2 ### NT_2 NT_1
    """)
    examples = [Example("walk and jump twice", "W J J")]
    training = TrainingSettings(steps=1, batch_size=1)
    return fit_parser(grammar, examples, model=TINY, training=training, device="cpu")


def limited(parser: Parser, target_grammar: TargetGrammar) -> Parser:
    return Parser(replace(parser.model, target_grammar=target_grammar))


def enumerated_chances(parser: Parser, source: str) -> dict[tuple[str, ...], float]:
    """The probability of every target of a sentence, derivation by derivation."""
    model, tokens = parser.model, tuple(source.split())
    full = charts(parser.grammar, [tokens])
    table = score_table(model.scorer, tokenize(model.tokenizer, [tokens]), full)
    spans = {full.span(NodeId(number)): number for number in range(full.nodes)}
    weights: dict[tuple[str, ...], float] = {}
    for found in all_derivations(parser.grammar, tokens):
        rules = [
            (spans[each.span], parser.grammar.rules.index(each.rule))
            for each in found.hyperedges
        ]
        weights[found.target] = weights.get(found.target, 0) + math.exp(
            sum(float(table[pair]) for pair in rules)
        )
    return {
        target: weight / sum(weights.values()) for target, weight in weights.items()
    }


def test_unseen_combinations_are_parsed_without_a_mistake(trained: Parser) -> None:
    assert len(TEST) == 154
    wrong = [
        (example, parse.target)
        for example, parse in zip(
            TEST, trained.answers(example.source for example in TEST), strict=True
        )
        if parse.target != example.target
    ]
    assert not wrong


def test_a_derivation_yields_the_target_and_reads_the_sentence(trained: Parser) -> None:
    parse = trained.parse("jump twice and walk")
    assert parse.reading is not None
    assert (
        parse.reading.derivation.source
        == parse.source_tokens
        == ("jump", "twice", "and", "walk")
    )
    assert (
        parse.reading.derivation.target
        == parse.reading.tokens
        == ("I_JUMP", "I_JUMP", "I_WALK")
    )
    assert parse.reading.target == parse.target == "I_JUMP I_JUMP I_WALK"
    assert parse.reason == ""
    assert parse.readings == ()


AMBIGUOUS = [
    "walk",
    "walk and jump twice",
    "walk and walk and walk",
    "jump and jump and jump twice",
    "run",
]


@pytest.mark.parametrize("source", AMBIGUOUS)
def test_the_probability_is_that_of_all_derivations_of_the_target(
    ambiguous: Parser, source: str
) -> None:
    parse = ambiguous.parse(source)
    assert parse.reading is not None
    assert parse.probability is not None
    assert 0 < parse.probability <= 1
    assert parse.probability == pytest.approx(
        enumerated_chances(ambiguous, source)[parse.reading.tokens], rel=1e-5
    )


@pytest.mark.parametrize("source", AMBIGUOUS)
def test_readings_are_the_targets_by_falling_probability(
    ambiguous: Parser, source: str
) -> None:
    readings = ambiguous.parse(source, readings=50).readings
    expected = enumerated_chances(ambiguous, source)
    found = {reading.tokens: reading.probability for reading in readings}
    assert found == pytest.approx(expected, rel=1e-5)
    assert len(found) == len(readings)
    chances = [reading.probability for reading in readings]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1)
    assert all(
        " ".join(reading.derivation.target) == reading.target for reading in readings
    )


def test_as_many_readings_as_asked_for_with_their_whole_probability(
    ambiguous: Parser,
) -> None:
    source = "walk and walk and walk"
    two = ambiguous.parse(source, readings=2).readings
    expected = enumerated_chances(ambiguous, source)
    assert len(two) == 2
    assert [each.probability for each in two] == pytest.approx(
        [expected[each.tokens] for each in two], rel=1e-5
    )
    assert sum(each.probability for each in two) < 1


def test_a_sentence_outside_the_grammar_is_an_abstention_not_an_error(
    trained: Parser,
) -> None:
    parse = trained.parse("fly twice")
    assert parse == Answer(
        "fly twice", system="grammar", reason="no derivation: no rule knows 'fly'"
    )
    assert parse.target is None
    assert parse.probability is None


@pytest.mark.parametrize("word", ["thrice", "jump", "opposite"])
def test_where_no_grammar_can_be_right_every_sentence_is_an_abstention(
    word: str,
) -> None:
    train = [example for example in SHORT if word not in example.source_tokens]
    test = [example for example in SHORT if word in example.source_tokens]
    training = TrainingSettings(steps=20, batch_size=64, warm_up=5, learning_rate=3e-3)
    parser = fit_parser(
        induce(train), train, model=TINY, training=training, device="cpu"
    )
    answers = list(parser.answers(example.source for example in test))
    assert len(answers) > 10
    assert {answer.target for answer in answers} == {None}
    assert {answer.reason for answer in answers} == {"no derivation"}


@pytest.mark.parametrize("sentence", ["", "  \t "])
def test_an_empty_sentence_is_an_abstention(trained: Parser, sentence: str) -> None:
    reason = "no derivation: the sentence is empty"
    assert trained.parse(sentence) == Answer(sentence, system="grammar", reason=reason)


def test_a_sentence_that_is_too_long_for_the_encoder_is_an_abstention(
    trained: Parser,
) -> None:
    endless = " and ".join(["walk"] * 300)
    parses = list(trained.answers(["jump twice", endless, "walk"]))
    assert [parse.target for parse in parses] == ["I_JUMP I_JUMP", None, "I_WALK"]
    assert parses[1].reason == "too long"


def test_an_untyped_parser_abstains_where_its_best_target_is_illegal(
    trained: Parser,
) -> None:
    parser = limited(trained, NO_JUMPS)
    parses = list(
        parser.with_options(DecodeOptions(1, typed=False)).answers(
            ["jump twice", "walk twice"]
        )
    )
    assert [(parse.target, parse.reason) for parse in parses] == [
        (None, "no valid program"),
        ("I_WALK I_WALK", ""),
    ]
    assert [parse.readings[0].is_legal for parse in parses] == [False, True]


def test_a_typed_parser_has_legal_readings_only(trained: Parser) -> None:
    parses = list(
        limited(trained, NO_JUMPS)
        .with_options(DecodeOptions(1))
        .answers(["jump twice", "walk twice", "hop"])
    )
    assert [(parse.target, parse.reason) for parse in parses] == [
        (None, "no valid program"),
        ("I_WALK I_WALK", ""),
        (None, "no derivation"),
    ]
    assert [len(parse.readings) for parse in parses] == [0, 1, 0]


def test_types_share_the_probability_among_the_legal_readings(
    ambiguous: Parser,
) -> None:
    source = "walk and jump twice"
    answer = ambiguous.parse(source, readings=50)
    others = [reading for reading in answer.readings if reading.target != answer.target]
    legal = [others[1], others[-1]]
    programs = "\n".join(f"<program> ::= {each.target}" for each in legal)
    parser = limited(ambiguous, TargetGrammar.parse(programs))
    untyped = next(parser.with_options(DecodeOptions(typed=False)).answers([source]))
    assert (untyped.target, untyped.reason) == (None, "no valid program")
    typed = parser.parse(source, readings=9)
    chances = {each.target: each.probability for each in legal}
    assert {each.target: each.probability for each in typed.readings} == pytest.approx(
        {target: chance / sum(chances.values()) for target, chance in chances.items()}
    )


def test_where_no_reading_is_legal_the_parser_abstains(ambiguous: Parser) -> None:
    parser = limited(ambiguous, TargetGrammar.parse("<program> ::= nothing"))
    reason = "no valid program: 'walk' is part of no legal program"
    assert parser.parse("walk") == Answer("walk", system="grammar", reason=reason)


def test_a_batch_says_what_its_sentences_say_alone_in_their_order(
    ambiguous: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [
        "run",
        "walk and jump twice",
        "",
        "fly",
        "walk and walk",
        "jump twice twice",
        "run",
    ]
    together = list(ambiguous.with_options(DecodeOptions(3)).answers(sentences))
    assert [answer.source for answer in together] == sentences
    monkeypatch.setattr(parser_module, "ENCODER_BATCH", 2)
    for other in (
        list(ambiguous.with_options(DecodeOptions(3)).answers(sentences)),
        [ambiguous.parse(each, readings=3) for each in sentences],
    ):
        for ours, theirs in zip(together, other, strict=True):
            assert (ours.target, ours.reason) == (
                theirs.target,
                theirs.reason.partition(":")[0],
            )
            assert (ours.probability or 0) == pytest.approx(
                theirs.probability or 0, rel=1e-4
            )
            assert [each.target for each in ours.readings] == [
                each.target for each in theirs.readings
            ]


def new_pairs(
    derivation: Derivation, seen: RulePairs, numbers: Mapping[Rule, int]
) -> int:
    """The distinct pairs that training does not have, below rules that it has."""
    rows = {row[:3] for row in seen.rows}
    needed = {ROOT_PARENT, *(child for _, _, child in rows)}
    pairs = {tuple(pair) for pair in rule_pairs(derivation, numbers)}
    return len({pair for pair in pairs - rows if pair[0] in needed})


@given(data=st.data())
def test_evidence_counts_pairs_and_words_that_training_does_not_have(
    ambiguous: Parser, data: st.DataObject
) -> None:
    source = data.draw(st.sampled_from(["walk and jump twice", "walk twice"]))
    words, numbers = source.split(), ambiguous.grammar.numbers
    derivations = all_derivations(ambiguous.grammar, tuple(words))
    seen = RulePairs.of(data.draw(st.lists(st.sampled_from(derivations))), numbers)
    vocabulary = data.draw(st.sets(st.sampled_from(words)))
    calibrator = Calibrator(PRIORS[False], seen, vocabulary=tuple(sorted(vocabulary)))
    knowing = Parser(replace(ambiguous.model, calibrator=calibrator))
    answer = knowing.parse(source, readings=9)
    unknown = [word for word in words if word not in vocabulary]
    assert list(answer.unknown_words) == unknown
    assert answer.reading is not None
    for reading in (answer.reading, *answer.readings):
        assert reading.evidence is not None
        assert reading.evidence.unseen == new_pairs(reading.derivation, seen, numbers)
        assert reading.evidence.unknown == len(unknown)
        assert reading.evidence.probability == reading.probability
    assert answer.reading.evidence is not None
    expected = calibrator.weights.confidence(answer.reading.evidence)
    assert answer.confidence == pytest.approx(expected)


def test_below_the_threshold_of_its_calibrator_a_parser_abstains(
    ambiguous: Parser,
) -> None:
    calibrator = Calibrator(PRIORS[False], RulePairs(()), threshold=0.9)
    strict = Parser(replace(ambiguous.model, calibrator=calibrator))
    answer = strict.parse("walk twice", readings=2)
    assert (answer.target, answer.confidence, answer.reading) == (None, None, None)
    assert answer.reason.startswith("not sure enough: ")
    assert len(answer.readings) == 2
    lenient = strict.with_options(DecodeOptions(least_confidence=0.0))
    assert next(lenient.answers(["walk twice"])).confidence is not None
    stricter = replace(calibrator, threshold=0.0)
    chosen = Parser(replace(ambiguous.model, calibrator=stricter)).with_options(
        DecodeOptions(least_confidence=0.99)
    )
    assert not next(chosen.answers(["walk twice"]))


@given(data=st.data())
def test_a_model_that_knows_the_pairs_of_training_prefers_the_reading_with_the_fewest_others(
    ambiguous: Parser, data: st.DataObject
) -> None:
    source = data.draw(
        st.sampled_from(
            [
                "walk and jump twice",
                "walk and walk",
                "walk and run and jump",
                "walk twice",
            ]
        )
    )
    numbers = ambiguous.grammar.numbers
    derivations = all_derivations(ambiguous.grammar, tuple(source.split()))
    seen = RulePairs.of(
        data.draw(st.lists(st.sampled_from(derivations), min_size=1, max_size=2)),
        numbers,
    )
    chances = enumerated_chances(ambiguous, source)
    news = {target: len(derivations) * 99 for target in chances}
    for each in derivations:
        unseen = new_pairs(each, seen, numbers)
        news[each.target] = min(news[each.target], unseen)
    expected = sorted(
        chances, key=lambda target: (news[target], -chances[target], target)
    )
    knowing = Parser(
        replace(ambiguous.model, calibrator=Calibrator(PRIORS[False], seen))
    )
    answer = knowing.parse(source, readings=len(chances))
    assert [reading.tokens for reading in answer.readings] == expected
    first = ambiguous.parse(source).reading
    assert first is not None
    is_least = seen.unseen(rule_pairs(first.derivation, numbers)) == news[expected[0]]
    assert answer.target == " ".join(first.tokens if is_least else expected[0])


def test_the_same_word_further_behind_than_training_has_any_is_not_the_same() -> None:
    """Where it were, readings would be equally likely, and rounding, which a batch can change, would choose."""
    grammar = Grammar.parse("walk ### W\nrun ### R\nNT_1 and NT_2 ### NT_1 NT_2")
    training = TrainingSettings(steps=1, batch_size=2)
    examples = [Example("walk", "W"), Example("run", "R")]
    parser = fit_parser(grammar, examples, model=TINY, training=training, device="cpu")
    reading = parser.parse("run and walk and walk").reading
    assert reading is not None
    *_, first, second = (
        score
        for each, score in zip(
            reading.derivation.hyperedges, reading.scores, strict=True
        )
        if each.rule.source == ("walk",)
    )
    assert abs(first - second) > 1e-5


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_SCORE_TABLE", 1), ("WINDOW", 3), ("ENCODER_BATCH", 1)]
)
def test_how_the_work_is_cut_into_pieces_does_not_show(
    ambiguous: Parser, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    sentences = [
        "run",
        "walk and jump twice",
        "",
        "fly",
        "walk and walk",
        "jump twice twice",
        "run",
        "walk",
    ]
    together = list(ambiguous.answers(sentences))
    monkeypatch.setattr(parser_module, name, value)
    for ours, theirs in zip(together, ambiguous.answers(sentences), strict=True):
        assert (ours.source, ours.target, ours.reason) == (
            theirs.source,
            theirs.target,
            theirs.reason,
        )
        assert (ours.probability or 0) == pytest.approx(
            theirs.probability or 0, rel=1e-4
        )


def test_an_endless_stream_is_parsed_as_it_comes(
    trained: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_module, "WINDOW", 4)
    taken: list[str] = []

    def endless() -> Iterator[str]:
        for sentence in cycle(["jump twice", "walk", "fly"]):
            taken.append(sentence)
            yield sentence

    first = list(islice(trained.answers(endless()), 6))
    assert [parse.target for parse in first] == ["I_JUMP I_JUMP", "I_WALK", None] * 2
    assert len(taken) == 8


def test_sentences_without_a_derivation_are_not_encoded(
    trained: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    scores = Parser._scores

    def counted(
        self: Parser, sentences: Sequence[Subwords], full: Hypergraph
    ) -> FloatArray:
        read.append(len(sentences))
        return scores(self, sentences, full)

    monkeypatch.setattr(Parser, "_scores", counted)
    list(trained.answers(["fly", "jump", "fly twice", "", "walk twice"]))
    list(trained.answers(["fly"]))
    assert read == [2]


@pytest.mark.parametrize("source", AMBIGUOUS)
def test_every_hyperedge_has_its_score_and_if_asked_for_its_marginal(
    ambiguous: Parser, source: str
) -> None:
    (plain,) = ambiguous.with_options(DecodeOptions(readings=2)).answers([source])
    asked = ambiguous.parse(source, readings=2)
    for before, reading in zip(
        (plain.reading, *plain.readings), (asked.reading, *asked.readings), strict=True
    ):
        assert before is not None
        assert reading is not None
        size = len(reading.derivation.hyperedges)
        assert len(reading.scores) == len(reading.marginals) == size
        assert before == replace(reading, marginals=())
        assert all(0 < chance <= 1 for chance in reading.marginals)
    better, *others = (
        sum(reading.scores)
        for reading in (asked.reading, *asked.readings)
        if reading is not None
    )
    assert all(better >= other - 1e-9 for other in others)


def test_no_sentences_give_no_parses(trained: Parser) -> None:
    assert list(trained.answers([])) == []


def test_a_saved_parser_says_the_same_when_loaded(
    trained: Parser, tmp_path: Path
) -> None:
    trained.save(tmp_path / "model")
    sentences = [example.source for example in TEST[:20]]
    assert list(
        Parser.load(tmp_path / "model", device="cpu").answers(sentences)
    ) == list(trained.answers(sentences))
