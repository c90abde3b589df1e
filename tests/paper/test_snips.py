"""SNIPS as programs; files of another shape are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.paper.datasets import load_snips


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_an_utterance_becomes_an_intent_with_its_slots_in_their_order(
    tmp_path: Path,
) -> None:
    chunks = [
        {"text": "Play "},
        {"text": 'the "best" ', "entity": "sort"},
        {"text": "of  Queen", "entity": "artist"},
    ]
    path = written(tmp_path / "train.json", {"PlayMusic": [{"data": chunks}]})
    assert load_snips(path) == [
        Example(
            'Play the "best" of Queen',
            'play_music(sort="the \\"best\\"", artist="of Queen")',
            "train-0",
        )
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected an object as the utterances, found []"),
        ({"A": [], "B": []}, "expected the utterances of one intent, found 2 intents"),
        (
            {"A": [{"dat": []}]},
            "no key of entry 0 of 'A' of the utterances 'dat'; did you mean 'data'? Known: data",
        ),
        (
            {"A": [{"data": [{"entity": "x"}]}]},
            "the key 'text' of entry 0 of 'data' of entry 0 of 'A' of the utterances is missing; expected a string",
        ),
    ],
)
def test_another_shape_is_refused(tmp_path: Path, value: object, message: str) -> None:
    path = written(tmp_path / "train.json", value)
    with pytest.raises(FormatError) as caught:
        load_snips(path)
    assert str(caught.value) == f"{path}: {message}"


def test_no_value_of_snips_is_missing_from_its_utterance(real_data: Path) -> None:
    for intent in ("PlayMusic", "GetWeather"):
        paths = [
            real_data / "snips" / f"{part}_{intent}.json"
            for part in ("train", "validate")
        ]
        examples = load_snips(*paths)
        assert len(examples) == 400
        for example in examples:
            assert all(
                value in example.source for value in example.target.split('"')[1::2]
            )
