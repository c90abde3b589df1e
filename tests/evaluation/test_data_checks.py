"""Checks of training data: every fault has its line, and what is right has none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROJECT
from nqg.data.example import Example
from nqg.data.example_files import read_examples, write_examples
from nqg.errors import FormatError
from nqg.evaluation.data_checks import (
    constructions,
    expected_derivability,
    flaws,
    singletons,
)
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text, tokenized
from nqg.splits.compounds import BRACKETED, load_language
from nqg.text.brackets import CODE_QUOTES, bracket_error
from typed_commands import typed

HOME = PROJECT / "examples" / "home_assistant" / "en" / "train.tsv"


def kinds(examples: list[Example]) -> list[tuple[int, str]]:
    return [
        (flaw.line, flaw.kind)
        for flaw in flaws(examples, tokenized(examples, fit_text(examples)))
    ]


def test_every_kind_of_fault_is_found_on_its_line() -> None:
    examples = [
        Example("Sentence", "Program"),
        Example("turn on the lamp", "on(lamp)"),
        Example("turn off the lamp", "off(lamp"),
        Example("turn on the lamp", "off(lamp)"),
        Example("turn on the lamp", "on(lamp)"),
    ]
    assert kinds(examples) == [
        (1, "header"),
        (3, "unbalanced"),
        (4, "contradiction"),
        (5, "duplicate"),
    ]


def test_a_call_among_json_is_of_another_notation() -> None:
    examples = []
    for name in "abcdefghi":
        program = json.dumps({"name": "on", "arguments": {"what": name}})
        examples.append(Example(f"turn on {name}", program))
    assert kinds(examples) == []
    assert fit_text(examples).programs.calls is not None
    # One pair keeps all from being learned as calls, and is told.
    examples.append(Example("turn on it", 'on(what="it")'))
    assert fit_text(examples).programs.calls is None
    assert kinds(examples) == [(10, "notation")]
    # Where most programs are others, nothing is usual.
    another = Example("turn on that", 'on(what="that")')
    assert kinds([*examples[8:], another]) == []


def test_a_real_file_has_no_faults() -> None:
    assert kinds(read_examples(HOME)) == []


@given(st.lists(st.sampled_from(["(", ")", "[", "]", "{", "}", "a", "b"]), max_size=10))
def test_brackets_are_balanced_where_crossing_them_out_leaves_none(
    program: list[str],
) -> None:
    left = "".join(token for token in program if token not in "ab")
    while (
        shorter := left.replace("()", "").replace("[]", "").replace("{}", "")
    ) != left:
        left = shorter
    assert bool(bracket_error(program, CODE_QUOTES)) == bool(left)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "x z"]), st.sampled_from(["p", "q", "p ( q )"])
        ),
        max_size=8,
    )
)
def test_a_line_is_a_duplicate_or_a_contradiction_by_what_came_before(
    pairs: list[tuple[str, str]],
) -> None:
    examples = [Example(*pair) for pair in pairs]
    found = {flaw.line: flaw.kind for flaw in flaws(examples, examples)}
    for line, (source, target) in enumerate(pairs, start=1):
        before = [other for sentence, other in pairs[: line - 1] if sentence == source]
        assert found.get(line) == (
            "duplicate" if target in before else "contradiction" if before else None
        )


def test_singletons_are_those_of_one_pair_and_no_values() -> None:
    raw = read_examples(HOME)
    text = fit_text(raw)
    thin = singletons(raw, text)
    assert "brightness" in thin["words"]
    assert not any(
        word.startswith("@") or any(map(str.isdigit, word)) for word in thin["words"]
    )
    assert thin["templates"]["stop_timer()"] == 24


def test_the_starter_shows_every_construction_twice(tmp_path: Path) -> None:
    typed("init", str(tmp_path / "mine"))
    raw = read_examples(tmp_path / "mine" / "train.tsv")
    assert not singletons(raw, fit_text(raw))["templates"]


def test_constructions_of_json_are_named_by_their_functions() -> None:
    program = '{"name": "play", "arguments": {"genre": "jazz", "at": {"hour": 7}}}'
    assert constructions(program, BRACKETED) == ["play(genre=_, at=_)"]
    assert constructions("select a from b where c = 3", load_language("sql")) == [
        "select a from b where c = INTEGER"
    ]


@given(
    st.lists(st.sampled_from(["on a", "off a", "on b", "on"]), min_size=1, max_size=6)
)
def test_a_thin_word_is_one_that_a_single_pair_has(sentences: list[str]) -> None:
    thin = singletons([Example(each, "P") for each in sentences], Preprocessor())[
        "words"
    ]
    counts = Counter(word for each in set(sentences) for word in each.split())
    first = {
        word: next(n for n, each in enumerate(sentences, 1) if word in each.split())
        for word in counts
    }
    assert thin == {word: line for word, line in first.items() if counts[word] == 1}


def test_what_a_grammar_of_the_others_derives_is_expected() -> None:
    verbs = {"walk": "W", "jump": "J", "run": "R", "look": "L"}
    patterns = {"{}": "{}", "{} twice": "{0} {0}", "{} left": "T {}"}
    examples = [
        Example(source.format(verb), target.format(program))
        for verb, program in verbs.items()
        for source, target in patterns.items()
    ]
    shares = list(expected_derivability(examples, Preprocessor()))
    assert sum(shares) / len(shares) >= 0.5
    nothing = [Example(f"w{number}", f"P{number}") for number in range(8)]
    assert set(expected_derivability(nothing, Preprocessor())) == {0.0}


def test_the_command_prints_faults_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    write_examples(
        path, [*read_examples(HOME)[:12], Example("cancel the alarm", "stop_timer()")]
    )
    result = typed("check-data", str(path), "--folds", "0")
    assert result.exit_code == 1
    assert (
        f"{path}:13: contradiction: 'cancel the alarm' has another program on line 12"
        in result.stdout
    )
    facts = json.loads(typed("check-data", str(path), "--json").stdout)
    assert [flaw["line"] for flaw in facts["flaws"]] == [13]
    assert 0 <= facts["derivable"] <= 1
    assert typed("check-data", str(HOME), "--folds", "2").exit_code == 0


def test_a_comma_separated_file_is_named_as_one(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("turn on the lamp,on(lamp)\n")
    with pytest.raises(
        FormatError, match=r"train\.tsv:1: .*found 1 column; it looks comma-separated"
    ):
        read_examples(path)
