"""`nqg sample` as a user types it: pairs to read or in a file, legal ones, the same for a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg.data.examples import Example, read_examples, write_examples
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings
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
TRAIN = [Example("turn on lights", "on ( light )"), Example("turn on lights in the hall", "on ( in ( light , hall ) )")]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.txt").write_text(RULES)
    Path("legal.grammar").write_text(LEGAL)
    write_examples("train.tsv", TRAIN)


def test_pairs_are_printed_as_python_draws_them() -> None:
    result = typed("sample", "rules.txt", "-n", "5", "--depth", "3", "--seed", "7")
    pairs = GrammarSampler(Grammar.parse(RULES), (), SamplingSettings(depth=3)).samples(5, seed=7)
    assert result.stdout == "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert result.stderr == ""


def test_explored_pairs_are_those_that_python_draws_and_others_than_without() -> None:
    options = ("--data", "train.tsv", "-n", "20")
    result = typed("sample", "rules.txt", *options, "--explore", "0.5")
    pairs = GrammarSampler(Grammar.parse(RULES), TRAIN, SamplingSettings(explore=0.5)).samples(20)
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
    assert all(TargetGrammar.parse(LEGAL).accepts(line.split("\t")[1].split()) for line in lines)


def test_it_says_when_the_grammar_has_fewer_pairs_and_how_well_it_foresees_others() -> None:
    write_examples("other.tsv", [*TRAIN, Example("sing", "sing")])
    result = typed("sample", "rules.txt", "--depth", "1", "--data", "train.tsv", "--held-out", "other.tsv", "-n", "9")
    assert set(result.stdout.splitlines()) == {"lights\tlight", "hall\thall"}
    assert "other.tsv: 2 of 3 pairs derivable" in result.stderr
    assert "2 pairs instead of 9" in result.stderr


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("rules.txt", "-o", "pairs.csv"), FormatError, "expected the extension .tsv or .jsonl"),
        (("none.txt",), NqgError, "none.txt"),
        (("rules.txt", "--smoothing", "0"), NqgError, "smoothing is 0"),
        (("rules.txt", "--explore", "1.5"), NqgError, "explore is 1.5; expected 0 to 1"),
        (("rules.txt", "--depth", "1", "--target-grammar", "legal.grammar"), NqgError, "raise depth"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], error: type[NqgError], message: str) -> None:
    with pytest.raises(error, match=message):
        typed("sample", *words)
