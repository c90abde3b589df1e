"""Programs as tokens: nothing is lost on the way there and back, and new programs are spelled like known ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nqg.grammar.grammar import is_token
from nqg.text.programs import ProgramTokenizer, atoms, detected_scheme, fit_programs

STYLES = {
    "calls": [
        'dim(room="living room", percent=40)',
        "at(time=7:30, on(lamp))",
        "do(on(fan), off())",
    ],
    "tight calls": ["dim(room='attic',percent=-20.5)", "f(a,b)[0]", "g(x)->y"],
    "s-expressions": [
        "(answer (state (loc tx)) :limit 3)",
        "(lambda $0 e (and (city $0) (< 5 (size $0))))",
    ],
    "JSON": [
        '{"intent": "PlayMusic", "slots": {"track": "Don\'t Stop", "year": 1977}, "n": [1, 2], "ok": true}'
    ],
    "SQL": [
        "SELECT count(*), T1.name FROM city AS T1 WHERE T1.state IN ('new york', 'O''Hara') AND x >= 5;",
        "SELECT max(DISTINCT y) FROM b WHERE z IN (SELECT z FROM c)",
    ],
    "keys": ["room=kitchen percent=35", "time=07:30 date=2027-03-12"],
    "spaced": ["answer ( loc_1 ( m0 ) )", "f ( a , b )"],
}
TRICKY = [
    "",
    " ",
    "\t\n",
    " f(x) ",
    "f(  x)",
    'say("He said \\"hi\\", then left.")',
    "say('it''s')",
    "say(\"it's O'Brien's\")",
    "play(song=don't stop)",
    'שלום("עולם", x=٣)',
    'f("👩‍👩‍👧 👍🏽", "e\u0301")',
    "␣ ⁀ ⏎ ⇥ ⟨20⟩ \\␣ \\\\⁀",
    "if x:\n    y\n\tz",
    "a\u00a0b\u3000c\x1cd",
    "NT_1 ### \\NT_2",
    '"unclosed (',
    "`a b` 'c",
]


def texts() -> st.SearchStrategy[str]:
    """Random text with a liking for what programs are made of."""
    pieces = st.sampled_from(
        [
            *"()[]{},;:=.\"'`\\ \n\t␣⁀⏎⟨",
            "  ",
            "don't",
            "7:30",
            "x",
            "a_1",
            "-5.5",
            "2027-03-12",
            "!=",
        ]
    )
    characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    return st.lists(pieces | st.text(characters, max_size=3), max_size=15).map("".join)


@given(
    program=texts(),
    known=st.lists(texts(), max_size=4),
    quote=st.sampled_from(["", '"', "'"]),
)
def test_any_text_survives_whatever_the_tokenizer_was_fitted_to(
    program: str, known: list[str], quote: str
) -> None:
    tokenizer = fit_programs(known, "code")
    tokens = tokenizer.tokenize(program)
    assert all(map(is_token, tokens))
    assert tokenizer.render(tokens) == program
    if not set(program) & set("\"'`"):
        value = tokenizer.tokenize(program, quote)
        quotes = [quote] if quote else []
        assert f"{quote}{program}{quote}" in tokenizer.render(
            [*quotes, *value, *quotes]
        )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("program", TRICKY, ids=repr)
def test_odd_programs_survive_every_convention(style: str, program: str) -> None:
    tokenizer = fit_programs(STYLES[style], "code")
    assert tokenizer.render(tokenizer.tokenize(program)) == program


@pytest.mark.parametrize("style", STYLES)
def test_programs_of_one_convention_need_no_marks_of_gaps(style: str) -> None:
    tokenizer = fit_programs(STYLES[style], "code")
    for program in STYLES[style]:
        tokens = tokenizer.normalized(program)
        assert not set("".join(tokens)) & set("␣⁀⏎⇥")
        assert tokenizer.render(tokens) == program


@given(style=st.sampled_from(sorted(STYLES)), program=texts())
@example(style="calls", program='f( "a  b" ,c )')
@example(style="JSON", program="\\ ,[")
def test_normalising_changes_nothing_but_white_space_outside_of_quotes(
    style: str, program: str
) -> None:
    tokenizer = fit_programs(STYLES[style], "code")
    written = tokenizer.render(tokenizer.normalized(program))
    assert "".join(written.split()) == "".join(program.split())
    has_same_atoms = [each.text for each in atoms(written)] == [
        each.text for each in atoms(program)
    ]
    if has_same_atoms:  # a space that is left out may join two: `- >`
        assert tokenizer.render(tokenizer.normalized(written)) == written


@pytest.mark.parametrize(
    ("style", "tokens", "program"),
    [
        (
            "calls",
            'dim ( room = " attic " , percent = 15 )',
            'dim(room="attic", percent=15)',
        ),
        (
            "tight calls",
            "dim ( room = ' new room ' , percent = 3 )",
            "dim(room='new room',percent=3)",
        ),
        (
            "s-expressions",
            "( answer ( river ( loc tx ) ) )",
            "(answer (river (loc tx)))",
        ),
        (
            "JSON",
            '{ " n " : [ 3 , 4 ] , " track " : " Hey Jude " }',
            '{"n": [3, 4], "track": "Hey Jude"}',
        ),
        (
            "SQL",
            "SELECT min ( a ) FROM c WHERE d IN ( ' e ' )",
            "SELECT min(a) FROM c WHERE d IN ('e')",
        ),
        ("spaced", "g ( h ( m1 ) , a )", "g ( h ( m1 ) , a )"),
    ],
)
def test_new_programs_are_spelled_like_those_of_the_training_data(
    style: str, tokens: str, program: str
) -> None:
    assert fit_programs(STYLES[style], "code").render(tokens.split()) == program


@pytest.mark.parametrize("style", STYLES)
def test_programs_are_cut_at_spaces_only_where_their_marks_stand_apart(
    style: str,
) -> None:
    assert detected_scheme(STYLES[style]) == ("spaces" if style == "spaced" else "code")


def test_tokenised_programs_are_taken_as_they_are() -> None:
    tokenizer = fit_programs(["I_JUMP I_WALK", "I_LOOK"])
    assert tokenizer == ProgramTokenizer("spaces")
    assert tokenizer.render(tokenizer.tokenize("f(x)  'a")) == "f(x) 'a"


def test_a_long_program_takes_no_more_than_its_length() -> None:
    tokenizer = fit_programs(STYLES["calls"])
    for piece in ("a.", "1", "'", '"x', "-", "\\"):
        program = piece * 100_000
        assert tokenizer.render(tokenizer.tokenize(program)) == program


def geoquery(folder: Path) -> Iterator[str]:
    corpus = (folder / "geoquery" / "corpus.xml").read_text()
    yield from (
        found.strip()
        for found in re.findall(r"<mrl[^>]*>(.*?)</mrl>", corpus, re.DOTALL)
    )


def geoquery_marked(folder: Path) -> Iterator[str]:
    yield from (
        line.split("\t")[1]
        for line in (folder / "geoquery/expected_dataset.tsv").read_text().splitlines()
    )


def spider(folder: Path) -> Iterator[str]:
    for name in ("train_spider.json", "dev.json"):
        yield from (
            each["query"] for each in json.loads((folder / "spider" / name).read_text())
        )


def spider_tokenised(folder: Path) -> Iterator[str]:
    yield from (
        line.split("\t")[1]
        for line in (folder / "spider/expected_dataset.tsv").read_text().splitlines()
    )


def cogs(folder: Path) -> Iterator[str]:
    for name in ("train", "dev", "test", "gen"):
        yield from (
            line.split("\t")[1]
            for line in (folder / "cogs" / f"{name}.tsv").read_text().splitlines()
        )


def snips_slots(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    for path in sorted((folder / "snips").glob("*.json")):
        for intent, utterances in json.loads(path.read_text()).items():
            for each in utterances:
                yield (
                    intent,
                    {
                        part["entity"]: part["text"]
                        for part in each["data"]
                        if "entity" in part
                    },
                )


def snips(folder: Path) -> Iterator[str]:
    for intent, slots in snips_slots(folder):
        arguments = [f'{name}="{value}"' for name, value in slots.items()]
        yield f"{intent}({', '.join(arguments)})"


def snips_json(folder: Path) -> Iterator[str]:
    yield from (
        json.dumps({"intent": intent, "slots": slots})
        for intent, slots in snips_slots(folder)
    )


def geoquery_sql(folder: Path) -> Iterator[str]:
    for each in json.loads((folder / "geoquery_sql" / "geography.json").read_text()):
        yield from each["sql"]


CORPORA = (
    geoquery,
    geoquery_marked,
    spider,
    spider_tokenised,
    cogs,
    snips,
    snips_json,
    geoquery_sql,
)


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_program_of_a_corpus_survives_byte_for_byte(
    real_data: Path, corpus: Callable[[Path], Iterator[str]]
) -> None:
    programs = list(dict.fromkeys(corpus(real_data)))
    assert len(programs) > 200
    for tokenizer in (fit_programs(programs), fit_programs(programs[:10], "code")):
        assert [
            each
            for each in programs
            if tokenizer.render(tokenizer.tokenize(each)) != each
        ] == []
