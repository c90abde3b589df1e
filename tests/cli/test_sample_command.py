"""`nqg sample` as a user types it: pairs to read or in a file, legal ones, the same for a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text
from nqg.types.target_grammar import TargetGrammar
from typed_commands import typed

RULES = """\
lights ### light
hall ### hall
turn on NT_1 ### on ( NT_1 )
NT_1 in the NT_2 ### in ( NT_1 , NT_2 )
NT_1 and NT_2 ### NT_1 NT_2
"""
LEGAL = """\
<all> ::= <command> | <all> <command>
<command> ::= on ( <thing> )
<thing> ::= light | in ( <thing> , <room> )
<room> ::= hall
"""
TRAIN = [
    Example("turn on lights", "on ( light )"),
    Example("turn on lights in the hall", "on ( in ( light , hall ) )"),
]
RAW_RULES = """\
@number ### @number
kitchen ### kitchen
office ### office
dim the NT_1 to NT_2 percent ### dim ( NT_1 , NT_2 )
set the NT_1 to NT_2 degrees ### heat ( NT_1 , NT_2 )
NT_1 and NT_2 ### NT_1 ; NT_2
"""
RAW = [
    *(
        Example(f"Dim the {room} to {level} percent.", f"dim({room}, {level})")
        for room, level in [("office", 10), ("kitchen", 40)]
    ),
    *(
        Example(f"Set the {room} to {level} degrees", f"heat({room}, {level})")
        for room, level in [("office", 18), ("kitchen", 21)]
    ),
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.txt").write_text(RULES)
    Path("legal.grammar").write_text(LEGAL)
    write_examples("train.tsv", TRAIN)


def test_pairs_are_printed_as_python_draws_them() -> None:
    result = typed("sample", "rules.txt", "-n", "5", "--set", "depth=3", "--seed", "7")
    pairs = GrammarSampler(Grammar.parse(RULES), (), SamplingSettings(depth=3)).samples(
        5, seed=7
    )
    assert result.stdout == "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert result.stderr == ""


def test_explored_pairs_are_those_that_python_draws_and_others_than_without() -> None:
    options = ("--data", "train.tsv", "-n", "20")
    result = typed("sample", "rules.txt", *options, "--set", "explore=0.5")
    pairs = GrammarSampler(
        Grammar.parse(RULES), TRAIN, SamplingSettings(explore=0.5)
    ).samples(20)
    assert result.stdout == "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert result.stdout != typed("sample", "rules.txt", *options).stdout


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.jsonl.gz"])
def test_a_target_grammar_lets_only_legal_programs_through(name: str) -> None:
    options = ("--data", "train.tsv", "--target-grammar", "legal.grammar")
    result = typed("sample", "rules.txt", *options, "-n", "200", "-o", name)
    pairs, legal = read_examples(name), TargetGrammar.parse(LEGAL)
    assert all(legal.accepts(pair.target_tokens) for pair in pairs)
    assert {pair.source for pair in pairs} > {pair.source for pair in TRAIN}
    assert f"wrote {name}\n" in result.stderr


def test_a_model_folder_brings_its_own_types() -> None:
    Path("model").mkdir()
    Path("rules.txt").rename("model/grammar.txt")
    Path("legal.grammar").rename("model/target.grammar")
    lines = typed("sample", "model", "-n", "30").stdout.splitlines()
    assert lines
    assert all(
        TargetGrammar.parse(LEGAL).accepts(line.split("\t")[1].split())
        for line in lines
    )


def test_it_says_when_the_grammar_has_fewer_pairs_and_how_well_it_foresees_others() -> (
    None
):
    write_examples("other.tsv", [*TRAIN, Example("sing", "sing")])
    result = typed(
        "sample",
        "rules.txt",
        "--set",
        "depth=1",
        "--data",
        "train.tsv",
        "--dev",
        "other.tsv",
        "-n",
        "9",
    )
    assert set(result.stdout.splitlines()) == {"lights\tlight", "hall\thall"}
    assert "other.tsv: 2 of 3 pairs derivable" in result.stderr
    assert "2 pairs instead of 9" in result.stderr


@pytest.fixture
def _raw_data() -> None:
    Path("rules.txt").write_text(RAW_RULES)
    write_examples(
        "raw.tsv", [*RAW, Example("dim the office to 10 percent", "dim(office, 10)")]
    )


@pytest.mark.usefixtures("_raw_data")
def test_pairs_with_values_count_where_rules_read_slots() -> None:
    result = typed(
        "-v", "sample", "rules.txt", "--data", "raw.tsv", "--dev", "raw.tsv", "-n", "3"
    )
    assert "raw.tsv: 4 of 4 pairs derivable" in result.stderr
    assert "raw.tsv: 5 of 5 pairs derivable" in result.stderr
    assert "warning" not in result.stderr


@pytest.mark.usefixtures("_raw_data")
def test_a_model_marks_slots_as_it_was_trained_to() -> None:
    Path("model").mkdir()
    Path("rules.txt").rename("model/grammar.txt")
    fit_text(RAW).write(Path("model/text.json"))
    assert Preprocessor.read(Path("model/text.json")).slots.slots
    write_examples("one.tsv", RAW[:1])
    assert (
        "one.tsv: 1 of 1 pairs derivable"
        in typed("-v", "sample", "model", "--data", "one.tsv", "-n", "1").stderr
    )


@pytest.mark.usefixtures("_raw_data")
def test_slots_are_filled_with_values_of_the_data_alike_on_both_sides() -> None:
    pairs = [
        line.split("\t")
        for line in typed(
            "sample", "rules.txt", "--data", "raw.tsv", "-n", "60"
        ).stdout.splitlines()
    ]
    assert any(" and " in source for source, _ in pairs)
    for source, target in pairs:
        values, written = (
            [word for word in side.split() if word.isdigit()]
            for side in (source, target)
        )
        assert values == written
        assert {*values} <= {"10", "40", "18", "21"}
        assert "@" not in source + target
    assert len({source for source, _ in pairs}) == len(pairs)


@pytest.mark.usefixtures("_raw_data")
def test_without_data_there_are_no_values_for_slots() -> None:
    assert "@number" in typed("sample", "rules.txt", "-n", "60").stdout


@pytest.mark.parametrize(
    ("underivable", "is_warned"),
    [(2, False), (3, True)],
    ids=["half", "more than half"],
)
def test_a_warning_says_that_less_than_half_of_the_data_is_derivable(
    underivable: int, is_warned: bool
) -> None:
    others = [
        Example(f"sing {number}", f"song ( {number} )") for number in range(underivable)
    ]
    write_examples("other.tsv", [*TRAIN, *others])
    shown = typed("sample", "rules.txt", "--data", "other.tsv", "-n", "1").stderr
    assert ("warning: other.tsv: 2 of 5 pairs derivable" in shown) == is_warned
    assert bool(shown) == is_warned


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (
            ("rules.txt", "-o", "pairs.csv"),
            FormatError,
            "expected the extension .tsv or .jsonl",
        ),
        (("none.txt",), NqgError, "none.txt"),
        (("rules.txt", "--set", "smoothing=0"), NqgError, "smoothing is 0"),
        (
            ("rules.txt", "--set", "explore=1.5"),
            NqgError,
            "explore is 1.5; expected 0 to 1",
        ),
        (
            ("rules.txt", "--set", "depth=1", "--target-grammar", "legal.grammar"),
            NqgError,
            "raise depth",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    words: tuple[str, ...], error: type[NqgError], message: str
) -> None:
    with pytest.raises(error, match=message):
        typed("sample", *words)
