"""The home assistant's utterances: enough of them, all values of the test new."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nqg.data.example import Example
from nqg.data.example_files import read_examples

FOLDER = Path(__file__).parents[2] / "examples" / "home_assistant"
OPEN = "artist|city|date|degrees|duration|item|percent|song|text|time|title|to"  # arguments with values of any kind


def values(example: Example) -> set[tuple[str, str]]:
    found = re.findall(rf'\b({OPEN})=(?:"([^"]*)"|([\d.]+))', example.target)
    return {(name, quoted or number) for name, quoted, number in found}


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_test_utterance_has_a_value_and_none_that_training_has(
    language: str,
) -> None:
    train, test = (
        read_examples(FOLDER / language / f"{part}.tsv") for part in ("train", "test")
    )
    assert len(train) >= 100
    assert len(test) >= 60
    known = {value for example in train for value in values(example)}
    assert all(values(example) for example in test)
    assert [
        (example.source, seen) for example in test if (seen := values(example) & known)
    ] == []
    assert not {example.source.lower() for example in train} & {
        example.source.lower() for example in test
    }
