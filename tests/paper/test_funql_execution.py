"""Every predicate of FunQL on a country small enough to check by eye, and the words for programs that mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from geobase_rows import geobase_of, names_of
from nqg.paper.denotations import NotExecutable, denotation, executed
from nqg.paper.funql import Application, Entity, EntityKind, Name, Term
from nqg.paper.geobase import Geography
from oracles import denoted

# Hilly borders Flat; Isle borders nobody. Flat and Isle are equally large; two cities are called Twin.
SMALL = Geography.of(
    geobase_of(
        (
            "state",
            "hilly",
            "hy",
            "top",
            2e6,
            100.0,
            1,
            *("top", "twin", "slope", "steep"),
        ),
        (
            "state",
            "flat",
            "ft",
            "plain",
            3e6,
            50.0,
            2,
            *("plain", "twin", "even", "level"),
        ),
        ("state", "isle", "ie", "port", 1e5, 50.0, 3, *("port", "bay", "cape", "cove")),
        ("city", "hilly", "hy", "top", 400_000),
        ("city", "hilly", "hy", "twin", 90_000),
        ("city", "flat", "ft", "twin", 200_000),
        ("river", "long", 2000, ("hilly", "flat")),
        ("river", "brook", 100, ("hilly", "hilly")),
        ("border", "hilly", "hy", ("flat",)),
        ("border", "flat", "ft", ("hilly",)),
        ("border", "isle", "ie", ()),
        ("highlow", "hilly", "hy", "mount peak", 3000, "long river", 200),
        ("highlow", "flat", "ft", "knoll", 300, "long river", 0),
        ("highlow", "isle", "ie", "cliff", 50, "sea", 0),
        ("mountain", "hilly", "hy", "peak", 3000),
        ("mountain", "hilly", "hy", "horn", 2500),
        ("lake", "mere", 12, ("flat", "isle")),
        ("country", "land", 5_100_000, 200),
    )
)


def names(program: str) -> set[str | float]:
    found = denotation(f"answer({program})", SMALL)
    assert found.failure is None
    return set(names_of(found))


@pytest.mark.parametrize(
    ("program", "answers"),
    [
        ("state(all)", {"hilly", "flat", "isle"}),
        ("major(city(all))", {"top", "twin"}),
        ("major(river(all))", {"long"}),
        ("major(lake(all))", set()),
        ("place(all)", {"mount peak", "knoll", "cliff", "long river", "sea"}),
        ("mountain(all)", {"mount peak", "horn", "knoll", "cliff"}),
        ("capital(all)", {"top", "plain", "port"}),
        ("stateid('hilly')", {"hilly"}),
        ("cityid('twin', _)", {"twin"}),
        ("cityid('twin', 'ft')", {"twin"}),
        ("cityid('nowhere', _)", set()),
        ("loc_1(cityid('twin', _))", {"hilly", "flat", "land"}),
        ("loc_1(cityid('twin', 'ft'))", {"flat", "land"}),
        ("loc_1(placeid('peak'))", {"hilly", "land"}),
        ("loc_1(riverid('long'))", {"hilly", "flat", "land"}),
        ("city(loc_2(stateid('hilly')))", {"top", "twin"}),
        ("capital(loc_2(stateid('isle')))", {"port"}),
        ("capital(loc_2(countryid('land')))", {"top"}),
        ("lake(loc_2(countryid('land')))", {"mere"}),
        ("place(loc_2(stateid('flat')))", {"knoll", "long river"}),
        ("next_to_1(stateid('hilly'))", {"flat"}),
        ("next_to_2(stateid('isle'))", set()),
        ("next_to_2(riverid('long'))", set()),
        ("traverse_1(riverid('brook'))", {"hilly", "land"}),
        ("traverse_2(stateid('hilly'))", {"long", "brook"}),
        ("traverse_2(countryid('land'))", {"long", "brook"}),
        ("capital_1(stateid('flat'))", {"plain"}),
        ("capital_2(cityid('port', _))", {"isle"}),
        ("high_point_1(stateid('flat'))", {"knoll"}),
        ("high_point_2(placeid('peak'))", {"hilly"}),
        ("low_point_1(state(all))", {"long river", "sea"}),
        ("low_point_2(placeid('long river'))", {"hilly", "flat"}),
        ("intersection(loc_2(stateid('hilly')), city(all))", {"top", "twin"}),
        ("exclude(state(all), next_to_2(state(all)))", {"isle"}),
        ("count(state(all))", {3.0}),
        ("count(city(cityid('twin', _)))", {2.0}),
        ("count(next_to_2(stateid('isle')))", {0.0}),
        ("sum(area_1(state(all)))", {200.0}),
        ("sum(population_1(next_to_2(stateid('isle'))))", {0.0}),
        ("area_1(state(all))", {100.0, 50.0}),
        ("density_1(stateid('hilly'))", {20_000.0}),
        ("density_1(city(all))", set()),
        ("population_1(cityid('twin', _))", {90_000.0, 200_000.0}),
        ("population_1(countryid('land'))", {5_100_000.0}),
        ("size(stateid('flat'))", {50.0}),
        ("size(cityid('top', 'hy'))", {400_000.0}),
        ("len(river(all))", {2000.0, 100.0}),
        ("elevation_1(placeid('long river'))", {0.0, 200.0}),
        ("elevation_1(placeid('peak'))", {3000.0}),
        ("elevation_2(0)", {"long river", "sea"}),
        ("largest(state(all))", {"hilly"}),
        ("smallest(state(all))", {"flat"}),
        ("largest(city(all))", {"top"}),
        ("largest(population_1(state(all)))", {3e6}),
        ("smallest(population_1(state(all)))", {1e5}),
        ("largest(population_1(next_to_2(stateid('isle'))))", set()),
        ("largest_one(density_1(state(all)))", {"flat"}),
        ("smallest_one(population_1(city(all)))", {"twin"}),
        ("largest_one(density_1(city(all)))", set()),
        ("longest(river(all))", {"long"}),
        ("shortest(river(all))", {"brook"}),
        ("highest(place(all))", {"mount peak"}),
        ("highest(mountain(loc_2(stateid('isle'))))", {"cliff"}),
        ("lowest(place(all))", {"long river"}),
        ("lowest(place(loc_2(stateid('isle'))))", {"sea"}),
        ("higher_2(placeid('knoll'))", {"mount peak"}),
        (
            "higher_2(placeid('long river'))",
            {"mount peak", "knoll", "cliff", "long river"},
        ),
        ("lower_2(placeid('cliff'))", {"sea", "long river"}),
        ("lower_2(placeid('nowhere'))", set()),
        ("longer(riverid('brook'))", {"long"}),
        ("longer(river(all))", {"long"}),
        ("most(state(loc_1(river(all))))", {"hilly"}),
        ("most(state(next_to_2(state(all))))", {"flat"}),
        ("fewest(state(loc_1(city(all))))", {"flat"}),
        ("most(river(traverse_2(state(all))))", {"long"}),
        ("most(state(traverse_1(loc_2(stateid('hilly')))))", {"hilly"}),
        ("fewest(state(next_to_2(stateid('isle'))))", set()),
    ],
)
def test_a_predicate_means_what_its_name_says(
    program: str, answers: set[str | float]
) -> None:
    assert names(program) == answers


def test_equally_large_things_rank_by_their_names() -> None:
    assert names("smallest_one(area_1(state(all)))") == {"flat"}
    assert names("smallest_one(area_1(exclude(state(all), stateid('flat'))))") == {
        "isle"
    }


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("count(state(all))", "found 'count ( state )', expected 'answer ( … )'"),
        (
            "answer(state(all), city(all))",
            "found 'answer ( state , city )', expected 'answer ( … )'",
        ),
        (
            "answer(m0)",
            "found the placeholder m0, expected the entity that it stands for",
        ),
        ("answer(fly(state(all)))", "no predicate 'fly'"),
        (
            "answer(longst(river(all)))",
            "no predicate 'longst'; did you mean 'longest'?",
        ),
        ("answer(answer(state(all)))", "no predicate 'answer'"),
        (
            "answer(count(state(all), city(all)))",
            "'count ( state , city )' has 2 arguments, expected 1: things",
        ),
        ("answer(exclude(state(all)))", "has 1 arguments, expected 2: things, things"),
        ("answer(sum(state(all)))", "'sum' takes a number, found things: 'state'"),
        (
            "answer(count(count(state(all))))",
            "'count' takes things, found a number: 'count ( state )'",
        ),
        (
            "answer(longest(len(river(all))))",
            "'longest' takes things, found a number: 'len ( river )'",
        ),
        (
            "answer(elevation_2(place(all)))",
            "'elevation_2' takes a number, found things: 'place'",
        ),
        ("answer(len(state(all)))", "'len' asks about riverid, found stateid"),
        ("answer(longest(state(all)))", "'len' asks about riverid, found stateid"),
        (
            "answer(elevation_1(loc_1(cityid('top', _))))",
            "asks about placeid, found countryid and stateid",
        ),
        ("answer(largest_one(loc_1(city(all))))", "no measure 'loc_1'"),
        ("answer(most(state(size(city(all)))))", "no relation 'size'"),
        (
            "answer(most(state(traverse_1(city(all)))))",
            "'traverse_1' asks about riverid, found cityid",
        ),
        ("answer(state)", "found the bare name 'state'"),
        ("answer(", "found the end of the program"),
    ],
)
def test_a_program_that_means_nothing_says_why(program: str, said: str) -> None:
    found = denotation(program, SMALL)
    assert found.failure is not None
    assert said in found.failure
    assert not found.answers


def test_a_long_part_of_a_program_is_cut_in_the_message() -> None:
    wide = ", ".join(["state(all)"] * 500)
    found = denotation(f"answer(count({wide}))", SMALL)
    assert found.failure is not None
    assert len(found.failure) < 120


def test_a_mixed_set_may_be_asked_what_only_some_of_it_has() -> None:
    assert names("len(loc_2(stateid('hilly')))") == {2000.0, 100.0}


def test_a_country_without_area_has_no_density() -> None:
    empty = Geography.of(geobase_of(("country", "nowhere", 5, 0)))
    assert (
        denotation("answer(density_1(countryid('nowhere')))", empty).answers
        == frozenset()
    )


WORLD = sorted(
    {thing for things in SMALL.classes.values() for thing in things}
    | {Entity(EntityKind.COUNTRY, "land")},
    key=str,
)
Things = st.SearchStrategy[Term]


def named(kind: EntityKind) -> Things:
    return st.sampled_from([thing for thing in WORLD if thing.kind is kind])


def applied(names: str, *arguments: Things) -> Things:
    return st.builds(
        lambda name, *terms: Application(name, terms),
        st.sampled_from(names.split()),
        *arguments,
    )


def measure_names() -> Things:
    return st.sampled_from(["area_1", "density_1", "population_1"]).map(Name)


@st.composite
def programs(draw: st.DrawFn, kind: EntityKind | None = None, depth: int = 3) -> Term:
    """A program that denotes things of one kind, types heeded."""
    kind = kind or draw(
        st.sampled_from(
            [EntityKind.STATE, EntityKind.CITY, EntityKind.RIVER, EntityKind.PLACE]
        )
    )
    if depth == 0:
        return draw(named(kind) | st.sampled_from(CLASSES[kind]).map(Name))
    below = {each: programs(each, depth - 1) for each in CLASSES}
    either = applied("intersection exclude", below[kind], below[kind])
    return draw(
        named(kind)
        | st.sampled_from(CLASSES[kind]).map(Name)
        | either
        | _joins(kind, below)
    )


CLASSES = {
    EntityKind.STATE: ["state"],
    EntityKind.CITY: ["city", "capital", "major"],
    EntityKind.RIVER: ["river", "major"],
    EntityKind.PLACE: ["place", "mountain", "lake"],
}


def _joins(kind: EntityKind, below: dict[EntityKind, Things]) -> Things:
    state, city, river, place = below.values()
    best = applied("largest_one smallest_one", measure_names(), below[kind])
    counted = applied(
        "most fewest",
        st.just(Name("state")),
        st.just(Name("loc_1")),
        city | river | place,
    )
    flowing = applied(
        "most fewest", st.just(Name("river")), st.just(Name("traverse_2")), state
    )
    match kind:
        case EntityKind.STATE:
            points = applied("high_point_2 low_point_2 loc_1", place)
            borders = applied("next_to_1 next_to_2 largest smallest", state)
            return (
                best
                | counted
                | points
                | borders
                | applied("traverse_1", river)
                | applied("capital_2 loc_1", city)
            )
        case EntityKind.CITY:
            return (
                best
                | applied("loc_2 capital_1", state)
                | applied("largest smallest", city)
            )
        case EntityKind.RIVER:
            return (
                flowing
                | applied("longest shortest", river)
                | applied("traverse_2 loc_2", state)
            )
        case _:
            return applied("highest lowest higher_2 lower_2", place) | applied(
                "high_point_1 low_point_1 loc_2", state
            )


@given(programs())
def test_execution_finds_what_a_search_through_the_world_finds(program: Term) -> None:
    try:
        value = executed(Application("answer", (program,)), SMALL)
    except (
        NotExecutable
    ):  # a join holds other kinds too, and what is left of it may be one of those alone
        reject()
    assert value == denoted(program, SMALL, WORLD)
