"""The chart of spans, against all derivations written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from nqg.answers import Answer, ChartSpan
from nqg.grammar.chart import charts
from nqg.grammar.hypergraph import NodeId, Span
from nqg.inference import charts as charts_module
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import gaps
from nqg.inference.parser import Parser
from nqg.slots.instantiate import instantiate_slots
from nqg.web.messages import MOST_DRAWN_WORDS, chart_picture, gaps_picture
from nqg.web.service import Question, Service
from oracles import all_derivations

SENTENCES = [
    "walk",
    "walk and jump twice",
    "walk and walk and run",
    "run twice twice and jump",
]


def charted(parser: Parser, tokens: tuple[str, ...]) -> Answer:
    return next(
        parser.with_options(DecodeOptions(chart=True)).answers([" ".join(tokens)])
    )


def span_chart(parser: Parser, tokens: tuple[str, ...]) -> tuple[ChartSpan, ...]:
    chart = charted(parser, tokens).chart
    assert chart is not None
    return chart


def enumerated(parser: Parser, tokens: tuple[str, ...]) -> dict[Span, float]:
    """The probability of every span, derivation by derivation."""
    full = charts(parser.grammar, [tokens])
    scores = parser.scored(
        instantiate_slots(parser.grammar, [tokens]), parser.subwords([tokens]), full
    ).scores
    owners = [full.span(NodeId(int(owner))) for owner in full.owners()]
    score = {
        (span, int(rule)): value
        for span, rule, value in zip(owners, full.rules, scores, strict=True)
    }
    total, spans = 0.0, dict[Span, float]()
    for found in all_derivations(parser.grammar, tokens):
        rules = [
            (each.span, parser.grammar.rules.index(each.rule))
            for each in found.hyperedges
        ]
        weight = math.exp(sum(score[pair] for pair in rules))
        total += weight
        for span, _ in rules:
            spans[span] = spans.get(span, 0.0) + weight
    return {span: weight / total for span, weight in spans.items()}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_span_is_as_probable_as_the_derivations_that_have_it(
    parser: Parser, sentence: str
) -> None:
    tokens = tuple(sentence.split())
    found = {
        cell.span: cell.probability
        for cell in span_chart(parser, tokens)
        if cell.probability > 0
    }
    assert found == pytest.approx(enumerated(parser, tokens), rel=1e-6)


def test_the_whole_sentence_has_the_score_of_its_best_derivation(
    parser: Parser,
) -> None:
    best = parser.parse("walk and jump twice").reading
    assert best is not None
    whole = span_chart(parser, ("walk", "and", "jump", "twice"))[-1]
    assert (whole.span, whole.rule) == (Span(0, 4), best.derivation.root.rule)
    assert whole.score == pytest.approx(sum(best.scores))
    assert whole.probability == pytest.approx(1)


@pytest.mark.parametrize(
    "sentence", [*SENTENCES, "run twice fly jump", "fly", "", "run " * 300]
)
def test_with_a_chart_the_answer_is_the_same(parser: Parser, sentence: str) -> None:
    plain, explained = (
        next(parser.answers([sentence])),
        charted(parser, tuple(sentence.split())),
    )
    assert (plain.target, plain.reason) == (explained.target, explained.reason)
    assert plain.probability == pytest.approx(explained.probability)
    assert plain.chart is None


def test_gaps_of_an_answer_are_those_of_the_grammar(parser: Parser) -> None:
    tokens = ("run", "twice", "fly", "and", "jump")
    assert parser.parse(" ".join(tokens)).gaps == gaps(parser.grammar, tokens)


@pytest.mark.parametrize("sentence", ["run twice and jump", "run twice fly and jump"])
def test_an_explanation_takes_one_chart_and_one_encoding(
    parser: Parser, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def count(*given: Any, **options: Any) -> Any:
            done.append(name)
            return original(*given, **options)

        return count

    charting = ((charts_module, "untyped_charts"), (charts_module, "typed_charts"))
    for owner, name in (*charting, (Parser, "subwords"), (Parser, "_scores")):
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    Service("model", parser).explain_all([Question(sentence, readings=2, explain=True)])
    once = ["untyped_charts", "subwords", "_scores"]
    # Of an abstention, the nearest training sentence is parsed, too.
    is_abstention = parser.parse(sentence).target is None
    expected = once * 2 if is_abstention else once
    assert done[: len(expected)] == expected


def test_of_an_underivable_sentence_the_known_parts_are_charted_without_probability(
    parser: Parser,
) -> None:
    cells = span_chart(parser, ("run", "twice", "fly", "jump"))
    assert [(cell.span, cell.probability) for cell in cells] == [
        (Span(0, 1), 0),
        (Span(3, 4), 0),
        (Span(0, 2), 0),
    ]


@pytest.mark.parametrize(
    "tokens",
    [(), ("fly",), ("run", *("and", "run") * 300)],
    ids=["empty", "unknown", "too long"],
)
def test_there_is_no_chart_of_what_cannot_be_read(
    parser: Parser, tokens: tuple[str, ...]
) -> None:
    assert span_chart(parser, tokens) == ()


def test_the_drawing_has_a_cell_for_every_derivable_span_and_a_dot_for_every_other(
    parser: Parser,
) -> None:
    tokens = ("run", "twice", "and", "jump")
    cells = span_chart(parser, tokens)
    tree = ElementTree.fromstring(chart_picture(tokens, cells))
    kinds = [each.get("class", "").split()[:1] for each in tree.iter()]
    assert kinds.count(["cell"]) == len(cells)
    assert kinds.count(["nothing"]) == 10 - len(cells)
    assert [each.text for each in tree.iter() if each.get("class") == "word"] == list(
        tokens
    )
    assert f"Chart: the grammar derives {len(cells)} of 10 spans" in chart_picture(
        tokens, cells
    )
    assert len(list(tree.iter("tr"))) == len(cells) + 1


def test_a_cell_shows_its_probability_or_where_it_has_none_its_score(
    parser: Parser,
) -> None:
    rule = parser.grammar[0]
    drawn = chart_picture(("walk",), [ChartSpan(Span(0, 1), rule, -1.25, 0.5)])
    assert ">50%</text>" in drawn
    assert 'class="cell sure"' in drawn
    unused = chart_picture(("walk",), [ChartSpan(Span(0, 1), rule, -1.25, 0.0)])
    assert ">-1.2</text>" in unused
    assert 'class="cell unused"' in unused


def test_a_chart_that_is_too_wide_is_not_drawn() -> None:
    assert "too wide to draw" in chart_picture(("run",) * (MOST_DRAWN_WORDS + 1), [])


def test_gaps_are_drawn_with_the_kind_of_every_part(parser: Parser) -> None:
    drawn = gaps_picture(gaps(parser.grammar, ("run", "twice", "fly", "and", "jump")))
    tree = ElementTree.fromstring(drawn)
    assert [(each.get("class"), each.text) for each in tree.iter("span")] == [
        ("island", "run twice"),
        ("unknown", "fly"),
        ("loose", "and"),
        ("island", "jump"),
        ("island", "the grammar derives this part"),
        ("loose", "known, but it does not fit here"),
        ("unknown", "no rule knows it"),
    ]
