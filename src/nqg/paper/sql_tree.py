"""SQL as trees: the reader of a query's structure from which the atoms and compounds of the paper's
splits are taken.

A parser by recursive descent over the words of `nqg.sql.tokens`. `WordReader` is its cursor, which
other readers share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from nqg.errors import FormatError
from nqg.splits.compounds import (
    Decomposition,
    Language,
    Tree,
)
from nqg.sql.tokens import RESERVED, SQL_QUOTES, is_number, sql_words
from nqg.types.program_trees import operator_levels

Item = TypeVar("Item")


SET_OPERATIONS = ("union", "intersect", "except")
JOIN_KINDS = ("natural", "left", "right", "full", "inner", "cross", "outer")
COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "like", "glob")
SQL_OPERATORS = (
    ("or",),
    ("and",),
    ("not", "in", "between", "is", *COMPARISONS),
    ("+", "-", "||"),
    ("*", "/", "%"),
)
SQL_OR, _, COMPARISON, SUM, _ = range(len(SQL_OPERATORS))
LEVEL = operator_levels(SQL_OPERATORS)
END = ""


def sql_tree(text: str) -> Tree:
    """The tree of a query; one outside the grammar is refused with the place and what was expected
    there.

    >>> str(sql_tree("select max(age) from head where name = 'x y' limit 3"))
    "select-from-where-limit(select(max(age)), from(head), where(=(name, 'x y')), limit(3))"
    """
    parser = SqlParser(sql_words(text))
    try:
        tree = parser.query()
    except RecursionError:
        raise FormatError("the query is nested too deeply to be parsed") from None
    parser.skip_semicolons()
    if not parser.at(END):
        raise parser.complaint("the end of the query")
    return tree


class WordReader:
    """A place in the words of a query; each method reads on from there, keywords in any case."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        # Two ends, because a parser looks one word ahead.
        self.keywords = [*(word.lower() for word in words), END, END]
        self.place = 0

    @property
    def following(self) -> str:
        return self.keywords[self.place + 1]

    def at(self, *keywords: str) -> bool:
        return self.keywords[self.place] in keywords

    def take(self, keyword: str) -> bool:
        """Whether `keyword` stands here; if so, it is stepped over."""
        is_here = self.at(keyword)
        self.place += is_here
        return is_here

    def one_of(self, keywords: Iterable[str]) -> str | None:
        return self.word().lower() if self.at(*keywords) else None

    def expect(self, keyword: str) -> None:
        if not self.take(keyword):
            raise self.complaint(f"'{keyword}'")

    def skip_semicolons(self) -> None:
        while self.take(";"):
            pass

    def word(self) -> str:
        if self.at(END):
            raise self.complaint("a word")
        self.place += 1
        return self.words[self.place - 1]

    def complaint(self, expected: str) -> FormatError:
        """The error to raise where `expected` should stand here and does not."""
        actual = (
            "the end of the query" if self.at(END) else f"'{self.words[self.place]}'"
        )
        # The last words before show where that is.
        before = " ".join(self.words[max(0, self.place - 4) : self.place])
        position = f"after '{before}'" if before else "at the start"
        return FormatError(f"expected {expected} {position}, found {actual}")


