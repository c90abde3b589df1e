"""Gaps wherever training shows some: a grammar closed under the extraction of arguments.

With traces (`nqg.text.traces`), a relative clause or a question is a clause that lacks an argument:

    NT_1 NT_2 to NT_3     ### NT_2 ( agent = NT_1 , theme = ↑ , recipient = NT_3 )

beside NT_1 NT_2 NT_3 to NT_4 ### NT_2 ( agent = NT_1 , theme = NT_3 , recipient = NT_4 ). A grammar
in which an argument may be empty, with a trace for its target, has one more rule, ε ### ↑. Rules
without words are not in our formalism, but every grammar has an equal one without them: beside each
rule with an argument there is its *gap variant* without it. So charts, forests and sampling stay as
they are.

The rules that a search finds have clauses within sentences, `NT_1 NT_2 . ### NT_2 ( agent = NT_1 )`,
or within what they modify. They are first split into a *frame*, `NT_1 . ### NT_1`, and a clause.
Then clauses get all of their gap variants. This is done where it makes the description of the rules
shorter, gap variants being free: they follow from their clauses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar, Rule, format_symbol, read_symbol
from nqg.induction.description_length import (
    TerminalVocabulary,
    grammar_bits,
    rule_bits,
)
from nqg.induction.induce import underivable_examples
from nqg.induction.obligatory import MOST_GROWTH, needed_rules
from nqg.induction.search import CandidateGrammar, derivable_rules
from nqg.induction.settings import InductionSettings
from nqg.text.traces import (
    MARKS,
    TRACE,
    ProgramTerm,
    Tokens,
    Traces,
    parse_term,
    subterms,
)
from nqg.types.target_grammar import TargetGrammar

# Clauses that a frame must be seen with.
FEWEST_CLAUSES = 2

Places = Mapping[Tokens, set[Tokens]]


@dataclass(frozen=True, slots=True)
class Clause:
    """A rule, or one that would be but for its source, which is a lone non-terminal.

    Its non-terminals have the names that they had in the rule that it comes from.
    """

    source: Tokens
    term: ProgramTerm

    @classmethod
    def of(cls, rule: Rule) -> Clause | None:
        """A rule whose target is a term; None for others."""
        term = parse_term(tuple(map(format_symbol, rule.target)))
        if term is None:
            return None
        return cls(tuple(map(format_symbol, rule.source)), term)

    def numbered(self) -> Clause:
        """The same with NT_1, NT_2, … in the order of the source."""
        names = dict[str, str]()
        for token in self.source:
            if is_non_terminal(token):
                names[token] = f"NT_{len(names) + 1}"
        source = tuple(names.get(token, token) for token in self.source)
        target = [names.get(token, token) for token in self.term.tokens()]
        term = parse_term(target)
        assert term is not None, "a renamed term is a term"
        return Clause(source, term)

    @property
    def is_unary(self) -> bool:
        return len(self.source) == 1 and is_non_terminal(self.source[0])

    @property
    def has_trace(self) -> bool:
        return TRACE in self.term.tokens()

    def rule(self) -> Rule:
        numbered = self.numbered()
        source = tuple(map(read_symbol, numbered.source))
        return Rule(source, tuple(map(read_symbol, numbered.term.tokens())))

    def composed(self, non_terminal: str, inner: Clause) -> Clause:
        """This with a clause in the place of a non-terminal."""
        # Names of the inner clause must differ from ours.
        renamed = {
            token: f"{token}0" for token in inner.source if is_non_terminal(token)
        }
        source = list[str]()
        for token in self.source:
            if token == non_terminal:
                source += [renamed.get(each, each) for each in inner.source]
            else:
                source.append(token)
        target = list[str]()
        for token in self.term.tokens():
            if token == non_terminal:
                target += [renamed.get(each, each) for each in inner.term.tokens()]
            else:
                target.append(token)
        term = parse_term(target)
        assert term is not None, "a term in the place of a leaf or of a whole term"
        return Clause(tuple(source), term).numbered()


def with_whole_terms(grammar: Grammar, examples: Sequence[Example]) -> Grammar:
    """The grammar without rules that read a word as a mark, if its examples need not much else.

    A search may find `that ### =` and `NT_1 NT_2 NT_3 ### NT_1 ( nmod NT_2 NT_3 )`, which is no term.
    Such rules are composed.
    """
    marks = [rule for rule in grammar if MARKS.issuperset(rule.target)]
    broken: dict[Rule, None] = {}
    whole: dict[Rule, None] = {}
    for rule in grammar:
        for number in range(1, rule.arity + 1):
            if Clause.of(rule) is not None:
                continue
            for mark in marks:
                clause = _with_mark(rule, f"NT_{number}", mark)
                if clause is not None:
                    broken[rule] = None
                    whole[clause.rule()] = None
    if not broken:
        return grammar
    gone = {*marks, *broken}
    kept = [rule for rule in grammar if rule not in gone]
    bound = grammar.max_non_terminals
    lost = list(underivable_examples(Grammar.of(kept, bound), examples))
    needed = needed_rules(kept, list(whole), lost, bound)
    if needed is None or len(needed) > MOST_GROWTH * len(broken):
        return grammar
    return Grammar.of([*kept, *needed], bound)


def _with_mark(rule: Rule, non_terminal: str, mark: Rule) -> Clause | None:
    """A rule with a mark for a non-terminal, if that makes its target a term."""
    sides = []
    for side, words in ((rule.source, mark.source), (rule.target, mark.target)):
        tokens = list[str]()
        for token in map(format_symbol, side):
            tokens += map(str, words) if token == non_terminal else [token]
        sides.append(tuple(tokens))
    term = parse_term(sides[1])
    if term is None:
        return None
    return Clause(sides[0], term).numbered()


def is_non_terminal(token: str) -> bool:
    return not isinstance(read_symbol(token), str)


@dataclass(frozen=True, slots=True)
class ClauseSplit:
    """A rule as a frame with a clause in its hole."""

    frame: Clause
    clause: Clause


HOLE = "NT_999"


def split(rule: Clause, traces: Traces) -> ClauseSplit | None:
    """A rule without its clause: what its binder holds, or all between its outermost non-terminals.

    >>> rule = Clause.of(Rule.parse("NT_1 that NT_2 NT_3 ### NT_1 ( nmod = NT_2 ( agent = ↑ , theme = NT_3 ) )"))
    >>> found = split(rule, Traces(binders=(("nmod",),)))
    >>> print(found.frame.rule())
    NT_1 that NT_2 ### NT_1 ( nmod = NT_2 )
    >>> print(found.clause.rule())
    NT_1 NT_2 ### NT_1 ( agent = ↑ , theme = NT_2 )
    """
    bound = list(_bound_values(rule.term, traces))
    if len(bound) > 1:
        return None
    inner = bound[0] if bound else rule.term
    if inner.is_leaf:
        return None
    # The source of the clause goes from its first non-terminal to its last.
    own = set(filter(is_non_terminal, inner.tokens()))
    places = [at for at, token in enumerate(rule.source) if token in own]
    if not places:
        return None
    first, last = places[0], places[-1] + 1
    source = rule.source[first:last]
    if any(is_non_terminal(token) and token not in own for token in source):
        return None
    around = (*rule.source[:first], HOLE, *rule.source[last:])
    if all(map(is_non_terminal, around)):
        return None
    frame = Clause(around, _with_hole(rule.term, inner)).numbered()
    return ClauseSplit(frame, Clause(source, inner).numbered())


def hole_of(frame: Clause, traces: Traces) -> str:
    """The non-terminal of a frame that stands for a clause."""
    value = next(_bound_values(frame.term, traces), frame.term)
    return value.head[0]


def _bound_values(term: ProgramTerm, traces: Traces) -> Iterator[ProgramTerm]:
    for holder in subterms(term):
        for argument in holder.arguments:
            if argument.keyword in traces.binders:
                yield argument.value


def _with_hole(term: ProgramTerm, inner: ProgramTerm) -> ProgramTerm:
    if term is inner:
        return ProgramTerm((HOLE,))
    arguments = []
    for argument in term.arguments:
        value = _with_hole(argument.value, inner)
        arguments.append(replace(argument, value=value))
    return replace(term, arguments=tuple(arguments))


def gap_variants(clause: Clause, keywords: Iterable[Tokens]) -> Iterator[Clause]:
    """A clause without one of its arguments, for each that can be one of these keywords.

    >>> clause = Clause.of(Rule.parse("NT_1 to NT_2 ### go ( agent = NT_1 , goal = NT_2 )"))
    >>> for variant in gap_variants(clause, [("agent",), ("goal",)]):
    ...     print(variant.rule())
    to NT_1 ### go ( agent = ↑ , goal = NT_1 )
    NT_1 to ### go ( agent = NT_1 , goal = ↑ )
    """
    if clause.has_trace:
        return
    for number, argument in enumerate(clause.term.arguments):
        head = argument.value.head
        if argument.keyword not in keywords or not argument.value.is_leaf:
            continue
        if len(head) > 1 or not is_non_terminal(head[0]):
            continue
        if clause.term.tokens().count(head[0]) > 1:
            continue
        source = tuple(token for token in clause.source if token != head[0])
        if any(map(is_non_terminal, source)):
            term = clause.term.with_leaf((number,), (TRACE,))
            yield Clause(source, term).numbered()


def exchanged(frames: Sequence[Clause]) -> Iterator[Clause]:
    """The frames with other words where two frames with the same target differ in one word.

    With `Who did NT_1 ?` and `What did NT_1 ?`, `Who NT_1 ?` leads to `What NT_1 ?`.
    """
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for one in frames:
        for other in frames:
            if one.term != other.term or len(one.source) != len(other.source):
                continue
            pairs = zip(one.source, other.source)
            differing = [pair for pair in pairs if pair[0] != pair[1]]
            if len(differing) == 1:
                left, right = differing[0]
                if not is_non_terminal(left) and not is_non_terminal(right):
                    alike[left].add(right)
    for frame in frames:
        for at, token in enumerate(frame.source):
            for word in sorted(alike[token]):
                source = (*frame.source[:at], word, *frame.source[at + 1 :])
                yield replace(frame, source=source)


@dataclass(frozen=True)
class Extraction:
    """The parts of a closed grammar.

    `variants` are all gap variants of the `clauses`; `gaps` are the clauses with a gap that the rules
    had, `gap_frames` what these stood in.
    """

    frames: tuple[Clause, ...]
    gap_frames: tuple[Clause, ...]
    clauses: tuple[Clause, ...]
    gaps: tuple[Clause, ...]
    variants: tuple[Clause, ...]

    @classmethod
    def of(cls, rules: Iterable[Rule], traces: Traces) -> Extraction | None:
        """The parts of rules; None where no gap is the variant of a clause."""
        parts = dict[Clause, None]()
        splits = []
        for rule in rules:
            whole = Clause.of(rule)
            if whole is None or whole.term.is_leaf:
                continue
            if _is_bare(whole, traces):
                parts[whole] = None
            framed = split(whole, traces)
            if framed is not None:
                splits.append(framed)
        splits = _with_whole_clauses(splits, parts, traces)
        # Frames that several clauses have show which clauses there are, and these their variants.
        shared = _with_shared_frames(splits)
        parts |= dict.fromkeys(framed.clause for framed in shared)
        keywords = _trace_keywords(parts)
        variants = dict[Clause, None]()
        for part in parts:
            variants |= dict.fromkeys(gap_variants(part, keywords))
        if parts.keys().isdisjoint(variants):
            return None
        # Other frames are those of clauses that are among these by now.
        frames = dict[Clause, None]()
        with_gaps = dict[Clause, None]()
        for framed in splits:
            clause = framed.clause
            if framed in shared or clause in parts or clause in variants:
                frames[framed.frame] = None
                if clause.has_trace:
                    with_gaps[framed.frame] = None
        return cls(
            frames=tuple(frames),
            gap_frames=tuple(with_gaps),
            clauses=tuple(part for part in parts if not part.has_trace),
            gaps=tuple(part for part in parts if part.has_trace),
            variants=tuple(variants),
        )

    def written_rules(self) -> list[Rule]:
        """The rules from which the closure follows."""
        free = set(self.variants)
        parts = [*self.frames, *self.clauses]
        parts += [gap for gap in self.gaps if gap not in free]
        return [part.rule() for part in parts if not part.is_unary]

    def rules(self, traces: Traces, places: Places) -> list[Rule]:
        """All rules of the closure.

        A variant whose source is a lone non-terminal is no rule: it is composed with what can hold
        it, frames with a gap and arguments of clauses that have such terms in programs.
        """
        gap_frames = dict.fromkeys([*self.gap_frames, *exchanged(self.gap_frames)])
        every = dict.fromkeys([*self.frames, *gap_frames, *self.clauses])
        every |= dict.fromkeys([*self.gaps, *self.variants])
        rules = []
        for part in every:
            if not part.is_unary:
                rules.append(part.rule())
                continue
            for frame in gap_frames:
                composed = frame.composed(hole_of(frame, traces), part)
                rules.append(composed.rule())
            for clause in self.clauses:
                for hole in _holes_for(part.term, clause.term, places):
                    composed = clause.composed(hole, part)
                    rules.append(composed.rule())
        return list(dict.fromkeys(rules))


def keyword_places(programs: Iterable[Tokens]) -> Places:
    """For each keyword the keywords that its values have."""
    places: defaultdict[Tokens, set[Tokens]] = defaultdict(set)
    for program in programs:
        term = parse_term(program)
        if term is None:
            continue
        for holder in subterms(term):
            for argument in holder.arguments:
                below = {each.keyword for each in argument.value.arguments}
                places[argument.keyword] |= below
    return places


def _holes_for(inner: ProgramTerm, outer: ProgramTerm, places: Places) -> Iterator[str]:
    """The non-terminals of a term that are arguments with such values as the inner term."""
    keywords = {argument.keyword for argument in inner.arguments}
    for argument in outer.arguments:
        head = argument.value.head
        is_hole = argument.value.is_leaf and len(head) == 1 and is_non_terminal(head[0])
        if is_hole and keywords <= places.get(argument.keyword, set()):
            yield head[0]


def _is_bare(rule: Clause, traces: Traces) -> bool:
    """Whether a rule is a clause without a frame: non-terminals are at both of its ends."""
    ends = (rule.source[0], rule.source[-1])
    if not all(map(is_non_terminal, ends)):
        return False
    return next(_bound_values(rule.term, traces), None) is None


def _with_shared_frames(splits: Sequence[ClauseSplit]) -> list[ClauseSplit]:
    clauses: defaultdict[Clause, set[Clause]] = defaultdict(set)
    for each in splits:
        clauses[each.frame].add(each.clause)
    return [each for each in splits if len(clauses[each.frame]) >= FEWEST_CLAUSES]


def _with_whole_clauses(
    splits: Sequence[ClauseSplit], bare: Iterable[Clause], traces: Traces
) -> list[ClauseSplit]:
    """The splits without those whose frame holds words of the clause.

    `NT_1 that was NT_2` is no frame if *was* belongs to a clause, `was NT_1 ### NT_1 ( theme = ↑ )`,
    in the frame `NT_1 that NT_2`.
    """
    shared = _with_shared_frames(splits)
    clauses = dict.fromkeys([*bare, *(each.clause for each in shared)])
    keywords = _trace_keywords(clauses)
    frames = dict.fromkeys(each.frame for each in shared)
    derived: defaultdict[Clause, set[Clause]] = defaultdict(set)
    for clause in clauses:
        for variant in gap_variants(clause, keywords):
            # A lone non-terminal has no words.
            if variant.is_unary:
                continue
            for frame in frames:
                whole = frame.composed(hole_of(frame, traces), variant)
                derived[whole].add(frame)
    kept = []
    for each in splits:
        whole = each.frame.composed(hole_of(each.frame, traces), each.clause)
        if derived[whole] <= {each.frame}:
            kept.append(each)
    return kept


def _trace_keywords(clauses: Iterable[Clause]) -> set[Tokens]:
    """The keywords that have a trace for their value in some clause."""
    keywords = set[Tokens]()
    for clause in clauses:
        for term in subterms(clause.term):
            for argument in term.arguments:
                if argument.value.head == (TRACE,):
                    keywords.add(argument.keyword)
    return keywords


def closed_under_extraction(
    grammar: Grammar,
    examples: Sequence[Example],
    traces: Traces,
    types: TargetGrammar | None,
    settings: InductionSettings,
) -> Grammar:
    """The grammar with gaps wherever clauses have arguments, if that makes it shorter.

    Rules that the others derive now are left out. It still derives all of the examples.
    """
    parts = Extraction.of(grammar, traces)
    if parts is None:
        return grammar
    places = keyword_places(example.target_tokens for example in examples)
    closure = parts.rules(traces, places)
    # Leave out what other rules derive.
    every = list(dict.fromkeys([*closure, *grammar]))
    vocabulary = TerminalVocabulary.of(examples, every)
    labels = list(map(vocabulary.label_rule, every))
    derived = derivable_rules(labels, CandidateGrammar(labels).arrays)
    superfluous = set(map(vocabulary.rule, derived))
    kept = [rule for rule in every if rule not in superfluous]
    # Examples without a derivation get their rules back.
    closed = Grammar.of(kept, grammar.max_non_terminals)
    if types:
        closed = closed.typed_by(types)
    for example in underivable_examples(closed, examples):
        rule = Rule(example.source_tokens, example.target_tokens)
        kept.append(rule)
    # Compare what has to be written down.
    free = set(closure).difference(parts.written_rules())
    bits = sum(rule_bits(rule, settings) for rule in kept if rule not in free)
    if bits >= grammar_bits(grammar, settings):
        return grammar
    return Grammar.of(kept, grammar.max_non_terminals)
