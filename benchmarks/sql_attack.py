"""The attack on databases: queries that read what was not meant, never end, or take all memory.

    python benchmarks/sql_attack.py                                          # a SQLite file
    python benchmarks/sql_attack.py postgresql+psycopg://owner@host/empty    # a database that it may fill

Makes a shop with a table that is not for the model, runs every query under a limit of one second, and asks for lamps
after each. Prints how many queries were refused and how many gave rows, and counts leaks (the secret, names of the
server), hangs (over five seconds), processes over 500 MB, and queries after which the database did not answer.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from sqlalchemy import create_engine, make_url

from nqg.files import is_url
from nqg.sql.database import Database, QueryError

SECRET = "the-secret-word"
SHOP = (
    "create table product (name text, price real, stock integer)",
    "create table sale (product text, amount integer, city text)",
    "insert into product values ('lamp', 40, 3), ('desk', 320, 0)",
    "insert into sale values " + " , ".join(["('lamp', 2, 'Oslo')"] * 2000),
)
# The model's database is read before this is made.
HIDDEN = (
    f"create table secret (word text default '{SECRET}')",
    f"insert into secret values ('{SECRET}')",
)
HIDDEN_AT_A_SERVER = (
    "create schema hidden",
    "create table hidden.product as select word as name from secret",
    f"create function reveal(product) returns text language sql volatile as $$ select '{SECRET}'::text $$",
)
NAMES = (
    "secret",
    "reveal",
    "pg_shadow",
    "pg_authid",
    "pg_roles",
    "pg_stat_activity",
    "sqlite_master",
    "sqlite_schema",
    "information_schema",
    "current_user",
    "session_user",
    "current_schema",
    "user",
    "oid",
    "rowid",
    "ctid",
    "tableoid",
    "regclass",
    "regrole",
    "passwd",
    "word",
)
REACHES = (
    "select {0} from product",
    "select t.{0} from product as t",
    "select t.{0} from product as t , sale as {0}",
    "select (t).{0} from product as t , sale as {0}",
    "select t.name.{0} from product as t , sale as name , sale as {0}",
    "select {0}(t) from product as t",
    "select {0}(name) from product",
    "select * from {0}",
    "select product.word from {0} as product",
    "select name from product union select word from {0}",
    "select price as {0} from product order by {0}",
    "select price as {0} from product where {0} = 'x'",
    "select {0} 'product' from product",
    "select x.{0} from (select * from product) as x",
    "select name from product where exists (select 1 from {0})",
    "select name from hidden.{0}",
)
LONG = "replace(replace(replace('aaaaaaaaaaaaaaaaaaaa','a','{0}'),'a','{0}'),'a','éé')"
COSTS = (
    "select trim(x , y) from (select {0} as x , replace({0} , 'é' , 'è') || 'é' as y from product)",
    "select ltrim(x , x || 'b') from (select {0} as x from sale)",
    "select instr(x , x || 'b') from (select {0} as x from sale)",
    "select replace(x , 'é' , x) from (select {0} as x from sale)",
    "select group_concat(x) from (select {0} as x from sale)",
    "select count(*) from sale where {0} like '%a%a%a%a%a%a%a%b'",
    "select max(x || x || x || x) from (select {0} as x from sale) as d",
    "select upper(lower(upper(x))) from (select {0} as x from sale) as d order by 1",
    "select * from (select {0} as x from sale) as a , (select {0} as y from sale) as b",
)
DOUBLED = "select x || x || x as x from ("


# Ways to another table, to the server, or around what reads a query; invented by who did not mend.
INVENTED = (
    "select * from pragma_table_info('secret')",
    "select * from json_each('[1, 2]')",
    "select * from generate_series(1, 1000000000)",
    "select * from product natural join secret",
    "select name from product where name in secret",
    "select name from product where name in (select word from secret)",
    "select * from (with recursive n(x) as (select 1 union all select x + 1 from n) select x from n)",
    "select * from (with product as (select word as name from secret) select name from product) as d",
    "select * from (values (1), (2)) as d",
    "select [word] from [secret]",
    "select `word` from `secret`",
    'select "word" from "secret"',
    'select U&"\\0077ord" from U&"\\0073ecret"',
    "select word from main.secret",
    "select word from public.secret",
    "select word from only secret",
    "select name from product /* a */ union /**/ select word from secret",
    "select name from product -- ''\nunion select word from secret",
    "select name from product where name = $$'$$ union select word from secret",
    "select name from product where name = E'\\' union select word from secret --'",
    "select \u017fecret.word from \u017fecret",
    "select name from product\0 union select word from secret",
    "select name\u00a0from\u2003product",
    "select product from product",
    "select product.* , secret.* from product left join secret on true",
    "select t from (select word as t from secret) as product",
    "select name from product , lateral (select word from secret) as s",
    "select name from product tablesample system (100)",
    "select name from product for update",
    "select name into stolen from product",
    "select count(*) over (partition by name) from product",
    "select name from product limit (select count(*) from secret)",
    "select cast(product as text) from product",
    "select product::text from product",
    "select row_to_json(product) from product",
    "select set_config('statement_timeout', '0', false)",
    "select current_setting('data_directory')",
    "select lo_import('/etc/passwd')",
    "select query_to_xml('select word from secret', true, true, '')",
    "select pg_ls_dir('.')",
    "select date 'now'",
    "select name from product where name similar to '(l|la)*p'",
    "select name from product where name ~ '(a+)+$'",
    "select substring(name , '(((l{1,200}){1,200}){1,200})*b') from product",
    "select substr(name , -9223372036854775808 , 9223372036854775807) from product",
    "select round(price , 2147483647) from product",
    "select round(1e130000 / 3 , 16000) from product",
    "select sum(1e130000 * amount) from sale",
    "select 1e130000 / 7 * 1e-16000 / 3 from sale as a , sale as b",
    f"select {'9' * 45_000} * {'9' * 45_000} from sale as a , sale as b",
    "select 1e999 , -1e999 , 1e999 - 1e999",
    "select abs(-9223372036854775808) , 9223372036854775807 + 1",
    "select zeroblob(1000000000)",
    "select printf('%1000000000d' , 1)",
    "select repeat('x' , 1000000000)",
    "select lpad('x' , 1000000000)",
    f"select strftime('{'%J' * 20_000}' , 'now') from sale",
    f"select coalesce({' , '.join(['null'] * 900)} , name) from product",
    f"select {'not ' * 2_000} 1",
    f"select {'- ' * 2_000} 1",
    f"select {'(' * 2_000} 1 {')' * 2_000}",
    f"select {'case when 1 then ' * 90} 1 {'end ' * 90}",
    "select " + "(select " * 48 + "1" + ")" * 48,
    "select name from product where "
    + "name in (select name from product where " * 40
    + "1 = 1"
    + ")" * 40,
    "select count(*) from sale as a join sale as b on a.city = b.city join sale as c on b.city = c.city",
    "select name from product limit 1 offset (select count(*) from sale as a , sale as b , sale as c)",
    "select max(x) from (select a.city || b.city as x from sale as a , sale as b union select 'a' as x) as d",
    f"select count(*) from sale where '{'a' * 40_000}' like '{'%a' * 400}%b'",
    f"select count(*) from sale where '{'a' * 40_000}' like '{'_%' * 400}b'",
    f"select name from product where name in ({' , '.join(map(repr, map(str, range(2_000))))})",
    f"select name from product order by {' , '.join(['name'] * 2_000)}",
    f"select name from product group by {' , '.join(['name'] * 600)}",
)


def queries() -> Iterator[str]:
    """Every query of the attack."""
    yield from INVENTED
    for form, name in product(REACHES, NAMES):
        yield form.format(name)
    # Long values: as the query makes them, or writes them down.
    for form, size in product(COSTS, (10, 20, 34, 40)):
        yield form.format(LONG.format("a" * size))
    for form, size in product(COSTS, (1_000, 20_000, 45_000)):
        yield form.format(f"'{'é' * size}'")
    for depth in (2, 3, 4, 6, 12, 24, 45):
        yield DOUBLED * depth + "select name as x from product" + ") as d" * depth
        yield DOUBLED * depth + f"select '{'x' * 9000}' as x" + ") as d" * depth
    # Many columns, rows and selects.
    for number in (100, 400, 499, 1_990, 4_000):
        yield f"select {' , '.join(['name'] * number)} from sale , product"
        yield f"select {' , '.join(['*'] * number)} from sale , product"
        yield f"select {' + '.join(['price'] * number)} from product"
        yield f"select name from product where {' or '.join(['price > 1'] * number)}"
    for number in range(2, 12):
        sales = " , ".join(f"sale as s{each}" for each in range(number))
        yield f"select count(*) from {sales}"
        yield f"select distinct s0.city from {sales} order by 1"
        yield f"select sum(s0.amount) from {sales} group by s1.city having count(*) > 1"
    # What is no query at all.
    for statement in (
        "drop table product",
        "delete from sale",
        "select 1; drop table sale",
    ):
        yield statement
        yield f"select name from product where name = ''; {statement} --'"
    for call in (
        "pg_sleep(60)",
        "pg_read_file('/etc/passwd')",
        "load_extension('x')",
        "randomblob(1000000000)",
    ):
        yield f"select {call}"
        yield f"select name from product where {call} = name"


def fill(url: str, statements: tuple[str, ...]) -> None:
    with create_engine(url).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def peak_memory(database: Database) -> int:
    """The most megabytes that this process, or one that read the database, has had."""
    peaks = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    database.reader.close()
    peaks.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return max(peaks) // 1024


def attack(place: str, url: str, hidden: tuple[str, ...]) -> Counter[str]:
    """What became of the queries."""
    fill(url, SHOP)
    database = Database.open(place, seconds=1, most_rows=100, most_bytes=1_000_000)
    fill(url, hidden)
    parsed = make_url(url)
    names = {parsed.username, parsed.host, *map(str, parsed.query.values())}
    told = [str(name) for name in names if name]
    counts: Counter[str] = Counter(leaks=0, hangs=0, unanswered=0)
    slowest = 0.0
    for query in queries():
        start = time.perf_counter()
        try:
            answer = str(database.run(query).rows)
            counts["rows"] += 1
        except QueryError as error:
            answer = str(error)
            counts["refused"] += 1
        seconds = time.perf_counter() - start
        slowest = max(slowest, seconds)
        counts["hangs"] += seconds > 5
        # What a query writes itself, it may read.
        is_told = any(name in answer and name not in query for name in (SECRET, *told))
        counts["leaks"] += is_told
        try:
            lamps = database.run("select count(*) from product").rows
            counts["unanswered"] += lamps != ((2,),)
        except QueryError:
            counts["unanswered"] += 1
    counts["slowest, ms"] = round(1000 * slowest)
    counts["peak, MB"] = peak_memory(database)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", nargs="?", help="the URL of an empty database")
    place = parser.parse_args().place
    with tempfile.TemporaryDirectory() as folder:
        if place is None:
            place = str(Path(folder) / "shop.db")
        if is_url(place):
            counts = attack(place, place, HIDDEN + HIDDEN_AT_A_SERVER)
        else:
            counts = attack(place, f"sqlite:///{place}", HIDDEN)
    print(", ".join(f"{name}: {number}" for name, number in counts.items()))


if __name__ == "__main__":
    main()
