"""Denotations of GeoQuery's programs: two programs that give the same answers are equally right.

The paper's own figure is exact match; it reports that denotation accuracy is 2.1 points higher on
the standard split.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from nqg.answers import exact_match
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.paper.funql import (
    Application,
    Entity,
    EntityKind,
    Name,
    Number,
    Placeholder,
    Term,
    expanded,
    parse_funql,
    spaced_text,
)
from nqg.paper.geobase import Geography, Things


class NotExecutable(NqgError):
    """A program that means nothing; the message says which part of it and why."""


class Amount(NamedTuple):
    """A number and, where it is a measure, of what: two states may have the same area."""

    value: float
    of: Entity | None = None


# What a term means: things, or numbers in no order.
Value = Things | list[Amount]
NO_THINGS: frozenset[Entity] = frozenset()


# What an argument of a predicate must be, in the words of errors.
THINGS, NUMBER, VALUE = "things", "a number", "things or a number"
NAMED = "the name of a "
CLASS, RELATION, MEASURE = NAMED + "class", NAMED + "relation", NAMED + "measure"


class Operation(NamedTuple):
    """A predicate: its parameters, and the function of a geography and its arguments."""

    parameters: tuple[str, ...]
    compute: Callable[..., Value]


# The kinds of things that a relation or a measure is about; things of other kinds have none.
_KINDS_OF_PREDICATES = {
    "loc_2 traverse_2 population_1 density_1": "stateid cityid countryid",
    "next_to_1 capital_1 high_point_1 low_point_1": "stateid",
    "high_point_2 low_point_2 elevation_1": "placeid",
    "traverse_1 len": "riverid",
    "capital_2": "cityid",
    "next_to_2": "stateid riverid",
    "loc_1": "stateid cityid riverid placeid",
    "area_1": "stateid cityid countryid placeid",
    "size": "stateid cityid countryid riverid placeid",
}
KINDS: dict[str, tuple[EntityKind, ...]] = {}
for _predicates, _kinds in _KINDS_OF_PREDICATES.items():
    for _predicate in _predicates.split():
        KINDS[_predicate] = tuple(map(EntityKind, _kinds.split()))


def related(geography: Geography, things: Things, *, relation: str) -> Things:
    """The things that a relation leads to from any of `things`."""
    _check_kinds(relation, things)
    leads_to = geography.relations[relation]
    return NO_THINGS.union(*(leads_to.get(thing, NO_THINGS) for thing in things))


def measured(geography: Geography, things: Things, *, measure: str) -> list[Amount]:
    """The measure of each of `things` that has one."""
    _check_kinds(measure, things)
    values = geography.measures[measure]
    amounts = []
    for thing in things:
        amounts += [Amount(value, thing) for value in values.get(thing, ())]
    return amounts


def _check_kinds(name: str, things: Things) -> None:
    kinds = {thing.kind for thing in things}
    if kinds and kinds.isdisjoint(KINDS[name]):
        expected = " or ".join(KINDS[name])
        raise NotExecutable(
            f"'{name}' asks about {expected}, found {' and '.join(sorted(kinds))}"
        )


def by_measure(
    geography: Geography, measure: str, things: Things, *, sign: int
) -> Things:
    """The one of `things` with the largest (sign 1) or the smallest (sign -1) measure."""
    return _first(measured(geography, things, measure=measure), sign)


def superlative(
    geography: Geography, value: Value, *, measure: str, sign: int
) -> Value:
    """The most extreme of several things by a measure, or of several numbers."""
    if isinstance(value, list):
        numbers = sorted(sign * amount.value for amount in value)
        return [Amount(sign * number) for number in numbers[-1:]]
    return by_measure(geography, measure, value, sign=sign)


def by_count(
    geography: Geography, members: str, relation: str, things: Things, *, sign: int
) -> Things:
    """The member of a class that the relation leads to from the most, or the fewest, of `things`.

    Members that it leads to from none do not compete: `fewest` is never a state without cities.
    """
    _check_kinds(relation, things)
    # How many of the things lead to each member.
    counts: Counter[Entity] = Counter()
    for thing in things:
        counts.update(geography.relations[relation].get(thing, NO_THINGS))
    competing = geography.classes[members]
    return _first(
        [Amount(counts[one], one) for one in counts if one in competing], sign
    )


def _first(amounts: list[Amount], sign: int) -> Things:
    """The thing of the most extreme amount, the first by name among equals; if there is any."""

    def rank(amount: Amount) -> tuple[float, str, str]:
        assert amount.of
        return -sign * amount.value, amount.of.name, amount.of.state or ""

    return {amount.of for amount in sorted(amounts, key=rank)[:1] if amount.of}


def beyond(
    geography: Geography, things: Things, *, measure: str, among: str, sign: int
) -> Things:
    """What of a class is higher (longer) or, with sign -1, lower than any one of `things`."""
    bounds = [
        sign * amount.value for amount in measured(geography, things, measure=measure)
    ]
    least = min(bounds, default=math.inf)
    candidates = measured(geography, geography.classes[among], measure=measure)
    return {
        amount.of for amount in candidates if amount.of and sign * amount.value > least
    }


def at_elevation(geography: Geography, heights: list[Amount]) -> Things:
    values = {height.value for height in heights}
    things = set()
    for amount in measured(
        geography, geography.classes["place"], measure="elevation_1"
    ):
        if amount.of and amount.value in values:
            things.add(amount.of)
    return things


def total(_: Geography, amounts: list[Amount]) -> list[Amount]:
    return [Amount(math.fsum(amount.value for amount in amounts))]


def number_of(_: Geography, things: Things) -> list[Amount]:
    return [Amount(float(len(things)))]


_beyond_river = partial(beyond, measure="len", among="river")
_beyond_place = partial(beyond, measure="elevation_1", among="place")
OPERATIONS: dict[str, Operation] = {
    "intersection": Operation((THINGS, THINGS), lambda _, left, right: left & right),
    "exclude": Operation((THINGS, THINGS), lambda _, left, right: left - right),
    "count": Operation((THINGS,), number_of),
    "sum": Operation((NUMBER,), total),
    "elevation_2": Operation((NUMBER,), at_elevation),
    "longer": Operation((THINGS,), partial(_beyond_river, sign=1)),
}


def _define_opposites(
    name: str, opposite: str, parameters: tuple[str, ...], compute: Callable[..., Value]
) -> None:
    OPERATIONS[name] = Operation(parameters, partial(compute, sign=1))
    OPERATIONS[opposite] = Operation(parameters, partial(compute, sign=-1))


def _define_superlatives(name: str, opposite: str, kind: str, measure: str) -> None:
    _define_opposites(name, opposite, (kind,), partial(superlative, measure=measure))


_define_opposites("largest_one", "smallest_one", (MEASURE, THINGS), by_measure)
_define_opposites("most", "fewest", (CLASS, RELATION, THINGS), by_count)
_define_superlatives("largest", "smallest", VALUE, "size")
_define_superlatives("longest", "shortest", THINGS, "len")
_define_superlatives("highest", "lowest", THINGS, "elevation_1")
_define_opposites("higher_2", "lower_2", (THINGS,), _beyond_place)


# Characters of a term in an error.
SHOWN_CHARACTERS = 60


def executed(program: Term, geography: Geography) -> Value:
    """What `answer ( … )` means; a program that means nothing is refused with the part at fault.

    The walk recurses: trees that `parse_funql` makes are never too deep for it.
    """
    match program:
        case Application("answer", (argument,)):
            return value_of(argument, geography)
    raise NotExecutable(f"found {_shown(program)}, expected 'answer ( … )'")


def value_of(term: Term, geography: Geography) -> Value:
    match term:
        case Entity():
            return geography.named(term)
        case Number(digits):
            return [Amount(float(digits))]
        case Name(name):
            return geography.classes[_known(name, "class of things", geography.classes)]
        case Placeholder():
            raise NotExecutable(
                f"found the placeholder {term}, expected the entity that it stands for"
            )
        case Application(name, arguments):
            operation = operation_named(name, geography)
            if len(arguments) != len(operation.parameters):
                expected = (
                    f"{len(operation.parameters)}: {', '.join(operation.parameters)}"
                )
                raise NotExecutable(
                    f"{_shown(term)} has {len(arguments)} arguments, expected {expected}"
                )
            values = []
            for argument, parameter in zip(arguments, operation.parameters):
                values.append(_argument(name, argument, parameter, geography))
            return operation.compute(geography, *values)


def operation_named(name: str, geography: Geography) -> Operation:
    """The predicate with a name: a relation, a measure, or one of `OPERATIONS`."""
    if name in geography.relations:
        return Operation((THINGS,), partial(related, relation=name))
    if name in geography.measures:
        return Operation((THINGS,), partial(measured, measure=name))
    predicates = (
        OPERATIONS.keys() | geography.relations.keys() | geography.measures.keys()
    )
    return OPERATIONS[_known(name, "predicate", predicates)]


def _argument(
    predicate: str, argument: Term, kind: str, geography: Geography
) -> Value | str:
    names: Mapping[str, Collection[str]] = {
        CLASS: geography.classes,
        RELATION: geography.relations,
        MEASURE: geography.measures,
    }
    # Names are not evaluated, only looked up.
    if kind in names:
        if not isinstance(argument, Name):
            raise NotExecutable(f"'{predicate}' takes {kind}, found {_shown(argument)}")
        return _known(argument.name, kind.removeprefix(NAMED), names[kind])
    # All other arguments are values, and must be of the right sort.
    value = value_of(argument, geography)
    sort = NUMBER if isinstance(value, list) else THINGS
    if kind not in (sort, VALUE):
        raise NotExecutable(
            f"'{predicate}' takes {kind}, found {sort}: {_shown(argument)}"
        )
    return value


def _known(name: str, kind: str, known: Collection[str]) -> str:
    if name not in known:
        raise NotExecutable(str(UnknownName(kind, name, known)))
    return name


def _shown(term: Term) -> str:
    text = spaced_text(term)
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS]}…"
    return f"'{text}'"


@dataclass(frozen=True, slots=True)
class Denotation:
    """The answers that a program gives, things or numbers; or none and the `failure`: why it cannot
    be executed.
    """

    answers: frozenset[Entity | float] = frozenset()
    failure: str | None = None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"cannot be executed: {self.failure}"
        spelled = [
            f"{answer:,.10g}" if isinstance(answer, float) else str(answer)
            for answer in self.answers
        ]
        return ", ".join(sorted(spelled)) or "nothing"


def denotation(program: str, geography: Geography) -> Denotation:
    """What a program of the corpus's form, `answer(city(loc_2(stateid('ohio'))))`, answers.

    Whatever the text is, the result is a value: nonsense is a denotation with a `failure`.
    """
    return _denotation(lambda: expanded(parse_funql(program)), geography)


def target_denotation(
    target: str, entities: Sequence[Entity], geography: Geography
) -> Denotation:
    """What a target of the converted form answers when `entities[0]` stands for its `m0`."""
    return _denotation(lambda: bound(parse_funql(target), entities), geography)


def _denotation(read: Callable[[], Term], geography: Geography) -> Denotation:
    try:
        value = executed(read(), geography)
    except NqgError as error:
        return Denotation(failure=str(error))
    if isinstance(value, list):
        return Denotation(frozenset(amount.value for amount in value))
    return Denotation(frozenset(value))


def bound(term: Term, entities: Sequence[Entity]) -> Term:
    """A program with the entities that its placeholders stand for."""
    match term:
        case Application(name, arguments):
            return Application(
                name, tuple(bound(argument, entities) for argument in arguments)
            )
        case Placeholder(index) if index < len(entities):
            return entities[index]
        case Placeholder():
            names = ", ".join(f"m{index}" for index in range(len(entities)))
            raise FormatError(
                f"found {term}, but the sentence binds {names or 'no placeholder'}"
            )
    return term


def denotation_matches(
    prediction: str, gold: str, entities: Sequence[Entity], geography: Geography
) -> bool:
    """Whether a predicted target gives the same answers as the gold one; one that cannot be
    executed does not.

    The same program always matches, so that denotation accuracy is never below exact match.
    """
    # Programs that cannot be executed may be equal all the same.
    if exact_match(prediction, gold):
        return True
    predicted = target_denotation(prediction, entities, geography)
    if predicted.failure is not None:
        return False
    return predicted == target_denotation(gold, entities, geography)
