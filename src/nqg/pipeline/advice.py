"""What would help a model most: at most three steps, each with lines to paste."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from nqg.calls import Call, calls_or_none
from nqg.data.example import Example, distinct_pairs
from nqg.errors import counted
from nqg.slots.slot import Slot, is_slot_name

MOST_STEPS = 3
MOST_NAMES = 30  # names that are written out to be pasted
SHOWN_FUNCTIONS = 5
SECOND_READER = "a second reader often answers more (docs/hybrid.md): add the option"
# A code has a digit and no space: A-1042, KX200.
_CODE = re.compile(r"[A-Za-z]*[-_./]?\d[\w./-]*")
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class NextStep:
    """What to do, and lines to paste for it."""

    text: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        """
        >>> print(NextStep("declare a slot:", ("[slots]", 'day = "date"')))
        declare a slot:
            [slots]
            day = "date"
        """
        return "\n".join([self.text, *(f"    {line}" for line in self.lines)])


def next_steps(
    examples: Sequence[Example],
    slots: Sequence[Slot],
    *,
    has_second_reader: bool,
    has_out_of_scope: bool,
    is_unsure: bool = False,
) -> list[NextStep]:
    """The steps that would help a model of raw examples most, in this order.

    A model that `is_unsure` of most sentences is helped by templates.
    """
    steps = list(slot_steps(examples, slots))
    if is_unsure:
        steps += template_steps(examples, slots)
    steps += function_steps(examples)
    if not has_second_reader:
        steps.append(NextStep(SECOND_READER, ("--seq2seq google/flan-t5-small",)))
    if not has_out_of_scope:
        steps.append(
            NextStep(
                "add sentences that your program has no answer to, so that they are refused:",
                ("tell me a joke<TAB>OUT_OF_SCOPE",),
            )
        )
    return steps[:MOST_STEPS]


def slot_steps(
    examples: Sequence[Example], slots: Sequence[Slot]
) -> Iterator[NextStep]:
    """What the examples show to be a list, codes or other names of values, and should be declared."""
    values = argument_values(examples)
    tables: list[str] = []
    files: list[str] = []
    reasons: list[str] = []
    for slot in slots:
        counts = values.get(slot.name, Counter())
        if slot.kind != "text" or not counts:
            continue
        if all(map(_CODE.fullmatch, counts)):
            tables.append(f"{slot.name} = {{ regex = '{code_expression(counts)}' }}")
            reasons.append(f"'{slot.name}' (codes)")
        # A value that occurs once makes it likely that the next one is new (Good-Turing).
        elif min(counts.values()) > 1 and len(counts) <= MOST_NAMES:
            if "'" in "".join(counts):
                continue
            tables.append(f'{slot.name} = {{ gazetteer = "{slot.name}.txt" }}')
            files.append(_list_command(sorted(counts), f"{slot.name}.txt"))
            reasons.append(f"'{slot.name}' ({counted(len(counts), 'value')})")
    if tables:
        text = (
            f"any words may be {' and '.join(reasons)} now; if these are all, declare them in "
            "nqg.toml, and train with --settings nqg.toml:"
        )
        yield NextStep(text, ("[slots]", *tables, *files))
    yield from synonym_steps(examples, slots)


def _list_command(lines: Sequence[str], file: str) -> str:
    """A command that writes lines, which have no quotation marks, into a file."""
    quoted = " ".join(f"'{line}'" for line in lines)
    return f"printf '%b\\n' {quoted} > {file}"


def synonym_steps(
    examples: Sequence[Example], slots: Sequence[Slot]
) -> Iterator[NextStep]:
    """Words that stand for values which sentences do not have: euros for EUR."""
    declared = {slot.name for slot in slots}
    tables: list[str] = []
    files: list[str] = []
    names: list[str] = []
    for key, aliases in synonyms(examples).items():
        if key in declared or len(aliases) > MOST_NAMES or not is_slot_name(key):
            continue
        lines = [f"{alias}\\t{value}" for alias, value in aliases.items()]
        if "'" in "".join(lines):
            continue
        tables.append(f'{key} = {{ gazetteer = "{key}.tsv" }}')
        files.append(_list_command(lines, f"{key}.tsv"))
        alias, value = next(iter(aliases.items()))
        names.append(f"'{key}' ({alias} is {value})")
    if tables:
        text = (
            f"sentences have other words for {' and '.join(names)}; lists of them can grow "
            "without new examples. In nqg.toml, for --settings nqg.toml:"
        )
        yield NextStep(text, ("[slots]", *tables, *files))


def synonyms(examples: Sequence[Example]) -> Mapping[str, Mapping[str, str]]:
    """Per argument, the words that stand for its values and for nothing else.

    A word stands for a value that sentences do not have if it comes twice or more, and only in
    sentences whose program has the value. Each of those needs such a word, and the argument two such
    values.

    >>> pairs = [("send 5 euros", "EUR"), ("3 euros to Jo", "EUR"), ("5 dollars", "USD"), ("7 dollars", "USD")]
    >>> synonyms([Example(source, f'pay(currency="{value}")') for source, value in pairs])
    {'currency': {'dollars': 'USD', 'euros': 'EUR'}}
    """
    sentences = [frozenset(_words(example.source)) for example in examples]
    uses = Counter(chain.from_iterable(sentences))
    # The sentences in which each argument has each value.
    places: dict[str, dict[str, set[int]]] = {}
    for number, example in enumerate(examples):
        for call in _calls([example]):
            for name, value in call.arguments.items():
                if isinstance(value, str):
                    by_value = places.setdefault(name, {})
                    by_value.setdefault(value, set()).add(number)
    by_argument: dict[str, Mapping[str, str]] = {}
    for name, by_value in places.items():
        aliases: dict[str, str] = {}
        for value, numbers in by_value.items():
            of_value = [sentences[number] for number in sorted(numbers)]
            words = _exclusive_words(value, of_value, uses)
            aliases.update(dict.fromkeys(words, value))
        if len(set(aliases.values())) > 1:
            by_argument[name] = dict(sorted(aliases.items()))
    return by_argument


def _exclusive_words(
    value: str, sentences: Sequence[frozenset[str]], uses: Counter[str]
) -> list[str]:
    """As few words as possible that only these sentences have, one in each without the value.

    None, if a sentence has no such word, or if one comes in a single sentence only.
    """
    counts = Counter(chain.from_iterable(sentences))
    exclusive = {word for word, count in counts.items() if 1 < count == uses[word]}
    left = [one & exclusive for one in sentences if not one.issuperset(_words(value))]
    chosen: list[str] = []
    while left:
        frequencies = Counter(chain.from_iterable(left))
        if not frequencies:
            return []
        best = min(frequencies, key=lambda word: (-frequencies[word], word))
        chosen.append(best)
        left = [words for words in left if best not in words]
    return chosen


def _words(text: str) -> list[str]:
    return _WORD_OR_MARK.findall(text.lower())


def template_steps(
    examples: Sequence[Example], slots: Sequence[Slot]
) -> Iterator[NextStep]:
    """A template for the function that most examples call, made of one of them."""
    names = {slot.name for slot in slots if slot.kind == "text"}
    templates: dict[str, list[str]] = {}
    for example in examples:
        calls = calls_or_none(example.target) or ()
        if len(calls) != 1:
            continue
        source, target = example.source, example.target
        for name, value in calls[0].arguments.items():
            if name in names and isinstance(value, str) and value in source:
                source = source.replace(value, f"{{{name}}}")
                target = target.replace(value, f"{{{name}}}")
        # Every value must have become a slot, and there must be one.
        if source != example.source and '"{' in target:
            is_whole = target.count('"') == 2 * target.count('"{')
            if is_whole and not re.search(r"\d", source):
                template = f"{source} ### {target}"
                templates.setdefault(calls[0].name, []).append(template)
    if templates:
        most = max(sorted(templates), key=lambda name: len(templates[name]))
        text = (
            "write templates for what must work; rules by hand are believed "
            "(docs/rules-by-hand.md):"
        )
        template = min(templates[most], key=lambda text: (len(text), text))
        yield NextStep(text, (f"nqg rule add MODEL '{template}'",))


def argument_values(examples: Sequence[Example]) -> Mapping[str, Counter[str]]:
    """How often each argument of the examples' calls has each string as its value.

    >>> argument_values([Example("play jazz", 'play(genre="jazz")')])
    {'genre': Counter({'jazz': 1})}
    """
    values: dict[str, Counter[str]] = {}
    for call in _calls(examples):
        for name, value in call.arguments.items():
            if isinstance(value, str):
                values.setdefault(name, Counter())[value] += 1
    return values


def _calls(examples: Sequence[Example]) -> Iterator[Call]:
    """All calls of the programs, those inside of others included."""
    for example in examples:
        waiting = list(calls_or_none(example.target) or ())
        while waiting:
            call = waiting.pop()
            yield call
            for value in (*call.arguments.values(), *call.positional):
                inner = value if isinstance(value, list) else [value]
                waiting += [item for item in inner if isinstance(item, Call)]


def code_expression(codes: Sequence[str] | Counter[str]) -> str:
    r"""A regular expression of all codes: runs of letters and digits, whatever their length.

    >>> code_expression(["A-1042", "KX200"])
    '[A-Za-z]+\\-?\\d+'
    """
    shapes, marks = set[str](), set[str]()
    for code in codes:
        shape = re.sub(r"\d+", "0", re.sub(r"[A-Za-z]+", "A", code))
        shapes.add(re.sub(r"[^A0]", "", shape))
        marks.update(re.sub(r"[A0]", "", shape))
    escaped = [re.escape(mark) for mark in sorted(marks)]
    if shapes == {"A0"}:
        between = "".join(f"{mark}?" for mark in escaped)
        return rf"[A-Za-z]+{between}\d+"
    return rf"(?=\S*\d)[A-Za-z0-9{''.join(escaped)}]+"


def function_counts(examples: Sequence[Example]) -> Counter[str]:
    """How many different examples call each function."""
    counts: Counter[str] = Counter()
    for example in distinct_pairs(examples):
        counts.update({call.name for call in _calls([example])})
    return counts


def function_steps(examples: Sequence[Example]) -> Iterator[NextStep]:
    """Functions that one example alone shows: nothing can be held out of it."""
    rare = []
    for function, count in sorted(function_counts(examples).items()):
        if count == 1:
            rare.append(function)
    if rare:
        names = ", ".join(rare[:SHOWN_FUNCTIONS])
        if len(rare) > SHOWN_FUNCTIONS:
            names += f" and {len(rare) - SHOWN_FUNCTIONS} more"
        yield NextStep(f"add sentences for what one example alone shows: {names}")
