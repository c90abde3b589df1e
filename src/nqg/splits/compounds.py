"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In FunQL and any other bracketed language, compounds are a symbol and one child with
the child's place among the arguments kept: `exclude(longest(_),_)`. In SQL they come from a parse. Where a target is a
flat sequence of tokens, compounds are pairs of neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from nqg.data.examples import Example
from nqg.data.sql import sql_atoms, sql_template
from nqg.errors import SettingsError, UnknownName
from nqg.splits.partition import Template, constants_template, funql_template
from nqg.splits.trees import NAMELESS, PAIRS, Tree, bracket_tree, sql_compounds


class Decomposition(Protocol):
    """What a target is made of: its atoms, and the compounds in which they are combined."""

    def atoms(self, target: str) -> Counter[str]:
        """Every atom with its number of occurrences."""

    def compounds(self, target: str) -> Counter[str]:
        """Every compound with its number of occurrences."""


class BracketDecomposition:
    """Symbols, and parent-child pairs, of FunQL and of any other bracketed target."""

    def atoms(self, target: str) -> Counter[str]:
        """The symbols of the target.

        >>> sorted(BracketDecomposition().atoms("longest ( river )"))
        ['longest', 'river']
        """
        return Counter(node.label for node in bracket_tree(target).nodes() if node.label not in NAMELESS)

    def compounds(self, target: str) -> Counter[str]:
        """Each symbol with one of its children in its place.

        >>> list(BracketDecomposition().compounds("exclude ( longest ( river ) , m0 )"))
        ['exclude(longest(_),_)', 'exclude(_,m0)', 'longest(river)']
        """
        return Counter(pair for node in bracket_tree(target).nodes() for pair in _with_one_child(node))


def _with_one_child(node: Tree) -> Iterator[str]:
    for place, child in enumerate(node.children):
        arguments = ["_"] * len(node.children)
        arguments[place] = _blanked(child)
        yield f"{node.label}({','.join(arguments)})"


def _blanked(node: Tree) -> str:
    return f"{node.label}({','.join('_' * len(node.children))})" if node.children else node.label


class SqlDecomposition:
    """Words, and first and second order edges of the parse tree, of SQL queries."""

    def atoms(self, target: str) -> Counter[str]:
        """The words of the query."""
        return sql_atoms(target)

    def compounds(self, target: str) -> Counter[str]:
        """Clauses, operators and functions with one child or grandchild."""
        return sql_compounds(target)


class TokenDecomposition:
    """Tokens, and pairs of neighbouring tokens, of a target without brackets."""

    def atoms(self, target: str) -> Counter[str]:
        """The tokens of the target."""
        return Counter(target.split())

    def compounds(self, target: str) -> Counter[str]:
        """Neighbouring tokens.

        >>> list(TokenDecomposition().compounds("WALK LTURN WALK"))
        ['WALK LTURN', 'LTURN WALK']
        """
        return Counter(" ".join(pair) for pair in pairwise(target.split()))


@dataclass(frozen=True, slots=True)
class Language:
    """A target language, as splits and audits need it."""

    name: str
    decomposition: Decomposition
    template: Template


LANGUAGES = {
    language.name: language
    for language in (
        Language("funql", BracketDecomposition(), funql_template),
        Language("sql", SqlDecomposition(), sql_template),
        Language("brackets", BracketDecomposition(), constants_template),
        Language("tokens", TokenDecomposition(), constants_template),
    )
}


def language_named(name: str) -> Language:
    """The language called `name`.

    >>> language_named("sql").template("select a from b limit 3")
    'select a from b limit INTEGER'
    """
    if name not in LANGUAGES:
        raise UnknownName("target language", name, LANGUAGES)
    return LANGUAGES[name]


def likely_language(examples: Sequence[Example]) -> Language:
    """The language that most targets look like, by their first words and brackets.

    >>> likely_language([Example("jump twice", "I_JUMP I_JUMP")]).name
    'tokens'
    """
    if not examples:
        raise SettingsError("there are no examples; a split needs at least 2")
    looks = [_look(example.target) for example in examples]
    return LANGUAGES[max(LANGUAGES, key=looks.count)]


def _look(target: str) -> str:
    words = target.lower().split(maxsplit=1)
    if words and words[0] == "select":
        return "sql"
    if target.startswith("answer ( "):
        return "funql"
    return "brackets" if any(bracket in target for bracket in PAIRS) else "tokens"
