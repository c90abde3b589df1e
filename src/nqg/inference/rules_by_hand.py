"""Rules written by hand: added to a trained model, checked against its types, and taken away again.

What they score, and how confident an answer with them is, decide `nqg.model.scorer` and
`nqg.model.confidence`.
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
    argument_indices,
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
from nqg.types.tree_automaton import (
    Fragment,
    Signature,
    Signatures,
    derivable_signatures,
)

Places = Mapping[Rule, Place]  # of rules that come from a file
NO_PLACES: Places = MappingProxyType({})


def read_rules(path: Path, text: Preprocessor) -> dict[Rule, Place]:
    """The rules in a file, one a line, and where they stand; a malformed line is refused with file,
    line and reason.
    """
    return rules_in(
        ((place, tokenized_rule(line, text)) for place, line in numbered_lines(path)),
        MOST_NON_TERMINALS,
    )


def tokenized_rule(rule: str, text: Preprocessor) -> str:
    """A rule as grammars have it; it may be written as people write sentences and training data
    programs.

    >>> text = Preprocessor.fit([("Turn on the lamp.", "on(lamp)"), ("Is the fan on?", "is_on(fan)")])
    >>> tokenized_rule("Good night, NT_1! ### off(NT_1)", text)
    'good night NT_1 ### off ( NT_1 )'
    >>> tokenized_rule("good night NT_1 ### off ( NT_1 )", text)
    'good night NT_1 ### off ( NT_1 )'
    """
    source, separator, target = rule.partition(f" {SEPARATOR} ")
    # Plain text, comments and lines without a separator stay as they are.
    if text.is_plain or not separator or rule.startswith("#"):
        return rule
    words = []
    # Non-terminals are kept as written: the tokenizer may change their case.
    for token in text.sentences.tokens(source):
        raw = source[token.start : token.end]
        words.append(raw if isinstance(read_symbol(raw), NonTerminal) else token.text)
    # A target whose parts are all single tokens is tokenised already.
    if any(len(text.programs.normalized(token)) > 1 for token in target.split()):
        target = " ".join(text.programs.normalized(target))
    return f"{' '.join(words)}{separator}{target}"


def _parsed(rule: Rule | str, text: Preprocessor) -> Rule:
    return Rule.parse(tokenized_rule(rule, text)) if isinstance(rule, str) else rule


def with_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model with more rules by hand; errors name the places of those that come from a file."""
    new: list[Rule] = []
    for written in rules:
        rule = _parsed(written, model.text)
        check_arity(rule, MOST_NON_TERMINALS)
        how = ""
        if rule in new:
            how = "given twice"
        elif rule in model.by_hand:
            how = "written by hand"
        elif rule in model.grammar.numbers:
            how = "learned"
        if how:
            raise refused(rule, f"the model has it already: it was {how}", places)
        new.append(rule)
    # Values that the new rules write down become legal before the rules are typed.
    model = replace(
        model, target_grammar=legal_with(new, model.target_grammar, model.text.slots)
    )
    extended = model.with_rules_by_hand([*model.by_hand, *new])
    for rule, reason in misfits(extended.grammar, model.target_grammar, new).items():
        raise refused(rule, reason, places)
    return extended


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


