"""Tuned constants, one at a time, on held-out training examples of many datasets.

    python benchmarks/constants.py --mirror ../shared/data --jobs 16 --results FILE [--minutes 9]
    python benchmarks/constants.py --table --results FILE
    python benchmarks/constants.py --texts
    python benchmarks/constants.py --slips

Each dataset is divided twice: a random fifth of its training examples is held out, and the longest
fifth. With every value of a constant a parser learns the others as `nqg train` does, and answers the
held-out sentences. No test sentence is read. A constant that changes neither text nor types nor
grammar of a training leaves its parser as it is, so that nothing is trained again. The constants of
confidence are tried with the confidence stage, which trains folds: for them the table has what is
answered by default and how much of it is right.

Every figure is a line of the results file as soon as it is there; a run goes on from this file.

With --texts: the values of constants of text and slots at which the text of a training set is read in
another way; no parser is trained. With --slips: how many edits of a letter are taken for slips of a
keyword of JSON Schema, and how many other keywords of schemas are, by mistake.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nqg
from nqg import Example
from nqg.answers import exact_match
from nqg.evaluation.calibration import HeldOut, folds
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import train_parser
from nqg.pipeline.program_types import legal_programs, prepared_text
from nqg.pipeline.run import Run
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings
from nqg.pipeline.sources import read_source
from nqg.pipeline.task import TrainingInput, parser_task
from nqg.pipeline.train import TrainedReaders
from nqg.run_config import sha256
from nqg.training.parser_training import encoder_words
from nqg.types import tools
from real_use_datasets import DATASETS, EXAMPLES, Folder, Published

# What a constant decides: the rules that a parser has, how it is trained, how it answers, or how
# sure it is.
GRAMMAR, TRAINING, ANSWERS, CONFIDENCE = "grammar", "training", "answers", "confidence"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a module, what it decides, and the values that are tried beside its own."""

    module: str
    decides: str
    values: tuple[float, ...]

    def own_value(self, name: str) -> Any:
        return getattr(importlib.import_module(f"nqg.{self.module}"), name)


CONSTANTS = {
    # Text.
    "TOLERATED": Constant("text.sentences", GRAMMAR, (0.0, 0.003, 0.03, 0.1)),
    "FEWEST_ARGUMENTS": Constant("text.traces", GRAMMAR, (3, 30)),
    "FILLER_CHANCE": Constant("text.traces", GRAMMAR, (0.001, 0.1)),
    # Slots.
    "MIN_VALUES": Constant("slots.fit", GRAMMAR, (1, 3, 5)),
    "MIN_EXPLAINED": Constant("slots.fit", GRAMMAR, (0.25, 0.75, 0.9)),
    "PARTIAL_WEIGHT": Constant("slots.fit", GRAMMAR, (0.0, 0.5, 1.0)),
    "MIN_TEXTS": Constant("slots.fit", GRAMMAR, (2, 5, 10)),
    "MIN_UNSEEN_PROBABILITY": Constant("slots.fit", GRAMMAR, (0.3, 0.7, 0.9)),
    "MIN_SHARE_OF_NAMES": Constant("slots.fit", GRAMMAR, (0.25, 0.75)),
    "MAX_SHARE_OF_CAPITALS": Constant("slots.fit", GRAMMAR, (0.02, 0.3)),
    # Induction.
    "SMOOTHING": Constant("induction.probabilities", GRAMMAR, (0.1, 0.3, 3.0)),
    "MAX_REINSERTED": Constant("induction.search", GRAMMAR, (10, 30, 300)),
    "TRIAL_EXAMPLES": Constant("induction.tuning", GRAMMAR, (50, 150, 300)),
    "EVALUATIONS_AN_EXAMPLE": Constant("pipeline.grammar", GRAMMAR, (10, 30, 300)),
    "FRAMELESS_SHARE": Constant("induction.induce", GRAMMAR, (0.5, 0.9)),
    "STAGE_SHARE": Constant("induction.induce", GRAMMAR, (0.25, 0.75)),
    "FEWEST_CLAUSES": Constant("induction.extraction", GRAMMAR, (1, 3)),
    # The training of the parser.
    "MIN_WORD_COUNT": Constant("training.parser_training", GRAMMAR, (1, 2, 5)),
    "FREE_TEXT_WARM_UP": Constant("pipeline.task", GRAMMAR, (0, 30, 200)),
    "LEARNED_STEPS": Constant("training.trainer", TRAINING, (4, 64)),
    "WORD_SHARE": Constant("model.encoder", TRAINING, (1.0,)),
    "EXTRAPOLATED_POSITION_WEIGHT": Constant(
        "model.bert_config", TRAINING, (0.0, 0.1, 1.0)
    ),
    # Answers.
    "N_BEST": Constant("inference.decoding", ANSWERS, (1, 5, 10, 100)),
    "DERIVATIONS_PER_READING": Constant("inference.decoding", ANSWERS, (1, 2, 16)),
    # Confidence.
    "MOST_LOG_ODDS": Constant("model.confidence", CONFIDENCE, (4.0, 12.0)),
    "MOST_COUNTED": Constant("model.confidence", CONFIDENCE, (1, 5)),
    "CALIBRATION_FOLDS": Constant("evaluation.calibration", CONFIDENCE, (3, 10)),
    "TRIAL_FOLDS": Constant("evaluation.calibration", CONFIDENCE, (2, 10)),
    "ENOUGH_SENTENCES": Constant("pipeline.confidence", CONFIDENCE, (100, 150)),
    "MADE_SHARE": Constant("pipeline.confidence", CONFIDENCE, (0.0, 0.25, 1.0)),
}

