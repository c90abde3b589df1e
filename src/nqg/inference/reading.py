"""What a parser says of a sentence: readings with their derivations, or an abstention with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.grammar.derivation import Derivation, Tokens

NO_DERIVATION, ILLEGAL, TOO_LONG = "no derivation", "illegal target", "too long"


@dataclass(frozen=True, slots=True)
class Reading:
    """A target that a sentence may mean, its probability, and the best derivation that yields it.

    `scores` has the model's score of each of the derivation's applications, in their order; the higher their sum, the
    better the derivation. `marginals`, if asked for, has the probability that a derivation of the sentence, whatever it
    yields, applies this rule to this span.
    """

    target: Tokens
    probability: float
    derivation: Derivation
    is_legal: bool = True
    scores: tuple[float, ...] = ()
    marginals: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Parse:
    """What the parser says of a sentence; no `best` is an abstention, and `reason` says why."""

    source: Tokens
    best: Reading | None
    reason: str = ""
    readings: tuple[Reading, ...] = ()  # the best ones, if asked for, illegal ones included

    @property
    def target(self) -> str | None:
        """The program, tokens separated by spaces, or None."""
        return None if self.best is None else " ".join(self.best.target)

    @property
    def probability(self) -> float | None:
        """The probability of the program given the sentence, under the grammar."""
        return None if self.best is None else self.best.probability

    def _repr_html_(self) -> str:
        """The parse as a notebook shows it."""
        from nqg.grammar.pictures import in_notebook
        from nqg.inference.pictures import parse_picture

        return in_notebook(parse_picture(self))
