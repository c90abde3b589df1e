"""What slots cost: a million names loaded, stored and looked up, and milliseconds of CPU time for a sentence.

python benchmarks/slots.py [--names 1000000]
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nqg.data.example_files import read_examples
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.semirings import best_derivations
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import TrainingText, fit_text
from nqg.slots.delexicalize import relexicalize_rules
from nqg.slots.fit import fit_slots
from nqg.slots.instantiate import encoder_tokens, instantiate_slots, mentions_of
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import Gazetteer, Slot, read_gazetteer, write_gazetteer
from nqg.text.sentences import SentenceTokenizer, TokenizedSentence
from nqg.types.inference import infer_target_grammar

HOME = Path(__file__).parent.parent / "examples" / "home_assistant"
SYLLABLES = [first + second for first in "bcdfghklmnprstvwz" for second in "aeiou"]
REPEATS = 20


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def microseconds(
    work: Callable[[TokenizedSentence], object], sentences: Sequence[TokenizedSentence]
) -> float:
    taken = min(
        seconds(lambda: [work(sentence) for sentence in sentences])
        for _ in range(REPEATS)
    )
    return taken / len(sentences) * 1e6


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def random_names(count: int, rng: random.Random) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        words = [
            "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))).title()
            for _ in range(rng.randint(1, 4))
        ]
        names[" ".join(words)] = None
    return list(names)


def report_names(count: int) -> None:
    names = random_names(count, random.Random(0))
    tokenizer = SentenceTokenizer()
    loaded: list[Gazetteer] = []
    with tempfile.TemporaryDirectory() as folder:
        file, stored = Path(folder) / "names.tsv", Path(folder) / "stored.tsv.gz"
        file.write_text("\n".join(names))
        taken = seconds(lambda: loaded.append(read_gazetteer(file, tokenizer.tokenize)))
        print(
            f"{count:,} names read and cut into words  {taken:.1f} s; the process has at most {peak_gigabytes():.2f} GB"
        )
        taken = seconds(lambda: write_gazetteer(stored, loaded[0]))
        print(
            f"written to a model folder  {taken:.1f} s, {stored.stat().st_size / 1e6:.0f} MB"
        )
        print(
            f"read from a model folder  {seconds(lambda: read_gazetteer(stored)):.1f} s"
        )
    texts = [
        f"Play the song {name} on my kitchen speaker"
        for name in names[:: len(names) // 200]
    ]
    sentences = [TokenizedSentence(text, tokenizer.tokens(text)) for text in texts]
    few = Gazetteer.of((name, name) for name in names[:: len(names) // 200])
    for label, gazetteer in (
        (f"{len(few.values):,} names", few),
        (f"{count:,} names", loaded[0]),
    ):
        slots = SlotMatcher(
            "en", (Slot("name", "gazetteer", ("{value}",), names=gazetteer),)
        )
        print(
            f"a sentence with {label}  {microseconds(slots.mentions, sentences):.1f} µs"
        )


def report_sentences(language: str) -> None:
    train, test = (
        [
            (each.source, each.target)
            for each in read_examples(HOME / language / f"{part}.tsv")
        ]
        for part in ("train", "test")
    )
    text = Preprocessor.fit(train)
    pairs = [
        (
            TokenizedSentence(raw, text.sentences.tokens(raw)),
            text.programs.normalized(program),
        )
        for raw, program in train
    ]
    slots = fit_slots(pairs, tokenize_value=text.programs.tokenize)
    sentences = [TokenizedSentence(raw, text.sentences.tokens(raw)) for raw, _ in test]
    tokenized = microseconds(
        lambda sentence: text.sentences.tokens(sentence.raw), sentences
    )
    found = microseconds(slots.mentions, sentences)
    names = ", ".join(slot.name for slot in slots.slots)
    print(
        f"{language}: {names}: words {tokenized:.0f} µs, values {found:.0f} µs a sentence"
    )
    report_rules(language, sentences)


def report_rules(language: str, sentences: Sequence[TokenizedSentence]) -> None:
    """What text and slots add to parsing, stage by stage; free text can be any run of words."""
    raw = read_examples(HOME / language / "train.tsv")
    text = fit_text(raw)
    values = TrainingText.of(raw, text)
    examples = values.examples
    types = infer_target_grammar(values.programs(examples))
    marked, seeds, placeholders = values.searched(examples, types)
    found = induce(marked, InductionSettings.for_slots(), seeds, placeholders)
    rules = relexicalize_rules(found, text.slots.free_text)
    grammar = replace(Grammar.of(rules, 9), slots=text.slots).typed_by(types)
    known = frozenset(word for example in examples for word in example.source_tokens)
    values_only = tuple(slot for slot in text.slots.slots if slot.kind != "text")
    without = replace(grammar, slots=replace(text.slots, slots=values_only))
    for label, groups in (
        ("all at once", [sentences]),
        ("one at a time", [[each] for each in sentences]),
    ):
        print(
            f"{language}, {len(text.slots.free_text)} slots of free text, {label}, µs a sentence:"
        )
        taken = [dict(stages(group, text, grammar, without, known)) for group in groups]
        for name in taken[0]:
            print(f"  {name}  {sum(each[name] for each in taken) / len(taken):.0f}")


def stages(
    sentences: Sequence[TokenizedSentence],
    text: Preprocessor,
    grammar: Grammar,
    without: Grammar,
    known: Collection[str],
) -> Iterator[tuple[str, float]]:
    """What text and slots take beside the rest of parsing, for all the sentences at once, each."""
    sources = [sentence.words for sentence in sentences]
    mentions = mentions_of(grammar, sentences)
    own, plain = (
        instantiate_slots(each, sentences, mentions) for each in (grammar, without)
    )
    full = charts(own, sources)
    best = best_derivations(own, full, np.zeros(full.hyperedges))
    targets = [each.derivation.target if each else () for each in best]

    def each(work: Callable[[], object]) -> float:
        _ = work()
        return min(seconds(work) for _ in range(REPEATS)) / len(sentences) * 1e6

    yield (
        "words",
        each(lambda: [text.tokenized(sentence.raw) for sentence in sentences]),
    )
    yield "values", each(lambda: mentions_of(grammar, sentences))
    yield (
        "values for the chart",
        each(lambda: instantiate_slots(grammar, sentences, mentions).encoded),
    )
    yield (
        "view of the encoder",
        each(lambda: encoder_tokens(grammar, sentences, mentions, known)),
    )
    yield "values for the probability", each(lambda: own.with_meanings(full, targets))
    yield "chart", each(lambda: charts(own, sources))
    yield "chart without free text", each(lambda: charts(plain, sources))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", type=int, default=1_000_000)
    report_names(parser.parse_args().names)
    for each in ("en", "de"):
        report_sentences(each)
