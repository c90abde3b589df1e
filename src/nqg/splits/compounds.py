"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In a bracketed language, compounds are a symbol and one child with the child's
position among the arguments kept: `exclude(longest(_),_)`. Where a target is a flat sequence of tokens, compounds are
pairs of neighbours. FunQL and SQL are named here and live in `nqg.paper`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from nqg.data.example import Example
from nqg.errors import FormatError, SettingsError, UnknownName
from nqg.extensions import load_extension
from nqg.text.brackets import BRACKETS

NAMELESS = frozenset({"", "()", "[]", "{}"})  # labels of nodes that no symbol of the target names
PIECE = re.compile(r"""[()\[\]{},]|"[^"]*"|'[^']*'|[^\s()\[\]{},]+""")


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with a label and its children in order; a node without children is a leaf.

    >>> tree = Tree("longest", (Tree("river"),))
    >>> str(tree)
    'longest(river)'
    """

    label: str
    children: tuple[Tree, ...] = ()

    def nodes(self) -> Iterator[Tree]:
        """This node and everything below it, parents before children, left before right.

        No recursion: a tree may be deeper than Python's stack.
        """
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def __str__(self) -> str:
        pieces: list[str] = []
        waiting: list[Tree | str] = [self]
        while waiting:
            item = waiting.pop()
            pieces.append(item if isinstance(item, str) else item.label)
            if isinstance(item, Tree) and item.children:
                inside: list[Tree | str] = [
                    each for child in item.children for each in (", ", child)
                ]
                waiting += [")", *reversed(inside[1:]), "("]
        return "".join(pieces)


def bracket_tree(target: str) -> Tree:
    """The tree that the brackets of `target` draw.

    >>> str(bracket_tree("exclude ( longest ( river ) , m0 )"))
    'exclude(longest(river), m0)'
    >>> str(bracket_tree("(count (city all) 7)"))
    'count(city(all), 7)'
    """
    pieces = PIECE.findall(target)
    heads_inside = bool(pieces) and pieces[0] in BRACKETS
    path = [OpenNode()]  # from the root to the place that was reached
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=True):
        top = path[-1]
        if piece in BRACKETS and top.label and not top.bracket:
            top.bracket = piece
        elif piece in BRACKETS:
            path.append(OpenNode(piece))
        elif piece in BRACKETS.values():
            path.pop()
            if BRACKETS.get(top.bracket) != piece:
                raise FormatError(f"found '{piece}', expected {top.expected()}")
            path[-1].children.append(top.closed())
        elif piece == ",":
            continue
        elif not heads_inside and following in BRACKETS:
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
        return Tree(
            self.label or self.bracket + BRACKETS.get(self.bracket, ""), tuple(self.children)
        )

    def expected(self) -> str:
        bracket = self.bracket
        return (
            f"'{BRACKETS[bracket]}' for '{self.label}{bracket}'"
            if bracket
            else "no closing bracket here"
        )


def bracket_atoms(target: str) -> Counter[str]:
    """The symbols of FunQL, and of any other bracketed target.

    >>> sorted(bracket_atoms("longest ( river )"))
    ['longest', 'river']
    """
    return Counter(
        node.label for node in bracket_tree(target).nodes() if node.label not in NAMELESS
    )


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


Template = Callable[[str], str]  # from a target


def regex_template(pattern: str, blank: str = "_") -> Template:
    """The template that replaces every match of `pattern`.

    >>> regex_template("[0-9]+")("limit 3 offset 20")
    'limit _ offset _'
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"'{pattern}' is not a regular expression: {error}") from error
    return lambda target: compiled.sub(lambda _: blank, target)


# Numbers and quoted strings that stand alone between spaces.
CONSTANTS = r"""(?<!\S)(?:-?[0-9]+(?:\.[0-9]+)?|"[^"]*"|'[^']*')(?!\S)"""
constants_template = regex_template(CONSTANTS)


class Decomposition(NamedTuple):
    """What a target is made of: its atoms, and the compounds in which they are combined, each with its count."""

    atoms: Callable[[str], Counter[str]]
    compounds: Callable[[str], Counter[str]]


BRACKET_TREES = Decomposition(bracket_atoms, bracket_compounds)


@dataclass(frozen=True, slots=True)
class Language:
    """How targets are decomposed, which template they have, and whether a target looks like one of the language."""

    name: str
    decomposition: Decomposition
    template: Template
    is_likely: Callable[[str], bool]


BRACKETED = Language(
    "brackets",
    BRACKET_TREES,
    constants_template,
    is_likely=lambda target: any(bracket in target for bracket in BRACKETS),
)
TOKENS_LANGUAGE = Language(
    "tokens",
    Decomposition(lambda target: Counter(target.split()), neighbours),
    constants_template,
    is_likely=lambda target: True,
)
# Where each language is found. A target is taken to be in the first one that it looks like.
COMPOUND_LANGUAGES = {
    "funql": "nqg.paper.split_languages:FUNQL",
    "sql": "nqg.paper.split_languages:SQL",
    "brackets": "nqg.splits.compounds:BRACKETED",
    "tokens": "nqg.splits.compounds:TOKENS_LANGUAGE",
}


def load_language(name: str) -> Language:
    """The language of that name.

    >>> load_language("sql").template("select a from b limit 3")
    'select a from b limit INTEGER'
    """
    if name not in COMPOUND_LANGUAGES:
        raise UnknownName("target language", name, COMPOUND_LANGUAGES)
    language: Language = load_extension(COMPOUND_LANGUAGES[name])
    return language


def language_of(
    examples: Sequence[Example], language: Language | str | None = None, blank: str | None = None
) -> Language:
    """The language that is given or named, or else the likely one; templates blank what the regex `blank` matches."""
    if language is None:
        language = likely_language(examples)
    elif isinstance(language, str):
        language = load_language(language)
    return language if blank is None else replace(language, template=regex_template(blank))


def likely_language(examples: Sequence[Example]) -> Language:
    """The language that most targets look like.

    >>> likely_language([Example("jump twice", "I_JUMP I_JUMP")]).name
    'tokens'
    """
    if not examples:
        raise SettingsError("there are no examples; a split needs at least 2")
    languages = [load_language(name) for name in COMPOUND_LANGUAGES]
    votes: Counter[str] = Counter()
    for example in examples:
        likely = next(language for language in languages if language.is_likely(example.target))
        votes[likely.name] += 1
    return max(languages, key=lambda language: votes[language.name])
