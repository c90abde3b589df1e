"""Random inputs for tests (Hypothesis)."""

from __future__ import annotations

from hypothesis import strategies as st

from nqg.grammar.production import Category, Production, TargetSymbol, Wildcard
from nqg.grammar.target_grammar import TargetGrammar

# Tokens


def tokens() -> st.SearchStrategy[str]:
    """Any token that a sentence can hold, with a liking for those that formats must escape."""
    tricky = st.sampled_from(
        ["|", "::=", "<a>", "<.>", "<...>", "<..>", "#", "#x", "<", "<>", "\\", "é", "NT_1", "###"]
    )
    escaped = st.builds(lambda slashes, token: "\\" * slashes + token, st.integers(0, 3), tricky)
    anything = st.text(min_size=1, max_size=5).filter(lambda text: text.split() == [text] and "\0" not in text)
    return escaped | anything.filter(_is_encodable)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


# Target grammars

A_OR_B = st.sampled_from("ab")


@st.composite
def target_grammars(
    draw: st.DrawFn,
    *,
    terminals: st.SearchStrategy[str] = A_OR_B,
    wildcards: bool = True,
    recursive: bool = True,
) -> TargetGrammar:
    """A grammar of up to four categories, with all kinds of recursion and unary cycles unless told otherwise.

    The first production drawn for a category uses only later ones, so that every category derives something.
    """
    categories = [Category(name) for name in "ABCD"[: draw(st.integers(1, 4))]]
    leaves: st.SearchStrategy[TargetSymbol] = terminals
    if wildcards:
        leaves |= terminals | st.sampled_from(Wildcard)
    productions: list[Production] = []
    for number, category in enumerate(categories):
        later = leaves | st.sampled_from(categories[number + 1 :]) if categories[number + 1 :] else leaves
        free = leaves | st.sampled_from(categories) if recursive else later
        first = draw(st.lists(later, min_size=1, max_size=2))
        others = draw(st.lists(st.lists(free, min_size=1, max_size=3 if recursive else 2), max_size=3))
        productions += [Production(category, tuple(right)) for right in [first, *others]]
    return TargetGrammar(tuple(draw(st.permutations(productions)) if recursive else productions))
