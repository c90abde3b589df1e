from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nqg.errors import FormatError
from nqg.paper.spider import read_schemas
from nqg.sql.database import Database
from nqg.sql.reader import DatabaseReader
from nqg.sql.schema import ForeignKey, Schema, Table
from spider_tables import PETS, write_tables


def test_names_are_in_lower_case_and_the_star_is_no_column(tmp_path: Path) -> None:
    assert read_schemas(write_tables(tmp_path, PETS)) == {
        "pets_1": Schema(
            "pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid",)))
        )
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"table_names_original": ["Student", 3]},
            "expected a string as entry 1 of 'table_names_original'",
        ),
        (
            {"table_names_original": [], "column_names_original": []},
            "expected at least one table, found none",
        ),
        (
            {"table_names_original": ["a", "b", "C"]},
            "expected a name and columns of the table 'c', found none",
        ),
        (
            {"column_names_original": [[2, "Age"]]},
            r"expected \[number of a table below 2, name\] .* found \[2, 'Age'\]",
        ),
        (
            {"column_names_original": [["Age", 0]]},
            "expected an integer as entry 0 of entry 0 of 'column_names",
        ),
        ({"column_names_original": [[-2, "Age"]]}, r"found \[-2, 'Age'\]"),
        ({"column_names_original": [[0, ""]]}, r"found \[0, ''\]"),
        (
            {"foreign_keys": [[1, 4]]},
            r"number of a column, each below 4 and not that of '\*', .* found \[1, 4\]",
        ),
        ({"foreign_keys": [[0, 3]]}, r"in 'foreign_keys', found \[0, 3\]"),
        ({"foreign_keys": [[-1, 3]]}, r"found \[-1, 3\]"),
        (
            {"foreign_keys": [[1, 2, 3]]},
            r"expected \[an integer, an integer\] as entry 0 of .* found \[1, 2, 3\]",
        ),
        ({"foreign_keys": {}}, "expected a list as 'foreign_keys'"),
        (
            {"column_names_original": "Age"},
            "expected a list as 'column_names_original'",
        ),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    with pytest.raises(FormatError, match=rf"tables\.json: .*{complaint}"):
        read_schemas(write_tables(tmp_path, PETS, {**PETS, "db_id": "other", **change}))


def test_foreign_keys_name_their_columns(tmp_path: Path) -> None:
    schema = read_schemas(write_tables(tmp_path, {**PETS, "foreign_keys": [[3, 1]]}))[
        "pets_1"
    ]
    assert schema.foreign_keys == (ForeignKey("pets.petid", refers_to="student.stuid"),)
    assert schema.columns == ("student.stuid", "student.age", "pets.petid")


def test_foreign_keys_must_be_told_even_if_there_are_none(tmp_path: Path) -> None:
    without = {key: value for key, value in PETS.items() if key != "foreign_keys"}
    with pytest.raises(
        FormatError, match=r"the key 'foreign_keys' of entry 0 .* is missing"
    ):
        read_schemas(write_tables(tmp_path, without))


def test_a_database_may_stand_there_once(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError,
        match=r"entry 1 .* expected a new database, found 'pets_1' for the second time",
    ):
        read_schemas(write_tables(tmp_path, PETS, {**PETS, "db_id": "pets_1"}))


def test_the_published_schemas_are_read(real_data: Path) -> None:
    schemas = read_schemas(real_data / "spider/tables.json")
    assert len(schemas) == 166
    assert sum(len(schema.foreign_keys) for schema in schemas.values()) == 795
    assert str(schemas["perpetrator"]) == (
        "perpetrator : perpetrator_id , people_id , date , year , location , country , killed , injured"
        " | people : people_id , name , height , weight , home town"
    )


def _database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path


def test_a_sqlite_database_has_a_schema(tmp_path: Path) -> None:
    script = """
        create table Student (StuID integer primary key autoincrement, Age int, "home town" text);
        create table Pets (PetID int, Owner int references Student (StuID), Friend int references Student);
        create view Old as select StuID from Student where Age > 90;
    """
    path = _database(tmp_path / "Pets #1.sqlite", script)
    before = path.read_bytes()
    tables = (
        Table("student", ("stuid", "age", "home town")),
        Table("pets", ("petid", "owner", "friend")),
        Table("old", ("stuid",)),
    )
    assert DatabaseReader(path).schema == Schema(
        "pets #1", tables, (ForeignKey("pets.owner", "student.stuid"),)
    )
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["Pets #1.sqlite"]


def test_what_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "geo.sqlite"
    with pytest.raises(
        FormatError,
        match=r"geo\.sqlite: expected a SQLite database, found no such file",
    ):
        Database.open(path)
    path.write_text("create table city (name)")
    with pytest.raises(
        FormatError,
        match=r"geo\.sqlite: .* found a file that cannot be read as one: file is not a",
    ):
        Database.open(path)
    path.write_bytes(b"")
    with pytest.raises(
        FormatError,
        match="expected a SQLite database with at least one table, found none",
    ):
        Database.open(path)


def test_the_published_database_of_geoquery_is_read(real_data: Path) -> None:
    schema = DatabaseReader(real_data / "geoquery_sql/geography.sqlite").schema
    names = ["border_info", "city", "highlow", "lake", "mountain", "river", "state"]
    assert [table.name for table in schema.tables] == names
    assert len(schema.columns) == 29


def test_a_name_in_a_database_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pets.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table pets (owner text)")
        database.commit()
    path.write_bytes(path.read_bytes().replace(b"pets", b"p\xffts"))
    with pytest.raises(
        FormatError,
        match=r"pets\.sqlite: no table can be read: table 'p.ts': 'utf-8' codec can't",
    ):
        Database.open(path)