def without_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model without some of its rules by hand; one that was trained stays a rule, like any that
    was learned.
    """
    left = dict.fromkeys(model.by_hand)
    for written in rules:
        rule = _parsed(written, model.text)
        if rule not in left:
            how = "not a rule of the model"
            if rule in model.grammar.numbers:
                how = "learned from examples, and stays"
            raise refused(rule, f"not written by hand: it is {how}", places)
        # A rule that is given twice is refused the second time.
        del left[rule]
    return model.with_rules_by_hand(left)


def refused(rule: Rule, reason: str, places: Places) -> FormatError:
    return FormatError(f"rule '{rule}': {reason}", places.get(rule))


def misfits(
    grammar: Grammar, target_grammar: TargetGrammar | None, rules: Iterable[Rule]
) -> dict[Rule, str]:
    """For each of some rules of a grammar that no derivation of a legal program can use
    the reason.
    """
    typing = grammar.typed_by(target_grammar).typing
    if typing is None or target_grammar is None:
        return {}
    # Only rules without a signature in the typed grammar need a reason.
    unused = [rule for rule in rules if not typing.signatures[grammar.numbers[rule]]]
    if not unused:
        return {}
    possible = Signatures(target_grammar)
    derivable = derivable_signatures(grammar.rules, target_grammar)
    fragments = {
        signature.fragment for signatures in derivable for signature in signatures
    }
    reasons = {}
    # The reason is the first thing that fails: the target, its arguments, its place.
    for rule in unused:
        signatures = possible.of(rule.target)
        usable = derivable[grammar.numbers[rule]]
        if not signatures:
            hint = "`nqg types` shows what is legal, and --target-grammar sets it"
            reasons[rule] = f"{illegal_token(rule, possible)}; {hint}"
        elif not usable:
            missing = _underivable(rule, signatures, fragments)
            reasons[rule] = f"no rule derives {missing}"
        else:
            types = _named({signature.fragment for signature in usable})
            hint = "which stands in no program that the rules derive"
            reasons[rule] = f"its target is {types}, {hint}"
    return reasons


def _underivable(
    rule: Rule, signatures: Collection[Signature], fragments: Collection[Fragment]
) -> str:
    """What a non-terminal of a rule has to be, and no rule derives."""
    indices = argument_indices(rule.target)
    for at, index in enumerate(indices):
        wanted = {signature.arguments[at] for signature in signatures}
        if wanted.isdisjoint(fragments):
            return f"{_named(wanted)}, which NT_{index} has to be"
    return "what its non-terminals have to be"


def illegal_token(rule: Rule, finder: Signatures) -> str:
    """What of a target that belongs to no legal program is wrong: the token in whose place
    something else would do.

    >>> finder = Signatures(TargetGrammar.parse("<command> ::= wake ( <time> ) | play ( <genre> )\\n"
    ...                                         "<time> ::= 7 | 8\\n<genre> ::= jazz"))
    >>> illegal_token(Rule.parse("wake me up to jazz ### wake ( jazz )"), finder)
    "'jazz' is not a <time>"
    >>> illegal_token(Rule.parse("sing me a song ### sing ( jazz )"), finder)
    "no legal program has 'sing'"
    """
    tokens = [format_symbol(symbol) for symbol in rule.target]
    strange = []
    for token, symbol in zip(tokens, rule.target):
        if isinstance(symbol, str) and not finder.fits((symbol,)):
            strange.append(token)
    if strange:
        return f"no legal program has {listed(dict.fromkeys(strange))}"
    # Otherwise put a hole in the place of each token, and see what would fit there. As
    # many arguments as `before` stand to the left of the hole.
    reasons: list[tuple[bool, int, str]] = []
    before = 0
    for at, symbol in enumerate(rule.target):
        if isinstance(symbol, NonTerminal):
            before += 1
        elif len(rule.target) > 1:
            hole = (
                *rule.target[:at],
                NonTerminal(rule.arity + 1),
                *rule.target[at + 1 :],
            )
            wanted = {signature.arguments[before] for signature in finder.of(hole)}
            if wanted:
                is_token = not any(
                    isinstance(fragment[0], Category) for fragment in wanted
                )
                reasons.append(
                    (is_token, at, f"'{tokens[at]}' is not {_named(wanted)}")
                )
    if not reasons:
        return f"'{' '.join(tokens)}' is part of no legal program"
    # A reason that names types comes before one that names tokens, then the leftmost.
    return min(reasons)[2]


def _named(fragments: Collection[Fragment]) -> str:
    """What a target may stand for: types where there are any, single symbols rather
    than several.
    """
    ranks = {}
    for fragment in fragments:
        ranks[format_symbols(fragment)] = (
            len(fragment),
            not isinstance(fragment[0], Category),
        )
    best = min(ranks.values())
    texts = sorted(text for text, rank in ranks.items() if rank == best)
    more = " …" if len(texts) > SHOWN_TYPES else ""
    return f"a {' or '.join(texts[:SHOWN_TYPES])}{more}"
