"""Spider's metric on fresh pairs: queries of Spider, changed in ways whose verdict its definition in words decides.

    python benchmarks/metric_pairs.py --pairs 44000 --seed 1

A pair is a gold query and the same query after one to four changes that the definition lets pass (case and space,
values, names of aliases, order of items, `distinct`, brackets), or after one that it does not (another aggregate,
direction or comparison, a clause or a query more, a query that cannot be read). Prints how many verdicts are not as
expected; the exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from nqg.errors import FormatError
from nqg.paper.spider import read_schemas
from nqg.paper.spider_match import spider_match
from nqg.paper.spider_parser import parse_query
from nqg.sql.schema import Schema

Change = Callable[[str, random.Random], str | None]  # None where it does not apply
NESTED = re.compile(r"(?i)\b(intersect|union|except)\b|\(\s*select\b")
SKIPPED = re.compile(
    r"(?i)[<>=]\s*[a-z]\w*\.\w+\s+or\b"
)  # the metric reads nothing between such a column and an `and`


def outside(sql: str, change: Callable[[str], str]) -> str:
    """The query with everything but its strings changed."""
    parts = re.split(r"(\"[^\"]*\"|'[^']*')", sql)
    return "".join(
        part if place % 2 else change(part) for place, part in enumerate(parts)
    )


def another_case(sql: str, rng: random.Random) -> str:
    return outside(
        sql,
        lambda part: "".join(rng.choice((each.lower(), each.upper())) for each in part),
    )


def more_space(sql: str, rng: random.Random) -> str:
    return outside(
        sql,
        lambda part: re.sub(
            r"\s+", lambda _: rng.choice((" ", "  ", "\n", "\t ")), part
        ),
    )


def other_values(sql: str, rng: random.Random) -> str | None:
    changed = re.sub(
        r"\"[^\"]*\"|'[^']*'",
        lambda _: f'"{rng.choice("Aß漢 x")}{rng.randint(0, 99)}"',
        sql,
    )
    return changed if changed != sql else None


def other_aliases(sql: str, rng: random.Random) -> str | None:
    number = rng.randint(20, 99)
    changed = outside(
        sql, lambda part: re.sub(r"\b[tT](\d)\b", rf"alias{number}x\1", part)
    )
    return changed if changed != sql else None


def items_turned(sql: str, rng: random.Random) -> str | None:
    """The items of the selection in another order; none of them may hold a bracket that is left open."""
    match = re.match(r"(?is)(select\s+(?:distinct\s+)?)(.*?)(\s+from\s.*)", sql)
    items = [each.strip() for each in match[2].split(",")] if match else []
    if (
        not match
        or len(items) < 2
        or any(each.count("(") != each.count(")") for each in items)
    ):
        return None
    rng.shuffle(items)
    return match[1] + " , ".join(items) + match[3]


def with_or_without_distinct(sql: str, rng: random.Random) -> str:
    match = re.match(r"(?i)select\s+distinct\b", sql)
    return (
        f"SELECT {sql[match.end() :]}"
        if match
        else re.sub(r"(?i)^select", "SELECT DISTINCT", sql)
    )


def brackets_and_semicolon(sql: str, rng: random.Random) -> str:
    return rng.choice(
        (f"{sql.rstrip('; ')} ;", f"( {sql.rstrip('; ')} )", f"{sql.rstrip('; ')} ; ;")
    )


def swapped(pattern: str, words: dict[str, str], after: str = "^") -> Change:
    """Another word in the last place where one of them stands: of directions the last one holds."""

    def change(sql: str, rng: random.Random) -> str | None:
        begin = re.search(after, sql, flags=re.IGNORECASE)
        places = (
            list(re.finditer(pattern, sql[begin.end() :], flags=re.IGNORECASE))
            if begin
            else []
        )
        if not begin or not places or '"' in sql or "'" in sql:
            return None
        at = re.compile(pattern, re.IGNORECASE).match(
            sql, begin.end() + places[-1].start()
        )
        assert at is not None
        return sql[: at.start()] + words[at[0].lower()] + sql[at.end() :]

    return change


def with_more(text: str, lacking: str) -> Change:
    return lambda sql, _: (
        f"{sql.rstrip('; ')} {text}"
        if not re.search(lacking, sql, flags=re.IGNORECASE)
        else None
    )


def broken(sql: str, rng: random.Random) -> str:
    head = sql.rstrip("; ")
    return rng.choice(
        (
            f"{head} '",
            re.sub(r"(?i)^select", "SELECT nosuchcolumn ,", head),
            head[7:],
            "",
            "SELECT",
        )
    )


KEEP: dict[str, Change] = {
    "case": another_case,
    "space": more_space,
    "values": other_values,
    "aliases": other_aliases,
    "order of items": items_turned,
    "distinct": with_or_without_distinct,
    "brackets": brackets_and_semicolon,
}
BREAK: dict[str, Change] = {
    "aggregate": swapped(
        r"\b(max|min|sum|avg)\b(?=\s*\()",
        {"max": "min", "min": "max", "sum": "avg", "avg": "sum"},
    ),
    "direction": swapped(r"\b(asc|desc)\b", {"asc": "desc", "desc": "asc"}),
    "comparison": swapped(
        r"(?<=\s)(<|>|!=)(?=\s)(?!\s*=)", {"<": ">", ">": "<", "!=": "<"}, r"\bwhere\b"
    ),
    "a limit more": with_more("LIMIT 3", r"\blimit\b|\border\b"),
    "a second query": with_more(
        "UNION SELECT count(*) FROM sqlite_sequence_x",
        r"\b(union|intersect|except|limit|order)\b",
    ),
    "unreadable": broken,
}


def verdicts(gold: str, schema: Schema, rng: random.Random) -> tuple[str, bool, bool]:
    """The names of the changes, whether the pair should match, and whether it does."""
    sql, names = gold, list[str]()
    for name in rng.sample(sorted(KEEP), rng.randint(1, 4)):
        if (changed := KEEP[name](sql, rng)) is not None:
            sql, names = changed, [*names, name]
    expected = rng.random() < 0.5
    if not expected:
        usable = [name for name in BREAK if BREAK[name](gold, rng) is not None]
        name = rng.choice(usable)
        sql, names = BREAK[name](gold, rng) or "", [name]
    return " + ".join(names), expected, spider_match(sql, gold, schema).is_match


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=44_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spider", type=Path, default=Path("../shared/data/spider"))
    options = parser.parse_args()
    schemas, rng = (
        read_schemas(options.spider / "tables.json"),
        random.Random(options.seed),
    )
    lines = map(
        json.loads, (options.spider / "match_verdicts.jsonl").read_text().splitlines()
    )
    golds = sorted(
        {(line["db_id"], line["gold"]) for line in lines if line["db_id"] in schemas}
    )
    golds = [
        (database, gold)
        for database, gold in golds
        if not NESTED.search(gold) and not SKIPPED.search(gold)
    ]
    readable = []
    for database, gold in golds:
        try:
            parse_query(gold, schemas[database])
            readable.append((database, gold))
        except FormatError:
            continue
    wrong, counts = [], Counter[bool]()
    for _ in range(options.pairs):
        database, gold = rng.choice(readable)
        names, expected, found = verdicts(gold, schemas[database], rng)
        counts[expected] += 1
        if found != expected:
            wrong.append((names, gold))
    print(
        f"{options.pairs:,} pairs from {len(readable):,} queries, {counts[True]:,} of which should match"
    )
    print(f"{len(wrong):,} verdicts are not as the definition says")
    for names, gold in wrong[:10]:
        print(f"  {names}: {gold}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
