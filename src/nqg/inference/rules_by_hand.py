"""Rules written by hand: added to a trained model, checked against its types, and taken away again.

What they score, and how confident an answer with them is, decide `nqg.model.scorer` and `nqg.model.confidence`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from nqg.errors import FormatError, Place
from nqg.files import numbered_lines
from nqg.grammar.grammar import (
    SEPARATOR,
    Grammar,
    NonTerminal,
    Rule,
    check_arity,
    format_symbol,
    read_symbol,
    rules_in,
)
from nqg.inference.gaps import SHOWN_TYPES, listed
from nqg.model.checkpoint import MOST_NON_TERMINALS, SavedModel
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.slots.matcher import SlotMatcher
from nqg.slots.target_grammars import allow_literal_values
from nqg.types.target_grammar import Category, TargetGrammar, format_symbols
from nqg.types.tree_automaton import Fragment, Signatures, derivable_signatures

Places = Mapping[Rule, Place]  # of rules that come from a file
NO_PLACES: Places = MappingProxyType({})


def read_rules(path: Path, text: Preprocessor) -> dict[Rule, Place]:
    """The rules in a file, one a line, and where they stand; a malformed line is refused with file, line and reason."""
    return rules_in(
        ((place, tokenized_rule(line, text)) for place, line in numbered_lines(path)),
        MOST_NON_TERMINALS,
    )


def tokenized_rule(rule: str, text: Preprocessor) -> str:
    """A rule as grammars have it; it may be written as people write sentences and training data programs.

    >>> text = Preprocessor.fit([("Turn on the lamp.", "on(lamp)"), ("Is the fan on?", "is_on(fan)")])
    >>> tokenized_rule("Good night, NT_1! ### off(NT_1)", text)
    'good night NT_1 ### off ( NT_1 )'
    >>> tokenized_rule("good night NT_1 ### off ( NT_1 )", text)
    'good night NT_1 ### off ( NT_1 )'
    """
    source, separator, target = rule.partition(f" {SEPARATOR} ")
    if text.is_plain or not separator or rule.startswith("#"):
        return rule
    written = [
        (source[token.start : token.end], token.text) for token in text.sentences.tokens(source)
    ]
    words = [raw if isinstance(read_symbol(raw), NonTerminal) else token for raw, token in written]
    if any(len(text.programs.normalized(token)) > 1 for token in target.split()):
        target = " ".join(text.programs.normalized(target))
    return f"{' '.join(words)}{separator}{target}"


def with_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model with more rules by hand; errors name the places of those that come from a file."""
    new, known = [], dict.fromkeys(model.grammar.rules)
    for each in rules:
        rule = Rule.parse(tokenized_rule(each, model.text)) if isinstance(each, str) else each
        check_arity(rule, MOST_NON_TERMINALS)
        if rule in known:
            how = (
                "given twice"
                if rule in new
                else "written by hand"
                if rule in model.by_hand
                else "learned"
            )
            raise refused(rule, f"the model has it already: it was {how}", places)
        known[rule] = None
        new.append(rule)
    model = replace(model, target_grammar=legal_with(new, model.target_grammar, model.text.slots))
    found = model.with_rules_by_hand([*model.by_hand, *new])
    for rule, reason in misfits(found.grammar, model.target_grammar, new).items():
        raise refused(rule, reason, places)
    return found


def legal_with(
    rules: Iterable[Rule], legal: TargetGrammar | None, slots: SlotMatcher
) -> TargetGrammar | None:
    """The grammar of legal programs, in which rules by hand may write values down where it has slots."""
    if legal is None or not slots.slots:
        return legal
    finder = Signatures(legal)
    return allow_literal_values(
        legal, [rule.target for rule in rules if not finder.fits(rule.target)], slots
    )


