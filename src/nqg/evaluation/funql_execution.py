"""FunQL carried out: the value of a program in the converted form, from its leaves up."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from nqg.data.funql import Call, Entity, Name, Number, Placeholder, Term, spaced_text
from nqg.errors import UnknownName
from nqg.evaluation.funql_operations import (
    OPERATIONS,
    Amount,
    Amounts,
    NotExecutable,
    Operation,
    Parameter,
    Value,
    measured,
    related,
)
from nqg.evaluation.geography import Geography

SHOWN = 60  # characters of a part of a program in an error


def executed(program: Term, geography: Geography) -> Value:
    """What `answer ( … )` means; a program that means nothing is refused with the part at fault.

    The walk recurses: trees that `parse_funql` makes are never too deep for it.
    """
    match program:
        case Call("answer", (argument,)):
            return _value(argument, geography)
        case _:
            raise NotExecutable(f"found {_shown(program)}, expected 'answer ( … )'")


def _value(term: Term, geography: Geography) -> Value:
    match term:
        case Entity():
            return geography.named(term)
        case Number(number):
            return Amounts(frozenset({Amount(float(number))}))
        case Name(name):
            return geography.classes[_known(name, "class of things", geography.classes)]
        case Placeholder():
            raise NotExecutable(f"found the placeholder {term}, expected the entity that it stands for")
        case Call(name, arguments):
            operation = _operation(name, geography)
            _check_number_of_arguments(term, operation)
            pairs = zip(arguments, operation.parameters, strict=True)
            return operation.compute(geography, *(_argument(term, each, kind, geography) for each, kind in pairs))


def _operation(name: str, geography: Geography) -> Operation:
    if name in geography.relations:
        return Operation((Parameter.THINGS,), partial(related, relation=name))
    if name in geography.measures:
        return Operation((Parameter.THINGS,), partial(measured, measure=name))
    known = OPERATIONS.keys() | geography.relations.keys() | geography.measures.keys()
    return OPERATIONS[_known(name, "predicate", known)]


def _check_number_of_arguments(call: Call, operation: Operation) -> None:
    expected, found = len(operation.parameters), len(call.arguments)
    if expected != found:
        asked = ", ".join(operation.parameters)
        raise NotExecutable(f"{_shown(call)} has {found} arguments, expected {expected}: {asked}")


def _argument(call: Call, argument: Term, kind: Parameter, geography: Geography) -> Value | str:
    match kind:
        case Parameter.CLASS:
            return _named(call, argument, kind, geography.classes)
        case Parameter.RELATION:
            return _named(call, argument, kind, geography.relations)
        case Parameter.MEASURE:
            return _named(call, argument, kind, geography.measures)
    value = _value(argument, geography)
    found = Parameter.NUMBER if isinstance(value, Amounts) else Parameter.THINGS
    if kind not in (found, Parameter.VALUE):
        raise NotExecutable(f"'{call.predicate}' takes {kind}, found {found}: {_shown(argument)}")
    return value


def _named(call: Call, argument: Term, kind: Parameter, known: Collection[str]) -> str:
    if not isinstance(argument, Name):
        raise NotExecutable(f"'{call.predicate}' takes {kind}, found {_shown(argument)}")
    return _known(argument.name, kind.removeprefix("the name of a "), known)


def _known(name: str, kind: str, known: Collection[str]) -> str:
    if name not in known:
        raise NotExecutable(str(UnknownName(kind, name, known)))
    return name


def _shown(term: Term) -> str:
    text = spaced_text(term)
    return f"'{text}'" if len(text) <= SHOWN else f"'{text[:SHOWN]}…'"
