"""The examples that a search looks at: which ones, in numbers, what their sides share, and which a rule can touch."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile

import numpy as np
from numpy.typing import NDArray

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import Int32Array, Int64Array, inlined, unmanaged_kernel
from nqg.grammar.chart import SHOWN_TOKENS, charts, goal_charts
from nqg.grammar.encoding import NT
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import NO_ROOT
from nqg.grammar.ragged import Ragged
from nqg.induction.description_length import LabelRule, Labels
from nqg.text.brackets import is_balanced

Mask = NDArray[np.bool_]
MAX_TOKENS_A_SIDE = (
    500  # on a side of an example: charts and candidates take time with its square and more
)
LEAST_GIVEN_WORD = 0.75  # a word that means a token rarely occurs without it
LEAST_GIVEN_TOKEN = 0.25  # but several words, or forms of one, may mean it
LEAST_ALIKE = 0.25  # of a word's examples have a token that begins like it: a word may mean several


def shortest_first(examples: Iterable[Example], count: int | None = None) -> list[Example]:
    """Each pair once, by the length of its source, equally long ones in order; of these the first `count`, or all.

    >>> [example.source for example in shortest_first([Example("c d", "C"), Example("a", "A"), Example("b", "B")], 2)]
    ['a', 'b']
    """
    most = math.inf if count is None else count
    kept: dict[object, Example] = {}
    worst_first: list[tuple[tuple[int, int], object]] = []  # rank and pair
    for position, example in enumerate(examples):
        pair = (example.source_tokens, example.target_tokens)
        rank = (-len(example.source_tokens), -position)
        if not all(pair):
            raise NqgError(f"{example} has an empty side; a rule needs words on both")
        if (longest := max(map(len, pair))) > MAX_TOKENS_A_SIDE:
            start = " ".join(example.source_tokens[:SHOWN_TOKENS])
            raise NqgError(
                f"example '{start} …' has {longest:,} tokens on a side; expected at most {MAX_TOKENS_A_SIDE:,}"
            )
        if pair in kept or (len(kept) >= most and rank < worst_first[0][0]):
            continue  # what was dropped before ranks below all that are kept, and its repetitions too
        kept[pair] = example
        heapq.heappush(worst_first, (rank, pair))
        if len(kept) > most:
            del kept[heapq.heappop(worst_first)[1]]
    return [kept[pair] for _, pair in sorted(worst_first, reverse=True)]


@dataclass(frozen=True, slots=True)
class CommonAffix:
    """How all targets begin and end, brackets matched: `answer (` and `)`.

    >>> examples = [Example("a lake", "answer ( largest ( lake ) )"), Example("rivers", "answer ( river )")]
    >>> affix = CommonAffix.of(examples)
    >>> affix
    CommonAffix(opening=('answer', '('), closing=(')',))
    >>> affix.strip(Example("rivers", "answer ( river )")).target
    'river'
    """

    opening: tuple[str, ...]
    closing: tuple[str, ...]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> CommonAffix | None:
        """The longest that leaves something of every target, of equally long ones that with the longer beginning."""
        ends: tuple[set[tuple[str, ...]], set[tuple[str, ...]]] = (
            set(),
            set(),
        )  # the first and the last in order
        shortest = MAX_TOKENS_A_SIDE
        for example in examples:
            target = example.target_tokens
            shortest = min(shortest, len(target))
            for end, spelled in zip(ends, (target, target[::-1]), strict=True):
                end.add(spelled)
                end.intersection_update({min(end), max(end)})
        shared = (
            takewhile(lambda tokens: len({*tokens}) == 1, zip(*end, strict=False)) for end in ends
        )
        first, last = (
            len(list(tokens)) if len(end) == 2 else 0
            for tokens, end in zip(shared, ends, strict=True)
        )
        sizes = [
            (left, right)
            for left in range(first + 1)
            for right in range(last + 1)
            if 0 < left + right < shortest
        ]
        for left, right in sorted(sizes, key=lambda size: (-sum(size), -size[0])):
            inner = (
                example.target_tokens[left : len(example.target_tokens) - right]
                for example in examples
            )
            if all(map(is_balanced, inner)):
                target = min(ends[0])
                return cls(target[:left], target[len(target) - right :])
        return None

    def strip(self, example: Example) -> Example:
        inner = example.target_tokens[
            len(self.opening) : len(example.target_tokens) - len(self.closing)
        ]
        return replace(example, target=" ".join(inner))

    def restore(self, example: Example) -> Example:
        return replace(
            example, target=" ".join((*self.opening, *example.target_tokens, *self.closing))
        )


def underivable(grammar: Grammar, examples: Sequence[Example]) -> list[Example]:
    """The examples whose target no derivation of the source yields."""
    full = charts(grammar, [example.source_tokens for example in examples])
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples])
    return [
        example for example, root in zip(examples, goal.roots(), strict=True) if root == NO_ROOT
    ]


def shared_strings(source: Labels, target: Labels) -> list[Labels]:
    """The longest common strings that do not overlap: the longest is taken out of both sides, then the next, …

    Of equally long ones the leftmost in the source is taken, at its leftmost place in the target.

    >>> shared_strings((1, 2, 3, 9, 4), (4, 7, 2, 3))
    [(2, 3), (4,)]
    """
    found: list[Labels] = []
    left, right = list(source), list(target)
    length = len(left)
    while length:
        places = {tuple(right[at : at + length]): at for at in range(len(right) - length, -1, -1)}
        strings = (tuple(left[at : at + length]) for at in range(len(left) - length + 1))
        at, string = next(
            ((at, each) for at, each in enumerate(strings) if each in places), (None, ())
        )
        if at is None:
            length -= 1
            continue
        found.append(string)
        place = places[string]
        left[at : at + length] = [
            -1
        ] * length  # of what was taken, nothing is equal to anything on the other side
        right[place : place + length] = [-2] * length
    return found


def lexical_rules(examples: Iterable[Example]) -> list[Rule]:
    """A rule for each word that one target token goes with better than any other does, in the order of the words.

    SPLIT can cut `left ### I_TURN_LEFT` out of an example only where the grammar derives the rest, and *left* is never
    alone. But examples with one of the two have the other, and examples without do not. Both directions count,

        Δp(token | word) = p(token | word) − p(token | no word)        Δp(word | token) likewise

    over distinct examples: tokens that occur with everything, like `answer`, differ little. A token without a letter
    or digit is punctuation and not considered; of tokens that go equally well with a word, only one that is the word
    itself is taken. A rare form of a word, *capitals*, says little about `capital`, a token that most examples have,
    `state`, is not told by its words, and *largest* is `largest` or `largest_one`: for tokens that begin like the word
    it is enough that some of its examples have them.

    >>> pairs = [("turn left", "LEFT"), ("walk left", "LEFT WALK"), ("walk twice", "WALK WALK"), ("run", "RUN")]
    >>> [str(rule) for rule in lexical_rules(Example(*pair) for pair in pairs)]
    ['left ### LEFT', 'run ### RUN', 'walk ### WALK']
    """
    words, tokens, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    distinct = {(example.source_tokens, example.target_tokens) for example in examples}
    for source, target in distinct:
        source_words, target_words = (
            sorted(filter(_is_word, set(side))) for side in (source, target)
        )
        words.update(source_words)
        tokens.update(target_words)
        together.update(product(source_words, target_words))

    def contingency(both: int, given: int, other: int) -> float:
        without = len(distinct) - given
        return (
            both / given - (other - both) / without if without else 0.0
        )  # with everything: nothing to compare with

    best: dict[str, list[tuple[tuple[float, bool], str]]] = {}
    chosen: set[tuple[str, str]] = set()
    for (word, token), both in together.items():
        if both / words[word] >= LEAST_ALIKE and is_cognate(word, token):
            chosen.add((word, token))
        given_word = contingency(both, words[word], tokens[token])
        given_token = contingency(both, tokens[token], words[word])
        if given_word >= LEAST_GIVEN_WORD and given_token >= LEAST_GIVEN_TOKEN:
            best.setdefault(word, []).append(((given_word * given_token, word == token), token))
    for word, found in best.items():
        (score, token), *others = sorted(found, reverse=True)
        if all(other < score for other, _ in others):
            chosen.add((word, token))
    return [Rule((word,), (token,)) for word, token in sorted(chosen)]


def is_cognate(word: str, token: str) -> bool:
    """Whether a word and a token begin alike, at least four letters and most of the longer one.

    >>> is_cognate("populated", "population_1"), is_cognate("states", "state"), is_cognate("hedgehog", "hedge")
    (True, True, False)
    """
    word, token = word.casefold(), "".join(takewhile(str.isalpha, token.casefold()))
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(word, token, strict=False))))
    return shared >= 4 and shared >= 2 / 3 * max(len(word), len(token))


def _is_word(token: str) -> bool:
    return any(character.isalnum() for character in token)


@dataclass(frozen=True, slots=True)
class EncodedExamples:
    """Pairs in numbers, end to end."""

    sources: Ragged
    targets: Ragged

    @classmethod
    def of(cls, pairs: Sequence[LabelRule]) -> EncodedExamples:
        return cls(
            Ragged.of(pair.source for pair in pairs), Ragged.of(pair.target for pair in pairs)
        )

    def __len__(self) -> int:
        return self.sources.rows

    def pair(self, number: int) -> LabelRule:
        """An example as a rule of its own."""
        return LabelRule(
            tuple(self.sources.row(number).tolist()), tuple(self.targets.row(number).tolist())
        )

    def touched_by(self, rules: Iterable[LabelRule]) -> Mask:
        """The examples in whose derivations one of `rules` could take part: its words stand there in that order."""
        touched = np.zeros(len(self), dtype=np.bool_)
        for rule in rules:
            _mark_matches(np.array(rule.source, np.int32), self.sources, touched)
        return touched

    def select(self, numbers: Int64Array) -> EncodedExamples:
        return EncodedExamples(self.sources.select(numbers), self.targets.select(numbers))


@inlined
def find_run(run: Int32Array, sentence: Int32Array, position: int) -> int:
    """The position behind the first occurrence of `run` from `position` on, or -1."""
    for start in range(position, len(sentence) - len(run) + 1):
        for offset in range(len(run)):
            if sentence[start + offset] != run[offset]:
                break
        else:
            return start + len(run)
    return -1


@inlined
def _matches(pattern: Int32Array, sentence: Int32Array) -> bool:
    """Whether the runs of terminals occur in order; taking each run at its first place leaves most for the others."""
    at = position = 0
    while at < len(pattern):
        while at < len(pattern) and pattern[at] == NT:
            position += 1
            at += 1
        stop = at
        while stop < len(pattern) and pattern[stop] != NT:
            stop += 1
        if at < stop:
            position = find_run(pattern[at:stop], sentence, position)
            at = stop
        if position > len(sentence) or position < 0:
            return False
    return True


@unmanaged_kernel
def _mark_matches(pattern: Int32Array, sentences: Ragged, touched: Mask) -> None:
    """Mark the sentences that hold the pattern, every non-terminal standing for at least one token."""
    for sentence in range(len(touched)):
        tokens = sentences.values[sentences.offsets[sentence] : sentences.offsets[sentence + 1]]
        touched[sentence] |= _matches(pattern, tokens)
