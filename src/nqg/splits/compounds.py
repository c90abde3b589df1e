"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In FunQL and any other bracketed language, compounds are a symbol and one child with
the child's place among the arguments kept: `exclude(longest(_),_)`. In SQL they are edges of the syntax tree
(`nqg.data.sql_tree`). Where a target is a flat sequence of tokens, compounds are pairs of neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from nqg.data.examples import Example
from nqg.data.sql import sql_atoms, sql_template
from nqg.data.sql_tree import Tree, sql_tree
from nqg.errors import FormatError, SettingsError, UnknownName
from nqg.splits.partition import Template, constants_template, funql_template, regex_template

PAIRS = {"(": ")", "[": "]", "{": "}"}
NAMELESS = frozenset({"", "()", "[]", "{}"})  # labels of nodes that no symbol of the target names
PIECE = re.compile(r"""[()\[\]{},]|"[^"]*"|'[^']*'|[^\s()\[\]{},]+""")


def bracket_tree(target: str) -> Tree:
    """The tree that the brackets of `target` draw.

    >>> str(bracket_tree("exclude ( longest ( river ) , m0 )"))
    'exclude(longest(river), m0)'
    >>> str(bracket_tree("(count (city all) 7)"))
    'count(city(all), 7)'
    """
    pieces = PIECE.findall(target)
    heads_inside = bool(pieces) and pieces[0] in PAIRS
    path = [OpenNode()]  # from the root to the place that was reached
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        top = path[-1]
        if piece in PAIRS and top.label and not top.bracket:
            top.bracket = piece
        elif piece in PAIRS:
            path.append(OpenNode(piece))
        elif piece in PAIRS.values():
            path.pop()
            if PAIRS.get(top.bracket) != piece:
                raise FormatError(f"found '{piece}', expected {top.expected()}")
            path[-1].children.append(top.closed())
        elif piece == ",":
            continue
        elif not heads_inside and following in PAIRS:
            path.append(OpenNode(label=piece))
        elif heads_inside and top.bracket and not top.label and not top.children:
            top.label = piece
        else:
            top.children.append(Tree(piece))
    if len(path) > 1:
        raise FormatError(f"the target ends, expected {path[-1].expected()}")
    children = path[0].children
    return children[0] if len(children) == 1 else path[0].closed()


@dataclass(slots=True)
class OpenNode:
    """A node whose closing bracket has not come yet; a symbol that is applied waits for its opening one first."""

    bracket: str = ""
    label: str = ""
    children: list[Tree] = field(default_factory=list)

    def closed(self) -> Tree:
        return Tree(self.label or self.bracket + PAIRS.get(self.bracket, ""), tuple(self.children))

    def expected(self) -> str:
        bracket = self.bracket
        return f"'{PAIRS[bracket]}' for '{self.label}{bracket}'" if bracket else "no closing bracket here"


def sql_compounds(text: str) -> Counter[str]:
    """First and second order edges of the query's tree, counted, the position of each child kept.

    A blank stands for an earlier sibling, later ones are not written: `=(_, 3)` has 3 as its second argument.

    >>> for compound in sql_compounds("select a from t where b > 3"):
    ...     print(compound)
    select-from-where(select)
    select-from-where(select(a))
    select-from-where(_, from)
    select-from-where(_, from(t))
    select-from-where(_, _, where)
    select-from-where(_, _, where(>))
    select(a)
    from(t)
    where(>)
    where(>(b))
    where(>(_, 3))
    >(b)
    >(_, 3)
    """
    found: Counter[str] = Counter()
    for node in sql_tree(text).nodes():
        for position, child in enumerate(node.children):
            head = f"{node.label}({'_, ' * position}{child.label}"
            found[f"{head})"] += 1
            for inner_position, grandchild in enumerate(child.children):
                found[f"{head}({'_, ' * inner_position}{grandchild.label}))"] += 1
    return found


def bracket_atoms(target: str) -> Counter[str]:
    """The symbols of FunQL, and of any other bracketed target.

    >>> sorted(bracket_atoms("longest ( river )"))
    ['longest', 'river']
    """
    return Counter(node.label for node in bracket_tree(target).nodes() if node.label not in NAMELESS)


def bracket_compounds(target: str) -> Counter[str]:
    """Each symbol with one of its children in its place.

    >>> list(bracket_compounds("exclude ( longest ( river ) , m0 )"))
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


def neighbours(target: str) -> Counter[str]:
    """Pairs of neighbouring tokens.

    >>> list(neighbours("WALK LTURN WALK"))
    ['WALK LTURN', 'LTURN WALK']
    """
    return Counter(" ".join(pair) for pair in pairwise(target.split()))


class Decomposition(NamedTuple):
    """What a target is made of: its atoms, and the compounds in which they are combined, each with its count."""

    atoms: Callable[[str], Counter[str]]
    compounds: Callable[[str], Counter[str]]


BRACKETS = Decomposition(bracket_atoms, bracket_compounds)


@dataclass(frozen=True, slots=True)
class Language:
    name: str
    decomposition: Decomposition
    template: Template


LANGUAGES = {
    language.name: language
    for language in (
        Language("funql", BRACKETS, funql_template),
        Language("sql", Decomposition(sql_atoms, sql_compounds), sql_template),
        Language("brackets", BRACKETS, constants_template),
        Language("tokens", Decomposition(lambda target: Counter(target.split()), neighbours), constants_template),
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
        words = target.lower().split()
        if words[:1] == ["select"] and "from" in words:  # which SPARQL has not
            votes["sql"] += 1
        elif target.startswith("answer ( "):
            votes["funql"] += 1
        else:
            votes["brackets" if any(bracket in target for bracket in PAIRS) else "tokens"] += 1
    return LANGUAGES[max(LANGUAGES, key=lambda name: votes[name])]
