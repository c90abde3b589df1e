"""Atoms and compounds of targets (section 3 and appendix B.3 of the paper), for every language that splits know.

Atoms are the symbols of a target. In FunQL and any other bracketed language, compounds are a symbol and one child with
the child's place among the arguments kept: `exclude(longest(_),_)`. In SQL they come from a parse. Where a target is a
flat sequence of tokens, compounds are pairs of neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from nqg.data.examples import Example
from nqg.data.sql import QUOTES, RESERVED, sql_atoms, sql_template, sql_words
from nqg.errors import FormatError, SettingsError, UnknownName
from nqg.splits.partition import Template, constants_template, funql_template, regex_template

Item = TypeVar("Item")


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
                inside: list[Tree | str] = [each for child in item.children for each in (", ", child)]
                waiting += [")", *reversed(inside[1:]), "("]
        return "".join(pieces)


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


END = ""
COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "like")
JOIN_KINDS = ("natural", "left", "right", "full", "inner", "cross", "outer")
SET_OPERATIONS = ("union", "intersect", "except")


def sql_tree(text: str) -> Tree:
    """The tree of a query; one outside the grammar is refused with the place and what was expected there.

    >>> str(sql_tree("select max(age) from head where name = 'x y' limit 3"))
    "select-from-where-limit(select(max(age)), from(head), where(=(name, 'x y')), limit(3))"
    """
    parser = SqlParser(text)
    try:
        tree = parser.query()
    except RecursionError:
        raise FormatError("the query is nested too deeply to be parsed") from None
    parser.take(";")
    if not parser.at(END):
        raise parser.complaint("the end of the query")
    return tree


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


class SqlParser:
    """A parser by recursive descent; keywords are met in any case.

    Each method reads one word or construct from the place that was reached, and returns it.
    """

    def __init__(self, text: str) -> None:
        self.words = sql_words(text)
        # Two ends, because a parser looks one word ahead.
        self.keywords = [*(word.lower() for word in self.words), END, END]
        self.place = 0

    @property
    def following(self) -> str:
        return self.keywords[self.place + 1]

    def at(self, *keywords: str) -> bool:
        return self.keywords[self.place] in keywords

    def at_value(self) -> bool:
        word = self.keywords[self.place]
        return word[:1].isdigit() or word.startswith(QUOTES) or (len(word) > 1 and word.startswith("-"))

    def at_name(self) -> bool:
        word = self.keywords[self.place]
        return (word[:1].isalnum() or word.startswith("_")) and word not in RESERVED

    def take(self, keyword: str) -> bool:
        """Whether `keyword` stands here; if so, it is stepped over."""
        found = self.keywords[self.place] == keyword
        self.place += found
        return found

    def expect(self, keyword: str) -> None:
        if not self.take(keyword):
            raise self.complaint(f"'{keyword}'")

    def keyword(self) -> str:
        return self.word().lower()

    def word(self) -> str:
        if self.at(END):
            raise self.complaint("a word")
        self.place += 1
        return self.words[self.place - 1]

    def name(self) -> str:
        if self.at_name() or self.keywords[self.place].startswith(QUOTES):
            return self.word()
        raise self.complaint("a name")

    def complaint(self, expected: str) -> FormatError:
        """The error to raise where `expected` should stand here and does not."""
        found = "the end of the query" if self.at(END) else f"'{self.words[self.place]}'"
        before = " ".join(self.words[max(0, self.place - 4) : self.place])
        place = f"after '{before}'" if before else "at the start"
        return FormatError(f"expected {expected} {place}, found {found}")

    def query(self) -> Tree:
        left = self.selection()
        while self.at(*SET_OPERATIONS):
            operation = self.keyword() + (" all" if self.take("all") else "")
            left = Tree(operation, (left, self.selection()))
        return left

    def selection(self) -> Tree:
        """One `select` with its clauses, under a label that lists them."""
        self.expect("select")
        clauses = (Tree("select", self.distinct(lambda: self.aliased(self.expression()))), *self.clauses())
        return Tree("-".join(clause.label for clause in clauses), clauses)

    def clauses(self) -> Iterator[Tree]:
        if self.take("from"):
            yield Tree("from", self.list_of(self.joined_tables))
        if self.take("where"):
            yield Tree("where", (self.expression(),))
        if self.take("group"):
            self.expect("by")
            yield Tree("group", self.list_of(self.expression))
        if self.take("having"):
            yield Tree("having", (self.expression(),))
        if self.take("order"):
            self.expect("by")
            yield Tree("order", self.list_of(self.ordered))
        if self.take("limit"):
            yield Tree("limit", (self.expression(),))

    def distinct(self, item: Callable[[], Tree]) -> tuple[Tree, ...]:
        """A list of items, under a node of its own where `distinct` stands before it."""
        return (Tree("distinct", self.list_of(item)),) if self.take("distinct") else self.list_of(item)

    def list_of(self, item: Callable[[], Tree]) -> tuple[Tree, ...]:
        items = [item()]
        while self.take(","):
            items.append(item())
        return tuple(items)

    def ordered(self) -> Tree:
        expression = self.expression()
        return Tree(self.keyword(), (expression,)) if self.at("asc", "desc") else expression

    def aliased(self, tree: Tree) -> Tree:
        """`tree` with the name that is given to it, with or without `as`."""
        return Tree("as", (tree, Tree(self.name()))) if self.take("as") or self.at_name() else tree

    def joined_tables(self) -> Tree:
        left = self.table()
        while self.at("join", *JOIN_KINDS):
            kinds = []
            while self.at(*JOIN_KINDS):
                kinds.append(self.keyword())
            self.expect("join")
            right = self.table()
            condition = (Tree("on", (self.expression(),)),) if self.take("on") else ()
            left = Tree(" ".join([*kinds, "join"]), (left, right, *condition))
        return left

    def table(self) -> Tree:
        return self.aliased(self.bracketed(self.query) if self.at("(") else Tree(self.name()))

    def bracketed(self, item: Callable[[], Item]) -> Item:
        self.expect("(")
        inside = item()
        self.expect(")")
        return inside

    # Expressions, from the loosest operator to the tightest.

    def expression(self) -> Tree:
        return self.grouped_from_the_left(self.conjunction, "or")

    def conjunction(self) -> Tree:
        return self.grouped_from_the_left(self.negation, "and")

    def grouped_from_the_left(self, operand: Callable[[], Tree], *operators: str) -> Tree:
        left = operand()
        while self.at(*operators):
            left = Tree(self.keyword(), (left, operand()))
        return left

    def negation(self) -> Tree:
        return Tree("not", (self.negation(),)) if self.take("not") else self.comparison()

    def comparison(self) -> Tree:
        left = self.sum()
        if self.take("not"):
            return Tree("not", (self.predicate(left),))
        return self.predicate(left) if self.at("in", "between", "is", *COMPARISONS) else left

    def predicate(self, left: Tree) -> Tree:
        if self.take("in"):
            return Tree("in", (left, *self.bracketed(self.members)))
        if self.take("between"):
            low = self.sum()
            self.expect("and")
            return Tree("between", (left, low, self.sum()))
        if self.take("is"):
            return Tree("is not" if self.take("not") else "is", (left, self.sum()))
        if self.at(*COMPARISONS):
            return Tree(self.keyword(), (left, self.sum()))
        raise self.complaint("'in', 'between' or 'like'")

    def members(self) -> tuple[Tree, ...]:
        return (self.query(),) if self.at("select") else self.list_of(self.expression)

    def sum(self) -> Tree:
        return self.grouped_from_the_left(self.product, "+", "-", "||")

    def product(self) -> Tree:
        return self.grouped_from_the_left(self.operand, "*", "/", "%")

    def operand(self) -> Tree:
        if self.at("("):
            return self.bracketed(self.query if self.following == "select" else self.expression)
        if self.take("exists"):
            return Tree("exists", (self.bracketed(self.query),))
        if self.take("-"):
            return Tree("-", (self.operand(),))
        if self.at("*", "null") or (self.at_value() and self.following != "."):
            return Tree(self.word())
        if self.following == "(":
            return Tree(self.name().lower(), self.bracketed(lambda: self.distinct(self.expression)))
        name = Tree(self.name())
        return Tree(".", (name, Tree(self.word()))) if self.take(".") else name


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

    atoms = staticmethod(sql_atoms)
    compounds = staticmethod(sql_compounds)


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
