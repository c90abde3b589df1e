"""SPLIT, NEW and ELIM of appendix A.2: which rules could stand in for a rule, given the rest of the grammar.

`candidates` answers for many rules at once. A candidate g of a rule f derives f together with what the grammar derives
already. So NEW is the union of all rules' candidates, and ELIM(g) is the set of rules that have g among theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nqg.grammar.arrays import Int32Array
from nqg.grammar.chart import FIRST_ROOM, MOST_ROOM, Batch, encoded_charts, more_room
from nqg.grammar.chart_kernels import Graphs
from nqg.grammar.encoding import LEAF, GrammarArrays, firsts_of, flat
from nqg.grammar.goal_kernels import goal_workspace
from nqg.induction.candidate_kernels import INSIDE, Sides, fill_candidates, workspace
from nqg.induction.description_length import LabelRule, Labels, rule_of_leaves

NEW_LEAF = LEAF - 1000  # the non-terminal that takes the place of what is cut out
OUTPUT_ROOM = 1 << 18


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """Which ways of splitting a rule are allowed; brackets are pairs of terminals' numbers."""

    repeated_targets: bool = False
    max_non_terminals: int = 2
    brackets: tuple[tuple[int, int], ...] = ()


def candidates(rules: Sequence[LabelRule], grammar: GrammarArrays, settings: SplitSettings) -> list[set[LabelRule]]:
    """For each of `rules` the rules that would derive it, together with those of `grammar` other than itself."""
    found: list[set[LabelRule]] = []
    sources, targets = [rule.leaf_source() for rule in rules], [rule.leaf_target() for rule in rules]
    for source, target, pairs in zip(sources, targets, _pairs(sources, targets, grammar), strict=True):
        found.append({rule for pair in pairs if (rule := _candidate(source, target, pair, settings)) is not None})
    return found


def _pairs(sources: list[Labels], targets: list[Labels], grammar: GrammarArrays) -> Iterator[Int32Array]:
    """What the inside-outside pass finds for each rule: rows of INSIDE or OUTSIDE, start, end, place, length."""
    sides = Sides(firsts_of(sources), flat(sources), firsts_of(targets), flat(targets))
    charts = encoded_charts(grammar, Batch(sides.first_source, sides.sources), prune=False)
    view, max_arity = Graphs.of(charts), int(grammar.arities.max(initial=0))
    longest, longest_target = max(map(len, sources), default=0), max(map(len, targets), default=0)
    most_nodes = int(np.diff(charts.first_node).max(initial=0))
    begin, room = 0, FIRST_ROOM
    while begin < len(sources):
        goals = goal_workspace(most_nodes, longest_target, max_arity, room)
        work = workspace(longest, max_arity, room)
        first_found = np.zeros(len(sources) + 1, dtype=np.int64)
        out = np.empty((max(room, OUTPUT_ROOM), 5), dtype=np.int32)
        end = fill_candidates(begin, sides, grammar, view, goals, work, first_found, out)
        for rule in range(begin, end):
            yield out[first_found[rule] : first_found[rule + 1]]
        if end == begin:
            room = more_room(room, MOST_ROOM, f"rule {begin}")
        begin = end


def _candidate(source: Labels, target: Labels, pair: Int32Array, settings: SplitSettings) -> LabelRule | None:
    """The rule that a derivable (cut it out) or needed (take it) pair suggests, if it is allowed."""
    kind, start, end, place, length = pair.tolist()
    if not _may_split(source, target, start, end, place, length, settings):
        return None
    cut = _outer if kind == INSIDE else _inner
    rule = cut(source, target, start, end, place, length)
    return rule if rule is not None and _is_allowed(rule, settings) else None


def all_splits(rule: LabelRule, settings: SplitSettings) -> Iterator[tuple[LabelRule, LabelRule]]:
    """SPLIT: every pair of an outer and an inner rule that derive `rule`, if both are allowed."""
    source, target = rule.leaf_source(), rule.leaf_target()
    parts = [
        (place, length)
        for place in range(len(target))
        for length in range(1, len(target) - place + 1)
        if all(_is_balanced(target[place : place + length], *pair) for pair in settings.brackets)
    ]
    for start, end in combinations(range(len(source) + 1), 2):
        if end - start == len(source) or (end - start == 1 and source[start] <= LEAF):
            continue
        for place, length in parts:
            inner = _inner(source, target, start, end, place, length)
            if inner is None or not _may_split(source, target, start, end, place, length, settings):
                continue
            outer = _outer(source, target, start, end, place, length)
            if outer is not None and _is_allowed(outer, settings) and _is_allowed(inner, settings):
                yield outer, inner


def _may_split(
    source: Labels, target: Labels, start: int, end: int, place: int, length: int, settings: SplitSettings
) -> bool:
    """A string that repeats in the source is never cut out, and in the target only where that is asked for."""
    return not _occurs_again(source[start:end], source, start) and (
        settings.repeated_targets or not _occurs_again(target[place : place + length], target, place)
    )


def _outer(source: Labels, target: Labels, start: int, end: int, place: int, length: int) -> LabelRule | None:
    """What is left of the rule when the pair is cut out."""
    left = (*source[:start], NEW_LEAF, *source[end:])
    return rule_of_leaves(left, _replaced(target, target[place : place + length]))


def _inner(source: Labels, target: Labels, start: int, end: int, place: int, length: int) -> LabelRule | None:
    """The pair itself as a rule."""
    return rule_of_leaves(source[start:end], target[place : place + length])


def _occurs_again(part: Labels, whole: Labels, place: int) -> bool:
    """Whether `part`, which stands at `place`, stands elsewhere too."""
    length = len(part)
    return any(whole[start : start + length] == part for start in range(len(whole) - length + 1) if start != place)


def _replaced(target: Labels, part: Labels) -> list[int]:
    """`target` with a new non-terminal for every occurrence of `part`, from left to right."""
    labels: list[int] = []
    at, length = 0, len(part)
    while at < len(target):
        here = target[at : at + length] == part
        labels.append(NEW_LEAF if here else target[at])
        at += length if here else 1
    return labels


def _is_allowed(rule: LabelRule, settings: SplitSettings) -> bool:
    return (
        rule.arity <= settings.max_non_terminals
        and len(rule.source) > rule.arity * (len(rule.source) == 1)
        and all(_is_balanced(side, *pair) for side in rule for pair in settings.brackets)
    )


def _is_balanced(labels: Labels, opening: int, closing: int) -> bool:
    depth = 0
    for label in labels:
        depth += (label == opening) - (label == closing)
        if depth < 0:
            return False
    return depth == 0
