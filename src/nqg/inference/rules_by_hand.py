"""Rules written by hand: added to a trained model, checked against its types, and taken away again.

A rule is a sentence and a program with non-terminals, or a template (`nqg.text.sentence_templates`)
that describes many sentences: then it is written out as one rule for each of them. What rules by
hand score decides `nqg.model.scorer`; `nqg.inference.manual_reader` believes them where the model is
not sure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType

from nqg.errors import FormatError, Place
from nqg.files import numbered_lines
from nqg.grammar.grammar import (
    SEPARATOR,
    SLOT,
    Grammar,
    NonTerminal,
    Rule,
    argument_indices,
    check_arity,
    format_symbol,
    read_symbol,
)
from nqg.inference.gaps import SHOWN_TYPES, listed
from nqg.model.checkpoint import MOST_NON_TERMINALS, SavedModel
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.text.sentence_templates import (
    TemplateSlot,
    expanded_template,
    is_template,
    slots_in,
    without_argument,
    without_slots,
)
from nqg.types.target_grammar import Category, TargetGrammar, format_symbols
from nqg.types.tree_automaton import (
    Fragment,
    Signature,
    Signatures,
    derivable_signatures,
)

Places = Mapping[Rule, Place]  # of rules that come from a file
NO_PLACES: Places = MappingProxyType({})
NO_PARTS: Mapping[str, Sequence[str]] = MappingProxyType({})


# Stands in a program for a value that a sentence leaves out.
ABSENT_ARGUMENT = "NT_0"
_PART_LINE = re.compile(r"<\s*(\w+)\s*>\s*=\s*(.+)")
_LIST_LINE = re.compile(r"\{\s*([\w-]+)\s*\}\s*=\s*(.+)")


def read_rules(path: Path, text: Preprocessor) -> dict[Rule, Place]:
    """The rules in a file and where they stand; a malformed line is refused with file, line and
    reason.

    A line is a rule or a template, defines a part of templates (`<polite> = (please|kindly)`) or
    lists words and their values (`{size} = small | very large:xl`).
    """
    parts: dict[str, list[str]] = {}
    places: dict[Rule, Place] = {}
    for place, line in numbered_lines(path):
        try:
            rules = _rules_of_line(line, text, parts)
        except FormatError as error:
            raise error.at(place) from None
        for rule in rules:
            first_place = places.get(rule)
            if first_place and first_place != place and not is_slot_rule(rule):
                raise FormatError(
                    f"rule '{rule}' was already on line {first_place.line}", place
                )
            places.setdefault(rule, place)
    return places


def _rules_of_line(
    line: str, text: Preprocessor, parts: dict[str, list[str]]
) -> list[Rule]:
    """The rules that a line of a file describes; a definition of a part is kept in `parts`."""
    if not text.is_plain:
        part = _PART_LINE.fullmatch(line.strip())
        if part:
            parts[part[1]] = expanded_template(part[2], parts)
            return []
        values = _LIST_LINE.fullmatch(line.strip())
        if values:
            return _listed_values(values[2], text)
    return written_rules(line, text, parts)


def _listed_values(values: str, text: Preprocessor) -> list[Rule]:
    """A rule for each value of a list; one that programs write otherwise has that behind a colon."""
    rules = []
    for entry in values.split("|"):
        words, _, value = entry.partition(":")
        rule = f"{words.strip()} {SEPARATOR} {(value or words).strip()}"
        rules.append(Rule.parse(tokenized_rule(rule, text)))
    return rules


def written_rules(
    line: str, text: Preprocessor, parts: Mapping[str, Sequence[str]] = NO_PARTS
) -> list[Rule]:
    """The rules that a line describes: one, or those of a template and of the slots in it.

    >>> text = Preprocessor.fit([("Turn on the lamp.", "on(lamp)"), ("Is the fan on?", "is_on(fan)")])
    >>> for rule in written_rules("(lights|lamp) [in the {room}] off ### off(lamp, {room})", text):
    ...     print(rule)
    lights in the NT_1 off ### off ( lamp , NT_1 )
    lights off ### off ( lamp )
    lamp in the NT_1 off ### off ( lamp , NT_1 )
    lamp off ### off ( lamp )
    """
    # Blank lines and comments have no rule; one that begins with ### lacks its source.
    if not line.strip() or (
        line.startswith("#") and line.split(maxsplit=1)[0] != SEPARATOR
    ):
        return []
    source, separator, target = line.partition(f" {SEPARATOR} ")
    if not separator or text.is_plain:
        return [_checked(Rule.parse(tokenized_rule(line, text)))]
    # A slot may be written @name, too, unless it is a whole rule of the grammar.
    names = {slot.name for slot in text.slots.slots}
    if source.strip().removeprefix(SLOT) not in names:
        source, target = _with_braces(source, names), _with_braces(target, names)
    if not is_template(source):
        return [_checked(Rule.parse(tokenized_rule(line, text)))]
    return [_checked(rule) for rule in _template_rules(source, target, text, parts)]


def _template_rules(
    source: str, target: str, text: Preprocessor, parts: Mapping[str, Sequence[str]]
) -> dict[Rule, None]:
    """A rule for each sentence of a template, and one for each slot of the model that it uses."""
    sentences = expanded_template(source, parts)
    slots = set(chain.from_iterable(map(slots_in, sentences)))
    for slot in sorted(slots, key=attrgetter("argument")):
        if slot.mark not in target:
            raise FormatError(
                f"{slot.mark} is in the sentence, but not in the program '{target}'"
            )
    rules: dict[Rule, None] = {}
    for sentence in sentences:
        rules[_variant(sentence, target, slots, text)] = None
    used = {slot.slot for slot in slots}
    for name in sorted(used.intersection(slot.name for slot in text.slots.slots)):
        placeholder = (f"{SLOT}{name}",)
        rules[Rule(placeholder, placeholder)] = None
    return rules


def _with_braces(side: str, names: Collection[str]) -> str:
    """One side of a rule with `{name}` in the place of `@name`, where it is the name of a slot."""

    def braced(match: re.Match[str]) -> str:
        return f"{{{match[1]}}}" if match[1] in names else match[0]

    return re.sub(rf"{SLOT}([\w-]+)", braced, side)


def _variant(
    sentence: str, program: str, slots: Collection[TemplateSlot], text: Preprocessor
) -> Rule:
    """The rule of one sentence of a template: the program lacks the arguments that it leaves out."""
    present = slots_in(sentence)
    marks = [f"NT_{number}" for number in range(1, len(present) + 1)]
    for slot, mark in zip(present, marks):
        program = program.replace(slot.mark, mark)
    for slot in slots:
        program = program.replace(slot.mark, ABSENT_ARGUMENT)
    tokens = list(text.programs.normalized(program))
    while ABSENT_ARGUMENT in tokens:
        tokens = without_argument(tokens, ABSENT_ARGUMENT)
    source = without_slots(sentence, marks)
    return Rule.parse(tokenized_rule(f"{source} {SEPARATOR} {' '.join(tokens)}", text))


def _checked(rule: Rule) -> Rule:
    check_arity(rule, MOST_NON_TERMINALS)
    return rule


def is_slot_rule(rule: Rule) -> bool:
    """Whether a rule reads a value and yields nothing else: `@time ### @time`."""
    symbol = rule.source[0]
    return rule.source == rule.target and str(symbol).startswith(SLOT)


def tokenized_rule(rule: str, text: Preprocessor) -> str:
    """A rule as grammars have it; it may be written as people write sentences and training data
    programs.

    >>> text = Preprocessor.fit([("Turn on the lamp.", "on(lamp)"), ("Is the fan on?", "is_on(fan)")])
    >>> tokenized_rule("Good night, NT_1! ### off(NT_1)", text)
    'good night NT_1 ### off ( NT_1 )'
    >>> tokenized_rule("good night NT_1 ### off ( NT_1 )", text)
    'good night NT_1 ### off ( NT_1 )'

    Where JSON is learned as calls, rules may be written as either.

    >>> text = Preprocessor.fit([("lamp on", '{"name": "on", "arguments": {"what": "lamp"}}')])
    >>> tokenized_rule('NT_1 off ### {"name": "off", "arguments": {"what": "NT_1"}}', text)
    'NT_1 off ### off ( what = " NT_1 " )'
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
    tokens = tuple(target.split())
    if any(len(text.programs.normalized(token)) > 1 for token in tokens):
        tokens = text.programs.normalized(target)
    elif text.programs.calls:
        tokens = text.programs.calls.encode(tokens)
    return f"{' '.join(words)}{separator}{' '.join(tokens)}"


