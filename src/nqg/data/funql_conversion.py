"""FunQL with its hidden intersections and arguments spelled out, as in the appendix of the paper, and the way back.

A class of things applied to `all` becomes the bare class, applied to anything else an intersection; the measure of
`largest_one` and the class and relation of `most`, which the corpus folds into their argument, become arguments.
"""

from __future__ import annotations

from nqg.data.funql import Call, Name, Term, original_text, spaced_text
from nqg.errors import FormatError

CLASSES = frozenset({"state", "city", "river", "place", "lake", "mountain", "capital", "major"})
BY_MEASURE = frozenset({"largest_one", "smallest_one"})
BY_COUNT = frozenset({"most", "fewest"})
ALL = Name("all")


def expanded(term: Term) -> Term:
    """The converted form of a program of the corpus.

    >>> from nqg.data.funql import parse_funql
    >>> spaced_text(expanded(parse_funql("state(next_to_2(state(all)))")))
    'intersection ( state , next_to_2 ( state ) )'
    >>> spaced_text(expanded(parse_funql("most(state(loc_1(river(all))))")))
    'most ( state , loc_1 , river )'
    """
    match term:
        case Name(name):
            raise FormatError(f"found the bare name '{name}', expected it applied, as in 'state(all)'")
        case Call(name, (argument,)) if name in CLASSES:
            return Name(name) if argument == ALL else Call("intersection", (Name(name), expanded(argument)))
        case Call(name, (Call(measure, (things,)),)) if name in BY_MEASURE:
            return Call(name, (Name(measure), expanded(things)))
        case Call(name, (Call(kind, (Call(relation, (things,)),)),)) if name in BY_COUNT and kind in CLASSES:
            return Call(name, (Name(kind), Name(relation), expanded(things)))
        case Call(name) if name in _ORIGINAL_SHAPES:
            raise FormatError(f"found {original_text(term)}, expected {_ORIGINAL_SHAPES[name]}")
        case Call(name, arguments):
            return Call(name, tuple(map(expanded, arguments)))
        case _:
            return term


def folded(term: Term) -> Term:
    """The program of the corpus whose converted form is `term`: the inverse of `expanded`.

    An intersection written out in the corpus whose first argument is a whole class, `intersection(city(all), …)`,
    would come back as `city(…)`, which means the same; GeoQuery has none.

    >>> from nqg.data.funql import parse_funql
    >>> original_text(folded(parse_funql("largest_one ( density_1 , intersection ( major , city ) )")))
    'largest_one(density_1(major(city(all))))'
    """
    match term:
        case Name(name) if name in CLASSES:
            return Call(name, (ALL,))
        case Name(name):
            raise FormatError(f"found the bare name '{name}', expected a class of things: {', '.join(sorted(CLASSES))}")
        case Call("intersection", (Name(name), things)) if name in CLASSES:
            return Call(name, (folded(things),))
        case Call(name, (Name(measure), things)) if name in BY_MEASURE:
            return Call(name, (Call(measure, (folded(things),)),))
        case Call(name, (Name(kind), Name(relation), things)) if name in BY_COUNT and kind in CLASSES:
            return Call(name, (Call(kind, (Call(relation, (folded(things),)),)),))
        case Call(name) if name in _CONVERTED_SHAPES:
            raise FormatError(f"found {spaced_text(term)}, expected {_CONVERTED_SHAPES[name]}")
        case Call(name, arguments):
            return Call(name, tuple(map(folded, arguments)))
        case _:
            return term


_ORIGINAL_SHAPES = (
    {name: f"'{name}' with one argument" for name in CLASSES}
    | {name: f"{name}(measure(things))" for name in BY_MEASURE}
    | {name: f"{name}(class(relation(things)))" for name in BY_COUNT}
)
_CONVERTED_SHAPES = (
    {name: f"the bare name '{name}' or 'intersection ( {name} , … )'" for name in CLASSES}
    | {name: f"'{name} ( measure , things )'" for name in BY_MEASURE}
    | {name: f"'{name} ( class , relation , things )'" for name in BY_COUNT}
)
