"""A target grammar for programs that nobody wrote one for.

Programs are read as trees (`nqg.grammar.program_trees`). A place where terms stand is a *position*: the whole program,
an argument of a word, a part of what stands at another position. Positions that hold the same words are one *type*,
which becomes a category of the grammar. How much two positions must share is chosen on folds of the programs: each fold
holds out all programs with certain words in certain positions, and the finest types are taken that accept nearly as
many of them as the coarsest.

A type in which new words turn up again and again is open: it also holds tokens that the grammar does not name.
Programs that are not trees, such as SCAN's, get a grammar of their tokens in any order.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations, pairwise, product
from typing import NamedTuple

from nqg.errors import FormatError
from nqg.grammar.grammar import SLOT
from nqg.grammar.program_trees import ANY, BARE, BRACKETS, Form, ProgramReader, Term, Word, read_term
from nqg.grammar.target_grammar import Category, Production, TargetGrammar, TargetSymbol, Wildcard

TOLERANCE = 0.05  # the share of held-out programs that finer types may cost
FOLDS = 10  # at most: fewer are enough where many programs are tried
ENOUGH = 2000
HELD_OUT = 1 / 3  # of the programs, in each fold
ADOPTED = 1 / 2  # a form that has so much of the words of another takes the others, too
NEW = 0.01  # the share of words seen once from which on others are expected, too
MERGES = 20  # rounds in which equal types are merged: more are needed only where terms are nested as deep
SHOWN = 5  # examples of a type
WHOLE = "the whole program"

Position = int
Head = tuple[Form, Word]  # how a term begins: the form it is in, and its word
ROOT: Position = 0
WHOLE_PROGRAM: Position = -1  # a type of its own, where other terms of the root's type are not whole programs
PARENTHESES: Head = (Form(("(",), (), 1, ",", (")",)), ())  # around one term, whose type they do not change


class Coarseness(Enum):
    """Positions are one type if they share at least this part of the heads of the one that has fewer.

    Or if both hold keywords: whatever takes one takes all, and still each has values of its own type. Or all are.
    """

    HALF = 1 / 2
    ONE_HEAD = 1e-9
    KEYWORDS = 1e-12
    ALL = 0.0


@dataclass(frozen=True, slots=True)
class InferredType:
    """A category with the positions that it is made of, how often terms stand there, and the commonest words."""

    category: Category
    positions: tuple[str, ...]
    occurrences: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InferredTypes:
    """A target grammar, what its types are, and the share of held-out programs that each coarseness accepts."""

    grammar: TargetGrammar
    types: tuple[InferredType, ...]
    coarseness: Coarseness | None = None  # none where programs are not trees
    accepted: Mapping[Coarseness, float] = field(default_factory=dict)


def infer_target_grammar(programs: Iterable[Sequence[str]], coarseness: Coarseness | None = None) -> TargetGrammar:
    """The grammar of programs like these, each a sequence of tokens.

    >>> programs = "on ( hall , lamp )", "off ( hall , fan )", "on ( attic , fan )", "off ( attic , lamp )"
    >>> print(infer_target_grammar(map(str.split, programs)), end="")
    <program> ::= <program_head> ( <on_argument_1> , <on_argument_2> )
    <on_argument_1> ::= hall | attic
    <on_argument_2> ::= lamp | fan
    <program_head> ::= on | off
    """
    return infer_types(programs, coarseness).grammar


def infer_types(programs: Iterable[Sequence[str]], coarseness: Coarseness | None = None) -> InferredTypes:
    """Types of programs like these; the coarseness is chosen on folds unless it is given."""
    written = Counter(map(_checked, programs))
    if not written:
        raise FormatError("expected at least one program to infer types from, found none")
    corpus = Corpus(written)
    if 2 * corpus.unreadable > written.total():
        return flat_types(written)
    accepted = {} if coarseness else held_out_acceptance(corpus)
    if coarseness is None:
        enough = max(accepted.values()) - TOLERANCE
        coarseness = next(level for level in Coarseness if accepted[level] >= enough)
    types = next(types for level, types in ladder(corpus, corpus.fillers) if level is coarseness)
    writer = GrammarWriter(corpus, types)
    return InferredTypes(writer.grammar, writer.types, coarseness, accepted)


def _checked(program: Sequence[str]) -> tuple[str, ...]:
    if isinstance(program, str):
        raise FormatError(f"expected a sequence of tokens, found the string {program!r}; split it first")
    if not program:
        raise FormatError("expected at least one token in each program, found a program without any")
    return tuple(program)


def _is_value(form: Form, word: Word) -> bool:
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


Instance = tuple[Position, Form, tuple[Position, ...]]  # a type, a form that it has, the types of the arguments


class Types:
    """Positions joined into types, each known by its first position, and the heads that belong to them."""

    def __init__(self, corpus: Corpus, of: dict[Position, Position], fillers: Iterable[Filler]) -> None:
        self.of = of
        self.heads: dict[Position, dict[Head, tuple[Position, ...]]] = defaultdict(dict)  # with types of arguments
        self.whole: set[Form] = set()  # the forms of whole programs
        for filler in fillers:
            inner = tuple(of[position] for position in corpus.arguments(filler))
            self.heads[of[filler.position]].setdefault(filler.head, inner)
            if filler.position == ROOT:
                self.whole.add(filler.head[0])
        for position, (head, number, host) in enumerate(corpus.places):  # parts of what was never seen at this host
            if position not in of and host in of and head in self.heads[of[host]]:
                of[position] = self.heads[of[host]][head][number]

    def accept(self, filler: Filler) -> bool:
        is_known = filler.position in self.of and filler.head in self.heads[self.of[filler.position]]
        return is_known and (filler.position != ROOT or filler.head[0] in self.whole)

    def words(self) -> dict[Instance, list[Word]]:
        """The words in each form of each type."""
        found: dict[Instance, list[Word]] = defaultdict(list)
        for own, heads in self.heads.items():
            for (form, word), inner in heads.items():
                found[own, form, inner].append(word)
        return found


def held_out_acceptance(corpus: Corpus) -> dict[Coarseness, float]:
    """The share of held-out programs that types of the others accept, over all folds.

    New values say nothing about types and are passed over; programs with other new heads are not tried.
    """
    fillers, programs = list(corpus.fillers), list(corpus.programs.items())
    holders: dict[int, list[int]] = defaultdict(list)
    for at, (program, _) in enumerate(programs):
        for number in program:
            holders[number].append(at)
    rare = [number for number, at in sorted(holders.items()) if 3 * len(at) <= HELD_OUT * len(programs)]
    rng, accepted, total = random.Random(0), Counter[Coarseness](), 0
    for _ in range(FOLDS):
        if total >= ENOUGH:
            break
        held_out: set[int] = set()
        for number in rng.sample(rare, len(rare)):
            if len(held_out) >= HELD_OUT * len(programs):
                break
            held_out.update(holders[number])
        known = {number for at, (program, _) in enumerate(programs) if at not in held_out for number in program}
        heads = {fillers[number].head for number in known}
        new_values = {number for number, (_, head) in enumerate(fillers) if head not in heads and _is_value(*head)}
        tried = [(programs[at][0] - new_values, programs[at][1]) for at in sorted(held_out)]
        tried = [each for each in tried if all(fillers[number].head in heads for number in each[0])]
        total += sum(count for _, count in tried)
        for coarseness, types in ladder(corpus, [fillers[number] for number in sorted(known)]):
            refused = {number for number, filler in enumerate(fillers) if not types.accept(filler)}
            accepted[coarseness] += sum(count for program, count in tried if refused.isdisjoint(program))
    return {coarseness: accepted[coarseness] / max(total, 1) for coarseness in Coarseness}


def ladder(corpus: Corpus, fillers: Collection[Filler]) -> Iterator[tuple[Coarseness, Types]]:
    """Types for `fillers`, from the finest on; what one accepts, the next accepts as well."""
    heads: dict[Position, set[Head]] = {position: set() for position, _ in fillers}
    for position, head in fillers:
        if head[1]:  # lists are everywhere, and say nothing of types
            heads[position].add(head)
    overlaps, words = head_overlaps(heads), _words_within(corpus, fillers)
    joined, adopted = Partition(), dict[Filler, tuple[Position, ...]]()
    for position in heads:
        place = corpus.places[position]
        if place.head == PARENTHESES:
            joined.join(place.host, position)

    def types() -> Types:
        of = {position: joined.find(position) for position in heads}
        for filler, inner in adopted.items():
            for position, same in zip(corpus.arguments(filler), inner, strict=True):
                of.setdefault(position, of[same])
        return Types(corpus, of, (*fillers, *adopted))

    for coarseness in Coarseness:
        for share, one, other in overlaps:
            if share >= coarseness.value:
                joined.join(one, other)
        if coarseness in (Coarseness.KEYWORDS, Coarseness.ALL):
            has_keyword = {position for position, own in heads.items() if any(form.is_keyword for form, _ in own)}
            same = has_keyword if coarseness is Coarseness.KEYWORDS else heads.keys()
            for position in same - {ROOT}:
                joined.join(max(same), position)
        _join_thin(corpus, joined, heads, words)
        _join_parts(corpus, joined, heads)
        current = types()
        while found := _adopted(current):
            adopted |= found
            current = types()
        yield coarseness, current


class Partition:
    """Sets of positions that are joined step by step; each is known by its least member."""

    def __init__(self) -> None:
        self._parents: dict[Position, Position] = {}

    def find(self, position: Position) -> Position:
        root = position
        while (parent := self._parents.get(root, root)) != root:
            root = parent
        while position != root:
            self._parents[position], position = root, self._parents[position]
        return root

    def join(self, one: Position, other: Position) -> None:
        one, other = sorted((self.find(one), self.find(other)))
        self._parents[other] = one


def head_overlaps(heads: Mapping[Position, set[Head]]) -> list[tuple[float, Position, Position]]:
    """Pairs of positions with the share of heads that they have in common; of positions with equal heads, a chain."""
    equal: dict[frozenset[Head], list[Position]] = defaultdict(list)
    for position, own in sorted(heads.items()):
        if own:
            equal[frozenset(own)].append(position)
    found = [(1.0, same[0], other) for same in equal.values() for other in same[1:]]
    having: dict[Head, list[Position]] = defaultdict(list)
    for shared, positions in equal.items():
        for head in shared:
            having[head].append(positions[0])
    common = Counter(pair for positions in having.values() for pair in combinations(sorted(positions), 2))
    for (one, other), number in sorted(common.items()):
        found.append((number / min(len(heads[one]), len(heads[other])), one, other))
    return found


def _words_within(corpus: Corpus, fillers: Iterable[Filler]) -> dict[Position, set[Word]]:
    """The words at each position, also those inside lists and operators that stand there."""
    words: dict[Position, set[Word]] = defaultdict(set)
    for filler in sorted(fillers, key=lambda filler: -filler.position):  # parts have higher numbers than their hosts
        words[filler.position] |= {filler.head[1]} if filler.head[1] else set()
        if not filler.head[1]:
            for part in corpus.arguments(filler):
                words[filler.position] |= words[part]
    return words


def _join_thin(
    corpus: Corpus, joined: Partition, heads: Mapping[Position, set[Head]], words: Mapping[Position, set[Word]]
) -> None:
    """Join arguments of which a single word is known with the best known arguments in the same place of the same form.

    A keyword says more of its value than its form does, and its word more of it: both are left alone. A slot stands for
    many words.
    """
    members: dict[Position, set[Word]] = defaultdict(set)
    for position, own in words.items():
        members[joined.find(position)] |= own
    sizes = {position: len(members[joined.find(position)]) for position in sorted(words)}
    alike: dict[tuple[Form, int], list[Position]] = defaultdict(list)
    for position in sizes:
        (form, word), number, _ = corpus.places[position]
        if word and not form.is_keyword and not any(inner.is_keyword for inner, _ in heads[position]):
            alike[form, number].append(position)
    for positions in alike.values():
        best = max(positions, key=lambda position: (sizes[position], -position))
        for position in positions:
            if sizes[position] < 2 and not any(word[0].startswith(SLOT) for word in words[position]):
                joined.join(best, position)


def _join_parts(corpus: Corpus, joined: Partition, positions: Iterable[Position]) -> None:
    """Join the parts of lists and operators that stand at positions of one type."""
    parts = [position for position in positions if position != ROOT and not corpus.places[position].head[1]]
    is_stable = False
    while not is_stable:
        is_stable, first = True, dict[ArgumentPlace, Position]()
        for position in parts:
            place = corpus.places[position]
            same = first.setdefault(place._replace(host=joined.find(place.host)), position)
            if joined.find(same) != joined.find(position):
                joined.join(same, position)
                is_stable = False


def _adopted(types: Types) -> dict[Filler, tuple[Position, ...]]:
    """Words that go from one form into another, in which at least half of their like are seen.

    So a noun that is only seen bare may be modified like the others, and a relation that is only named may be applied.
    """
    instances = {instance: set(words) for instance, words in types.words().items() if words != [()]}
    keys = sorted(instances, key=lambda key: -len(instances[key]))
    having: dict[Word, list[int]] = defaultdict(list)
    for number, key in enumerate(keys):
        for word in instances[key]:
            having[word].append(number)
    common = Counter(pair for numbers in having.values() for pair in combinations(numbers, 2))
    pairs = sorted((*pair, number) for pair, number in common.items())
    found: dict[Filler, tuple[Position, ...]] = {}
    for one, other, number in [*pairs, *((other, one, number) for one, other, number in pairs)]:
        taker, giver = keys[one], keys[other]
        if number >= ADOPTED * len(instances[giver]):
            own, form, arguments = taker
            new = [word for word in sorted(instances[giver]) if (form, word) not in types.heads[own]]
            for word in new:
                found.setdefault(Filler(own, (form, word)), arguments)
    return found


class GrammarWriter:
    """Types as categories with names that a person can read."""

    def __init__(self, corpus: Corpus, types: Types) -> None:
        same = _equal_types(types)
        self.corpus = corpus
        self.counts: dict[Position, Counter[Head]] = defaultdict(Counter)  # of each type
        self.positions: dict[Position, Counter[Position]] = defaultdict(Counter)  # how often terms stand there
        for filler, number in corpus.fillers.items():
            own = same[types.of[filler.position]]
            self.counts[own][filler.head] += corpus.counts[number]
            self.positions[own][filler.position] += corpus.counts[number]
        self.words: dict[Position, dict[tuple[Form, tuple[Position, ...]], list[Word]]] = defaultdict(dict)
        for (own, form, inner), words in types.words().items():
            if same[own] == own:
                self.words[own].setdefault((form, tuple(same[each] for each in inner)), []).extend(words)
        self._uses = Counter(frozenset(words) for forms in self.words.values() for words in forms.values())
        self._tokens = Counter[str]()  # how often each occurs
        for counts in self.counts.values():
            for (_, word), number in counts.items():
                for token in word:
                    self._tokens[token] += number
        self._text: Category | None = None
        self._classes: dict[frozenset[Word], Category] = {}
        self._lists: dict[tuple[Position, str], Category] = {}
        self._productions: dict[Category, dict[tuple[TargetSymbol, ...], None]] = {}
        self.start = self._told_apart(same[types.of[ROOT]], types.whole)
        self.categories = {self.start: self._category("program")}
        waiting = [self.start]
        for own in waiting:  # which grows
            for (form, inner), words in self.words[own].items():
                for each in inner:
                    if each not in self.categories:
                        waiting.append(each)
                        self.categories[each] = self._category(self._name(each))
                self._write(own, form, inner, words)
        for (part, separator), category in self._lists.items():
            self._productions[category] |= dict.fromkeys(self._written_out(part, separator, category))

    def _told_apart(self, start: Position, seen: Collection[Form]) -> Position:
        """The type of whole programs: where its forms are not all seen as whole programs, one of those that are."""
        forms = self.words[start]
        whole = {(form, inner): words for (form, inner), words in forms.items() if form in seen}
        if len(whole) == len(forms):
            return start
        self.words[WHOLE_PROGRAM], self.counts[WHOLE_PROGRAM] = whole, Counter()
        for filler, number in self.corpus.fillers.items():
            if filler.position == ROOT:
                self.counts[WHOLE_PROGRAM][filler.head] += self.corpus.counts[number]
        self.positions[WHOLE_PROGRAM] = Counter({ROOT: self.positions[start].pop(ROOT)})
        return WHOLE_PROGRAM

    @property
    def grammar(self) -> TargetGrammar:
        lines = self._productions.items()
        return TargetGrammar(tuple(Production(left, right) for left, rights in lines for right in rights))

    @property
    def types(self) -> tuple[InferredType, ...]:
        """All types, in the order of the grammar."""
        return tuple(
            InferredType(
                category,
                tuple(_position_text(self.corpus, position) for position, _ in self.positions[own].most_common()),
                self.counts[own].total(),
                tuple(_head_text(head) for head, _ in self.counts[own].most_common(SHOWN)),
            )
            for own, category in self.categories.items()
        )

    def _name(self, own: Position) -> str:
        """That of the commonest position, if possible one with a word of its own."""
        positions = [position for position, _ in self.positions[own].most_common()]
        return _position_name(self.corpus, max(positions, key=lambda each: bool(self.corpus.places[each].head[1])))

    def _category(self, name: str) -> Category:
        """A new category, with a number where the name is taken."""
        names = (name, *(f"{name}_{number}" for number in range(2, len(self._productions) + 3)))
        category = next(free for free in map(Category, names) if free not in self._productions)
        self._productions[category] = {}
        return category

    def _write(self, own: Position, form: Form, inner: Sequence[Position], words: Sequence[Word]) -> None:
        arguments: list[TargetSymbol] = []
        between = [form.separator] if form.separator else []
        if form.arity != ANY:
            for each in inner:
                arguments += between if arguments else []
                arguments.append(self.categories[each])
        elif words != [()] or form.prefix:
            arguments.append(self._list(inner[0], form.separator))
        else:
            part = self.categories[own] if inner[0] == own else self._list(inner[0], form.separator)
            arguments += [part, form.separator, part]
        written = [arguments]
        if form.has_keywords:  # a rule may hold arguments and some of the keywords, and others come behind it
            keywords = self._list(inner[-1], form.separator)
            written = [[*arguments[:-1], keywords], [*arguments[:-1], keywords, *between, keywords]]
        for spelled, inside in product(self._spellings(own, form, words), written):
            self._productions[self.categories[own]][tuple(form.spelled(spelled, inside))] = None

    def _list(self, part: Position, separator: str) -> Category:
        """Parts with separators between them."""
        if (part, separator) not in self._lists:
            category = self._lists[part, separator] = self._category(f"{self.categories[part].name}_list")
            between = (separator,) if separator else ()
            rights = [(self.categories[part],), (category, *between, category)]
            self._productions[category] = dict.fromkeys(rights)
        return self._lists[part, separator]

    def _written_out(self, part: Position, separator: str, category: Category) -> Iterator[tuple[TargetSymbol, ...]]:
        """Statements of a list in full, so that a rule may hold the end of one and the beginning of the next.

        `film . ?x wrote m0` may stand for `film` in `{ ?x a film . ?x in m1 }`.
        """
        forms = [tuple(self.categories[each] for each in inner) for form, inner in self.words[part] if form.is_phrase]
        for one in forms:
            for other in ((category,), *forms):
                yield (*one, separator, *other)

    def _spellings(self, own: Position, form: Form, words: Sequence[Word]) -> list[tuple[TargetSymbol, ...]]:
        """The words of a form as productions write them: one by one, or as a category where others use them, too."""
        name, alternatives = self.categories[own].name, list[tuple[TargetSymbol, ...]](words)
        if self._is_open(own, form):
            return self._open_spellings(own, form, words)
        same = frozenset(words)
        if len(words) == 1 or (form is BARE and self._uses[same] == 1):
            return alternatives
        if same not in self._classes:
            self._classes[same] = self._category(f"{name}_{'head' if form.arity else 'word'}")
            self._productions[self._classes[same]] = dict.fromkeys(alternatives)
        return [(self._classes[same],)]

    def _values(self, own: Position, form: Form) -> dict[Word, int]:
        """How often each value of a type is seen."""
        return {head[1]: number for head, number in self.counts[own].items() if head[0] == form and _is_value(*head)}

    def _is_open(self, own: Position, form: Form) -> bool:
        """Whether values that are seen once are so many that others must be expected."""
        counts = list(self._values(own, form).values())
        return own != self.start and counts.count(1) >= max(2, NEW * sum(counts))

    def _open_spellings(self, own: Position, form: Form, words: Sequence[Word]) -> list[tuple[TargetSymbol, ...]]:
        """Known values and new ones; of values of several tokens, the tokens in any order. Free text shares its own."""
        tokens = dict.fromkeys((token,) for word in words for token in word)
        is_one = all(len(word) == 1 for word in words)
        new = Wildcard.NUMBER if all(Wildcard.NUMBER.matches(token) for (token,) in tokens) else Wildcard.NEW_TOKEN
        tokens = {} if new is Wildcard.NUMBER else tokens
        if is_one and form is BARE:
            return [*tokens, (new,)]
        is_text = not is_one and self._is_text(self._values(own, form))
        if is_text and self._text is None:
            self._text = self._category("text")
        category = self._text if is_text and self._text else self._category(f"{self.categories[own].name}_word")
        several = [] if is_one else [(category, category)]
        self._productions[category] |= tokens | dict.fromkeys([(new,), *several])
        return [(category,)]

    def _is_text(self, values: Mapping[Word, int]) -> bool:
        """Whether many values hold tokens that no other value of the type holds, but something else does."""
        tokens, lost = Counter[str](), 0
        for word, number in values.items():
            for token in word:
                tokens[token] += number
        for word, number in values.items():
            own = Counter(word)
            lost += number * any(tokens[each] == number * own[each] < self._tokens[each] for each in own)
        return lost > TOLERANCE * sum(values.values())


def _equal_types(types: Types) -> dict[Position, Position]:
    """For each type the first one that has the same words and the same, or equal, types of arguments."""
    same = {own: own for own in types.heads}
    words = types.words()
    for _ in range(MERGES):
        bodies: dict[Position, set[tuple[Form, tuple[Position, ...], Word]]] = defaultdict(set)
        for (own, form, inner), each in words.items():
            equal = tuple(same[argument] for argument in inner)
            bodies[own].update((form, equal, word) for word in each)
        first: dict[object, Position] = {}
        merged = {own: first.setdefault(frozenset(bodies[own]), own) for own in same}
        if merged == same:
            break
        same = merged
    return same


def _position_name(corpus: Corpus, position: Position) -> str:
    place, part = corpus.places[position], ""
    while position != ROOT and not place.head[1]:
        part = part or ("_item" if place.head[0].arity == ANY else f"_part_{place.number + 1}")
        position, place = place.host, corpus.places[place.host]
    (form, word), number, _ = place
    name = "_".join(re.findall(r"[\w.-]*\w", " ".join(word))) or "symbol"
    if position == ROOT:
        return f"program{part}"
    if form.is_keyword:
        return f"{name}{part}"
    return f"{name}_argument{part}" if form.arity in (1, ANY) else f"{name}_argument_{number + 1}{part}"


def _position_text(corpus: Corpus, position: Position) -> str:
    """The position as a person would write it: `loc_2 ( … )`."""
    if position == ROOT:
        return WHOLE
    (form, word), number, _ = corpus.places[position]
    places = ["…" if each == number else "_" for each in range(max(form.arity, 1))]
    inner = f" {form.separator} ".join(places) if form.separator else " ".join(places)
    if form.arity == ANY:
        inner = f"… {form.separator} …" if form.separator else "… …"
    return " ".join(form.spelled(word, [inner]))


def _head_text(head: Head) -> str:
    form, word = head
    arity = 2 if form.arity == ANY else form.arity
    inner = f" {form.separator} ".join("_" * arity).split()
    return " ".join(form.spelled(word, inner))


def flat_types(written: Mapping[tuple[str, ...], int]) -> InferredTypes:
    """Types of programs that are sequences of tokens: tokens in any order, with brackets that match if all do.

    Whole programs are told apart by their first token, if the first tokens are few; then one such token alone is
    a program if one is seen, or if the programs are few. Where any token may come first, the shortest may be unseen.
    """
    total = sum(written.values())
    tokens, firsts = Counter[str](), Counter[str]()
    for program, number in written.items():
        firsts[program[0]] += number
        for token in program:
            tokens[token] += number
    brackets = {opening: closing for opening, closing in BRACKETS.items() if opening in tokens or closing in tokens}
    if not all(map(is_balanced, written)):
        brackets = {}
    marks = {*brackets, *brackets.values()}
    plain = [token for token in tokens if token not in marks]
    begins = [token for token in firsts if token not in marks]
    is_told = len(begins) < len(plain) and len(begins) == len(firsts)
    is_told = is_told and list(firsts.values()).count(1) <= NEW * total
    start = Category("program")
    words = Category("tokens") if is_told else start
    rights: list[tuple[TargetSymbol, ...]] = [(token,) for token in plain]
    rights += [(opening, words, closing) for opening, closing in brackets.items()]
    empty = {pair for program in written for pair in pairwise(program) if pair in brackets.items()}
    rights += sorted(empty)
    if list(tokens.values()).count(1) >= max(2, NEW * tokens.total()):
        rights.append((Wildcard.NEW_TOKEN,))
    rights.append((words, words))
    productions = [Production(words, right) for right in rights]
    if is_told:
        may_be_one = total < 1 / NEW or any(len(program) == 1 for program in written)
        begun = [(token,) if may_be_one else (token, words) for token in begins]
        productions[:0] = [Production(start, right) for right in (*begun, (start, words))]
    grammar = TargetGrammar(tuple(productions))
    examples = {start: firsts, words: tokens}
    types = []
    for category, seen in examples.items():
        commonest = tuple(token for token, _ in seen.most_common(SHOWN))
        types.append(InferredType(category, (WHOLE if category == start else "anywhere",), seen.total(), commonest))
    return InferredTypes(grammar, tuple(types))


def is_balanced(program: Sequence[str]) -> bool:
    """Whether brackets match.

    >>> is_balanced("f ( [ a ] )".split()), is_balanced("a ) (".split())
    (True, False)
    """
    expected: list[str] = []
    for token in program:
        if token in BRACKETS:
            expected.append(BRACKETS[token])
        elif token in BRACKETS.values() and (not expected or expected.pop() != token):
            return False
    return not expected
