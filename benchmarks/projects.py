"""Five small projects, as a new user finds them: at the start, and after an hour of what nqg advises.

    python benchmarks/projects.py --jobs 8
    python benchmarks/projects.py --folds 5 --projects farm gym --set text.calls=none

`hour.tsv` has the pairs that somebody added in an hour who did what `nqg check-data` and `nqg train`
say. With `--folds`, fifths of the training pairs are held out and everything is answered: choose
settings so, and never with the test sentences.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import nqg
from nqg.answers import Answer, exact_match
from nqg.data.example import Example, in_scope
from nqg.data.example_files import read_examples
from nqg.inference.decoding import DecodeOptions
from nqg.settings_reader import changed_settings

FOLDER = Path(__file__).parent / "projects"
PROJECTS = ("farm", "gym", "clinica", "library_desk", "observatory")
STAGES = ("start", "hour")
SEED = 0


@dataclass(frozen=True)
class Job:
    """A training, and what it is asked; `fold` is one of `folds` of the training pairs."""

    project: str
    stage: str
    changes: tuple[str, ...]
    seq2seq: str | None = None
    fold: int = 0
    folds: int = 0

    def examples(self) -> list[Example]:
        names = ["train.tsv"]
        if self.stage == "hour":
            names.append("hour.tsv")
        examples = []
        for name in names:
            examples += read_examples(
                FOLDER / self.project / name, allows_out_of_scope=True
            )
        return examples


@dataclass(frozen=True)
class Result:
    """How a system fared: on the test, when it answers everything, and out of scope."""

    job: Job
    sentences: int
    right: int
    answered: int
    right_of_all: int
    others: int
    others_answered: int
    rules: int
    threshold: float | None
    seconds: float

    def __str__(self) -> str:
        job = self.job
        name = f"{job.project}, {job.stage}"
        if job.folds:
            name += f", fold {job.fold + 1} of {job.folds}"
        wrong = self.answered - self.right
        threshold = "-" if self.threshold is None else f"{self.threshold:.2f}"
        return (
            f"{name}: {self.right} right, {wrong} wrong, {self.answered} answered of "
            f"{self.sentences}; {self.right_of_all} right if all are answered; out of scope "
            f"{self.others_answered} of {self.others} answered; threshold {threshold}, "
            f"{self.rules} rules, {self.seconds:.0f} CPU s"
        )


def measured(job: Job) -> Result:
    """Train and ask."""
    settings = changed_settings(nqg.TrainSettings(), list(job.changes))
    examples = job.examples()
    folder = FOLDER / job.project
    if job.folds:
        settings = replace(settings, confidence=nqg.ConfidenceSettings(folds=1))
        examples = in_scope(examples)
        shuffled = random.Random(SEED).sample(examples, len(examples))
        test = shuffled[job.fold :: job.folds]
        examples = [example for example in examples if example not in test]
        others: list[Example] = []
    else:
        test = read_examples(folder / "test.tsv")
        others = read_examples(folder / "out_of_scope.tsv", allows_out_of_scope=True)
    began = time.process_time()
    system = nqg.train(examples, settings=settings, seq2seq=job.seq2seq)
    seconds = time.process_time() - began
    assert isinstance(system, nqg.Parser | nqg.Hybrid)
    answers = list(system.answers(example.source for example in test))
    everything = system.with_options(DecodeOptions(least_confidence=0.0))
    all_answers = list(everything.answers(example.source for example in test))
    refusals = system.answers(example.source for example in others)
    parser = system if isinstance(system, nqg.Parser) else system.parser
    assert isinstance(parser, nqg.Parser)
    calibrator = parser.model.calibrator
    return Result(
        job,
        len(test),
        right_answers(answers, test),
        sum(answer.target is not None for answer in answers),
        right_answers(all_answers, test),
        len(others),
        sum(answer.target is not None for answer in refusals),
        len(parser.grammar.rules),
        calibrator.threshold if calibrator else None,
        seconds,
    )


def right_answers(answers: Sequence[Answer], test: Sequence[Example]) -> int:
    return sum(
        exact_match(answer.target, example.target)
        for answer, example in zip(answers, test, strict=True)
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--projects", nargs="+", choices=PROJECTS, default=PROJECTS)
    options.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    options.add_argument("--folds", type=int, default=0)
    options.add_argument("--set", action="append", default=[], dest="changes")
    options.add_argument("--seq2seq")
    options.add_argument("--jobs", type=int, default=1)
    given = options.parse_args()
    jobs = []
    for project in given.projects:
        for stage in given.stages:
            job = Job(project, stage, tuple(given.changes), given.seq2seq)
            if not given.folds:
                jobs.append(job)
            folds = range(given.folds)
            jobs += [replace(job, fold=fold, folds=given.folds) for fold in folds]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for result in pool.map(measured, jobs):
            print(result, flush=True)


if __name__ == "__main__":
    main()
