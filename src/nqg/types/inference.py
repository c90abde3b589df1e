"""A target grammar for programs that nobody wrote one for.

Programs are read as trees (`nqg.types.program_trees`) with terms at positions
(`nqg.types.positions`). Positions that hold the same words are one *type*, which becomes a category
of the grammar (`nqg.types.grammar_writer`). How much two positions must share is chosen on folds of
the programs: each fold holds out all programs with certain words in certain positions, and the
finest types are taken that accept nearly as many of them as the coarsest.

A type in which new words turn up again and again is open: it also holds tokens that the grammar
does not name. Programs that are not trees, such as SCAN's, get a grammar of their tokens in any
order.

The keywords of a function have a rule of their own. A keyword belongs to the functions that were
seen with it, and crosses to other functions of the same type only if more than half of them have
it: the roles of COGS cross to a verb that is seen once, the `room` of some functions of a home does
not cross to `set_alarm`.

`python benchmarks/type_inference.py DATA --vary NAME` varies a constant and prints what random thirds of
training programs of fifteen datasets say: how many held-out programs types accept, and how many
random edits they reject. docs/types-measured.md has the curves.

    constant                  what it decides
    MAX_LOSS                  the finest types that are good enough
    MAX_FOLDS                 how many folds are tried at most (cost)
    ENOUGH_HELD_OUT           how many held-out programs end the folds (cost)
    HELD_OUT_SHARE            how many programs a fold holds out, and which fillers are rare
    HALF                      when positions are one type, when a form takes over the words of
                              another, when programs are not trees
    CROSSING_SHARE            when a keyword crosses to functions that were not seen with it
    GOOD_TURING_THRESHOLD     when a type is open (grammar_writer)
    MAX_SHARE_OF_LOST_TOKENS  when an open type is free text (grammar_writer)
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, combinations
from typing import NamedTuple

from nqg.errors import FormatError
from nqg.grammar.grammar import SLOT
from nqg.types.grammar_writer import (
    FunctionSignature,
    GrammarWriter,
    InferredType,
    flat_types,
)
from nqg.types.positions import (
    ROOT,
    Argument,
    Corpus,
    Filler,
    FormSignature,
    Head,
    Position,
    Type,
    Types,
)
from nqg.types.program_trees import Form, Word
from nqg.types.target_grammar import TargetGrammar

# The share of the held-out programs accepted by coarser types that finer ones may lose.
MAX_LOSS = 0.05
MAX_FOLDS = 10
ENOUGH_HELD_OUT = 2000
HELD_OUT_SHARE = 1 / 3
# The share of its like from which on something holds for all of them.
HALF = 1 / 2
# A keyword that more than this share of the functions of a type have belongs to all of them.
CROSSING_SHARE = 1 / 2

# Parentheses around one term, whose type they do not change.
PARENTHESES = Head(Form(("(",), (), 1, ",", (")",)))


class Coarseness(Enum):
    """When two positions are one type, from the finest types to the coarsest."""

    HALF = "if they share half of the heads of the one that has fewer"
    ONE_HEAD = "if they share a head"
    ALL = "always"


@dataclass(frozen=True, slots=True)
class InferredTypes:
    """A target grammar, its types, and the share of held-out programs that each level accepts.

    `signatures` say what functions take. There are none, and there is no coarseness, where programs
    are not trees.
    """

    grammar: TargetGrammar
    types: tuple[InferredType, ...]
    coarseness: Coarseness | None = None
    accepted: Mapping[Coarseness, float] = field(default_factory=dict)
    signatures: tuple[FunctionSignature, ...] = ()


def infer_target_grammar(
    programs: Iterable[Sequence[str]], coarseness: Coarseness | None = None
) -> TargetGrammar:
    """The grammar of programs like these, each a sequence of tokens.

    >>> programs = ["on ( hall , lamp )", "off ( hall , fan )"]
    >>> programs += ["on ( attic , fan )", "off ( attic , lamp )"]
    >>> print(infer_target_grammar(map(str.split, programs)), end="")
    <program> ::= <program_head> ( <on_argument_1> , <on_argument_2> )
    <on_argument_1> ::= hall | attic
    <on_argument_2> ::= lamp | fan
    <program_head> ::= on | off
    """
    return infer_types(programs, coarseness).grammar


def infer_types(
    programs: Iterable[Sequence[str]], coarseness: Coarseness | None = None
) -> InferredTypes:
    """Types of programs like these; the coarseness is chosen on folds unless it is given."""
    counts = Counter(map(_checked, programs))
    if not counts:
        raise FormatError(
            "expected at least one program to infer types from, found none"
        )
    corpus = Corpus(counts)
    # Where too many programs are not trees, types come from the tokens alone.
    if corpus.unreadable > HALF * counts.total():
        return InferredTypes(*flat_types(counts))
    # Take the finest level that accepts nearly as much as the best one.
    accepted = {}
    if coarseness is None:
        accepted = held_out_acceptance(corpus)
        enough = (1 - MAX_LOSS) * max(accepted.values())
        coarseness = next(level for level in Coarseness if accepted[level] >= enough)
    levels = coarsening_levels(corpus, corpus.fillers)
    writer = GrammarWriter(
        corpus, next(types for level, types in levels if level is coarseness)
    )
    return InferredTypes(
        writer.grammar,
        writer.inferred_types(),
        coarseness,
        accepted,
        writer.signatures(),
    )


def _checked(program: Sequence[str]) -> tuple[str, ...]:
    if isinstance(program, str):
        raise FormatError(
            f"expected a sequence of tokens, found the string {program!r}; split it first"
        )
    if not program:
        raise FormatError(
            "expected at least one token in each program, found a program without any"
        )
    return tuple(program)


class Fold(NamedTuple):
    """The fillers of the training programs, and held-out programs with their counts."""

    train: list[Filler]
    test: Counter[frozenset[Filler]]


def compound_folds(corpus: Corpus, rng: random.Random) -> Iterator[Fold]:
    """Folds that hold out all programs with certain rare fillers.

    Fillers are drawn until the programs that hold them make up a third. What is held out is how
    words are combined, not the words: new values are passed over, because they say nothing about
    types, and programs with other new heads are not tried.
    """
    holders = defaultdict[Filler, list[frozenset[Filler]]](list)
    for program in corpus.programs:
        for filler in program:
            holders[filler].append(program)
    # A common filler would hold out too much alone, so only rare ones are drawn: several of
    # them fit into a fold.
    size = HELD_OUT_SHARE * len(corpus.programs)
    largest = HELD_OUT_SHARE * size
    rare = [filler for filler in corpus.fillers if len(holders[filler]) <= largest]
    for _ in range(MAX_FOLDS):
        held_out: set[frozenset[Filler]] = set()
        for filler in rng.sample(rare, len(rare)):
            if len(held_out) >= size:
                break
            held_out.update(holders[filler])
        train = set[Filler]().union(*(corpus.programs.keys() - held_out))
        heads = {filler.head for filler in train}
        new_values = set[Filler]()
        other_new = set[Filler]()
        for filler in corpus.fillers:
            if filler.head not in heads:
                (new_values if filler.head.is_value else other_new).add(filler)
        # New values are taken out of a program; any other new head rules it out.
        test = Counter[frozenset[Filler]]()
        for program in held_out:
            if program.isdisjoint(other_new):
                test[program - new_values] += corpus.programs[program]
        yield Fold([filler for filler in corpus.fillers if filler in train], test)


def held_out_acceptance(corpus: Corpus) -> dict[Coarseness, float]:
    """The share of held-out programs that types of the others accept, over all folds."""
    accepted = Counter[Coarseness]()
    total = 0
    for fold in compound_folds(corpus, random.Random(0)):
        total += fold.test.total()
        for coarseness, types in coarsening_levels(corpus, fold.train):
            rejected = {filler for filler in corpus.fillers if not types.accept(filler)}
            for program, count in fold.test.items():
                if rejected.isdisjoint(program):
                    accepted[coarseness] += count
        if total >= ENOUGH_HELD_OUT:
            break
    return {
        coarseness: accepted[coarseness] / max(total, 1) for coarseness in Coarseness
    }


def coarsening_levels(
    corpus: Corpus, fillers: Collection[Filler]
) -> Iterator[tuple[Coarseness, Types]]:
    """Types for `fillers`, from the finest on; what one level accepts, the next accepts as well."""
    heads = defaultdict[Position, set[Head]](set)
    for position, head in fillers:
        # The keywords of functions have a rule of their own.
        if position in corpus.functions:
            continue
        at_position = heads[position]
        # Lists are everywhere and say nothing about types.
        if head.word:
            at_position.add(head)
    overlaps = head_overlaps(heads)
    words = _words_within(corpus, fillers)
    partition = Partition()
    for position in heads:
        argument = corpus.arguments[position]
        if argument.head == PARENTHESES:
            partition.join(argument.host, position)
    known = dict.fromkeys(fillers)
    transferred: dict[Filler, tuple[Type, ...]] = {}
    for coarseness in Coarseness:
        # Join positions that share enough heads.
        for share, first, second in overlaps:
            if coarseness is not Coarseness.HALF or share >= HALF:
                partition.join(first, second)
        # Join all positions at the last level. The root stays apart, and so do the values
        # of keywords: a keyword says what they are.
        if coarseness is Coarseness.ALL:
            joined = ROOT
            for position in heads.keys() - {ROOT}:
                if corpus.arguments[position].head.form.is_keyword:
                    continue
                joined = joined or position
                partition.join(joined, position)
        _merge_singletons(corpus, partition, heads, words)
        _join_list_items(corpus, partition, heads)
        # Give functions their keywords: the finest types tell which functions are alike.
        if coarseness is Coarseness.HALF:
            known |= dict.fromkeys(crossing_keywords(corpus, partition, fillers))
            _join_equal_functions(corpus, partition, known)
        # Transfer words between forms until no form takes another word.
        types = _types(corpus, partition, known, transferred)
        more = _transferred_heads(corpus, types)
        while more:
            transferred |= more
            types = _types(corpus, partition, known, transferred)
            more = _transferred_heads(corpus, types)
        yield coarseness, types


def crossing_keywords(
    corpus: Corpus, partition: Partition, fillers: Iterable[Filler]
) -> Iterator[Filler]:
    """Keywords that functions take though they were not seen with them.

    A keyword belongs to the functions that were seen with it. If these are more than half of the
    functions at positions of one type, it belongs to all of them.
    """
    keywords = defaultdict[Position, dict[Head, None]](dict)
    functions_of = defaultdict[Type, dict[Position, None]](dict)
    for position, head in fillers:
        if position in corpus.functions:
            keywords[position][head] = None
        if head.form.has_keywords:
            function = corpus.keyword_position(head)
            functions_of[partition.find(position)][function] = None
    for functions in functions_of.values():
        shared = shared_keywords([keywords[function] for function in functions])
        for function in functions:
            for keyword in shared:
                if keyword not in keywords[function]:
                    yield Filler(function, keyword)


def shared_keywords(functions: Collection[Iterable[Head]]) -> list[Head]:
    """The keywords that more than half of some functions have."""
    counts = Counter(chain.from_iterable(functions))
    most = CROSSING_SHARE * len(functions)
    return [keyword for keyword, count in counts.items() if count > most]


def _join_equal_functions(
    corpus: Corpus, partition: Partition, fillers: Iterable[Filler]
) -> None:
    """Join the keywords of functions that take the same ones."""
    keywords = defaultdict[Position, set[Head]](set)
    for position, head in fillers:
        if position in corpus.functions:
            keywords[position].add(head)
    firsts: dict[frozenset[Head], Position] = {}
    for position, taken in keywords.items():
        partition.join(firsts.setdefault(frozenset(taken), position), position)


class Partition:
    """Sets of positions that are joined step by step; each is named by its least member."""

    def __init__(self) -> None:
        self._parents: dict[Position, Position] = {}

    def find(self, position: Position) -> Position:
        """The name of the set that holds `position`."""
        while position in self._parents:
            position = self._parents[position]
        return position

    def join(self, first: Position, second: Position) -> None:
        """Make the sets of two positions one."""
        least, larger = sorted((self.find(first), self.find(second)))
        if least != larger:
            self._parents[larger] = least


def _types(
    corpus: Corpus,
    partition: Partition,
    fillers: Collection[Filler],
    transferred: Mapping[Filler, tuple[Type, ...]],
) -> Types:
    """The types of a partition, with words that forms have taken over from others."""
    of = {position: partition.find(position) for position, _ in fillers}
    for filler, arguments in transferred.items():
        for position, argument in zip(corpus.argument_positions(filler), arguments):
            of.setdefault(position, of[argument])
    return Types(corpus, of, chain(fillers, transferred))


def head_overlaps(
    heads: Mapping[Position, set[Head]],
) -> list[tuple[float, Position, Position]]:
    """Pairs of positions that share heads, with the share; positions with equal heads are a chain.

    >>> sun, rain = Head(Form(), ("sun",)), Head(Form(), ("rain",))
    >>> head_overlaps({1: {sun}, 2: {sun, rain}, 3: {sun}})
    [(1.0, 1, 3), (1.0, 1, 2)]
    """
    overlaps = []
    # Positions with equal heads hang on the first, which alone is compared below.
    firsts: dict[frozenset[Head], Position] = {}
    for position in sorted(heads):
        first = firsts.setdefault(frozenset(heads[position]), position)
        if first != position and heads[position]:
            overlaps.append((1.0, first, position))
    for first, second in combinations(firsts.values(), 2):
        shared = len(heads[first] & heads[second])
        if shared:
            fewer = min(len(heads[first]), len(heads[second]))
            overlaps.append((shared / fewer, first, second))
    return overlaps


def _holds_keyword(heads: Iterable[Head]) -> bool:
    return any(head.form.is_keyword for head in heads)


def _words_within(
    corpus: Corpus, fillers: Iterable[Filler]
) -> dict[Position, set[Word]]:
    """The words at each position, also those inside lists and operators that stand there."""
    words = defaultdict[Position, set[Word]](set)
    # Items have higher positions than the lists that hold them.
    for filler in sorted(fillers, key=lambda filler: -filler.position):
        at_position = words[filler.position]
        if filler.head.word:
            at_position.add(filler.head.word)
        else:
            for item in corpus.argument_positions(filler):
                at_position |= words[item]
    return words


def _merge_singletons(
    corpus: Corpus,
    partition: Partition,
    heads: Mapping[Position, set[Head]],
    words: Mapping[Position, set[Word]],
) -> None:
    """Join arguments that hold a single word with the richest argument of that number and form.

    A keyword says more about its value than its form does, and so does its value: both are left
    alone. A slot stands for many words.
    """
    words_of_type = defaultdict[Type, set[Word]](set)
    for position in words:
        words_of_type[partition.find(position)] |= words[position]
    sizes = {
        position: len(words_of_type[partition.find(position)])
        for position in sorted(words)
    }
    # Group the arguments of words by form and number, apart from keywords.
    alike = defaultdict[tuple[Form, int], list[Position]](list)
    for position in sizes:
        (form, word), number, _ = corpus.arguments[position]
        if position in corpus.functions or _holds_keyword(heads[position]):
            continue
        if word and not form.is_keyword:
            alike[form, number].append(position)
    for positions in alike.values():
        richest = max(positions, key=lambda position: sizes[position])
        for position in positions:
            has_slot = any(word[0].startswith(SLOT) for word in words[position])
            if sizes[position] <= 1 and not has_slot:
                partition.join(richest, position)


def _join_list_items(
    corpus: Corpus, partition: Partition, positions: Iterable[Position]
) -> None:
    """Join the items of lists and operators that stand at positions of one type."""
    arguments = corpus.arguments
    items = [
        position
        for position in positions
        if position and not arguments[position].head.word
    ]
    # Joined items may host lists themselves, so go on until nothing changes.
    is_stable = False
    while not is_stable:
        is_stable = True
        firsts: dict[Argument, Position] = {}
        for position in items:
            argument = arguments[position]
            key = argument._replace(host=partition.find(argument.host))
            first = firsts.setdefault(key, position)
            if partition.find(first) != partition.find(position):
                partition.join(first, position)
                is_stable = False


def _transferred_heads(corpus: Corpus, types: Types) -> dict[Filler, tuple[Type, ...]]:
    """Words that go from one form into another, in which at least half of their like are seen.

    So a noun that is only seen bare may be modified like the others, and a relation that is only
    named may be applied.
    """
    words_of = defaultdict[FormSignature, set[Word]](set)
    # The types of the keywords of each function in a form.
    keyword_types = defaultdict[FormSignature, list[Type]](list)
    for signature, words in types.words().items():
        if words == [()]:
            continue
        # Functions are in one form here even if their keywords differ.
        if signature.form.has_keywords:
            *others, keyword_type = signature.arguments
            signature = signature._replace(arguments=tuple(others))
            keyword_types[signature] += [keyword_type] * len(words)
        words_of[signature].update(words)
    # Where two forms of a type could take a word, the one with more words comes first.
    pairs = list(combinations(sorted(words_of, key=lambda key: -len(words_of[key])), 2))
    # Keywords cross from function to function by another rule.
    closed = {types.of[place] for place in corpus.functions if place in types.of}
    transferred: dict[Filler, tuple[Type, ...]] = {}
    for taker, giver in chain(pairs, ((second, first) for first, second in pairs)):
        shared = words_of[taker] & words_of[giver]
        if len(shared) < HALF * len(words_of[giver]):
            continue
        if taker.type in closed:
            continue
        for word in sorted(words_of[giver] - shared):
            head = Head(taker.form, word)
            if head in types.heads[taker.type]:
                continue
            arguments = taker.arguments
            if taker.form.has_keywords:
                keywords = types.of.get(corpus.keyword_position(head))
                # A word that is called without keywords does not take those of others.
                if keywords is None and not giver.form.opening:
                    keywords = _type_of_shared_keywords(types, keyword_types[taker])
                if keywords is None:
                    continue
                arguments += (keywords,)
            transferred.setdefault(Filler(taker.type, head), arguments)
    return transferred


def _type_of_shared_keywords(types: Types, functions: Sequence[Type]) -> Type | None:
    """The type that holds just the keywords that most functions have, if there is one."""
    shared = set(shared_keywords([types.heads[keywords] for keywords in functions]))
    for keywords in functions:
        if types.heads[keywords].keys() == shared:
            return keywords
    return None
