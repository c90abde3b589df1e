from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.paper.spider import SpiderEntry, read_entries
from nqg.paper.sql_tree import sql_compounds, sql_tree
from nqg.splits.compounds import Tree
from nqg.sql.tokens import is_number, sql_text, sql_tokens, sql_words
from strategies import sql_queries

SOME_WORDS = [
    "select",
    "from",
    "where",
    "a",
    "t1",
    ".",
    "(",
    ")",
    "*",
    ",",
    "=",
    "-",
    "and",
    "not",
    "in",
    "'x'",
    "5",
]


def _expression(text: str) -> str:
    """How an expression is read, seen in the condition of a query."""
    return str(sql_tree(f"select a from t where {text}").children[2].children[0])


class TestQueries:
    def test_clauses_hang_under_a_label_that_lists_them(self) -> None:
        tree = sql_tree(
            "select a , b from t where c = 1 group by a having count(*) > 2 order by b desc , a limit 3;"
        )
        assert tree.label == "select-from-where-group-having-order-limit"
        assert [str(clause) for clause in tree.children] == [
            "select(a, b)",
            "from(t)",
            "where(=(c, 1))",
            "group(a)",
            "having(>(count(*), 2))",
            "order(desc(b), a)",
            "limit(3)",
        ]

    @pytest.mark.parametrize(
        ("tables", "tree"),
        [
            ("a", "a"),
            ("a as t1", "as(a, t1)"),
            ("a t1", "as(a, t1)"),
            ("a , b", "a, b"),
            ("a join b", "join(a, b)"),
            ("a join b on a.x = b.y", "join(a, b, on(=(.(a, x), .(b, y))))"),
            ("a join b join c on x = y", "join(join(a, b), c, on(=(x, y)))"),
            (
                "a join b on x = y join c on z = w",
                "join(join(a, b, on(=(x, y))), c, on(=(z, w)))",
            ),
            ("a left outer join b on x = y", "left outer join(a, b, on(=(x, y)))"),
            ("a join b using (x , y)", "join(a, b, using(x, y))"),
            ("(a join b) join c", "join(join(a, b), c)"),
            ("(select b from c)", "select-from(select(b), from(c))"),
            ("(select b from c) as t1", "as(select-from(select(b), from(c)), t1)"),
        ],
    )
    def test_tables_and_joins(self, tables: str, tree: str) -> None:
        assert str(sql_tree(f"select x from {tables}").children[1]) == f"from({tree})"

    @pytest.mark.parametrize(
        ("columns", "tree"),
        [
            ("*", "select(*)"),
            ("t1.*", "select(.(t1, *))"),
            ("distinct a , b", "select(distinct(a, b))"),
            ("count(distinct a)", "select(count(distinct(a)))"),
            ("count(*) as n", "select(as(count(*), n))"),
            ("t1.from", "select(.(t1, from))"),
            ("count", "select(count)"),
            ("round(a , 2)", "select(round(a, 2))"),
            ("all a", "select(a)"),
            ("random()", "select(random)"),
            ("cast(a as real) b", "select(as(cast(as(a, real)), b))"),
            (
                "case when a > 1 then b else c end",
                "select(case(when(>(a, 1), b), else(c)))",
            ),
            ("case a when 1 then b end as d", "select(as(case(a, when(1, b)), d))"),
            ("case", "select(case)"),
        ],
    )
    def test_columns(self, columns: str, tree: str) -> None:
        assert str(sql_tree(f"select {columns} from t").children[0]) == tree

    @pytest.mark.parametrize(
        ("text", "tree"),
        [
            ("limit 3 offset 2", ["limit(3)", "offset(2)"]),
            ("limit 2 , 3 ; ;", ["limit(2, 3)"]),
        ],
    )
    def test_rows_are_skipped_in_two_ways(self, text: str, tree: list[str]) -> None:
        assert [
            str(clause) for clause in sql_tree(f"select a {text}").children[1:]
        ] == tree

    def test_set_operations_group_from_the_left(self) -> None:
        tree = sql_tree("select a union select b except select c")
        assert (
            str(tree)
            == "except(union(select(select(a)), select(select(b))), select(select(c)))"
        )
        assert sql_tree("select a union all select b").label == "union all"

    def test_keywords_and_functions_are_met_in_any_case_and_names_are_kept(
        self,
    ) -> None:
        tree = sql_tree("SELECT Max(Age) FROM Head ORDER BY Name DESC")
        assert (
            str(tree)
            == "select-from-order(select(max(Age)), from(Head), order(desc(Name)))"
        )

    @given(sql_queries())
    def test_random_queries_have_the_tree_they_were_made_from(
        self, query: tuple[str, Tree]
    ) -> None:
        text, tree = query
        assert sql_tree(text) == tree
        assert sql_tree(sql_text(sql_tokens(text))) == tree
        assert sql_tree(f"{text};") == tree