KINDS = {"random": HeldOut.RANDOM, "longest": HeldOut.LENGTH}
# Without confidence, every sentence that has a derivation is answered.
ALL_ANSWERED, SURE_ANSWERED = "all", "sure"
SIZE = 300
PROJECTS = Path(__file__).parent / "projects"
SETS: dict[str, Folder | Published | str] = {
    **{name: DATASETS[name] for name in ("robot", "home-en", "home-de", "starter")},
    **{name: DATASETS[name] for name in ("ha-en", "ha-fr")},
    "tools": Folder("tools", "tools", EXAMPLES),
    **{name: Folder(name, name, PROJECTS) for name in ("farm", "gym", "clinica")},
    "snips-playmusic": "snips-playmusic",
    "snips-getweather": "snips-getweather",
    "geoquery": "geoquery",
    "scan": "scan",
    "cogs": "cogs",
    "cogs-original": "cogs-original",
}


@dataclass(frozen=True, slots=True)
class Job:
    """One division of a dataset, one value of one constant; without a name, today's values."""

    dataset: str
    kind: str
    answered: str
    name: str = ""
    value: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.dataset} {self.kind} {self.answered} {self.name} {self.value}"


@dataclass(frozen=True, slots=True)
class Figures:
    """How held-out sentences fared, and a digest of the text and rules that were learned.

    `is_same` says that the digest is that of today's values, so that nothing was trained.
    """

    held_out: int
    answered: int
    right: int
    seconds: float
    digest: str
    is_same: bool = False


