"""Databases and training files of strangers: how long they take, how much memory, whether Ctrl-C ends them.

    python benchmarks/hostile_data.py databases
    python benchmarks/hostile_data.py training --seconds 4

Ninety SQLite databases are read as `nqg train --database` reads them: its tables, columns and their values. A
hundred and twenty-five training files are given to `nqg train`, which is interrupted after some seconds of CPU time.
A row is printed for what took long, and counts: tracebacks, hangs (over five seconds for a column, or from Ctrl-C to
the end) and processes over 500 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path

from nqg.errors import NqgError
from nqg.sql.programs import read_columns
from nqg.sql.reader import DatabaseReader

SHOP = (
    "create table lamp (name text, price real)",
    "insert into lamp values ('Ada', 30), ('Bo', 20)",
)
ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n)"
STATEMENTS: tuple[str, ...] = (
    f"create view v as {ENDLESS} select x from n",
    f"create view v as {ENDLESS} select count(*) as x from n",
    f"create view v as {ENDLESS} select max(x) as x, 'a' || x as y from n group by x % 7",
    "create view v as select * from elsewhere",
    "create view v as select unknown_function(name) as x from lamp",
    "create view v as select hex(zeroblob(1000000000)) as x from lamp",
    "create view v as select replace(hex(zeroblob(100000)), '0', hex(zeroblob(10000))) as x from lamp",
    "create view v as select printf('%.*c', 2000000000, 'x') as x",
    "create view v as select randomblob(500000000) as x from lamp",
    "create view v as select load_extension('x') as x",
    "create view v as select writefile('/tmp/x', 'y') as x",
    "create view v as select a.name from lamp a, lamp b, lamp c, lamp d, lamp e, lamp f, lamp g",
    "create table t (x text default (hex(zeroblob(1000000000))))",
    "create table t (x text, y text generated always as (hex(zeroblob(100000000))) virtual)",
    'create table t ("" text)',
    'create table t ("a b" text, "select" text, """" text)',
    'create table "select" ("from" text)',
    "create table t (x)",
    "create table t (x text collate nocase primary key) without rowid",
    "create virtual table t using fts5(x)",
    "create virtual table t using rtree(id, a, b)",
    "create table t (x text); create trigger g after insert on t begin delete from lamp; end",
    "create table t (x text references elsewhere (y), z integer references t (nowhere))",
    "create table a (x references b (x)); create table b (x references a (x))",
    "create view a as select * from lamp; create view b as select * from a, a as c",
    'create table "x\'; drop table lamp; --" (y text)',
    'create table "\u202egnirts" ("\u200b" text)',
    "create table t (x text); insert into t values (cast(x'ff' as text)), (x'00'), (1e999), (null)",
    "create table t (x text); insert into t values (cast(x'61ff' as text))",
    "create table t (x text); insert into t values (char(27) || ']0;evil' || char(7))",
)


