"""Random inputs for tests (Hypothesis)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import chain

from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbol
from nqg.grammar.hypergraph import Span
from nqg.induction.settings import InductionSettings
from nqg.paper.funql import (
    ALL,
    BY_COUNT,
    BY_MEASURE,
    CLASSES,
    Application,
    Entity,
    EntityKind,
    Name,
    Number,
    Placeholder,
    Term,
)
from nqg.splits.compounds import Tree
from nqg.sql.schema import ForeignKey, Schema, Table
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)

# Tokens


def tokens() -> st.SearchStrategy[str]:
    """Any token that a sentence can hold, with a liking for those that formats must escape."""
    tricky = st.sampled_from(
        [
            "|",
            "::=",
            "<a>",
            "<.>",
            "<...>",
            "<#>",
            "<'>",
            "<?>",
            "<..>",
            "#",
            "#x",
            "<",
            "<>",
            "\\",
            "é",
            "NT_1",
            "###",
        ]
    )
    escaped = st.builds(
        lambda slashes, token: "\\" * slashes + token, st.integers(0, 3), tricky
    )
    anything = st.text(min_size=1, max_size=5).filter(
        lambda text: text.split() == [text] and "\0" not in text
    )
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
        later = (
            leaves | st.sampled_from(categories[number + 1 :])
            if categories[number + 1 :]
            else leaves
        )
        free = leaves | st.sampled_from(categories) if recursive else later
        first = draw(st.lists(later, min_size=1, max_size=2))
        others = draw(
            st.lists(
                st.lists(free, min_size=1, max_size=3 if recursive else 2), max_size=3
            )
        )
        productions += [
            Production(category, tuple(right)) for right in [first, *others]
        ]
    return TargetGrammar(
        tuple(draw(st.permutations(productions)) if recursive else productions)
    )


def random_target(grammar: TargetGrammar, size: int, rng: random.Random) -> list[str]:
    """A target that `grammar` derives: `size` categories are expanded at random, the rest as fast as possible."""
    shortest = _shortest_productions(grammar)
    target: list[str] = []
    stack: list[TargetSymbol] = [grammar.start]
    while stack:
        symbol = stack.pop()
        if isinstance(symbol, Category):
            nodes = [each for each in grammar.productions if each.left == symbol]
            chosen = rng.choice(nodes) if size > 0 else shortest[symbol]
            stack.extend(reversed(chosen.right))
            size -= 1
        elif isinstance(symbol, Wildcard):
            tokens = [
                token
                for token in ("a", "b", "x", "7", "'", "new")
                if symbol.matches(token, grammar.terminals)
            ]
            target += rng.choices(
                tokens, k=rng.randint(1, 3) if symbol is Wildcard.TOKENS else 1
            )
        else:
            target.append(symbol)
    return target


def _shortest_productions(grammar: TargetGrammar) -> dict[Category, Production]:
    """For each category a production that leads to an end in as few rounds as any."""
    shortest: dict[Category, Production] = {}
    while len(shortest) < len(grammar.categories):
        ready = [
            each
            for each in grammar.productions
            if all(
                not isinstance(symbol, Category) or symbol in shortest
                for symbol in each.right
            )
        ]
        shortest = {each.left: each for each in ready} | shortest
    return shortest


# Programs of unknown languages

PROGRAM_WORDS = st.sampled_from(["a", "b", "c", "state", "loc", "m0", "7", "x_1"])


def programs() -> st.SearchStrategy[list[str]]:
    """The tokens of programs in all forms that are read as trees."""
    words = PROGRAM_WORDS.map(lambda word: [word])
    quoted = st.lists(PROGRAM_WORDS, min_size=1, max_size=2).map(
        lambda inside: ['"', *inside, '"']
    )
    return st.recursive(words | quoted, _larger_programs, max_leaves=6)


def _larger_programs(
    inner: st.SearchStrategy[list[str]],
) -> st.SearchStrategy[list[str]]:
    some = st.lists(inner, min_size=1, max_size=3)
    applied = st.builds(
        lambda word, inside: [word, "(", *_between(",", inside), ")"],
        PROGRAM_WORDS,
        some,
    )
    pairs = st.lists(
        st.builds(lambda word, value: [word, "=", *value], PROGRAM_WORDS, inner),
        min_size=1,
        max_size=3,
    )
    called = st.builds(
        lambda word, inside: [word, "(", *_between(",", inside), ")"],
        PROGRAM_WORDS,
        pairs,
    )
    mixed = st.builds(
        lambda call, pair: [*call[:-1], ",", *_between(",", pair), ")"], applied, pairs
    )
    statements = st.lists(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: list(chain(*parts))),
        min_size=1,
        max_size=3,
    )
    block = st.builds(
        lambda mark, each: ["{", *_between(mark, each), "}"],
        st.sampled_from([".", ";"]),
        statements,
    )
    listed = some.map(lambda inside: ["[", *_between(",", inside), "]"])
    joined = st.builds(
        _between,
        st.sampled_from([";", "AND", "or", "."]),
        st.lists(inner, min_size=2, max_size=3),
    )
    return (
        applied
        | called
        | mixed
        | block
        | listed
        | joined.map(lambda inside: ["{", *inside, "}"])
    )


def _between(separator: str, parts: list[list[str]]) -> list[str]:
    return parts[0] + [token for part in parts[1:] for token in (separator, *part)]


def applications() -> st.SearchStrategy[list[str]]:
    """Programs of words and words applied to one or two terms, of which each word has its own number."""
    leaves = st.sampled_from(["a", "b", "c", "f", "p"]).map(lambda word: [word])
    return st.recursive(leaves, _larger_applications, max_leaves=5)


def _larger_applications(
    inner: st.SearchStrategy[list[str]],
) -> st.SearchStrategy[list[str]]:
    unary = st.builds(
        lambda word, one: [word, "(", *one, ")"], st.sampled_from("fgh"), inner
    )
    return unary | st.builds(
        lambda word, one, other: [word, "(", *one, ",", *other, ")"],
        st.sampled_from("pq"),
        inner,
        inner,
    )


# FunQL


def funql_words() -> st.SearchStrategy[str]:
    """Words that are neither placeholders nor kinds of entities."""
    return st.from_regex(r"[a-z][a-z_0-9]{0,6}", fullmatch=True).filter(
        lambda word: (
            not (word[0] == "m" and word[1:].isdigit())
            and word not in frozenset(EntityKind)
        )
    )


def funql_entities() -> st.SearchStrategy[Entity]:
    """Entities with any name, quotes and spaces included."""
    names = st.text(max_size=6)
    others = st.sampled_from(
        [kind for kind in EntityKind if kind is not EntityKind.CITY]
    )
    return st.builds(Entity, others, names) | st.builds(
        Entity, st.just(EntityKind.CITY), names, st.none() | st.text(max_size=2)
    )


def funql_numbers() -> st.SearchStrategy[Number]:
    """Literal numbers, with and without a fraction."""
    return st.builds(
        Number,
        st.decimals(-10_000, 10_000, places=2) | st.decimals(0, 10_000, places=0),
    )


def funql_terms() -> st.SearchStrategy[Term]:
    """Any tree that the two written forms of FunQL can spell."""
    leaves = (
        st.builds(Placeholder, st.integers(0, 9999))
        | funql_entities()
        | funql_numbers()
        | st.builds(Name, funql_words())
    )
    return st.recursive(
        leaves,
        lambda terms: st.builds(
            Application,
            funql_words(),
            st.lists(terms, min_size=1, max_size=3).map(tuple),
        ),
        max_leaves=8,
    )


def converted_funql() -> st.SearchStrategy[Term]:
    """Trees in the converted form, mostly without regard to types."""
    folding = CLASSES | BY_MEASURE | BY_COUNT
    classes = st.sampled_from(sorted(CLASSES)).map(Name)
    relations = st.sampled_from(
        ["loc_1", "loc_2", "next_to_2", "traverse_1", "population_1", "density_1"]
    )
    leaves = (
        st.builds(Placeholder, st.integers(0, 3))
        | funql_entities()
        | funql_numbers()
        | classes
    )

    def calls(terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        pairs = st.tuples(terms, terms)
        return (
            st.builds(Application, relations, st.tuples(terms))
            | st.builds(
                Application, st.sampled_from(["exclude", "intersection"]), pairs
            )
            | st.builds(
                Application,
                st.sampled_from(sorted(BY_MEASURE)),
                st.tuples(relations.map(Name), terms),
            )
            | st.builds(
                Application,
                st.sampled_from(sorted(BY_COUNT)),
                st.tuples(classes, relations.map(Name), terms),
            )
            | st.builds(
                Application,
                funql_words().filter(lambda word: word not in folding),
                pairs,
            )
        )

    return st.recursive(leaves, calls, max_leaves=8).filter(lambda term: term != ALL)


# Rules and grammars over a tiny alphabet, so that random sentences have derivations, often several.

WORDS = ("a", "b", "NT_1")  # a word that spells NT_1 is a terminal like any other
SIGNS = ("x", "y")


@st.composite
def rules(draw: st.DrawFn, max_arity: int = 2) -> Rule:
    """A rule with short sides; non-terminals may stand side by side, and repeat in the target."""
    arity = draw(st.integers(0, max_arity))
    words = draw(
        st.lists(st.sampled_from(WORDS), min_size=0 if arity > 1 else 1, max_size=2)
    )
    slots = sorted(draw(st.permutations(range(arity + len(words))))[:arity])
    source: list[Symbol] = list(words)
    for index, slot in enumerate(slots, start=1):
        source.insert(slot, NonTerminal(index))
    everything: list[Symbol] = [*SIGNS, *map(NonTerminal, range(1, arity + 1))]
    extra = draw(
        st.lists(st.sampled_from(everything), min_size=0 if arity else 1, max_size=2)
    )
    target = draw(st.permutations([*map(NonTerminal, range(1, arity + 1)), *extra]))
    return Rule(tuple(source), tuple(target))


@st.composite
def grammars(draw: st.DrawFn, max_arity: int = 2) -> Grammar:
    """A few rules; most grammars have a word or two as leaves, so that sentences can be derived at all."""
    leaves = draw(st.lists(st.sampled_from(LEAVES), max_size=3))
    found = draw(st.lists(rules(max_arity), max_size=4))
    return Grammar(tuple(dict.fromkeys([*leaves, *found])), max_non_terminals=max_arity)


LEAVES = [Rule((word,), (sign,)) for word in WORDS for sign in SIGNS]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(tuple)


@st.composite
def sign_grammars(draw: st.DrawFn) -> TargetGrammar:
    """Target grammars of signs; half of them take any run of what they take, so that more derivations are legal."""
    grammar = draw(target_grammars(terminals=st.sampled_from(SIGNS)))
    runs = Production(grammar.start, (grammar.start, grammar.start))
    return (
        TargetGrammar((*grammar.productions, runs)) if draw(st.booleans()) else grammar
    )


def perhaps_typed(max_arity: int = 2) -> st.SearchStrategy[Grammar]:
    return st.builds(Grammar.typed_by, grammars(max_arity), st.none() | sign_grammars())


# SQL


@st.composite
def sql_queries(draw: st.DrawFn, depth: int = 2) -> tuple[str, Tree]:
    """A query with the tree that it must have; every operation stands in brackets, which leave no trace in the tree."""
    results = draw(st.lists(sql_expressions(depth), min_size=1, max_size=2))
    table = draw(st.sampled_from(["head", "department as t1", "management t1"]))
    clauses = [
        ("select", [tree for _, tree in results]),
        ("from", [_table_tree(table)]),
    ]
    text = f"select {' , '.join(words for words, _ in results)} from {table}"
    for words, label in [
        ("where", "where"),
        ("group by", "group"),
        ("order by", "order"),
        ("limit", "limit"),
    ]:
        if draw(st.booleans()):
            inside, tree = draw(sql_expressions(depth))
            text += f" {words} {inside}"
            clauses.append((label, [tree]))
    trees = tuple(Tree(label, tuple(children)) for label, children in clauses)
    return text, Tree("-".join(label for label, _ in clauses), trees)


def _table_tree(table: str) -> Tree:
    name, *alias = table.replace(" as ", " ").split()
    return Tree("as", (Tree(name), Tree(alias[0]))) if alias else Tree(name)


SQL_LEAVES = st.sampled_from(
    [
        (word, Tree(word))
        for word in ("name", "age", "5", "-3.5", "'a b'", '"x"', "*", "null")
    ]
    + [
        ("t1.name", Tree(".", (Tree("t1"), Tree("name")))),
        ("count(*)", Tree("count", (Tree("*"),))),
    ]
)


@st.composite
def sql_expressions(draw: st.DrawFn, depth: int) -> tuple[str, Tree]:
    """An operand, or an operation in brackets, with its tree."""
    if depth == 0 or draw(st.booleans()):
        return draw(SQL_LEAVES)
    if draw(st.integers(0, 3)) == 0:
        words, tree = draw(sql_queries(depth - 1))
        return f"({words})", tree
    operator = draw(
        st.sampled_from(
            ["=", "<=", "!=", "like", "and", "or", "+", "-", "*", "/", "not like"]
        )
    )
    (left, left_tree), (right, right_tree) = (
        draw(sql_expressions(depth - 1)),
        draw(sql_expressions(depth - 1)),
    )
    tree = Tree(operator.removeprefix("not "), (left_tree, right_tree))
    return f"({left} {operator} {right})", Tree("not", (tree,)) if operator.startswith(
        "not"
    ) else tree


# Splits: bracketed programs over few symbols, so that examples share atoms and compounds.


def program_trees() -> st.SearchStrategy[Tree]:
    """Small trees; a symbol occurs with several numbers of arguments."""
    leaves = st.sampled_from([Tree(label) for label in ("river", "state", "m0", "7")])
    symbols = st.sampled_from(["largest", "count", "exclude", "river"])
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            Tree, symbols, st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=6,
    )


def called(tree: Tree) -> str:
    """A tree in call form: `count ( river , m0 )`."""
    return (
        f"{tree.label} ( {' , '.join(map(called, tree.children))} )"
        if tree.children
        else tree.label
    )


def listed(tree: Tree) -> str:
    """A tree in list form: `(count river m0)`."""
    return (
        f"({' '.join([tree.label, *map(listed, tree.children)])})"
        if tree.children
        else tree.label
    )


def program_examples(
    min_size: int = 4, max_size: int = 12
) -> st.SearchStrategy[list[Example]]:
    """Examples with bracketed targets."""
    example = program_trees().map(
        lambda tree: Example("a sentence", called(Tree("answer", (tree,))))
    )
    return st.lists(example, min_size=min_size, max_size=max_size)


# Induction: sets of rules that can derive each other, corpora that a grammar could have made, settings.

INDUCTION_WORDS = ("a", "b", "(")
INDUCTION_SIGNS = ("x", "y", "(", ")")


@st.composite
def related_rules(draw: st.DrawFn, max_arity: int = 3) -> list[Rule]:
    """A few short rules and some that are made by putting one into another, so that rules derive each other."""
    short = st.one_of(_free_rules(0), _free_rules(1), _free_rules(2))
    found = draw(st.lists(short, min_size=3, max_size=5))
    for _ in range(draw(st.integers(2, 6))):
        outer, inner = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        made = (
            composed(outer, draw(st.integers(1, max(1, outer.arity))), inner)
            if outer.arity
            else outer
        )
        if draw(st.integers(0, 3)) == 0:
            made = _with_a_sign_more_or_less(draw, made)
        if len(made.source) <= 6 and len(made.target) <= 8 and made.arity <= max_arity:
            found.append(made)
    return list(dict.fromkeys(found))


def _with_a_sign_more_or_less(draw: st.DrawFn, rule: Rule) -> Rule:
    """A near miss: one terminal of the target is left out, repeated or another."""
    places = [at for at, symbol in enumerate(rule.target) if isinstance(symbol, str)]
    if not places:
        return rule
    at = draw(st.sampled_from(places))
    sign = draw(st.sampled_from(INDUCTION_SIGNS))
    instead = draw(st.sampled_from([(), (sign,), (rule.target[at], rule.target[at])]))
    return Rule(
        rule.source,
        (*rule.target[:at], *instead, *rule.target[at + 1 :]) or rule.target,
    )


@st.composite
def _free_rules(draw: st.DrawFn, arity: int) -> Rule:
    words = draw(
        st.lists(
            st.sampled_from(INDUCTION_WORDS), min_size=0 if arity > 1 else 1, max_size=2
        )
    )
    slots = sorted(draw(st.permutations(range(arity + len(words))))[:arity])
    source: list[Symbol] = list(words)
    for index, slot in enumerate(slots, start=1):
        source.insert(slot, NonTerminal(index))
    own = [*map(NonTerminal, range(1, arity + 1))]
    signs: list[Symbol] = [*INDUCTION_SIGNS, *own]
    extra = draw(
        st.lists(st.sampled_from(signs), min_size=0 if arity else 1, max_size=2)
    )
    return Rule(tuple(source), tuple(draw(st.permutations([*own, *extra]))))


def composed(outer: Rule, index: int, inner: Rule) -> Rule:
    """`outer` with `inner` in place of its non-terminal `index`."""

    def shifted(symbol: Symbol, by: int) -> Symbol:
        return (
            NonTerminal(symbol.index + by)
            if isinstance(symbol, NonTerminal)
            else symbol
        )

    def side(
        symbols: tuple[Symbol, ...], inside: tuple[Symbol, ...]
    ) -> tuple[Symbol, ...]:
        made: list[Symbol] = []
        for symbol in symbols:
            if symbol == NonTerminal(index):
                made.extend(shifted(each, index - 1) for each in inside)
            else:
                is_behind = isinstance(symbol, NonTerminal) and symbol.index > index
                made.append(shifted(symbol, inner.arity - 1) if is_behind else symbol)
        return tuple(made)

    return Rule(side(outer.source, inner.source), side(outer.target, inner.target))


PHRASES = [
    Example(*pair)
    for pair in [
        ("jump", "J"),
        ("walk", "W"),
        ("m0", "m0"),
        ("the m0", "( m0 )"),
        ("left", "L L"),
    ]
]


def corpora(max_size: int = 10) -> st.SearchStrategy[list[Example]]:
    """Examples that a small grammar could have made, and some noise; words, brackets and repetitions are shared."""
    phrases = st.recursive(st.sampled_from(PHRASES), _longer_phrases, max_leaves=3)
    noise = st.builds(
        lambda source, target: Example(" ".join(source), " ".join(target)),
        st.lists(st.sampled_from(["jump", "m0", "twice"]), min_size=1, max_size=3),
        st.lists(st.sampled_from(["J", "m0", "(", ")"]), min_size=1, max_size=3),
    )
    return st.lists(
        st.one_of(phrases, phrases, phrases, noise), min_size=1, max_size=max_size
    )


def _longer_phrases(phrases: st.SearchStrategy[Example]) -> st.SearchStrategy[Example]:
    def twice(one: Example) -> Example:
        return Example(f"{one.source} twice", f"{one.target} {one.target}")

    def largest(one: Example) -> Example:
        return Example(f"largest {one.source}", f"largest ( {one.target} )")

    def after(one: Example, other: Example) -> Example:
        return Example(
            f"{one.source} after {other.source}", f"{other.target} {one.target}"
        )

    return (
        phrases.map(twice) | phrases.map(largest) | st.builds(after, phrases, phrases)
    )


def induction_settings(*, exact: bool = False) -> st.SearchStrategy[InductionSettings]:
    """Settings of every kind; `exact` ones weigh all of the data term in full."""
    return st.builds(
        InductionSettings,
        terminal_bits=st.sampled_from([0.25, 2.0, 8.0, 32.0]),
        non_terminal_bits=st.sampled_from([0.25, 1.0, 4.0]),
        identity_rules=st.booleans(),
        repeated_targets=st.booleans(),
        shortest=st.none() if exact else st.none() | st.integers(1, 8),
        stages=st.just(0) if exact else st.integers(0, 3),
        sample=st.none() if exact else st.none() | st.integers(1, 3),
        data_weight=st.just(1.0) if exact else st.sampled_from([0.0, 0.25, 1.0]),
        factoring=st.booleans(),
        frame=st.just(False) if exact else st.booleans(),
        lexical=st.booleans(),
        returning=st.booleans(),
        fitted=st.just(False) if exact else st.booleans(),
        pruning=st.booleans(),
        balanced=st.booleans(),
        bare_targets=st.booleans(),
        max_non_terminals=st.integers(1, 3),
        minimum_gain=st.sampled_from([0.0, 0.0, 5.0]),
        seed=st.integers(0, 3),
    )


# Spider's metric: queries over two tables as parts, so that a test can rearrange them and know what must not matter.

PET_SCHEMA = Schema(
    "pets_1",
    (
        Table("student", ("stuid", "name", "age")),
        Table("has_pet", ("stuid", "petid")),
        Table("pets", ("petid", "kind", "weight")),
    ),
    (
        ForeignKey("has_pet.stuid", "student.stuid"),
        ForeignKey("has_pet.petid", "pets.petid"),
    ),
)
_PET_COLUMNS = st.sampled_from(
    ["student.name", "student.age", "student.stuid", "has_pet.stuid", "has_pet.petid"]
)
_PET_VALUES = st.sampled_from(["1", "2.5", "'a b'", '"C"'])


@dataclass(frozen=True)
class QueryParts:
    """A query over `student` and `has_pet`, in parts; `{}` in a condition is the place of its value."""

    items: tuple[str, ...]
    conditions: tuple[str, ...]
    values: tuple[str, ...]
    connector: str = "and"
    tail: str = ""
    tables: tuple[str, ...] = ("student", "has_pet")

    def __str__(self) -> str:
        compared = [
            form.format(value)
            for form, value in zip(self.conditions, self.values, strict=True)
        ]
        where = f" where {f' {self.connector} '.join(compared)}" if compared else ""
        return f"select {' , '.join(self.items)} from {' join '.join(self.tables)}{where}{self.tail}"


@st.composite
def query_parts(draw: st.DrawFn, depth: int = 1) -> QueryParts:
    """A query that Spider's metric can read."""
    items = st.builds(
        "{}({})".format, st.sampled_from(["", "max", "count", "avg"]), _PET_COLUMNS
    )
    forms = st.builds(
        "{} {} {{}}".format,
        _PET_COLUMNS,
        st.sampled_from(["=", "!=", ">", "<=", "like", "not in"]),
    )
    conditions, connector = (
        draw(st.lists(forms, max_size=3)),
        draw(st.sampled_from(["and", "or"])),
    )
    values = (
        _PET_VALUES if connector == "or" else _PET_VALUES | _PET_COLUMNS
    )  # a column would swallow an `or`
    if depth:
        values |= st.builds(
            "(select max({}) from student join has_pet)".format, _PET_COLUMNS
        )
    grouped = st.builds(" group by {} having count(*) > 1".format, _PET_COLUMNS)
    ordered = st.builds(
        " order by {} {} limit 3".format,
        _PET_COLUMNS,
        st.sampled_from(["", "asc", "desc"]),
    )
    combined = (
        st.builds(" {} {}".format, st.sampled_from(["union", "except"]), query_parts(0))
        if depth
        else st.just("")
    )
    return QueryParts(
        tuple(draw(st.lists(items, min_size=1, max_size=3))),
        tuple(conditions),
        tuple(
            draw(st.lists(values, min_size=len(conditions), max_size=len(conditions)))
        ),
        connector,
        draw(st.just("") | grouped)
        + draw(st.just("") | ordered)
        + draw(st.just("") | combined),
    )