@cache
def training_examples(
    dataset: str, mirror: Path
) -> tuple[list[Example], TrainSettings]:
    """At most `SIZE` training examples of a dataset, and the settings of its project."""
    source = SETS[dataset]
    settings = TrainSettings()
    if not isinstance(source, str):
        loaded = source.load(dataset, mirror, mirror)
        if loaded.settings:
            settings = TrainSettings.read(loaded.settings)
        return list(loaded.train)[: SIZE + SIZE // 2], settings
    if source.startswith("cogs"):
        folder = mirror / source.replace("-", "_")
        if source == "cogs":
            text = (folder / "train.tsv").read_text()
        else:
            with gzip.open(folder / "train.tsv.gz", "rt") as file:
                text = file.read()
        lines = text.splitlines()[: 2 * SIZE]
        return [Example(*line.split("\t")[:2]) for line in lines], settings
    from nqg.paper.datasets import load_dataset

    loaded_dataset = load_dataset(source, mirror)
    if source == "scan":
        rng = random.Random(0)
        return rng.sample(list(loaded_dataset.examples), SIZE), settings
    parts = loaded_dataset.parts("standard")
    return list(parts.train)[:440], settings


@contextmanager
def patched(name: str, value: float) -> Iterator[None]:
    """A constant with another value, wherever it was imported."""
    constant = CONSTANTS[name]
    own = constant.own_value(name)
    if isinstance(own, int):
        value = int(value)
    places = []
    for module_name, module in list(sys.modules.items()):
        is_ours = module_name.startswith("nqg.") and module is not None
        if is_ours and module.__dict__.get(name) == own:
            places.append(module)
    assert places, name
    try:
        for module in places:
            setattr(module, name, value)
        yield
    finally:
        for module in places:
            setattr(module, name, own)


def divided(
    dataset: str, kind: str, mirror: Path
) -> tuple[list[Example], list[Example], TrainSettings]:
    # The division itself must not depend on a constant that is varied.
    examples, settings = training_examples(dataset, mirror)
    parts = folds(examples, KINDS[kind], 5)[0].parts(examples)
    return list(parts.train), list(parts.test), settings


def measured(
    job: Job, mirror: Path, digest: str, baseline: Mapping[str, Any]
) -> dict[Job, Figures]:
    """Train and answer with today's values, or with another one of a constant.

    A parser with today's values answers with other values of what decides answers, too.
    """
    import torch

    torch.set_num_threads(1)
    # Load what is imported late, so that constants can be changed everywhere.
    for constant in CONSTANTS.values():
        importlib.import_module(f"nqg.{constant.module}")
    train, test, settings = divided(job.dataset, job.kind, mirror)
    begun = time.process_time()
    if job.name:
        with patched(job.name, job.value):
            system, learned = trained(job, train, settings, digest)
            if system is None:
                seconds = time.process_time() - begun
                right, answered = baseline["right"], baseline["answered"]
                same = Figures(len(test), answered, right, seconds, learned, True)
                return {job: same}
            figures = fared(system, test)
        seconds = time.process_time() - begun
        return {job: replace(figures, seconds=seconds, digest=learned)}
    system, learned = trained(job, train, settings, "")
    figures = fared(system, test)
    seconds = time.process_time() - begun
    found = {job: replace(figures, seconds=seconds, digest=learned)}
    if job.answered == ALL_ANSWERED:
        for name, constant in CONSTANTS.items():
            if constant.decides != ANSWERS:
                continue
            own = constant.own_value(name)
            for value in (own, *constant.values):
                with patched(name, value):
                    found[replace(job, name=name, value=value)] = fared(system, test)
    return found


def trained(
    job: Job, train: Sequence[Example], settings: TrainSettings, same_digest: str
) -> tuple[Any, str]:
    """The stages of `nqg.train`, and a digest of what the parser learns from; None where this is
    as before.
    """
    if job.answered == SURE_ANSWERED:
        return nqg.train(train, settings=settings, device="cpu"), ""
    settings = replace(settings, confidence=ConfidenceSettings(folds=0))
    run = Run(device="cpu")
    inputs = TrainingInput(train=read_source(train))
    inputs, text = prepared_text(inputs, settings, run)
    legal = legal_programs(inputs, text, settings, run)
    text = legal.text
    task = parser_task(inputs, text, legal.grammar, legal.examples, settings, run)
    grammar, induction = learn_grammar(task, run)
    with_values = grammar
    if task.values:
        with_values = replace(grammar, slots=task.values.slots)
    words = encoder_words(with_values.typed_by(task.target_grammar), task.examples)
    learned = [text.preprocessor, task.examples, grammar, task.target_grammar]
    digest = sha256(
        f"{learned}{task.training}{task.model}{list(map(sorted_text, words))}"
    )
    is_grammar = job.name and CONSTANTS[job.name].decides == GRAMMAR
    if is_grammar and digest == same_digest:
        return None, digest
    task = replace(task, rules=induction or grammar)
    readers = TrainedReaders(task, train_parser(task, grammar, run), None, legal)
    return readers.system(readers.model), digest


def sorted_text(words: Any) -> str:
    """Sets have no order that could be compared as text."""
    return str(sorted(words) if isinstance(words, set) else words)


def fared(system: Any, test: Sequence[Example]) -> Figures:
    begun = time.process_time()
    answered = right = 0
    answers = system.answers([example.source for example in test])
    for answer, example in zip(answers, test):
        answered += answer.target is not None
        right += exact_match(answer.target, example.target)
    return Figures(len(test), answered, right, time.process_time() - begun, "")


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["key"]: row for row in rows}


