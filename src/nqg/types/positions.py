"""Programs as terms at positions: the whole program, an argument of a word, an item of what stands elsewhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nqg.types.program_trees import ANY, BARE, Form, ProgramReader, Term, Word, read_term

Position = int
Head = tuple[Form, Word]  # how a term begins: the form it is in, and its word
ROOT: Position = 0


def is_value(form: Form, word: Word) -> bool:
    """Whether a head is a word alone, bare or quoted."""
    return bool(word) and not form.arity and not form.opening


class Filler(NamedTuple):
    """What stands at a position."""

    position: Position
    head: Head


class ArgumentPlace(NamedTuple):
    """What a position is: an argument of a head or, where that has no word, a part of what stands at `host`."""

    head: Head
    number: int
    host: Position = ROOT


class Corpus:
    """Programs as sets of fillers. One that cannot be read is a filler of the root, whole."""

    def __init__(self, written: Mapping[tuple[str, ...], int]) -> None:
        self.places: list[ArgumentPlace] = [ArgumentPlace((BARE, ()), 0)]  # of each position
        self._positions: dict[ArgumentPlace, Position] = {self.places[0]: ROOT}
        self.fillers: dict[Filler, int] = {}  # numbers them
        self.counts: Counter[int] = Counter()
        self.programs: Counter[frozenset[int]] = Counter()
        self.unreadable = 0
        terms = {tokens: read_term(tokens) for tokens in written}
        self._reader = ProgramReader.of(term for term in terms.values() if term)
        for tokens, count in written.items():
            term = terms[tokens]
            found = self._fillers(term) if term else None
            if found is None:
                found = [Filler(ROOT, (Form(prefix=tokens), ()))]
                self.unreadable += count
            numbers = [self.fillers.setdefault(filler, len(self.fillers)) for filler in found]
            for number in numbers:
                self.counts[number] += count
            self.programs[frozenset(numbers)] += count

    def _fillers(self, term: Term) -> list[Filler] | None:
        found: list[Filler] = []
        waiting = [(ROOT, term, False)]
        while waiting:
            position, term, is_inside = waiting.pop()
            resolved = self._reader.resolved(term, is_inside=is_inside)
            if resolved is None:
                return None
            form, word, arguments = resolved
            filler = Filler(position, (form, word))
            found.append(filler)
            inner = self.arguments(filler)
            is_inside = is_inside or bool(word or form.prefix)
            for number, argument in reversed(list(enumerate(arguments))):
                waiting.append((inner[min(number, len(inner) - 1)], argument, is_inside))
        return found

    def arguments(self, filler: Filler) -> tuple[Position, ...]:
        """The positions of the arguments of what stands there; one for all where there may be any number."""
        form, word = filler.head
        host = ROOT if word else filler.position
        numbers = range(1 if form.arity == ANY else form.arity)
        return tuple(self._position(ArgumentPlace(filler.head, number, host)) for number in numbers)

    def _position(self, place: ArgumentPlace) -> Position:
        position = self._positions.setdefault(place, len(self.places))
        if position == len(self.places):
            self.places.append(place)
        return position


Instance = tuple[
    Position, Form, tuple[Position, ...]
]  # a type, a form that it has, the types of the arguments


class Types:
    """Positions joined into types, each known by its first position, and the heads that belong to them."""

    def __init__(
        self, corpus: Corpus, of: dict[Position, Position], fillers: Iterable[Filler]
    ) -> None:
        self.of = of
        self.heads: dict[Position, dict[Head, tuple[Position, ...]]] = defaultdict(
            dict
        )  # with types of arguments
        self.whole: set[Form] = set()  # the forms of whole programs
        for filler in fillers:
            inner = tuple(of[position] for position in corpus.arguments(filler))
            self.heads[of[filler.position]].setdefault(filler.head, inner)
            if filler.position == ROOT:
                self.whole.add(filler.head[0])
        for position, (head, number, host) in enumerate(
            corpus.places
        ):  # parts of what was never seen at this host
            if position not in of and host in of and head in self.heads[of[host]]:
                of[position] = self.heads[of[host]][head][number]

    def accept(self, filler: Filler) -> bool:
        is_known = (
            filler.position in self.of and filler.head in self.heads[self.of[filler.position]]
        )
        return is_known and (filler.position != ROOT or filler.head[0] in self.whole)

    def words(self) -> dict[Instance, list[Word]]:
        """The words in each form of each type."""
        found: dict[Instance, list[Word]] = defaultdict(list)
        for own, heads in self.heads.items():
            for (form, word), inner in heads.items():
                found[own, form, inner].append(word)
        return found