def _described(
    rules: Iterable[Rule | str], text: Preprocessor, places: Places
) -> list[list[Rule]]:
    """The rules that each line, template or rule describes; those of one line belong together."""
    groups: list[list[Rule]] = []
    of_places: dict[Place, list[Rule]] = {}
    for written in rules:
        if isinstance(written, str):
            groups.append(written_rules(written, text))
            continue
        origin = places.get(written)
        if origin in of_places:
            of_places[origin].append(written)
            continue
        groups.append([written])
        if origin:
            of_places[origin] = groups[-1]
    return groups


def with_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model with more rules by hand; errors name the places of those that come from a file.

    Of a template, the rules that the model lacks are added; one must be new.
    """
    new: list[Rule] = []
    for group in _described(rules, model.text, places):
        how = ""
        added = len(new)
        for rule in group:
            if rule in new:
                how = how or "given twice"
            elif rule in model.by_hand:
                how = how or "written by hand"
            elif rule in model.grammar.numbers:
                how = how or "learned"
            else:
                new.append(rule)
        is_new = not all(map(is_slot_rule, new[added:]))
        if group and not is_new and not all(map(is_slot_rule, group)):
            reason = f"the model has it already: it was {how}"
            raise refused(group[0], reason, places)
    extended = model.with_rules_by_hand([*model.by_hand, *new])
    unusable = misfits(extended.grammar, extended.target_grammar, new)
    for rule, reason in unusable.items():
        raise refused(rule, reason, places)
    return extended


def without_rules(
    model: SavedModel, rules: Iterable[Rule | str], places: Places = NO_PLACES
) -> SavedModel:
    """The model without some of its rules by hand; one that was trained stays a rule, like any that
    was learned.
    """
    left = dict.fromkeys(model.by_hand)
    for group in _described(rules, model.text, places):
        for rule in group:
            if is_slot_rule(rule):
                continue
            if rule not in left:
                how = "not a rule of the model"
                if rule in model.grammar.numbers:
                    how = "learned from examples, and stays"
                raise refused(rule, f"not written by hand: it is {how}", places)
            # A rule that is given twice is refused the second time.
            del left[rule]
    # Slots that came with templates go with the last of these.
    if not any(rule.arity for rule in left):
        left = {rule: None for rule in left if not is_slot_rule(rule)}
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
    fragments = {signature.fragment for signature in chain.from_iterable(derivable)}
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
