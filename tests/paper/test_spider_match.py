"""Spider's exact set match: every published verdict, gold against gold, the quirks, and what must not matter."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.paper.datasets import load_dataset
from nqg.paper.spider import database_of, nqg_target, read_schemas
from nqg.paper.spider_match import (
    COMPONENTS,
    Hardness,
    representative_columns,
    spider_match,
)
from nqg.sql.schema import ForeignKey, Schema, Table
from nqg.sql.tokens import as_sql
from strategies import PET_SCHEMA, SQL_SCRAPS, QueryParts, query_parts


def is_match(predicted: object, gold: object) -> bool:
    return spider_match(str(predicted), str(gold), PET_SCHEMA).is_match


def test_all_published_verdicts_and_levels_are_reproduced(real_data: Path) -> None:
    schemas = read_schemas(real_data / "spider/tables.json")
    with open(real_data / "spider/match_verdicts.jsonl") as file:
        published = [json.loads(line) for line in file]
    wrong = [
        (pair["kind"], pair["predicted"], pair["gold"], verdict)
        for pair in published
        if (
            verdict := spider_match(
                pair["predicted"], pair["gold"], schemas[pair["db_id"].lower()]
            )
        )
        and (verdict.is_match, verdict.hardness) != (pair["match"], pair["hardness"])
    ]
    assert len(published) == 3997
    assert not wrong


def test_gold_matches_gold_on_all_of_ssp_which_its_splits_divide(
    real_data: Path,
) -> None:
    ssp = load_dataset("spider-ssp", real_data)
    assert _levels(ssp.examples, real_data).total() == 4376
    for name in ("random", "template", "length", "tmcd"):
        assert {*ssp.positions(name).train, *ssp.positions(name).test} == set(
            range(4376)
        )


def test_gold_matches_gold_on_dev_with_the_known_levels(real_data: Path) -> None:
    _, dev = load_dataset("spider-xsp", real_data).split("standard")
    assert _levels(dev, real_data) == {
        "easy": 248,
        "medium": 446,
        "hard": 174,
        "extra": 166,
    }


def _levels(examples: Sequence[Example], real_data: Path) -> Counter[str]:
    """How many gold queries are of each level, all of which match themselves, written as a grammar would."""
    schemas = read_schemas(real_data / "spider/tables.json")
    levels: Counter[str] = Counter()
    for example in examples:
        schema = schemas[database_of(example.source)]
        verdict = spider_match(
            as_sql(nqg_target(example.target)), example.target, schema
        )
        assert verdict.is_match, example
        levels[verdict.hardness] += 1
    return levels


BASE = "select name from student"


@pytest.mark.parametrize(
    ("predicted", "gold", "verdict"),
    [
        pytest.param(
            f"{BASE} where age = 1", f"{BASE} where age = 'x'", True, id="values"
        ),
        pytest.param(
            f"{BASE} where age = stuid",
            f"{BASE} where age = 'x'",
            True,
            id="a column for a value",
        ),
        pytest.param(
            f"{BASE} where age = (select max(age) from student)",
            f"{BASE} where age = 5",
            False,
            id="subquery",
        ),
        pytest.param(
            "select count(distinct name) from student",
            "select count(name) from student",
            True,
            id="distinct",
        ),
        pytest.param(
            f"{BASE} where age in (select distinct age from student)",
            f"{BASE} where age in (select age from student)",
            False,
            id="distinct in a subquery",
        ),
        pytest.param(
            "select count(*) from student",
            "select count(stuid) from student",
            False,
            id="star",
        ),
        pytest.param(
            f"{BASE} order by age limit 1",
            f"{BASE} order by age limit 5",
            True,
            id="the number of a limit",
        ),
        pytest.param(
            f"{BASE} order by age limit 1", f"{BASE} order by age", False, id="a limit"
        ),
        pytest.param(f"{BASE} limit 1", BASE, False, id="a limit without an order"),
        pytest.param(
            f"{BASE} where age in (select age from student order by age limit 1)",
            f"{BASE} where age in (select age from student order by age limit 2)",
            False,
            id="the number of a limit in a subquery",
        ),
        pytest.param(
            f"{BASE} group by age, name",
            f"{BASE} group by name, age",
            False,
            id="the order of a group",
        ),
        pytest.param(
            f"{BASE} order by age, name",
            f"{BASE} order by name, age",
            False,
            id="the order of an order",
        ),
        pytest.param(f"{BASE} order by", BASE, False, id="an empty order"),
        pytest.param(
            f"{BASE} where age = 1 and", f"{BASE} where age = 1", False, id="a lone and"
        ),
        pytest.param(
            f"{BASE} where age = 1 and name = 2 and",
            f"{BASE} where age = 1 and name = 2",
            True,
            id="one more",
        ),
        pytest.param(
            f"{BASE} where age between 1 and 2",
            f"{BASE} where age between 5 and 9",
            True,
            id="between",
        ),
        pytest.param(
            f"{BASE} where age != 1",
            f"{BASE} where age <> 1",
            None,
            id="a gold query that cannot be read",
        ),
        pytest.param(
            f"{BASE} where age > 1 or age < 2",
            f"{BASE} where age < 1 and age > 2",
            False,
            id="or for and",
        ),
        pytest.param(
            f"{BASE} where not age = 1",
            BASE,
            False,
            id="a prediction that cannot be read",
        ),
        pytest.param(
            f"{BASE} union select name from pets",
            f"{BASE} union {BASE}",
            False,
            id="a column of no table",
        ),
        pytest.param(
            "select count(*) from (select age from student where age > 3)",
            "select count(*) from (select age from student where age > 4)",
            False,
            id="values in a derived table",
        ),
        pytest.param(
            "select count(*) from (select age from student where age > 3)",
            "select count(*) from (select age from student where age > 3.0)",
            True,
            id="equal numbers in a derived table",
        ),
        pytest.param(
            "select t1.stuid from student as t1 join has_pet as t2 on t1.stuid = t2.stuid",
            "select t2.stuid from student as t1 join has_pet as t2 on t2.stuid = t1.stuid",
            True,
            id="the other end of a foreign key",
        ),
        pytest.param(
            "select has_pet.stuid from student",
            "select student.stuid from student",
            False,
            id="an end not in from",
        ),
        pytest.param(
            "select name from student join has_pet on student.stuid > 3 or student.age = 1",
            "select name from student join has_pet on student.stuid = has_pet.stuid",
            False,
            id="an or in a join",
        ),
        pytest.param(
            "select * from student",
            "select * from",
            True,
            id="a gold query without tables",
        ),
        pytest.param(
            f"{BASE} intersect select * from student",
            f"{BASE} intersect select * from",
            True,
            id="a branch too",
        ),
    ],
)
def test_the_quirks_of_the_official_program(
    predicted: str, gold: str, verdict: bool | None
) -> None:
    if verdict is None:
        with pytest.raises(FormatError, match="expected a column, found '>'"):
            is_match(predicted, gold)
    else:
        assert is_match(predicted, gold) is verdict


@given(query_parts())
def test_a_query_matches_itself(parts: QueryParts) -> None:
    verdict = spider_match(str(parts), str(parts), PET_SCHEMA)
    assert (verdict.is_match, verdict.differing, verdict.reason) == (True, (), "")


@given(query_parts(), query_parts())
def test_matching_is_symmetric(one: QueryParts, other: QueryParts) -> None:
    there, back = (
        spider_match(str(one), str(other), PET_SCHEMA),
        spider_match(str(other), str(one), PET_SCHEMA),
    )
    assert (there.is_match, there.differing) == (back.is_match, back.differing)
    assert there.is_match == (not there.differing)


@given(query_parts(), st.randoms(use_true_random=False))
def test_the_order_of_items_conditions_and_tables_does_not_matter(
    parts: QueryParts, rng: random.Random
) -> None:
    pairs = list(zip(parts.conditions, parts.values, strict=True))
    rng.shuffle(pairs)
    shuffled = replace(
        parts,
        items=tuple(rng.sample(parts.items, len(parts.items))),
        conditions=tuple(condition for condition, _ in pairs),
        values=tuple(value for _, value in pairs),
        tables=parts.tables[::-1],
    )
    assert is_match(shuffled, parts)


@given(query_parts(), st.data())
def test_values_case_space_and_distinct_do_not_matter(
    parts: QueryParts, data: st.DataObject
) -> None:
    others = [
        value if "select" in value else data.draw(st.sampled_from(["7", "'Q'"]))
        for value in parts.values
    ]
    changed = replace(parts, values=tuple(others))
    assert is_match(
        str(changed)
        .replace("select", "SELECT  DISTINCT", 1)
        .replace("student", "STUDENT"),
        parts,
    )


@given(query_parts())
def test_what_is_selected_grouped_and_combined_does_matter(parts: QueryParts) -> None:
    assert not is_match(replace(parts, items=(*parts.items, "student.age")), parts)
    assert not is_match(replace(parts, tables=(*parts.tables, "pets")), parts)
    assert not is_match(
        replace(parts, tail=parts.tail + " intersect select age from student"), parts
    )
    more = replace(
        parts,
        conditions=(*parts.conditions, "student.age > {}"),
        values=(*parts.values, "3"),
    )
    assert "where" in spider_match(str(more), str(parts), PET_SCHEMA).differing


@given(SQL_SCRAPS | st.text(max_size=30))
def test_whatever_is_predicted_gets_a_verdict(scraps: str) -> None:
    verdict = spider_match(
        scraps, "select age from student where name = 'x'", PET_SCHEMA
    )
    assert not (verdict.is_match and verdict.reason)
    assert verdict.hardness is Hardness.EASY


@pytest.mark.parametrize("predicted", [None, "", "no SQL at all"])
def test_no_query_is_wrong_and_says_why(predicted: str | None) -> None:
    verdict = spider_match(predicted, BASE, PET_SCHEMA)
    assert not verdict.is_match
    assert verdict.reason.startswith("expected 'select'")
    assert verdict.differing == tuple(COMPONENTS)


@pytest.mark.parametrize(
    ("predicted", "gold", "differing"),
    [
        ("select max(age) from student", "select age from student", ["select"]),
        ("select age from student", "select name from student", ["select"]),
        (f"{BASE} where age > 1", f"{BASE} where age < 1", ["where"]),
        (
            f"{BASE} where age = 1 or age = 1",
            f"{BASE} where age = 1 and age = 1",
            ["connectors", "keywords"],
        ),
        (
            f"{BASE} group by age having age > 1",
            f"{BASE} group by age having age < 1",
            ["group"],
        ),
        (
            f"{BASE} order by age asc",
            f"{BASE} order by age desc",
            ["order", "keywords"],
        ),
        (
            f"{BASE} union {BASE}",
            f"{BASE} union select age from student",
            ["set operators"],
        ),
        (
            f"{BASE} union {BASE}",
            f"{BASE} except {BASE}",
            ["set operators", "keywords"],
        ),
        (f"{BASE} join pets", BASE, ["tables"]),
    ],
)
def test_the_components_that_differ_are_named(
    predicted: str, gold: str, differing: list[str]
) -> None:
    assert list(spider_match(predicted, gold, PET_SCHEMA).differing) == differing


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        (BASE, "easy"),
        (f"{BASE} where age = 1", "easy"),
        (f"{BASE} where age = 1 limit 3", "medium"),
        ("select name, age from student", "medium"),
        (f"{BASE} where age = 1 order by age limit 3", "hard"),
        (f"{BASE} where age in (select age from student)", "hard"),
        ("select max(name), max(age) from student group by age, stuid", "hard"),
        (
            "select max(name), max(age) from student where name = 1 group by age",
            "extra",
        ),
        (f"{BASE} where age = 1 or age = 2 or name like 'x'", "extra"),
        (f"{BASE} where age not in (select age from student) union {BASE}", "extra"),
        (f"{BASE} where age not in 1 group by age having age not in 1", "medium"),
    ],
)
def test_hardness_counts_clauses_subqueries_and_repetitions(
    sql: str, level: str
) -> None:
    assert spider_match(sql, sql, PET_SCHEMA).hardness == level


def test_a_column_in_two_groups_of_foreign_keys_goes_with_the_later_one() -> None:
    tables = tuple(Table(name, ("id",)) for name in "abcd")
    keys = [("c.id", "d.id"), ("a.id", "b.id"), ("d.id", "b.id")]
    schema = Schema("four", tables, tuple(ForeignKey(*key) for key in keys))
    assert representative_columns(schema) == {
        "a.id": "a.id",
        "b.id": "a.id",
        "c.id": "b.id",
        "d.id": "b.id",
    }
