"""The parse tree of a query, and the compounds that the splits count in it (appendix B.3 of the paper).

A recursive-descent parser for the SQL that Spider uses. Clauses, operators and functions become nodes, names and
values leaves; brackets, commas and the final semicolon only shape the tree:

    select count(*) from a as t1 join b as t2 on t1.x = t2.y where t1.z > 3

    select-from-where
      select(count(*))
      from(join(as(a, t1), as(b, t2), on(=(.(t1, x), .(t2, y)))))
      where(>(.(t1, z), 3))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from nqg.data.sql_cursor import END, SqlCursor
from nqg.data.tree import Tree
from nqg.errors import FormatError

COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "like")
JOIN_KINDS = ("natural", "left", "right", "full", "inner", "cross", "outer")
SET_OPERATIONS = ("union", "intersect", "except")


def sql_tree(text: str) -> Tree:
    """The tree of a query; one outside the grammar is refused with the place and what was expected there.

    >>> str(sql_tree("select max(age) from head where name = 'x y' limit 3"))
    "select-from-where-limit(select(max(age)), from(head), where(=(name, 'x y')), limit(3))"
    """
    try:
        return _Parser(text).statement()
    except RecursionError:
        raise FormatError("the query is nested too deeply to be parsed") from None


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
    return Counter(compound for node in sql_tree(text).nodes() for compound in _edges(node))


def _edges(node: Tree) -> Iterator[str]:
    """The edges to the node's children and, through them, to its grandchildren."""
    for position, child in enumerate(node.children):
        head = f"{node.label}({'_, ' * position}{child.label}"
        yield f"{head})"
        for inner_position, grandchild in enumerate(child.children):
            yield f"{head}({'_, ' * inner_position}{grandchild.label}))"


class _Parser(SqlCursor):
    """Each method reads one construct from where the cursor stands, and returns its tree."""

    def statement(self) -> Tree:
        query = self.query()
        self.take(";")
        if not self.at(END):
            raise self.complaint("the end of the query")
        return query

    def query(self) -> Tree:
        left = self.selection()
        while self.at(*SET_OPERATIONS):
            operation = self.keyword() + (" all" if self.take("all") else "")
            left = Tree(operation, (left, self.selection()))
        return left

    def selection(self) -> Tree:
        """One `select` with its clauses, under a label that lists them."""
        self.expect("select")
        clauses = (Tree("select", self.distinct(self.column)), *self.clauses())
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

    def column(self) -> Tree:
        return self.aliased(self.expression())

    def ordered(self) -> Tree:
        expression = self.expression()
        return Tree(self.keyword(), (expression,)) if self.at("asc", "desc") else expression

    def aliased(self, tree: Tree) -> Tree:
        """`tree` with the name that is given to it, with or without `as`."""
        return Tree("as", (tree, Tree(self.name()))) if self.take("as") or self.at_name() else tree

    def joined_tables(self) -> Tree:
        left = self.table()
        while self.at("join", *JOIN_KINDS):
            left = Tree(self.join(), (left, self.table(), *self.join_condition()))
        return left

    def join(self) -> str:
        kinds = []
        while self.at(*JOIN_KINDS):
            kinds.append(self.keyword())
        self.expect("join")
        return " ".join([*kinds, "join"])

    def join_condition(self) -> Iterator[Tree]:
        if self.take("on"):
            yield Tree("on", (self.expression(),))

    def table(self) -> Tree:
        return self.aliased(self.bracketed(self.query) if self.at("(") else Tree(self.name()))

    def bracketed(self, inside: Callable[[], Tree]) -> Tree:
        self.expect("(")
        tree = inside()
        self.expect(")")
        return tree

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
        """What is said about `left`."""
        if self.take("in"):
            return Tree("in", (left, *self.members()))
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
        self.expect("(")
        members = (self.query(),) if self.at("select") else self.list_of(self.expression)
        self.expect(")")
        return members

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
        return self.call() if self.following == "(" else self.column_name()

    def call(self) -> Tree:
        function = self.name().lower()
        self.expect("(")
        arguments = self.distinct(self.expression)
        self.expect(")")
        return Tree(function, arguments)

    def column_name(self) -> Tree:
        name = Tree(self.name())
        return Tree(".", (name, Tree(self.word()))) if self.take(".") else name
