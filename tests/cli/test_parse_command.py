"""`nqg parse`, as a user types it: a sentence, a file, or standard input."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from typer.testing import Result

from nqg import Example, Grammar, Parser
from nqg.cli.parse import Sentence, from_stdin, prompted
from nqg.errors import FormatError, NqgError
from nqg.inference import parser as parser_module
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.types.target_grammar import TargetGrammar
from typed_commands import one_thread, typed

GRAMMAR = Grammar.parse(
    "walk ### W\njump ### J\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2\nNT_1 and NT_2 ### NT_2 NT_1"
)
EXAMPLES = [
    Example("walk twice", "W W"),
    Example("walk and jump", "W J"),
    Example("jump and walk", "J W"),
]
LEGAL = TargetGrammar.parse("<actions> ::= J W | W | W W | J J | W W W W")
NQG = [sys.executable, "-c", "from nqg.cli.main import main; main()"]
MODEL = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16)
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untyped model that reads `and` from left to right, although J W alone is legal."""
    return trained(
        tmp_path_factory.mktemp("models") / "mine", replace(MODEL, typed=False)
    )


def trained(folder: Path, model: ModelSettings) -> str:
    training = TrainingSettings(steps=60, batch_size=3, warm_up=5, learning_rate=0.02)
    fit_parser(
        GRAMMAR,
        EXAMPLES,
        target_grammar=LEGAL,
        model=model,
        training=training,
        device="cpu",
    ).save(folder)
    return str(folder)


def nqg(*words: str, stdin: bytes | None = None) -> Result:
    return typed("parse", *words, stdin=stdin)


def test_a_sentence_gives_its_program(model: str) -> None:
    result = nqg(model, "walk twice")
    assert (result.stdout, result.stderr, result.exit_code) == ("W W\n", "", 0)


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("hop twice", "no derivation: no rule knows 'hop'"),
        ("", "no derivation: the sentence is empty"),
        (
            "walk walk",
            "no derivation: 'walk' and 'walk' are known, but not how to join them",
        ),
        ("walk and jump", "no valid program"),
        ("walk" + " twice" * 20, "too long"),
    ],
)
def test_an_abstention_says_why_and_is_no_failure(
    model: str, sentence: str, reason: str
) -> None:
    result = nqg(model, sentence)
    first, *others = result.stdout.splitlines()
    assert (first, result.exit_code) == (f"abstained: {reason}", 0)
    # The nearest training sentence follows where it says something.
    is_told = bool(sentence) and reason != "too long"
    assert len(others) == is_told
    assert all(line.startswith("nearest in training: '") for line in others)


def test_a_typed_model_has_no_illegal_readings(tmp_path: Path) -> None:
    typed = trained(tmp_path / "typed", MODEL)
    assert nqg(typed, "walk and jump", "--readings", "2").stdout == "J W\n1\tJ W\n"


def test_a_sentence_without_quotes_is_understood(model: str) -> None:
    assert (
        nqg(model, "walk", "and", "jump").stdout == nqg(model, "walk and jump").stdout
    )


def test_a_file_is_not_part_of_a_sentence(model: str, tmp_path: Path) -> None:
    path = tmp_path / "sentences.txt"
    path.write_text("walk\n")
    result = nqg(model, str(path), "jump")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "expected one sentence or file, found 2" in said


def test_an_explanation_draws_the_derivation_with_scores_and_marginals(
    model: str,
) -> None:
    lines = nqg(model, "walk twice twice", "--explain").stdout.splitlines()
    best = Parser.load(model, "cpu").parse("walk twice twice").reading
    assert best is not None
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        f"╰──────────────╯ {best.scores[0]:.2f} 1.00 NT_1 twice → NT_1 NT_1 ⇒ W W W W",
        f"╰────────╯ {best.scores[1]:.2f} 1.00 NT_1 twice → NT_1 NT_1 ⇒ W W",
        f"╰──╯ {best.scores[2]:.2f} 1.00 walk → W",
    ]
    assert lines[0] == "walk twice twice    score     p  rule"
    assert lines[4:] == ["", "W W W W", "probability within the grammar 1", ""]
    assert (
        nqg(model, "hop", "--explain").stdout
        == "abstained: no derivation: no rule knows 'hop'\n\n"
    )


def test_readings_come_with_their_probabilities_best_first(model: str) -> None:
    lines = nqg(model, "walk and jump", "--readings", "2").stdout.splitlines()
    parse = Parser.load(model, "cpu").parse("walk and jump", readings=2)
    assert lines[0] == "abstained: no valid program"
    assert lines[1] == "nearest in training: 'jump and walk' is J W"
    assert lines[2:] == [
        f"{parse.readings[0].probability:.6g}\tW J\tillegal",
        f"{parse.readings[1].probability:.6g}\tJ W",
    ]
    assert sum(reading.probability for reading in parse.readings) == pytest.approx(1.0)


def test_a_file_gives_a_row_for_every_line(model: str) -> None:
    Path("sentences.txt").write_text("walk twice\r\n\nhop\njump and  walk\n")
    rows = [
        line.split("\t") for line in nqg(model, "sentences.txt").stdout.splitlines()
    ]
    chance = Parser.load(model, "cpu").parse("jump and walk").probability
    assert rows == [
        ["walk twice", "W W", "1"],
        ["", "", "abstained: no derivation: the sentence is empty"],
        ["hop", "", "abstained: no derivation: no rule knows 'hop'"],
        ["jump and walk", "J W", f"{chance:.6g}"],
    ]


