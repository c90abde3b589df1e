"""`nqg types`, and the target grammars of `nqg train`, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError
from nqg.evaluation.legality import legal_examples
from nqg.types.target_grammar import TargetGrammar
from typed_commands import typed

TRAIN = [
    Example("turn on the lamp in the hall", "on ( hall , lamp )"),
    Example("turn off the fan in the hall", "off ( hall , fan )"),
    Example("turn on the fan in the attic", "on ( attic , fan )"),
    Example("turn off the lamp in the attic", "off ( attic , lamp )"),
]
GRAMMAR = """\
<program> ::= <program_head> ( <on_argument_1> , <on_argument_2> )
<on_argument_1> ::= hall | attic
<on_argument_2> ::= lamp | fan
<program_head> ::= on | off
"""
REASON = "legal up to token 2 '(', expected 'hall', found 'attic'"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_examples("train.tsv", TRAIN)
    Path("hall.grammar").write_text(
        "<program> ::= <switch> ( hall , <.> )\n<switch> ::= on | off\n"
    )


def test_the_grammar_is_printed_and_the_types_are_shown_beside_it() -> None:
    result = typed("types", "train.tsv")
    assert (
        result.stdout
        == f"# Types of the programs in train.tsv, inferred by nqg. Edit them as you like.\n{GRAMMAR}"
    )
    assert "<on_argument_1>" in result.stderr
    assert "on ( … , _ )" in result.stderr


def test_the_grammar_is_written_and_can_be_read_and_checked() -> None:
    result = typed("types", "train.tsv", "-o", "mine.grammar")
    assert "hall  attic" in result.stdout
    assert result.stderr == "wrote mine.grammar\n"
    assert str(TargetGrammar.read("mine.grammar")) == GRAMMAR
    checked = typed("types", "train.tsv", "--check", "mine.grammar")
    assert (checked.exit_code, checked.stdout) == (0, "4 of 4 programs are legal\n")


def test_json_has_the_types_the_coarseness_and_the_grammar() -> None:
    facts = json.loads(typed("types", "train.tsv", "--json").stdout)
    assert facts["coarseness"] == "half"
    assert set(facts["held_out_accepted"]) == {"half", "one-head", "all"}
    assert str(TargetGrammar.parse(facts["grammar"])) == GRAMMAR
    assert facts["types"][1] == {
        "type": "on_argument_1",
        "occurrences": 4,
        "positions": ["on ( … , _ )", "off ( … , _ )"],
        "examples": ["hall", "attic"],
    }


def test_the_first_rejected_program_is_named_with_its_place() -> None:
    result = typed("types", "train.tsv", "--check", "hall.grammar")
    assert result.exit_code == 1
    assert result.stdout == (
        f"2 of 4 programs are legal\ntrain.tsv:3: the target grammar rejects 'on ( attic , fan )': {REASON}\n"
    )
    facts = json.loads(
        typed("types", "train.tsv", "--check", "hall.grammar", "--json").stdout
    )
    first = {
        "line": 3,
        "program": "on ( attic , fan )",
        "legal_tokens": 2,
        "reason": REASON,
    }
    assert facts == {"programs": 4, "rejected": 2, "first": first}


def test_funql_has_a_name() -> None:
    write_examples(
        "geo.tsv",
        [
            Example("states", "answer ( state )"),
            Example("m0 size", "answer ( size ( m0 ) )"),
        ],
    )
    assert (
        typed("types", "geo.tsv", "--check", "funql").stdout
        == "2 of 2 programs are legal\n"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["--check", "hall.grammar", "-o", "x"],
            "a grammar that is checked is not inferred",
        ),
        (["--data", "train.tsv"], "needs a grammar to --check"),
    ],
)
def test_misuse_is_refused(words: list[str], reason: str) -> None:
    result = typed("types", "train.tsv", *words)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_bad_grammar_is_refused_with_its_place() -> None:
    Path("bad.grammar").write_text("<program> ::= <switch>\n")
    with pytest.raises(FormatError, match=r"bad\.grammar:1: no non-terminal 'switch'"):
        typed("types", "train.tsv", "--check", "bad.grammar")


# Training


def test_training_with_a_grammar_that_rejects_programs_is_refused() -> None:
    with pytest.raises(NqgError) as refusal:
        typed("train", "train.tsv", "-o", "model", "--target-grammar", "hall.grammar")
    assert str(refusal.value) == (
        f"train.tsv:3: the target grammar rejects 'on ( attic , fan )': {REASON}; 2 of 4 programs are rejected. "
        "Correct one or the other (`nqg types train.tsv --check GRAMMAR` helps), "
        "or leave such pairs out with --set types.skip_illegal=true"
    )


def test_rejected_pairs_can_be_left_out_unless_that_leaves_none() -> None:
    grammar = TargetGrammar.read("hall.grammar")
    notes = list[str]()

    def legal(examples: list[Example], *, skips_illegal: bool) -> Sequence[Example]:
        return legal_examples(
            grammar,
            examples,
            [example.target_tokens for example in examples],
            Path("train.tsv"),
            skips_illegal=skips_illegal,
            note=notes.append,
        )

    assert legal(TRAIN, skips_illegal=True) == TRAIN[:2]
    assert notes[0].endswith("2 of 4 programs are left out")
    assert legal(TRAIN[:2], skips_illegal=False) == TRAIN[:2]
    with pytest.raises(NqgError, match="2 of 2 programs are rejected"):
        legal(TRAIN[2:], skips_illegal=True)


@pytest.mark.parametrize(
    ("words", "legal", "is_typed"),
    [
        ([], GRAMMAR, True),
        (
            ["--target-grammar", "inferred", "--set", "model.typed=false"],
            GRAMMAR,
            False,
        ),
        (["--target-grammar", "none"], None, True),
        (
            ["--target-grammar", "hall.grammar", "--set", "types.skip_illegal=true"],
            "<program> ::= <switch> ( hall , <.> )\n<switch> ::= on | off\n",
            True,
        ),
    ],
)
def test_a_model_keeps_its_types(
    words: list[str], legal: str | None, is_typed: bool
) -> None:
    typed(
        "train",
        "train.tsv",
        "-o",
        "model",
        "--steps",
        "2",
        "--set",
        "training.batch_size=2",
        "--set",
        "confidence.folds=0",
        *words,
    )
    written = Path("model/target.grammar")
    assert (written.read_text() if written.exists() else None) == legal
    assert (
        json.loads(Path("model/nqg.json").read_text())["settings"]["typed"] == is_typed
    )
