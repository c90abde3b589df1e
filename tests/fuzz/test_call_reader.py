"""Hostile counts and words of strangers: a call reader refuses the first, and bounds the second."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from nqg.errors import NqgError
from nqg.model.call_reader import CallReader
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.training.call_alignment import fit_call_reader

ANIMALS = ("cows", "pigs", "hens", "sheep", "goats")
PAIRS = [
    *((f"feed the {name}", f'feed(animals="{name}")') for name in ANIMALS),
    *(
        (f"give the {name} hay", f'feed(animals="{name}", feed="hay")')
        for name in ANIMALS
    ),
    *(
        (f"remind me to {task}", f'remind(task="{task}")')
        for task in ("fix the fence", "call Tom", "buy diesel", "clean up")
    ),
    ("stop everything", "stop_all()"),
    ("stop it all now", "stop_all()"),
]
TEXT = Preprocessor.fit(PAIRS)
READER = fit_call_reader(TEXT.tokenized_pairs(PAIRS), TEXT.slots.free_text)
SENTENCES = ("feed the cows", "remind me to paint tractors", "stop everything")


def order_without_names(reader: dict[str, Any]) -> None:
    """A constant that no order names."""
    for function in reader["functions"].values():
        function["order"] = []
    reader["forms"][0]["constants"] = {"x": "1"}


def counts_at_the_edge_of_floats(reader: dict[str, Any]) -> None:
    """Counts beside which smoothing vanishes."""
    for function in reader["functions"].values():
        function["count"] = (1 << 51) + 1
        function["uses"] = dict.fromkeys(function["uses"], (1 << 51) + 1)


def verbatim_without_bound(reader: dict[str, Any]) -> None:
    """Counts that no float holds."""
    for argument in reader["arguments"].values():
        argument["verbatim"] = 10**400


def empty_tokens(reader: dict[str, Any]) -> None:
    """Names and constants that are empty."""
    for form in reader["forms"]:
        if form["function"] == "stop_all":
            form["constants"] = {"": ""}
    reader["functions"]["stop_all"]["order"] = [""]


@pytest.mark.parametrize(
    "harm",
    [
        order_without_names,
        counts_at_the_edge_of_floats,
        verbatim_without_bound,
        empty_tokens,
    ],
)
def test_a_hostile_file_is_refused_or_read(
    harm: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    assert READER
    values = json.loads(json.dumps(asdict(READER)))
    harm(values)
    path = tmp_path / "calls.json"
    path.write_text(json.dumps(values))
    try:
        reader = CallReader.read(path)
    except NqgError:
        return
    for sentence in SENTENCES:
        read = TEXT.tokenized(sentence)[0]
        mentions = TEXT.slots.mentions(read)
        found = reader.readings(
            read.words, read.words_as_written, mentions, TEXT.slots.free_text
        )
        for reading in found:
            TEXT.program(reading.tokens, read.words)


def test_words_of_strangers_do_not_fill_memory() -> None:
    assert READER
    reader = replace(READER)
    for number in range(2_000):
        word = f"{number}" + "z" * 9_000
        reader.readings([word], [word], [], ())
    kept = sum(map(len, reader._known)) + sum(map(len, reader._known.values()))
    assert kept < 1 << 20


def test_threads_may_share_a_reader() -> None:
    assert READER
    reader = replace(READER)

    class Cleared(dict[str, str]):
        """What another thread does at the worst moment."""

        def __setitem__(self, key: str, value: str) -> None:
            super().__setitem__(key, value)
            self.clear()

    reader.__dict__["_known"] = Cleared()
    assert reader._taken_for("zebra") == "zebra"
