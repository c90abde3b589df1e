"""Geobase becomes typed facts, whichever published form it comes in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nqg.errors import FormatError
from nqg.paper.geobase import Geobase, read_geobase

SMALL = """/* state(name, abbreviation, …) */
state('maine','me','augusta',1125.0e+3,33265,23,'portland','lewiston','bangor','auburn').
city('maine','me','portland',61572).
river('red',1638,['new mexico','texas','oklahoma','arkansas','arkansas','louisiana']).
border('alaska','ak',[]).
highlow('california','ca','mount whitney',4418,'death valley',-85).
mountain('alaska','ak','mckinley',6194).
road('8',['arizona','california']).
lake('red',1169,['minnesota']).
country('usa',307890000,9826675).
"""


def geobase(folder: Path, text: str) -> Geobase:
    path = folder / "geobase"
    path.write_text(text)
    return read_geobase(path)


def test_every_kind_of_fact_keeps_all_its_fields(tmp_path: Path) -> None:
    states = ("new mexico", "texas", "oklahoma", "arkansas", "arkansas", "louisiana")
    cities = ("portland", "lewiston", "bangor", "auburn")
    assert geobase(tmp_path, SMALL) == {
        "state": [("maine", "me", "augusta", 1_125_000, 33_265, 23, *cities)],
        "city": [("maine", "me", "portland", 61_572)],
        "river": [("red", 1638, states)],
        "border": [("alaska", "ak", ())],
        "highlow": [("california", "ca", "mount whitney", 4418, "death valley", -85)],
        "mountain": [("alaska", "ak", "mckinley", 6194)],
        "road": [("8", ("arizona", "california"))],
        "lake": [("red", 1169, ("minnesota",))],
        "country": [("usa", 307_890_000, 9_826_675)],
    }


def test_a_compressed_geobase_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "geobase.gz"
    path.write_bytes(gzip.compress(SMALL.encode()))
    assert read_geobase(path) == geobase(tmp_path, SMALL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "citi('maine').",
            "geobase:1: no geobase fact 'citi'; did you mean 'city'? Known: border, city,",
        ),
        ("\ncity('maine','me').", "geobase:2: city has 2 arguments, expected 4"),
        (
            "city('maine','me','portland','many').",
            "geobase:1: argument 4 of city is 'many', expected a number",
        ),
        ("road(8,['ohio']).", "geobase:1: argument 1 of road is 8, expected a name"),
        (
            "road('8','ohio').",
            "geobase:1: argument 2 of road is 'ohio', expected a list of names",
        ),
        (
            "border('a','b',['c']",
            "geobase:1: found the end of the file, expected ',' or ')'",
        ),
    ],
)
def test_a_bad_fact_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        geobase(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_both_published_forms_hold_the_same_facts(real_data: Path) -> None:
    plain = read_geobase(real_data / "geoquery" / "geobase")
    with_header = read_geobase(real_data / "geoquery" / "geobase_with_header")
    assert plain == with_header


def test_the_published_facts_are_all_there(real_data: Path) -> None:
    facts = read_geobase(real_data / "geoquery" / "geobase")

    counts = {kind: len(rows) for kind, rows in facts.items()}
    expected = {
        "city": 386,
        "state": 51,
        "border": 51,
        "highlow": 51,
        "mountain": 50,
        "river": 46,
        "road": 40,
        "lake": 22,
        "country": 1,
    }
    assert counts == expected
    populations = {name: population for name, _, _, population, *_ in facts["state"]}
    assert populations["montana"] == 786_700
