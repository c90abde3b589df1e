"""Programs that say a thing once: copies of a head inside its own arguments become traces.

A relative clause repeats what it modifies, once more for each noun:

    cat ( nmod = sleep ( agent = cat ) )   →   cat ( nmod = sleep ( agent = ↑ ) )

A trace `↑` stands for the head of the nearest term above it that holds it under a *binder*, a
keyword whose arguments all repeat the head. So `sleep ( agent = ↑ )` is the same for all nouns, and
rules can compose it. Where a trace is bound by nothing it stands for the *filler*, a word of
questions: `eat ( agent = Emma , theme = ? )` has `?` where a clause about a cake has its trace.
`Control` is the same for a sibling: `plan ( agent = Emma , xcomp = sleep ( agent = Emma ) )`.

A clause lacks one argument where something binds its trace, and none elsewhere. So a program is none
if a binder holds two copies where training has one, if a question asks for nothing or for two things,
or if a statement asks: the *marks* of questions are words that just these sentences have.

Binders are fitted to programs, and used only where each program survives the round trip.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

TRACE = "↑"
OPEN, CLOSE, COMMA, EQUALS = "(", ")", ",", "="
MARKS = frozenset((OPEN, CLOSE, COMMA, EQUALS))
# Arguments that must show a binder: fewer may all repeat a head by chance. `benchmarks/constants.py
# --texts` names the training sets that other numbers change.
FEWEST_ARGUMENTS = 10
# The chance at which a word is taken for the filler, though it is only by chance that it is never
# below a binder; a level of significance.
FILLER_CHANCE = 0.01
# Brackets of a term at most: terms are read by recursion.
DEEPEST = 200

Tokens = tuple[str, ...]
Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TermArgument:
    """A keyword and its value."""

    keyword: Tokens
    value: ProgramTerm


@dataclass(frozen=True, slots=True)
class ProgramTerm:
    """A head with named arguments: `* cat ( nmod = … )`; without arguments it is a leaf."""

    head: Tokens
    arguments: tuple[TermArgument, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return not self.arguments

    def argument(self, keyword: Tokens) -> ProgramTerm | None:
        for argument in self.arguments:
            if argument.keyword == keyword:
                return argument.value
        return None

    def with_leaf(self, path: Path, head: Tokens) -> ProgramTerm:
        """The term with another leaf at the end of a path of argument numbers."""
        if not path:
            return ProgramTerm(head)
        arguments = list(self.arguments)
        old = arguments[path[0]]
        arguments[path[0]] = replace(old, value=old.value.with_leaf(path[1:], head))
        return replace(self, arguments=tuple(arguments))

    def tokens(self) -> Tokens:
        """
        >>> parse_term("cat ( nmod . on = * mat )".split()).tokens()
        ('cat', '(', 'nmod', '.', 'on', '=', '*', 'mat', ')')
        """
        written = list(self.head)
        for number, argument in enumerate(self.arguments):
            written.append(COMMA if number else OPEN)
            written += [*argument.keyword, EQUALS, *argument.value.tokens()]
        if self.arguments:
            written.append(CLOSE)
        return tuple(written)


def parse_term(tokens: Sequence[str]) -> ProgramTerm | None:
    """The term that a program is; None where it is none, or may be too deep.

    >>> parse_term("answer ( x , y )".split()) is None
    True
    """
    # One list of finished arguments for each open bracket, and what stands before it.
    if sum(token == OPEN for token in tokens) > DEEPEST:
        return None
    heads: list[Tokens] = []
    keywords: list[Tokens] = []
    finished: list[list[TermArgument]] = []
    words: list[str] = []
    value: ProgramTerm | None = None
    for token in tokens:
        if token not in MARKS:
            if value is not None:
                return None
            words.append(token)
            continue
        if token == OPEN:
            # A head, or what follows a finished value, cannot be empty.
            if not words or value is not None or len(keywords) != len(heads):
                return None
            heads.append(tuple(words))
            finished.append([])
        elif token == EQUALS:
            if not words or len(keywords) != len(heads) - 1:
                return None
            keywords.append(tuple(words))
        else:
            if not heads or len(keywords) != len(heads):
                return None
            if value is None:
                if not words:
                    return None
                value = ProgramTerm(tuple(words))
            finished[-1].append(TermArgument(keywords.pop(), value))
            value = None
            if token == CLOSE:
                value = ProgramTerm(heads.pop(), tuple(finished.pop()))
        words = []
    if heads or keywords:
        return None
    if value is None and words:
        value = ProgramTerm(tuple(words))
    return value


@dataclass(frozen=True, slots=True)
class Control:
    """A keyword whose values have, as one of their arguments, a sibling's head once more."""

    keyword: Tokens  # xcomp
    antecedent: Tokens  # the sibling: agent
    place: Tokens  # the argument of the value: agent

    @property
    def trace(self) -> Tokens:
        return (TRACE + "_".join(self.keyword),)


