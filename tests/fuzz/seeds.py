"""Small valid files of every kind, to be damaged."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import cache
from pathlib import Path

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.model.call_reader import ArgumentUse, CallForm, CallReader, FunctionUse
from nqg.model.confidence import (
    PRIORS,
    Calibrator,
    Expectation,
    KnownContexts,
    RulePairs,
    WordPairs,
)
from nqg.model.free_text import KnownTexts

EXAMPLES = [
    Example("jump twice", "J J"),
    Example("run", "R"),
    Example("run twice", "R R"),
    Example("jump", "J"),
]
TSV = "".join(f"{example.source}\t{example.target}\n" for example in EXAMPLES)
SCRIPTS = "كم ولاية\tanswer ( count ( state ) )\n多少 个 州\tcount\n🏳️‍🌈 e\u0301 \u202eabc\u202c\tX\r\n"
JSONL = '{"id": "1", "source": "jump", "target": "J"}\n{"source": "run \\u00e9", "target": "R R"}\n'
PREDICTIONS = '{"source": "jump", "prediction": "J"}\n{"source": "run", "target": null, "probability": 0.5}\n'
LOG = '{"source": "jump", "target": "J", "confidence": 0.9, "reason": ""}\n{"source": "é", "target": null}\n'
GRAMMAR = (
    '# settings: {"terminal_bits": 8.0}\n'
    "jump ### J\nNT_1 twice ### NT_1 NT_1\nNT_1 \\NT_1 NT_2 ### NT_2 \\### NT_1\n"
)
TARGET_GRAMMAR = (
    "# legal programs\n<query> ::= answer ( <set> )\n"
    "<set> ::= state | next ( <set> ) | id ( ' <...> ' , <.> )\n"
)
SPLITS = (
    '{"made_by": {"method": "random", "seed": 7}, "train": [0, 2, 4], "dev": [3], "test": [1, 5]}',
    '{"train": [0, 1],\n "test": [2]}',
    '{"trainIdxs": [0, 1, 2], "devIdxs": [4], "testIdxs": [3]}',
)
SETTINGS = """\
[induction]
terminal_bits = 8.0
shortest = 500
factoring = true
[model]
encoder = "embedded"
dimension = 256
[model.embedded]
hidden_size = 128
heads = 4
[training]
steps = 256
learning_rate = 1e-3
precision = "auto"
"""
RECIPE = """\
dataset = "geoquery"
split = "tmcd"
metric = "exact"
systems = ["nqg", "seq2seq", "hybrid"]
random_train_size = 440
[induction]
terminal_bits = 16.0
[nqg]
encoder = "bert-base-uncased"
offline = "embedded"
steps = 64
[seq2seq]
model = "t5-base"
[seq2seq.other.flan-t5-small]
learning_rate = 0.001
[paper.accuracy]
"Syntactic Attn." = 0.0
[paper.nqg]
coverage = 43.7
"""
RECORD = json.dumps(
    {
        "kind": "nqg result",
        "version": 1,
        "cell": {
            "recipe": "geoquery-tmcd",
            "system": "nqg",
            "weights": "embedded",
            "seed": 0,
        },
        "figures": {"accuracy": 0.5, "precision": None},
        "asked": "bert-base-uncased",
        "fingerprint": "0" * 64,
        "data": "f" * 64,
        "settings": {"steps": 256},
        "seconds": {"training": 1.5},
        "versions": {"nqg": "0.1.0"},
        "commit": "unknown",
        "hardware": "unknown",
        "date": "2025-01-01",
    }
)
TRAINING_STEPS = """\
{"step": 1, "loss": 2.5, "learning_rate": 0.001}
{"step": 2, "loss": 1.25, "learning_rate": 0.0005, "dev_exact_match": 0.5, "dev_loss": 1.5}
"""
ANSWERS = """\
{"source": "jump twice", "reference": "J J", "target": "J J", "by": "nqg", "probability": 0.75, "reason": ""}
{"source": "run", "reference": "R", "target": null, "by": "nqg", "probability": null, "reason": "no derivation"}
"""
CALIBRATED = Grammar.parse("jump ### J\nrun ### R\nNT_1 twice ### NT_1 NT_1")
CALIBRATOR = json.dumps(
    asdict(
        Calibrator(
            PRIORS[True],
            RulePairs(((-1, 0, 0, 2), (-1, 0, 2, 3), (2, 0, 0, 2), (2, 0, 1, 1))),
            threshold=0.75,
            least_precision=0.95,
            expected=Expectation(8, 7, 6),
            contexts=KnownContexts((("at", "time", 3),)),
            texts=KnownTexts((("play", "song"),), (("song", 4),), (), ("play",)),
            words=WordPairs((("jump", "twice", 1),)),
            vocabulary=("jump", "run", "twice"),
            has_seq2seq=True,
        )
    )
)
CALLS = json.dumps(
    asdict(
        CallReader(
            (
                CallForm("dim", {}, 2, {"dim": 2, "the": 2}),
                CallForm("dim", {"level": "0"}, 1, {"darken": 1}),
            ),
            {
                "room": ArgumentUse(
                    {"name": 1},
                    {"den": {'" den "': 1}, "wine cellar": {'" wine cellar "': 1}},
                    {"the": 2},
                    {"</s>": 2},
                    {"1": 1, "2": 1},
                    '"',
                    verbatim=2,
                )
            },
            {"dim": FunctionUse(3, ("room", "level"), {"room": 3})},
        )
    )
)
GEOBASE = """\
/* facts */
state('ohio','oh','columbus',10800e3,41.3e3,17,'cleveland','columbus','cincinnati','toledo').
city('ohio','oh','dayton',203371).
river('red',1638,['new mexico','texas']). % a comment
border('ohio','oh',['michigan','indiana']).
highlow('ohio','oh','campbell hill',472,'ohio river',132).
mountain('alaska','ak','mckinley',6194).
road('66',['ohio','texas']).
lake('erie',25667,['ohio']).
country('usa',307890000,9826675).
"""
CORPUS = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE examples SYSTEM "examples.dtd">
<examples>
<example id="0">
<nl lang="en">
what rivers run through ohio ?
</nl>
<mrl lang="geo-funql">
answer(river(traverse_2(stateid('ohio'))))
</mrl>
</example>
<example id="1"><nl lang="en">how many states &amp; cities</nl>
<mrl lang="geo-funql">answer(count(state(all)))</mrl></example>
</examples>
"""
SAID = "flight LH401 to new york at half past six tomorrow for 20 minutes , ' no ' , the 3rd"
GAZETTEER = "New York\tnyc\nBig Apple\tnyc\nOslo\n"
SLOTS = """\
time = "time"
alarm = { kind = "time", form = "{h24:02}:{m:02}" }
flight = { regex = "([A-Z]{2}) ?[0-9]{3,4}" }
city = { gazetteer = "cities.tsv" }
song = { text = 8 }
"""
STORED_SLOTS = json.dumps(
    {
        "language": "de",
        "slots": [
            {
                "name": "time",
                "kind": "time",
                "forms": ["{h12}:{m:02}{ am}", "{verbatim}"],
                "quote": '"',
            },
            {
                "name": "flight",
                "kind": "regex",
                "forms": ["{lower}"],
                "expression": "[A-Z]{2}[0-9]+",
            },
            {"name": "song", "kind": "text", "forms": ["{verbatim}"], "length": 3},
        ],
    }
)
SNIPS = json.dumps(
    {
        "PlayMusic": [
            {"data": [{"text": "play "}, {"text": "jude", "entity": "track"}]},
            {"data": [{"text": "stop"}]},
        ]
    }
)
FUNQL = (
    "answer(largest_one(density_1(city(loc_2(stateid('ohio'))))))",
    "answer ( exclude ( state ( all ) , next_to_2 ( cityid ( 'st. john''s' , _ ) ) ) )",
    "answer(most(state(loc_1(river(all)))), m0, -12.5)",
)
SQL = (
    "select count(*) , t1.age from student as t1 join pets as t2 on t1.stuid = t2.petid where t2.weight >= -1.5",
    "select age from student where age in (select max(age) from student) and age not like '%St. John%' limit 3;",
    "select age from student group by age having count(*) > 1 order by age desc union select weight from pets",
)
SPIDER = json.dumps(
    [
        {
            "db_id": "pets_1",
            "question": "How old is the dog?",
            "query": "SELECT age FROM student",
        },
        {
            "db_id": "pets_1",
            "question": "Which weigh 3.5?",
            "query": "SELECT * FROM pets WHERE name = 'a b'",
            "x": [],
        },
    ]
)
TABLES = json.dumps(
    [
        {
            "db_id": "Pets_1",
            "table_names_original": ["Student", "Pets"],
            "column_names_original": [[-1, "*"], [0, "StuID"], [1, "PetID"]],
            "foreign_keys": [[2, 1]],
        }
    ]
)


