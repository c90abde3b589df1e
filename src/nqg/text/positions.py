"""Programs whose variables are positions of words: a conjunction of atoms becomes one term.

    The cat saw a dog    * cat ( x _ 1 ) ; see . agent ( x _ 2 , x _ 1 ) AND
                         see . theme ( x _ 2 , x _ 4 ) AND dog ( x _ 4 )
                       → see ( agent = * cat , theme = dog )

A variable is the number of a word, so the same noun has another variable in every sentence, and no
rule can write it. The term has no variables. Its heads say where they stand: `dog` is the first
*dog* that no earlier head stands for, and `see` is *saw*, as training showed. A value that two
atoms share is written once. Where a keyword always shares a value with its sibling, a trace stands
for the second one (`nqg.text.traces.Control`).

Nothing is lost: a program becomes a term only where its sentence leads back to the same program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nqg.text.traces import (
    CLOSE,
    COMMA,
    DEEPEST,
    FEWEST_ARGUMENTS,
    OPEN,
    Control,
    ProgramTerm,
    TermArgument,
    Tokens,
    parse_term,
)

AND, PRESUPPOSED, DEFINITE, DOT = "AND", ";", "*", "."
# Digits of a position at most.
MOST_DIGITS = 6
# The keyword of a whole program.
ROOT: Tokens = ()

# A variable, or a constant.
Value = int | str
# The words of a sentence, and its program.
Pair = tuple[Sequence[str], Tokens]


@dataclass(frozen=True, slots=True)
class WordAtom:
    """`name ( variable )` or, with a role, `name . role ( variable , value )`."""

    name: str
    variable: int
    role: Tokens = ROOT
    value: Value = ""
    is_definite: bool = False


@dataclass
class AtomReader:
    """Reads the atoms of a program from left to right.

    >>> reader = AtomReader("dog ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )".split())
    >>> for atom in reader.atoms():
    ...     print(atom.name, atom.variable, atom.role)
    dog 1 ()
    run 2 ('agent',)
    """

    tokens: Sequence[str]
    prefix: Tokens = ()
    position: int = 0

    def atoms(self) -> list[WordAtom] | None:
        """All atoms; None where the program is no conjunction of atoms over variables."""
        atoms = []
        while True:
            atom = self._atom()
            if atom is None:
                return None
            atoms.append(atom)
            if self.position == len(self.tokens):
                return atoms
            if self.tokens[self.position] not in (AND, PRESUPPOSED):
                return None
            self.position += 1

    def _atom(self) -> WordAtom | None:
        try:
            opening = self.tokens.index(OPEN, self.position)
            closing = self.tokens.index(CLOSE, opening)
        except ValueError:
            return None
        name = list(self.tokens[self.position : opening])
        inside = list(self.tokens[opening + 1 : closing])
        self.position = closing + 1
        is_definite = name[:1] == [DEFINITE]
        if is_definite:
            del name[0]
        if COMMA not in inside:
            variable = self._value(inside)
            if len(name) != 1 or not isinstance(variable, int):
                return None
            return WordAtom(name[0], variable, is_definite=is_definite)
        comma = inside.index(COMMA)
        variable, value = self._value(inside[:comma]), self._value(inside[comma + 1 :])
        if len(name) < 3 or name[1] != DOT or is_definite:
            return None
        if not isinstance(variable, int) or value is None:
            return None
        return WordAtom(name[0], variable, tuple(name[2:]), value)

    def _value(self, tokens: Sequence[str]) -> Value | None:
        """A variable, which has a number behind its prefix, or a constant."""
        if len(tokens) == 1:
            return tokens[0]
        if not tokens or not tokens[-1].isdecimal() or len(tokens[-1]) > MOST_DIGITS:
            return None
        prefix = tuple(tokens[:-1])
        if self.prefix and self.prefix != prefix:
            return None
        self.prefix = prefix
        return int(tokens[-1])


@dataclass(frozen=True, slots=True)
class WordNode:
    """All that the atoms of a program say about one variable."""

    names: tuple[str, ...]
    is_named: bool  # an atom has nothing but the variable
    is_definite: bool
    arguments: tuple[tuple[Tokens, Value], ...]

    def argument(self, role: Tokens) -> Value | None:
        return dict(self.arguments).get(role)


Graph = Mapping[int, WordNode]


def word_graph(atoms: Iterable[WordAtom]) -> Graph:
    """The variables of atoms, in the order in which they come first."""
    by_variable: defaultdict[int, list[WordAtom]] = defaultdict(list)
    for atom in atoms:
        by_variable[atom.variable].append(atom)
    graph = {}
    for variable, about in by_variable.items():
        arguments = tuple((atom.role, atom.value) for atom in about if atom.role)
        graph[variable] = WordNode(
            names=tuple(dict.fromkeys(atom.name for atom in about)),
            is_named=len(arguments) < len(about),
            is_definite=any(atom.is_definite for atom in about),
            arguments=arguments,
        )
    return graph


@dataclass(frozen=True, slots=True)
class Positions:
    """How programs over positions of words become terms, and terms such programs.

    `forms` has the words of a head that are not the head itself; `named` are the keywords whose
    values have an atom of their own. A program is the value of the empty keyword.

    >>> positions = Positions(("x", "_"), {"see": ("saw",)}, ("Emma",), named=(("agent",),))
    >>> words, term = "A cat saw Emma".split(), "see ( agent = cat , theme = Emma )".split()
    >>> print(*positions.decode(term, words))
    cat ( x _ 1 ) AND see . agent ( x _ 2 , x _ 1 ) AND see . theme ( x _ 2 , Emma )
    >>> positions.encode(positions.decode(term, words), words) == tuple(term)
    True
    """

    prefix: Tokens
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    named: tuple[Tokens, ...] = ()
    controls: tuple[Control, ...] = ()

    def encode(self, tokens: Sequence[str], words: Sequence[str]) -> Tokens:
        """The term of a program; the program itself where the term would not lead back to it."""
        program = tuple(tokens)
        atoms = AtomReader(program, self.prefix).atoms()
        if atoms is None:
            return program
        term = self.term(word_graph(atoms))
        if term is None or self.decode(term.tokens(), words) != program:
            return program
        return term.tokens()

    def decode(self, tokens: Sequence[str], words: Sequence[str]) -> Tokens:
        """The program of a term; the tokens as they are where a head has no word."""
        term = parse_term(tokens)
        if term is None or term.is_leaf:
            return tuple(tokens)
        writer = _AtomWriter(self, words)
        variable = writer.add(term, ROOT, {})
        if variable is None:
            return tuple(tokens)
        return writer.program()

    def problem(self, tokens: Sequence[str]) -> str:
        """Why a program is not one over the words of its sentence; "" if it may be one."""
        term = parse_term(tokens)
        if term is None or term.is_leaf:
            return ""
        return "a part of the program stands for no word of the sentence"

    def term(self, graph: Graph) -> ProgramTerm | None:
        """The tree that a graph is, without what `controls` say."""
        values = set[Value]()
        for node in graph.values():
            values |= {value for _, value in node.arguments}
        roots = [variable for variable in graph if variable not in values]
        if len(roots) != 1 or len(graph) > DEEPEST:
            return None
        unread = set(graph)
        term = self._term(graph, roots[0], {}, unread)
        if unread:
            return None
        return term

    def _term(
        self,
        graph: Graph,
        variable: int,
        traces: Mapping[Tokens, tuple[Value, Tokens]],
        unread: set[int],
    ) -> ProgramTerm | None:
        """The term below a variable; `traces` has the values of roles that a trace stands for."""
        if variable not in unread or len(graph[variable].names) > 1:
            return None
        unread.remove(variable)
        node = graph[variable]
        arguments = []
        for role, value in node.arguments:
            shared = traces.get(role)
            child: ProgramTerm | None
            if shared and shared[0] == value:
                child = ProgramTerm(shared[1])
            elif isinstance(value, int):
                below = {}
                for control in self.controls:
                    antecedent = node.argument(control.antecedent)
                    if control.keyword == role and antecedent is not None:
                        below[control.place] = (antecedent, control.trace)
                child = self._term(graph, value, below, unread)
            else:
                child = ProgramTerm((value,))
            if child is None:
                return None
            arguments.append(TermArgument(role, child))
        head: Tokens = node.names
        if node.is_definite:
            head = (DEFINITE, *head)
        return ProgramTerm(head, tuple(arguments))


class _AtomWriter:
    """Writes the atoms of a term, whose heads take the words of a sentence from left to right."""

    def __init__(self, positions: Positions, words: Sequence[str]) -> None:
        self._positions = positions
        self._free: defaultdict[str, list[int]] = defaultdict(list)
        for position, word in enumerate(words):
            self._free[word].append(position)
        self._atoms: list[WordAtom] = []

    def add(
        self, term: ProgramTerm, keyword: Tokens, traces: Mapping[Tokens, Value]
    ) -> Value | None:
        """Add the atoms of a term, and return its value: None if a head in it has no word.

        `traces` has what the traces among its arguments stand for.
        """
        *marks, name = term.head
        if term.is_leaf and name in self._positions.constants:
            return name
        variable = self._position(name)
        if variable is None or marks not in ([], [DEFINITE]):
            return None
        if keyword in self._positions.named:
            self._atoms.append(WordAtom(name, variable, is_definite=bool(marks)))
        values: dict[Tokens, Value] = {}
        for argument in term.arguments:
            role = argument.keyword
            below = {}
            for control in self._positions.controls:
                if control.keyword == role and control.antecedent in values:
                    below[control.trace] = values[control.antecedent]
            value = traces.get(argument.value.head)
            if value is None:
                value = self.add(argument.value, role, below)
            if value is None:
                return None
            values[role] = value
            self._atoms.append(WordAtom(name, variable, role, value))
        return variable

    def _position(self, name: str) -> int | None:
        """The first position of a word for a head; it is taken from now on."""
        first: tuple[int, str] | None = None
        for word in (name, *self._positions.forms.get(name, ())):
            free = self._free.get(word)
            if free and (first is None or free[0] < first[0]):
                first = (free[0], word)
        if first is None:
            return None
        return self._free[first[1]].pop(0)

    def program(self) -> Tokens:
        """Definite atoms, then the others, by variable; `sorted` keeps the order of arguments."""
        atoms = sorted(self._atoms, key=lambda atom: atom.variable)
        written: list[str] = []
        for atom in atoms:
            if atom.is_definite:
                written += [DEFINITE, *self._tokens(atom), PRESUPPOSED]
        for atom in atoms:
            if not atom.is_definite:
                written += [*self._tokens(atom), AND]
        return tuple(written[:-1])

    def _tokens(self, atom: WordAtom) -> list[str]:
        prefix = self._positions.prefix
        written = [atom.name]
        if atom.role:
            written += [DOT, *atom.role]
        written += [OPEN, *prefix, str(atom.variable)]
        if atom.role:
            written.append(COMMA)
            if isinstance(atom.value, int):
                written += prefix
            written.append(str(atom.value))
        return [*written, CLOSE]


def fit_positions(pairs: Sequence[Pair]) -> Positions | None:
    """The positions of programs like these; None where most programs do not become terms.

    >>> pairs = []
    >>> for noun in ("cat", "dog", "bird"):
    ...     program = f"{noun} ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )"
    ...     pairs.append((f"A {noun} ran".split(), tuple(program.split())))
    >>> fit_positions(pairs).forms
    {'run': ('ran',)}
    """
    graphs: list[tuple[Sequence[str], Graph]] = []
    prefixes = Counter[Tokens]()
    constants: set[str] = set()
    for words, program in pairs:
        reader = AtomReader(program)
        atoms = reader.atoms()
        if atoms is not None:
            prefixes[reader.prefix] += 1
            graphs.append((words, word_graph(atoms)))
        elif len(program) == 1:
            constants.update(program)
    if 2 * len(graphs) < len(pairs) or len(prefixes) != 1:
        return None
    # What the graphs show.
    forms: defaultdict[str, set[str]] = defaultdict(set)
    keywords: defaultdict[Tokens, set[bool]] = defaultdict(set)
    for words, graph in graphs:
        values = set[Value]()
        for variable, node in graph.items():
            if variable >= len(words):
                return None
            for name in node.names:
                forms[name].add(words[variable])
            for role, value in node.arguments:
                values.add(value)
                if isinstance(value, int) and value in graph:
                    keywords[role].add(graph[value].is_named)
                elif isinstance(value, str):
                    constants.add(value)
        for variable, node in graph.items():
            if variable not in values:
                keywords[ROOT].add(node.is_named)
    inflected = {}
    for name in sorted(forms):
        words_of_name = sorted(forms[name] - {name})
        if words_of_name:
            inflected[name] = tuple(words_of_name)
    positions = Positions(
        prefix=next(iter(prefixes)),
        forms=inflected,
        constants=tuple(sorted(constants)),
        named=tuple(sorted(role for role, shown in keywords.items() if True in shown)),
        controls=_fitted_controls(graph for _, graph in graphs),
    )
    # Programs that do not become terms stay as they are; most must become such.
    terms = 0
    for words, program in pairs:
        encoded = positions.encode(program, words)
        if positions.decode(encoded, words) != program:
            return None
        terms += encoded != program
    if 2 * terms < len(pairs):
        return None
    return positions


def _fitted_controls(graphs: Iterable[Graph]) -> tuple[Control, ...]:
    """The keywords whose values always share one of their arguments with the same sibling."""
    shared = Counter[Control]()
    counts = Counter[tuple[Tokens, Tokens]]()
    for graph in graphs:
        for keyword, holder, value in _edges(graph):
            for role, argument in value.arguments:
                counts[keyword, role] += 1
                for sibling, antecedent in holder.arguments:
                    if antecedent == argument:
                        shared[Control(keyword, sibling, role)] += 1
    controls: dict[tuple[Tokens, Tokens], Control] = {}
    for control in sorted(shared, key=lambda each: (each.keyword, each.antecedent)):
        always = counts[control.keyword, control.place]
        if shared[control] == always >= FEWEST_ARGUMENTS:
            controls.setdefault((control.keyword, control.place), control)
    return tuple(controls.values())


def _edges(graph: Graph) -> Iterator[tuple[Tokens, WordNode, WordNode]]:
    """The roles whose value is a variable, with the nodes of both of their ends."""
    for holder in graph.values():
        for role, value in holder.arguments:
            if isinstance(value, int) and value in graph:
                yield role, holder, graph[value]