class SqlParser(WordReader):
    """Each method reads one construct, and returns its tree."""

    def query(self) -> Tree:
        left = self.selection()
        while self.at(*SET_OPERATIONS):
            operation = self.word().lower()
            if self.take("all"):
                operation += " all"
            left = Tree(operation, (left, self.selection()))
        return left

    def selection(self) -> Tree:
        """One `select` with its clauses, under a label that lists them."""
        self.expect("select")
        self.take("all")
        # Items and clauses are children; the label lists the clauses.
        items = self.distinct(lambda: self.aliased(self.expression()))
        clauses = (Tree("select", items), *self.clauses())
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
            yield Tree("limit", self.list_of(self.expression))
        if self.take("offset"):
            yield Tree("offset", (self.expression(),))

    def distinct(self, item: Callable[[], Tree]) -> tuple[Tree, ...]:
        """A list of items, under a node of its own where `distinct` stands before it."""
        if self.take("distinct"):
            return (Tree("distinct", self.list_of(item)),)
        return self.list_of(item)

    def list_of(self, item: Callable[[], Tree]) -> tuple[Tree, ...]:
        items = [item()]
        while self.take(","):
            items.append(item())
        return tuple(items)

    def ordered(self) -> Tree:
        expression = self.expression()
        direction = self.one_of(("asc", "desc"))
        return Tree(direction, (expression,)) if direction else expression

    def arguments(self) -> tuple[Tree, ...]:
        """What stands in the brackets of `in` or of a function."""
        if self.at(")"):
            return ()
        return (self.query(),) if self.at("select") else self.distinct(self.argument)

    def argument(self) -> Tree:
        expression = self.expression()
        # As in `cast`.
        return Tree("as", (expression, self.name())) if self.take("as") else expression

    def aliased(self, tree: Tree) -> Tree:
        """`tree` with the name that is given to it, with or without `as`."""
        return (
            Tree("as", (tree, self.name()))
            if self.take("as") or self.at_name()
            else tree
        )

    def at_name(self) -> bool:
        word = self.keywords[self.place]
        return (word[:1].isalnum() or word.startswith("_")) and word not in RESERVED

    def name(self) -> Tree:
        if self.at_name() or self.keywords[self.place].startswith(SQL_QUOTES):
            return Tree(self.word())
        raise self.complaint("a name")

    def joined_tables(self) -> Tree:
        left = self.table()
        while self.at("join", *JOIN_KINDS):
            # `natural left outer join`: all words are part of the label.
            kinds = []
            while self.at(*JOIN_KINDS):
                kinds.append(self.word().lower())
            self.expect("join")
            joined = [left, self.table()]
            if self.take("on"):
                joined.append(Tree("on", (self.expression(),)))
            elif self.take("using"):
                joined.append(
                    Tree("using", self.bracketed(lambda: self.list_of(self.name)))
                )
            left = Tree(" ".join([*kinds, "join"]), tuple(joined))
        return left

    def table(self) -> Tree:
        inside = self.query if self.following == "select" else self.joined_tables
        return self.aliased(self.bracketed(inside) if self.at("(") else self.name())

    def bracketed(self, item: Callable[[], Item]) -> Item:
        self.expect("(")
        inside = item()
        self.expect(")")
        return inside

    def expression(self, loosest: int = SQL_OR) -> Tree:
        """What operators make of operands, none of them looser than `loosest`; equal ones are
        grouped from the left.
        """
        # Precedence climbing: an operator takes what binds tighter than itself.
        is_negated = loosest <= COMPARISON and self.take("not")
        left = (
            Tree("not", (self.expression(COMPARISON),))
            if is_negated
            else self.operand()
        )
        while True:
            level = LEVEL.get(self.keywords[self.place], -1)
            if level < loosest:
                return left
            if level != COMPARISON:
                left = Tree(self.word().lower(), (left, self.expression(level + 1)))
            elif self.take("not"):
                left = Tree("not", (self.predicate(left),))
            else:
                left = self.predicate(left)

    def predicate(self, left: Tree) -> Tree:
        if self.take("in"):
            return Tree("in", (left, *self.bracketed(self.arguments)))
        if self.take("between"):
            # The `and` of `between` is not that of conditions.
            low = self.expression(SUM)
            self.expect("and")
            return Tree("between", (left, low, self.expression(SUM)))
        if self.take("is"):
            return Tree(
                "is not" if self.take("not") else "is", (left, self.expression(SUM))
            )
        if self.at(*COMPARISONS):
            comparison = self.word().lower()
            operands = [left, self.expression(SUM)]
            if self.take("escape"):
                operands.append(self.expression(SUM))
            return Tree(comparison, tuple(operands))
        raise self.complaint("'in', 'between' or 'like'")

    def operand(self) -> Tree:
        if self.at("("):
            return self.bracketed(
                self.query if self.following == "select" else self.expression
            )
        # What stands before a subquery.
        if self.at("exists", "all"):
            return Tree(self.word().lower(), (self.bracketed(self.query),))
        if self.take("-"):
            return Tree("-", (self.operand(),))
        if self.at("case") and "end" in self.keywords[self.place :]:
            return self.case()
        # Stars, numbers and strings, unless they are names of tables before a dot.
        first = self.keywords[self.place][:1]
        if self.at("*", "null") or (
            (first.isdigit() or first in ("-", *SQL_QUOTES)) and self.following != "."
        ):
            return Tree(self.word())
        name = self.name()
        if self.at("("):
            return Tree(name.label.lower(), self.bracketed(self.arguments))
        return Tree(".", (name, Tree(self.word()))) if self.take(".") else name

    def case(self) -> Tree:
        self.expect("case")
        parts = [] if self.at("when") else [self.expression()]
        while self.take("when"):
            condition = self.expression()
            self.expect("then")
            parts.append(Tree("when", (condition, self.expression())))
        if self.take("else"):
            parts.append(Tree("else", (self.expression(),)))
        self.expect("end")
        return Tree("case", tuple(parts))


def sql_atoms(text: str) -> Counter[str]:
    """The atoms of a query, counted: its words, a quoted string being one.

    >>> sql_atoms("select a from t where a = 'x y'")["'x y'"]
    1
    """
    return Counter(sql_words(text))


def sql_compounds(text: str) -> Counter[str]:
    """First and second order edges of the query's tree, counted, the position of each child kept.

    A blank stands for an earlier sibling, later ones are not written: `=(_, 3)` has 3 as its second
    argument.

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
    compounds: Counter[str] = Counter()
    for node in sql_tree(text).nodes():
        for position, child in enumerate(node.children):
            # The edge to a child, and those from there to its children.
            head = f"{node.label}({'_, ' * position}{child.label}"
            compounds[f"{head})"] += 1
            for inner_position, grandchild in enumerate(child.children):
                compounds[f"{head}({'_, ' * inner_position}{grandchild.label}))"] += 1
    return compounds


def sql_template(text: str) -> str:
    """The query with its integers and quoted strings blanked out.

    >>> sql_template("select a from t1 where b = 'x y' limit 3")
    'select a from t1 where b = STRING limit INTEGER'
    """
    template = []
    for word in sql_words(text):
        if word[0] in SQL_QUOTES:
            word = "STRING"
        elif is_number(word) and "." not in word:
            word = "INTEGER"
        template.append(word)
    return " ".join(template)


SQL = Language("sql", Decomposition(sql_atoms, sql_compounds), sql_template)
