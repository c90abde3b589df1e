"""The examples that a search looks at, in numbers, what their sides share, and what rules touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from operator import eq

import numpy as np
from numpy.typing import NDArray

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.chart import SHOWN_TOKENS, charts, goal_charts
from nqg.grammar.compilation import inlined, unmanaged_kernel
from nqg.grammar.encoding import NT
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.hypergraph import NO_ROOT
from nqg.grammar.ragged import Ragged
from nqg.induction.description_length import LabelRule, Labels
from nqg.induction.work import WorkMeter
from nqg.text.brackets import is_balanced

Mask = NDArray[np.bool_]
# Charts and candidates take time with the square of a side and more.
MAX_TOKENS_A_SIDE = 500
# The thresholds of `lexical_rules` were chosen on folds of GeoQuery (docs/mathematics.md). A word
# that means a token rarely occurs without it,
LEAST_GIVEN_WORD = 0.75
# but several words, or forms of one, may mean the token.
LEAST_GIVEN_TOKEN = 0.25
# A word may mean several tokens that begin like it: each is in so many of the word's examples.
LEAST_ALIKE = 0.25


def shortest_first(
    examples: Iterable[Example], count: int | None = None
) -> list[Example]:
    """Each pair once, by the length of its source, and of these the first `count`, or all.

    >>> examples = [Example("c d", "C"), Example("a", "A"), Example("b", "B")]
    >>> [example.source for example in shortest_first(examples, 2)]
    ['a', 'b']
    """
    distinct: dict[object, Example] = {}
    for example in examples:
        pair = (example.source_tokens, example.target_tokens)
        longest = max(map(len, pair))
        if not all(pair):
            raise NqgError(f"{example} has an empty side; a rule needs words on both")
        if longest > MAX_TOKENS_A_SIDE:
            start = " ".join(example.source_tokens[:SHOWN_TOKENS])
            raise NqgError(
                f"example '{start} …' has {longest:,} tokens on a side; "
                f"expected at most {MAX_TOKENS_A_SIDE:,}"
            )
        distinct.setdefault(pair, example)
    # The sort is stable, so examples of equal length stay in their order.
    return sorted(distinct.values(), key=lambda example: len(example.source_tokens))[
        :count
    ]


@dataclass(frozen=True, slots=True)
class CommonAffix:
    """How all targets begin and end, brackets matched: `answer (` and `)`.

    >>> lake = Example("a lake", "answer ( largest ( lake ) )")
    >>> affix = CommonAffix.of([lake, Example("rivers", "answer ( river )")])
    >>> affix
    CommonAffix(opening=('answer', '('), closing=(')',))
    >>> affix.strip(lake).target
    'largest ( lake )'
    """

    opening: tuple[str, ...]
    closing: tuple[str, ...]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> CommonAffix | None:
        """The longest that leaves something of every target; of these the longest beginning."""
        targets = list({example.target_tokens for example in examples})
        if len(targets) < 2:
            return None
        # What the first and the last in order share, all share.
        backwards = [target[::-1] for target in targets]
        opening = _shared_beginning(min(targets), max(targets))
        closing = _shared_beginning(min(backwards), max(backwards))
        shortest = min(map(len, targets))
        # Try the longest affixes first, and of equally long ones the longest opening.
        for size in range(min(opening + closing, shortest - 1), 0, -1):
            for left in range(min(opening, size), max(0, size - closing) - 1, -1):
                right = size - left
                if all(
                    is_balanced(target[left : len(target) - right])
                    for target in targets
                ):
                    return cls(targets[0][:left], targets[0][len(targets[0]) - right :])
        return None

    def strip(self, example: Example) -> Example:
        end = len(example.target_tokens) - len(self.closing)
        inner = example.target_tokens[len(self.opening) : end]
        return replace(example, target=" ".join(inner))

    def restore(self, example: Example) -> Example:
        whole = (*self.opening, *example.target_tokens, *self.closing)
        return replace(example, target=" ".join(whole))


def underivable(
    grammar: Grammar, examples: Sequence[Example], meter: WorkMeter | None = None
) -> list[Example]:
    """The examples whose target no derivation of the source yields."""
    full = charts(grammar, [example.source_tokens for example in examples])
    goal = goal_charts(grammar, full, [example.target_tokens for example in examples])
    if meter is not None:
        meter.add(full.hyperedges + goal.hyperedges)
    return [example for example, root in zip(examples, goal.roots()) if root == NO_ROOT]


def shared_strings(source: Labels, target: Labels) -> list[Labels]:
    """The longest common strings that do not overlap: the longest, then the next in the rest, …

    Of equally long ones the leftmost in the source is taken, at its leftmost place in the target.

    >>> shared_strings((1, 2, 3, 9, 4), (4, 7, 2, 3))
    [(2, 3), (4,)]
    """
    strings: list[Labels] = []
    left, right = list(source), list(target)
    length = len(left)
    while length:
        first: dict[Labels, int] = {}
        for position in range(len(right) - length + 1):
            first.setdefault(tuple(right[position : position + length]), position)
        for start in range(len(left) - length + 1):
            string = tuple(left[start : start + length])
            if string in first:
                strings.append(string)
                # What was taken equals nothing on the other side.
                left[start : start + length] = [-1] * length
                right[first[string] : first[string] + length] = [-2] * length
                break
        else:
            length -= 1
    return strings


def lexical_rules(examples: Iterable[Example]) -> list[Rule]:
    """A rule for each word that one target token goes with better than any other does.

    SPLIT can take `left ### I_TURN_LEFT` out of an example only where the grammar derives the rest,
    and *left* is never alone. But examples with one of the two have the other, and examples without
    do not. Both directions count,

        Δp(token | word) = p(token | word) − p(token | no word)        Δp(word | token) likewise

    over distinct examples: tokens that occur with everything, like `answer`, differ little. A token
    without a letter or digit is punctuation and not considered. Of tokens that go equally well with
    a word, only one that is the word itself is taken. A rare form of a word, *capitals*, says
    little about `capital`, a token that most examples have, `state`, is not told by its words, and
    *largest* is `largest` or `largest_one`: for tokens that begin like the word it is enough that
    some of its examples have them.

    >>> pairs = ["turn left = LEFT", "walk left = LEFT WALK", "walk twice = WALK WALK", "run = RUN"]
    >>> [str(rule) for rule in lexical_rules(Example(*pair.split(" = ")) for pair in pairs)]
    ['left ### LEFT', 'run ### RUN', 'walk ### WALK']
    """
    # Count the examples with each word, with each token, and with both.
    words, tokens, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    distinct = {(example.source_tokens, example.target_tokens) for example in examples}
    for source, target in distinct:
        source_words = set(filter(_is_word, source))
        target_words = set(filter(_is_word, target))
        words.update(source_words)
        tokens.update(target_words)
        together.update(product(source_words, target_words))

    def contingency(both: int, condition: int, outcome: int) -> float:
        without = len(distinct) - condition
        if not without:
            return 0.0
        return both / condition - (outcome - both) / without

    # For each word the score of its best token, and the tokens that have it.
    best: dict[str, tuple[tuple[float, bool], list[str]]] = {}
    chosen: set[tuple[str, str]] = set()
    for (word, token), both in together.items():
        if both / words[word] >= LEAST_ALIKE and is_cognate(word, token):
            chosen.add((word, token))
        given_word = contingency(both, words[word], tokens[token])
        given_token = contingency(both, tokens[token], words[word])
        if given_word >= LEAST_GIVEN_WORD and given_token >= LEAST_GIVEN_TOKEN:
            score = (given_word * given_token, word == token)
            highest, equals = best.get(word, (score, []))
            if score > highest:
                equals = []
            if score >= highest:
                best[word] = score, [*equals, token]
    # Where several tokens share the best score, none of them is taken for it.
    for word, (_, equals) in best.items():
        if len(equals) == 1:
            chosen.add((word, equals[0]))
    return [Rule((word,), (token,)) for word, token in sorted(chosen)]


def is_cognate(word: str, token: str) -> bool:
    """Whether a word and a token begin alike, at least four letters and most of the longer one.

    >>> is_cognate("populated", "population_1"), is_cognate("hedgehog", "hedge")
    (True, False)
    """
    word, token = word.casefold(), "".join(takewhile(str.isalpha, token.casefold()))
    shared = _shared_beginning(word, token)
    return shared >= 4 and shared >= 2 / 3 * max(len(word), len(token))


def _shared_beginning(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items at the beginning of both are equal."""
    return len(list(takewhile(bool, map(eq, left, right))))


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


