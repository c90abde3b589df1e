"""A parse as HTML, for notebooks: the answer, its derivation and its other readings, or why there is none."""

from __future__ import annotations

from nqg.grammar.markup import Markup, element
from nqg.grammar.pictures import derivation_picture
from nqg.inference.reading import Parse, Reading


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
