"""Inferred types written as a target grammar, with names that a person can read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, product, repeat
from typing import TypeVar

from nqg.text.brackets import BRACKETS, is_balanced
from nqg.types.positions import (
    ROOT,
    CallShape,
    Corpus,
    Filler,
    Head,
    Position,
    Type,
    Types,
)
from nqg.types.program_trees import ANY, BARE, Form, Word
from nqg.types.target_grammar import (
    Category,
    Production,
    TargetGrammar,
    TargetSymbol,
    Wildcard,
)

# The share of words seen once from which on other words are expected (Good and Turing's estimate).
GOOD_TURING_THRESHOLD = 0.01
# Rounds in which equal types are merged; more are needed only where terms are nested as deep.
MAX_MERGE_ROUNDS = 20
SHOWN_EXAMPLES = 5
# The share of the values of a type that may hold tokens of no other value if it is not free text.
MAX_SHARE_OF_LOST_TOKENS = 0.05
WHOLE = "the whole program"
# The type of whole programs, where other terms of the root's type are not whole programs.
WHOLE_PROGRAM: Type = -1

RightSide = tuple[TargetSymbol, ...]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class InferredType:
    """A category, its positions, how often terms stand there, and the commonest heads."""

    category: Category
    positions: tuple[str, ...]
    occurrences: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeywordArgument:
    """A keyword of a function, the type of its values, and how calls have it.

    It is required if every call has it. A keyword that no call has crossed from other functions.
    """

    name: str
    type: Category
    calls: int
    is_required: bool
    is_repeated: bool

    def __str__(self) -> str:
        repeated = " …" if self.is_repeated else ""
        text = f"{self.name} {self.type}{repeated}"
        return text if self.is_required else f"[ {text} ]"


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """What a function takes: the types of its arguments by place, and keywords in their usual order.

    `fewest` of the places are filled in every call. The last one stands for any number of
    arguments if the function is variadic.
    """

    function: str
    calls: int
    places: tuple[Category, ...]
    fewest: int
    is_variadic: bool
    keywords: tuple[KeywordArgument, ...]

    def __str__(self) -> str:
        arguments = []
        for number, category in enumerate(self.places):
            arguments.append(
                str(category) if number < self.fewest else f"[ {category} ]"
            )
        if self.is_variadic:
            arguments.append("…")
        return " ".join([self.function, "(", *arguments, *map(str, self.keywords), ")"])


@dataclass(slots=True)
class TypeContents:
    """What a type holds: counts of its heads and positions, and the words of its forms.

    A form comes with the types of its arguments.
    """

    heads: Counter[Head] = field(default_factory=Counter)
    positions: Counter[Position] = field(default_factory=Counter)
    forms: dict[tuple[Form, tuple[Type, ...]], list[Word]] = field(default_factory=dict)

    def values(self, form: Form) -> dict[Word, int]:
        """How often each value in a form is seen."""
        heads = self.heads.items()
        return {
            head.word: n for head, n in heads if head.form == form and head.is_value
        }


class GrammarWriter:
    """Types as categories with names that a person can read."""

    def __init__(self, corpus: Corpus, types: Types) -> None:
        self._corpus = corpus
        self._contents = defaultdict[Type, TypeContents](TypeContents)
        self._token_counts = Counter[str]()
        merged = _merged_types(types)
        self._types, self._merged = types, merged
        for (position, head), count in corpus.fillers.items():
            contents = self._contents[merged[types.of[position]]]
            contents.heads[head] += count
            contents.positions[position] += count
            for token in head.word:
                self._token_counts[token] += count
        for (type_, form, arguments), words in types.words().items():
            if merged[type_] == type_:
                key = form, tuple(merged[argument] for argument in arguments)
                self._contents[type_].forms.setdefault(key, []).extend(words)
        # How many forms have the same words: such words become a category.
        self._uses = Counter[frozenset[Word]]()
        for contents in self._contents.values():
            self._uses.update(map(frozenset, contents.forms.values()))
        self._text: Category | None = None
        self._word_classes: dict[frozenset[Word], Category] = {}
        self._lists: dict[tuple[tuple[Type, ...], str], Category] = {}
        # The right sides of each category, in the order of the grammar.
        self._productions: dict[Category, dict[RightSide, None]] = {}
        self._start = self._separate_root_type(merged[types.of[ROOT]], types.whole)
        self._categories = {self._start: self._category("program")}
        self._write_all()

    @property
    def grammar(self) -> TargetGrammar:
        productions = []
        for left, rights in self._productions.items():
            productions += [Production(left, right) for right in rights]
        return TargetGrammar(tuple(productions))

    def inferred_types(self) -> tuple[InferredType, ...]:
        """All types, in the order of the grammar."""
        inferred = []
        for type_, category in self._categories.items():
            contents = self._contents[type_]
            positions = [
                _position_text(self._corpus, p) for p in _by_count(contents.positions)
            ]
            examples = [
                _head_text(head) for head in _by_count(contents.heads)[:SHOWN_EXAMPLES]
            ]
            occurrences = contents.heads.total()
            inferred.append(
                InferredType(category, tuple(positions), occurrences, tuple(examples))
            )
        return tuple(inferred)

    def signatures(self) -> tuple[FunctionSignature, ...]:
        """What each function takes, in the order of first appearance."""
        shapes = defaultdict[Word, list[CallShape]](list)
        for shape in self._corpus.calls:
            shapes[shape.head.word].append(shape)
        return tuple(map(self._signature, shapes.values()))

    def _signature(self, shapes: Sequence[CallShape]) -> FunctionSignature:
        """The signature of the function that is called in these ways."""
        # The types of the arguments that have places come from the call with most of them.
        longest = max(shapes, key=_filled_places)
        positions = self._corpus.argument_positions(Filler(ROOT, longest.head))
        places = [
            self._category_of(self._types.of[position])
            for position in positions[: _filled_places(longest)]
        ]
        return FunctionSignature(
            function=" ".join(longest.head.word),
            calls=sum(self._corpus.calls[shape] for shape in shapes),
            places=tuple(places),
            fewest=min(map(_filled_places, shapes)),
            is_variadic=longest.head.form.arity == ANY,
            keywords=tuple(self._keywords(shapes)),
        )

    def _keywords(self, shapes: Sequence[CallShape]) -> Iterator[KeywordArgument]:
        """The keywords of a function in their usual order, then those that crossed."""
        # How many calls have each keyword, the sum of its places, and whether one has it twice.
        calls = 0
        counts, places = Counter[Head](), Counter[Head]()
        repeated = set[Head]()
        value_types: dict[Head, Type] = {}
        for shape in shapes:
            count = self._corpus.calls[shape]
            calls += count
            for position, keyword in enumerate(dict.fromkeys(shape.keywords)):
                counts[keyword] += count
                places[keyword] += position * count
                if shape.keywords.count(keyword) > 1:
                    repeated.add(keyword)
            if shape.keywords:
                type_ = self._types.of[self._corpus.keyword_position(shape.head)]
                for keyword, arguments in self._types.heads[type_].items():
                    value_types[keyword] = arguments[0]
        seen = sorted(counts, key=lambda keyword: places[keyword] / counts[keyword])
        for keyword in dict.fromkeys([*seen, *value_types]):
            yield KeywordArgument(
                name=" ".join((*keyword.word, *keyword.form.opening)),
                type=self._category_of(value_types[keyword]),
                calls=counts[keyword],
                is_required=counts[keyword] == calls,
                is_repeated=keyword in repeated,
            )

    def _category_of(self, type_: Type) -> Category:
        return self._categories[self._merged[type_]]

    def _separate_root_type(self, root: Type, seen: set[Form]) -> Type:
        """The type of whole programs.

        Where the root's type has forms that are not seen as whole programs, it is a type apart.
        """
        forms = self._contents[root].forms
        whole = {key: words for key, words in forms.items() if key[0] in seen}
        if len(whole) == len(forms):
            return root
        contents = TypeContents(forms=whole)
        for (position, head), count in self._corpus.fillers.items():
            if position == ROOT:
                contents.heads[head] += count
        contents.positions[ROOT] = self._contents[root].positions.pop(ROOT)
        self._contents[WHOLE_PROGRAM] = contents
        return WHOLE_PROGRAM

    def _write_all(self) -> None:
        """Write all productions, breadth first: a type is named when a form first mentions it."""
        waiting = deque([self._start])
        while waiting:
            type_ = waiting.popleft()
            for (form, arguments), words in self._contents[type_].forms.items():
                for argument in arguments:
                    if argument not in self._categories:
                        waiting.append(argument)
                        self._categories[argument] = self._category(
                            self._name(argument)
                        )
                self._write(type_, form, arguments, words)
        # Statements mention categories, and only now all of these have names.
        for (items, separator), category in self._lists.items():
            for item in items:
                statements = self._joined_statements(item, separator, category)
                self._productions[category] |= dict.fromkeys(statements)

    def _name(self, type_: Type) -> str:
        """The name of the commonest position, if possible of one that is an argument of a word."""
        positions = _by_count(self._contents[type_].positions)
        for position in positions:
            if self._corpus.arguments[position].head.word:
                return _position_name(self._corpus, position)
        return _position_name(self._corpus, positions[0])

    def _category(self, name: str) -> Category:
        """A new category, with a number where the name is taken."""
        category, number = Category(name), 1
        while category in self._productions:
            number += 1
            category = Category(f"{name}_{number}")
        self._productions[category] = {}
        return category

    def _write(
        self, type_: Type, form: Form, arguments: Sequence[Type], words: Sequence[Word]
    ) -> None:
        """Write the productions of one form of a type."""
        category = self._categories[type_]
        separator = [form.separator] if form.separator else []
        insides: list[list[TargetSymbol]]
        if form.arity != ANY:
            insides = self._in_places(form, arguments)
        elif words != [()] or form.prefix:
            insides = [[self._list(arguments, form.separator)]]
        else:
            item = category
            if arguments[0] != type_:
                item = self._list(arguments, form.separator)
            insides = [[item, *separator, item]]
        for spelling, inside in product(self._spellings(type_, form, words), insides):
            self._productions[category][tuple(form.spelled(spelling, inside))] = None

    def _in_places(
        self, form: Form, arguments: Sequence[Type]
    ) -> list[list[TargetSymbol]]:
        """What stands inside a form whose arguments have places, with keywords behind them."""
        separator = [form.separator] if form.separator else []
        inside: list[TargetSymbol] = []
        for argument in arguments[: form.places]:
            if inside:
                inside += separator
            inside.append(self._categories[argument])
        if not form.has_keywords:
            return [inside]
        keywords = self._list(arguments[-1:], form.separator)
        if not inside:
            return [[keywords]]
        # A rule may hold arguments and some of the keywords, and others come behind it.
        begin = [*inside, *separator, keywords]
        return [begin, [*begin, *separator, keywords]]

    def _list(self, items: Sequence[Type], separator: str) -> Category:
        """The category of one or more items, of any of these types, with separators between."""
        key = tuple(items), separator
        if key not in self._lists:
            categories = [self._categories[item] for item in items]
            category = self._category(f"{categories[0].name}_list")
            self._lists[key] = category
            between = [separator] if separator else []
            rights: list[RightSide] = list(zip(categories))
            rights.append((category, *between, category))
            self._productions[category] = dict.fromkeys(rights)
        return self._lists[key]

    def _joined_statements(
        self, item: Type, separator: str, category: Category
    ) -> Iterator[RightSide]:
        """Statements of a list in full.

        A rule may hold the end of a statement and the beginning of the next:
        `film . ?x wrote m0` may stand for `film` in `{ ?x a film . ?x in m1 }`.
        """
        statements = []
        for form, arguments in self._contents[item].forms:
            if form.is_phrase:
                statements.append(
                    [self._categories[argument] for argument in arguments]
                )
        for first, following in product(statements, [[category], *statements]):
            yield (*first, separator, *following)

    def _spellings(
        self, type_: Type, form: Form, words: Sequence[Word]
    ) -> Sequence[RightSide]:
        """The words of a form as productions write them.

        They are written one by one, or as a category where others use them, too.
        """
        if self._is_open(type_, form):
            return self._open_spellings(type_, form, words)
        key = frozenset(words)
        if len(words) == 1 or (form is BARE and self._uses[key] == 1):
            return words
        if key not in self._word_classes:
            suffix = "head" if form.arity else "word"
            category = self._category(f"{self._categories[type_].name}_{suffix}")
            self._productions[category] = dict.fromkeys(words)
            self._word_classes[key] = category
        return [(self._word_classes[key],)]

    def _is_open(self, type_: Type, form: Form) -> bool:
        """Whether so many values are seen only once that others must be expected."""
        if type_ == self._start:
            return False
        counts = list(self._contents[type_].values(form).values())
        return _expects_others(counts)

    def _open_spellings(
        self, type_: Type, form: Form, words: Sequence[Word]
    ) -> list[RightSide]:
        """Known values and new ones; of values of several tokens, the tokens in any order.

        All types of free text share one category.
        """
        tokens = dict.fromkeys(chain.from_iterable(words))
        symbols: list[TargetSymbol] = [*tokens, Wildcard.NEW_TOKEN]
        if all(map(Wildcard.NUMBER.matches, tokens)):
            symbols = [Wildcard.NUMBER]
        rights: list[RightSide] = [(symbol,) for symbol in symbols]
        are_single = all(len(word) == 1 for word in words)
        if are_single and form is BARE:
            return rights
        if not are_single and self._is_text(self._contents[type_].values(form)):
            self._text = self._text or self._category("text")
            category = self._text
        else:
            category = self._category(f"{self._categories[type_].name}_word")
        # Two of the category in a row allow values of any number of tokens.
        if not are_single:
            rights.append((category, category))
        self._productions[category] |= dict.fromkeys(rights)
        return [(category,)]

    def _is_text(self, values: Mapping[Word, int]) -> bool:
        """Whether many values hold tokens that no other value of the type holds, but others do."""
        in_type = Counter[str]()
        for word, count in values.items():
            for token in word:
                in_type[token] += count
        # Count the values with a token that occurs elsewhere, but in no other value.
        lost = 0
        for word, count in values.items():
            for token in word:
                if (
                    in_type[token]
                    == count * word.count(token)
                    < self._token_counts[token]
                ):
                    lost += count
                    break
        return lost > MAX_SHARE_OF_LOST_TOKENS * sum(values.values())


def _filled_places(shape: CallShape) -> int:
    return shape.head.form.places


def _expects_others(counts: Sequence[int]) -> bool:
    """Whether so many of the counts are 1 that there must be words that were never seen."""
    return counts.count(1) >= max(2, GOOD_TURING_THRESHOLD * sum(counts))


def _by_count(counts: Counter[Item]) -> list[Item]:
    """What is counted, the commonest first."""
    return [item for item, _ in counts.most_common()]


def _merged_types(types: Types) -> dict[Type, Type]:
    """For each type the first one with the same words over the same, or equal, arguments."""
    merged = {type_: type_ for type_ in types.heads}
    words = types.words()
    # Merged types can make other bodies equal, so go on until nothing changes.
    for _ in range(MAX_MERGE_ROUNDS):
        bodies = defaultdict[Type, set[object]](set)
        for (type_, form, arguments), in_form in words.items():
            equal = tuple(merged[argument] for argument in arguments)
            bodies[type_].update(product([form], [equal], in_form))
        firsts: dict[object, Type] = {}
        again = {
            type_: firsts.setdefault(frozenset(bodies[type_]), type_)
            for type_ in merged
        }
        if again == merged:
            break
        merged = again
    return merged


def _position_name(corpus: Corpus, position: Position) -> str:
    """The name of a position in a category: `loc_2_argument`, `program_item`."""
    (form, word), number, host = corpus.arguments[position]
    item = ""
    # Items are named after the word whose argument the list is.
    while position != ROOT and not word:
        if not item:
            item = "_item" if form.arity == ANY else f"_part_{number + 1}"
        position = host
        (form, word), number, host = corpus.arguments[position]
    if position == ROOT:
        return f"program{item}"
    name = "_".join(re.findall(r"[\w.-]*\w", " ".join(word))) or "symbol"
    if form.is_keyword:
        return f"{name}{item}"
    if form.arity in (1, ANY):
        return f"{name}_argument{item}"
    return f"{name}_argument_{number + 1}{item}"


def _position_text(corpus: Corpus, position: Position) -> str:
    """The position as a person would write it: `loc_2 ( … )`."""
    if position == ROOT:
        return WHOLE
    (form, word), number, _ = corpus.arguments[position]
    if form.arity == ANY:
        arguments = ["…", "…"]
    else:
        arguments = ["_"] * form.arity
        arguments[number] = "…"
    return _spelled(form, word, arguments)


def _head_text(head: Head) -> str:
    """A head with blanks for its arguments: `loc_2 ( _ )`."""
    blanks = ["_"] * (2 if head.form.arity == ANY else head.form.arity)
    return _spelled(head.form, head.word, blanks)


def _spelled(form: Form, word: Word, arguments: Sequence[str]) -> str:
    inside = f" {form.separator} ".join(arguments).split()
    return " ".join(form.spelled(word, inside))


def flat_types(
    programs: Mapping[tuple[str, ...], int],
) -> tuple[TargetGrammar, tuple[InferredType, ...]]:
    """Types of programs that are sequences of tokens: tokens in any order.

    Brackets match if those of all programs do. Whole programs are told apart by their first token,
    if the first tokens are few; then one such token alone is a program if one is seen, or if the
    programs are few. Where any token may come first, the shortest program may be unseen.
    """
    tokens, firsts = Counter[str](), Counter[str]()
    pairs: set[tuple[str, str]] = set()
    for program, count in programs.items():
        firsts[program[0]] += count
        pairs.update(pairwise(program))
        for token in program:
            tokens[token] += count
    brackets: list[tuple[str, str]] = []
    if all(map(is_balanced, programs)):
        brackets = [pair for pair in BRACKETS.items() if pair[0] in tokens]
    marks = set(chain.from_iterable(brackets))
    plain = [token for token in tokens if token not in marks]

    # The categories: whole programs are one of their own if few tokens begin them.
    total = firsts.total()
    is_apart = (
        marks.isdisjoint(firsts)
        and len(firsts) < len(plain)
        and list(firsts.values()).count(1) <= GOOD_TURING_THRESHOLD * total
    )
    start = Category("program")
    words = Category("tokens") if is_apart else start

    # The productions: beginnings of programs, then tokens, brackets, new tokens and sequences.
    productions: list[Production] = []
    if is_apart:
        may_be_one = total < 1 / GOOD_TURING_THRESHOLD or min(map(len, programs)) == 1
        behind = [] if may_be_one else [words]
        productions += [Production(start, (token, *behind)) for token in firsts]
        productions.append(Production(start, (start, words)))
    rights: list[RightSide] = list(zip(plain))
    for opening, closing in brackets:
        rights.append((opening, words, closing))
    rights += sorted(pairs.intersection(brackets))
    if _expects_others(list(tokens.values())):
        rights.append((Wildcard.NEW_TOKEN,))
    rights.append((words, words))
    productions += map(Production, repeat(words), rights)

    types = []
    for category, counts in {start: firsts, words: tokens}.items():
        where = WHOLE if category == start else "anywhere"
        examples = tuple(_by_count(counts)[:SHOWN_EXAMPLES])
        types.append(InferredType(category, (where,), counts.total(), examples))
    return TargetGrammar(tuple(productions)), tuple(types)
