"""The inverse of GeoQuery's conversion, which shows that nothing is lost in it."""

from __future__ import annotations

from collections.abc import Sequence

from nqg.errors import FormatError
from nqg.paper.denotations import bound
from nqg.paper.funql import (
    ALL,
    BY_COUNT,
    BY_MEASURE,
    CLASSES,
    Application,
    Entity,
    Name,
    Term,
    original_text,
    parse_funql,
    spaced_text,
)

_CONVERTED_SHAPES = (
    {
        name: f"the bare name '{name}' or 'intersection ( {name} , … )'"
        for name in CLASSES
    }
    | {name: f"'{name} ( measure , things )'" for name in BY_MEASURE}
    | {name: f"'{name} ( class , relation , things )'" for name in BY_COUNT}
)


def folded(term: Term) -> Term:
    """The program of the corpus whose converted form is `term`: the inverse of `expanded`.

    An intersection written out in the corpus whose first argument is a whole class, `intersection(city(all), …)`,
    would come back as `city(…)`, which means the same; GeoQuery has none.

    >>> original_text(folded(parse_funql("largest_one ( density_1 , intersection ( major , city ) )")))
    'largest_one(density_1(major(city(all))))'
    """
    match term:
        case Name(name) if name in CLASSES:
            return Application(name, (ALL,))
        case Name(name):
            raise FormatError(
                f"found the bare name '{name}', expected a class of things: {', '.join(sorted(CLASSES))}"
            )
        case Application("intersection", (Name(name), things)) if name in CLASSES:
            return Application(name, (folded(things),))
        case Application(name, (Name(measure), things)) if name in BY_MEASURE:
            return Application(name, (Application(measure, (folded(things),)),))
        case Application(name, (Name(kind), Name(relation), things)) if (
            name in BY_COUNT and kind in CLASSES
        ):
            return Application(
                name, (Application(kind, (Application(relation, (folded(things),)),)),)
            )
        case Application(name) if name in _CONVERTED_SHAPES:
            raise FormatError(
                f"found {spaced_text(term)}, expected {_CONVERTED_SHAPES[name]}"
            )
        case Application(name, arguments):
            return Application(name, tuple(map(folded, arguments)))
        case _:
            return term


def restored(target: str, entities: Sequence[Entity]) -> str:
    """The program, as the corpus writes it, behind a target in the converted form."""
    return original_text(folded(bound(parse_funql(target), entities)))