def filled(*statements: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in (*SHOP, *statements):
                connection.executescript(f"{statement};")
            connection.commit()

    return write


def many_tables(count: int, path: Path) -> None:
    statements = [
        f"create table t{n} (name{n} text, price{n} real)" for n in range(count)
    ]
    filled(*statements)(path)


def many_columns(count: int, path: Path) -> None:
    filled(f"create table t ({', '.join(f'c{n} text' for n in range(count))})")(path)


def many_values(count: int, size: int, path: Path) -> None:
    filled(
        "create table t (x text)",
        f"insert into t {ENDLESS} select printf('%0{size}d', x) from n limit {count}",
    )(path)


def nested_views(depth: int, path: Path) -> None:
    views = ["create view v0 as select name as x from lamp"]
    views += [
        f"create view v{n} as select a.x || b.x as x from v{n - 1} a, v{n - 1} b"
        for n in range(1, depth)
    ]
    filled(*views)(path)


def write_content(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def damaged(seed: int, path: Path) -> None:
    filled("create table t (x text)", "create view v as select name from lamp")(path)
    rng, raw = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 8, 64, 512))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    path.write_bytes(raw[: rng.choice((len(raw), len(raw) // 2, 200))])


# More statements, by who did not mend.
INVENTED: tuple[str, ...] = (
    "create view v as select name collate nosuch as x from lamp",
    "create table t (x text, y integer generated always as (abs(-9223372036854775808)) virtual)",
    "create view v as select * from lamp where elsewhere(1) = name",
    "create table t (x text); create index i on t (upper(x) || hex(x))",
    'create table sqlitelike (x text); create table "sqlite" (x text); create table _ (_ text)',
    'create table t (x text); create view T2 as select * from t; create table "t 2" (x text)',
    "pragma journal_mode = wal; create table t (x text)",
    "pragma page_size = 65536; vacuum; create table t (x text)",
    "create view v as select * from json_each((select group_concat(name) from lamp))",
    "create view v as select * from pragma_table_info('lamp')",
    "create view v as select name from lamp where name like replace(hex(zeroblob(20000)), '00', '%a')",
    "create view v as select name from lamp where name regexp 'a'",
    "create view v as select x'ff' as x union select 1 union select 'a' union select null union select 1e999",
    "create view v as select char(0) || name as x, name || char(10) || name as y from lamp",
    f"create view v as select {' + '.join(['price'] * 900)} as x from lamp",
    f"create view v as {' union all '.join(['select name from lamp'] * 450)}",
    f"create view v as select {' || '.join(['name'] * 900)} as x from lamp",
    f"create view v as select ({ENDLESS} select max(x) from n) as x from lamp",
    f"create view v as {ENDLESS} select x as a, x as b, x as c from n order by random()",
    f"create view v as {ENDLESS} select group_concat(x) as x from n",
    f'create table t ("{"x" * 1_000_000}" text)',
    f'create table "{"y" * 200_000}" (x text)',
    f"create table t (x text /* {'z' * 900_000} */)",
)


def wide_views(columns: int, depth: int, path: Path) -> None:
    """Views whose columns take more memory the deeper they are nested."""
    names = ", ".join(f"c{n} text" for n in range(columns))
    views = [f"create table wide ({names})", "create view w0 as select * from wide"]
    views += [
        f"create view w{n} as select a.* from w{n - 1} a, w{n - 1} b"
        for n in range(1, depth)
    ]
    filled(*views)(path)


def slow_views(count: int, path: Path) -> None:
    """Views each of which takes less than the time for one, and all together for ever."""
    filled(
        *(
            f"create view v{n} as {ENDLESS} select count(*) as x from (select x from n limit 200000)"
            for n in range(count)
        )
    )(path)


def many_indexes(count: int, path: Path) -> None:
    filled(*(f"create index i{n} on lamp (name, price)" for n in range(count)))(path)


def sparse(path: Path) -> None:
    """A database that says it has more pages than any disk."""
    filled("create table t (x text)")(path)
    with path.open("r+b") as file:
        file.seek(28)
        file.write(b"\xff\xff\xff\xf0")
        file.truncate(100 << 30)


def locked(path: Path) -> None:
    """A database in which somebody writes for ever."""
    filled("create table t (x text)")(path)
    LOCKS.append(sqlite3.connect(path, isolation_level=None))
    LOCKS[-1].execute("begin exclusive")


LOCKS: list[sqlite3.Connection] = []


def databases() -> Iterator[Callable[[Path], object]]:
    """Ninety of them."""
    yield from map(filled, STATEMENTS)
    for count in (30, 300, 3_000):
        yield partial(many_tables, count)
    for count in (500, 1_990):
        yield partial(many_columns, count)
    for count, size in ((200_000, 20), (1_000, 90_000), (3, 20_000_000)):
        yield partial(many_values, count, size)
    for depth in (8, 40):
        yield partial(nested_views, depth)
    for content in (b"", b"SQLite format 3\0", b"\xff" * 5_000_000):
        yield partial(write_content, content)
    yield Path.mkdir
    yield os.mkfifo
    yield lambda path: path.symlink_to(path)
    for seed in range(14):
        yield partial(damaged, seed)
    yield from map(filled, INVENTED)
    yield partial(wide_views, 1_900, 30)
    yield partial(wide_views, 100, 30)
    yield partial(slow_views, 12)
    yield partial(many_indexes, 2_000)
    yield sparse
    yield locked
    yield lambda path: path.symlink_to("/dev/zero")


@dataclass
class Reading:
    """What reading a database gave: the words for it, how long its slowest column took, and all."""

    said: str = ""
    slowest: float = 0.0
    seconds: float = 0.0
    megabytes: int = 0


def read_everything(path: Path) -> Reading:
    """The schema, and the values of every column, as a training reads them."""
    reader, reading = DatabaseReader(path), Reading()
    begun = [time.perf_counter()]

    def progress(what: str, done: int, total: int | None) -> None:
        begun.append(time.perf_counter())

    try:
        tables = reader.schema.tables
        left_out = list(reader.contents.left_out)
        columns = list(read_columns(reader, tables, left_out, progress))
        reading.said = f"{len(tables)} tables, {len(columns)} columns"
        if left_out:
            reading.said += f", left out: {'; '.join(left_out)}"
    except NqgError as error:
        reading.said = f"refused: {error}"
    finally:
        reader.close()
    begun.append(time.perf_counter())
    reading.slowest = max(end - start for start, end in pairwise(begun))
    reading.seconds = begun[-1] - begun[0]
    peaks = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    most = max(resource.getrusage(who).ru_maxrss for who in peaks)
    reading.megabytes = most // 1024
    return reading


def reads(write: Callable[[Path], object], path: Path) -> Reading:
    """What reading gives, in a process of its own."""
    write(path)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            result = read_everything(path)
        except BaseException as error:
            result = Reading(f"traceback: {type(error).__name__}: {error}")
        result.said = result.said[:300]
        os.write(writing, json.dumps(asdict(result)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered = pipe.read()
    os.waitpid(pid, 0)
    return Reading(**json.loads(answered)) if answered else Reading("no answer")


def attack_databases(first: int = 0, last: int | None = None) -> Counter[str]:
    counts = Counter[str](tracebacks=0, over_5_s=0, over_500_mb=0)
    for number, write in enumerate(islice(databases(), first, last), first):
        with tempfile.TemporaryDirectory() as folder:
            result = reads(write, Path(folder) / "shop.db")
        is_failure = result.said.startswith(("traceback", "no answer"))
        counts["databases"] += 1
        counts["refused" if result.said.startswith("refused") else "read"] += 1
        counts["tracebacks"] += is_failure
        counts["over_5_s"] += result.slowest > 5
        counts["over_500_mb"] += result.megabytes > 500
        if is_failure or result.slowest > 1 or result.seconds > 20:
            seconds = f"{result.slowest:6.2f} s of {result.seconds:.0f} s"
            print(
                f"{number:3} {seconds} {result.megabytes:5} MB {result.said}",
                flush=True,
            )
    return counts


def nested(opening: str, inside: str, closing: str, depth: int) -> str:
    return opening * depth + inside + closing * depth


def invented_files(rng: random.Random) -> Iterator[str]:
    """Twenty-five files, by who did not mend."""
    names = [f"n{n}" for n in range(400)]
    yield "\0go\tgo ( )\n" * 20
    yield "\ufeffgo left\tgo ( left )\r\ngo right\tgo ( right )\r" * 20
    yield "... !!! ???\tmark ( )\n,,,\tcomma ( )\n" * 10
    yield f"go\t{nested('f ( ', 'x', ' )', 10_000)}\n" * 2
    yield "".join(f"go {n}\t{nested('[', str(n), ']', 900)}\n" for n in range(20))
    yield "".join(f'go {n}\t{{"a": NaN, "a": {n}, "a": Infinity}}\n' for n in range(40))
    yield "".join(f"take {'9' * n} now\ttake({'9' * n})\n" for n in range(1, 4_000, 90))
    yield "".join(
        f"write to {'a@' * n}a.{'a.' * n}\twrite()\n" for n in range(1, 400, 9)
    )
    yield "".join(f"open {'https://' * n} x\topen()\n" for n in range(1, 400, 9))
    yield "".join(f"at {'1,1.1:1/' * n} go\tgo()\n" for n in range(1, 400, 9))
    yield f"e{chr(0x301) * 50_000} now\tgo()\nthen e\u0301\tstop()\n"
    yield "".join(
        f"{chr(0x200B) * n}go {chr(0x200D) * n}{n}\tgo({n})\n" for n in range(50)
    )
    yield "".join(
        f'note {" ".join(rng.choices(names, k=150))}\tnote(text="{" ".join(rng.choices(names, k=150))}")\n'
        for _ in range(60)
    )
    yield "".join(
        f'note {text}\tnote(text="{text}")\n'
        for text in (" ".join(rng.choices(names, k=120)) for _ in range(60))
    )
    yield "".join(f"{'a ' * n}\tf({', '.join(['a'] * n)})\n" for n in range(1, 80))
    yield "".join(
        f'from {a} to {b}\t{{"name": "go", "arguments": {{"from": "{a}", "to": "{b}", "via": "{a} {b}"}}}}\n'
        for a, b in (rng.choices(names, k=2) for _ in range(200))
    )
    yield "".join(
        f"@number @text NT_{n} @{n}\tf ( @number , NT_{n} , @text )\n"
        for n in range(60)
    )
    yield "".join(f'say {n}\tsay("{n}\n' for n in range(80))
    yield "".join(f"say {n}\tsay('it\\'s {n}\\\\')\n" for n in range(80))
    yield "".join(
        f"at {n % 24}:{n % 60:02} on 2027-01-{n % 28 + 1:02}\tat('{n % 24}:{n % 60:02}', '2027-01-{n % 28 + 1:02}')\n"
        for n in range(300)
    )
    yield "".join(f"word{n}\tprogram\n" for n in range(3_000))
    yield "".join(
        f"{' '.join(rng.choices('ab', k=40))}\t{' '.join(rng.choices('xy', k=40))}\n"
        for _ in range(150)
    )
    yield "".join(
        f"{'if a then ' * n}b\t{'if ( a , ' * n}b{' )' * n}\n" for n in range(1, 70)
    )
    yield "".join(
        f"{' and '.join(f'w{m}' for m in range(n))}\t{' ; '.join(f'W{m}' for m in range(n))}\n"
        for n in range(1, 60)
    )
    yield "".join(f"{n}\t{n}\n" for n in range(5_000))


def training_files(rng: random.Random) -> Iterator[str]:
    """A hundred files that fit no grammar, or too many, behind those of `invented_files`."""
    yield from invented_files(random.Random(41))
    words = [f"w{n}" for n in range(50)]

    def phrase(least: int, most: int) -> str:
        return " ".join(rng.choices(words, k=rng.randint(least, most)))

    for size in (100, 1_000, 5_000, 20_000):
        yield "".join(f"{phrase(3, 10)}\t{phrase(3, 10)}\n" for _ in range(size))
        yield "".join(f"same words here\tp{n} ( x{n} )\n" for n in range(size))
        yield "".join(f"word{n} thing{n}\tf{n} ( g{n} )\n" for n in range(size))
        yield "".join(
            f"{'a ' * (n % 40 + 1)}\t{'b ' * (n % 37 + 1)}\n" for n in range(size)
        )
        yield "".join(
            f"{phrase(1, 3)} and {phrase(1, 3)}\t{phrase(1, 2)} ; x\n"
            for _ in range(size)
        )
        yield "turn left\tturn ( left )\n" * size
    for size in (10, 60, 200, 500):
        yield "".join(
            f"{phrase(size, size)}\t{phrase(size, size)}\n" for _ in range(50)
        )
        yield f"go {'very ' * size}far\tgo ( {'f ( ' * size} x {') ' * size} )\n" * 3
        yield "".join(
            f'say {phrase(3, size)}\tsay ( text = " {phrase(3, size)} " )\n'
            for _ in range(80)
        )
        yield "".join(
            f'{n} {phrase(1, 4)}\t{{"name": "f{n}", "arguments": {{"a": {n}}}}}\n'
            for n in range(size)
        )
        yield f"{'x' * size * 1000}\t{'y' * size * 1000}\n" * 4
        yield "".join(
            f"{'词' * (n % size + 1)}\t{'词 ' * (n % size + 1)}\n" for n in range(60)
        )
    for text in (
        "\x1b]0;evil\x07",
        "\u202eabc",
        "NT_1",
        "NT_1 NT_2",
        "###",
        "[MASK]",
        "🏳️‍🌈 é",
    ):
        yield f"{text} now\tdo ( {text} )\n" * 2 + f"then {text}\tdo ( )\n"
    base = [f"{phrase(2, 6)}\tf ( {phrase(1, 3)} )" for _ in range(40)]
    while True:
        raw = bytearray("\n".join(base).encode())
        for _ in range(rng.choice((1, 20, 300))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        yield raw.decode(errors="surrogateescape")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Interrupted:
    """How a training ended that was interrupted: its last words, the CPU time and the time from Ctrl-C to the end."""

    said: str
    cpu: float
    waited: float
    megabytes: int

    def __str__(self) -> str:
        times = f"{self.cpu:6.2f} s of CPU time, {self.waited:.1f} s to the end"
        return f"{times} {self.megabytes:5} MB {self.said}"


def trains(text: str, folder: Path, seconds: float) -> Interrupted:
    """How a training ends that is interrupted after some CPU time."""
    train = folder / "train.tsv"
    train.write_text(text, errors="surrogateescape")
    command = [str(Path(sys.executable).parent / "nqg"), "train", str(train)]
    output = folder / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            [*command, "-o", str(folder / "model"), "--device", "cpu"],
            stdout=file,
            stderr=file,
        )
        asked = used = 0.0
        while (
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            is None
        ):
            if not asked and cpu_seconds(process.pid) > seconds:
                used = cpu_seconds(process.pid)
                process.send_signal(signal.SIGINT)
                asked = time.perf_counter()
            if asked and time.perf_counter() - asked > 60:
                process.kill()
            time.sleep(0.02)
        waited = time.perf_counter() - asked if asked else 0.0
        _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    said = output.read_text(errors="replace")
    process.returncode = code
    ended = "traceback" if "Traceback" in said else str(code)
    cpu = usage.ru_utime + usage.ru_stime - used if asked else 0.0
    return Interrupted(
        f"{ended}: {said[-200:]!r}", cpu, waited, usage.ru_maxrss // 1024
    )


def attack_training(seconds: float, first: int, files: int) -> Counter[str]:
    counts = Counter[str](tracebacks=0, over_5_s=0, over_1_s=0, over_500_mb=0)
    made = training_files(random.Random(40))
    slowest, most = Interrupted("", 0.0, 0.0, 0), 0
    for number, text in enumerate(islice(made, first, files), first):
        with tempfile.TemporaryDirectory() as folder:
            ended = trains(text, Path(folder), seconds)
        counts[f"exit code {ended.said.partition(':')[0]}"] += 1
        counts["files"] += 1
        counts["tracebacks"] += ended.said.startswith("traceback")
        counts["over_1_s"] += ended.cpu > 1
        counts["over_5_s"] += ended.cpu > 5
        counts["over_500_mb"] += ended.megabytes > 500
        slowest = max(slowest, ended, key=attrgetter("cpu"))
        most = max(most, ended.megabytes)
        print(number, ended, flush=True)
    print(f"slowest: {slowest}\nmost memory: {most} MB")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("databases", "training"))
    parser.add_argument(
        "--seconds", type=float, default=4, help="of CPU time until Ctrl-C"
    )
    parser.add_argument("--files", type=int, default=125)
    parser.add_argument("--first", type=int, default=0, help="leave out those before")
    options = parser.parse_args()
    # A shell has processes in the background ignore Ctrl-C, and so would what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.what == "databases":
        counts = attack_databases(options.first)
    else:
        counts = attack_training(options.seconds, options.first, options.files)
    print(
        ", ".join(
            f"{name.replace('_', ' ')}: {number}" for name, number in counts.items()
        )
    )


if __name__ == "__main__":
    main()
