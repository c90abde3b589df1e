"""What slots cost: a million names loaded, stored and looked up, and milliseconds of CPU time for a sentence.

python benchmarks/slots.py [--names 1000000]
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nqg.data.examples import Values, fit_text, read_examples, tokenized
from nqg.grammar.grammar import Grammar
from nqg.grammar.slots import mentions_of, of_sentences, with_slots
from nqg.grammar.type_inference import infer_target_grammar
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.text.gazetteer import Gazetteer, read_gazetteer, write_gazetteer
from nqg.text.preprocessing import Preprocessor
from nqg.text.sentences import SentenceTokenizer, TokenizedSentence
from nqg.text.slots import Slot, Slots

HOME = Path(__file__).parent.parent / "examples" / "home_assistant"
SYLLABLES = [first + second for first in "bcdfghklmnprstvwz" for second in "aeiou"]
REPEATS = 20


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def microseconds(work: Callable[[TokenizedSentence], object], sentences: Sequence[TokenizedSentence]) -> float:
    taken = min(seconds(lambda: [work(sentence) for sentence in sentences]) for _ in range(REPEATS))
    return taken / len(sentences) * 1e6


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def random_names(count: int, rng: random.Random) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        words = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))).title() for _ in range(rng.randint(1, 4))]
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
        print(f"written to a model folder  {taken:.1f} s, {stored.stat().st_size / 1e6:.0f} MB")
        print(f"read from a model folder  {seconds(lambda: read_gazetteer(stored)):.1f} s")
    texts = [f"Play the song {name} on my kitchen speaker" for name in names[:: len(names) // 200]]
    sentences = [TokenizedSentence(text, tokenizer.tokens(text)) for text in texts]
    few = Gazetteer.of((name, name) for name in names[:: len(names) // 200])
    for label, gazetteer in ((f"{len(few.values):,} names", few), (f"{count:,} names", loaded[0])):
        slots = Slots("en", (Slot("name", "gazetteer", ("{value}",), names=gazetteer),))
        print(f"a sentence with {label}  {microseconds(slots.mentions, sentences):.1f} µs")


def report_sentences(language: str) -> None:
    train, test = (
        [(each.source, each.target) for each in read_examples(HOME / language / f"{part}.tsv")]
        for part in ("train", "test")
    )
    text = Preprocessor.fit(train)
    pairs = [
        (TokenizedSentence(raw, text.sentences.tokens(raw)), text.programs.normalized(program))
        for raw, program in train
    ]
    slots = Slots.fit(pairs, cut=text.programs.tokenize)
    sentences = [TokenizedSentence(raw, text.sentences.tokens(raw)) for raw, _ in test]
    cut = microseconds(lambda sentence: text.sentences.tokens(sentence.raw), sentences)
    found = microseconds(slots.mentions, sentences)
    names = ", ".join(slot.name for slot in slots.slots)
    print(f"{language}: {names}: words {cut:.0f} µs, values {found:.0f} µs a sentence")
    report_rules(language, sentences)


def report_rules(language: str, sentences: Sequence[TokenizedSentence]) -> None:
    """What free text costs: all runs of words that it may be, and the rules that are made of them."""
    raw = read_examples(HOME / language / "train.tsv")
    text = fit_text(raw)
    values, examples = Values.of(raw, text), tokenized(raw, text)
    assert values is not None, "a home assistant has slots"
    types = infer_target_grammar(values.programs(examples))
    marked, seeds, placeholders = values.searched(examples, types)
    found = induce(marked, InductionSettings.for_slots(), seeds, placeholders)
    rules = with_slots(found, text.slots.free_text)
    grammar = replace(Grammar.of(rules, 9), slots=text.slots).typed_by(types)
    _ = grammar.encoded, grammar.typing
    read = microseconds(text.slots.alternatives, sentences)

    def encode(sentence: TokenizedSentence) -> object:
        own = of_sentences(grammar, [sentence.words], mentions_of(grammar, [sentence]))
        return own.encoded, own.typing

    print(
        f"{language}, {len(text.slots.free_text)} slots of free text: values {read:.0f} µs, "
        f"with their rules {microseconds(encode, sentences):.0f} µs a sentence"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=int, default=1_000_000)
    report_names(parser.parse_args().names)
    for each in ("en", "de"):
        report_sentences(each)
