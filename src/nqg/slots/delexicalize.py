"""Pairs and rules with placeholders for values: `wake me at @time_1`, `alarm ( @time_1 )`.

Induction sees delexicalised examples, in which placeholders are terminals. Afterwards they become
non-terminals of rules, below which rules such as `@time ### @time` read the slots.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from nqg.grammar.grammar import SLOT, NonTerminal, Rule, Symbol
from nqg.slots.matcher import (
    AnySymbol,
    Mention,
    Sentence,
    SlotMatcher,
    Tokens,
    as_tokenized,
    find_tokens,
    is_word,
    longest_spans,
    spans_like,
    words_of,
)
from nqg.slots.slot import Slot
from nqg.text.brackets import QUOTATION_MARKS, QUOTES

_PLACEHOLDER = re.compile(rf"({SLOT}.+)_[0-9]+")

Pair = tuple[Sentence, Sequence[str]]


@dataclass(frozen=True, slots=True)
class DelexicalizedPair:
    """A pair with placeholders for the values that both sides have.

    `mentions` were replaced, in the order of the source; each has one of the `placeholders`.
    """

    source: Tokens
    target: Tokens
    mentions: tuple[Mention, ...]
    placeholders: tuple[str, ...]


def placeholders_of(mentions: Sequence[Mention]) -> list[str]:
    """A placeholder for each mention: values of a slot are numbered as they come, equal ones alike.

    >>> rome, oslo = Mention(0, 1, "city", ("rome",)), Mention(2, 3, "city", ("oslo",))
    >>> placeholders_of([rome, oslo, rome._replace(start=4, end=5)])
    ['@city_1', '@city_2', '@city_1']
    """
    placeholders = []
    values = defaultdict[str, list[Tokens]](list)
    for mention in mentions:
        numbered = values[mention.slot]
        if mention.value not in numbered:
            numbered.append(mention.value)
        placeholders.append(f"{mention.token}_{numbered.index(mention.value) + 1}")
    return placeholders


def delexicalize(
    source: Sequence[str],
    target: Sequence[str],
    mentions: Iterable[Mention],
    names: Callable[[Sequence[Mention]], Sequence[str]] = placeholders_of,
) -> DelexicalizedPair:
    """Replace, in both, the longest mentions whose value the target has; all other words stay.

    Where words have several readings that the target has, each is used in turn, in the order of the
    target, then in that of `mentions`: "does the colorado cross colorado" has a river and a state.

    >>> six = Mention(3, 4, "time", ("6:00",))
    >>> pair = delexicalize("wake me at six".split(), "alarm ( 6:00 )".split(), [six])
    >>> " ".join(pair.source), " ".join(pair.target)
    ('wake me at @time_1', 'alarm ( @time_1 )')
    """
    target = tuple(target)
    # Mentions whose values the target has.
    starts = {}
    present = []
    for mention in mentions:
        start = find_tokens(mention.value, target)
        if start is not None:
            starts[mention.value] = start
            present.append(mention)

    # One reading of each of the longest spans.
    def rank(mention: Mention) -> tuple[bool, int]:
        return mention[2:] in used, starts[mention.value]

    chosen = []
    used = set()
    for readings in longest_spans(present):
        chosen.append(min(readings, key=rank))
        used.add(chosen[-1][2:])
    # A value may stand nowhere but inside a longer one: then its mention stays as it is.
    while True:
        placeholders = tuple(names(chosen))
        new_target = _with_placeholders(target, dict(zip(placeholders, chosen)))
        replaced = [
            mention for name, mention in zip(placeholders, chosen) if name in new_target
        ]
        if len(replaced) == len(chosen):
            break
        chosen = replaced
    new_source = list(source)
    for mention, name in zip(reversed(chosen), reversed(placeholders)):
        new_source[mention.start : mention.end] = [name]
    return DelexicalizedPair(tuple(new_source), new_target, tuple(chosen), placeholders)


def _with_placeholders(target: Tokens, mentions: Mapping[str, Mention]) -> Tokens:
    """`target` with a name for each value, longer values first; names of equal values
    take turns.
    """
    names = defaultdict(list)
    for name, mention in mentions.items():
        names[mention.value].append(name)
    for value in sorted(names, key=len, reverse=True):
        turns = names[value]
        start = find_tokens(value, target)
        while start is not None:
            target = (*target[:start], turns[0], *target[start + len(value) :])
            if len(turns) > 1:
                turns.pop(0)
            start = find_tokens(value, target, start + 1)
    return target


def delexicalize_pairs(
    slots: SlotMatcher,
    pairs: Sequence[Pair],
    mentions: Sequence[Sequence[Mention]] | None = None,
) -> list[DelexicalizedPair]:
    """Training pairs with placeholders, given the mentions if they were found before.

    Of readings with equal values the one counts that stands behind the same key elsewhere:
    `percent = 7` is a number where `percent = 35` is one.
    """
    if mentions is None:
        mentions = [slots.mentions(sentence) for sentence, _ in pairs]
    readings = [
        (*values, *texts) for values, texts in zip(mentions, quoted_texts(slots, pairs))
    ]
    # How often the values of each slot stand behind each key.
    counts: Counter[tuple[str, str | None] | None] = Counter()
    for (_, target), candidates in zip(pairs, readings):
        counts.update(_slot_and_key(mention, tuple(target)) for mention in candidates)
    counts[None] = 0
    order = list(slots.quotes)
    delexicalized = []
    for (sentence, target), candidates in zip(pairs, readings):

        def rank(mention: Mention, target: Tokens = tuple(target)) -> tuple[int, int]:
            return -counts[_slot_and_key(mention, target)], order.index(mention.slot)

        ranked = sorted(candidates, key=rank)
        delexicalized.append(delexicalize(words_of(sentence), target, ranked))
    return delexicalized


def _slot_and_key(mention: Mention, target: Tokens) -> tuple[str, str | None] | None:
    """The slot of a value, and the key before it in a target; None if the target lacks
    the value.
    """
    start = find_tokens(mention.value, target)
    if start is None:
        return None
    return mention.slot, key_before(target, start)


def quoted_texts(slots: SlotMatcher, pairs: Sequence[Pair]) -> list[list[Mention]]:
    """Free text that programs have.

    A slot that is called like a key of the programs has that key's values.
    """
    mentions: list[list[Mention]] = [[] for _ in pairs]
    if not slots.text_slots:
        return mentions
    tokens = chain.from_iterable(target for _, target in pairs)
    keys = set(map(str.casefold, tokens))
    by_key = {}
    unnamed: Slot | None = None
    # Go through the slots in reverse, so that the first of several wins.
    for slot in reversed(slots.text_slots):
        name = slot.name.casefold()
        if name in keys:
            by_key[name] = slot
        else:
            unnamed = slot
    for (sentence, target), texts in zip(pairs, mentions):
        tokenized = as_tokenized(sentence)
        for start, end in literals(target):
            key = key_before(target, start) or ""
            text_slot = by_key.get(key.casefold(), unnamed)
            if text_slot is None:
                continue
            value = tuple(target[start:end])
            # Similar words count only if the slot would write exactly this value for
            # them.
            for span in spans_like(tokenized.words, value, text_slot.length or 1):
                if slots.text_value(tokenized, text_slot.name, *span) == value:
                    texts.append(Mention(*span, text_slot.name, value))
    return mentions


def key_before(target: Sequence[str], start: int) -> str | None:
    """The word before a value: `percent` in `dim ( percent = 35 )`."""
    return next(filter(is_word, reversed(target[:start])), None)


def literals(target: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where a program has text.

    Text stands inside of quotes. Without any quotes in the program, it stands between other marks,
    but not before `(`, `=` or `:`.
    """
    has_quotes = not QUOTATION_MARKS.keys().isdisjoint(target)
    start = 0
    while start < len(target):
        end = start
        if has_quotes:
            closing = QUOTATION_MARKS.get(target[start], "")
            # A quote that is never closed is skipped like any other token.
            if closing in target[start + 1 :]:
                end = list(target).index(closing, start + 1)
            if end > start + 1:
                yield start + 1, end
        else:
            # The words up to the next mark are one literal, unless they name what
            # follows.
            while end < len(target) and is_word(target[end]):
                end += 1
            if end > start and (*target, "")[end] not in ("(", "=", ":"):
                yield start, end
        start = end + 1


