"""A file of examples that stays on disk reads like the list of its examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data import examples as mapped_examples
from nqg.data.examples import Example, MappedExamples, read_examples, streamed_examples, write_examples
from nqg.errors import FormatError, NqgError

WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\t\r\n\ufeff", exclude_categories=["Cs"]), min_size=1
)
SENTENCES = WORDS.filter(lambda text: bool(text.strip()))
EXAMPLES = st.lists(st.builds(Example, SENTENCES, SENTENCES), max_size=8)


@given(EXAMPLES, st.integers(1, 9), st.sampled_from([".tsv", ".jsonl"]))
def test_it_is_the_list_of_its_examples(
    tmp_path_factory: pytest.TempPathFactory, examples: list[Example], block: int, extension: str
) -> None:
    path = tmp_path_factory.mktemp("mapped") / f"examples{extension}"
    write_examples(path, examples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped_examples, "BLOCK", block)
        mapped = MappedExamples.of(path)
    assert len(mapped) == len(examples)
    assert list(mapped) == list(streamed_examples(path)) == [mapped[at] for at in range(len(mapped))] == examples
    assert mapped[1:5] == examples[1:5]
    assert mapped[::-2] == examples[::-2]
    assert [mapped[at] for at in range(-len(mapped), 0)] == examples


def test_a_last_line_without_an_end_and_lines_with_carriage_returns_are_lines(tmp_path: Path) -> None:
    (path := tmp_path / "examples.tsv").write_bytes(b"\xef\xbb\xbfjump\tJ\r\nrun\tR")
    assert list(MappedExamples.of(path)) == MappedExamples.of(path)[:] == [Example("jump", "J"), Example("run", "R")]


def test_there_is_no_example_behind_the_last(tmp_path: Path) -> None:
    (path := tmp_path / "examples.tsv").write_text("jump\tJ\n")
    with pytest.raises(IndexError):
        MappedExamples.of(path)[1]


def test_a_bad_line_is_refused_with_its_place_when_it_is_asked_for(tmp_path: Path) -> None:
    (path := tmp_path / "examples.tsv").write_text("jump\tJ\nrun\nwalk\tW\n")
    mapped = MappedExamples.of(path)
    assert mapped[2] == Example("walk", "W")
    for reading in (lambda: mapped[1], lambda: list(mapped)):
        with pytest.raises(FormatError, match=r"examples.tsv:2: expected 'source<TAB>target', found 1 column"):
            reading()


def test_a_stream_is_as_strict_as_a_list_but_for_ids(tmp_path: Path) -> None:
    (path := tmp_path / "examples.jsonl").write_text('{"id": "a", "source": "s", "target": "t"}\n' * 2)
    assert [example.id for example in streamed_examples(path)] == ["a", "a"]
    with pytest.raises(FormatError, match="the id 'a' is already that of line 1"):
        read_examples(path)
    (empty := tmp_path / "empty.tsv").write_text("jump\t \n")
    with pytest.raises(FormatError, match=r"empty.tsv:1: the target is empty"):
        list(streamed_examples(empty))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("examples.tsv.gz", "cannot be read from the middle; unpack it: gunzip"),
        ("examples.csv", "expected the extension .tsv or .jsonl"),
        ("absent.tsv", "cannot be read"),
    ],
)
def test_files_that_cannot_be_mapped_are_refused(tmp_path: Path, name: str, complaint: str) -> None:
    with pytest.raises(NqgError, match=complaint):
        MappedExamples.of(tmp_path / name)
