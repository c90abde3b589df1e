"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In FunQL and any other bracketed language, compounds are a symbol and one child with
the child's place among the arguments kept: `exclude(longest(_),_)`. In SQL they come from a parse. Where a target is a
flat sequence of tokens, compounds are pairs of neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

from nqg.data.sql import sql_atoms
from nqg.data.sql_tree import sql_compounds
from nqg.data.tree import Tree
from nqg.splits.brackets import NAMELESS, bracket_tree


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
