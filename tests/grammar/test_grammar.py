"""Grammars and their files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given

from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar, Rule
from strategies import grammars

SCAN = """\
# SCAN, by hand

jump ### I_JUMP
NT_1 twice ### NT_1 NT_1
"""


@given(grammars(max_arity=4))
def test_a_grammar_survives_a_round_trip_through_its_text(grammar: Grammar) -> None:
    assert Grammar.parse(str(grammar), max_non_terminals=4) == grammar


def test_comments_and_blank_lines_are_skipped_and_the_order_of_rules_is_kept() -> None:
    assert [str(rule) for rule in Grammar.parse(SCAN)] == [
        "jump ### I_JUMP",
        "NT_1 twice ### NT_1 NT_1",
    ]


@pytest.mark.parametrize("name", ["grammar.txt", "grammar.txt.gz"])
def test_a_grammar_survives_a_round_trip_through_a_file(
    tmp_path: Path, name: str
) -> None:
    grammar = Grammar.parse(SCAN)
    grammar.write(tmp_path / name)
    assert Grammar.read(tmp_path / name) == grammar
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_an_empty_grammar_survives_a_round_trip(tmp_path: Path) -> None:
    Grammar(()).write(tmp_path / "empty.txt")
    assert len(Grammar.read(tmp_path / "empty.txt")) == 0


def test_files_with_windows_line_ends_and_a_byte_order_mark_are_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "grammar.txt").write_bytes(
        b"\xef\xbb\xbfjump ### I_JUMP\r\nwalk ### I_WALK\r\n"
    )
    assert [str(rule) for rule in Grammar.read(tmp_path / "grammar.txt")] == [
        "jump ### I_JUMP",
        "walk ### I_WALK",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"jump I_JUMP", "expected 'source ### target', found '###' 0 times"),
        (b"### I_JUMP", "the source of the rule is empty"),
        (
            b"NT_1 NT_2 NT_3 ### NT_1 NT_2 NT_3",
            "has 3 non-terminals, more than max_non_terminals=2",
        ),
        (b"walk ### I_WALK", "rule 'walk ### I_WALK' was already on line 2"),
        (b"j\xff ### I_JUMP", "byte 2 is 0xff, which is not valid UTF-8"),
        (b"j\0 ### I_JUMP", "NUL"),
    ],
    ids=[
        "no separator",
        "no source",
        "too many non-terminals",
        "repeated",
        "not UTF-8",
        "NUL",
    ],
)
def test_a_malformed_line_is_refused_with_file_line_and_reason(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "grammar.txt"
    path.write_bytes(b"# rules\nwalk ### I_WALK\n\n" + line + b"\nrun ### I_RUN\n")
    with pytest.raises(FormatError) as caught:
        Grammar.read(path)
    assert str(caught.value).startswith(f"{path}:4: ")
    assert reason in str(caught.value)


def test_a_missing_file_a_folder_and_a_damaged_archive_are_refused_by_name(
    tmp_path: Path,
) -> None:
    with pytest.raises(NqgError, match=r"nowhere\.txt: no such file"):
        Grammar.read(tmp_path / "nowhere.txt")
    with pytest.raises(NqgError, match="found a folder"):
        Grammar.read(tmp_path)
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(SCAN.encode())[:-10])
    with pytest.raises(NqgError, match=r"cut\.txt\.gz"):
        Grammar.read(tmp_path / "cut.txt.gz")


def test_the_bound_on_non_terminals_is_a_setting() -> None:
    text = "NT_1 NT_2 NT_3 ### NT_3 NT_2 NT_1"
    assert Grammar.parse(text, max_non_terminals=3)[0].arity == 3
    with pytest.raises(FormatError, match="more than max_non_terminals=2"):
        Grammar((Rule.parse(text),))


def test_rules_put_together_in_code_are_sorted_by_text_and_said_twice_only_if_asked_for() -> (
    None
):
    walk, jump = Rule.parse("walk ### I_WALK"), Rule.parse("jump ### I_JUMP")
    assert Grammar.of([walk, jump, walk]).rules == (jump, walk)
    with pytest.raises(FormatError, match="'walk ### I_WALK' is in the grammar twice"):
        Grammar((walk, jump, walk))


def test_the_grammars_that_the_published_implementation_induced_can_be_read(
    reference_grammars: Path,
) -> None:
    sizes = {
        path.name: len(Grammar.read(path))
        for path in sorted(reference_grammars.glob("*.rules.txt"))
    }
    assert sizes == {
        path.name: len([line for line in path.read_text().splitlines() if line])
        for path in reference_grammars.glob("*.rules.txt")
    }