@dataclass(frozen=True, slots=True)
class Traces:
    """Which copies programs have traces for.

    >>> traces = Traces(binders=(("nmod",),), filler=("?",))
    >>> program = "see ( agent = ? , theme = cat ( nmod = sleep ( agent = cat ) ) )"
    >>> " ".join(traces.encode(program.split()))
    'see ( agent = ↑ , theme = cat ( nmod = sleep ( agent = ↑ ) ) )'
    >>> " ".join(traces.decode(traces.encode(program.split()))) == program
    True
    """

    binders: tuple[Tokens, ...]
    controls: tuple[Control, ...] = ()
    filler: Tokens | None = None
    # Words of all sentences whose programs have the filler, and of no others.
    marks: Tokens = ()
    # Whether a binder may hold more than one copy.
    binds_many: bool = True

    def encode(self, tokens: Tokens) -> Tokens:
        """A program with traces for copies.

        What is no term stays as it is, and so do two copies, of which one is no trace.
        """
        term = parse_term(tokens)
        if term is None:
            return tokens
        return self._with_fillers(self._encoded(self._controlled(term))).tokens()

    def decode(self, tokens: Tokens) -> Tokens:
        """A program with copies for traces; a trace without an antecedent stays."""
        term = parse_term(tokens)
        if term is None:
            return tokens
        return self._decoded(term, self.filler or (TRACE,)).tokens()

    def problem(self, tokens: Sequence[str], words: Sequence[str] = ()) -> str:
        """Why a program, of a sentence of `words`, is none of those that traces were fitted to; ""
        if it may be one.

        >>> traces = Traces(binders=(("nmod",),), filler=("?",), marks=("who",))
        >>> traces.problem("cat ( nmod = sleep )".split())
        "'nmod' does not refer to 'cat'"
        >>> traces.problem("sleep".split(), "who slept".split())
        "'?' is there 0 times; 'who' asks for one"
        """
        if any(map(self.is_trace, tokens)):
            return "a part refers to nothing"
        term = parse_term(tokens)
        if term is None:
            return ""
        for keyword, head, copies in self._bound(term):
            if not copies:
                return f"'{keyword}' does not refer to '{head}'"
        term = self._controlled(term)
        for keyword, head, copies in self._bound(term):
            if copies > 1 and not self.binds_many:
                return f"'{keyword}' refers to '{head}' {copies} times"
        return self._misplaced_question(term, words)

    def _bound(self, term: ProgramTerm) -> Iterator[tuple[str, str, int]]:
        """Each binder in a term, the head above it, and how many copies of that it holds."""
        for holder in subterms(term):
            for argument in holder.arguments:
                if argument.keyword in self.binders:
                    copies = leaves(argument.value, holder.head, self.binders)
                    keyword, head = " ".join(argument.keyword), " ".join(holder.head)
                    yield keyword, head, len(list(copies))

    def _misplaced_question(self, term: ProgramTerm, words: Sequence[str]) -> str:
        """Why a sentence of `words` does not ask what a program does; without words, ""."""
        if self.filler is None or not self.marks or not words:
            return ""
        asked, filler = self._fillers(term), " ".join(self.filler)
        marks = [word for word in words if word in self.marks]
        if marks and asked != 1:
            return f"'{filler}' is there {asked} times; '{marks[0]}' asks for one"
        if asked and not marks:
            return f"'{filler}' is there, but the sentence is no question"
        return ""

    def _fillers(self, term: ProgramTerm) -> int:
        """How many things a program asks for, copies of siblings aside."""
        return sum(each.is_leaf and each.head == self.filler for each in subterms(term))

    def is_trace(self, token: str) -> bool:
        return token.startswith(TRACE)

    def _controlled(self, term: ProgramTerm) -> ProgramTerm:
        arguments = []
        for argument in term.arguments:
            value = argument.value
            for control in self.controls:
                if argument.keyword == control.keyword:
                    value = _replaced_copy(term, value, control)
            arguments.append(replace(argument, value=self._controlled(value)))
        return replace(term, arguments=tuple(arguments))

    def _encoded(self, term: ProgramTerm) -> ProgramTerm:
        arguments = []
        for argument in term.arguments:
            value = argument.value
            if argument.keyword in self.binders:
                copies = list(leaves(value, term.head, self.binders))
                if len(copies) == 1:
                    value = value.with_leaf(copies[0], (TRACE,))
            arguments.append(replace(argument, value=self._encoded(value)))
        return replace(term, arguments=tuple(arguments))

    def _with_fillers(self, term: ProgramTerm) -> ProgramTerm:
        if term.is_leaf and term.head == self.filler:
            return ProgramTerm((TRACE,))
        arguments = []
        for argument in term.arguments:
            value = argument.value
            if argument.keyword not in self.binders:
                value = self._with_fillers(value)
            arguments.append(replace(argument, value=value))
        return replace(term, arguments=tuple(arguments))

    def _decoded(self, term: ProgramTerm, antecedent: Tokens) -> ProgramTerm:
        """The term with copies, where `antecedent` is what its traces stand for."""
        if term.head == (TRACE,):
            return replace(term, head=antecedent)
        controlled: dict[Tokens, Tokens] = {}
        for control in self.controls:
            sibling = term.argument(control.antecedent)
            if sibling is not None:
                head = antecedent if sibling.head == (TRACE,) else sibling.head
                controlled[control.keyword] = head
        arguments = []
        for argument in term.arguments:
            value = argument.value
            for control in self.controls:
                if argument.keyword == control.keyword in controlled:
                    value = _filled(value, control, controlled[control.keyword])
            bound = antecedent
            if argument.keyword in self.binders:
                bound = term.head
            arguments.append(replace(argument, value=self._decoded(value, bound)))
        return replace(term, arguments=tuple(arguments))