def slot_of(placeholder: Symbol) -> str | None:
    """The slot's terminal that a numbered placeholder stands for; None for other symbols.

    >>> slot_of("@time_1"), slot_of("at"), slot_of(NonTerminal(1))
    ('@time', None, None)
    """
    match = _PLACEHOLDER.fullmatch(str(placeholder))
    return match[1] if match else None


def strip_indices(tokens: Iterable[str]) -> tuple[str, ...]:
    """Delexicalised tokens with every placeholder as its slot's terminal: what a target grammar
    has.

    >>> strip_indices(("wake", "(", "@time_1", ")"))
    ('wake', '(', '@time', ')')
    """
    return tuple(slot_of(token) or token for token in tokens)


def substitute(
    symbols: Iterable[AnySymbol], replacements: Mapping[AnySymbol, AnySymbol]
) -> tuple[AnySymbol, ...]:
    return tuple(replacements.get(symbol, symbol) for symbol in symbols)


def slot_seeds(pairs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[Rule]:
    """The rules that a search over delexicalised examples begins with.

    Every placeholder yields itself, and the keyword argument whose value it is. So do words that
    are the value of one: what is left to a search is how arguments are joined.

    >>> source, target = "wake bob at @time_1", "wake ( who = bob , at = ' @time_1 ' )"
    >>> for rule in slot_seeds([(source.split(), target.split())]):
    ...     print(rule)
    @time_1 ### @time_1
    @time_1 ### at = ' @time_1 '
    bob ### who = bob
    """
    seeds = set()
    for source, target in pairs:
        for placeholder in filter(slot_of, source):
            seeds.add(Rule((placeholder,), (placeholder,)))
        # Plain values are looked up in the sentence; a placeholder must be a whole
        # value.
        for argument, value in _keyword_arguments(tuple(target)):
            if not any(map(slot_of, value)):
                for start, end in spans_like(source, value, len(source)):
                    seeds.add(Rule(tuple(source[start:end]), argument))
            elif len(value) == 1 and value[0] in source:
                seeds.add(Rule(value, argument))
    # Seeds of placeholders come first; their texts make the order reproducible.
    return sorted(seeds, key=lambda rule: (not slot_of(rule.source[0]), str(rule)))


def _keyword_arguments(target: Tokens) -> Iterator[tuple[Tokens, Tokens]]:
    """The arguments `key = value` and `"key" : "value"` of a program, each whole and its value
    alone.

    `city . name = ' @name_1 '` is a comparison, and not an argument called `name`.
    """
    for at in range(1, len(target) - 1):
        # A quoted key takes three tokens before the mark, a bare one takes one.
        start = at - 3 if at >= 3 and target[at - 1] in QUOTES else at - 1
        if target[at] not in ("=", ":") or target[max(start - 1, 0)] == ".":
            continue
        end = at + 2
        value = target[at + 1 : end]
        # A quoted value runs to its closing quote, which belongs to the argument.
        if value[0] in QUOTES and value[0] in target[end:]:
            value = target[end : target.index(value[0], end)]
            end += len(value) + 1
        if any(map(is_word, value)):
            yield target[start:end], value


def relexicalize_rules(
    rules: Iterable[Rule], free_text: Collection[str] = ()
) -> list[Rule]:
    """Rules over placeholders as rules that read slots: placeholders become non-terminals.

    A rule that reads nothing but a placeholder becomes one of the slot. The plainest such rule is
    there for every slot. For a slot of free text, of which every run of words is one more
    alternative, it is there only where a rule needs it. Where a placeholder stands on one side
    only, or twice in the source, there is no rule.

    >>> rule = Rule.parse("wake NT_1 at @time_1 ### wake ( NT_1 , @time_1 )")
    >>> for rule in relexicalize_rules([rule]):
    ...     print(rule)
    @time ### @time
    wake NT_1 at NT_2 ### wake ( NT_1 , NT_2 )
    """
    relexicalized: dict[Rule, None] = {}
    needed = set()
    texts = {f"{SLOT}{slot}" for slot in free_text}
    for rule in rules:
        slots = set(filter(None, map(slot_of, rule.source + rule.target)))
        if len(rule.source) > 1 or not slots <= texts:
            needed |= slots
        new_rule = _relexicalized(rule)
        if new_rule:
            relexicalized[new_rule] = None
    plainest = [Rule((slot,), (slot,)) for slot in sorted(needed)]
    return [*(rule for rule in plainest if rule not in relexicalized), *relexicalized]


def _relexicalized(rule: Rule) -> Rule | None:
    arguments = list(filter(_is_argument, rule.source))
    numbers: dict[Symbol, Symbol] = {}
    for symbol in arguments:
        numbers[symbol] = NonTerminal(len(numbers) + 1)
    if len(numbers) < len(arguments) or set(numbers) != set(
        filter(_is_argument, rule.target)
    ):
        return None
    slot = slot_of(rule.source[0])
    if slot and len(rule.source) == 1:
        return Rule((slot,), strip_indices(map(str, rule.target)))
    return Rule(substitute(rule.source, numbers), substitute(rule.target, numbers))


def _is_argument(symbol: Symbol) -> bool:
    return isinstance(symbol, NonTerminal) or slot_of(symbol) is not None


def index_placeholders(
    rules: Iterable[Rule], sources: Iterable[Sequence[str]]
) -> Iterator[Rule]:
    """Rules that read slots, one for each placeholder of delexicalised sentences.

    A search in these sentences begins with them.

    >>> print(*index_placeholders([Rule.parse("@time ### at = @time")], [["wake", "me", "@time_2"]]))
    @time_2 ### at = @time_2
    """
    placeholders = sorted(filter(slot_of, {*chain.from_iterable(sources)}))
    for rule in rules:
        if not str(rule.source[0]).startswith(SLOT):
            yield rule
        for placeholder in placeholders:
            slot = slot_of(placeholder)
            if slot and rule.source == (slot,):
                yield Rule((placeholder,), substitute(rule.target, {slot: placeholder}))