_SCRAPS = """
    select select from where group by having order limit union except ( ( ) ) , ; * = != > not in like between and or
    on as join distinct count max student has_pet t1 student.name t1.age age stuid 'a' " 3 -1 desc . - + <>
"""
SQL_SCRAPS = st.lists(st.sampled_from(_SCRAPS.split()), max_size=25).map(" ".join)
"""Words of SQL in any order."""


# Derivations


@st.composite
def derivations(draw: st.DrawFn, start: int = 0, depth: int = 3) -> Derivation:
    """Derivations whose hyperedges are told apart by their words, with repeated and swapped non-terminals."""
    arity = draw(st.integers(0, 2)) if depth else 0
    place, source, children = start, list[str | NonTerminal](), list[Derivation]()
    for index in range(arity + 1):
        for _ in range(draw(st.integers(1 if index == arity else 0, 2))):
            source.append(f"w{place}")
            place += 1
        if index < arity:
            child = draw(derivations(start=place, depth=depth - 1))
            children.append(child)
            source.append(NonTerminal(index + 1))
            place = child.root.span.end
    non_terminals: list[Symbol] = [NonTerminal(index + 1) for index in range(arity)]
    extra = draw(st.lists(st.sampled_from([*non_terminals, "t"]), max_size=3))
    target = draw(st.permutations([*non_terminals, *extra, "t"]))
    root = Hyperedge(Rule(tuple(source), tuple(target)), Span(start, place))
    return Derivation(
        (root, *(each for child in children for each in child.hyperedges))
    )