@dataclass(frozen=True, slots=True)
class EncodedExamples:
    """Pairs in numbers, end to end."""

    sources: Ragged
    targets: Ragged

    @classmethod
    def of(cls, pairs: Sequence[LabelRule]) -> EncodedExamples:
        sources = Ragged.of(pair.source for pair in pairs)
        return cls(sources, Ragged.of(pair.target for pair in pairs))

    def __len__(self) -> int:
        return self.sources.rows

    def pair(self, number: int) -> LabelRule:
        """An example as a rule of its own."""
        source, target = self.sources.row(number), self.targets.row(number)
        return LabelRule(tuple(source.tolist()), tuple(target.tolist()))

    def touched_by(self, rules: Iterable[LabelRule]) -> Mask:
        """The examples in whose derivations one of `rules` could take part: those with
        its words.
        """
        touched = np.zeros(len(self), dtype=np.bool_)
        for rule in rules:
            _mark_matches(np.array(rule.source, np.int32), self.sources, touched)
        return touched

    def select(self, numbers: Int64Array) -> EncodedExamples:
        return EncodedExamples(
            self.sources.select(numbers), self.targets.select(numbers)
        )


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
    """Whether the runs of terminals occur in order.

    Taking each run at its first occurrence leaves most for the others.
    """
    at = position = 0
    while at < len(pattern):
        # A non-terminal stands for at least one token.
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
    """Mark the sentences that have the pattern, every non-terminal for at least one token."""
    for sentence in range(len(touched)):
        tokens = sentences.values[
            sentences.offsets[sentence] : sentences.offsets[sentence + 1]
        ]
        touched[sentence] |= _matches(pattern, tokens)
