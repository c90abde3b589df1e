"""Grammars of legal programs in which slots, their placeholders or their values stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from nqg.grammar.grammar import SLOT, Symbols
from nqg.slots.delexicalize import slot_of
from nqg.slots.matcher import SlotMatcher
from nqg.text.brackets import QUOTES
from nqg.types.target_grammar import Category, Production, TargetGrammar, TargetSymbol, Wildcard


def add_placeholder_productions(
    target_grammar: TargetGrammar, programs: Iterable[Sequence[str]]
) -> TargetGrammar:
    """The grammar of delexicalised programs, in which the placeholders of these stand for their slots.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time )")
    >>> programs = [("wake", "(", "@time_1", ")"), ("wake", "(", "@time_2", ")")]
    >>> print(add_placeholder_productions(alarms, programs), end="")
    <program> ::= wake ( <@time> )
    <@time> ::= @time_1 | @time_2
    """
    used = {
        token: slot for token in sorted(chain.from_iterable(programs)) if (slot := slot_of(token))
    }
    productions = _with_slot_categories(target_grammar, used.values())
    return TargetGrammar(
        (*productions, *(Production(Category(slot), (token,)) for token, slot in used.items()))
    )


def allow_number_slots(target_grammar: TargetGrammar, slots: Iterable[str]) -> TargetGrammar:
    """The grammar in which slots, whose values are numbers, stand wherever a number may.

    >>> grammar = TargetGrammar.parse("<query> ::= limit <number>\\n<number> ::= <#>")
    >>> print(allow_number_slots(grammar, ["amount"]), end="")
    <query> ::= limit <number>
    <number> ::= <#> | @amount
    """
    tokens = [f"{SLOT}{slot}" for slot in slots]
    more = [
        Production(
            each.left,
            tuple(token if symbol is Wildcard.NUMBER else symbol for symbol in each.right),
        )
        for each in target_grammar.productions
        if Wildcard.NUMBER in each.right
        for token in tokens
    ]
    return TargetGrammar((*target_grammar.productions, *more)) if more else target_grammar


MAX_LITERAL_LENGTH = 16  # tokens of a value in a rule by hand


def allow_literal_values(
    target_grammar: TargetGrammar, targets: Iterable[Symbols], slots: SlotMatcher
) -> TargetGrammar:
    """The grammar in which values that targets write down stand where their slots may.

    So a rule by hand may have a value that no training program has: what would be read as that value of a slot, or
    any words in quotes where there is free text.
    """
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for target in targets:
        for start in range(len(target)):
            for end in range(start + 1, min(start + MAX_LITERAL_LENGTH, len(target)) + 1):
                run = tuple(each for each in target[start:end] if isinstance(each, str))
                if len(run) < end - start:
                    break
                read = {
                    each.slot
                    for each in slots.mentions(run)
                    if (each.end, each.value) == (len(run), run)
                }
                before, after = target[max(start - 1, 0)], target[min(end, len(target) - 1)]
                is_quoted = before == after and before in QUOTES and before not in run
                texts = {*slots.free_text} if is_quoted else set()
                found |= dict.fromkeys((f"{SLOT}{slot}", run) for slot in sorted(read | texts))
    more = {
        Production(
            each.left,
            tuple(
                token for symbol in each.right for token in (run if symbol == slot else (symbol,))
            ),
        )
        for slot, run in found
        for each in target_grammar.productions
        if slot in each.right
    }
    new = sorted(more.difference(target_grammar.productions), key=str)
    return TargetGrammar((*target_grammar.productions, *new)) if new else target_grammar


def open_slot_categories(target_grammar: TargetGrammar, quotes: Mapping[str, str]) -> TargetGrammar:
    """The grammar of programs with values in the place of slots, given the quotes around those of each slot.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time , ' @name ' )")
    >>> print(open_slot_categories(alarms, {"time": "", "name": "'"}), end="")
    <program> ::= wake ( <@time> , ' <@name> ' )
    <@time> ::= <...>
    <@name> ::= <'> | <@name> <'>
    """
    productions = _with_slot_categories(target_grammar, [f"{SLOT}{slot}" for slot in quotes])
    for slot, quote in quotes.items():
        category = Category(f"{SLOT}{slot}")
        rights = (
            [(Wildcard.UNQUOTED,), (category, Wildcard.UNQUOTED)] if quote else [(Wildcard.TOKENS,)]
        )
        if any(category in each.right for each in productions):
            productions += [Production(category, right) for right in rights]
    return TargetGrammar(tuple(productions))


def _with_slot_categories(target_grammar: TargetGrammar, slots: Iterable[str]) -> list[Production]:
    """The productions with a category in the place of each slot."""
    categories: dict[TargetSymbol, TargetSymbol] = {slot: Category(slot) for slot in slots}
    return [
        Production(each.left, tuple(categories.get(symbol, symbol) for symbol in each.right))
        for each in target_grammar.productions
    ]