def test_standard_input_is_read_like_a_file(model: str) -> None:
    text = b"walk twice\njump twice\nhop"
    Path("sentences.txt").write_bytes(text)
    assert nqg(model, "-", stdin=text).stdout == nqg(model, "sentences.txt").stdout
    assert nqg(model, "-", stdin=b"").stdout == ""
    with pytest.raises(
        FormatError, match="<stdin>:2: byte 1 is 0xff, which is not valid UTF-8"
    ):
        nqg(model, "-", stdin=b"walk\n\xff\n")


def test_standard_input_is_answered_as_it_comes(model: str) -> None:
    command = [*NQG, "parse", model, "-"]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as process:
        assert process.stdin
        assert process.stdout
        for sentence, program in (("walk twice", "W W"), ("walk", "W")):
            process.stdin.write(f"{sentence}\n")
            assert process.stdout.readline().split("\t")[:2] == [sentence, program]
        process.stdin.close()
        assert process.stdout.read() == ""


def test_without_a_sentence_there_is_a_prompt_with_a_history(model: str) -> None:
    main, terminal = pty.openpty()
    command = [*NQG, "parse", model]
    shown = b""

    def wait_for(text: bytes) -> None:
        nonlocal shown
        while text not in shown:
            shown += os.read(main, 1024)
        shown = shown.partition(text)[2]

    with Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        for typed, answer in (
            (b"walk twice", b"W W"),
            (b"hop", b"abstained: no derivation: no rule knows 'hop'"),
        ):
            wait_for(b"> ")
            os.write(main, typed + b"\n")
            wait_for(answer)
        wait_for(b"> ")
        os.write(main, b"\x1b[A\x1b[A\n")  # arrow up, twice
        wait_for(b"W W")
        wait_for(b"> ")
        os.write(main, b"\x04")
        assert process.wait(60) == 0
    os.close(main)


def test_a_prompt_without_a_history_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readline", None)  # as on Windows
    monkeypatch.setattr("builtins.input", lambda _: "walk twice")
    assert next(prompted()) == [Sentence("walk twice")]


def test_a_sentence_may_be_longer_than_names_of_files_can_be(model: str) -> None:
    assert "abstained: too long" in nqg(model, "walk" + " twice" * 80).stdout


def test_an_error_in_a_stream_comes_after_what_came_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"walk\njump\n\xff\nhop"))
    )
    chunks = from_stdin()
    assert next(chunks) == [Sentence("walk"), Sentence("jump")]
    with pytest.raises(FormatError, match="<stdin>:3"):
        next(chunks)


def test_how_many_lines_are_read_together_does_not_show(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"walk\njump twice\nhop\nwalk twice\njump\n"
    whole = nqg(model, "-", stdin=text).stdout
    monkeypatch.setattr(parser_module, "WINDOW", 2)
    assert nqg(model, "-", stdin=text).stdout == whole
    assert whole.count("\n") == 5


def test_json_is_one_object_a_line(model: str) -> None:
    result = nqg(
        model,
        "-",
        "--json",
        "--readings",
        "1",
        "--explain",
        stdin="walk twice\nhöp\n".encode(),
    )
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    assert first["target"] == "W W"
    assert first["probability"] == pytest.approx(1.0)
    assert first["derivation"] == "[0:2] NT_1 twice ### NT_1 NT_1\n  [0:1] walk ### W"
    best = Parser.load(model, "cpu").parse("walk twice").reading
    assert best is not None
    assert first["applications"] == [
        {
            "span": [0, 2],
            "depth": 0,
            "rule": "NT_1 twice ### NT_1 NT_1",
            "score": pytest.approx(best.scores[0], abs=1e-5),
            "marginal": pytest.approx(1.0),
            "yields": "W W",
        },
        {
            "span": [0, 1],
            "depth": 1,
            "rule": "walk ### W",
            "score": pytest.approx(best.scores[1], abs=1e-5),
            "marginal": pytest.approx(1.0),
            "yields": "W",
        },
    ]
    assert [reading["target"] for reading in first["readings"]] == ["W W"]
    assert second == {
        "source": "höp",
        "target": None,
        "confidence": None,
        "probability": None,
        "reason": "no derivation: no rule knows 'höp'",
        "kind": "no rule",
        "missing": ["höp"],
        "readings": [],
    }
    assert "höp" in result.stdout
    assert set(json.loads(nqg(model, "walk", "--json").stdout)) == {
        "source",
        "target",
        "confidence",
        "probability",
    }


def test_a_file_that_is_not_there_is_not_taken_for_a_sentence(model: str) -> None:
    with pytest.raises(
        NqgError,
        match=r"sentnces\.txt: no such file; to parse it as a sentence, pipe it in",
    ):
        nqg(model, "sentnces.txt")


def test_a_folder_that_is_absent_is_said_to_be() -> None:
    with pytest.raises(
        NqgError,
        match=r"none: no such folder; `nqg train TRAIN -o \S+none` would make a model there",
    ):
        nqg("none", "walk")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Missing argument"),
        (("mine", "walk", "--readings", "-1"), "is not in the range x>=0"),
        (("mine", "walk", "--device", "tpu"), "'tpu' is neither 'cpu' nor 'cuda'"),
    ],
)
def test_misuse_has_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in result.stderr
