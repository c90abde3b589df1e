"""Grammars of legal programs that have slots, their placeholders or their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

from nqg.grammar.grammar import SLOT, Rule, Symbols
from nqg.slots.delexicalize import slot_of, substitute
from nqg.slots.matcher import SlotMatcher, fill_slot
from nqg.text.brackets import QUOTES
from nqg.text.programs import ProgramTokenizer
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)
from nqg.types.tree_automaton import Signatures


def add_placeholder_productions(
    target_grammar: TargetGrammar, programs: Iterable[Sequence[str]]
) -> TargetGrammar:
    """The grammar of delexicalised programs, whose placeholders stand for their slots.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time )")
    >>> programs = [("wake", "(", "@time_1", ")"), ("wake", "(", "@time_2", ")")]
    >>> print(add_placeholder_productions(alarms, programs), end="")
    <program> ::= wake ( <@time> )
    <@time> ::= @time_1 | @time_2
    """
    # Placeholders are sorted, so that the grammar is the same in every run.
    slots = {}
    for token in sorted({*chain.from_iterable(programs)}):
        slot = slot_of(token)
        if slot:
            slots[token] = slot
    productions = _with_slot_categories(target_grammar, slots.values())
    for token, slot in slots.items():
        productions.append(Production(Category(slot), (token,)))
    return TargetGrammar(tuple(productions))


def encoded_grammar(
    target_grammar: TargetGrammar, programs: ProgramTokenizer
) -> TargetGrammar:
    """A grammar of JSON as one of the calls that are learned in its stead, if any are.

    >>> from nqg.text.json_calls import JsonCalls
    >>> calls = ProgramTokenizer("code", calls=JsonCalls("name", "arguments"))
    >>> lamps = TargetGrammar.parse('<call> ::= { " name " : " on " , " arguments " : { <what> } }\\n'
    ...                             '<what> ::= " room " : <#>')
    >>> print(encoded_grammar(lamps, calls), end="")
    <call> ::= on ( <what> )
    <what> ::= room = <#>
    """
    if programs.calls is None:
        return target_grammar
    return _with_rights(target_grammar, programs.calls.encode)


def decoded_grammar(
    target_grammar: TargetGrammar, programs: ProgramTokenizer
) -> tuple[TargetGrammar, ProgramTokenizer]:
    """The grammar of programs as people see them, and how these are written.

    `encoded_grammar` inverts it.
    """
    if programs.calls is None:
        return target_grammar, programs
    decoded = _with_rights(target_grammar, programs.calls.decode)
    return decoded, replace(programs, calls=None)


def _with_rights(
    target_grammar: TargetGrammar,
    changed: Callable[[Sequence[TargetSymbol]], tuple[TargetSymbol, ...]],
) -> TargetGrammar:
    return TargetGrammar(
        tuple(
            Production(production.left, changed(production.right))
            for production in target_grammar.productions
        )
    )


def allow_number_slots(
    target_grammar: TargetGrammar, slots: Sequence[str]
) -> TargetGrammar:
    """The grammar in which slots, whose values are numbers, stand wherever a number may.

    >>> grammar = TargetGrammar.parse("<query> ::= limit <number>\\n<number> ::= <#>")
    >>> print(allow_number_slots(grammar, ["amount"]), end="")
    <query> ::= limit <number>
    <number> ::= <#> | @amount
    """
    more = []
    for production in target_grammar.productions:
        if Wildcard.NUMBER in production.right:
            for slot in slots:
                number: dict[TargetSymbol, TargetSymbol] = {
                    Wildcard.NUMBER: f"{SLOT}{slot}"
                }
                more.append(
                    Production(production.left, substitute(production.right, number))
                )
    return TargetGrammar((*target_grammar.productions, *more))


# The most tokens of a value in a rule by hand. It bounds the spans that are tried.
MAX_LITERAL_LENGTH = 16


def allow_literal_values(
    target_grammar: TargetGrammar, targets: Iterable[Symbols], slots: SlotMatcher
) -> TargetGrammar:
    """The grammar in which values that targets write down stand where their slots may.

    So a rule by hand may have a value that no training program has: what would be read as that
    value of a slot, or any words in quotes where there is free text.
    """
    values = set()
    for target in targets:
        # Every short run of tokens without a non-terminal may be a value.
        for start, end in combinations(range(len(target) + 1), 2):
            run = tuple(
                symbol for symbol in target[start:end] if isinstance(symbol, str)
            )
            if len(run) < end - start or end - start > MAX_LITERAL_LENGTH:
                continue
            for mention in slots.mentions(run):
                if mention.end == len(run) and mention.value == run:
                    values.add((mention.token, run))
            # The padding gives neighbours to runs at the ends of a target, too.
            before, after = ("", *target, "")[start], ("", *target, "")[end + 1]
            if before == after and before in QUOTES and before not in run:
                values.update((f"{SLOT}{slot}", run) for slot in slots.free_text)
    more = set()
    for production in target_grammar.productions:
        for slot, run in values:
            more.add(
                Production(production.left, fill_slot(production.right, slot, run))
            )
    # Sets have no order: sorting keeps the grammar the same in every run.
    new = sorted(more.difference(target_grammar.productions), key=str)
    return TargetGrammar((*target_grammar.productions, *new))


def legal_with(
    rules: Iterable[Rule], legal: TargetGrammar | None, slots: SlotMatcher
) -> TargetGrammar | None:
    """The grammar of legal programs, in which rules by hand may write values down where it has
    slots.
    """
    if legal is None or not slots.slots:
        return legal
    signatures = Signatures(legal)
    illegal = [rule.target for rule in rules if not signatures.fits(rule.target)]
    return allow_literal_values(legal, illegal, slots)


def open_slot_categories(
    target_grammar: TargetGrammar, quotes: Mapping[str, str]
) -> TargetGrammar:
    """The grammar of programs with values for slots, given the quotes around those of each slot.

    >>> alarms = TargetGrammar.parse("<program> ::= wake ( @time , ' @name ' )")
    >>> print(open_slot_categories(alarms, {"time": "", "name": "'"}), end="")
    <program> ::= wake ( <@time> , ' <@name> ' )
    <@time> ::= <...>
    <@name> ::= <'> | <@name> <'>
    """
    productions = _with_slot_categories(
        target_grammar, [f"{SLOT}{slot}" for slot in quotes]
    )
    # Slots that no production mentions get no productions.
    used = {*chain.from_iterable(production.right for production in productions)}
    for slot, quote in quotes.items():
        category = Category(f"{SLOT}{slot}")
        if category not in used:
            continue
        if quote:
            productions.append(Production(category, (Wildcard.UNQUOTED,)))
            productions.append(Production(category, (category, Wildcard.UNQUOTED)))
        else:
            productions.append(Production(category, (Wildcard.TOKENS,)))
    return TargetGrammar(tuple(productions))


def _with_slot_categories(
    target_grammar: TargetGrammar, slots: Iterable[str]
) -> list[Production]:
    """The productions with a category in the place of each slot."""
    categories: dict[TargetSymbol, TargetSymbol] = {
        slot: Category(slot) for slot in slots
    }
    return [
        Production(production.left, substitute(production.right, categories))
        for production in target_grammar.productions
    ]
