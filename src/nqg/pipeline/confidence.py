"""The confidence stage: readers trained without a fold show how often such answers are right."""

from __future__ import annotations

import math
import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import cast

from nqg.answers import exact_match
from nqg.data.example import Example, distinct_pairs
from nqg.errors import SettingsError
from nqg.evaluation.calibration import (
    Insertion,
    folds,
    joined_halves,
    knowledge,
    made_out_of_scope,
    with_insertions,
)
from nqg.inference.decoding import DecodeOptions
from nqg.inference.hybrid import Hybrid
from nqg.inference.parser import Parser
from nqg.model.confidence import Evidence, HeldOutSentence, ProgramTrial
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import fold_record, uses_gpu
from nqg.pipeline.settings import TrainSettings
from nqg.run_config import sha256
from nqg.splits.compounds import likely_language

# Bounds of work, as only a few weights are fitted: as many folds are held out as come closest to so
# many sentences, and of one fold, at most so many are tried. benchmarks/constants.py varies the
# first.
ENOUGH_SENTENCES = 300
MOST_HELD_OUT = 2_000
# For each held-out sentence, so many that are out of scope; benchmarks/constants.py varies it.
MADE_SHARE = 0.5

QUOTED_TEXT = re.compile(r"""(["']).*?\1""")

# Trains the readers of some examples; the run says which fold is left out.
TrainReaders = Callable[[Sequence[Example], Run], Parser | Hybrid]


@dataclass(frozen=True)
class FoldTrials:
    """The held-out sentences of one fold, as the run folder keeps them."""

    sentences: tuple[HeldOutSentence, ...]


def held_out_sentences(
    examples: Sequence[Example],
    settings: TrainSettings,
    train_readers: TrainReaders,
    run: Run,
    fingerprint: str,
    out_of_scope: Sequence[str] = (),
) -> list[HeldOutSentence]:
    """What readers that are trained without a fold make of its sentences, fold by fold.

    Each fold is asked its share of the sentences that are out of scope. An interrupted run keeps
    the folds that it has finished.
    """
    examples = distinct_pairs(examples)
    confidence, seed = settings.confidence, settings.training.seed
    try:
        splits = folds(examples, confidence.hold_out, seed=seed)
    except SettingsError as error:
        # The examples are too few, or too much alike.
        run.note(f"no confidence can be learned: {error}")
        return []
    count = confidence.folds
    if count is None:
        count = default_folds(len(examples), len(splits), settings, run)
    sentences: list[HeldOutSentence] = []
    used = min(count, len(splits))
    for number, split in enumerate(islice(splits, count), start=1):
        others = out_of_scope[number - 1 :: used]
        fold_run = run.for_fold(number, used)
        name, fold_fingerprint = fold_record(number), sha256(f"{fingerprint}{split}")
        result = run.recorded(name, FoldTrials, fold_fingerprint)
        if result is None:
            parts = split.parts(examples)
            system = train_readers(parts.train, fold_run)
            rng = random.Random(seed)
            found = trials(system, parts.train, parts.test, rng, others)
            result = FoldTrials(tuple(found))
            run.record(name, result, fold_fingerprint)
            if fold_run.folder and run.processes.is_main:
                shutil.rmtree(fold_run.folder, ignore_errors=True)
        sentences += result.sentences
    return sentences


def default_folds(examples: int, folds: int, settings: TrainSettings, run: Run) -> int:
    """As many as hold out about enough sentences, at least two thirds of them; one where a second
    reader makes each of them take minutes.
    """
    if settings.seq2seq and not uses_gpu(run):
        return 1
    nearest = math.floor(folds * ENOUGH_SENTENCES / examples + 0.5)
    return min(folds, max(nearest, 1))


