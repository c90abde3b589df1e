"""The grammar of legal FunQL targets, and the types of the entities in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from nqg.data.funql import Entity, EntityKind, Leaf, Name, Placeholder, parse_funql, spaced_text, with_leaves

if TYPE_CHECKING:
    from nqg.grammar.target_grammar import TargetGrammar


def funql_target_grammar() -> TargetGrammar:
    """The grammar of `funql.grammar`: programs in the converted form, with placeholders, whose types fit."""
    return _grammar(_grammar_text())


def is_well_typed(target: str, entities: Sequence[Entity]) -> bool:
    """Whether a target in the converted form makes sense once `entities[i]` stands for its placeholder `m{i}`."""

    def kind(leaf: Leaf) -> Leaf:
        match leaf:
            case Placeholder(index) if index < len(entities):
                return Name(entities[index].kind)
            case _:
                return leaf

    return _grammar_of_kinds().accepts(spaced_text(with_leaves(parse_funql(target), kind)).split())


@cache
def _grammar_text() -> str:
    return resources.files("nqg.data").joinpath("funql.grammar").read_text(encoding="utf-8")


@cache
def _grammar(text: str) -> TargetGrammar:
    from nqg.grammar.target_grammar import TargetGrammar

    return TargetGrammar.parse(text)


def _grammar_of_kinds() -> TargetGrammar:
    """The same grammar, in which an entity may also stand as the bare word of its kind: `size ( stateid )`."""
    return _grammar(_grammar_text() + "".join(f"<{kind}> ::= {kind}\n" for kind in EntityKind))
