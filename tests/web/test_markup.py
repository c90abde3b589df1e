"""Markup: whatever a string holds, it comes out as text."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.web.render import Markup, element, escaped, joined

HOSTILE = [
    "<script>alert(1)</script>",
    "\"onmouseover='alert(1)'",
    "</text></svg><img/src=x/onerror=alert(1)>",
    "&lt;b&gt;",
    "]]><!--",
    "\x00\x1b[31m",
    "\ud800",
]


class Reader(HTMLParser):
    """The tags and the text that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.one_of(st.sampled_from(HOSTILE), st.text()))
def test_text_and_attributes_stay_text(text: str) -> None:
    made = element("p", text, title=text, data_rule=text)
    reader = Reader()
    reader.feed(made)
    reader.close()
    assert reader.tags == ["p"]
    tree = ElementTree.fromstring(made)  # also well-formed XML, which SVG has to be
    assert len(tree) == 0
    assert set(tree.attrib) == {"title", "data-rule"}


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"])))
def test_printable_text_is_shown_unchanged(text: str) -> None:
    assert (ElementTree.fromstring(element("p", text)).text or "") == text


def test_markup_is_not_escaped_twice() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, " & ") == "<p><b>1 &lt; 2</b> &amp; </p>"
    assert joined([inner, "<"]) == f"{inner}&lt;"
    assert escaped(Markup("<i></i>")) == "<i></i>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3, "3"), (0.1 + 0.2, "0.3"), (1234567.0, "1.23457e+06"), ("x", "x")],
)
def test_numbers_are_written_briefly(value: str | float, shown: str) -> None:
    assert element("a", x=value) == f'<a x="{shown}"></a>'


def test_an_attribute_that_is_none_is_left_out() -> None:
    assert element("a", title=None, class_="b") == '<a class="b"></a>'