def without_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model without some of its rules by hand; one that was trained stays a rule, like any that was learned."""
    left = dict.fromkeys(model.by_hand)
    for each in rules:
        rule = Rule.parse(tokenized_rule(each, model.text)) if isinstance(each, str) else each
        if rule not in left:
            how = (
                "learned from examples, and stays"
                if rule in model.grammar.numbers
                else "not a rule of the model"
            )
            raise refused(rule, f"not written by hand: it is {how}", places)
        del left[rule]
    return model.with_rules_by_hand(left)


def refused(rule: Rule, reason: str, places: Places) -> FormatError:
    return FormatError(f"rule '{rule}': {reason}", places.get(rule))


def misfits(
    grammar: Grammar, target_grammar: TargetGrammar | None, rules: Iterable[Rule]
) -> dict[Rule, str]:
    """For each of some rules of a grammar that no derivation of a legal program can use the reason."""
    typing = grammar.typed_by(target_grammar).typing
    unused = [rule for rule in rules if typing and not typing.signatures[grammar.numbers[rule]]]
    if not unused or target_grammar is None:
        return {}
    finder, derivable = (
        Signatures(target_grammar),
        derivable_signatures(grammar.rules, target_grammar),
    )
    known = {signature.fragment for own in derivable for signature in own}
    found = {}
    for rule in unused:
        signatures, own = finder.of(rule.target), derivable[grammar.numbers[rule]]
        indices = [symbol.index for symbol in rule.target if isinstance(symbol, NonTerminal)]
        asked = [
            (index, {each.arguments[at] for each in signatures}) for at, index in enumerate(indices)
        ]
        missing = [
            f"{_named(parts)}, which NT_{index} has to be"
            for index, parts in asked
            if not parts & known
        ]
        if not signatures:
            reason = illegal_token(rule, finder)
            found[rule] = f"{reason}; `nqg types` shows what is legal, and --target-grammar sets it"
        elif not own:
            found[rule] = (
                f"no rule derives {missing[0] if missing else 'what its non-terminals have to be'}"
            )
        else:
            parts = _named({signature.fragment for signature in own})
            found[rule] = f"its target is {parts}, which stands in no program that the rules derive"
    return found


def illegal_token(rule: Rule, finder: Signatures) -> str:
    """What of a target that belongs to no legal program is wrong: the token in whose place something else would do.

    >>> finder = Signatures(TargetGrammar.parse("<command> ::= wake ( <time> ) | play ( <genre> )\\n"
    ...                                         "<time> ::= 7 | 8\\n<genre> ::= jazz"))
    >>> illegal_token(Rule.parse("wake me up to jazz ### wake ( jazz )"), finder)
    "'jazz' is not a <time>"
    >>> illegal_token(Rule.parse("sing me a song ### sing ( jazz )"), finder)
    "no legal program has 'sing'"
    """
    if strange := [
        format_symbol(symbol)
        for symbol in rule.target
        if isinstance(symbol, str) and not finder.fits((symbol,))
    ]:
        return f"no legal program has {listed(dict.fromkeys(strange))}"
    tokens, found = (
        tuple(format_symbol(symbol) for symbol in rule.target),
        list[tuple[bool, int, str]](),
    )
    for at, symbol in enumerate(rule.target):
        if isinstance(symbol, str) and len(rule.target) > 1:
            other = (*rule.target[:at], NonTerminal(rule.arity + 1), *rule.target[at + 1 :])
            before = sum(isinstance(each, NonTerminal) for each in rule.target[:at])
            if wanted := {signature.arguments[before] for signature in finder.of(other)}:
                is_token = not any(isinstance(part[0], Category) for part in wanted)
                found.append((is_token, at, f"'{tokens[at]}' is not {_named(wanted)}"))
    return min(found)[2] if found else f"'{' '.join(tokens)}' is part of no legal program"


def _named(parts: Collection[Fragment]) -> str:
    """What a target may stand for: types where there are any, single symbols rather than runs of them."""
    ranks = {format_symbols(part): (len(part), not isinstance(part[0], Category)) for part in parts}
    shown = sorted(text for text, rank in ranks.items() if rank == min(ranks.values()))
    return f"a {' or '.join(shown[:SHOWN_TYPES])}{' …' if len(shown) > SHOWN_TYPES else ''}"
