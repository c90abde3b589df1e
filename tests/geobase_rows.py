"""Geobase from rows that a test writes down, and answers as the published ones are written."""

from __future__ import annotations

from typing import Any

from nqg.paper.denotations import Denotation
from nqg.paper.funql import Entity
from nqg.paper.geobase import _SHAPES, Geobase


def geobase_of(*facts: tuple[Any, ...]) -> Geobase:
    """Geobase with the facts that begin with the name of their kind."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _SHAPES}
    for kind, *row in facts:
        rows[kind].append(tuple(row))
    return rows


def names_of(found: Denotation) -> frozenset[str | float]:
    """The answers as the published ones are written: names without their kind, and numbers."""
    return frozenset(
        answer.name if isinstance(answer, Entity) else answer
        for answer in found.answers
    )
