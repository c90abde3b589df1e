"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), by language.

Atoms are the symbols of a target. In a bracketed language, compounds are a symbol and one child
with the child's position among the arguments kept: `exclude(longest(_),_)`. Where a target is a
flat sequence of tokens, compounds are pairs of neighbours. SQL is recognised here, but its reader
lives in `nqg.paper` and is loaded for SQL alone.
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
from nqg.text.brackets import BRACKETS, CLOSING_BRACKETS

# Labels of nodes that no symbol of the target names.
NAMELESS = frozenset({"", "()", "[]", "{}"})
TOKEN = re.compile(r"""[()\[\]{},]|"[^"]*"|'[^']*'|[^\s()\[\]{},]+""")


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
        texts: list[str] = []
        waiting: list[Tree | str] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                texts.append(item)
                continue
            texts.append(item.label)
            if item.children:
                waiting.append(")")
                for child in reversed(item.children):
                    waiting += [child, ", "]
                waiting[-1] = "("
        return "".join(texts)


def bracket_tree(target: str) -> Tree:
    """The tree that the brackets of `target` draw.

    >>> str(bracket_tree("exclude ( longest ( river ) , m0 )"))
    'exclude(longest(river), m0)'
    >>> str(bracket_tree("(count (city all) 7)"))
    'count(city(all), 7)'
    """
    tokens = TOKEN.findall(target)
    heads_inside = bool(tokens) and tokens[0] in BRACKETS
    # The nodes that are open, from the root down.
    path = [OpenNode()]
    for token, following in pairwise([*tokens, ""]):
        top = path[-1]
        if token in BRACKETS and top.label and not top.bracket:
            top.bracket = token
        elif token in BRACKETS:
            path.append(OpenNode(token))
        elif token in CLOSING_BRACKETS:
            path.pop()
            if BRACKETS.get(top.bracket) != token:
                raise FormatError(f"found '{token}', expected {top.expected()}")
            path[-1].children.append(top.closed())
        elif token == ",":
            continue
        elif not heads_inside and following in BRACKETS:
            path.append(OpenNode(label=token))
        elif heads_inside and top.bracket and not top.label and not top.children:
            top.label = token
        else:
            top.children.append(Tree(token))
    if len(path) > 1:
        raise FormatError(f"the target ends, expected {path[-1].expected()}")
    root = path[0].closed()
    return root.children[0] if len(root.children) == 1 else root


@dataclass(slots=True)
class OpenNode:
    """A node whose closing bracket has not come yet.

    A symbol that is applied waits for its opening bracket first.
    """

    bracket: str = ""
    label: str = ""
    children: list[Tree] = field(default_factory=list)

    def closed(self) -> Tree:
        label = self.label or self.bracket + BRACKETS.get(self.bracket, "")
        return Tree(label, tuple(self.children))

    def expected(self) -> str:
        bracket = self.bracket
        if not bracket:
            return "no closing bracket here"
        return f"'{BRACKETS[bracket]}' for '{self.label}{bracket}'"


def bracket_atoms(target: str) -> Counter[str]:
    """The symbols of FunQL, and of any other bracketed target.

    >>> sorted(bracket_atoms("longest ( river )"))
    ['longest', 'river']
    """
    labels = (node.label for node in bracket_tree(target).nodes())
    return Counter(label for label in labels if label not in NAMELESS)


def bracket_compounds(target: str) -> Counter[str]:
    """Each symbol with one of its children in its place.

    >>> list(bracket_compounds("exclude ( longest ( river ) , m0 )"))
    ['exclude(longest(_),_)', 'exclude(_,m0)', 'longest(river)']
    """
    compounds = Counter[str]()
    for node in bracket_tree(target).nodes():
        for number, child in enumerate(node.children):
            arguments = ["_"] * len(node.children)
            arguments[number] = child.label
            if child.children:
                arguments[number] += f"({','.join('_' * len(child.children))})"
            compounds[f"{node.label}({','.join(arguments)})"] += 1
    return compounds


def neighbours(target: str) -> Counter[str]:
    """Pairs of neighbouring tokens.

    >>> list(neighbours("WALK LTURN WALK"))
    ['WALK LTURN', 'LTURN WALK']
    """
    return Counter(" ".join(pair) for pair in pairwise(target.split()))


# A function of a target.
Template = Callable[[str], str]


def regex_template(pattern: str, blank: str = "_") -> Template:
    """The template that replaces every match of `pattern`.

    >>> regex_template("[0-9]+")("limit 3 offset 20")
    'limit _ offset _'
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            f"'{pattern}' is not a regular expression: {error}"
        ) from error
    return lambda target: compiled.sub(lambda _: blank, target)


# Numbers and quoted strings that stand alone between spaces.
CONSTANT_PATTERN = r"""(?<!\S)(?:-?[0-9]+(?:\.[0-9]+)?|"[^"]*"|'[^']*')(?!\S)"""
constants_template = regex_template(CONSTANT_PATTERN)


class Decomposition(NamedTuple):
    """Functions that count the atoms of a target, and the compounds in which they are combined."""

    atoms: Callable[[str], Counter[str]]
    compounds: Callable[[str], Counter[str]]


BRACKET_TREES = Decomposition(bracket_atoms, bracket_compounds)


@dataclass(frozen=True, slots=True)
class Language:
    """How targets of a language are decomposed, and which template they have."""

    name: str
    decomposition: Decomposition
    template: Template


FUNQL = Language(
    "funql", BRACKET_TREES, regex_template(rf"(?<!\S)m[0-9]+(?!\S)|{CONSTANT_PATTERN}")
)
BRACKETED = Language("brackets", BRACKET_TREES, constants_template)
TOKENS_LANGUAGE = Language(
    "tokens",
    Decomposition(lambda target: Counter(target.split()), neighbours),
    constants_template,
)
COMPOUND_LANGUAGES = {
    "funql": "nqg.splits.compounds:FUNQL",
    "sql": "nqg.paper.sql_tree:SQL",
    "brackets": "nqg.splits.compounds:BRACKETED",
    "tokens": "nqg.splits.compounds:TOKENS_LANGUAGE",
}


def language_name(target: str) -> str:
    """The name of the language that a target looks like; a query of SPARQL has no `from`.

    >>> language_name("SELECT name FROM head"), language_name("SELECT ?x WHERE { ?x a film }")
    ('sql', 'brackets')
    """
    words = target.lower().split()
    if target.startswith("answer ( "):
        return "funql"
    if words[:1] == ["select"] and "from" in words:
        return "sql"
    if any(bracket in target for bracket in BRACKETS):
        return "brackets"
    return "tokens"


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
    examples: Sequence[Example],
    language: Language | str | None = None,
    blank: str | None = None,
) -> Language:
    """The language that is given or named, or else the likely one.

    Its templates leave out what the regular expression `blank` matches.
    """
    if language is None:
        language = likely_language(examples)
    elif isinstance(language, str):
        language = load_language(language)
    if blank is not None:
        language = replace(language, template=regex_template(blank))
    return language


def likely_language(examples: Sequence[Example]) -> Language:
    """The language that most targets look like.

    >>> likely_language([Example("jump twice", "I_JUMP I_JUMP")]).name
    'tokens'
    """
    if not examples:
        raise SettingsError("there are no examples; a split needs at least 2")
    votes = Counter(language_name(example.target) for example in examples)
    # Of languages with equal votes, the first one in the table wins.
    return load_language(max(COMPOUND_LANGUAGES, key=lambda name: votes[name]))
