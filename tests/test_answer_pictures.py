"""What a notebook shows of parses, grammars and derivations."""

from __future__ import annotations

from html.parser import HTMLParser

from nqg.answers import NO_DERIVATION, Answer, Reading
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar

DERIVATION = Derivation.parse("[0:2] NT_1 twice ### NT_1 NT_1\n  [0:1] jump ### I_JUMP")
READING = Reading("I_JUMP I_JUMP", 0.75, DERIVATION, scores=(1.5, -0.25))
OTHER = Reading(
    "I_JUMP", 0.25, Derivation.parse("[0:2] jump twice ### I_JUMP"), is_legal=False
)


class Shown(HTMLParser):
    """The tags and the words of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.extend(data.split())


def test_a_calibrated_parse_shows_its_confidence() -> None:
    assert (
        "confidence 91 %, probability"
        in Answer("jump", "I", 0.75, confidence=0.91, reading=READING)._repr_html_()
    )


def test_a_parse_shows_its_tree_its_probability_and_its_readings() -> None:
    html = Answer(
        "jump twice",
        "I_JUMP I_JUMP",
        0.75,
        "grammar",
        reading=READING,
        readings=(READING, OTHER),
    )._repr_html_()
    shown = Shown(html)
    assert shown.tags.count("svg") == 1
    assert "probability within the grammar 0.75" in html
    assert "① twice → ① ①, where ① is “jump”; score 1.50" in html
    assert shown.tags.count("tr") == 3
    assert "<td>not a legal program</td>" in html


def test_a_parse_without_readings_has_no_table() -> None:
    assert (
        "table"
        not in Shown(
            Answer("jump twice", "I_JUMP I_JUMP", reading=READING)._repr_html_()
        ).tags
    )


def test_an_abstention_shows_the_sentence_and_the_reason() -> None:
    html = Answer("<b> twice", reason=NO_DERIVATION)._repr_html_()
    assert "No answer to <q>&lt;b&gt; twice</q>: no derivation." in html
    assert "svg" not in Shown(html).tags


def test_an_answer_of_another_system_shows_the_program_and_who_gave_it() -> None:
    html = Answer("jump twice", "<I_JUMP>", system="fallback")._repr_html_()
    assert "<code>&lt;I_JUMP&gt;</code> by the fallback" in html


def test_a_grammar_and_a_derivation_show_themselves_in_the_same_style() -> None:
    grammar = Grammar.parse("jump ### I_JUMP")._repr_html_()
    assert "<caption>1 rule</caption>" in grammar
    style = grammar[: grammar.index("</style>")]
    assert DERIVATION._repr_html_().startswith(style)
    assert Shown(DERIVATION._repr_html_()).tags.count("svg") == 1


def test_there_is_no_script_in_what_a_notebook_shows() -> None:
    hostile = Grammar.parse("<script>alert(1)</script> ### x")
    assert "script" not in Shown(hostile._repr_html_()).tags
