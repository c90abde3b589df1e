"""Sentences, grammars and training sets at the edge of what there can be: an answer, an abstention or a clear error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from faults.kills import run
from nqg.answers import LONG_TARGET, NO_DERIVATION, TOO_LONG
from nqg.cli.main import app
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.errors import NqgError
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.semirings import log_derivation_counts
from nqg.induction.induce import induce
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser

TINY = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
BRIEF = TrainingSettings(steps=2, batch_size=4)
AMBIGUOUS = Grammar.parse("a ### A\nNT_1 NT_2 ### NT_1 NT_2")
SCRIPTS = {
    "Arabic": "كم ولاية تحد تكساس",
    "Chinese": "多少 个 州",
    "Devanagari": "कितने राज्य",
    "emoji": "🏳️‍🌈 👩‍👩‍👧‍👦 🇺🇸",
    "combining marks": "e\u0301 Z\u0351\u036b\u0343 \u0301",
    "right-to-left marks": "\u202eabc\u202c \u200fx \u2067y\u2069",
    "zero width": "a\u200bb \u200d \ufe0f",
    "an astral letter": "𝔘𝔫𝔦 𒀭",
    "looks like a rule": "NT_1 ### # \\NT_2",
}


@pytest.fixture(autouse=True)
def _one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path / "cache"))


def trained(grammar: Grammar, *examples: Example) -> Parser:
    return fit_parser(grammar, examples, model=TINY, training=BRIEF, device="cpu")


@pytest.fixture(scope="module")
def ambiguous() -> Parser:
    return trained(AMBIGUOUS, Example("a", "A"), Example("a a", "A A"))


def test_a_sentence_of_a_hundred_words_with_astronomically_many_derivations_is_parsed(
    ambiguous: Parser,
) -> None:
    source = ("a",) * 100
    assert (
        log_derivation_counts(charts(AMBIGUOUS, [source]))[0] > 129
    )  # the 99th Catalan number
    parse = ambiguous.parse(" ".join(source), readings=2)
    assert parse.target == " ".join("A" * 100)
    assert parse.probability == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("", NO_DERIVATION),
        ("\u3000\u2028", NO_DERIVATION),
        ("b", NO_DERIVATION),
        ("a" * 100_000, NO_DERIVATION),
        (" ".join("a" * 5000), TOO_LONG),
        ("NT_1", NO_DERIVATION),
        ("[PAD] [MASK] [CLS]", NO_DERIVATION),
    ],
    ids=[
        "empty",
        "blank",
        "unknown",
        "one long word",
        "5,000 words",
        "a non-terminal",
        "pieces of the encoder",
    ],
)
def test_what_cannot_be_read_is_an_abstention(
    ambiguous: Parser, sentence: str, reason: str
) -> None:
    parse = ambiguous.parse(sentence)
    assert (parse.target, parse.reason.partition(":")[0]) == (None, reason)


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose targets double with every word."""
    grammar = Grammar.parse("walk ### W\nNT_1 twice ### NT_1 NT_1")
    folder = tmp_path_factory.mktemp("models") / "copying"
    trained(grammar, Example("walk twice", "W W")).save(folder)
    return folder


@pytest.mark.parametrize(
    "twice", [20, 90], ids=["a million tokens", "more than there are atoms"]
)
def test_a_target_too_long_to_write_is_an_abstention_and_the_rest_of_the_file_is_answered(
    copying: Path, tmp_path: Path, twice: int
) -> None:
    sentences = ["walk", "walk" + " twice" * twice, "walk twice"]
    (tmp_path / "in.txt").write_text("".join(f"{sentence}\n" for sentence in sentences))
    said = CliRunner().invoke(
        app, ["parse", str(copying), str(tmp_path / "in.txt"), "--device", "cpu"]
    )
    assert said.exit_code == 0, said.output
    assert [line.split("\t")[1:] for line in said.stdout.splitlines()] == [
        ["W", "1"],
        ["", f"abstained: {LONG_TARGET}"],
        ["W W", "1"],
    ]


def test_a_target_too_long_to_write_is_a_miss_with_a_cause_when_a_model_is_evaluated(
    copying: Path, tmp_path: Path
) -> None:
    write_examples(
        tmp_path / "test.tsv",
        [Example("walk", "W"), Example("walk" + " twice" * 90, "W")],
    )
    words = [
        "evaluate",
        str(copying),
        str(tmp_path / "test.tsv"),
        "--breakdown",
        "--json",
        "--device",
        "cpu",
    ]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert [
        (each["cause"], each["errors"])
        for each in json.loads(said.stdout)["causes"]
        if each["errors"]
    ] == [("long_target", 1)]


