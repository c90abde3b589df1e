"""Geobase as classes, relations and measures: what the facts say and what the published answers add."""

from __future__ import annotations

from pathlib import Path

import pytest

from geobase_rows import geobase_of
from nqg.paper.denotations import KINDS
from nqg.paper.funql import Entity, EntityKind
from nqg.paper.geobase import Geobase, Geography, read_geobase

USA = Entity(EntityKind.COUNTRY, "usa")


@pytest.fixture(scope="module")
def geobase(real_data: Path) -> Geobase:
    return read_geobase(real_data / "geoquery" / "geobase")


@pytest.fixture(scope="module")
def geography(geobase: Geobase) -> Geography:
    return Geography.of(geobase)


def test_classes_hold_the_things_of_the_facts(
    geobase: Geobase, geography: Geography
) -> None:
    sizes = {name: len(things) for name, things in geography.classes.items()}
    assert sizes["state"] == len(geobase["state"]) == sizes["capital"]
    assert sizes["city"] == len(
        {(name, abbreviation) for _, abbreviation, name, _ in geobase["city"]}
    )
    assert sizes["river"] == len({name for name, *_ in geobase["river"]})
    assert sizes["lake"] == len(geobase["lake"])


def test_a_mountain_with_two_names_is_one(
    geobase: Geobase, geography: Geography
) -> None:
    names = {other.name: entity.name for other, entity in geography.other_names.items()}
    assert names == {
        name: f"mount {name}" for name in ("mckinley", "whitney", "elbert", "rainier")
    }
    highest = {row[2] for row in geobase["highlow"]}
    listed = {row[2] for row in geobase["mountain"]}
    assert len(geography.classes["mountain"]) == len(highest) + len(listed) - len(names)
    mckinley = Entity(EntityKind.PLACE, "mckinley")
    assert geography.named(mckinley) == {Entity(EntityKind.PLACE, "mount mckinley")}
    assert all(mckinley not in things for things in geography.classes.values())


def test_relations_lead_both_ways(geography: Geography) -> None:
    for name in ("loc", "traverse", "next_to", "capital", "high_point", "low_point"):
        forwards, backwards = (
            geography.relations[f"{name}_1"],
            geography.relations[f"{name}_2"],
        )
        there = {(left, right) for left, rights in forwards.items() for right in rights}
        back = {(left, right) for right, lefts in backwards.items() for left in lefts}
        assert there == back


def test_borders_are_the_same_from_both_sides(geography: Geography) -> None:
    assert geography.relations["next_to_1"] == geography.relations["next_to_2"]


def test_everything_but_unlisted_capitals_lies_in_the_country(
    geography: Geography,
) -> None:
    everything = {
        thing
        for name, things in geography.classes.items()
        if name != "capital"
        for thing in things
    }
    assert geography.relations["loc_2"][USA] == everything


def test_every_relation_and_measure_says_what_it_is_about(geography: Geography) -> None:
    for name, table in {**geography.relations, **geography.measures}.items():
        assert {thing.kind for thing in table} <= set(KINDS[name])
    assert KINDS.keys() == geography.relations.keys() | geography.measures.keys()


def test_only_cities_and_rivers_are_major(geography: Geography) -> None:
    assert {thing.kind for thing in geography.classes["major"]} == {
        EntityKind.CITY,
        EntityKind.RIVER,
    }
    assert Entity(EntityKind.RIVER, "delaware") not in geography.classes["major"]


def test_the_country_has_a_population_an_area_and_a_density(
    geobase: Geobase, geography: Geography
) -> None:
    ((_, population, area),) = geobase["country"]
    assert geography.measures["population_1"][USA] == {population}
    assert geography.measures["density_1"][USA] == {population / area}


def test_a_low_point_may_have_several_elevations(geography: Geography) -> None:
    mississippi = Entity(EntityKind.PLACE, "mississippi river")
    assert len(geography.relations["low_point_2"][mississippi]) == 4
    assert len(geography.measures["elevation_1"][mississippi]) > 1


def test_an_empty_geobase_is_an_empty_geography() -> None:
    empty = Geography.of(geobase_of())
    assert not any(empty.classes.values())
    assert not any(empty.relations.values())
    assert empty.named(Entity(EntityKind.CITY, "austin")) == frozenset()
