from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from nqg.data.examples import Example
from nqg.data.schema import Schema, SqlConstants, Table, read_schemas, sql_target_grammar
from nqg.data.spider import database_of, load_spider_xsp
from nqg.data.sql import sql_text, sql_tokens
from nqg.errors import FormatError, SettingsError
from nqg.grammar.target_grammar import TargetGrammar
from nqg.splits.compounds import sql_tree

PETS = Schema("pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid", "weight", "home town", "10%|x"))))
CONSTANTS = SqlConstants(numbers=("1", "2.5", "-3"), inside_strings=("%", "ann", "o", "|"))


@cache
def _grammar(constants: SqlConstants | None = CONSTANTS) -> TargetGrammar:
    return TargetGrammar.parse(sql_target_grammar(PETS, constants))


def _accepts(query: str, constants: SqlConstants | None = CONSTANTS) -> bool:
    return _grammar(constants).accepts(sql_tokens(query))


@pytest.mark.parametrize("constants", [CONSTANTS, None], ids=["given constants", "any constants"])
class TestAcceptance:
    @pytest.mark.parametrize(
        "query",
        [
            "select * from student",
            "select count(*) from student;",
            "select distinct age , stuid from student",
            "select t1.age , max(t2.weight) from student as t1 join pets as t2 on t1.stuid = t2.petid",
            "select student.age from student join pets",
            "select age from student where age > 1 and stuid = 'ann' or age between 1 and 2.5",
            "select age from student where stuid not in (select petid from pets where weight = -3)",
            "select age from student where stuid not like '%ann%' or stuid = '' or stuid = \"| o\"",
            "select avg(distinct age) from student group by age , stuid having count(*) >= 1 order by age desc limit 1",
            "select age from student order by count(*) >= 1",
            "select age from student union select petid from pets except select age from student",
            "select count(*) from (select age from student) as t1",
            "select age - (stuid + 1) * 2.5 from student limit 1",
            "select home town from pets where 10%|x = 1",
        ],
    )
    def test_queries_of_the_database_are_legal(self, constants: SqlConstants | None, query: str) -> None:
        assert _accepts(query, constants), _grammar(constants).explain(sql_tokens(query))

    @pytest.mark.parametrize(
        "query",
        [
            "",
            "select",
            "select from student",
            "select age",
            "age from student",
            "select age from teacher",
            "select name from student",
            "select t1.name from student as t1",
            "select student.weight from student",
            "select age from student as me",
            "select age , from student",
            "select age stuid from student",
            "select count( * from student",
            "select count(*)) from student",
            "select age from student where",
            "select age from student where age",
            "select age from student where age > 1 and",
            "select age from student where name = 1",
            "select age from student where age > 1 where age > 1",
            "select age from student order by age where age > 1",
            "select age from student group age",
            "select age from student group by name",
            "select age from student having count(*) > 1",
            "select age from student limit",
            "select age from student join",
            "select age from student where stuid in (select petid from pets",
            "select age from student where stuid in select petid from pets",
            "select age from student union",
            "select age from student ; ;",
            "select total(age) from student",
        ],
    )
    def test_ill_formed_queries_are_not(self, constants: SqlConstants | None, query: str) -> None:
        assert not _accepts(query, constants)

    def test_no_category_is_idle(self, constants: SqlConstants | None) -> None:
        assert _grammar(constants).unreachable == ()


class TestConstants:
    @pytest.mark.parametrize(
        "query",
        [
            "select age from student where age > name",
            "select age from student limit 7",
            "select age from student where stuid = 'bob'",
            "select age from student where stuid = 'ann' and name = 'ann'",
        ],
    )
    def test_only_given_constants_keep_unknown_names_out_of_their_places(self, query: str) -> None:
        assert not _accepts(query)
        assert _accepts(query, None)

    def test_they_are_collected_from_queries(self) -> None:
        queries = ["select 5 from t where a = 'x y' and b = \"x.5\"", "select 3 from t limit 5"]
        assert SqlConstants.of(queries) == SqlConstants(("3", "5"), (".", "5", "x", "y"))

    def test_without_any_number_there_is_no_grammar(self) -> None:
        with pytest.raises(SettingsError, match="expected at least one number among the constants of SQL, found none"):
            SqlConstants.of(["select a from t"])


@pytest.fixture(scope="module")
def examples(real_data: Path) -> list[Example]:
    train, dev = load_spider_xsp(real_data / "spider/train_spider.json", real_data / "spider/dev.json")
    return train + dev


@pytest.fixture(scope="module")
def grammars(real_data: Path, examples: list[Example]) -> Mapping[str, TargetGrammar]:
    constants = SqlConstants.of(example.target for example in examples)
    schemas = read_schemas(real_data / "spider/tables.json")
    databases = dict.fromkeys(database_of(example.source) for example in examples)
    return {name: TargetGrammar.parse(sql_target_grammar(schemas[name], constants)) for name in databases}


class TestSpider:
    def test_every_query_is_legal_but_one_whose_table_the_schema_lacks(
        self, examples: list[Example], grammars: Mapping[str, TargetGrammar]
    ) -> None:
        illegal = [
            example for example in examples if not grammars[database_of(example.source)].accepts(_tokens(example))
        ]
        assert [example.id for example in illegal] == ["train-3153"]
        verdict = grammars["assets_maintenance"].explain(_tokens(illegal[0]))
        assert str(verdict).endswith("found 'ref_company_types'")

    def test_what_the_grammar_accepts_the_parser_reads(
        self, examples: list[Example], grammars: Mapping[str, TargetGrammar]
    ) -> None:
        rng = random.Random(0)
        verdicts = []
        for example in rng.sample(examples, 400):
            for tokens in _damaged(_tokens(example), rng):
                accepted = grammars[database_of(example.source)].accepts(tokens)
                verdicts.append(accepted)
                assert not accepted or _is_read(tokens), " ".join(tokens)
        assert (verdicts.count(False), len(verdicts)) == (1162, 1200)

    def test_a_query_of_another_database_is_illegal(
        self, examples: list[Example], grammars: Mapping[str, TargetGrammar]
    ) -> None:
        target = next(example for example in examples if example.source.startswith("farm:"))
        assert grammars["farm"].accepts(_tokens(target))
        assert not grammars["pets_1"].accepts(_tokens(target))


def _tokens(example: Example) -> tuple[str, ...]:
    return sql_tokens(example.target)


def _damaged(tokens: tuple[str, ...], rng: random.Random) -> Iterator[tuple[str, ...]]:
    """The tokens with one left out, one twice, and two exchanged."""
    place, other = sorted(rng.sample(range(len(tokens)), 2))
    yield tokens[:place] + tokens[place + 1 :]
    yield (*tokens[: place + 1], *tokens[place:])
    yield (*tokens[:place], tokens[other], *tokens[place + 1 : other], tokens[place], *tokens[other + 1 :])


def _is_read(tokens: tuple[str, ...]) -> bool:
    try:
        sql_tree(sql_text(tokens))
    except FormatError:
        return False
    return True
