"""Files of examples: round trips in both formats, and every refusal with its place and reason."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import OUT_OF_SCOPE, Example, in_scope, out_of_scope
from nqg.data.example_files import (
    first_line,
    read_examples,
    streamed_examples,
    write_examples,
)
from nqg.errors import FormatError

JUMP = Example("jump twice", "I_JUMP I_JUMP")


def sides(excluded: str) -> st.SearchStrategy[str]:
    characters = st.characters(
        exclude_characters=f"\0{excluded}", exclude_categories=["Cs"]
    )
    # Hypothesis also draws strings of the source, such as the one for sentences out of scope.
    return st.text(characters, min_size=1).filter(
        lambda text: text.strip() not in ("", OUT_OF_SCOPE)
    )


def example_lists(
    excluded: str, ids: st.SearchStrategy[str | None]
) -> st.SearchStrategy[list[Example]]:
    examples = st.builds(Example, sides(excluded), sides(excluded), ids)
    return st.lists(
        examples, max_size=4, unique_by=lambda example: example.id or object()
    )


def fresh(folders: pytest.TempPathFactory, name: str) -> Path:
    return folders.mktemp("examples") / name


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
@given(examples=example_lists("\t\n\r\ufeff", ids=st.none()))
def test_examples_survive_a_tsv_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, examples: list[Example]
) -> None:
    path = fresh(tmp_path_factory, name)
    write_examples(path, examples)
    assert read_examples(path) == examples


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@given(examples=example_lists("", ids=st.none() | sides("")))
def test_examples_survive_a_jsonl_file_with_their_ids(
    tmp_path_factory: pytest.TempPathFactory, name: str, examples: list[Example]
) -> None:
    path = fresh(tmp_path_factory, name)
    write_examples(path, examples)
    assert read_examples(path) == examples


@given(
    examples=st.lists(
        st.builds(Example, st.text(), st.text(), st.none() | st.text()), max_size=3
    )
)
@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_whatever_is_written_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, name: str, examples: list[Example]
) -> None:
    path = fresh(tmp_path_factory, name)
    try:
        write_examples(path, examples)
    except FormatError:
        assert not path.exists()
    else:
        # Hypothesis also draws the target of sentences that are out of scope.
        read = [
            (example.source, example.target)
            for example in read_examples(path, allows_out_of_scope=True)
        ]
        assert read == [(example.source, example.target) for example in examples]


def test_white_space_inside_a_sentence_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(" what  is\u00a0it ?\tselect  1 \n")
    assert read_examples(tmp_path / "a.tsv") == [
        Example(" what  is\u00a0it ?", "select  1 ")
    ]


def test_a_tsv_file_drops_ids_and_a_jsonl_file_writes_readable_text(
    tmp_path: Path,
) -> None:
    examples = [Example("où ?", "answer", id="7"), JUMP]
    write_examples(tmp_path / "a.tsv", examples)
    write_examples(str(tmp_path / "a.jsonl"), examples)
    assert (
        tmp_path / "a.tsv"
    ).read_text() == "où ?\tanswer\njump twice\tI_JUMP I_JUMP\n"
    assert (tmp_path / "a.jsonl").read_text() == (
        '{"id": "7", "source": "où ?", "target": "answer"}\n{"source": "jump twice", "target": "I_JUMP I_JUMP"}\n'
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(
            b"jump", "expected 'source<TAB>target', found 1 column", id="one column"
        ),
        pytest.param(
            b"jump\tI_JUMP\t7",
            "expected 'source<TAB>target', found 3 columns",
            id="three columns",
        ),
        pytest.param(
            b"", "expected 'source<TAB>target', found an empty line", id="empty line"
        ),
        pytest.param(b"\tI_JUMP", "the source is empty", id="empty source"),
        pytest.param(b"jump\t  ", "the target is empty", id="blank target"),
        pytest.param(
            b"jump\tOUT_OF_SCOPE",
            "the sentence is out of scope, and has no program: `nqg train`, `evaluate` "
            "and `check-data` take such pairs, in Python "
            "read_examples(path, allows_out_of_scope=True)",
            id="out of scope",
        ),
        pytest.param(
            b"ju\xffmp\tI_JUMP",
            "byte 3 is 0xff, which is not valid UTF-8; expected UTF-8 text",
            id="utf-8",
        ),
        pytest.param(b"jump\tI_\0JUMP", "byte 8 is NUL, expected text", id="NUL"),
    ],
)
def test_a_bad_tsv_line_is_refused_with_its_place(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(b"walk\tI_WALK\n" + line + b"\nrun\tI_RUN\n")
    with pytest.raises(FormatError) as caught:
        read_examples(path)
    assert str(caught.value) == f"{path}:2: {reason}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(
            '{"source": "jump"',
            "not valid JSON: Expecting ',' delimiter (column 18)",
            id="cut off",
        ),
        pytest.param("", "not valid JSON: Expecting value (column 1)", id="empty line"),
        pytest.param(
            "[" * 100_000, "the JSON value is nested too deeply", id="nested too deeply"
        ),
        pytest.param(
            "9" * 5000, "not usable JSON: Exceeds the limit", id="a giant number"
        ),
        pytest.param(
            '["jump"]', "expected an object as the example, found ['jump']", id="a list"
        ),
        pytest.param(
            '{"source": "jump"}',
            "the key 'target' of the example is missing",
            id="no target",
        ),
        pytest.param(
            '{"source": "a", "target": "b", "Id": "c"}',
            "no key of the example 'Id'. Known: id",
            id="unknown key",
        ),
        pytest.param(
            '{"source": "a", "source": "b"}',
            "the key 'source' stands twice in one JSON object",
            id="repeat",
        ),
        pytest.param(
            '{"source": "a", "target": 3}',
            "expected a string as 'target' of the example, found 3",
            id="a number",
        ),
        pytest.param(
            '{"source": null, "target": "b"}',
            "expected a string as 'source' of the example",
            id="null",
        ),
        pytest.param(
            '{"source": "a", "target": NaN}', "NaN is not a JSON value", id="NaN"
        ),
        pytest.param(
            '{"source": " ", "target": "b"}', "the source is empty", id="blank source"
        ),
        pytest.param(
            '{"source": "a", "target": "b", "id": ""}', "the id is empty", id="empty id"
        ),
        pytest.param(
            '{"source": "a\\u0000", "target": "b"}',
            "the source holds U+0000, which is not text",
            id="NUL",
        ),
        pytest.param(
            '{"source": "a", "target": "\\ud83d"}',
            "a string holds U+D83D, which is not text",
            id="half",
        ),
        pytest.param(
            '{"source": "a", "target": "b", "id": "7"}',
            "the id '7' is already that of line 1",
            id="same id",
        ),
    ],
)
def test_a_bad_jsonl_line_is_refused_with_its_place(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(f'{{"source": "walk", "target": "I_WALK", "id": "7"}}\n{line}\n')
    with pytest.raises(FormatError) as caught:
        read_examples(path)
    assert str(caught.value).startswith(f"{path}:2: {reason}")


@pytest.mark.parametrize("name", ["train.txt", "train", "train.tsv.zip", "train.gz"])
def test_an_unknown_extension_is_refused_with_a_hint(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        FormatError,
        match=r"expected the extension \.tsv or \.jsonl \(or either with \.gz\), found",
    ):
        read_examples(tmp_path / name)
    with pytest.raises(FormatError, match="rename the file"):
        write_examples(tmp_path / name, [JUMP])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        pytest.param(
            Example("a\tb", "c"),
            "the source holds a tab, which a .tsv file cannot keep",
            id="tab",
        ),
        pytest.param(
            Example("a", "b\nc"),
            "the target holds a line feed, which a .tsv file cannot keep",
            id="lf",
        ),
        pytest.param(
            Example("a", "b\r"), "the target holds a carriage return", id="cr"
        ),
        pytest.param(
            Example("\ufeffa", "b"), "the source holds a byte order mark", id="bom"
        ),
        pytest.param(Example("", "b"), "the source is empty", id="empty"),
        pytest.param(
            Example("a", "\0"), "the target holds U+0000, which is not text", id="NUL"
        ),
    ],
)
def test_what_a_tsv_file_could_not_give_back_is_not_written(
    tmp_path: Path, example: Example, reason: str
) -> None:
    path = tmp_path / "train.tsv"
    write_examples(path, [JUMP])
    with pytest.raises(FormatError) as caught:
        write_examples(path, [JUMP, example])
    assert str(caught.value).startswith(f"{path}:2: {reason}")
    assert read_examples(path) == [JUMP]


def test_a_tab_is_refused_with_the_advice_to_write_jsonl(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"write \.jsonl instead"):
        write_examples(tmp_path / "a.tsv", [Example("a\tb", "c")])
    write_examples(tmp_path / "a.jsonl", [Example("a\tb", "c")])
    assert json.loads((tmp_path / "a.jsonl").read_text())["source"] == "a\tb"


def test_repeated_ids_are_refused_where_ids_are_kept_and_harmless_where_they_are_not(
    tmp_path: Path,
) -> None:
    twice = [Example("a", "b", id="7"), Example("c", "d", id="7")]
    with pytest.raises(
        FormatError, match=r"a\.jsonl:2: the id '7' is already that of line 1"
    ):
        write_examples(tmp_path / "a.jsonl", twice)
    write_examples(tmp_path / "a.tsv", twice)
    assert len(read_examples(tmp_path / "a.tsv")) == 2


def test_a_stream_is_as_strict_as_a_list_but_for_ids(tmp_path: Path) -> None:
    (path := tmp_path / "examples.jsonl").write_text(
        '{"id": "a", "source": "s", "target": "t"}\n' * 2
    )
    assert [example.id for example in streamed_examples(path)] == ["a", "a"]
    with pytest.raises(FormatError, match="the id 'a' is already that of line 1"):
        read_examples(path)
    (empty := tmp_path / "empty.tsv").write_text("jump\t \n")
    with pytest.raises(FormatError, match=r"empty.tsv:1: the target is empty"):
        list(streamed_examples(empty))


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.jsonl"])
def test_sentences_out_of_scope_are_read_where_they_are_allowed_and_written_back(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    lines = {
        ".tsv": "jump\tJ\nsing\t\nfly\tOUT_OF_SCOPE\n",
        ".jsonl": '{"source": "jump", "target": "J"}\n{"source": "sing", "target": " "}\n'
        '{"source": "fly", "target": "OUT_OF_SCOPE"}\n',
    }
    path.write_text(lines[path.suffix])
    examples = read_examples(path, allows_out_of_scope=True)
    assert [example.source for example in out_of_scope(examples)] == ["sing", "fly"]
    assert [example.source for example in in_scope(examples)] == ["jump"]
    write_examples(path, examples)
    assert read_examples(path, allows_out_of_scope=True) == examples


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("heading", [("sentence", "program"), None])
@given(examples=example_lists("\n\r\ufeff", ids=st.none()))
def test_a_csv_file_that_the_standard_library_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    delimiter: str,
    heading: tuple[str, str] | None,
    examples: list[Example],
) -> None:
    path = fresh(tmp_path_factory, "a.csv")
    pairs = [(example.source, example.target) for example in examples]
    if heading:
        pairs.insert(0, heading)
    else:
        # The first pair shows what separates columns, and is no heading.
        pairs.insert(0, ("jump", "J"))
        examples = [Example("jump", "J"), *examples]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(pairs)
    assert read_examples(path) == examples
    assert first_line(path) == (2 if heading else 1)


def test_a_heading_of_a_csv_file_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('Program,id,Utterance\n"f(a, b)",1,do it\n')
    assert read_examples(path) == [Example("do it", "f(a, b)")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,f(b,c)\n", r"a.csv:1: expected 2 columns, found 3 columns; put quotes"),
        ("source,target\na,b\nc\n", r"a.csv:3: expected 2 columns, found 1 column"),
        ('a,"b\nc"\n', r"a.csv:1: not a line of a .csv file: unexpected end of data"),
        ("a,b\n\n", r"a.csv:2: expected 2 columns, found 0 columns"),
        ("a,\n", r"a.csv:1: the target is empty"),
    ],
)
def test_a_bad_line_of_a_csv_file_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_examples(path)


def test_a_csv_file_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="which nqg reads and does not write"):
        write_examples(tmp_path / "a.csv", [JUMP])
