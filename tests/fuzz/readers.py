"""Every reader of nqg: the file that it reads, valid contents of it, and what is done with what was read.

A case is the bytes of that file. Whatever they are, a reader gives back a value or raises an `NqgError`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import seeds
from nqg.data.dataset import read_split, split_text
from nqg.data.example_files import read_examples, write_examples
from nqg.data.scan import read_scan_file
from nqg.evaluation.active_learning import read_log_reversed
from nqg.evaluation.prediction_file import PredictionFile
from nqg.files import read_json
from nqg.grammar.grammar import Grammar
from nqg.induction.search_log import read_search_log, settings_in_comments
from nqg.induction.settings import InductionSettings
from nqg.model.call_reader import CallReader
from nqg.model.confidence import Calibrator, Evidence, RulePair
from nqg.model.settings import TrainingSettings
from nqg.paper.datasets import load_snips
from nqg.paper.download import Cache, RemoteFile
from nqg.paper.funql import expanded, original_text, parse_funql, spaced_text
from nqg.paper.geobase import read_geobase
from nqg.paper.geoquery import load_geoquery
from nqg.paper.recipe import read_recipe
from nqg.paper.records import records
from nqg.paper.spider import load_spider_xsp, nqg_examples, read_schemas
from nqg.paper.spider_parser import parse_query
from nqg.paper.sql_tree import sql_compounds
from nqg.paper.systems import read_answers
from nqg.pipeline.settings import TrainSettings
from nqg.seq2seq.settings import FineTuningSettings
from nqg.settings_reader import read_toml
from nqg.slots.fit import fit_slots
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import column_values, read_gazetteer, read_slots
from nqg.sql.database import Database
from nqg.sql.names import named_aliases, numbered_aliases, sql_problem
from nqg.sql.programs import SqlPrograms
from nqg.sql.schema import Schema, Table
from nqg.sql.sqlite_file import read_contents
from nqg.sql.tokens import sql_text, sql_tokens
from nqg.training.records import read_steps
from nqg.types.target_grammar import TargetGrammar


@dataclass(frozen=True)
class Reader:
    """How a file called `file` is read; `around` puts other files that the reader needs beside it."""

    file: str
    read: Callable[[Path], object]
    seeds: Callable[[], tuple[bytes, ...]]
    around: Callable[[Path], object] = field(default=lambda folder: None)

    def __call__(self, case: bytes, folder: Path) -> object:
        """Read a case, which is written to the folder first."""
        path = folder / self.file
        path.write_bytes(case)
        return self.read(path)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def _examples(path: Path) -> object:
    examples = read_examples(path)
    write_examples(path.with_name("again.jsonl"), examples)
    return examples


def _grammar(path: Path) -> object:
    grammar = Grammar.read(path, max_non_terminals=9)
    return grammar.rules and grammar.encoded, str(grammar), settings_in_comments(path)


def _target_grammar(path: Path) -> object:
    grammar = TargetGrammar.read(path)
    return str(grammar), grammar.unreachable


def _split(path: Path) -> object:
    return split_text(read_split(path, size=8))


def _calibrator(path: Path) -> object:
    calibrator = Calibrator.read(path, seeds.CALIBRATED)
    unseen = calibrator.pairs.unseen([RulePair(-1, 0, 2), RulePair(2, 0, 2)])
    found = calibrator.weights.confidence(Evidence(0.5, unseen=unseen))
    assert 0 <= found <= 1, found
    return str(calibrator)


def _call_reader(path: Path) -> object:
    reader = CallReader.read(path)
    words = ["dim", "the", "old", "den", "not", "the", "cellar"]
    readings = reader.readings(words, words, [], ())
    assert all(0 <= reading.probability <= 1 for reading in readings), readings
    return str(readings)


def _record(path: Path) -> object:
    return [
        (record.cell.key, record.is_stand_in, hash(record.cell))
        for record in records(path.parent)
    ]


def _recipe(path: Path) -> object:
    recipe = read_recipe(str(path))
    chosen = recipe.nqg.settings(TrainingSettings, "embedded", 0, "[nqg]")
    others = recipe.seq2seq.settings(
        FineTuningSettings, "flan-t5-small", 0, "[seq2seq]"
    )
    return (
        (chosen, others),
        recipe.fingerprint("hybrid", "embedded+flan-t5-small"),
        InductionSettings().changed(**recipe.induction),
    )


def _geoquery(path: Path) -> object:
    return load_geoquery(path, path.with_name("geobase"))


def _funql(path: Path) -> object:
    term = parse_funql(_text(path))
    return spaced_text(term), original_text(term), spaced_text(expanded(term))


def _sql(path: Path) -> object:
    text = _text(path)
    return sql_compounds(text), sql_text(sql_tokens(text))


SCHEMA = Schema(
    "pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid", "weight")))
)


def _sql_names(path: Path) -> object:
    query = _text(path)
    return sql_problem(query, SCHEMA), numbered_aliases(named_aliases(query))


def _sql_programs(path: Path) -> object:
    programs = SqlPrograms.read(path)
    query = "select T1.age from student as T1 where T1.stuid = 'x';"
    return (
        programs.render(programs.tokenize(query)),
        programs.problem(query),
        str(programs.target_grammar),
    )


def _spider_sql(path: Path) -> object:
    return parse_query(_text(path), SCHEMA)


def _spider(path: Path) -> object:
    train, dev = load_spider_xsp(path, path)
    return nqg_examples(train + dev)


def _archive(path: Path) -> object:
    """A member of a downloaded archive, which is taken as whole: it is its contents that are hostile."""
    archive = RemoteFile(path.name, "https://example.org/archive", by_hand=True)
    member = RemoteFile("mcd1.json", "https://example.org/archive", archive=archive)
    return Cache(path.parent).path_of(member)


def _packed_archive(path: Path) -> object:
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    return _archive(path)


SAID = tuple(seeds.SAID.split())


def _gazetteer(path: Path) -> object:
    return list(read_gazetteer(path).matches(SAID))


def _slots(path: Path) -> object:
    slots = fit_slots(
        [(SAID, ["fly", "(", "LH401", ")"])], read_slots(read_toml(path), path)
    )
    return slots.mentions(SAID), slots.to_dict()


def _stored_slots(path: Path) -> object:
    slots = SlotMatcher.from_dict(read_json(path), path.parent)
    return (
        slots.mentions(SAID),
        slots.to_dict(),
        [slots.text_value(SAID, name, 0, 2) for name in slots.free_text],
    )


def _database_column(path: Path) -> object:
    return list(column_values(path, "state.name").matches(SAID))


def _database_query(path: Path) -> object:
    query = "select state.name, count(*) from state join city on city.state = state.name group by state.name"
    return Database.open(path).run(query).to_dict()


def _texts(*texts: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(text.encode() for text in texts)


READERS: Mapping[str, Reader] = {
    "tsv": Reader("examples.tsv", _examples, _texts(seeds.TSV, seeds.SCRIPTS)),
    "tsv.gz": Reader(
        "examples.tsv.gz",
        _examples,
        lambda: (gzip.compress(seeds.TSV.encode(), mtime=0),),
    ),
    "jsonl": Reader("examples.jsonl", _examples, _texts(seeds.JSONL)),
    "grammar": Reader("grammar.txt", _grammar, _texts(seeds.GRAMMAR)),
    "target grammar": Reader(
        "target.grammar", _target_grammar, _texts(seeds.TARGET_GRAMMAR)
    ),
    "split": Reader("split.json", _split, _texts(*seeds.SPLITS)),
    "settings": Reader("nqg.toml", TrainSettings.read, _texts(seeds.SETTINGS)),
    "recipe": Reader("mine.toml", _recipe, _texts(seeds.RECIPE)),
    "record": Reader("records.jsonl", _record, _texts(seeds.RECORD)),
    "predictions.tsv": Reader(
        "predictions.tsv", PredictionFile.read, _texts(seeds.TSV)
    ),
    "predictions.jsonl": Reader(
        "predictions.jsonl", PredictionFile.read, _texts(seeds.PREDICTIONS)
    ),
    "log": Reader(
        "log.jsonl", lambda path: list(read_log_reversed(path)), _texts(seeds.LOG)
    ),
    "search log": Reader(
        "steps.jsonl", read_search_log, lambda: (seeds.search_log().encode(),)
    ),
    "training steps": Reader(
        "training.jsonl", read_steps, _texts(seeds.TRAINING_STEPS)
    ),
    "answers": Reader(
        "0.jsonl",
        lambda path: read_answers(path, seeds.EXAMPLES[:2]),
        _texts(seeds.ANSWERS),
    ),
    "calls": Reader("calls.json", _call_reader, _texts(seeds.CALLS)),
    "confidence": Reader("confidence.json", _calibrator, _texts(seeds.CALIBRATOR)),
    "geobase": Reader("geobase", read_geobase, _texts(seeds.GEOBASE)),
    "corpus": Reader(
        "corpus.xml",
        _geoquery,
        _texts(seeds.CORPUS),
        seeds.beside("geobase", seeds.GEOBASE),
    ),
    "gazetteer": Reader(
        "names.tsv", _gazetteer, _texts(seeds.GAZETTEER, seeds.SCRIPTS)
    ),
    "slots": Reader(
        "slots.toml",
        _slots,
        _texts(seeds.SLOTS),
        seeds.beside("cities.tsv", seeds.GAZETTEER),
    ),
    "stored slots": Reader("slots.json", _stored_slots, _texts(seeds.STORED_SLOTS)),
    "scan": Reader(
        "tasks.txt",
        read_scan_file,
        _texts("IN: jump twice OUT: I_JUMP I_JUMP\nIN: run OUT: I_RUN\n"),
    ),
    "snips": Reader("train_PlayMusic.json", load_snips, _texts(seeds.SNIPS)),
    "funql": Reader("program.txt", _funql, _texts(*seeds.FUNQL)),
    "sql": Reader("query.sql", _sql, _texts(*seeds.SQL)),
    "sql programs": Reader("sql.json", _sql_programs, lambda: (seeds.sql_programs(),)),
    "sql names": Reader("query.sql", _sql_names, _texts(*seeds.SQL)),
    "database": Reader(
        "geo.sqlite",
        lambda path: read_contents(str(path), 5),
        lambda: (seeds.database(),),
    ),
    "database column": Reader(
        "geo.sqlite", _database_column, lambda: (seeds.database(),)
    ),
    "database query": Reader(
        "geo.sqlite", _database_query, lambda: (seeds.database(),)
    ),
    "spider sql": Reader("query.sql", _spider_sql, _texts(*seeds.SQL)),
    "spider": Reader("train_spider.json", _spider, _texts(seeds.SPIDER)),
    "spider tables": Reader("tables.json", read_schemas, _texts(seeds.TABLES)),
    "archive": Reader("archive.tar.gz", _archive, lambda: (seeds.archive("gz"),)),
    "archive, packed": Reader(
        "archive.tar.gz", _packed_archive, lambda: (seeds.archive(""),)
    ),
}