def trials(
    system: Parser | Hybrid,
    train: Sequence[Example],
    test: Sequence[Example],
    rng: random.Random,
    out_of_scope: Sequence[str] = (),
) -> list[HeldOutSentence]:
    """The candidates of a system of `train` for `test`, and for sentences that are out of scope,
    given and made.
    """
    held_out = rng.sample(test, min(len(test), MOST_HELD_OUT))
    count = round(MADE_SHARE * len(held_out))
    reads_calls = grammar_parser(system).model.call_reader is not None
    insertions = sentences_made(train, test, count, rng, reads_calls=reads_calls)
    sentences = [example.source for example in held_out]
    sentences += [*out_of_scope, *(insertion.sentence for insertion in insertions)]
    proposals = candidates(system, train, sentences)
    # Held-out sentences have a right program, which may be of a new form.
    template = likely_language(train).template
    known_templates = {template(without_values(example.target)) for example in train}
    tried_sentences = []
    for example, proposed in zip(held_out, proposals):
        is_new = template(without_values(example.target)) not in known_templates
        tried = program_trials(proposed, example.target)
        tried_sentences.append(HeldOutSentence(tried, is_new_template=is_new))
    # Whatever is proposed for sentences out of scope is wrong.
    first_made = len(held_out) + len(out_of_scope)
    for proposed in proposals[len(held_out) : first_made]:
        wrong = program_trials(proposed, None)
        tried_sentences.append(HeldOutSentence(wrong, is_in_scope=False))
    for insertion, proposed in zip(insertions, proposals[first_made:], strict=True):
        # What is inserted into a text may belong to it.
        unread = [pair for pair in proposed if not insertion.is_in(pair[0])]
        wrong = program_trials(unread, None)
        tried_sentences.append(HeldOutSentence(wrong, is_in_scope=False, is_made=True))
    return tried_sentences


def sentences_made(
    train: Sequence[Example],
    test: Sequence[Example],
    count: int,
    rng: random.Random,
    *,
    reads_calls: bool = False,
) -> list[Insertion]:
    """At most `count` sentences out of scope, made of others.

    A call reader `reads_calls` whatever the order of the words. For it, words in disorder are in
    scope, and words that are inserted are what it must not ignore.
    """
    if reads_calls:
        negatives = list(map(Insertion, joined_halves(train, count // 2, rng)))
        sources = [example.source for example in (*train, *test)]
        negatives += with_insertions(sources, count - len(negatives), rng)
    else:
        sources = [example.source for example in train]
        negatives = list(map(Insertion, made_out_of_scope(sources, count, rng)))
    # Halves may make a held-out sentence, which is in scope.
    in_scope = {" ".join(example.source.split()) for example in test}
    return [negative for negative in negatives if negative.sentence not in in_scope]


def program_trials(
    proposed: Sequence[tuple[str, Evidence]], target: str | None
) -> tuple[ProgramTrial, ...]:
    """The proposed programs of a sentence, each with whether it is right."""
    trials = []
    for program, evidence in proposed:
        is_right = target is not None and exact_match(program, target)
        trials.append(ProgramTrial(evidence, is_right))
    return tuple(trials)


def without_values(program: str) -> str:
    """A program with the same text in all quotes, so that values make no template of their own.

    >>> without_values('play(song="Hey Jude")') == without_values('play(song="Africa")')
    True
    """
    return QUOTED_TEXT.sub(r"\1\1", program)


def grammar_parser(system: Parser | Hybrid) -> Parser:
    """The system's parser, or that of a hybrid."""
    if isinstance(system, Hybrid):
        return cast(Parser, system.parser)
    return system


def candidates(
    system: Parser | Hybrid, train: Sequence[Example], sentences: Sequence[str]
) -> list[list[tuple[str, Evidence]]]:
    """The programs that the readers propose for each sentence, and what speaks for each."""
    parser = grammar_parser(system)
    calibrator = knowledge(parser, train, has_seq2seq=isinstance(system, Hybrid))
    # What is said relative to today refers to the day of the training sentences.
    options = DecodeOptions(today=parser.model.text.slots.today)
    informed = Parser(replace(parser.model, calibrator=calibrator), options)
    proposals: list[list[tuple[str, Evidence]]] = []
    if isinstance(system, Hybrid):
        for _, joint in replace(system, parser=informed).candidates(sentences):
            proposals.append(
                [(proposal.target, proposal.evidence) for proposal in joint]
            )
        return proposals
    for programs in informed.candidates(sentences):
        proposed = [(proposal.target, proposal.evidence) for proposal in programs]
        proposals.append(proposed)
    return proposals
