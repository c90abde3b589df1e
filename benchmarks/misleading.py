"""Sentences made to mislead the examples' models: how many are answered wrongly, and how surely.

    python benchmarks/misleading.py
    python benchmarks/misleading.py --models FOLDER --show 20

Rules turn pairs of an example's training and test files into sentences whose right programs follow
from the rule: none for a command that is negated, quoted, taken back, asked about or somebody else's;
the second value for "Lisbon, no wait, Oslo"; both programs in the other order for "before you …". A
sentence is answered *surely wrong* if its program is none of these, with a confidence above 0.9. With
`--models`, folders of this name are loaded instead of being trained. No threshold or weight of nqg is
chosen with these sentences; of its features, mistakes on them suggested the signs of unusual text (docs/trust.md).
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nqg
from nqg.answers import Answer, System, exact_match
from nqg.calls import all_calls, calls_or_none
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.inference.hybrid import load
from nqg.pipeline.settings import TrainSettings
from real_use_datasets import EXAMPLES, STARTER

SURE = 0.9
SENTENCES = 1_000  # of each model
FOLDERS = Path(__file__).parent / "projects"
PROJECTS = {
    "starter": STARTER,
    "robot": EXAMPLES / "robot",
    "shop": EXAMPLES / "shop",
    "home-en": EXAMPLES / "home_assistant" / "en",
    "home-de": EXAMPLES / "home_assistant" / "de",
    "tools": EXAMPLES / "tools",
    "gym": FOLDERS / "gym",
    "farm": FOLDERS / "farm",
    "library": FOLDERS / "library_desk",
}
GERMAN = ("home-de",)

# A sentence takes the place of {}. No program is right for any of these.
ENGLISH_FRAMES: Mapping[str, Sequence[str]] = {
    "negation": (
        "do not {}",
        "never {}",
        "please don't {}",
        "you must not {}",
        "under no circumstances {}",
        "whatever happens do not {}",
    ),
    "taken back": (
        "{}, no wait, don't",
        "{} - never mind",
        "{}, forget it",
        "{}, scratch that",
        "{}, actually leave everything as it is",
        "{} just kidding",
    ),
    "question about it": (
        "what happens if I say {}",
        "why did you {}",
        "did I ask you to {}",
        "who told you to {}",
        "is it a good idea to {}",
        "how often do people {}",
        "are you able to {} or not",
    ),
    "hypothetical": (
        "suppose I wanted to {}",
        "I wonder whether I should {}",
        "if I were you I would {}",
        "one day I will {}",
        "it would be nice to {} but not now",
        "imagine somebody had to {}",
    ),
    "quotation": (
        'he said "{}"',
        'translate "{}" into French',
        'how do you spell "{}"',
        'the sign says "{}"',
        "what does {} mean",
    ),
    "somebody else": (
        "my brother should {}",
        "tell the neighbours to {}",
        "I already asked Bob to {}",
        "let the cat {}",
    ),
    "past": (
        "yesterday I told you to {}",
        "last week you had to {}",
        "I used to {}",
        "thank you that you did {}",
    ),
    "exception": (
        "{} unless it rains",
        "{} except on my birthday",
        "{} but only if nobody is there",
    ),
    "other verb": (
        "pretend to {}",
        "refuse to {}",
        "avoid to {}",
        "almost {}",
        "stop trying to {}",
        "remember how to {}",
    ),
}
GERMAN_FRAMES: Mapping[str, Sequence[str]] = {
    "negation": (
        "auf keinen Fall {}",
        "bitte nicht: {}",
        "niemals {}",
        "du darfst nicht: {}",
        "{} - nein, bitte nicht",
    ),
    "taken back": (
        "{}, nein, doch nicht",
        "{}, vergiss es",
        "{}, ach lass alles wie es ist",
        "{} war nur Spaß",
    ),
    "question about it": (
        "was passiert, wenn ich sage: {}",
        "warum hast du gesagt: {}",
        "wer sagt denn: {}",
        "wie oft sagen Leute {}",
    ),
    "hypothetical": (
        "stell dir vor, ich sagte: {}",
        "angenommen, jemand sagt {}",
        "eines Tages sage ich {}",
    ),
    "quotation": (
        "er sagte „{}“",
        "übersetze „{}“ ins Englische",
        "wie schreibt man „{}“",
        "auf dem Zettel steht {}",
    ),
    "somebody else": (
        "mein Bruder soll sagen: {}",
        "ich habe schon Bob gebeten: {}",
    ),
    "past": ("gestern habe ich gesagt: {}", "früher sagte ich oft {}"),
    "exception": (
        "{}, außer an meinem Geburtstag",
        "{}, aber nur wenn niemand da ist",
        "{}, es sei denn, es regnet",
    ),
}
# How a value is taken back within a sentence: the second one counts.
ENGLISH_RETRACTIONS = (
    "{}, no wait, {}",
    "{} I mean {}",
    "not {} but {}",
    "{} sorry {}",
)
GERMAN_RETRACTIONS = ("{}, nein, {}", "{} ich meine {}", "nicht {} sondern {}")
# Words before a value that make it another thing.
ENGLISH_OTHERS = ("neighbour's", "wrong", "toy", "former")
GERMAN_OTHERS = ("falsche", "frühere")
# Sentences that begin so are questions or parts, which no frame of commands fits.
NO_COMMAND = re.compile(
    r"""(?ix) (?: what | what's | which | how | is | are | do | does | did | will | when | who | where | why
    | can | could | would | the | a | an | price | weather | i | please | at | on | in | if | was
    | wie | wo | wann | ist | sind | kannst | könntest | ich | der | die | das | welche
    | wieviel | um | am | im | wenn | bitte | hey | ok | it | every | each | after | before
    | first ) \b"""
)
ENGLISH_TIMES = ("at 5 pm", "on Friday", "in May 2027", "at half past six")
GERMAN_TIMES = ("um 17 Uhr", "am Freitag", "im Mai 2027", "um halb sieben")
BAD_TIMES = ("25:70", "31:99", "12:75")
BAD_HOURS = ("27 am", "44 pm", "96 am")
BAD_CLOCKS = {
    r"\b\d{1,2}:\d\d\b": BAD_TIMES,
    r"(?<![\d:])\d{1,2} (?:am|pm)\b": BAD_HOURS,
}
# Two commands as one sentence; whether the second one comes first.
ENGLISH_ORDERS = (
    ("{0}, then {1}", False),
    ("before you {0} {1}", True),
    ("before you {0}, {1}", True),
    ("after you {0}, {1}", False),
    ("{0} but first {1}", True),
)
REPEATED = re.compile(r"(.+) (?:twice|three times|four times)")


@dataclass(frozen=True, slots=True)
class Misleading:
    """A sentence and the programs that are right for it; none where it should not be answered.

    A program is right as well if one of its strings holds one of the `texts`: a message to the
    neighbours may say that they should turn left.
    """

    kind: str
    sentence: str
    right: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def is_right(self, program: str) -> bool:
        if any(exact_match(program, right) for right in self.right):
            return True
        strings = list(map(plain, re.findall(r'"([^"]*)"', program)))
        texts = list(map(plain, self.texts))
        return any(text in string for string in strings for text in texts)


def plain(text: str) -> str:
    """A text in lower case and without marks.

    >>> plain("Turn left, please!")
    'turn left please'
    """
    return " ".join(re.findall(r"\w+", text.lower()))


def lowered(sentence: str) -> str:
    """A sentence as a part of another.

    >>> lowered("Turn left.")
    'turn left'
    """
    return sentence[:1].lower() + sentence[1:].rstrip(".?!")


def is_command(sentence: str) -> bool:
    return NO_COMMAND.match(sentence) is None


def framed(
    examples: Sequence[Example], frames: Mapping[str, Sequence[str]]
) -> Iterator[Misleading]:
    for kind, forms in frames.items():
        for example in examples:
            if not is_command(example.source):
                continue
            command = lowered(example.source)
            for form in forms:
                # A message or a reminder may hold the exception.
                around = form.replace("{}", "")
                text = around if kind == "exception" else command
                yield Misleading(kind, form.format(command), texts=(text,))


def values_of(example: Example) -> Iterator[str]:
    """Words of a sentence that are a whole value of its program."""
    words = re.findall(r"\w+", example.source)
    for word in words:
        is_value = re.search(
            rf"""(?<=["'(.=]){re.escape(word)}(?=["').,])""", example.target, re.I
        )
        if is_value and words.count(word) == 1 and not word.isdecimal():
            yield word


def replaced(text: str, old: str, new: str) -> str:
    """A text with a word for another, in the case of the text."""

    def in_case(match: re.Match[str]) -> str:
        return new.capitalize() if match[0][0].isupper() else new.lower()

    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", in_case, text, flags=re.I)


def function_of(program: str) -> str:
    """The first function that a program calls, or its first word."""
    calls = calls_or_none(program)
    return calls[0].name if calls else program.split()[0]


def siblings(examples: Sequence[Example]) -> Iterator[tuple[Example, str, str]]:
    """An example, a value in it, and another value after the same word for the same function."""
    by_place = defaultdict[tuple[str, str], set[str]](set)

    def place(example: Example, value: str) -> tuple[str, str]:
        before = example.source.lower().partition(value.lower())[0].split()
        return before[-1] if before else "", function_of(example.target)

    for example in examples:
        for value in values_of(example):
            by_place[place(example, value)].add(value.lower())
    for example in examples:
        for value in values_of(example):
            for other in sorted(by_place[place(example, value)] - {value.lower()}):
                yield example, value, other


def retracted(
    examples: Sequence[Example], forms: Sequence[str]
) -> Iterator[Misleading]:
    for example, value, other in siblings(examples):
        for form in forms:
            sentence = example.source.replace(value, form.format(value, other))
            right = replaced(example.target, value, other)
            yield Misleading("value taken back", sentence, (right,))


def modified(
    examples: Sequence[Example], modifiers: Sequence[str]
) -> Iterator[Misleading]:
    for example in examples:
        for value in values_of(example):
            for modifier in modifiers:
                sentence = example.source.replace(value, f"{modifier} {value}")
                yield Misleading("other thing", sentence, texts=(modifier,))


def out_of_range(examples: Sequence[Example]) -> Iterator[Misleading]:
    for example in examples:
        for pattern, values in BAD_CLOCKS.items():
            for value in values:
                sentence, count = re.subn(pattern, value, example.source)
                if count == 1:
                    yield Misleading("out of range", sentence)


def untimely(examples: Sequence[Example], times: Sequence[str]) -> Iterator[Misleading]:
    """A time for a function that no example gives one, where times are arguments of functions."""
    with_time = set[str]()
    for example in examples:
        calls = calls_or_none(example.target) or ()
        # A function around another may give everything a time.
        if len(list(all_calls(list(calls)))) > len(calls):
            return
        if re.search(r"\d:\d\d|day", example.target):
            with_time.update(call.name for call in calls)
    # Where nothing has a time, words for it may be free text everywhere.
    if not with_time:
        return
    for example in examples:
        if is_command(example.source) and function_of(example.target) not in with_time:
            for time in times:
                yield Misleading("time for none", f"{lowered(example.source)} {time}")


def ordered(examples: Sequence[Example]) -> Iterator[Misleading]:
    """Two commands in an order that is said, where training has sequences; one may be repeated."""
    if not any("; " in example.target for example in examples):
        return
    commands = filter(lambda example: is_command(example.source), examples)
    single = [example for example in commands if "; " not in example.target]
    for number, first in enumerate(single):
        for second in single[number + 1 :] + single[:number]:
            for form, is_reversed in ENGLISH_ORDERS:
                is_repeat = REPEATED.fullmatch(lowered(second.source))
                kind = "scope of a repetition" if is_repeat else "order"
                sentence = form.format(lowered(first.source), lowered(second.source))
                programs = [first.target, second.target]
                if is_reversed:
                    programs.reverse()
                yield Misleading(kind, sentence, ("; ".join(programs),))


# Verbs and things that training has only with others, and what is meant, by project.
CROSSED: Mapping[str, Mapping[str, str | None]] = {
    "home-en": {
        "cancel the timer": "stop_timer()",
        "delete the timer": "stop_timer()",
        "stop the alarm": "cancel_alarm()",
        "cancel my timer": "stop_timer()",
        "stop my alarm": "cancel_alarm()",
        "start the alarm": None,
        "start the heater alarm": None,
        "how much time is left on the alarm": None,
        "how much time is left on the heater": None,
        "wake the timer": None,
        "set the timer on": None,
        "cancel the lights": None,
        "stop the lights": None,
        "set an alarm for ten minutes": None,
        "set a timer for Friday": None,
        "play the timer": None,
        "delete the kitchen lights": None,
        "cancel the song": None,
    },
    "home-de": {
        "Lösche den Timer": "stop_timer()",
        "Stopp den Wecker": "cancel_alarm()",
        "lösch meinen Timer": "stop_timer()",
        "Starte den Wecker": None,
        "Wie lange läuft der Wecker noch?": None,
        "Weck den Timer": None,
        "Lösche das Licht": None,
        "Stell einen Timer für Freitag": None,
    },
}
POLITE = ("{}", "{}, please", "please {}", "can you {}", "{} now", "hey {}")
POLITE_GERMAN = ("{}", "bitte {}", "{} bitte", "{} jetzt")


def crossed(name: str) -> Iterator[Misleading]:
    for sentence, program in CROSSED.get(name, {}).items():
        for form in POLITE_GERMAN if name in GERMAN else POLITE:
            right = () if program is None else (program,)
            yield Misleading("crossed words", form.format(sentence), right)


def misleading(
    name: str, examples: Sequence[Example], rng: random.Random
) -> list[Misleading]:
    """As many sentences of each kind as there are, but for what would be too many in all."""
    is_german = name in GERMAN
    frames = GERMAN_FRAMES if is_german else ENGLISH_FRAMES
    retractions = GERMAN_RETRACTIONS if is_german else ENGLISH_RETRACTIONS
    others = GERMAN_OTHERS if is_german else ENGLISH_OTHERS
    made: list[Iterable[Misleading]] = [
        framed(examples, frames),
        retracted(examples, retractions),
        modified(examples, others),
        out_of_range(examples),
        untimely(examples, GERMAN_TIMES if name in GERMAN else ENGLISH_TIMES),
        crossed(name),
    ]
    if name not in GERMAN:
        made.append(ordered(examples))
    by_kind = defaultdict[str, dict[str, Misleading]](dict)
    for items in made:
        for item in items:
            by_kind[item.kind].setdefault(item.sentence, item)
    most = SENTENCES // len(by_kind)
    chosen = []
    for items_of_kind in by_kind.values():
        items = sorted(items_of_kind.values(), key=lambda item: item.sentence)
        chosen += rng.sample(items, min(most, len(items)))
    return chosen


@dataclass(frozen=True, slots=True)
class Mistake:
    item: Misleading
    answer: Answer


def surely_wrong(
    items: Sequence[Misleading], system: System
) -> tuple[int, list[Mistake]]:
    """How many sentences are answered at all, and which wrongly above `SURE`."""
    answered, mistakes = 0, []
    answers = system.answers([item.sentence for item in items])
    for item, answer in zip(items, answers, strict=True):
        if answer.target is None:
            continue
        answered += 1
        is_sure = (answer.confidence or 0.0) > SURE
        if is_sure and not item.is_right(answer.target):
            mistakes.append(Mistake(item, answer))
    return answered, mistakes


def trained(folder: Path) -> System:
    settings = TrainSettings()
    if (folder / "nqg.toml").exists():
        settings = TrainSettings.read(folder / "nqg.toml")
    return nqg.train(folder / "train.tsv", settings=settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", nargs="*", choices=PROJECTS, default=[*PROJECTS])
    parser.add_argument("--models", type=Path, help="trained models, by project")
    parser.add_argument("--show", type=int, default=5, help="mistakes of each model")
    parser.add_argument("--seed", type=int, default=40)
    options = parser.parse_args()
    print("| model | sentences | answered | surely wrong | share | kinds |")
    print("|---|--:|--:|--:|--:|---|")
    in_all: Counter[str] = Counter()
    shown: list[str] = []
    for name in options.project:
        folder = PROJECTS[name]
        examples = list(read_examples(folder / "train.tsv"))
        examples += read_examples(folder / "test.tsv")
        items = misleading(name, examples, random.Random(options.seed))
        system = load(options.models / name) if options.models else trained(folder)
        answered, mistakes = surely_wrong(items, system)
        kinds = Counter(mistake.item.kind for mistake in mistakes)
        listed = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        share = 100 * len(mistakes) / len(items)
        print(
            f"| {name} | {len(items):,} | {answered} | {len(mistakes)} | "
            f"{share:.2f} % | {listed} |",
            flush=True,
        )
        in_all.update(sentences=len(items), answered=answered, wrong=len(mistakes))
        for mistake in mistakes[: options.show]:
            answer = mistake.answer
            shown.append(
                f"{name}, {mistake.item.kind}: {answer.source} -> {answer.target} "
                f"({answer.confidence:.3f})"
            )
    share = 100 * in_all["wrong"] / in_all["sentences"]
    print(
        f"| all | {in_all['sentences']:,} | {in_all['answered']} | {in_all['wrong']} | "
        f"{share:.2f} % | |"
    )
    print(*shown, sep="\n")


if __name__ == "__main__":
    main()
