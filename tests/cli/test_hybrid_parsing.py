"""`nqg parse` and `nqg evaluate` with two readers: every form of output says who answered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg import Example, Grammar
from nqg.cli.main import app
from nqg.data.example_files import write_examples
from nqg.evaluation.calibration import knowledge
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings, SmallT5Settings
from nqg.types.target_grammar import TargetGrammar

EXAMPLES = [Example("walk", "WALK"), Example("walk twice", "WALK WALK")]
GRAMMAR = Grammar.parse(
    "walk ### WALK\nNT_1 twice ### NT_1 NT_1\nrun ### WALK\nrun ### WALK WALK"
)
LEGAL = TargetGrammar.parse(
    "<s> ::= WALK WALK WALK | WALK WALK | WALK"
)  # the fallback can say nothing else


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "hybrid"
    small = ModelSettings(
        dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2)
    )
    training = TrainingSettings(steps=1, batch_size=2)
    parser = fit_parser(
        GRAMMAR,
        EXAMPLES,
        target_grammar=LEGAL,
        model=small,
        training=training,
        device="cpu",
    )
    t5 = Seq2seqSettings(
        longest_target=8, embedded=SmallT5Settings(width=8, layers=1, heads=2)
    )
    fallback = Seq2seq.train(
        EXAMPLES, t5, FineTuningSettings(steps=1, batch_size=2), device="cpu"
    )
    Hybrid(parser, fallback).save(folder)
    return str(folder)


def parsed(*words: str) -> str:
    result = CliRunner().invoke(app, ["parse", *words, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_sentence_gives_its_program_and_who_says_so(model: str) -> None:
    assert parsed(model, "walk twice") == "WALK WALK\nby the grammar\n"
    program, who = parsed(model, "stroll").splitlines()
    assert LEGAL.accepts(program.split())
    assert who.startswith("by the fallback: no derivation: no rule knows '")


def test_a_file_gives_a_fourth_column(model: str, tmp_path: Path) -> None:
    (tmp_path / "sentences.txt").write_text("walk\nstroll\n")
    rows = [
        line.split("\t")
        for line in parsed(model, str(tmp_path / "sentences.txt")).splitlines()
    ]
    assert rows[0] == ["walk", "WALK", "1", "grammar"]
    assert [rows[1][0], *rows[1][2:]] == [
        "stroll",
        "no derivation: no rule knows 'stroll'",
        "fallback",
    ]


def test_json_says_by_whom_and_why(model: str) -> None:
    assert json.loads(parsed(model, "walk", "--json")) == {
        "source": "walk",
        "target": "WALK",
        "confidence": None,
        "probability": 1.0,
        "by": "grammar",
    }
    facts = json.loads(parsed(model, "stroll", "--json", "--explain"))
    assert (facts["by"], facts["reason"], facts["probability"]) == (
        "fallback",
        "no derivation: no rule knows 'stroll'",
        None,
    )
    assert "derivation" not in facts


def test_only_the_grammars_answers_are_explained_by_a_derivation(model: str) -> None:
    assert "NT_1 twice" in parsed(model, "walk twice", "--explain")
    assert "NT_1 twice" not in parsed(model, "stroll twice", "--explain")


@pytest.fixture(scope="module")
def two_readers(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same readers with a confidence that was fitted to both, and answers everything."""
    folder = tmp_path_factory.mktemp("models") / "two_readers"
    hybrid = Hybrid.load(model, "cpu")
    assert isinstance(hybrid.parser, Parser)
    calibrator = knowledge(hybrid.parser, EXAMPLES, has_seq2seq=True)
    parser = Parser(replace(hybrid.parser.model, calibrator=calibrator))
    replace(hybrid, parser=parser).save(folder)
    return str(folder)


def test_two_readers_say_what_each_of_them_reads(two_readers: str) -> None:
    program, who, confidence = parsed(two_readers, "stroll").splitlines()
    assert LEGAL.accepts(program.split())
    reason = "the grammar has no program: no derivation: no rule knows 'stroll'"
    assert who == f"by the seq2seq: {reason}"
    assert confidence.startswith("confidence ")


def test_where_the_readers_agree_both_answer(two_readers: str) -> None:
    hybrid = Hybrid.load(two_readers, "cpu")
    (answer,) = hybrid.answers(["walk twice"])
    agree = answer.parts[0].target == answer.parts[1].target
    who = parsed(two_readers, "walk twice").splitlines()[1]
    assert (who == "by both readers") == agree
    facts = json.loads(parsed(two_readers, "walk twice", "--json"))
    assert facts["confidence"] == pytest.approx(answer.confidence)
    assert facts["by"] == answer.system


def systems(model: str, folder: Path, *words: str) -> list[str]:
    """The rows of `nqg evaluate`."""
    write_examples(folder / "test.tsv", EXAMPLES)
    test = str(folder / "test.tsv")
    command = ["evaluate", model, test, *words, "--device", "cpu", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout)["systems"])


def test_evaluation_names_how_two_systems_are_joined(
    model: str, two_readers: str, tmp_path: Path
) -> None:
    first = ["grammar", "fallback", "grammar, else fallback"]
    assert systems(model, tmp_path) == first
    both = ["grammar", "seq2seq", "both readers"]
    assert systems(two_readers, tmp_path) == both


def test_predictions_of_others_are_a_fallback_also_of_a_model_with_two_readers(
    two_readers: str, tmp_path: Path
) -> None:
    write_examples(tmp_path / "others.tsv", EXAMPLES)
    others = ("--fallback", str(tmp_path / "others.tsv"))
    names = ["grammar", "others.tsv", "grammar, else others.tsv"]
    assert systems(two_readers, tmp_path, *others) == names
