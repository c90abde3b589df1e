"""Programs written token by token are those that are rendered whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.text.programs import ProgramTokenizer, fit_programs
from nqg.text.spelling import Spelling

STYLES = {
    "calls": ['set(fan, "a b", x=2)', "f(g(x), y)"],
    "json": ['{"name": "f", "arguments": {"a": [1, 2], "b": "c d"}}'],
    "spaced": ["f( a,b )", "g( 'x y' )", "SELECT count(x) IN (1, 2)"],
}
TOKENS = [
    "set",
    "f",
    "x",
    "2",
    "(",
    ")",
    ",",
    "=",
    '"',
    "'",
    "{",
    "}",
    ":",
    "IN",
    "␣␣",
    "⁀",
]
programs = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12)


@pytest.mark.parametrize("style", [*STYLES, "tokens"])
@given(tokens=programs)
def test_the_transducer_writes_what_render_writes(
    style: str, tokens: list[str]
) -> None:
    tokenizer = ProgramTokenizer()
    if style in STYLES:
        tokenizer = fit_programs(STYLES[style], "code")
    spelling = Spelling(tokenizer)
    # The first pass notes what follows what; the second writes it with fewer states.
    first = written(spelling, tokens)
    spelling.merge_states()
    assert first == written(spelling, tokens) == tokenizer.render(tokens)


def written(spelling: Spelling, tokens: list[str]) -> str:
    state = spelling.begin
    text = ""
    for token in tokens:
        spelled = spelling.write(state, [token])
        text += str(spelled)
        state = spelled.state
    return text + spelling.end(state)
