"""What runs begin with: compared in words, and kept as plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import nqg
from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.induction.settings import InductionSettings
from nqg.run_config import DataFingerprint, RunConfig, sha256

PAIRS = [
    Example("jump", "J"),
    Example("jump twice", "J J"),
    Example("walk twice", "W W"),
]
SCAN = InductionSettings.named("scan")
CONFIG = RunConfig.of(
    "induction",
    PAIRS,
    SCAN,
    seed_rules=["jump ### J"],
    grammar_sha256=sha256("jump ### J"),
)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (
            RunConfig.of("training", PAIRS, SCAN),
            "it belongs to a run of training, not of induction",
        ),
        (
            replace(CONFIG, data=DataFingerprint.of(PAIRS[1:])),
            "the examples differ: 2 with SHA-256",
        ),
        (
            replace(CONFIG, data=DataFingerprint.of(PAIRS[::-1])),
            "the examples differ: 3 with SHA-256",
        ),
        (
            replace(CONFIG, settings={**CONFIG.settings, "shortest": None}),
            "shortest was None there and is 500 here",
        ),
        (
            replace(CONFIG, settings={}),
            "terminal_bits was unknown there and is 32.0 here",
        ),
        (
            replace(CONFIG, extra={**CONFIG.extra, "seed_rules": []}),
            "the seed rules differ: 0 there, 1 here",
        ),
        (
            replace(CONFIG, extra={**CONFIG.extra, "processes": 2}),
            "processes was 2 there and is unknown here",
        ),
        (
            replace(CONFIG, nqg_version="0.0.9"),
            f"it was made by nqg 0.0.9, this is nqg {nqg.__version__}",
        ),
    ],
)
def test_configurations_differ_for_a_reason(other: RunConfig, difference: str) -> None:
    assert difference in (CONFIG.difference(other) or "")


def test_equal_configurations_do_not_differ_whatever_their_data_is_called() -> None:
    assert (
        CONFIG.difference(replace(CONFIG, data=DataFingerprint.of(PAIRS, "train.tsv")))
        is None
    )


def test_a_configuration_survives_a_round_trip_through_json() -> None:
    assert RunConfig.from_dict(json.loads(json.dumps(CONFIG.to_dict()))) == CONFIG


def test_values_that_are_not_a_configuration_are_refused_with_their_place() -> None:
    with pytest.raises(
        FormatError, match=r"state\.json: .*'data' of the configuration of a run"
    ):
        RunConfig.from_dict(CONFIG.to_dict() | {"data": 3}, Path("state.json"))
    with pytest.raises(
        FormatError, match="the key 'kind' of the configuration of a run is missing"
    ):
        RunConfig.from_dict({})


def test_every_input_is_part_of_the_fingerprint() -> None:
    others = [
        replace(CONFIG, kind="training"),
        replace(CONFIG, data=DataFingerprint.of(PAIRS[1:])),
        replace(CONFIG, settings={}),
        replace(CONFIG, extra={}),
        replace(CONFIG, nqg_version="0.0.9"),
    ]
    assert len({each.fingerprint for each in [CONFIG, *others]}) == 6
    assert RunConfig.from_dict(CONFIG.to_dict()).fingerprint == CONFIG.fingerprint