def run_jobs(
    jobs: Sequence[Job], chosen: argparse.Namespace, ends: float
) -> dict[str, dict[str, Any]]:
    """Measure what the results file lacks, in processes, until the time is over."""
    results = read_results(chosen.results)
    waiting = [job for job in jobs if job.key not in results]
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(chosen.jobs, mp_context=context) as pool,
        chosen.results.open("a") as file,
    ):
        futures = {}
        for job in waiting:
            baseline = results.get(replace(job, name="", value=0.0).key, {})
            if job.name and not baseline:
                continue
            future = pool.submit(
                measured, job, chosen.mirror, baseline.get("digest", ""), baseline
            )
            futures[future] = job
        try:
            for future in as_completed(futures, timeout=max(ends - time.time(), 1)):
                job = futures[future]
                if future.exception():
                    print(f"{job.key}: {future.exception()!r}", flush=True)
                    continue
                for found, figures in future.result().items():
                    row = {"key": found.key, "job": asdict(found), **asdict(figures)}
                    results[found.key] = row
                    file.write(json.dumps(row) + "\n")
                file.flush()
        except TimeoutError:
            print(f"time is over; {len(waiting)} jobs were wanted", flush=True)
            # What still runs is given up; the results file has the rest.
            for process in list(pool._processes.values()):
                process.kill()
    return results


def print_table(results: Mapping[str, Mapping[str, Any]]) -> None:
    """A row for each constant: right of held-out, and CPU seconds, for each of its values."""
    rows = defaultdict(list)
    for row in results.values():
        rows[row["job"]["name"], row["job"]["value"]].append(row)
    print("| constant | divisions | value: right, CPU seconds | that changed |")
    print("|---|--:|---|--:|")
    for name, constant in CONSTANTS.items():
        cells, divisions, changed = [], set[str](), set[str]()
        values = sorted({value for other, value in rows if other == name})
        if not values:
            continue
        # Only divisions that were measured with all values are compared.
        common = None
        for value in values:
            keys = {base_key(row) for row in rows[name, value]}
            common = keys if common is None else common & keys
        divisions = common or set()
        own = float(constant.own_value(name))
        for value in sorted({*values, own}):
            chosen = []
            for key in sorted(divisions):
                base = results[key]
                row = base
                if value != own or constant.decides == ANSWERS:
                    job = replace(Job(**base["job"]), name=name, value=value)
                    row = results[job.key]
                    if (row["right"], row["answered"]) != (
                        base["right"],
                        base["answered"],
                    ):
                        changed.add(key)
                chosen.append(row)
            cells.append(cell(value, own, chosen, constant.decides))
        print(f"| `{name}` | {len(divisions)} | {' · '.join(cells)} | {len(changed)} |")


def fitted_text(dataset: str, mirror: Path) -> str:
    """How the text of a training set is read, and the examples so read."""
    examples, settings = training_examples(dataset, mirror)
    inputs = TrainingInput(train=read_source(examples))
    _, text = prepared_text(inputs, settings, Run(device="cpu"))
    return f"{text.preprocessor}{text.examples}"


def print_texts(names: Sequence[str], datasets: Sequence[str], mirror: Path) -> None:
    """A row for each constant: the values that change a text, and of which training sets."""
    texts = {dataset: fitted_text(dataset, mirror) for dataset in datasets}
    print(
        f"| constant | value | of {len(texts)} training sets, these are read otherwise |"
    )
    print("|---|--:|---|")
    for name in names:
        constant = CONSTANTS[name]
        if not constant.module.startswith(("text.", "slots.")):
            continue
        for value in constant.values:
            with patched(name, value):
                changed = []
                for dataset, text in texts.items():
                    if fitted_text(dataset, mirror) != text:
                        changed.append(dataset)
            print(f"| `{name}` | {value:g} | {', '.join(changed)} |", flush=True)


