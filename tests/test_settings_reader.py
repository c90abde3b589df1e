"""Plain values become dataclasses as the annotations say; what does not fit is refused with place, table and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from nqg.errors import FormatError, NqgError, Place, SettingsError
from nqg.settings_reader import changed_settings, read_dataclass


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Wheel:
    size: float
    spokes: int = 32

    def __post_init__(self) -> None:
        if self.spokes < 0:
            raise SettingsError(f"spokes is {self.spokes}; expected 0 or more")


@dataclass(frozen=True)
class Bicycle:
    name: str
    wheel: Wheel
    gears: tuple[int, ...] = ()
    colour: Colour = Colour.RED
    brake: Literal["disc", "rim"] = "rim"
    spare: Wheel | None = None
    price: float | str | None = None
    notes: Mapping[str, float] = field(default_factory=dict)
    rest: Any = None


LEAST = {"name": "mine", "wheel": {"size": 28}}


def test_a_dataclass_is_read_with_all_that_lies_in_it() -> None:
    values = LEAST | {
        "gears": [1, 2],
        "colour": "blue",
        "brake": "disc",
        "spare": {"size": 26.5, "spokes": 28},
        "price": "unknown",
        "notes": {"weight": 9},
        "rest": [None],
    }
    assert read_dataclass(Bicycle, values, "the bicycle") == Bicycle(
        "mine",
        Wheel(28.0),
        (1, 2),
        Colour.BLUE,
        "disc",
        Wheel(26.5, 28),
        "unknown",
        {"weight": 9.0},
        [None],
    )
    assert read_dataclass(
        Bicycle, LEAST | {"spare": None, "price": 3}, "it"
    ) == Bicycle("mine", Wheel(28.0), price=3.0)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (3, "expected an object as the bicycle, found 3"),
        (
            {"name": "mine"},
            "the key 'wheel' of the bicycle is missing; expected an object",
        ),
        (LEAST | {"gear": 3}, "no key of the bicycle 'gear'; did you mean 'gears'?"),
        (LEAST | {"name": 3}, "expected a string as 'name' of the bicycle, found 3"),
        (LEAST | {"wheel": 3}, "expected an object as 'wheel' of the bicycle, found 3"),
        (
            LEAST | {"wheel": {"size": True}},
            "expected a number as 'size' of [wheel], found True",
        ),
        (
            LEAST | {"wheel": {"size": float("nan")}},
            "expected a number as 'size' of [wheel], found nan",
        ),
        (
            LEAST | {"wheel": {"size": 10**400}},
            "expected a number as 'size' of [wheel], found 1000",
        ),
        (
            LEAST | {"wheel": {"size": 1, "spokes": -1}},
            "[wheel]: spokes is -1; expected 0 or more",
        ),
        (
            LEAST | {"spare": {"size": "big"}},
            "expected a number as 'size' of [spare], found 'big'",
        ),
        (
            LEAST | {"gears": [1, 2.5]},
            "expected an integer as entry 1 of 'gears' of the bicycle, found 2.5",
        ),
        (LEAST | {"gears": 3}, "expected a list as 'gears' of the bicycle, found 3"),
        (
            LEAST | {"colour": "pink"},
            "expected one of red, blue as 'colour' of the bicycle, found 'pink'",
        ),
        (
            LEAST | {"brake": []},
            "expected one of disc, rim as 'brake' of the bicycle, found []",
        ),
        (
            LEAST | {"price": [3]},
            "expected a number or a string as 'price' of the bicycle, found [3]",
        ),
        (
            LEAST | {"notes": {"weight": "9"}},
            "expected a number as 'weight' of [notes], found '9'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(values: object, complaint: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_dataclass(Bicycle, values, "the bicycle", Place(Path("mine.json"), 3))
    assert str(caught.value).startswith(f"mine.json:3: {complaint}")


def test_a_file_that_we_wrote_ourselves_has_every_key() -> None:
    with pytest.raises(
        FormatError,
        match="the key 'spokes' of the wheel is missing; expected an integer",
    ):
        read_dataclass(Wheel, {"size": 3}, "the wheel", complete=True)


MINE = Bicycle("mine", Wheel(28.0), price=500.0)


def test_changes_reach_fields_of_nested_settings_and_leave_the_rest() -> None:
    changes = [
        "wheel.spokes=36",
        "gears=[1, 2]",
        "colour=blue",
        "name=yours",
        "price=none",
        "spare.size=26",
    ]
    assert changed_settings(MINE, changes) == Bicycle(
        "yours", Wheel(28.0, 36), (1, 2), Colour.BLUE, price=None, spare=Wheel(26.0)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "wheel.spoke=3",
            "no setting 'wheel.spoke'; did you mean 'wheel.spokes'? Known: wheel.size, wheel.spokes",
        ),
        ("wheels.size=3", "no setting 'wheels'; did you mean 'wheel'?"),
        ("wheel.spokes=many", "expected an integer as 'wheel.spokes', found 'many'"),
        ("wheel.spokes=-1", "spokes is -1; expected 0 or more"),
        (
            "wheel",
            "'wheel' changes nothing; expected NAME=VALUE, as in training.steps=200",
        ),
        ("wheel.size.unit=3", "expected a number as 'wheel.size', found {'unit': 3}"),
    ],
)
def test_a_change_that_makes_no_sense_is_misuse_and_says_what_was_expected(
    change: str, message: str
) -> None:
    with pytest.raises(NqgError) as raised:
        changed_settings(MINE, [change])
    assert str(raised.value).startswith(message)
    assert raised.value.exit_code == 2
