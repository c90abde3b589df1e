"""Where a model comes from, as JSON and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.model.checkpoint import (
    KEPT_SENTENCES,
    LONGEST_KEPT_SENTENCE,
    Measurement,
    Provenance,
    read_records,
    record_lines,
)
from nqg.model.settings import TrainingSettings
from nqg.run_config import DataFingerprint
from nqg.settings_reader import read_dataclass

PLACE = Path("nqg.json")
EXAMPLES = [Example("jump", "J"), Example("walk", "W")]
WHOLE = Provenance(
    DataFingerprint.of(EXAMPLES, "train.tsv"),
    {"steps": 3, "learning_rate": None},
    (),
    (
        Measurement(
            DataFingerprint.of(EXAMPLES[:1]), {"exact_match": 1.0, "precision": None}
        ),
    ),
)

names = st.text(min_size=1, max_size=5)
prints = st.builds(
    DataFingerprint,
    st.integers(0, 10**6),
    st.text("0123456789abcdef"),
    st.text(max_size=5),
)
scores = st.dictionaries(names, st.none() | st.floats(0, 1), max_size=3)
settings = st.dictionaries(
    names, st.none() | st.integers() | st.floats(0, 1) | st.text(max_size=3), max_size=3
)
provenances = st.builds(
    Provenance,
    st.none() | prints,
    settings,
    st.just(()),
    st.lists(st.builds(Measurement, prints, scores), max_size=2).map(tuple),
    st.lists(names, max_size=3).map(tuple),
)


@given(provenances)
def test_facts_survive_a_round_trip_through_json(provenance: Provenance) -> None:
    facts = json.loads(json.dumps(provenance.to_dict()))
    assert read_dataclass(Provenance, facts, "'provenance'", PLACE) == provenance


def test_a_fingerprint_tells_examples_and_their_order_apart() -> None:
    assert DataFingerprint.of(EXAMPLES) == DataFingerprint.of(list(EXAMPLES))
    assert DataFingerprint.of(EXAMPLES) != DataFingerprint.of(EXAMPLES[::-1])
    assert DataFingerprint.of(EXAMPLES).examples == 2


def test_a_training_is_described_by_its_data_settings_and_steps() -> None:
    made = Provenance.of(
        EXAMPLES, TrainingSettings(steps=7), [{"step": 1, "loss": 0.5}]
    )
    assert made.data == DataFingerprint.of(EXAMPLES)
    assert made.training["steps"] == 7
    assert made.records == ({"step": 1, "loss": 0.5},)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": "red"}, "no key of 'provenance' 'colour'"),
        ({"data": 5}, "expected an object as 'data' of 'provenance', found 5"),
        ({"data": {"examples": 5}}, r"the key 'fingerprint' of \[data\] is missing"),
        (
            {"data": {"examples": "x", "fingerprint": "", "name": ""}},
            r"expected an integer as 'examples' of \[data\], found 'x'",
        ),
        ({"training": []}, "expected an object as 'training' of 'provenance'"),
        ({"sentences": 5}, "expected a list as 'sentences' of 'provenance', found 5"),
        ({"measurements": {}}, "expected a list as 'measurements' of 'provenance'"),
        (
            {"measurements": [5]},
            "expected an object as entry 0 of 'measurements' of 'provenance', found 5",
        ),
    ],
)
def test_facts_that_do_not_fit_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(FormatError, match=f"nqg.json: {words}"):
        read_dataclass(Provenance, WHOLE.to_dict() | change, "'provenance'", PLACE)


def test_no_facts_at_all_are_refused() -> None:
    with pytest.raises(
        FormatError, match="expected an object as 'provenance', found None"
    ):
        read_dataclass(Provenance, None, "'provenance'", PLACE)


def test_records_are_lines_of_json(tmp_path: Path) -> None:
    records = ({"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25, "dev": None})
    (tmp_path / "training.jsonl").write_text(record_lines(records))
    assert read_records(tmp_path / "training.jsonl") == records
    (tmp_path / "training.jsonl").write_text('{"step": 1}\n[]\n')
    with pytest.raises(FormatError, match=r"training\.jsonl:2: expected a JSON object"):
        read_records(tmp_path / "training.jsonl")


@given(
    st.lists(
        st.text("ab ", min_size=1).map(lambda text: f"{text}a")
        | st.just("a " * 150 + "b"),
        max_size=60,
    )
)
def test_a_model_keeps_a_few_short_sentences_each_once(sources: list[str]) -> None:
    examples = [Example(source, "X") for source in sources]
    kept = Provenance.of(examples, TrainingSettings()).sentences
    short = {each for each in sources if len(each) <= LONGEST_KEPT_SENTENCE}
    assert len(kept) == len(set(kept)) == min(KEPT_SENTENCES, len(short))
    assert set(kept) <= set(sources)
    assert [len(each.split()) for each in kept] == sorted(
        len(each.split()) for each in kept
    )
