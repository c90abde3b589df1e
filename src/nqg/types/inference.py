"""A target grammar for programs that nobody wrote one for.

Programs are read as trees (`nqg.types.program_trees`) with terms at positions (`nqg.types.positions`). Positions that
hold the same words are one *type*, which becomes a category of the grammar (`nqg.types.grammar_writer`). How much two
positions must share is chosen on folds of the programs: each fold holds out all programs with certain words in certain
positions, and the finest types are taken that accept nearly as many of them as the coarsest.

A type in which new words turn up again and again is open: it also holds tokens that the grammar does not name.
Programs that are not trees, such as SCAN's, get a grammar of their tokens in any order.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import NamedTuple

from nqg.errors import FormatError
from nqg.grammar.grammar import SLOT
from nqg.types.grammar_writer import GrammarWriter, InferredType, flat_types
from nqg.types.positions import ROOT, ArgumentPlace, Corpus, Filler, Head, Position, Types, is_value
from nqg.types.program_trees import Form, Word
from nqg.types.target_grammar import TargetGrammar

# What these numbers give on real programs, benchmarks/type_inference.py prints.
MAX_LOSS = 0.05  # the share of held-out programs that finer types may cost
MAX_FOLDS = 10  # fewer are enough where many programs are tried
ENOUGH_HELD_OUT = 2000  # programs
HELD_OUT_SHARE = 1 / 3  # of the programs, in each fold
MIN_TRANSFER_SHARE = 1 / 2  # a form that has so much of the words of another takes the others, too

PARENTHESES: Head = (
    Form(("(",), (), 1, ",", (")",)),
    (),
)  # around one term, whose type they do not change


class Coarseness(Enum):
    """When two positions are one type, from the finest types to the coarsest."""

    HALF = "if they share half of the heads of the one that has fewer"
    ONE_HEAD = "if they share a head"
    KEYWORDS = "also if both hold keywords: whatever takes one takes all, and each has values of its own type"
    ALL = "always"


@dataclass(frozen=True, slots=True)
class InferredTypes:
    """A target grammar, what its types are, and the share of held-out programs that each coarseness accepts."""

    grammar: TargetGrammar
    types: tuple[InferredType, ...]
    coarseness: Coarseness | None = None  # none where programs are not trees
    accepted: Mapping[Coarseness, float] = field(default_factory=dict)


def infer_target_grammar(
    programs: Iterable[Sequence[str]], coarseness: Coarseness | None = None
) -> TargetGrammar:
    """The grammar of programs like these, each a sequence of tokens.

    >>> programs = "on ( hall , lamp )", "off ( hall , fan )", "on ( attic , fan )", "off ( attic , lamp )"
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
    written = Counter(map(_checked, programs))
    if not written:
        raise FormatError("expected at least one program to infer types from, found none")
    corpus = Corpus(written)
    if 2 * corpus.unreadable > written.total():
        return InferredTypes(*flat_types(written))
    accepted = {} if coarseness else held_out_acceptance(corpus)
    if coarseness is None:
        enough = max(accepted.values()) - MAX_LOSS
        coarseness = next(level for level in Coarseness if accepted[level] >= enough)
    types = next(
        types for level, types in coarsening_levels(corpus, corpus.fillers) if level is coarseness
    )
    writer = GrammarWriter(corpus, types)
    return InferredTypes(writer.grammar, writer.types, coarseness, accepted)


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
    """What the programs of a fold hold, and held-out programs to try: sets of numbers of fillers, and their counts."""

    known: list[Filler]
    tried: list[tuple[frozenset[int], int]]


def compound_folds(corpus: Corpus, rng: random.Random) -> Iterator[Fold]:
    """Folds that hold out all programs with certain rare fillers, of which as many are drawn as make up a third.

    New values say nothing about types and are passed over; programs with other new heads are not tried.
    """
    fillers, programs = list(corpus.fillers), list(corpus.programs.items())
    # The programs that hold each filler.
    holders: dict[int, list[int]] = defaultdict(list)
    for number, (program, _) in enumerate(programs):
        for filler in program:
            holders[filler].append(number)
    rare = [
        filler
        for filler in sorted(holders)
        if 3 * len(holders[filler]) <= HELD_OUT_SHARE * len(programs)
    ]
    for _ in range(MAX_FOLDS):
        held_out: set[int] = set()
        for filler in rng.sample(rare, len(rare)):
            if len(held_out) >= HELD_OUT_SHARE * len(programs):
                break
            held_out.update(holders[filler])
        known: set[int] = set()
        for number, (program, _) in enumerate(programs):
            if number not in held_out:
                known |= program
        heads = {fillers[filler].head for filler in known}
        new_values = {
            number
            for number, (_, head) in enumerate(fillers)
            if head not in heads and is_value(*head)
        }
        tried: list[tuple[frozenset[int], int]] = []
        for number in sorted(held_out):
            program, count = programs[number]
            known_part = program - new_values
            if all(fillers[filler].head in heads for filler in known_part):
                tried.append((known_part, count))
        yield Fold([fillers[filler] for filler in sorted(known)], tried)