class TestExpressions:
    @pytest.mark.parametrize(
        ("text", "tree"),
        [
            ("a = 1 and b = 2 or c = 3", "or(and(=(a, 1), =(b, 2)), =(c, 3))"),
            ("a = 1 or b = 2 and c = 3", "or(=(a, 1), and(=(b, 2), =(c, 3)))"),
            ("(a = 1 or b = 2) and c = 3", "and(or(=(a, 1), =(b, 2)), =(c, 3))"),
            ("not a = 1 and b = 2", "and(not(=(a, 1)), =(b, 2))"),
            ("a between 1 and 2 and b = 3", "and(between(a, 1, 2), =(b, 3))"),
            ("a + b * c > d - e - f", ">(+(a, *(b, c)), -(-(d, e), f))"),
            ("(a + b) * c > 1", ">(*(+(a, b), c), 1)"),
            ("a = -1", "=(a, -1)"),
            ("a = - b", "=(a, -(b))"),
            ("a not in (select b)", "not(in(a, select(select(b))))"),
            ("a in (1 , 'x')", "in(a, 1, 'x')"),
            ("a not like '%x%'", "not(like(a, '%x%'))"),
            ("a is not null", "is not(a, null)"),
            ("a is null", "is(a, null)"),
            ("a like 'x' escape '!' or b", "or(like(a, 'x', '!'), b)"),
            ("a > all (select b)", ">(a, all(select(select(b))))"),
            ("a = any (select b)", "=(a, any(select(select(b))))"),
            ("not not a < b = c", "not(not(=(<(a, b), c)))"),
            ("exists (select b)", "exists(select(select(b)))"),
            (
                "a = (select max(b) from c)",
                "=(a, select-from(select(max(b)), from(c)))",
            ),
            ('"a"."b" = 1', '=(.("a", "b"), 1)'),
        ],
    )
    def test_operators_bind_as_in_sql(self, text: str, tree: str) -> None:
        assert _expression(text) == tree

    def test_an_order_may_be_a_comparison(self) -> None:
        assert (
            str(sql_tree("select a from t order by count(*) >= 5").children[2])
            == "order(>=(count(*), 5))"
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "expected 'select' at the start, found the end of the query"),
            ("selct a from t", "expected 'select' at the start, found 'selct'"),
            ("select from t", "expected a name after 'select', found 'from'"),
            (
                "select a from t where",
                "expected a name after 'a from t where', found the end of the query",
            ),
            (
                "select a from t group a",
                "expected 'by' after 'a from t group', found 'a'",
            ),
            (
                "select count(a from t",
                r"expected '\)' after 'select count \( a', found 'from'",
            ),
            (
                "select a from t )",
                r"expected the end of the query after 'select a from t', found '\)'",
            ),
            (
                "select a from t where a not 3",
                "expected 'in', 'between' or 'like' after 't where a not', found '3'",
            ),
            (
                "select t1.",
                "expected a word after 'select t1 .', found the end of the query",
            ),
            (
                "select a from t left b",
                "expected 'join' after 'a from t left', found 'b'",
            ),
        ],
    )
    def test_the_place_and_what_was_expected_are_named(
        self, text: str, complaint: str
    ) -> None:
        with pytest.raises(FormatError, match=complaint):
            sql_tree(text)

    def test_bottomless_nesting_is_refused_in_words(self) -> None:
        with pytest.raises(FormatError, match="nested too deeply"):
            sql_tree(f"select {'(' * 50_000}a{')' * 50_000}")

    @given(st.lists(st.sampled_from(SOME_WORDS)))
    def test_whatever_is_not_parsed_is_refused_and_nothing_else_happens(
        self, words: list[str]
    ) -> None:
        with suppress(FormatError):
            assert sql_tree(" ".join(["select", *words])).label.startswith("select")


class TestCompounds:
    def test_edges_of_both_orders_keep_positions(self) -> None:
        assert sql_compounds("select a , b from t limit 1") == Counter(
            [
                "select-from-limit(select)",
                "select-from-limit(select(a))",
                "select-from-limit(select(_, b))",
                "select-from-limit(_, from)",
                "select-from-limit(_, from(t))",
                "select-from-limit(_, _, limit)",
                "select-from-limit(_, _, limit(1))",
                "select(a)",
                "select(_, b)",
                "from(t)",
                "limit(1)",
            ]
        )

    def test_repeated_compounds_are_counted(self) -> None:
        assert sql_compounds("select a from t where b = 1 and b = 1")["=(b)"] == 2

    def test_the_final_semicolon_makes_no_compound(self) -> None:
        assert sql_compounds("select a from t;") == sql_compounds("select a from t")

    @given(sql_queries())
    def test_there_is_one_compound_for_each_edge_and_each_pair_of_edges(
        self, query: tuple[str, Tree]
    ) -> None:
        text, tree = query
        children = sum(len(node.children) for node in tree.nodes())
        grandchildren = sum(
            len(child.children) for node in tree.nodes() for child in node.children
        )
        assert sql_compounds(text).total() == children + grandchildren


def test_every_query_of_spider_has_a_tree_with_all_its_constants(
    real_data: Path,
) -> None:
    entries = [
        *read_entries(SpiderEntry, real_data / "spider/train_spider.json"),
        *read_entries(SpiderEntry, real_data / "spider/dev.json"),
    ]
    assert len(entries) == 8034
    for entry in entries:
        query = entry.query
        constants = Counter(
            node.label for node in sql_tree(query).nodes() if _is_constant(node.label)
        )
        assert constants == Counter(filter(_is_constant, sql_words(query)))


def _is_constant(word: str) -> bool:
    return is_number(word) or word[0] in "\"'"