def leaves(
    term: ProgramTerm, head: Tokens, binders: Iterable[Tokens]
) -> Iterator[Path]:
    """The paths to the leaves with a head that no binder within the term leads to."""
    if term.is_leaf and term.head == head:
        yield ()
    for number, argument in enumerate(term.arguments):
        if argument.keyword not in binders:
            for path in leaves(argument.value, head, binders):
                yield (number, *path)


def _replaced_copy(
    term: ProgramTerm, value: ProgramTerm, control: Control
) -> ProgramTerm:
    """The value of a controlled argument, with a trace for the copy of its sibling."""
    sibling = term.argument(control.antecedent)
    copy = value.argument(control.place)
    if sibling is None or copy is None or copy != ProgramTerm(sibling.head):
        return value
    return _with_argument(value, control.place, control.trace)


def _filled(value: ProgramTerm, control: Control, head: Tokens) -> ProgramTerm:
    if value.argument(control.place) != ProgramTerm(control.trace):
        return value
    return _with_argument(value, control.place, head)


def _with_argument(term: ProgramTerm, keyword: Tokens, head: Tokens) -> ProgramTerm:
    for number, argument in enumerate(term.arguments):
        if argument.keyword == keyword:
            return term.with_leaf((number,), head)
    return term


def fit_traces(pairs: Iterable[tuple[Sequence[str], Tokens]]) -> Traces | None:
    """The traces of programs like these, each with the words of its sentence; None where no keyword
    is a binder.

    >>> pairs = []
    >>> for noun in map("n{}".format, range(10)):
    ...     program = f"see ( theme = {noun} ( nmod = eat ( agent = {noun} ) ) )"
    ...     pairs.append((["see", noun, "that", "eats"], tuple(program.split())))
    >>> fit_traces(pairs).binders
    (('nmod',),)
    """
    terms, sentences = [], []
    for words, program in pairs:
        if any(token.startswith(TRACE) for token in program):
            return None
        term = parse_term(program)
        if term is not None:
            terms.append(term)
            sentences.append(words)
    binders = _fitted_binders(terms)
    if not binders:
        return None
    traces = Traces(binders, _fitted_controls(terms))
    traces = replace(traces, filler=_fitted_filler(terms, traces), binds_many=False)
    if any(traces.problem(term.tokens()) for term in terms):
        traces = replace(traces, binds_many=True)
    traces = replace(traces, marks=_fitted_marks(sentences, terms, traces))
    # Nothing may be lost, and nothing that training has is refused.
    for words, term in zip(sentences, terms):
        tokens = term.tokens()
        if traces.decode(traces.encode(tokens)) != tokens:
            return None
        if traces.problem(tokens, words):
            traces = replace(traces, marks=())
    return traces


