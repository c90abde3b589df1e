"""Programs as terms at positions.

A position is the whole program (`ROOT`), an argument of a word, or an item of a list or operator
that stands at another position. Equal places in different programs are one position:
the first argument of `on` is position 1 in `on ( hall , lamp )` and in `on ( attic , fan )`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import NamedTuple

from nqg.types.program_trees import (
    ANY,
    BARE,
    Form,
    ProgramReader,
    Term,
    Word,
    read_term,
)

Position = int
# A type is a set of positions and is named by the first of them.
Type = Position
ROOT: Position = 0


class Head(NamedTuple):
    """How a term begins: the form it is in, and its word."""

    form: Form
    word: Word = ()

    @property
    def is_value(self) -> bool:
        """Whether the head is a word alone, bare or quoted."""
        return bool(self.word) and not self.form.arity and not self.form.opening


class Filler(NamedTuple):
    """A head that stands at a position."""

    position: Position
    head: Head


class Argument(NamedTuple):
    """An argument of a head; that of a head without a word is told apart by the head's position."""

    head: Head
    number: int
    host: Position = ROOT


class Corpus:
    """Programs as sets of fillers; a program that cannot be read is a single filler of the root."""

    def __init__(self, programs: Mapping[tuple[str, ...], int]) -> None:
        # What each position is, and the other direction.
        self.arguments = [Argument(Head(BARE), 0)]
        self._positions = {self.arguments[ROOT]: ROOT}
        # How often each filler and each set of fillers occurs, in order of first appearance.
        self.fillers = Counter[Filler]()
        self.programs = Counter[frozenset[Filler]]()
        self.unreadable = 0
        terms = {tokens: read_term(tokens) for tokens in programs}
        self._reader = ProgramReader.of(filter(None, terms.values()))
        for tokens, term in terms.items():
            count = programs[tokens]
            fillers = self._fillers(term) if term else []
            if not fillers:
                fillers = [Filler(ROOT, Head(Form(prefix=tokens)))]
                self.unreadable += count
            for filler in fillers:
                self.fillers[filler] += count
            self.programs[frozenset(fillers)] += count

    def _fillers(self, term: Term) -> list[Filler]:
        """The fillers of a program, parents first; none where a phrase in it cannot be read."""
        fillers: list[Filler] = []
        waiting = [(ROOT, term, False)]
        while waiting:
            position, term, is_inside = waiting.pop()
            resolved = self._reader.resolved(term, is_inside=is_inside)
            if resolved is None:
                return []
            form, word, arguments = resolved
            filler = Filler(position, Head(form, word))
            fillers.append(filler)
            is_inside = is_inside or bool(word or form.prefix)
            # Where there may be any number of arguments, the last position is that of all others.
            positions = self.argument_positions(filler)
            positions += positions[-1:] * (len(arguments) - len(positions))
            following = zip(positions, arguments, repeat(is_inside))
            waiting.extend(reversed(list(following)))
        return fillers

    def argument_positions(self, filler: Filler) -> tuple[Position, ...]:
        """The positions of a filler's arguments; one for all where there may be any number."""
        head = filler.head
        host = ROOT if head.word else filler.position
        positions = []
        for number in range(1 if head.form.arity == ANY else head.form.arity):
            argument = Argument(head, number, host)
            position = self._positions.setdefault(argument, len(self.arguments))
            if position == len(self.arguments):
                self.arguments.append(argument)
            positions.append(position)
        return tuple(positions)


class FormSignature(NamedTuple):
    """A type, a form that it has, and the types of the form's arguments."""

    type: Type
    form: Form
    arguments: tuple[Type, ...]


class Types:
    """The type of each position (`of`), and the heads of each type with the types of arguments."""

    def __init__(
        self, corpus: Corpus, of: dict[Position, Type], fillers: Iterable[Filler]
    ) -> None:
        self.of = of
        self.heads = defaultdict[Type, dict[Head, tuple[Type, ...]]](dict)
        # The forms in which whole programs are seen.
        self.whole: set[Form] = set()
        for filler in fillers:
            arguments = tuple(
                of[position] for position in corpus.argument_positions(filler)
            )
            self.heads[of[filler.position]].setdefault(filler.head, arguments)
            if filler.position == ROOT:
                self.whole.add(filler.head.form)
        # A list may stand at a position where it was never seen. Its items have the types
        # that they have elsewhere in the same type.
        for position, (head, number, host) in enumerate(corpus.arguments):
            if position not in of and host in of and head in self.heads[of[host]]:
                of[position] = self.heads[of[host]][head][number]

    def accept(self, filler: Filler) -> bool:
        """Whether the head of a filler belongs to the type of its position."""
        position, head = filler
        if position == ROOT and head.form not in self.whole:
            return False
        return position in self.of and head in self.heads[self.of[position]]

    def words(self) -> dict[FormSignature, list[Word]]:
        """The words in each form of each type."""
        words = defaultdict[FormSignature, list[Word]](list)
        for type_, heads in self.heads.items():
            for head, arguments in heads.items():
                words[FormSignature(type_, head.form, arguments)].append(head.word)
        return words
