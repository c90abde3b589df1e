"""corpus.xml gives its sentences and programs, and no file can make the reader do anything else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nqg.errors import FormatError, NqgError, Place
from nqg.paper.geoquery import CorpusExample, read_corpus


def example(
    example_id: str,
    sentence: str = "How big is Ohio ?",
    program: str = "answer(size(stateid('ohio')))",
) -> str:
    return (
        f'<example id="{example_id}">\n<nl lang="en">\n{sentence}\n</nl>\n<nl lang="es">\nque\n</nl>\n'
        f'<mrl lang="geo-funql">\n{program}\n</mrl>\n<mrl lang="geo-prolog">\nother\n</mrl>\n</example>\n'
    )


def corpus(*examples: str, declarations: str = "<!ELEMENT examples (example*)>") -> str:
    head = f'<?xml version="1.0"?>\n<!DOCTYPE examples [{declarations}]>\n'
    return head + "<examples>\n" + "".join(examples) + "</examples>\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "corpus.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_english_sentence_and_the_funql_program_are_read_in_order(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        corpus(example("7"), example("3", "Where is A &amp; B ?", "answer(m0)")),
    )
    assert read_corpus(path) == [
        CorpusExample(
            "7", "How big is Ohio ?", "answer(size(stateid('ohio')))", Place(path, 4)
        ),
        CorpusExample("3", "Where is A & B ?", "answer(m0)", Place(path, 18)),
    ]


def test_a_compressed_corpus_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "corpus.xml.gz"
    path.write_bytes(gzip.compress(corpus(example("7")).encode()))
    assert [found.id for found in read_corpus(path)] == ["7"]


def test_an_entity_declaration_is_refused_before_anything_grows(tmp_path: Path) -> None:
    laughs = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    path = written(tmp_path, corpus(example("0", "&b;"), declarations=laughs))
    with pytest.raises(FormatError) as caught:
        read_corpus(path)
    message = (
        "found an entity declaration ('a'), expected a document type of elements alone"
    )
    assert str(caught.value) == f"{path}:2: {message}"


def test_no_other_file_is_opened(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret").rename(tmp_path / "secret")
    declared = f'<!ENTITY other SYSTEM "file://{secret}">'
    with pytest.raises(
        FormatError, match=r"corpus.xml:2: found an entity declaration \('other'\)"
    ):
        read_corpus(
            written(tmp_path, corpus(example("0", "&other;"), declarations=declared))
        )


def test_an_entity_from_an_external_document_type_is_refused_not_dropped(
    tmp_path: Path,
) -> None:
    text = corpus(example("0", "How &big; is Ohio ?")).replace(
        "DOCTYPE examples [", 'DOCTYPE examples SYSTEM "x.dtd" ['
    )
    with pytest.raises(
        FormatError,
        match=r"corpus.xml:6: found an undeclared entity \('big'\), expected plain text",
    ):
        read_corpus(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "corpus.xml:1: bad XML: no element found"),
        ("plain text", "corpus.xml:1: bad XML: syntax error"),
        ("<examples>\n<example>", "corpus.xml:2: found an example without an id"),
        (
            '<examples>\n<example id="0">\n',
            "corpus.xml:2: bad XML: no element found; expected well-formed XML, perhaps the file was cut off",
        ),
        ("<examples>\n</example>", "corpus.xml:2: bad XML: mismatched tag"),
        ("<examples>&nothing;</examples>", "corpus.xml:1: bad XML: undefined entity"),
        (
            corpus(example("0"), example("0")),
            "corpus.xml:18: found the id '0' again, expected an id of its own",
        ),
        (
            corpus(example("5", " ")),
            'corpus.xml:4: example 5 has no text in <nl lang="en">, expected one',
        ),
        (
            corpus(example("5", program="")),
            'corpus.xml:4: example 5 has no text in <mrl lang="geo-funql">, expected one',
        ),
    ],
)
def test_a_bad_corpus_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        read_corpus(written(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"corpus.xml: no such file"):
        read_corpus(tmp_path / "corpus.xml")


def test_deeply_nested_elements_do_no_harm(tmp_path: Path) -> None:
    deep = "<x>" * 20_000 + "</x>" * 20_000
    assert len(read_corpus(written(tmp_path, corpus(deep, example("0"))))) == 1


def test_the_published_corpus_has_880_examples_numbered_from_0(real_data: Path) -> None:
    examples = read_corpus(real_data / "geoquery" / "corpus.xml")
    assert [found.id for found in examples] == [str(number) for number in range(880)]
    assert examples[0].sentence == "Give me the cities in Virginia ."
