"""How right, how precise and how silent systems are on people's own sentences.

python benchmarks/real_use.py --mirror ../shared/data --predictions real_use \
    --seq2seq FLAN_T5_SMALL --causal SMOLLM2 [--datasets NAME …] [--systems NAME …] [--jobs 4]

Every dataset and system is a process of its own, whose predictions are lines of JSON in the folder;
what is there already is not computed again. `--table` prints the tables of what is there. The sets
are described in docs/real-use.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from itertools import product
from pathlib import Path

from nqg import Example, NqgError, exact_match
from nqg.files import write_text
from real_use_datasets import (
    COMPOUND,
    DATASETS,
    OTHER_DOMAIN,
    SPLICE,
    TEST,
    Question,
    RealDataset,
    checked_names,
    compounds,
    held_out_questions,
    is_right_compound,
    load_datasets,
    other_domains,
    splices,
)
from real_use_hassil import is_same_call
from real_use_systems import (
    DEFAULT_SYSTEMS,
    SYSTEMS,
    Asked,
    Resources,
    Trained,
    suits,
)
from timing import peak_megabytes

SURE = 0.9  # confidence of an answer that a user would not doubt
VERSIONS = ("nqg", "torch", "transformers", "hassil", "home-assistant-intents")
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a training took."""

    cpu_seconds: float
    wall_seconds: float
    peak_megabytes: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question and what a system says of it."""

    question: Question
    asked: Asked

    def line(self) -> str:
        values = {**asdict(self.question), **asdict(self.asked)}
        return json.dumps(values, ensure_ascii=False)

    @classmethod
    def parse(cls, line: str) -> Prediction:
        values = json.loads(line)
        question = {each.name: values.pop(each.name) for each in fields(Question)}
        return cls(Question(**question), Asked(**values))


@dataclass(frozen=True, slots=True)
class Predictions:
    """All predictions of a system for a dataset, and how they came about."""

    dataset: str
    system: str
    predictions: tuple[Prediction, ...]
    threshold: float | None = None
    cost: Cost | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def path(folder: Path, dataset: str, system: str) -> Path:
        return folder / dataset / f"{system}.jsonl"

    def write(self, folder: Path) -> None:
        """The first line says how the predictions came about, each other line is one of them."""
        head = asdict(self)
        del head["predictions"]
        lines = [json.dumps(head), *(each.line() for each in self.predictions)]
        path = self.path(folder, self.dataset, self.system)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(f"{line}\n" for line in lines))

    @classmethod
    def read(cls, path: Path) -> Predictions:
        head, *lines = path.read_text("utf-8").splitlines()
        values = json.loads(head)
        cost = values.pop("cost")
        return cls(
            **values,
            predictions=tuple(map(Prediction.parse, lines)),
            cost=Cost(**cost) if cost else None,
        )

    def of_kind(self, kind: str) -> list[Prediction]:
        return [each for each in self.predictions if each.question.kind == kind]


def is_right(system: str, target: str | None, question: Question) -> bool:
    """Whether a program is that of the question: exactly, but hassil has an order of its own."""
    if question.reference is None:
        return False
    if question.kind == COMPOUND:
        return is_right_compound(target, question.reference)
    if system == "hassil":
        return is_same_call(target, question.reference)
    return exact_match(target, question.reference)


@dataclass(frozen=True, slots=True)
class Silence:
    """Sentences without a right program: how many were asked, answered, and answered surely."""

    asked: int
    answered: int
    sure: int

    def __str__(self) -> str:
        if not self.asked:
            return NOTHING
        return f"{self.answered}, {self.sure} of {self.asked}"


@dataclass(frozen=True, slots=True)
class Measures:
    """What the tables say of a system and a dataset.

    `right` are those when all is answered. `answered` and `precise` (right of answered) are by
    default. `mean_confidence` counts an abstention as 0, so that it can be compared with the share
    right. `threshold` is nothing where answers below it are given. `agreed` and `right_agreed` are
    those of two readers with the same program.
    """

    dataset: str
    system: str
    sentences: int
    right: int
    answered: int
    precise: int
    mean_confidence: float | None
    threshold: float | None
    agreed: int | None
    right_agreed: int | None
    other_domains: Silence
    splices: Silence
    compounds: tuple[int, int]
    cost: Cost | None
    readers: Mapping[str, int]

    @classmethod
    def of(cls, found: Predictions) -> Measures:
        """The measures of all predictions of a system for a dataset."""
        system, tests = found.system, found.of_kind(TEST)
        right = answered = precise = 0
        confidences: list[float] = []
        for prediction in tests:
            asked, question = prediction.asked, prediction.question
            right += is_right(system, asked.forced, question)
            answered += asked.target is not None
            precise += is_right(system, asked.target, question)
            if asked.confidence is not None:
                confidences.append(asked.confidence)
        agreed, right_agreed = agreement(tests)
        joined = found.of_kind(COMPOUND)
        right_joined = sum(
            is_right(system, each.asked.target, each.question) for each in joined
        )
        mean = sum(confidences) / len(tests) if confidences else None
        # A model may have learned a threshold that it does not use.
        threshold = found.threshold
        if threshold is not None and lowest_given(tests) < threshold:
            threshold = None
        return cls(
            found.dataset,
            system,
            len(tests),
            right,
            answered,
            precise,
            mean,
            threshold,
            agreed,
            right_agreed,
            silence(found.of_kind(OTHER_DOMAIN)),
            silence(found.of_kind(SPLICE)),
            (right_joined, len(joined)),
            found.cost,
            right_by_reader(tests),
        )


def lowest_given(tests: Iterable[Prediction]) -> float:
    """The lowest confidence of an answer that is given by default."""
    given = [1.0]
    for prediction in tests:
        confidence = prediction.asked.confidence
        if prediction.asked.target is not None and confidence is not None:
            given.append(confidence)
    return min(given)


def agreement(tests: Iterable[Prediction]) -> tuple[int | None, int | None]:
    """How often two readers write the same program, and how often that is right.

    Nothing where no sentence was read by two.
    """
    agreed = right = read_by_two = 0
    for prediction in tests:
        programs = list(prediction.asked.readers.values())
        if len(programs) < 2:
            continue
        read_by_two += 1
        first, second = programs[:2]
        if second is not None and exact_match(first, second):
            agreed += 1
            right += is_right("", first, prediction.question)
    return (agreed, right) if read_by_two else (None, None)


def right_by_reader(tests: Iterable[Prediction]) -> dict[str, int]:
    """How many sentences each reader of a hybrid has right alone."""
    right: dict[str, int] = {}
    for prediction in tests:
        for name, target in prediction.asked.readers.items():
            is_same = is_right("", target, prediction.question)
            right[name] = right.get(name, 0) + is_same
    return right


def silence(predictions: Sequence[Prediction]) -> Silence:
    """How many are answered by default, and how many of them with a confidence above `SURE`.

    A system without confidence is always sure.
    """
    answered = sure = 0
    for prediction in predictions:
        if prediction.asked.target is None:
            continue
        answered += 1
        confidence = prediction.asked.confidence
        sure += confidence is None or confidence > SURE
    return Silence(len(predictions), answered, sure)


def percent(part: int, whole: int) -> str:
    """
    >>> percent(121, 150), percent(0, 0)
    ('80.7', '–')
    """
    return f"{100 * part / whole:.1f}" if whole else NOTHING


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are names."""
    lines = [head, ["---"] * left + ["--:"] * (len(head) - left), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def overview(measures: Sequence[Measures]) -> str:
    """Percent right when all is answered: a row for each dataset, a column for each system.

    The readers of a hybrid have columns of their own.
    """
    cells: dict[str, dict[str, str]] = {}
    for each in measures:
        row = cells.setdefault(each.dataset, {"sentences": str(each.sentences)})
        row[each.system] = percent(each.right, each.sentences)
        for reader, right in each.readers.items():
            row[f"{each.system}: {reader}"] = percent(right, each.sentences)
    columns = dict.fromkeys(name for row in cells.values() for name in row)
    rows = []
    for dataset, row in cells.items():
        rows.append([dataset, *(row.get(column, NOTHING) for column in columns)])
    return markdown(["dataset", *columns], rows)


def by_default(measures: Sequence[Measures]) -> str:
    """What users get: a row for each dataset and system."""
    head = ["dataset", "system", "answered", "precision", "right of all"]
    head += ["mean confidence", "threshold", "agreed", "precision there"]
    rows = []
    for each in measures:
        confidence = threshold = NOTHING
        if each.mean_confidence is not None:
            confidence = f"{each.mean_confidence:.2f}"
        if each.threshold is not None:
            threshold = f"{each.threshold:.2f}"
        agreed = precise = NOTHING
        if each.agreed is not None and each.right_agreed is not None:
            agreed = percent(each.agreed, each.sentences)
            precise = percent(each.right_agreed, each.agreed)
        rows.append(
            [
                each.dataset,
                each.system,
                percent(each.answered, each.sentences),
                percent(each.precise, each.answered),
                percent(each.right, each.sentences),
                confidence,
                threshold,
                agreed,
                precise,
            ]
        )
    return markdown(head, rows, left=2)


def made_sets(measures: Sequence[Measures]) -> str:
    """Sentences without a program, sentences with two, and what training took."""
    head = ["dataset", "system", "other domains: answered, sure", "splices"]
    head += ["compounds right", "CPU s", "s", "MB"]
    rows = []
    for each in measures:
        right, asked = each.compounds
        joined = f"{right} of {asked}" if asked else NOTHING
        costs = [NOTHING] * 3
        if each.cost:
            taken = each.cost.cpu_seconds, each.cost.wall_seconds
            costs = [f"{value:,.0f}" for value in (*taken, each.cost.peak_megabytes)]
        silent = [str(each.other_domains), str(each.splices)]
        rows.append([each.dataset, each.system, *silent, joined, *costs])
    return markdown(head, rows, left=2)


def tables(found: Iterable[Predictions]) -> str:
    """The three tables of all predictions that there are."""
    measures = [Measures.of(each) for each in found]
    parts = [overview(measures), by_default(measures), made_sets(measures)]
    return "\n".join(parts)


def stored(folder: Path, datasets: Sequence[str], systems: Sequence[str]) -> list[Path]:
    """The files of predictions that exist, in the order of the tables."""
    paths = []
    for dataset, system in product(datasets, systems):
        path = Predictions.path(folder, dataset, system)
        if path.exists():
            paths.append(path)
    return paths


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and that ended."""
    own = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime


def predict(
    dataset: RealDataset,
    datasets: Sequence[RealDataset],
    system: str,
    resources: Resources,
    questions: int | None = None,
) -> Predictions:
    """Train a system, and ask it all questions; at most so many of each kind."""
    # Train.
    cpu, wall = cpu_seconds(), time.perf_counter()
    trained = SYSTEMS[system](dataset, resources)
    cost = Cost(
        round(cpu_seconds() - cpu, 1),
        round(time.perf_counter() - wall, 1),
        round(peak_megabytes()),
    )
    # Ask the test, and what is out of scope.
    asked = ask(trained, held_out_questions(dataset)[:questions])
    right = []
    for prediction in asked:
        question = prediction.question
        if is_right(system, prediction.asked.target, question):
            right.append(Example(question.source, question.reference or ""))
    asked += ask(trained, other_domains(dataset, datasets)[:questions])
    asked += ask(trained, splices(dataset)[:questions])
    # Compounds are made of what is right alone.
    asked += ask(trained, compounds(dataset, right)[:questions])
    return Predictions(
        dataset.name, system, tuple(asked), trained.threshold, cost, versions()
    )


def ask(trained: Trained, questions: Sequence[Question]) -> list[Prediction]:
    answers = trained.ask([question.source for question in questions])
    return [
        Prediction(question, asked)
        for question, asked in zip(questions, answers, strict=True)
    ]


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that matter, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class Task:
    """A dataset and a system that have no predictions yet."""

    dataset: str
    system: str

    def run(self, arguments: Sequence[str], threads: int) -> str:
        """Predict in a process of its own; gives what to print."""
        command = [sys.executable, __file__, *arguments, "--here"]
        command += ["--datasets", self.dataset, "--systems", self.system]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        name = f"{self.dataset} {self.system}"
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            return f"{name}: failed with {done.returncode}: {lines[-1]}"
        return f"{name}: done"


def run_all(tasks: Sequence[Task], arguments: Sequence[str], jobs: int) -> None:
    """Run the tasks, several at once, and report each as it ends."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ThreadPoolExecutor(jobs) as pool:
        for report in pool.map(lambda task: task.run(arguments, threads), tasks):
            print(report, file=sys.stderr, flush=True)


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mirror", type=Path, help="folder of the datasets")
    parser.add_argument("--predictions", type=Path, default=Path("real_use"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--systems", nargs="+", default=list(DEFAULT_SYSTEMS))
    parser.add_argument("--seq2seq", help="folder of an encoder-decoder's weights")
    parser.add_argument("--causal", help="folder of a decoder-only model's weights")
    parser.add_argument("--device")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--questions", type=int, help="at most so many of each kind")
    parser.add_argument("--table", action="store_true", help="print tables only")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed_arguments()
    folder: Path = options.predictions
    names = checked_names(options.datasets, DATASETS, "dataset")
    systems = checked_names(options.systems, SYSTEMS, "system")
    if not options.table:
        if options.mirror is None:
            raise NqgError("expected --mirror FOLDER, the folder of the datasets")
        datasets = load_datasets(options.mirror, folder)
        resources = Resources(options.seq2seq, options.causal, options.device)
        tasks = []
        for name, system in product(names, systems):
            is_done = Predictions.path(folder, name, system).exists()
            if suits(system, datasets[name]) and not is_done:
                tasks.append(Task(name, system))
        if options.here:
            every = list(datasets.values())
            for task in tasks:
                dataset = datasets[task.dataset]
                predictions = predict(
                    dataset, every, task.system, resources, options.questions
                )
                predictions.write(folder)
            return
        # Processes get the same options, and one dataset and system each.
        arguments = ["--mirror", str(options.mirror), "--predictions", str(folder)]
        for option in ("seq2seq", "causal", "device", "questions"):
            value = getattr(options, option)
            if value is not None:
                arguments += [f"--{option}", str(value)]
        run_all(tasks, arguments, options.jobs)
    print(tables(map(Predictions.read, stored(folder, names, systems))), end="")


if __name__ == "__main__":
    try:
        main()
    except NqgError as error:
        sys.exit(str(error))
