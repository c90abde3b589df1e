"""The grammar of legal SQL over a schema, in the forms that a grammar may learn queries in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from itertools import chain

from nqg.errors import SettingsError
from nqg.sql.schema import Schema
from nqg.sql.tokens import (
    SPACE,
    SQL_QUOTES,
    is_number,
    is_string,
    sql_tokens,
    sql_words,
)
from nqg.types.target_grammar import format_symbols, format_target_symbol


@dataclass(frozen=True, slots=True)
class SqlConstants:
    """The numbers, and the tokens inside strings, that a query may hold."""

    numbers: tuple[str, ...]
    inside_strings: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.numbers:
            raise SettingsError(
                "expected at least one number among the constants of SQL, found none"
            )

    @classmethod
    def of(cls, queries: Iterable[str]) -> SqlConstants:
        """The constants that occur in `queries`: a grammar induced from them writes no others.

        >>> SqlConstants.of(["select a from t where b = 'x y' limit 3"])
        SqlConstants(numbers=('3',), inside_strings=('x', 'y'))
        """
        words = set(chain.from_iterable(map(sql_words, queries)))
        inside: set[str] = set()
        for word in filter(is_string, words):
            inside.update(sql_tokens(word)[1:-1])
        return cls(tuple(sorted(filter(is_number, words))), tuple(sorted(inside)))


class SqlForm(Enum):
    """How far a grammar of SQL ties columns to tables."""

    # Any column of the database, whatever the tables of the query.
    PUBLISHED = "published"
    # Columns of the tables of its query; aliases are called after their tables
    # (`named_aliases`).
    NAMED = "named"
    # The same, but a column without a table before it may be any: small, for queries
    # that name both.
    QUALIFIED = "qualified"


def sql_target_grammar(
    schema: Schema,
    constants: SqlConstants | None = None,
    form: SqlForm = SqlForm.PUBLISHED,
) -> str:
    """The text of a target grammar that derives the tokens of the queries that make sense for
    `schema`.

    Without `constants` a string may hold any tokens up to its closing quotation mark, and any
    number may be one.
    """
    text = resources.files("nqg.sql").joinpath("sql.grammar").read_text("utf-8")
    # The sections of the file are cut at their headings, and combined by form.
    sections = dict(
        re.findall(r"^# == (.*) ==\n((?:(?!# == ).*\n)*)", text, flags=re.MULTILINE)
    )
    if form is SqlForm.PUBLISHED:
        select = sections["clauses"] + sections["select"]
        around = sections["published"]
        names = _published_names(schema)
    else:
        select = sections["growing clauses"] + sections["select"]
        select += sections["more of select"]
        around = sections["named"]
        names = _named_tables(schema, select, form)
    lines = [sections["shared"], select, around, *names, *_constants(constants)]
    return "".join(f"{line}\n" for line in lines)


def _alternatives(category: str, names: Iterable[str]) -> str:
    alternatives = dict.fromkeys(map(_symbols, names))
    return f"<{category}> ::= {' | '.join(alternatives)}"


def _symbols(name: str) -> str:
    return format_symbols(sql_tokens(name))


def _all_columns(schema: Schema) -> str:
    columns = chain.from_iterable(table.columns for table in schema.tables)
    return _alternatives("column_name", columns)


def _published_names(schema: Schema) -> Iterator[str]:
    yield _alternatives("table", (table.name for table in schema.tables))
    yield _all_columns(schema)
    for number, table in enumerate(schema.tables):
        columns = f"columns_of_table_{number}"
        yield f"<column_of_table> ::= {_symbols(table.name)} . <{columns}>"
        yield _alternatives(columns, table.columns)
    yield "<alias> ::= t1 | t2 | t3 | t4 | t5 | t6 | t7 | t8 | t9"


def _uses(name: str, before: str = "", after: str = "") -> str:
    """What a table may be called each time that a `from` has it, as alternatives."""
    names = (name, f"{name}_2", f"{name}_3", f"{name}_4")
    return " | ".join(f"{before}{use}{after}" for use in names)


def _named_tables(schema: Schema, select: str, form: SqlForm) -> Iterator[str]:
    """The names, and the categories of `select` once more for each table, called `<condition:city>`
    and so on.

    Where columns are qualified, one copy of the categories does: of which table a column is, stands
    before it.
    """
    is_qualified = form is SqlForm.QUALIFIED
    yield f"<derived> ::= {_uses('derived_table')}"
    yield f"<column> ::= <column_name>\n{_all_columns(schema)}"
    if is_qualified:
        yield "<tables> ::= <source>"
    # What a copy refers to has to be copied as well, or tables would be mixed.
    copied = {"tables", "column", "qualifier"}
    copied.update(re.findall(r"^<(\w+)>", select, flags=re.MULTILINE))
    any_copied = re.compile(rf"<({'|'.join(sorted(copied))})>")
    productions = "\n".join(re.findall("^<.*", select, flags=re.MULTILINE))
    for number, table in enumerate(schema.tables):
        # A name that is no plain word cannot be part of a category, so a number is.
        name = _symbols(table.name)
        of = table.name if re.fullmatch(r"\w+", table.name) else f"table.{number}"
        if is_qualified:
            yield f"\n# {of}\n<source> ::= {name} | {_uses(name, f'{name} as ')}"
            yield f"<qualifier> ::= {_uses(name)}"
            yield f"<column> ::= {_uses(name, after=f' . <column_name:{of}>')}"
            yield _alternatives(f"column_name:{of}", table.columns)
            continue
        yield f"\n# {of}\n<selected> ::= <selection:{of}>"
        yield f"<source> ::= {name} | {name} as <alias:{of}>"
        yield f"<tables:{of}> ::= {name} | {name} as <alias:{of}>"
        yield f"<qualifier> ::= <qualifier:{of}>\n<column> ::= <qualifier:{of}> . <column_name:{of}>"
        yield f"<qualifier:{of}> ::= <alias:{of}>"
        yield f"<alias:{of}> ::= {_uses(name)}"
        yield f"<column:{of}> ::= <column_name:{of}> | <qualifier:{of}> . <column_name:{of}> | <field>"
        yield _alternatives(f"column_name:{of}", table.columns)
        yield any_copied.sub(rf"<\1:{of}>", productions)


def _constants(constants: SqlConstants | None) -> Iterator[str]:
    numbers = "<#>" if constants is None else " | ".join(constants.numbers)
    yield f"\n# Constants\n<number> ::= {numbers}"
    # A string may hold the other quotation mark, but never its own.
    for quote, inner_quote in (SQL_QUOTES, reversed(SQL_QUOTES)):
        pieces = f"<'> | {inner_quote}"
        if constants is not None:
            inside = dict.fromkeys((*constants.inside_strings, SPACE))
            inside.pop(quote, None)
            pieces = " | ".join(map(format_target_symbol, inside))
        piece = f"<piece_{quote}>"
        yield f"<in_{quote}> ::= {piece} | <in_{quote}> {piece}\n{piece} ::= {pieces}"
