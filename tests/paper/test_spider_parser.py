"""What Spider's metric reads, and what it refuses: one line for each rule of its definition."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given

from nqg.errors import FormatError
from nqg.paper.spider_parser import (
    MOST_NESTED_QUERIES,
    Condition,
    Expression,
    Order,
    Query,
    Unit,
    parse_query,
)
from strategies import PET_SCHEMA, SQL_SCRAPS, QueryParts, query_parts

NAME, AGE = Unit("student.name"), Unit("student.age")


def read(sql: str) -> Query:
    return parse_query(sql, PET_SCHEMA)


def test_a_query_has_all_its_parts() -> None:
    query = read(
        "SELECT DISTINCT T1.name, max(T1.age) FROM student AS T1 JOIN has_pet AS T2 ON T1.stuid = T2.stuid"
        " WHERE T1.age NOT BETWEEN 3 AND 'x' GROUP BY T1.name, count(T1.age) HAVING count(*) > 2"
        " ORDER BY T1.age - T1.stuid DESC LIMIT 3 UNION SELECT * FROM pets"
    )
    assert query.is_distinct
    assert query.items == (Expression(NAME), Expression(AGE, aggregate="max"))
    assert query.tables == ("student", "has_pet")
    assert query.on == (
        Condition(Expression(Unit("student.stuid")), "=", (Unit("has_pet.stuid"),)),
    )
    assert query.where == (
        Condition(Expression(AGE), "between", (3.0, '"x"'), is_negated=True),
    )
    assert query.group == (NAME, Unit("student.age", "count"))
    assert query.having == (Condition(Expression(Unit("*", "count")), ">", (2.0,)),)
    assert query.order == Order((Expression(AGE, "-", Unit("student.stuid")),), "desc")
    assert query.limit == 3
    assert (query.set_operator, query.branch) == (
        "union",
        Query((Expression(Unit("*")),), ("pets",)),
    )


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        pytest.param(
            "select name age from student",
            "select name, age from student",
            id="a missing comma",
        ),
        pytest.param(
            "select name, from student",
            "select name from student",
            id="a comma too many",
        ),
        pytest.param(
            "select count name from student",
            "select count(name) from student",
            id="missing brackets",
        ),
        pytest.param(
            "select name from student pets",
            "select name from student join pets",
            id="a missing join",
        ),
        pytest.param(
            "( select name from student ) ;",
            "select name from student",
            id="brackets around everything",
        ),
        pytest.param(
            "select name from student ) x",
            "select name from student",
            id="something left over",
        ),
        pytest.param(
            "select name from student where",
            "select name from student",
            id="an empty where",
        ),
        pytest.param(
            "select name from student group by",
            "select name from student",
            id="an empty group",
        ),
        pytest.param(
            "select name from student limit 3 order by age",
            "select name from student limit 3",
            id="too late",
        ),
        pytest.param(
            "select name from student limit 3 offset 2",
            "select name from student limit 3",
            id="an offset",
        ),
        pytest.param(
            "select name from student where age = stuid or name = 3",
            "select name from student where age = stuid",
            id="a column swallows what follows it",
        ),
        pytest.param(
            "select t.name from student as s join pets as t where age in (select t.age from student as t)",
            "select student.name from student join pets where age in (select age from student)",
            id="the last meaning of an alias holds everywhere",
        ),
        pytest.param(
            "select name from student order by age desc, name asc",
            "select name from student order by age, name",
            id="one direction for all",
        ),
        pytest.param(
            "select stuid from has_pet student",
            "select has_pet.stuid from has_pet student",
            id="first table",
        ),
        pytest.param(
            "select * where age in (select age from student)",
            "select * from student",
            id="somebody else's from",
        ),
    ],
)
def test_two_spellings_of_the_same(sql: str, same: str) -> None:
    assert read(sql) == read(same)


def test_an_empty_order_is_not_the_same_as_none() -> None:
    assert read("select name from student order by").order == Order(())
    assert read("select name from student").order is None


def test_a_from_without_tables_has_none() -> None:
    assert read("select * from").tables == ()


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("", "expected 'select' at the start, found the end of the query"),
        ("delete from student", "expected 'select' at the start, found 'delete'"),
        ("select name", "expected 'from' behind 'select', found none"),
        (
            "select name from students",
            "expected a table or its alias, found 'students'",
        ),
        ("select name from student s", "expected a table or its alias, found 's'"),
        ("select name from student , pets", "expected a table or its alias, found ','"),
        ("select name from student inner join pets", "found 'inner'"),
        (
            "select name from student as pets",
            "expected an alias that is no table, found 'as pets'",
        ),
        ("select name from student as", "expected an alias after 'as', found the end"),
        ("select weight from student", "expected a column, found 'weight'"),
        ("select t1.name from student", "expected a table or its alias, found 't1'"),
        (
            "select student.weight from student",
            "expected a column, found 'student.weight'",
        ),
        ("select student.* from student", r"expected a column, found 'student\.'"),
        ("select count(*) as n from student", "found 'as'"),
        ("select max(age) - min(age) from student", "expected a column, found '-'"),
        ("select name from student where age=3", "found 'age=3'"),
        ("select name from student where age <> 3", "expected a column, found '>'"),
        (
            "select name from student where age",
            "expected a comparison after 'from student where age', found the end",
        ),
        (
            "select name from student where age is null",
            "expected a column, found 'null'",
        ),
        (
            "select name from student where age in (1, 2)",
            r"expected '\)' after .*, found ','",
        ),
        (
            "select name from student where (age = 1 or age = 2)",
            r"expected '\)' after 'student where \( age', found '='",
        ),
        (
            "select name from student where not age = 1",
            "expected a column, found 'not'",
        ),
        ("select name from student where age between 1", "expected 'and' after"),
        (
            "select name from student where age > (stuid)",
            r"expected '\)' after 'age > \( stuid', found the end",
        ),
        ("select name from student having age > 1", "found 'having'"),
        (
            "select name from student group age",
            "expected 'by' after 'name from student group', found 'age'",
        ),
        ("select name from student order by 1", "expected a column, found '1'"),
        (
            "select name from student limit 1.5",
            "expected a whole number after 'limit', found '1.5'",
        ),
        (
            "select name from student limit",
            "expected a word after 'name from student limit', found the end",
        ),
        (
            "select name from student union all select name from student",
            "expected 'select' after .*, found 'all'",
        ),
        (
            "( select name from student union select name from student )",
            r"expected '\)' after .*, found 'union'",
        ),
        ("select name from ( select name from student", r"expected '\)' after"),
        (
            "select name from student where age in (select age from student",
            r"expected '\)' after",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(sql: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        read(sql)


def test_a_missing_connector_shifts_what_follows() -> None:
    where = read("select name from student where age = 1 stuid = 2").where
    assert (len(where[::2]), len(where.connectors), len(where.conditions)) == (1, 1, 2)


@pytest.mark.parametrize(
    "depth", [1, MOST_NESTED_QUERIES - 1, MOST_NESTED_QUERIES, 10_000]
)
def test_nesting_has_a_bound_and_never_overflows_the_stack(depth: int) -> None:
    nested = "select age from student where age in ( " * depth + "1" + " )" * depth
    chain = " union ".join(["select age from student"] * depth)
    for sql in (nested, chain):
        if depth <= MOST_NESTED_QUERIES:
            assert isinstance(read(sql), Query)
        else:
            with pytest.raises(
                FormatError,
                match=f"at most {MOST_NESTED_QUERIES} queries inside each other",
            ):
                read(sql)


@given(SQL_SCRAPS)
def test_scraps_of_sql_are_read_or_refused(sql: str) -> None:
    with suppress(FormatError):
        assert isinstance(read(sql), Query)


@given(query_parts())
def test_every_generated_query_is_read_with_its_parts(parts: QueryParts) -> None:
    query = read(str(parts))
    assert len(query.items) == len(parts.items)
    assert len(query.where[::2]) == len(parts.conditions)
    assert query.tables == parts.tables
