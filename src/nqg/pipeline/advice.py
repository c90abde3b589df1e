"""What would help a model most: at most three steps, each with lines to paste."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from nqg.calls import Call, calls_or_none
from nqg.data.example import Example, distinct_pairs
from nqg.errors import counted
from nqg.evaluation.data_checks import singletons
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.slots.slot import Slot, is_slot_name

MOST_STEPS = 3
MOST_NAMES = 30  # names that are written out to be pasted
SHOWN_SENTENCES = 3
SHOWN_ITEMS = 5  # words and constructions of one of them
OUT_OF_SCOPE_SENTENCES = (
    "add sentences that your program has no answer to, so that they are refused:"
)
SECOND_READER = (
    "a second reader often answers more (docs/hybrid.md). It downloads the weights of a T5, and "
    "trains much longer; 'embedded' downloads nothing. Add the option"
)
# A code has a digit and no space: A-1042, KX200.
_CODE = re.compile(r"[A-Za-z]*[-_./]?\d[\w./-]*")
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class NextStep:
    """What to do, and lines to paste for it. `slots` are those that it declares.

    In Python, `TrainSettings(slots=step.slots)` is what the lines are in a settings file.

    >>> print(NextStep("add sentences out of scope:", ("tell me a joke<TAB>OUT_OF_SCOPE",)))
    add sentences out of scope:
        tell me a joke<TAB>OUT_OF_SCOPE
    """

    text: str
    lines: tuple[str, ...] = ()
    slots: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def declaring(cls, text: str, slots: Mapping[str, Mapping[str, Any]]) -> NextStep:
        """The step that declares slots in a settings file."""
        lines = ["[slots]"]
        for name, table in slots.items():
            ((kind, value),) = table.items()
            lines.append(f"{name} = {{ {kind} = {_toml(value)} }}")
        return cls(text, tuple(lines), slots)

    def __str__(self) -> str:
        """
        >>> print(NextStep.declaring("declare a slot:", {"city": {"gazetteer": ["Rome", "Oslo"]}}))
        declare a slot:
            [slots]
            city = { gazetteer = ["Rome", "Oslo"] }
        """
        return "\n".join([self.text, *(f"    {line}" for line in self.lines)])


def _toml(value: str | Sequence[str] | Mapping[str, str]) -> str:
    """A value as TOML writes it; a regular expression is read best without escapes.

    >>> print(_toml({"euros": "EUR"}), _toml("[A-Z]\\\\d+"), _toml(["a'b"]))
    { "euros" = "EUR" } '[A-Z]\\d+' ["a'b"]
    """
    if isinstance(value, Mapping):
        pairs = [f"{_quoted(name)} = {_quoted(of)}" for name, of in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value else _quoted(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    # The escapes of JSON are among those of TOML.
    return json.dumps(text, ensure_ascii=False)


def next_steps(
    examples: Sequence[Example],
    text: Preprocessor,
    *,
    has_second_reader: bool,
    has_out_of_scope: bool,
    is_unsure: bool = False,
) -> list[NextStep]:
    """The steps that would help a model of raw examples most, the most useful first.

    A model that `is_unsure` of most sentences is helped by templates.
    """
    steps = [slot_steps(examples, text.slots.slots)]
    if is_unsure:
        steps.append(template_steps(examples, text.slots.slots))
    steps.append(example_steps(examples, text))
    others = []
    if not has_out_of_scope:
        others.append(
            NextStep(OUT_OF_SCOPE_SENTENCES, ("tell me a joke<TAB>OUT_OF_SCOPE",))
        )
    if not has_second_reader:
        others.append(NextStep(SECOND_READER, ("--seq2seq google/flan-t5-small",)))
    # What is not shown is not computed.
    return list(islice(chain(*steps, others), MOST_STEPS))


def slot_steps(
    examples: Sequence[Example], slots: Sequence[Slot]
) -> Iterator[NextStep]:
    """What the examples show to be a list, codes or other names of values, and should be declared."""
    values = argument_values(examples)
    kinds = {slot.name: slot.kind for slot in slots}
    tables: dict[str, Mapping[str, Any]] = {}
    reasons: list[str] = []
    lists: dict[frozenset[str], list[str]] = {}
    for name, counts in values.items():
        is_text = kinds.get(name) == "text"
        if all(map(_CODE.fullmatch, counts)):
            # Sentences must have the codes, which no slot reads yet.
            if is_text or (name not in kinds and _are_said(name, counts, examples)):
                tables[name] = {"regex": code_expression(counts)}
                reasons.append(f"'{name}' (codes)")
        # A value that occurs once makes it likely that the next one is new (Good-Turing).
        elif is_text and min(counts.values()) > 1 and len(counts) <= MOST_NAMES:
            lists.setdefault(frozenset(counts), []).append(name)
    for names, (first, *others) in lists.items():
        # One list serves all arguments with these values.
        tables[first] = {"gazetteer": sorted(names)}
        same = "".join(f", also of '{name}'" for name in others)
        reasons.append(f"'{first}' ({counted(len(names), 'value')}{same})")
    for name, aliases in synonyms(examples).items():
        is_free = name not in kinds and name not in tables
        if is_free and len(aliases) <= MOST_NAMES and is_slot_name(name):
            tables[name] = {"gazetteer": dict(aliases)}
            alias, value = next(iter(aliases.items()))
            reasons.append(f"'{name}' ({alias} is {value})")
    if tables:
        *firsts, last = reasons
        which = f"{', '.join(firsts)} and {last}" if firsts else last
        text = (
            f"declare the values of {which} in nqg.toml (lists with all names that may come), and "
            "train with --settings nqg.toml:"
        )
        yield NextStep.declaring(text, tables)


def _are_said(
    name: str, values: Mapping[str, int], examples: Sequence[Example]
) -> bool:
    """Whether most examples with a value of an argument say it, and there are two values or more."""
    said = []
    for example in examples:
        for call in _calls([example]):
            value = call.arguments.get(name)
            if isinstance(value, str):
                said.append(value.lower() in example.source.lower())
    return len(values) > 1 and is_slot_name(name) and 2 * sum(said) > len(said)


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


def example_steps(
    examples: Sequence[Example], text: Preprocessor
) -> Iterator[NextStep]:
    """The sentences that show most words and constructions alone: each needs another one like it."""
    single = singletons(examples, text)
    alone: dict[int, list[str]] = {}
    for kind in ("templates", "words"):
        for item, line in single[kind].items():
            alone.setdefault(line, []).append(item)
    if not alone:
        return
    lines = []
    ranked = sorted(alone, key=lambda line: (-len(alone[line]), line))
    for line in ranked[:SHOWN_SENTENCES]:
        items = ", ".join(f"'{item}'" for item in alone[line][:SHOWN_ITEMS])
        lines.append(f"{examples[line - 1].source}    (alone with {items})")
    found = []
    for kind, noun in (("templates", "construction"), ("words", "word")):
        if single[kind]:
            found.append(counted(len(single[kind]), noun))
    yield NextStep(
        f"write a second sentence for what one alone shows ({' and '.join(found)}; "
        "`nqg check-data` lists them), first for those that show most:",
        tuple(lines),
    )
