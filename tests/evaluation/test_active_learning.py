"""Which sentences to annotate next: gaps that many share come first, and none is asked for twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROJECT
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import FormatError
from nqg.evaluation.active_learning import (
    Suggestion,
    nearest_example,
    novelties,
    parser_of,
    read_log_reversed,
    suggested,
    suggestions,
)
from nqg.evaluation.legality import ModelTypes
from nqg.files import write_text
from nqg.grammar.grammar import Grammar
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import load_with_grammar
from nqg.inference.parser import Parser
from nqg.model.checkpoint import load_model
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.types.target_grammar import TargetGrammar
from typed_commands import one_thread, typed

MODELS = PROJECT / "tests" / "models"
GRAMMAR = Grammar.parse(
    "walk ### W\njump ### J\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 ; NT_2"
)
EXAMPLES = [
    Example("walk twice", "W W"),
    Example("walk and jump", "W ; J"),
    Example("jump", "J"),
]
LOG = [
    "walk",
    "jump quickly",
    "walk quickly",
    "swim",
    "jump twice quickly",
    "walk then jump",
    "swim",
    "walk twice",
]


@pytest.fixture(scope="module")
def parser() -> Parser:
    model = ModelSettings(
        dimension=8,
        embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16),
    )
    training = TrainingSettings(steps=20, warm_up=5, learning_rate=0.02)
    legal = TargetGrammar.parse(
        "<do> ::= <act> | <do> ; <act>\n<act> ::= W | J | W W | J J"
    )
    with one_thread():
        return fit_parser(
            GRAMMAR,
            EXAMPLES,
            model=model,
            training=training,
            target_grammar=legal,
            device="cpu",
        )


def chosen(parser: Parser, sentences: list[str], count: int) -> list[Suggestion]:
    with one_thread():
        return list(suggestions(parser, sentences, count))


def test_what_many_sentences_lack_comes_first_and_is_asked_for_once_at_first(
    parser: Parser,
) -> None:
    found = [each.source for each in chosen(parser, LOG, 8)]
    assert found[0] == "jump quickly"
    assert set(found[1:3]) == {"swim", "walk then jump"}
    assert sorted(found) == sorted(set(LOG) - {"walk", "walk twice"})


def test_sentences_that_are_answered_for_sure_teach_nothing(parser: Parser) -> None:
    assert chosen(parser, ["walk", "walk twice", "", "  "], 5) == []


def test_a_suggestion_says_what_is_new_and_where_to_begin(parser: Parser) -> None:
    (one,) = chosen(parser, ["walk then jump"], 3)
    assert one.why == "no derivation: no rule knows 'then'"
    assert one.gaps == ("the word 'then'", "the pattern 'NT_1 then NT_2'")
    assert (one.program, one.guess_of, str(one.nearest)) == ("W", "walk", "walk ### W")


def test_a_sentence_without_a_derivation_comes_with_the_program_of_the_nearest_example(
    parser: Parser,
) -> None:
    with one_thread():
        swim, then = suggestions(
            parser,
            ["swim", "walk then jump"],
            2,
            [*EXAMPLES, Example("run then fly", "R . F")],
        )
    assert (swim.program, swim.guess_of) == (None, None)
    assert (then.program, then.guess_of) == ("W ; J", "walk and jump")
    assert "guess" not in then.why


@given(
    st.lists(st.text("ab ", min_size=1, max_size=6), max_size=5),
    st.text("abc ", max_size=6),
)
def test_the_nearest_example_shares_words_and_no_other_shares_more(
    sources: list[str], sentence: str
) -> None:
    known, own = (
        [Example(source, str(at)) for at, source in enumerate(sources)],
        {*sentence.split()},
    )
    found = nearest_example(known, sentence, str.split)
    assert (found is None) == (not any(own & {*each.source.split()} for each in known))
    if found and any({*each.source.split()} == own for each in known):
        assert {*found.source.split()} == own


def test_an_illegal_program_is_not_suggested(parser: Parser) -> None:
    (one,) = chosen(parser, ["walk twice twice"], 1)
    assert (one.program, one.guess_of, one.is_guess) == ("W W", "walk twice", True)


def test_an_illegal_program_of_the_nearest_example_is_not_suggested(
    parser: Parser,
) -> None:
    with one_thread():
        (one,) = suggestions(parser, ["swim"], 1, [Example("swim fast", "S S")])
    assert (one.program, one.guess_of) == (None, None)


def test_what_the_parser_is_not_sure_enough_of_is_a_guess() -> None:
    whole = Parser.load(MODELS / "v4-whole", "cpu")
    doubtful = whole.with_options(DecodeOptions(least_confidence=1.0))
    (one,) = chosen(doubtful, ["set the fan in the cellar to 77 %"], 1)
    assert one.program == "set(fan, cellar, 77)"
    assert one.is_guess
    assert one.guess_of is None
    assert one.confidence is not None


DEVICES = [
    f"{act} the {device} {link} the {room}{amount}"
    for act in ("turn on", "switch off", "set", "dim", "light", "illuminate")
    for device in ("fan", "lamp", "heater", "sauna")
    for link in ("in", "of", "near")
    for room in ("kitchen", "cellar", "garden", "attic")
    for amount in ("", " to 7 %", " by twice")
]
PETS = [
    f"{asked} {pets}{end}"
    for asked in ("how many", "names of all", "names of the", "age of", "ages of all")
    for pets in ("dogs", "cats", "birds", "dogs and cats")
    for end in (" are there", " by name", "", " over 5", " by weight", " please", " of")
]


@pytest.mark.parametrize(
    ("folder", "sentences", "count"),
    [("v4-whole", DEVICES, 400), ("v4-sql", PETS, 120)],
)
def test_no_illegal_program_is_suggested(
    folder: str, sentences: list[str], count: int
) -> None:
    model = load_model(MODELS / folder, "cpu")
    # Some of the known programs are illegal.
    parser = Parser(model)
    types = ModelTypes.of(model)
    known = [
        Example("set the fan in the attic to 5 %", "set(fan, cellar, 5)"),
        Example("turn on the sauna", "on(sauna, cellar)"),
        Example("light the fan", "on(fan)(cellar)"),
        Example("names of the birds", "SELECT name FROM birds"),
        Example("age of dogs", "SELECT age FROM dogs"),
    ]
    with one_thread():
        found = list(suggestions(parser, sentences, count, known))
    programs = [one.program for one in found if one.program is not None]
    assert len(found) > 0.8 * count
    assert len(programs) > 0
    assert [program for program in programs if not types.is_legal(program)] == []


def test_the_better_one_of_two_readers_is_suggested() -> None:
    hybrid = load_with_grammar(MODELS / "v4-whole", "cpu")
    types = ModelTypes.of(parser_of(hybrid).model)
    with one_thread():
        found = list(suggestions(hybrid, ["fly", "set the fan near the attic"], 2))
    assert {one.source for one in found} == {"fly", "set the fan near the attic"}
    assert all(one.program is None or types.is_legal(one.program) for one in found)


def test_equal_gaps_have_equal_names(parser: Parser) -> None:
    with one_thread():
        first, second = (
            novelties(parser.parse(each), parser)
            for each in ("walk quickly", "jump quickly")
        )
    assert first == second != ()


def test_the_command_reads_its_own_log_and_writes_pairs_to_correct(
    parser: Parser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parser.save("model")
    Path("asked.txt").write_text("".join(f"{each}\n" for each in LOG))
    with one_thread():
        typed("parse", "model", "asked.txt", "--log", "log.jsonl")
        lines = [
            json.loads(line) for line in Path("log.jsonl").read_text().splitlines()
        ]
        assert [line["source"] for line in lines] == LOG
        assert (lines[0]["target"], lines[3]["reason"]) == (
            "W",
            "no derivation: no rule knows 'swim'",
        )
        plain = typed("suggest", "model", "asked.txt", "-n", "3").stdout
        assert (
            typed("suggest", "model", "log.jsonl", "-n", "3", "-o", "new.tsv").stdout
            == plain
        )
        first = [
            "1. jump quickly",
            "no derivation: no rule knows 'quickly'",
            "a guess, that of 'jump': J",
        ]
        assert plain.startswith("\n   ".join([*first, "nearest rule: jump ### J\n"]))
        assert Path("new.tsv").read_text().splitlines()[0] == "jump quickly\tJ\tguess"
        with pytest.raises(
            FormatError,
            match=r"new\.tsv:1: expected 'source<TAB>target', found 3 columns",
        ):
            read_examples("new.tsv")
        Path("known.tsv").write_text(
            "jump quickly\tJ fast\nwalk quickly\tW fast\njump twice quickly\tJ J fast\n"
        )
        rest = json.loads(
            typed(
                "suggest", "model", "asked.txt", "--data", "known.tsv", "--json"
            ).stdout
        )
    assert {each["source"] for each in rest} == {"swim", "walk then jump"}


@pytest.mark.parametrize("line", ["[1]", '{"target": "x"}', '{"source": 3}', "{"])
def test_a_bad_line_of_a_log_is_refused_with_its_place(
    parser: Parser, tmp_path: Path, line: str
) -> None:
    parser.save(tmp_path / "model")
    (tmp_path / "log.jsonl").write_text(f'{{"source": "walk"}}\n{line}\n')
    with one_thread(), pytest.raises(FormatError, match=r"log\.jsonl:2: "):
        typed("suggest", str(tmp_path / "model"), str(tmp_path / "log.jsonl"))


def test_a_log_is_read_from_its_end(tmp_path: Path) -> None:
    write_text(tmp_path / "asked.txt.gz", "walk\njump\nrun\n")
    assert list(read_log_reversed(tmp_path / "asked.txt.gz")) == ["run", "jump", "walk"]
    assert list(read_log_reversed(tmp_path / "asked.txt.gz", 2)) == ["run", "jump"]


def test_of_a_long_log_only_the_end_is_read(parser: Parser, tmp_path: Path) -> None:
    log, train = tmp_path / "log.jsonl", tmp_path / "train.tsv"
    train.write_text("walk\tW\n")
    entries = [json.dumps({"source": each}) for each in ("swim", "fly", "walk")]
    log.write_text("\n".join(["not JSON", "{}", *entries]))
    with one_thread():
        assert {each.source for each in suggested(parser, log, train, 9, most=2)} == {
            "swim",
            "fly",
        }
        with pytest.raises(
            FormatError,
            match=r"log\.jsonl:2: expected an object with a 'source', found {}",
        ):
            suggested(parser, log, train, 9, most=3)


def test_a_log_of_known_sentences_is_not_read_to_its_start(
    parser: Parser, tmp_path: Path
) -> None:
    log, train = tmp_path / "asked.txt", tmp_path / "train.tsv"
    train.write_text("walk\tW\n")
    log.write_text("swim\n" + "walk\n" * 10)
    with one_thread():
        assert suggested(parser, log, train, 9, most=1) == []
        assert [each.source for each in suggested(parser, log, train, 9, most=2)] == [
            "swim"
        ]