@cache
def search_log() -> str:
    """The log of a small search."""
    from nqg.induction.induce import Induction
    from nqg.induction.search_log import StepRecord
    from nqg.induction.settings import InductionSettings

    induction = Induction(EXAMPLES, InductionSettings.named("scan"))
    beginning = StepRecord.of_beginning(induction)
    steps = [
        StepRecord.of_step(number, step, 0.5)
        for number, step in enumerate(induction.steps(), start=1)
    ]
    return "".join(record.line() for record in (beginning, *steps))


@cache
def sql_programs() -> bytes:
    """How queries over a schema are spelled."""
    from nqg.sql.programs import SqlPrograms
    from nqg.sql.schema import Schema, Table

    schema = Schema(
        "pets_1",
        (Table("student", ("stuid", "age")), Table("pets", ("petid", "weight"))),
    )
    queries = [
        "SELECT T1.age FROM student AS T1;",
        'SELECT weight FROM pets WHERE petid = "a"',
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sql.json"
        SqlPrograms.fit(schema, queries).write(path)
        return path.read_bytes()


def database() -> bytes:
    """A SQLite database with two tables."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table state (name text primary key, area double)")
        connection.execute(
            "create table city (name text, state text references state (name))"
        )
        connection.executemany(
            "insert into state values (?, ?)",
            [("ohio", 107.0), ("iowa", None), (b"\xff", 1)],
        )
        connection.execute("insert into city values ('dayton', 'ohio')")
        return connection.serialize()


def archive(compression: str) -> bytes:
    """An archive with the indices of a split in it."""
    raw, content = io.BytesIO(), SPLITS[2].encode()
    with tarfile.open(fileobj=raw, mode=f"w:{compression}") as tar:  # type: ignore[call-overload]
        for name in ("splits/readme.txt", "splits/mcd1.json"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return raw.getvalue()


def beside(name: str, text: str) -> Callable[[Path], object]:
    """What writes another file that a reader needs."""
    return lambda folder: (folder / name).write_text(text)
