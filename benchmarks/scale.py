"""Growth from a thousand to a million SCAN-like pairs: splits, induction, training, parsing.

    python benchmarks/scale.py FOLDER [SIZE…]

FOLDER keeps the corpora and the model (300 MB for a million pairs). Every measurement is a process of
its own, so that its peak of memory is its own; what workers take is added up. CPU seconds are those of all processes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nqg.data.example import Example
from nqg.data.scan import scan_examples
from nqg.training.parser_training import ParserTraining
from timing import peak_megabytes

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SIMPLE = 102  # commands of SCAN without a conjunction; they come first
CONJUNCTIONS = (
    ("and", False),
    ("after", True),
)  # the word, and whether what stands behind it comes first
STEPS = 8


def scan_like(count: int, seed: int = 0) -> Iterator[Example]:
    """Distinct commands, shuffled: all of SCAN without a conjunction, a fifth with one, the rest with two.

    SCAN has none with two; there are 4.2 million of them, in which the first two commands belong together.
    """
    rng, commands = random.Random(seed), scan_examples()
    simple, compound = commands[:SIMPLE], commands[SIMPLE:]
    drawn = rng.sample(compound, min(count // 5, len(compound)))
    deeper = rng.sample(
        range(len(compound) * SIMPLE * len(CONJUNCTIONS)), count - SIMPLE - len(drawn)
    )
    order = rng.sample(range(count), count)
    for number in order:
        if number < SIMPLE + len(drawn):
            yield simple[number] if number < SIMPLE else drawn[number - SIMPLE]
        else:
            rest, conjunction = divmod(
                deeper[number - SIMPLE - len(drawn)], len(CONJUNCTIONS)
            )
            yield _joined(
                compound[rest // SIMPLE],
                *CONJUNCTIONS[conjunction],
                simple[rest % SIMPLE],
            )


def _joined(first: Example, word: str, is_reversed: bool, second: Example) -> Example:
    targets = (
        (second.target, first.target) if is_reversed else (first.target, second.target)
    )
    return Example(f"{first.source} {word} {second.source}", " ".join(targets))


class Place(NamedTuple):
    """The folder of a benchmark, and the size that is measured in it."""

    folder: Path
    size: int

    @property
    def corpus(self) -> Path:
        return self.folder / f"{self.size}.tsv"

    @property
    def grammar(self) -> Path:
        return self.folder / "grammar.txt"

    @property
    def model(self) -> Path:
        return self.folder / "model"


def corpus(place: Place) -> dict[str, Any]:
    with place.corpus.open("w") as file:
        for example in scan_like(place.size):
            file.write(f"{example.source}\t{example.target}\n")
    return {"MB": place.corpus.stat().st_size / 1e6}


def random_split_of(place: Place) -> dict[str, Any]:
    from nqg.data.example_files import read_examples
    from nqg.splits.partition import random_split, sizes_for

    examples = read_examples(place.corpus)
    return timed(
        lambda: random_split(examples, sizes_for(len(examples)), random.Random(0))
    )


def length_split_of(place: Place) -> dict[str, Any]:
    from nqg.data.example_files import read_examples
    from nqg.splits.partition import length_split, sizes_for

    examples = read_examples(place.corpus)
    return timed(lambda: length_split(examples, sizes_for(len(examples))))


def induction(place: Place) -> dict[str, Any]:
    """The paper's recipe: the 500 shortest, and a rule for each of the others that is not derivable then."""
    from nqg.data.example_files import read_examples
    from nqg.induction.induce import induce
    from nqg.induction.settings import InductionSettings

    settings = InductionSettings.named("scan").changed(stages=8)
    induce(
        [Example("jump", "J"), Example("jump twice", "J J")], settings
    )  # compiles, or loads, the kernels
    grammars = []
    found = timed(
        lambda: grammars.append(induce(read_examples(place.corpus), settings))
    )
    grammars[0].write(place.grammar)
    return {**found, "rules": len(grammars[0])}


