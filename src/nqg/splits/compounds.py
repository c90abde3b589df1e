"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In FunQL and any other bracketed language, compounds are a symbol and one child with
the child's place among the arguments kept: `exclude(longest(_),_)`. In SQL they come from a parse. Where a target is a
flat sequence of tokens, compounds are pairs of neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from nqg.data.examples import Example
from nqg.data.sql import sql_atoms, sql_template
from nqg.errors import SettingsError, UnknownName
from nqg.splits.partition import Template, constants_template, funql_template, regex_template
from nqg.splits.trees import NAMELESS, PAIRS, bracket_tree, sql_compounds


class Decomposition(Protocol):
    """What a target is made of: its atoms, and the compounds in which they are combined, each with its count."""

    def atoms(self, target: str) -> Counter[str]: ...

    def compounds(self, target: str) -> Counter[str]: ...


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
        found: Counter[str] = Counter()
        for node in bracket_tree(target).nodes():
            for place, child in enumerate(node.children):
                arguments = ["_"] * len(node.children)
                blanks = ",".join("_" * len(child.children))
                arguments[place] = f"{child.label}({blanks})" if child.children else child.label
                found[f"{node.label}({','.join(arguments)})"] += 1
        return found


class SqlDecomposition:
    """Words, and first and second order edges of the parse tree, of SQL queries."""

    def atoms(self, target: str) -> Counter[str]:
        return sql_atoms(target)

    def compounds(self, target: str) -> Counter[str]:
        return sql_compounds(target)


class TokenDecomposition:
    """Tokens, and pairs of neighbouring tokens, of a target without brackets."""

    def atoms(self, target: str) -> Counter[str]:
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


def language_of(
    examples: Sequence[Example], language: Language | str | None = None, blank: str | None = None
) -> Language:
    """The language that is given or named, or else the likely one; templates blank what the regex `blank` matches.

    >>> language_of([], "sql").template("select a from b limit 3")
    'select a from b limit INTEGER'
    """
    if language is None:
        language = likely_language(examples)
    elif isinstance(language, str):
        if language not in LANGUAGES:
            raise UnknownName("target language", language, LANGUAGES)
        language = LANGUAGES[language]
    return language if blank is None else replace(language, template=regex_template(blank))


def likely_language(examples: Sequence[Example]) -> Language:
    """The language that most targets look like, by their first words and brackets.

    >>> likely_language([Example("jump twice", "I_JUMP I_JUMP")]).name
    'tokens'
    """
    if not examples:
        raise SettingsError("there are no examples; a split needs at least 2")
    votes: Counter[str] = Counter()
    for example in examples:
        target = example.target
        if target.lower().split(maxsplit=1)[:1] == ["select"]:
            votes["sql"] += 1
        elif target.startswith("answer ( "):
            votes["funql"] += 1
        else:
            votes["brackets" if any(bracket in target for bracket in PAIRS) else "tokens"] += 1
    return LANGUAGES[max(LANGUAGES, key=lambda name: votes[name])]