def _fitted_marks(
    sentences: Iterable[Sequence[str]], terms: Iterable[ProgramTerm], traces: Traces
) -> Tokens:
    """The words of all sentences whose programs have the filler, without those of others."""
    if traces.filler is None:
        return ()
    marks: set[str] | None = None
    others = set[str]()
    for words, term in zip(sentences, terms):
        if not any(each.head == traces.filler for each in subterms(term)):
            others.update(words)
        elif marks is None:
            marks = set(words)
        else:
            marks &= set(words)
    return tuple(sorted((marks or set()) - others))


def subterms(term: ProgramTerm) -> Iterator[ProgramTerm]:
    """A term and all terms in it."""
    yield term
    for argument in term.arguments:
        yield from subterms(argument.value)


def _fitted_binders(terms: Iterable[ProgramTerm]) -> tuple[Tokens, ...]:
    """The keywords whose values all have a leaf like the head above them, of several heads."""
    counts = Counter[Tokens]()
    heads: defaultdict[Tokens, set[Tokens]] = defaultdict(set)
    refuted: set[Tokens] = set()
    for term in terms:
        for holder in subterms(term):
            for argument in holder.arguments:
                keyword = argument.keyword
                if keyword in refuted:
                    continue
                copies = leaves(argument.value, holder.head, (keyword,))
                if argument.value.is_leaf or next(copies, None) is None:
                    refuted.add(keyword)
                counts[keyword] += 1
                heads[keyword].add(holder.head)
    binders = []
    for keyword, count in counts.items():
        is_shown = count >= FEWEST_ARGUMENTS and len(heads[keyword]) > 1
        if is_shown and keyword not in refuted:
            binders.append(keyword)
    return tuple(sorted(binders))


def _fitted_controls(terms: Iterable[ProgramTerm]) -> tuple[Control, ...]:
    """The keywords whose values all have, as the same argument, the head of the same sibling."""
    counts = Counter[Tokens]()
    possible: dict[Tokens, set[Control]] = {}
    for term in terms:
        for holder in subterms(term):
            for argument in holder.arguments:
                if argument.value.is_leaf:
                    possible[argument.keyword] = set()
                    continue
                counts[argument.keyword] += 1
                found = set(_copies_of_siblings(holder, argument))
                earlier = possible.setdefault(argument.keyword, found)
                possible[argument.keyword] = earlier & found
    controls = []
    for keyword, found in possible.items():
        if found and counts[keyword] >= FEWEST_ARGUMENTS:
            controls.append(min(found, key=lambda each: (each.antecedent, each.place)))
    return tuple(sorted(controls, key=lambda each: each.keyword))


def _copies_of_siblings(
    holder: ProgramTerm, argument: TermArgument
) -> Iterator[Control]:
    for sibling in holder.arguments:
        if sibling is argument:
            continue
        for place in argument.value.arguments:
            if place.value == ProgramTerm(sibling.value.head):
                yield Control(argument.keyword, sibling.keyword, place.keyword)


def _fitted_filler(terms: Sequence[ProgramTerm], traces: Traces) -> Tokens | None:
    """The leaf that stands only where no binder is above it, far too often for chance.

    Traces and the filler are then in complementary distribution: one sign will do for both.
    """
    inside = total = 0
    outside = Counter[Tokens]()
    refuted: set[Tokens] = set()
    places: defaultdict[Tokens, set[Tokens]] = defaultdict(set)
    for term in terms:
        encoded = parse_term(traces.encode(term.tokens()))
        assert encoded is not None, "an encoded term is a term"
        seen: set[Tokens] = set()
        for keyword, leaf, is_bound in _leaf_places(encoded, traces.binders):
            places[leaf].add(keyword)
            if any(map(traces.is_trace, leaf)):
                continue
            total += 1
            inside += is_bound
            if is_bound or leaf in seen:
                refuted.add(leaf)
            seen.add(leaf)
            outside[leaf] += 1
    fillers: Mapping[Tokens, int] = {
        leaf: count
        for leaf, count in outside.items()
        if leaf not in refuted and places[leaf] <= places[(TRACE,)]
    }
    if not fillers:
        return None
    best = min(fillers, key=lambda leaf: (-fillers[leaf], leaf))
    chance = (1 - inside / total) ** fillers[best] * len(outside)
    return best if chance < FILLER_CHANCE else None


def _leaf_places(
    term: ProgramTerm, binders: tuple[Tokens, ...], is_bound: bool = False
) -> Iterator[tuple[Tokens, Tokens, bool]]:
    """The keyword and the head of each leaf, and whether a binder is above it."""
    for argument in term.arguments:
        value = argument.value
        below = is_bound or argument.keyword in binders
        if value.is_leaf:
            yield argument.keyword, value.head, below
        else:
            yield from _leaf_places(value, binders, below)