def training(place: Place) -> dict[str, Any]:
    """Training as `nqg train` does it: pairs, forests and tables in memory."""
    from nqg.data.example_files import read_examples
    from nqg.grammar.grammar import Grammar
    from nqg.inference.parser import Parser
    from nqg.model.forests import TrainingForests
    from nqg.model.settings import TrainingSettings

    examples, grammar = read_examples(place.corpus), Grammar.read(place.grammar)
    TrainingForests.of(grammar, examples[:10])  # compiles, or loads, the kernels
    begin = time.process_time()
    forests = TrainingForests.of(grammar, examples)
    built = time.process_time() - begin
    settings = TrainingSettings(steps=STEPS + 1)
    training = ParserTraining(
        grammar, examples, Parser, forests=forests, training=settings, device="cpu"
    )
    prepared = time.process_time() - begin
    steps = training.steps()
    next(steps)
    found = timed(lambda: list(islice(steps, STEPS)))
    if not place.model.exists():
        Parser(training.model).save(place.model)
    step = 1000 * found["CPU s"] / STEPS
    megabytes = forests.kept.nbytes / 1e6 if forests.kept else 0.0
    sizes = {"forests, MB": megabytes, "CPU s of forests": built}
    return {**found, **sizes, "CPU ms a step": step, "CPU s before": prepared}


def parsing(place: Place, workers: int) -> dict[str, Any]:
    """`nqg parse` without its printing; the first part, in which workers load the model, is left out of the speed."""
    from nqg.cli.parse import Sentence
    from nqg.data.example_files import streamed_examples
    from nqg.inference.parser import WINDOW
    from nqg.parallel import Engine, in_chunks

    if place.size < 8 * WINDOW:
        return {}  # too few for workers to be busy
    asked = (Sentence(example.source) for example in streamed_examples(place.corpus))
    reports = Engine("local", workers).map(
        partial(measured_answering, place.model), in_chunks(asked, WINDOW)
    )
    latest: dict[int, Report] = {}
    for report in islice(reports, workers):
        latest[report.worker] = report
    begun, loading = (
        time.perf_counter(),
        sum(report.cpu_seconds for report in latest.values()),
    )
    sentences = 0
    for report in reports:
        sentences += report.sentences
        latest[report.worker] = report
    seconds = time.perf_counter() - begun
    cpu = sum(report.cpu_seconds for report in latest.values()) - loading
    peak = sum(report.peak for report in latest.values()) + (
        peak_megabytes() if workers > 1 else 0
    )
    return {
        "CPU s": cpu,
        "s": seconds,
        "peak MB": peak,
        "a CPU second": sentences / cpu,
        "a second": sentences / seconds,
    }


class Report(NamedTuple):
    """What a worker says of a part: how many sentences, and what it has taken so far."""

    worker: int
    sentences: int
    cpu_seconds: float
    peak: float


def measured_answering(model: Path) -> Callable[[Sequence[Any]], Report]:
    import os

    from nqg.cli.parse import ParseOptions, answering

    work = answering(ParseOptions(model=model, device="cpu"))
    return lambda part: Report(
        os.getpid(), len(work(part)), time.process_time(), peak_megabytes()
    )


def timed(work: Callable[[], object]) -> dict[str, Any]:
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "CPU s": time.process_time() - cpu,
        "s": time.perf_counter() - begun,
        "peak MB": peak_megabytes(),
    }


MEASUREMENTS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "corpus": corpus,
    "random split": random_split_of,
    "length split": length_split_of,
    "induction": induction,
    "training": training,
    "parsing": partial(parsing, workers=1),
    "parsing, 2 workers": partial(parsing, workers=2),
}


def measured(name: str, folder: Path, size: int) -> dict[str, Any]:
    """A measurement, in a process of its own."""
    command = [sys.executable, __file__, str(folder), "--one", name, str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    folder, *words = sys.argv[1:]
    if words[:1] == ["--one"]:
        print(json.dumps(MEASUREMENTS[words[1]](Place(Path(folder), int(words[2])))))
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    for size in map(int, words) if words else SIZES:
        for name in MEASUREMENTS:
            found = measured(name, Path(folder), size)
            facts = ", ".join(f"{fact} {value:,.2f}" for fact, value in found.items())
            print(f"{size:9,} {name:20} {facts}", flush=True)


if __name__ == "__main__":
    main()