def held_out_acceptance(corpus: Corpus) -> dict[Coarseness, float]:
    """The share of held-out programs that types of the others accept, over all folds."""
    accepted, total = Counter[Coarseness](), 0
    for fold in compound_folds(corpus, random.Random(0)):
        total += sum(count for _, count in fold.tried)
        for coarseness, types in coarsening_levels(corpus, fold.known):
            refused = {
                number for number, filler in enumerate(corpus.fillers) if not types.accept(filler)
            }
            accepted[coarseness] += sum(
                count for program, count in fold.tried if refused.isdisjoint(program)
            )
        if total >= ENOUGH_HELD_OUT:
            break
    return {coarseness: accepted[coarseness] / max(total, 1) for coarseness in Coarseness}


def coarsening_levels(
    corpus: Corpus, fillers: Collection[Filler]
) -> Iterator[tuple[Coarseness, Types]]:
    """Types for `fillers`, from the finest on; what one accepts, the next accepts as well."""
    heads: dict[Position, set[Head]] = {position: set() for position, _ in fillers}
    for position, head in fillers:
        if head[1]:  # lists are everywhere, and say nothing of types
            heads[position].add(head)
    overlaps, words = head_overlaps(heads), _words_within(corpus, fillers)
    partition, transferred = Partition(), dict[Filler, tuple[Position, ...]]()
    for position in heads:
        place = corpus.places[position]
        if place.head == PARENTHESES:
            partition.join(place.host, position)

    def types() -> Types:
        of = {position: partition.find(position) for position in heads}
        for filler, inner in transferred.items():
            for position, same in zip(corpus.arguments(filler), inner, strict=True):
                of.setdefault(position, of[same])
        return Types(corpus, of, (*fillers, *transferred))

    for coarseness in Coarseness:
        # Join positions that share enough heads, then those that are one type at this level whatever they share.
        for share, one, other in overlaps:
            if coarseness is not Coarseness.HALF or share >= 1 / 2:
                partition.join(one, other)
        same: set[Position] = set()
        if coarseness is Coarseness.KEYWORDS:
            same = {
                position
                for position in heads
                if any(form.is_keyword for form, _ in heads[position])
            }
        elif coarseness is Coarseness.ALL:
            same = set(heads)
        for position in same - {ROOT}:
            partition.join(max(same), position)
        _merge_singletons(corpus, partition, heads, words)
        _join_list_items(corpus, partition, heads)
        # Each word that a type takes over may be reason for others.
        current = types()
        more = _transferred_heads(current)
        while more:
            transferred |= more
            current = types()
            more = _transferred_heads(current)
        yield coarseness, current


class Partition:
    """Sets of positions that are joined step by step; each is known by its least member."""

    def __init__(self) -> None:
        self._parents: dict[Position, Position] = {}

    def find(self, position: Position) -> Position:
        root = position
        while self._parents.get(root, root) != root:
            root = self._parents[root]
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
    common = Counter(
        pair for positions in having.values() for pair in combinations(sorted(positions), 2)
    )
    for (one, other), number in sorted(common.items()):
        found.append((number / min(len(heads[one]), len(heads[other])), one, other))
    return found


def _words_within(corpus: Corpus, fillers: Iterable[Filler]) -> dict[Position, set[Word]]:
    """The words at each position, also those inside lists and operators that stand there."""
    words: dict[Position, set[Word]] = defaultdict(set)
    for filler in sorted(
        fillers, key=lambda filler: -filler.position
    ):  # parts have higher numbers than their hosts
        words[filler.position] |= {filler.head[1]} if filler.head[1] else set()
        if not filler.head[1]:
            for part in corpus.arguments(filler):
                words[filler.position] |= words[part]
    return words


def _merge_singletons(
    corpus: Corpus,
    joined: Partition,
    heads: Mapping[Position, set[Head]],
    words: Mapping[Position, set[Word]],
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
        if (
            word
            and not form.is_keyword
            and not any(inner.is_keyword for inner, _ in heads[position])
        ):
            alike[form, number].append(position)
    for positions in alike.values():
        best = max(positions, key=lambda position: (sizes[position], -position))
        for position in positions:
            if sizes[position] < 2 and not any(
                word[0].startswith(SLOT) for word in words[position]
            ):
                joined.join(best, position)


def _join_list_items(corpus: Corpus, joined: Partition, positions: Iterable[Position]) -> None:
    """Join the parts of lists and operators that stand at positions of one type."""
    parts = [
        position
        for position in positions
        if position != ROOT and not corpus.places[position].head[1]
    ]
    is_stable = False
    while not is_stable:
        is_stable, first = True, dict[ArgumentPlace, Position]()
        for position in parts:
            place = corpus.places[position]
            same = first.setdefault(place._replace(host=joined.find(place.host)), position)
            if joined.find(same) != joined.find(position):
                joined.join(same, position)
                is_stable = False


def _transferred_heads(types: Types) -> dict[Filler, tuple[Position, ...]]:
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
        if number >= MIN_TRANSFER_SHARE * len(instances[giver]):
            own, form, arguments = taker
            new = [
                word for word in sorted(instances[giver]) if (form, word) not in types.heads[own]
            ]
            for word in new:
                found.setdefault(Filler(own, (form, word)), arguments)
    return found
