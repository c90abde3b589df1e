"""What a parser says of a sentence: readings with their derivations, or an abstention with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.pictures import Markup, derivation_picture, element

NO_DERIVATION, ILLEGAL, TOO_LONG = "no derivation", "illegal target", "too long"


@dataclass(frozen=True, slots=True)
class Reading:
    """A target that a sentence may mean, its probability, and the best derivation that yields it.

    `scores` has the model's score of each of the derivation's hyperedges, in their order; the higher their sum, the
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

        return in_notebook(parse_picture(self))


def parse_picture(parse: Parse) -> Markup:
    """The derivation of the best reading and a table of the others; an abstention with its reason."""
    if parse.best is None:
        sentence = element("q", " ".join(parse.source))
        answer = element("p", "No answer to ", sentence, f": {parse.reason}.", class_="abstention")
    else:
        sure = element("p", f"probability {parse.best.probability:.4g}")
        answer = element("div", derivation_picture(parse.best.derivation, parse.best.scores), sure)
    return element("div", answer, readings_table(parse.readings) if parse.readings else Markup(""))


def readings_table(readings: tuple[Reading, ...]) -> Markup:
    """The readings, one a row, the most probable first."""
    rows = (
        element(
            "tr",
            element("td", f"{reading.probability:.4g}"),
            element("td", element("code", " ".join(reading.target))),
            element("td", "" if reading.is_legal else "not a legal program"),
        )
        for reading in readings
    )
    head = element("tr", *(element("th", name, scope="col") for name in ("probability", "program", "")))
    return element("table", element("thead", head), element("tbody", *rows))