def test_readings_of_more_tokens_than_allowed_are_left_out() -> None:
    grammar = Grammar.parse(
        "walk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 twice ### NT_1 !"
    )
    parser = trained(grammar, Example("walk twice", "W W"))
    lengths = {
        len(each.target.split())
        for each in parser.parse("walk" + " twice" * 3, readings=10).readings
    }
    for most in range(1, 9):
        options = DecodeOptions(readings=10, most_tokens=most)
        (answer,) = parser.with_options(options).answers(["walk" + " twice" * 3])
        found = {len(each.target.split()) for each in answer.readings}
        assert found == {length for length in lengths if length <= most}
        assert answer.reason == ("" if answer.target else LONG_TARGET)
        assert answer.target is None or len(answer.target.split()) <= most


def test_a_single_word_is_parsed(ambiguous: Parser) -> None:
    assert ambiguous.parse("a").target == "A"


def test_long_and_empty_sentences_do_not_spoil_those_beside_them(
    ambiguous: Parser,
) -> None:
    sentences = ["a", "", " ".join("a" * 5000), "a a", "b"]
    assert [parse.target for parse in ambiguous.answers(sentences)] == [
        "A",
        None,
        None,
        "A A",
        None,
    ]


def test_a_training_example_that_is_too_long_for_the_encoder_is_refused_by_its_length() -> (
    None
):
    grammar = Grammar.parse("a ### A\na NT_1 ### A NT_1")
    with pytest.raises(NqgError, match="subwords"):
        trained(grammar, Example(" ".join("a" * 600), " ".join("A" * 600)))


def test_one_example_is_enough_to_induce_train_and_parse() -> None:
    example = Example("jump twice", "J J")
    grammar = induce([example])
    assert trained(grammar, example).parse("jump twice").target == "J J"


def test_no_example_is_a_clear_error() -> None:
    with pytest.raises(NqgError, match="example"):
        induce([])
    with pytest.raises(
        NqgError,
        match="derives none of the training pairs: there is nothing to learn from",
    ):
        trained(AMBIGUOUS)


def test_a_grammar_that_derives_no_example_is_a_clear_error() -> None:
    with pytest.raises(NqgError, match="deriv"):
        trained(AMBIGUOUS, Example("jump", "J"))


def test_ten_thousand_rules_are_read_trained_and_parsed_with(tmp_path: Path) -> None:
    path = tmp_path / "grammar.txt"
    path.write_text(
        "".join(f"w{n} ### V{n}\n" for n in range(10_000))
        + "NT_1 and NT_2 ### NT_1 NT_2\n"
    )
    parser = trained(Grammar.read(path), Example("w1 and w2", "V1 V2"))
    assert parser.parse("w7 and w9999").target == "V7 V9999"


@pytest.mark.parametrize("sentence", SCRIPTS.values(), ids=SCRIPTS)
def test_every_script_survives_files_induction_training_folders_and_the_command_line(
    sentence: str, tmp_path: Path
) -> None:
    example = Example(sentence, sentence[::-1])
    write_examples(tmp_path / "train.tsv", [example])
    (read,) = read_examples(tmp_path / "train.tsv")
    assert read == example
    trained(induce([read]), read).save(tmp_path / "model")
    said = CliRunner().invoke(
        app, ["parse", str(tmp_path / "model"), sentence, "--device", "cpu"]
    )
    assert said.exit_code == 0, said.output
    assert said.stdout.rstrip("\n") == " ".join(example.target_tokens)


def test_a_word_that_is_no_text_is_an_abstention_on_the_command_line(
    ambiguous: Parser, tmp_path: Path
) -> None:
    ambiguous.save(tmp_path / "model")
    latin_1 = b"caf\xe9".decode(
        errors="surrogateescape"
    )  # as an argument of the wrong encoding reaches Python
    ended = run(("parse", "model", latin_1, "--device", "cpu", "--json"), tmp_path)
    assert ended.code == 0, ended.said
    assert json.loads(ended.said)["target"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_check_of_a_million_equal_pairs_takes_little_memory(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("turn left\tturn ( left )\n" * 1_000_000)
    code = (
        "from pathlib import Path\n"
        "from nqg.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    status = Path('/proc/self/status').read_text().split('VmHWM:')[1]\n"
        "    print(status.split()[0])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "check-data", str(train)],
        capture_output=True,
        text=True,
    )
    *lines, kilobytes = ended.stdout.splitlines()
    assert "1,000,000 examples, 999,999 with a fault" in lines
    # It was 585 MB.
    assert int(kilobytes) < 200_000
