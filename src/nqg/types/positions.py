"""Programs as terms at positions.

A position is the whole program (`ROOT`), an argument of a word, or an item of a list or operator
that stands at another position. Equal places in different programs are one position:
the first argument of `on` is position 1 in `on ( hall , lamp )` and in `on ( attic , fan )`.
All keywords of a word have one position, whatever other arguments stand beside them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nqg.types.program_trees import (
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

    @property
    def is_call(self) -> bool:
        """Whether the head is a function, with or without arguments."""
        return bool(self.word) and not self.is_value and not self.form.is_keyword


class Filler(NamedTuple):
    """A head that stands at a position."""

    position: Position
    head: Head


class Argument(NamedTuple):
    """An argument of a head; that of a head without a word is told apart by the head's position."""

    head: Head
    number: int
    host: Position = ROOT


class CallShape(NamedTuple):
    """A function over its arguments: how it is called, and with which keywords in which order."""

    head: Head
    keywords: tuple[Head, ...]


class Corpus:
    """Programs as sets of fillers; a program that cannot be read is a single filler of the root."""

    def __init__(self, programs: Mapping[tuple[str, ...], int]) -> None:
        # What each position is, and the other direction.
        self.arguments = [Argument(Head(BARE), 0)]
        self._positions = {self.arguments[ROOT]: ROOT}
        # The function whose keywords stand at a position.
        self.functions: dict[Position, Word] = {}
        # How often each filler and each set of fillers occurs, in order of first appearance.
        self.fillers = Counter[Filler]()
        self.programs = Counter[frozenset[Filler]]()
        # How often functions are called in each way.
        self.calls = Counter[CallShape]()
        self.unreadable = 0
        terms = {tokens: read_term(tokens) for tokens in programs}
        readable = {tokens: term for tokens, term in terms.items() if term}
        self._reader = ProgramReader.of(
            list(readable.values()), [programs[tokens] for tokens in readable]
        )
        for tokens, term in terms.items():
            count = programs[tokens]
            calls: list[CallShape] = []
            fillers = self._fillers(term, calls) if term else []
            if not fillers:
                fillers = [Filler(ROOT, Head(Form(prefix=tokens)))]
                self.unreadable += count
                calls = []
            for filler in fillers:
                self.fillers[filler] += count
            for call in calls:
                self.calls[call] += count
            self.programs[frozenset(fillers)] += count

    def _fillers(self, term: Term, calls: list[CallShape]) -> list[Filler]:
        """The fillers of a program, parents first; none where a phrase in it cannot be read.

        The calls in it are added to `calls`.
        """
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
            following = []
            positions = self.argument_positions(filler)
            places = 0
            keywords = []
            for argument in arguments:
                if form.has_keywords and argument.form.is_keyword:
                    following.append((positions[-1], argument, is_inside))
                    keywords.append(Head(argument.form, argument.word))
                    continue
                # Where there may be any number of arguments, all have one position.
                place = min(places, form.places - 1)
                following.append((positions[place], argument, is_inside))
                places += 1
            waiting.extend(reversed(following))
            if filler.head.is_call:
                calls.append(CallShape(filler.head, tuple(keywords)))
        return fillers

    def argument_positions(self, filler: Filler) -> tuple[Position, ...]:
        """The positions of a filler's arguments; one for all where there may be any number.

        The last one is that of keywords, if there are some.
        """
        head = filler.head
        host = ROOT if head.word else filler.position
        positions = [
            self._position(Argument(head, number, host))
            for number in range(head.form.places)
        ]
        if head.form.has_keywords:
            positions.append(self.keyword_position(head))
        return tuple(positions)

    def keyword_position(self, head: Head) -> Position:
        """The position of a function's keywords, the same for all forms of calls."""
        only = head._replace(form=head.form.only_keywords)
        position = self._position(Argument(only, 0))
        self.functions[position] = head.word
        return position

    def _position(self, argument: Argument) -> Position:
        position = self._positions.setdefault(argument, len(self.arguments))
        if position == len(self.arguments):
            self.arguments.append(argument)
        return position


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
