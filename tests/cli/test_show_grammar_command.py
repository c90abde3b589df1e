"""`nqg show-grammar`, as a user types it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError
from typed_commands import typed as nqg

TRAIN = [
    Example("jump", "J"),
    Example("jump twice", "J J"),
    Example("walk twice", "W W"),
    Example("walk after jump twice", "J J W"),
]
TEST = [
    Example("jump twice after walk twice", "W W J J"),
    Example("hop", "H"),
    Example("walk after jump", "W J"),
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    for name, examples in (("train", TRAIN), ("test", TEST)):
        write_examples(tmp_path / f"{name}.tsv", examples)
    nqg(
        "induce",
        "train.tsv",
        "-o",
        "grammar.txt",
        "--preset",
        "scan",
        "--log",
        "steps.jsonl",
    )


def test_a_grammar_alone_is_described_by_its_rules() -> None:
    rules = [
        line
        for line in Path("grammar.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert rules == [
        "NT_1 after NT_2 ### NT_2 NT_1",
        "NT_1 twice ### NT_1 NT_1",
        "jump ### J",
        "walk ### W",
    ]
    assert nqg("show-grammar", "grammar.txt", "--top", "1").stdout == (
        "4 rules: 2 with no non-terminal, 1 with one, 1 with two\n"
        "199.0 bits to write them down (32 a terminal, 1 a non-terminal)\n\n"
        "longest rules:\n  NT_1 after NT_2 ### NT_2 NT_1\n"
    )


def test_on_its_training_data_it_costs_what_the_file_says() -> None:
    facts = json.loads(
        nqg("show-grammar", "grammar.txt", "--data", "train.tsv", "--json").stdout
    )
    bits = facts["grammar_bits"], facts["data"]["data_bits"]
    written = f"# description length on the examples: {bits[0]:,.2f} for the grammar, {bits[1]:,.2f} for the data"
    assert written in Path("grammar.txt").read_text()
    assert facts["data"]["with_target"] == len(TRAIN)


def test_coverage_of_a_dataset_is_shown_and_what_is_used_on_it() -> None:
    text = nqg("show-grammar", "grammar.txt", "--data", "test.tsv").stdout
    assert "on the 3 examples of the data:" in text
    assert " 66.7 % (2)  sources with a derivation" in text
    assert " 33.3 % (1)  examples whose target is among the derivations" in text
    assert (
        "derivations of a source: 1 in the median, at most 2: jump twice after walk twice"
        in text
    )
    facts = json.loads(
        nqg(
            "show-grammar", "grammar.txt", "--data", "train.tsv", "--json", "--top", "2"
        ).stdout
    )
    assert facts["data"]["uses"] == [
        {"rule": "NT_1 twice ### NT_1 NT_1", "examples": 3},
        {"rule": "jump ### J", "examples": 3},
    ]


def test_the_price_of_symbols_is_that_of_the_search(tmp_path: Path) -> None:
    assert (
        json.loads(nqg("show-grammar", "grammar.txt", "--json").stdout)["grammar_bits"]
        == 199.0
    )
    rules = [
        line
        for line in Path("grammar.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    (tmp_path / "bare.txt.gz").write_bytes(gzip.compress("\n".join(rules).encode()))
    assert (
        json.loads(nqg("show-grammar", "bare.txt.gz", "--json").stdout)["terminal_bits"]
        == 8.0
    )


def test_rules_with_many_non_terminals_can_be_inspected(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text(
        "NT_1 a NT_2 b NT_3 ### NT_3 NT_2 NT_1\na ### A\n"
    )
    assert nqg("show-grammar", "wide.txt").stdout.startswith(
        "2 rules: 1 with no non-terminal, 1 with three\n"
    )


def test_rule_files_of_the_published_implementation_can_be_inspected(
    reference_grammars: Path,
) -> None:
    facts = json.loads(
        nqg(
            "show-grammar", str(reference_grammars / "scan-length.rules.txt"), "--json"
        ).stdout
    )
    assert facts["rules"] == sum(facts["rules_by_arity"].values()) > 0


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("none.txt",), NqgError, "none.txt: no such file"),
        (("train.tsv",), FormatError, "train.tsv:1: expected 'source ### target'"),
        (("grammar.txt", "--data", "none.tsv"), NqgError, "none.tsv: no such file"),
        (
            ("grammar.txt", "--data", "empty.tsv"),
            NqgError,
            "empty.tsv: expected at least one example, found none",
        ),
        (
            ("project",),
            NqgError,
            "project is not a model folder: it has no grammar.txt; did you mean project/model?",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_said_in_words(
    words: tuple[str, ...], error: type[NqgError], message: str
) -> None:
    Path("empty.tsv").write_text("")
    Path("project/model").mkdir(parents=True)
    Path("project/model/grammar.txt").write_text("walk ### W\n")
    with pytest.raises(error) as caught:
        nqg("show-grammar", *words)
    assert message in str(caught.value)


def test_the_help_shows_an_example() -> None:
    shown = nqg("show-grammar", "--help").stdout
    assert "Example: nqg show-grammar grammar.txt --data test.tsv" in shown


def test_rules_are_listed_by_function_and_joining_rules_last() -> None:
    whole = str(PROJECT / "tests" / "models" / "v4-whole")
    groups = json.loads(nqg("show-grammar", whole, "--json").stdout)["groups"]
    assert list(groups) == ["dim", "off", "on", "set", "values and phrases"]
    assert groups["on"] == ["turn on the NT_1 in the NT_2 ### on ( NT_1 , NT_2 )"]
    shown = nqg("-v", "show-grammar", whole).stderr
    assert f"on:\n  {groups['on'][0]}\n" in shown
    assert "values and phrases" not in nqg("show-grammar", whole).output
