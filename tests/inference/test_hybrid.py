"""The hybrid: who answers, why, and that the fallback is asked about nothing else; its folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nqg
from nqg.answers import Answer, Reading, System
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.evaluation.prediction_file import PredictionFile
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.inference import parser as parser_module
from nqg.inference.hybrid import NEVER, Gate, Hybrid, TokenSystem, has_fallback
from nqg.inference.parser import Parser
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


def test_without_a_gate_the_grammar_is_first_and_the_fallback_answers_the_rest(
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


def test_a_gate_hands_over_where_the_grammar_is_not_sure(parser: FakeParser) -> None:
    fallback = FakeFallback({"run": "RUN RUN"})
    answer = Hybrid(parser, fallback, Gate(0.5)).parse("run")
    assert (answer.target, answer.system) == ("RUN RUN", "fallback")
    held_back, said = answer.parts
    assert (held_back.target, held_back.reading and held_back.reading.target) == (
        None,
        "RUN",
    )
    assert (held_back.reason, said.target) == (answer.reason, "RUN RUN")
    assert answer.reason == "probability 0.4 is below 0.5"


def test_where_the_fallback_has_nothing_to_say_the_grammars_doubtful_answer_stands(
    parser: FakeParser,
) -> None:
    answer = Hybrid(parser, FakeFallback({"run": " "}), Gate(0.5)).parse("run")
    assert (answer.target, answer.system) == ("RUN", "grammar")
    assert (
        answer.reason == "probability 0.4 is below 0.5, and the fallback has no answer"
    )


def test_a_gate_may_distrust_answers_that_are_the_only_reading(
    parser: FakeParser,
) -> None:
    answers = Hybrid(
        parser, FakeFallback({"walk": "STROLL"}), Gate(0.2, trusts_only_readings=False)
    )
    assert told(answers.answers(["walk", "run"])) == [
        ("STROLL", "fallback"),
        ("RUN", "grammar"),
    ]
    assert (
        answers.parse("walk").reason
        == "the only reading, which the gate does not trust"
    )


@pytest.mark.parametrize(
    ("gate", "asked"),
    [(Gate(), []), (Gate(NEVER), [["walk", "run"]])],
    ids=["always", "never"],
)
def test_the_extremes_of_the_gate(
    gate: Gate, asked: list[list[str]], parser: FakeParser
) -> None:
    fallback = FakeFallback({})
    list(Hybrid(parser, fallback, gate).answers(["walk", "run"]))
    assert fallback.asked == asked


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
    st.floats(0, 2),
)
def test_every_answer_follows_the_rule(
    probabilities: dict[str, float],
    said: dict[str, str],
    sentences: list[str],
    threshold: float,
) -> None:
    gate = Gate(threshold)
    for answer in Hybrid(FakeParser(probabilities), FakeFallback(said), gate).answers(
        sentences
    ):
        probability = probabilities.get(answer.source)
        is_sure = probability is not None and gate.accepts(probability)
        by_grammar = answer.source.upper() if probability is not None else None
        expected = by_grammar if is_sure else said.get(answer.source, by_grammar)
        assert answer.target == expected
        assert answer.first.probability == probability


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


def test_an_answer_that_the_gate_holds_back_is_an_abstention_of_the_grammar(
    parser: FakeParser,
) -> None:
    fallback = FakeFallback({"walk": "W", "run": "R"})
    answers = Hybrid(parser, fallback, Gate(0.5), asks_both=True).answers(
        ["walk", "run"]
    )
    own = [answer.first for answer in answers]
    assert [(each.target, each.probability, each.reason) for each in own] == [
        ("WALK", 1.0, ""),
        (None, 0.4, "probability 0.4 is below 0.5"),
    ]


def test_it_stands_where_the_fallback_has_no_answer(parser: FakeParser) -> None:
    answer = Hybrid(parser, FakeFallback({}), Gate(0.5), asks_both=True).parse("run")
    assert (answer.target, answer.first.target, answer.first.reason) == (
        "RUN",
        "RUN",
        "",
    )


def test_asking_both_changes_no_answer(parser: FakeParser) -> None:
    hybrid = Hybrid(parser, FakeFallback({"run": "R", "swim": "S"}), Gate(0.5))
    sentences = ["walk", "run", "swim", "fly"]
    both = replace(hybrid, asks_both=True)
    assert told(both.answers(sentences)) == told(hybrid.answers(sentences))


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
    hybrid = Hybrid(real_parser, LegalSeq2seq(real_fallback, legal), Gate(0.25))
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
    assert again.gate == Gate(0.25)
    assert Parser.load(folder, "cpu").parse("walk").target == "WALK"


def test_the_fallback_may_be_left_free_of_the_grammar(
    real_parser: Parser, real_fallback: Seq2seq, tmp_path: Path
) -> None:
    Hybrid(real_parser, real_fallback).save(tmp_path / "model")
    assert isinstance(
        Hybrid.load(tmp_path / "model", "cpu", is_free=True).fallback, Seq2seq
    )
    assert isinstance(Hybrid.load(tmp_path / "model", "cpu").fallback, LegalSeq2seq)
    assert Hybrid.load(tmp_path / "model", "cpu").gate is None


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


def test_a_changed_gate_is_noticed(
    real_parser: Parser, real_fallback: Seq2seq, tmp_path: Path
) -> None:
    Hybrid(real_parser, real_fallback, Gate(0.5)).save(tmp_path / "model")
    Gate(0.0).write(tmp_path / "model" / "gate.json")
    with pytest.raises(NqgError, match=r"gate\.json is damaged"):
        Hybrid.load(tmp_path / "model", "cpu")


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
