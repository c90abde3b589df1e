"""Inferred types written as a target grammar, with names that a person can read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from nqg.text.brackets import BRACKETS, is_balanced
from nqg.types.positions import ROOT, Corpus, Head, Position, Types, is_value
from nqg.types.program_trees import ANY, BARE, Form, Word
from nqg.types.target_grammar import Category, Production, TargetGrammar, TargetSymbol, Wildcard

GOOD_TURING_THRESHOLD = 0.01  # the share of words seen once from which on others are expected, too
MAX_MERGE_ROUNDS = (
    20  # in which equal types are merged: more are needed only where terms are nested as deep
)
SHOWN_EXAMPLES = 5  # of a type
MAX_SHARE_OF_LOST_TOKENS = 0.05  # of the values of a type, up to which they are not free text
WHOLE = "the whole program"
WHOLE_PROGRAM: Position = (
    -1
)  # a type of its own, where other terms of the root's type are not whole programs


@dataclass(frozen=True, slots=True)
class InferredType:
    """A category with the positions that it is made of, how often terms stand there, and the commonest words."""

    category: Category
    positions: tuple[str, ...]
    occurrences: int
    examples: tuple[str, ...]


class GrammarWriter:
    """Types as categories with names that a person can read."""

    def __init__(self, corpus: Corpus, types: Types) -> None:
        same = _merged_types(types)
        self.corpus = corpus
        self.counts: dict[Position, Counter[Head]] = defaultdict(Counter)  # of each type
        self.positions: dict[Position, Counter[Position]] = defaultdict(
            Counter
        )  # how often terms stand there
        for filler, number in corpus.fillers.items():
            own = same[types.of[filler.position]]
            self.counts[own][filler.head] += corpus.counts[number]
            self.positions[own][filler.position] += corpus.counts[number]
        self.words: dict[Position, dict[tuple[Form, tuple[Position, ...]], list[Word]]] = (
            defaultdict(dict)
        )
        for (own, form, inner), words in types.words().items():
            if same[own] == own:
                self.words[own].setdefault((form, tuple(same[each] for each in inner)), []).extend(
                    words
                )
        self._uses = Counter(
            frozenset(words) for forms in self.words.values() for words in forms.values()
        )
        self._tokens = Counter[str]()  # how often each occurs
        for counts in self.counts.values():
            for (_, word), number in counts.items():
                for token in word:
                    self._tokens[token] += number
        self._text: Category | None = None
        self._classes: dict[frozenset[Word], Category] = {}
        self._lists: dict[tuple[Position, str], Category] = {}
        self._productions: dict[Category, dict[tuple[TargetSymbol, ...], None]] = {}
        self.start = self._separate_root_type(same[types.of[ROOT]], types.whole)
        self.categories = {self.start: self._category("program")}
        waiting = deque([self.start])
        while waiting:
            own = waiting.popleft()
            for (form, inner), words in self.words[own].items():
                for argument in inner:
                    if argument not in self.categories:
                        waiting.append(argument)
                        self.categories[argument] = self._category(self._name(argument))
                self._write(own, form, inner, words)
        for (part, separator), category in self._lists.items():
            self._productions[category] |= dict.fromkeys(
                self._expand_lists(part, separator, category)
            )

    def _separate_root_type(self, start: Position, seen: Collection[Form]) -> Position:
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
        return TargetGrammar(
            tuple(Production(left, right) for left, rights in lines for right in rights)
        )

    @property
    def types(self) -> tuple[InferredType, ...]:
        """All types, in the order of the grammar."""
        return tuple(
            InferredType(
                category,
                tuple(
                    _position_text(self.corpus, position)
                    for position, _ in self.positions[own].most_common()
                ),
                self.counts[own].total(),
                tuple(_head_text(head) for head, _ in self.counts[own].most_common(SHOWN_EXAMPLES)),
            )
            for own, category in self.categories.items()
        )

    def _name(self, own: Position) -> str:
        """That of the commonest position, if possible one with a word of its own."""
        positions = [position for position, _ in self.positions[own].most_common()]
        return _position_name(
            self.corpus, max(positions, key=lambda each: bool(self.corpus.places[each].head[1]))
        )

    def _category(self, name: str) -> Category:
        """A new category, with a number where the name is taken."""
        names = (name, *(f"{name}_{number}" for number in range(2, len(self._productions) + 3)))
        category = next(free for free in map(Category, names) if free not in self._productions)
        self._productions[category] = {}
        return category

    def _write(
        self, own: Position, form: Form, inner: Sequence[Position], words: Sequence[Word]
    ) -> None:
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
        if (
            form.has_keywords
        ):  # a rule may hold arguments and some of the keywords, and others come behind it
            keywords = self._list(inner[-1], form.separator)
            written = [[*arguments[:-1], keywords], [*arguments[:-1], keywords, *between, keywords]]
        for spelled, inside in product(self._spellings(own, form, words), written):
            self._productions[self.categories[own]][tuple(form.spelled(spelled, inside))] = None

    def _list(self, part: Position, separator: str) -> Category:
        """Parts with separators between them."""
        if (part, separator) not in self._lists:
            category = self._lists[part, separator] = self._category(
                f"{self.categories[part].name}_list"
            )
            between = (separator,) if separator else ()
            rights = [(self.categories[part],), (category, *between, category)]
            self._productions[category] = dict.fromkeys(rights)
        return self._lists[part, separator]

    def _expand_lists(
        self, part: Position, separator: str, category: Category
    ) -> Iterator[tuple[TargetSymbol, ...]]:
        """Statements of a list in full, so that a rule may hold the end of one and the beginning of the next.

        `film . ?x wrote m0` may stand for `film` in `{ ?x a film . ?x in m1 }`.
        """
        forms = [
            tuple(self.categories[each] for each in inner)
            for form, inner in self.words[part]
            if form.is_phrase
        ]
        for one in forms:
            for other in ((category,), *forms):
                yield (*one, separator, *other)

    def _spellings(
        self, own: Position, form: Form, words: Sequence[Word]
    ) -> list[tuple[TargetSymbol, ...]]:
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
        return {
            head[1]: number
            for head, number in self.counts[own].items()
            if head[0] == form and is_value(*head)
        }

    def _is_open(self, own: Position, form: Form) -> bool:
        """Whether values that are seen once are so many that others must be expected."""
        counts = list(self._values(own, form).values())
        return own != self.start and counts.count(1) >= max(2, GOOD_TURING_THRESHOLD * sum(counts))

    def _open_spellings(
        self, own: Position, form: Form, words: Sequence[Word]
    ) -> list[tuple[TargetSymbol, ...]]:
        """Known values and new ones; of values of several tokens, the tokens in any order. Free text shares its own."""
        tokens = dict.fromkeys((token,) for word in words for token in word)
        is_one = all(len(word) == 1 for word in words)
        new = (
            Wildcard.NUMBER
            if all(Wildcard.NUMBER.matches(token) for (token,) in tokens)
            else Wildcard.NEW_TOKEN
        )
        tokens = {} if new is Wildcard.NUMBER else tokens
        if is_one and form is BARE:
            return [*tokens, (new,)]
        is_text = not is_one and self._is_text(self._values(own, form))
        if is_text and self._text is None:
            self._text = self._category("text")
        category = (
            self._text
            if is_text and self._text
            else self._category(f"{self.categories[own].name}_word")
        )
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
            if any(tokens[each] == number * own[each] < self._tokens[each] for each in own):
                lost += number
        return lost > MAX_SHARE_OF_LOST_TOKENS * sum(values.values())


def _merged_types(types: Types) -> dict[Position, Position]:
    """For each type the first one that has the same words and the same, or equal, types of arguments."""
    same = {own: own for own in types.heads}
    words = types.words()
    for _ in range(MAX_MERGE_ROUNDS):
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
    return (
        f"{name}_argument{part}"
        if form.arity in (1, ANY)
        else f"{name}_argument_{number + 1}{part}"
    )


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


def flat_types(
    written: Mapping[tuple[str, ...], int],
) -> tuple[TargetGrammar, tuple[InferredType, ...]]:
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
    brackets = {
        opening: closing
        for opening, closing in BRACKETS.items()
        if opening in tokens or closing in tokens
    }
    if not all(map(is_balanced, written)):
        brackets = {}
    marks = {*brackets, *brackets.values()}
    plain = [token for token in tokens if token not in marks]
    begins = [token for token in firsts if token not in marks]
    is_told = len(begins) < len(plain) and len(begins) == len(firsts)
    is_told = is_told and list(firsts.values()).count(1) <= GOOD_TURING_THRESHOLD * total
    start = Category("program")
    words = Category("tokens") if is_told else start
    rights: list[tuple[TargetSymbol, ...]] = [(token,) for token in plain]
    rights += [(opening, words, closing) for opening, closing in brackets.items()]
    empty = {pair for program in written for pair in pairwise(program) if pair in brackets.items()}
    rights += sorted(empty)
    if list(tokens.values()).count(1) >= max(2, GOOD_TURING_THRESHOLD * tokens.total()):
        rights.append((Wildcard.NEW_TOKEN,))
    rights.append((words, words))
    productions = [Production(words, right) for right in rights]
    if is_told:
        may_be_one = total < 1 / GOOD_TURING_THRESHOLD or any(
            len(program) == 1 for program in written
        )
        begun = [(token,) if may_be_one else (token, words) for token in begins]
        productions[:0] = [Production(start, right) for right in (*begun, (start, words))]
    grammar = TargetGrammar(tuple(productions))
    examples = {start: firsts, words: tokens}
    types = []
    for category, seen in examples.items():
        commonest = tuple(token for token, _ in seen.most_common(SHOWN_EXAMPLES))
        types.append(
            InferredType(
                category, (WHOLE if category == start else "anywhere",), seen.total(), commonest
            )
        )
    return grammar, tuple(types)
