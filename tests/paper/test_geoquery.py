"""GeoQuery converted exactly as the authors did, and restored exactly as the corpus has it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from funql_inverse import restored
from geobase_rows import geobase_of
from nqg.errors import FormatError
from nqg.paper.funql import Entity, EntityKind
from nqg.paper.geoquery import (
    AnonymisedExample,
    CorpusExample,
    EntityNames,
    anonymised_example,
    load_anonymised,
    load_geoquery,
    read_corpus,
)

NAMES = EntityNames.of(
    geobase_of(
        (
            "state",
            "texas",
            "tx",
            "austin",
            1,
            1,
            28,
            *("houston", "dallas", "san antonio", "fort worth"),
        ),
        (
            "state",
            "colorado",
            "co",
            "denver",
            1,
            1,
            38,
            *("denver", "colorado springs", "aurora", "lakewood"),
        ),
        (
            "state",
            "new mexico",
            "nm",
            "santa fe",
            1,
            1,
            47,
            *("albuquerque", "santa fe", "las cruces", "roswell"),
        ),
        (
            "state",
            "utah",
            "ut",
            "salt lake city",
            1,
            1,
            45,
            *("salt lake city", "provo", "west valley city", "ogden"),
        ),
        ("city", "texas", "tx", "austin", 345_496),
        ("river", "colorado", 2333, ("colorado", "utah")),
        ("country", "usa", 1, 1),
    )
)


def texts(converted: AnonymisedExample) -> tuple[str, str, list[str]]:
    return (
        converted.example.source,
        converted.example.target,
        [str(entity) for entity in converted.entities],
    )


def test_a_pair_is_anonymised_on_both_sides() -> None:
    assert texts(
        anonymised_example(
            "How many people live in Austin Texas ?",
            "answer(population_1(cityid('austin', 'tx')))",
            NAMES,
        )
    ) == (
        "how many people live in m0",
        "answer ( population_1 ( m0 ) )",
        ["cityid('austin', 'tx')"],
    )


def test_entities_are_numbered_from_the_longest_name() -> None:
    program = "answer(state(intersection(next_to_2(stateid('colorado')), next_to_2(stateid('new mexico')))))"
    source, target, entities = texts(
        anonymised_example("What borders Colorado and New Mexico ?", program, NAMES)
    )
    assert source == "what borders m1 and m0"
    assert (
        target
        == "answer ( intersection ( state , intersection ( next_to_2 ( m1 ) , next_to_2 ( m0 ) ) ) )"
    )
    assert entities == ["stateid('new mexico')", "stateid('colorado')"]


def test_the_country_counts_by_its_short_name() -> None:
    program = "answer(intersection(state(loc_2(countryid('usa'))), loc_1(cityid('austin', _))))"
    assert texts(
        anonymised_example("States in the United States with Austin ?", program, NAMES)
    )[0] == ("states in the m1 with m0")


def test_equally_long_names_are_numbered_from_left_to_right() -> None:
    program = "answer(exclude(cityid('austin', _), cityid('dallas', _)))"
    source, target, _ = texts(
        anonymised_example("Dallas without Austin", program, NAMES)
    )
    assert (source, target) == ("m0 without m1", "answer ( exclude ( m1 , m0 ) )")


def test_a_name_that_the_program_does_not_use_stays_in_the_sentence() -> None:
    converted = anonymised_example(
        "What is the biggest city in the USA ?", "answer(largest(city(all)))", NAMES
    )
    assert texts(converted) == (
        "what is the biggest city in the usa",
        "answer ( largest ( city ) )",
        [],
    )


def test_an_entity_keeps_its_number_wherever_it_occurs() -> None:
    program = "answer(exclude(state(next_to_2(stateid('utah'))), stateid('utah')))"
    source, target, entities = texts(
        anonymised_example("States next to Utah but not Utah", program, NAMES)
    )
    assert (source, entities) == ("states next to m0 but not m0", ["stateid('utah')"])
    assert (
        target
        == "answer ( exclude ( intersection ( state , next_to_2 ( m0 ) ) , m0 ) )"
    )


def test_two_entities_of_one_name_take_its_mentions_in_turn() -> None:
    program = "answer(intersection(riverid('colorado'), river(traverse_2(stateid('colorado')))))"
    source, _, entities = texts(
        anonymised_example("Does the Colorado cross Colorado ?", program, NAMES)
    )
    assert (source, entities) == (
        "does the m0 cross m1",
        ["riverid('colorado')", "stateid('colorado')"],
    )


@pytest.mark.parametrize(
    ("sentence", "program", "message"),
    [
        (
            "How big is it ?",
            "answer(size(stateid('utah')))",
            "the program names stateid('utah'), which the sentence 'how",
        ),
        (
            " ? ",
            "answer(state(all))",
            "found no word in the sentence ' ? ', expected at least one",
        ),
        (
            "How big is m0 ?",
            "answer(state(all))",
            "found the word 'm0' in a sentence; it is reserved for placeholders",
        ),
        (
            "How big ?",
            "answer(size(m0))",
            "found the placeholder m0 in a program of the corpus, expected an entity",
        ),
        (
            "How big ?",
            "answer(size(state(all))",
            "position 24: found the end of the program",
        ),
        ("How big ?", "answer(size(state))", "found the bare name 'state'"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(
    sentence: str, program: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        anonymised_example(sentence, program, NAMES)
    assert str(caught.value).startswith(message)


def test_a_bad_example_is_refused_with_its_place_in_the_corpus(tmp_path: Path) -> None:
    corpus, geobase = tmp_path / "corpus.xml", tmp_path / "geobase"
    geobase.write_text("country('usa',1,1).")
    pair = '<nl lang="en">How big ?</nl><mrl lang="geo-funql">answer(</mrl>'
    corpus.write_text(f'<examples>\n<example id="4">{pair}</example></examples>')
    with pytest.raises(
        FormatError,
        match=r"corpus.xml:2: example 4: position 8: found the end of the program",
    ):
        load_geoquery(corpus, geobase)


def test_a_placeholder_without_an_entity_is_refused() -> None:
    with pytest.raises(FormatError, match="found m1, but the sentence binds m0"):
        restored("answer ( size ( m1 ) )", [Entity(EntityKind.STATE, "utah")])
    with pytest.raises(
        FormatError, match="found m0, but the sentence binds no placeholder"
    ):
        restored("answer ( size ( m0 ) )", [])


@pytest.fixture(scope="module")
def corpus(real_data: Path) -> list[CorpusExample]:
    return read_corpus(real_data / "geoquery" / "corpus.xml")


@pytest.fixture(scope="module")
def dataset(real_data: Path) -> list[AnonymisedExample]:
    return load_anonymised(
        real_data / "geoquery" / "corpus.xml", real_data / "geoquery" / "geobase"
    )


def original_program(converted: AnonymisedExample) -> str:
    return restored(converted.example.target, converted.entities)


@pytest.mark.parametrize("geobase", ["geobase", "geobase_with_header"])
def test_the_authors_conversion_is_reproduced_line_by_line(
    real_data: Path, geobase: str
) -> None:
    examples = load_geoquery(
        real_data / "geoquery" / "corpus.xml", real_data / "geoquery" / geobase
    )
    lines = "".join(f"{example.source}\t{example.target}\n" for example in examples)
    assert lines == (real_data / "geoquery" / "expected_dataset.tsv").read_text()
    assert [example.id for example in examples] == [
        str(number) for number in range(880)
    ]


def test_all_programs_of_the_corpus_are_restored(
    corpus: list[CorpusExample], dataset: list[AnonymisedExample]
) -> None:
    with_even_commas = [re.sub(r"\s*,\s*", ", ", example.program) for example in corpus]
    assert [original_program(converted) for converted in dataset] == with_even_commas


def test_only_three_programs_of_the_corpus_have_uneven_white_space(
    corpus: list[CorpusExample], dataset: list[AnonymisedExample]
) -> None:
    uneven = [
        example.id
        for example, converted in zip(corpus, dataset, strict=True)
        if example.program != original_program(converted)
    ]
    assert uneven == ["139", "165", "787"]


@pytest.mark.parametrize(
    ("split", "train", "test"),
    [
        ("standard", 600, 280),
        ("template_1", 441, 439),
        ("length_1", 440, 440),
        ("tmcd_1", 440, 440),
    ],
)
def test_the_published_splits_divide_the_dataset(
    real_data: Path, dataset: list[AnonymisedExample], split: str, train: int, test: int
) -> None:
    published = json.loads(
        (real_data / "geoquery" / "splits" / f"{split}.json").read_text()
    )
    assert (len(published["train"]), len(published["test"])) == (train, test)
    assert sorted(published["train"] + published["test"]) == list(range(len(dataset)))
