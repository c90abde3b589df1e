"""For GeoQuery models: names in a sentence become placeholders, and programs get their answer from geobase."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from nqg.data.geobase import read_geobase
from nqg.data.geoquery import AnonymisedSentence, anonymised
from nqg.data.geoquery_names import EntityNames
from nqg.errors import FormatError, NqgError
from nqg.evaluation.denotations import denotation
from nqg.evaluation.geography import Geography

MOST_MEANINGS = 4096  # combinations of what a sentence's names may mean that are tried


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A program with its names put back, and what geobase answers."""

    program: str
    answer: str


@dataclass(frozen=True)
class Atlas:
    """The names and the facts of a geobase."""

    names: EntityNames
    geography: Geography

    @classmethod
    def read(cls, path: Path) -> Atlas:
        """The atlas of a published geobase file."""
        geobase = read_geobase(path)
        return cls(EntityNames.of(geobase), Geography.of(geobase))

    def reworded(self, sentence: str) -> AnonymisedSentence:
        """The sentence as the model was trained to read it; one that holds placeholders already is left as it is."""
        try:
            return anonymised(sentence, self.names)
        except FormatError:
            return AnonymisedSentence(sentence, ())

    def looked_up(self, sentence: AnonymisedSentence, target: str) -> LookedUp | None:
        """The first well-typed program that `target` may mean, with its answer; None where there is none."""
        if math.prod(map(len, sentence.readings)) > MOST_MEANINGS:
            return None
        try:
            program = next(sentence.programs(target), None)
        except NqgError:
            return None
        return LookedUp(program, str(denotation(program, self.geography))) if program else None