SLIPS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
# Keywords of JSON Schema, of OpenAPI and of editors that nqg does not read.
OTHER_KEYWORDS = """
    title example examples deprecated readOnly writeOnly $comment $schema $id $anchor $dynamicRef $dynamicAnchor
    $vocabulary contentEncoding contentMediaType contentSchema dependentSchemas dependentRequired unevaluatedItems
    unevaluatedProperties propertyNames patternProperties contains minContains maxContains prefixItems additionalItems
    if then else not discriminator xml externalDocs strict cache_control name function input_schema inputSchema
    outputSchema annotations icons x-order x-enum-descriptions markdownDescription enumDescriptions enumNames
    errorMessage defaultSnippets doNotSuggest suggestSortText ui:widget unit units format_hint
"""


def edited(word: str) -> Iterator[str]:
    """A word without a letter, with one doubled or another, and with two exchanged."""
    for at, letter in enumerate(word):
        before, after = word[:at], word[at + 1 :]
        yield before + after
        yield before + letter + letter + after
        yield before + ("a" if letter == "e" else "e") + after
        if after:
            yield before + after[0] + letter + after[1:]


def print_slips() -> None:
    known = set(tools._ATTRIBUTES)
    others = set(OTHER_KEYWORDS.split()) - known
    slips = {slip for word in known for slip in edited(word)} - known
    print("| alike | edits found | other keywords taken for slips |")
    print("|--:|--:|--:|")
    for cutoff in SLIPS:
        counts = []
        for words in (sorted(slips), sorted(others)):
            matches = [get_close_matches(word, known, 1, cutoff) for word in words]
            counts.append(f"{len(list(filter(None, matches)))} of {len(words)}")
        print(f"| {cutoff} | {' | '.join(counts)} |")


def base_key(row: Mapping[str, Any]) -> str:
    return replace(Job(**row["job"]), name="", value=0.0).key


def cell(
    value: float, own: float, rows: Sequence[Mapping[str, Any]], decides: str
) -> str:
    right = sum(row["right"] for row in rows)
    answered = sum(row["answered"] for row in rows)
    total = sum(row["held_out"] for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    name = f"**{value:g}**" if value == own else f"{value:g}"
    if decides == CONFIDENCE:
        return f"{name}: {right} of {answered} answered of {total}, {seconds:.0f} s"
    return f"{name}: {right} of {total}, {seconds:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", type=Path, default=Path("../shared/data"))
    parser.add_argument("--results", type=Path, default=Path("constants.jsonl"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--constants", nargs="+", default=list(CONSTANTS))
    parser.add_argument("--datasets", nargs="+", default=list(SETS))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--slips", action="store_true")
    chosen = parser.parse_args()
    if chosen.texts:
        print_texts(chosen.constants, chosen.datasets, chosen.mirror)
        return
    if chosen.slips:
        print_slips()
        return
    if chosen.table:
        print_table(read_results(chosen.results))
        return
    ends = time.time() + 60 * chosen.minutes
    baselines, variants = [], []
    for name in chosen.constants:
        answered = ALL_ANSWERED
        if CONSTANTS[name].decides == CONFIDENCE:
            answered = SURE_ANSWERED
        for dataset in chosen.datasets:
            for kind in KINDS:
                job = Job(dataset, kind, answered)
                if answered == SURE_ANSWERED and kind != "random":
                    continue
                baselines.append(job)
                # Answers with other values come with the baseline.
                if CONSTANTS[name].decides == ANSWERS:
                    continue
                values = CONSTANTS[name].values
                variants += [replace(job, name=name, value=value) for value in values]
    run_jobs(list(dict.fromkeys(baselines)), chosen, ends)
    print_table(run_jobs(variants, chosen, ends))


if __name__ == "__main__":
    main()
