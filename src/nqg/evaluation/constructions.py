"""Constructions that are held out: how well does a model join rules that training never joined?

Sentences that are held out at random have the constructions of the others. A sentence whose
relative clause modifies the subject, where training has them on objects only, joins two known rules
in a new way. To learn how sure a reader is of such sentences, a fold leaves out all examples of some
*pairs* of rules, and keeps enough others of both rules.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from nqg.data.dataset import Split
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Rule
from nqg.model.confidence import RulePair, rule_pairs

# The share of the pairs that are tried, and of the examples that may be held out for them: as many
# as in a random fold.
SHARE = 1 / 5
# Examples that must be left of each rule of a pair. Not measured.
FEWEST_LEFT = 10


def constructions(
    derivation: Derivation, numbers: Mapping[Rule, int]
) -> frozenset[RulePair]:
    """The pairs of rules that say how phrases are joined: of their children have arguments."""
    rules = {
        numbers[hyperedge.rule]: hyperedge.rule for hyperedge in derivation.hyperedges
    }
    pairs = rule_pairs(derivation, numbers)
    return frozenset(pair for pair in pairs if rules[pair.child].arity)


def construction_split(
    pairs_of: Sequence[Collection[RulePair]], count: int, seed: int
) -> tuple[Split, frozenset[int]]:
    """A split that holds out `count` examples of constructions and `count` random ones.

    The second result are the positions of the former. Given are the pairs of each example. Other
    examples of the same constructions are in neither part.
    """
    rng = random.Random(seed)
    positions: defaultdict[RulePair, list[int]] = defaultdict(list)
    for position, pairs in enumerate(pairs_of):
        for pair in pairs:
            positions[pair].append(position)
    left = Counter(chain.from_iterable(map(_rules, pairs_of)))
    most = SHARE * len(pairs_of)
    held_out: set[int] = set()
    chosen: list[list[int]] = []
    every = sorted(positions)
    for pair in rng.sample(every, len(every)):
        if len(chosen) >= SHARE * len(every):
            break
        lost = set(positions[pair]) - held_out
        if len(held_out) + len(lost) > most:
            continue
        after = left - Counter(chain.from_iterable(_rules(pairs_of[at]) for at in lost))
        if lost and min(after[pair.parent], after[pair.child]) >= FEWEST_LEFT:
            left = after
            held_out |= lost
            chosen.append(rng.sample(sorted(lost), len(lost)))
    # Frequent constructions must not crowd out the others.
    in_turn = chain.from_iterable(zip_all(chosen))
    tried = frozenset(list(in_turn)[:count])
    others = sorted(set(range(len(pairs_of))).difference(held_out))
    at_random = set(rng.sample(others, min(count, len(others) // 2)))
    train = tuple(at for at in others if at not in at_random)
    return Split(train, tuple(sorted(tried | at_random))), tried


def _rules(pairs: Iterable[RulePair]) -> set[int]:
    return {rule for pair in pairs for rule in (pair.parent, pair.child)}


def zip_all(columns: Sequence[Sequence[int]]) -> Iterable[list[int]]:
    """The first items of all columns, then the second ones of those that have one, and so on.

    >>> list(zip_all([[1, 2, 3], [4]]))
    [[1, 4], [2], [3]]
    """
    longest = max(map(len, columns), default=0)
    for row in range(longest):
        yield [column[row] for column in columns if row < len(column)]
