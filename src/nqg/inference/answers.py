"""From scored charts to parses: which reading is the answer, and which others there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.reading import ILLEGAL, Parse, Reading
from nqg.inference.scored_charts import ScoredCharts

SEARCHED = (80, 320)  # best derivations among whose targets a legal one is looked for, more if there is none
DERIVATIONS_A_READING = 4  # best derivations that are looked at for every reading that is asked for


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a parser beside the best reading; see `Parser.parses`."""

    readings: int = 0
    only_legal: bool = False
    marginals: bool = False


def answers(
    sources: Sequence[Tokens], scored: ScoredCharts, legal: TargetGrammar | None, wish: Wish
) -> Iterator[Parse]:
    """The parses of sentences, in their order."""
    best = _readings(scored, scored.best(), legal, wish)
    for number, (source, first) in enumerate(zip(sources, best, strict=True)):
        others = _most_probable(scored, number, wish.readings * DERIVATIONS_A_READING, legal, wish)[: wish.readings]
        answer = first if first.is_legal else None
        if answer is None and wish.only_legal:
            found = (each for width in SEARCHED for each in _most_probable(scored, number, width, legal, wish))
            answer = next((reading for reading in found if reading.is_legal), None)
        yield Parse(source, answer, "" if answer else ILLEGAL, others)


def _most_probable(
    scored: ScoredCharts, number: int, searched: int, legal: TargetGrammar | None, wish: Wish
) -> tuple[Reading, ...]:
    """The targets of one sentence's best derivations, the most probable first."""
    if searched == 0:
        return ()
    derivations = scored.select([number]).best_of_targets(searched)
    readings = _readings(scored.select([number] * len(derivations)), derivations, legal, wish)
    return tuple(sorted(readings, key=lambda reading: (-reading.probability, reading.target)))


def _readings(
    scored: ScoredCharts, derivations: Sequence[Derivation], legal: TargetGrammar | None, wish: Wish
) -> list[Reading]:
    """A derivation of each chart as a reading."""
    targets = [derivation.target for derivation in derivations]
    marginals = scored.application_marginals(derivations) if wish.marginals else [()] * len(derivations)
    columns = zip(
        targets,
        scored.probabilities(targets).tolist(),
        derivations,
        [legal is None or legal.accepts(target) for target in targets],
        scored.application_scores(derivations),
        marginals,
        strict=True,
    )
    return [Reading(*column) for column in columns]
