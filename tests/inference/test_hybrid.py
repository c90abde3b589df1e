"""The hybrid: who answers, why, and that the fallback is asked about nothing else; its folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nqg
from nqg.answers import BOTH, GRAMMAR, SEQ2SEQ, Answer, Reading, System
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.evaluation.prediction_file import PredictionFile
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.inference import parser as parser_module
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import CANDIDATES_A_READER, Hybrid, TokenSystem, has_fallback
from nqg.inference.parser import Parser
from nqg.model.confidence import PRIORS, Calibrator, Evidence, RulePairs
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.types.target_grammar import TargetGrammar

DERIVATION = Derivation.parse("[0:1] a ### b")
TINY = ModelSettings(
    dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
TINY_T5 = Seq2seqSettings(
    longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2)
)
WALKS = [Example("walk", "WALK"), Example("walk twice", "WALK WALK")]


@dataclass(frozen=True)
class FakeParser:
    """Knows the probability of some sentences; its program is the sentence in capitals."""

    probabilities: dict[str, float]

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [self._answer(sentence) for sentence in sentences]

    def _answer(self, sentence: str) -> Answer:
        if sentence not in self.probabilities:
            return Answer(sentence, system="grammar", reason="no derivation")
        target, probability = sentence.upper(), self.probabilities[sentence]
        reading = Reading(target, probability, DERIVATION)
        return Answer(sentence, target, probability, "grammar", reading=reading)


@dataclass
class FakeFallback:
    """Answers from a list, and remembers what it was asked."""

    targets: dict[str, str]
    asked: list[list[str]] = field(default_factory=list)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        self.asked.append(list(sentences))
        return [
            Answer(sentence, self.targets.get(sentence)) for sentence in self.asked[-1]
        ]


@pytest.fixture
def parser() -> FakeParser:
    return FakeParser({"walk": 1.0, "run": 0.4})


def told(answers: Iterable[Answer]) -> list[tuple[str | None, str | None]]:
    return [(answer.target, answer.answered_by) for answer in answers]


# Who answers


def test_without_a_calibrator_the_grammar_is_first_and_the_fallback_answers_the_rest(
    parser: FakeParser,
) -> None:
    fallback = FakeFallback({"swim": "SWIM  SWIM", "walk": "WRONG", "run": "WRONG"})
    answers = list(Hybrid(parser, fallback).answers(["walk", "swim", "run", "fly"]))
    assert told(answers) == [
        ("WALK", "grammar"),
        ("SWIM SWIM", "fallback"),
        ("RUN", "grammar"),
        (None, None),
    ]
    assert [answer.reason for answer in answers] == [
        "",
        "no derivation",
        "",
        "no derivation, and the fallback has no answer",
    ]
    said = [[(part.system, part.target) for part in answer.parts] for answer in answers]
    assert said == [
        [("grammar", "WALK")],
        [("grammar", None), ("fallback", "SWIM SWIM")],
        [("grammar", "RUN")],
        [("grammar", None), ("fallback", None)],
    ]
    assert fallback.asked == [["swim", "fly"]]


def test_the_fallback_is_asked_once_about_sentences_that_repeat(
    parser: FakeParser,
) -> None:
    fallback = FakeFallback({"swim": "SWIM"})
    answers = Hybrid(parser, fallback).answers(["swim", "walk", "swim"])
    assert told(answers) == [
        ("SWIM", "fallback"),
        ("WALK", "grammar"),
        ("SWIM", "fallback"),
    ]
    assert fallback.asked == [["swim"]]


def test_a_stream_is_answered_window_by_window(
    parser: FakeParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_module, "WINDOW", 2)
    fallback = FakeFallback({})
    answers = Hybrid(parser, fallback).answers(f"word{number}" for number in range(3))
    assert next(answers).source == "word0"
    assert fallback.asked == [["word0", "word1"]]
    assert [answer.source for answer in answers] == ["word1", "word2"]


def test_a_file_of_predictions_is_a_fallback(
    parser: FakeParser, tmp_path: Path
) -> None:
    path = tmp_path / "others.tsv"
    path.write_text("swim\tSWIM\n")
    answers = Hybrid(parser, PredictionFile.read(path)).answers(["swim", "fly"])
    assert told(answers) == [("SWIM", "fallback"), (None, None)]


def test_a_fallback_that_loses_count_is_refused(parser: FakeParser) -> None:
    class Forgetful:
        def answers(self, sentences: Iterable[str]) -> list[Answer]:
            return [Answer("swim", "ONE")]

    with pytest.raises(NqgError, match="asked about 2 sentences and gave 1 answers"):
        list(Hybrid(parser, Forgetful()).answers(["swim", "fly"]))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1)),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("XYZ")),
    st.lists(st.sampled_from("abcdef")),
    st.booleans(),
)
def test_every_answer_follows_the_rule(
    probabilities: dict[str, float],
    others: dict[str, str],
    sentences: list[str],
    asks_both: bool,
) -> None:
    hybrid = Hybrid(FakeParser(probabilities), FakeFallback(others), asks_both)
    for answer in hybrid.answers(sentences):
        expected = others.get(answer.source)
        if answer.source in probabilities:
            expected = answer.source.upper()
        assert answer.target == expected
        assert answer.first.probability == probabilities.get(answer.source)


# Both parts, to be scored


def test_a_hybrid_that_asks_both_has_what_each_said_of_every_sentence(
    parser: FakeParser,
) -> None:
    fallback = FakeFallback({"walk": "W", "run": "R", "swim": "S"})
    answers = list(
        Hybrid(parser, fallback, asks_both=True).answers(
            ["walk", "run", "swim", "fly", "walk"]
        )
    )
    assert [[part.target for part in answer.parts] for answer in answers] == [
        ["WALK", "W"],
        ["RUN", "R"],
        [None, "S"],
        [None, None],
        ["WALK", "W"],
    ]
    assert fallback.asked == [["walk", "run", "swim", "fly"]]


def test_asking_both_changes_no_answer(parser: FakeParser) -> None:
    hybrid = Hybrid(parser, FakeFallback({"run": "R", "swim": "S"}))
    sentences = ["walk", "run", "swim", "fly"]
    both = replace(hybrid, asks_both=True)
    assert told(both.answers(sentences)) == told(hybrid.answers(sentences))


# Two readers whose confidence was fitted to both

STEPS = [
    Example("walk", "WALK"),
    Example("walk twice", "WALK WALK"),
    Example("run", "RUN"),
    Example("run", "JOG"),
]
ROOT_PAIRS = tuple((-1, 0, rule, 1) for rule in range(4))
CALIBRATOR = Calibrator(
    PRIORS[True],
    RulePairs((*ROOT_PAIRS, (3, 0, 2, 1))),
    vocabulary=("run", "twice", "walk"),
    has_seq2seq=True,
)


@dataclass
class FakeReader:
    """Knows some programs of sentences by heart; any other program is very improbable."""

    programs: dict[str, dict[str, float]]
    scored: list[tuple[str, str]] = field(default_factory=list)

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        found = self.candidates(list(sentences), 1)
        return [each[0] for each in found]

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        found = []
        for sentence in sentences:
            known = self.programs.get(sentence, {})
            ranked = sorted(known.items(), key=lambda item: -item[1])[:count]
            found.append([Answer(sentence, *each) for each in ranked])
        return found

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.scored += pairs
        return [
            math.log(self.programs.get(sentence, {}).get(program, 1e-9))
            for sentence, program in pairs
        ]


@pytest.fixture(scope="module")
def steps_parser() -> Parser:
    grammar = Grammar.parse(
        "run ### JOG\nrun ### RUN\nwalk ### WALK\nNT_1 twice ### NT_1 NT_1"
    )
    training = TrainingSettings(steps=1, batch_size=2)
    trained = fit_parser(grammar, STEPS, model=TINY, training=training, device="cpu")
    return Parser(replace(trained.model, calibrator=CALIBRATOR))


def with_calibrator(parser: Parser, calibrator: Calibrator | None) -> Parser:
    return replace(parser, model=replace(parser.model, calibrator=calibrator))


def test_where_both_readers_agree_both_answer(steps_parser: Parser) -> None:
    reader = FakeReader({"walk twice": {"WALK WALK": 0.98, "WALK": 0.01}})
    (answer,) = Hybrid(steps_parser, reader).answers(["walk twice"])
    assert (answer.target, answer.system, answer.reason) == ("WALK WALK", BOTH, "")
    assert answer.confidence is not None
    assert answer.confidence > 0.9
    assert answer.reading is not None
    assert [(part.system, part.target) for part in answer.parts] == [
        (GRAMMAR, "WALK WALK"),
        (SEQ2SEQ, "WALK WALK"),
    ]
    assert reader.scored == []  # what a reader proposes it has scored already


def test_a_program_that_the_second_reader_is_certain_of_is_its_own(
    steps_parser: Parser,
) -> None:
    reader = FakeReader({"walk": {"WALK": 1.0, "RUN": 1e-6}})
    answer = Hybrid(steps_parser, reader).parse("walk")
    assert (answer.target, answer.system, answer.probability) == ("WALK", BOTH, 1.0)
    assert answer.parts[1].target == "WALK"


def test_where_they_disagree_the_answer_says_what_the_other_reads(
    steps_parser: Parser,
) -> None:
    doubtful = FakeReader({"walk": {"RUN": 0.5}})
    answer = Hybrid(steps_parser, doubtful).parse("walk")
    assert (answer.target, answer.system) == ("WALK", GRAMMAR)
    assert answer.reason == "seq2seq reads RUN"
    assert doubtful.scored == [("walk", "WALK")]
    agreed = Hybrid(steps_parser, FakeReader({"walk": {"WALK": 0.9}})).parse("walk")
    assert (answer.confidence or 0.0) < (agreed.confidence or 0.0)


def test_a_second_reader_that_is_sure_overrules_a_reading_of_unseen_pairs(
    steps_parser: Parser,
) -> None:
    weights = replace(PRIORS[True], unseen_pairs=-30.0)
    calibrator = replace(CALIBRATOR, pairs=RulePairs(()), weights=weights)
    unseen = with_calibrator(steps_parser, calibrator)
    answer = Hybrid(unseen, FakeReader({"walk": {"RUN": 0.99}})).parse("walk")
    assert (answer.target, answer.system) == ("RUN", SEQ2SEQ)
    assert answer.reason == "the grammar reads WALK"
    assert answer.reading is None


def test_of_readings_the_one_that_the_other_reader_finds_probable_is_taken(
    steps_parser: Parser,
) -> None:
    for program in ("RUN", "JOG"):
        hybrid = Hybrid(steps_parser, FakeReader({"run": {program: 0.999}}))
        answer = hybrid.parse("run")
        assert answer.target == program
        assert answer.reading is not None
        assert answer.reading.target == program
        assert answer.system == (BOTH if answer.first.target == program else SEQ2SEQ)


def test_a_program_that_only_the_second_reader_has_is_its_answer(
    steps_parser: Parser,
) -> None:
    reader = FakeReader({"swim": {"SWIM": 0.999}})
    (answer,) = Hybrid(steps_parser, reader).answers(["swim"])
    assert (answer.target, answer.system) == ("SWIM", SEQ2SEQ)
    assert answer.reason == "the grammar has no program: no derivation"
    assert answer.reading is None
    known = FakeReader({"walk": {"WALK": 0.999}})
    agreed = Hybrid(steps_parser, known).parse("walk")
    assert (answer.confidence or 0.0) < (agreed.confidence or 0.0)


def test_a_program_without_a_reading_is_never_called_the_grammars(
    steps_parser: Parser,
) -> None:
    # The second reader's best is read by the grammar through pairs that training never had.
    weights = replace(PRIORS[True], unseen_pairs=-30.0)
    calibrator = replace(CALIBRATOR, pairs=RulePairs(()), weights=weights)
    reader = FakeReader({"walk": {"WALK": 0.5, "RUN": 0.4}})
    answer = Hybrid(with_calibrator(steps_parser, calibrator), reader).parse("walk")
    assert (answer.target, answer.system) == ("RUN", SEQ2SEQ)


def test_a_second_reader_without_candidates_leaves_the_grammar_its_answer(
    steps_parser: Parser,
) -> None:
    walk, swim = Hybrid(steps_parser, FakeReader({})).answers(["walk", "swim"])
    assert walk.target == "WALK"
    assert (swim.target, swim.reason) == (None, "no derivation")
    assert [part.target for part in swim.parts] == [None, None]


def test_below_the_threshold_the_hybrid_abstains_and_says_how_sure_it_was(
    steps_parser: Parser,
) -> None:
    strict = with_calibrator(steps_parser, replace(CALIBRATOR, threshold=0.9))
    reader = FakeReader({"walk": {"WALK": 0.99}, "swim": {"SWIM": 0.3}})
    walk, swim = Hybrid(strict, reader).answers(["walk", "swim"])
    assert walk.target == "WALK"
    assert (swim.target, swim.confidence) == (None, None)
    assert swim.reason.startswith("not sure enough: ")
    all_of_them = DecodeOptions(least_confidence=0.0)
    lenient = Hybrid(strict, reader).with_options(all_of_them)
    assert [each.target for each in lenient.answers(["swim"])] == ["SWIM"]


def test_without_a_confidence_of_both_the_grammar_is_first(
    steps_parser: Parser,
) -> None:
    reader = FakeReader({"walk": {"RUN": 0.999}, "swim": {"SWIM": 0.9}})
    of_grammar = Calibrator(PRIORS[False], CALIBRATOR.pairs)
    for calibrator in (None, of_grammar):
        hybrid = Hybrid(with_calibrator(steps_parser, calibrator), reader)
        walk, swim = hybrid.answers(["walk", "swim"])
        assert (walk.target, walk.system) == ("WALK", GRAMMAR)
        assert (swim.target, swim.system) == ("SWIM", "fallback")


def test_a_system_that_proposes_no_candidates_is_asked_after_the_grammar(
    steps_parser: Parser,
) -> None:
    hybrid = Hybrid(steps_parser, FakeFallback({"swim": "SWIM", "walk": "WRONG"}))
    assert told(hybrid.answers(["walk", "swim"])) == [
        ("WALK", GRAMMAR),
        ("SWIM", "fallback"),
    ]


def test_candidates_are_the_programs_of_both_with_what_each_makes_of_them(
    steps_parser: Parser,
) -> None:
    reader = FakeReader({"run": {"RUN": 0.5, "SPRINT": 0.25}})
    ((answer, candidates),) = Hybrid(steps_parser, reader).candidates(["run"])
    found = {each.target: each.evidence for each in candidates}
    assert set(found) == {"RUN", "JOG", "SPRINT"}
    assert found["RUN"].log_probability == pytest.approx(math.log(0.5))
    assert found["JOG"].log_probability == pytest.approx(math.log(1e-9))
    shares = [found[each].probability or 0.0 for each in ("RUN", "JOG")]
    assert sum(shares) == pytest.approx(1.0)
    assert found["SPRINT"] == Evidence(None, True, log_probability=math.log(0.25))
    assert reader.scored == [("run", "JOG")]
    assert answer.target in ("RUN", "JOG")


def test_no_reader_proposes_more_than_a_few_candidates(steps_parser: Parser) -> None:
    programs = {
        f"P{number}": 0.1 / (number + 1) for number in range(2 * CANDIDATES_A_READER)
    }
    hybrid = Hybrid(steps_parser, FakeReader({"swim": programs}))
    ((_, candidates),) = hybrid.candidates(["swim"])
    assert [each.target for each in candidates] == list(programs)[:CANDIDATES_A_READER]
    assert all(not each.evidence.has_derivation for each in candidates)
    assert all(each.evidence.unknown == 1 for each in candidates)


def test_readings_that_only_the_choice_needs_are_not_shown(
    steps_parser: Parser,
) -> None:
    hybrid = Hybrid(steps_parser, FakeReader({"run": {"RUN": 0.9}}))
    assert hybrid.parse("run").readings == ()
    assert len(hybrid.parse("run", readings=2).readings) == 2


def test_a_reader_of_tokens_is_asked_for_raw_programs(steps_parser: Parser) -> None:
    text = Preprocessor()
    tokens = TokenSystem(FakeReader({"walk twice": {"WALK WALK": 0.9}}), text)
    answer = Hybrid(steps_parser, tokens).parse(" walk   twice ")
    assert (answer.target, answer.system) == ("WALK WALK", BOTH)
    assert answer.source == " walk   twice "
    assert tokens.log_probabilities([("walk  twice", "WALK WALK")]) == [math.log(0.9)]


# The folder


@pytest.fixture(scope="module")
def real_parser() -> Parser:
    grammar = Grammar.parse("walk ### WALK\nNT_1 twice ### NT_1 NT_1")
    legal = TargetGrammar.parse("<s> ::= WALK | WALK WALK")
    training = TrainingSettings(steps=1, batch_size=2)
    return fit_parser(
        grammar,
        WALKS,
        target_grammar=legal,
        model=TINY,
        training=training,
        device="cpu",
    )


@pytest.fixture(scope="module")
def real_fallback() -> Seq2seq:
    return Seq2seq.train(
        WALKS, TINY_T5, FineTuningSettings(steps=2, batch_size=2), device="cpu"
    )


def test_a_hybrid_survives_its_folder(
    real_parser: Parser, real_fallback: Seq2seq, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    sentences = ["walk twice", "stroll", "twice"]
    legal = real_parser.model.target_grammar
    assert legal is not None
    hybrid = Hybrid(real_parser, LegalSeq2seq(real_fallback, legal))
    before = [
        (answer.target, answer.system, answer.reason)
        for answer in hybrid.answers(sentences)
    ]
    hybrid.save(folder)
    again = Hybrid.load(folder, "cpu")
    assert [
        (answer.target, answer.system, answer.reason)
        for answer in again.answers(sentences)
    ] == before
    assert before[0] == ("WALK WALK", "grammar", "")
    assert all(
        target is None or legal.accepts(target.split()) for target, _, _ in before
    )
    assert Parser.load(folder, "cpu").parse("walk").target == "WALK"


def test_the_fallback_may_be_left_free_of_the_grammar(
    real_parser: Parser, real_fallback: Seq2seq, tmp_path: Path
) -> None:
    Hybrid(real_parser, real_fallback).save(tmp_path / "model")
    for is_free, kind in ((True, Seq2seq), (False, LegalSeq2seq)):
        fallback = Hybrid.load(tmp_path / "model", "cpu", is_free=is_free).fallback
        assert isinstance(fallback, TokenSystem)
        assert isinstance(fallback.system, kind)


def test_a_folder_without_a_fallback_is_refused_as_a_hybrid(
    real_parser: Parser, tmp_path: Path
) -> None:
    real_parser.save(tmp_path / "model")
    assert not has_fallback(tmp_path / "model")
    with pytest.raises(
        NqgError,
        match="holds a parser without a fallback; train one into it with: nqg train … --seq2seq",
    ):
        Hybrid.load(tmp_path / "model", "cpu")


def test_only_a_seq2seq_can_be_saved_as_fallback(
    real_parser: Parser, parser: FakeParser, tmp_path: Path
) -> None:
    with pytest.raises(
        NqgError,
        match="holds a Seq2seq as fallback, found FakeFallback; save the parser alone",
    ):
        Hybrid(real_parser, FakeFallback({})).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(NqgError, match="holds a Parser, found FakeParser"):
        Hybrid(parser, FakeFallback({})).save(tmp_path / "model")


class Echo:
    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [Answer(sentence, sentence) for sentence in sentences]


@pytest.mark.parametrize("name", ["parser", "hybrid", "tokens"])
def test_a_sentence_instead_of_a_list_is_refused_before_anything_is_answered(
    name: str, real_parser: Parser
) -> None:
    systems: dict[str, System] = {
        "parser": real_parser,
        "hybrid": Hybrid(real_parser, Echo()),
        "tokens": TokenSystem(Echo(), Preprocessor()),
    }
    with pytest.raises(
        NqgError, match=r"found the string 'walk twice'; use parse\(sentence\) for one"
    ):
        systems[name].answers("walk twice")


def test_a_parser_and_a_hybrid_parse_alike(real_parser: Parser) -> None:
    hybrid = Hybrid(real_parser, FakeFallback({}))
    for sentence in ("walk", "walk twice", "swim"):
        alone, first = (
            real_parser.parse(sentence, readings=2),
            hybrid.parse(sentence, readings=2),
        )
        assert bool(alone) == bool(first) == (sentence != "swim")
        assert (alone.target, alone.reading, alone.readings) == (
            first.target,
            first.reading,
            first.first.readings,
        )
    assert real_parser.parse("swim").reason == "no derivation: no rule knows 'swim'"
    assert (
        hybrid.parse("swim").reason
        == "no derivation, and the fallback has no answer: no rule knows 'swim'"
    )


def test_a_model_folder_is_loaded_as_what_it_holds(
    real_parser: Parser, tmp_path: Path
) -> None:
    real_parser.save(tmp_path / "parser")
    assert (
        nqg.load(tmp_path / "parser", "cpu").parse("walk twice").target
        == real_parser.parse("walk twice").target
    )
    assert isinstance(nqg.load(tmp_path / "parser", "cpu"), Parser)
