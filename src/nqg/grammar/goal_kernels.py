"""Goal graphs: of all derivations of a source, those that yield one given target.

The chart of the source is refined from the bottom up: every choice (a span) becomes one choice for each part of the
target that the span can yield. A part is named by its first occurrence in the target and its length, so equal strings
have equal names and repeated non-terminals need no special case. Whether a rule's target with its children's parts
filled in is again a part of the target is decided by laying it over the target at every place where it could begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.chart_kernels import NOTHING, Graphs, Longs, numbered
from nqg.grammar.compiled import inlined, unmanaged_kernel
from nqg.grammar.encoding import LEAF, GrammarArrays
from nqg.grammar.trie import Integers

GOALS, APPLICATIONS, OUT_OF_ROOM = range(3)  # what GoalWorkspace.used counts


class GoalWorkspace(NamedTuple):
    """Scratch arrays for one (source, target) pair, used again for the next."""

    used: Longs
    first_goal: Integers  # per choice of the chart: its goals begin at
    owners: Integers  # per goal: choice of the chart
    places: Integers  # per goal: where its part of the target begins
    lengths: Integers  # per goal: how long that part is
    goal_at: Integers  # per place in the target: newest goal of the current choice that begins there
    older_goal: Integers  # per goal: the one before it at the same place
    picked: Integers  # (K,) goals picked for the children of the current application
    choices: Integers  # (K,) those children
    heads: Integers  # per application: the goal it yields
    rules: Integers  # per application
    children: Integers  # (applications, K)
    kept: Integers  # per goal: its number after pruning, or NOTHING
    order: Longs  # per goal: where its next application is written


def goal_workspace(most_choices: int, longest_target: int, max_arity: int, room: int) -> GoalWorkspace:
    """Scratch arrays with `room` for goals and applications."""

    def ints(*shape: int) -> Integers:
        return np.empty(shape, dtype=np.int32)

    return GoalWorkspace(
        used=np.zeros(3, dtype=np.int64),
        first_goal=ints(most_choices + 1),
        owners=ints(room),
        places=ints(room),
        lengths=ints(room),
        goal_at=np.full(longest_target + 1, NOTHING, dtype=np.int32),
        older_goal=ints(room),
        picked=ints(max_arity),
        choices=ints(max_arity),
        heads=ints(room),
        rules=ints(room),
        children=ints(room, max_arity),
        kept=ints(room),
        order=np.empty(room + 1, dtype=np.int64),
    )


@inlined
def yield_length(rule: int, grammar: GrammarArrays, work: GoalWorkspace) -> int:
    """How long the rule's target is with the picked parts filled in."""
    length = 0
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        length += 1 if symbol >= 0 else work.lengths[work.picked[-symbol - 1]]
    return length


@inlined
def _lies_at(place: int, rule: int, target: Integers, grammar: GrammarArrays, work: GoalWorkspace) -> bool:
    """Whether the rule's target, with the picked parts filled in, reads exactly as `target` from `place` on."""
    for at in range(grammar.first_target[rule], grammar.first_target[rule + 1]):
        symbol = grammar.targets[at]
        if symbol >= 0:
            if target[place] != symbol:
                return False
            place += 1
            continue
        goal = work.picked[-symbol - 1]
        part, length = work.places[goal], work.lengths[goal]
        if part != place:
            for offset in range(length):
                if target[part + offset] != target[place + offset]:
                    return False
        place += length
    return True


@inlined
def first_place(rule: int, length: int, target: Integers, grammar: GrammarArrays, work: GoalWorkspace) -> int:
    """Where in `target` the rule's yield occurs first, or NOTHING."""
    for place in range(len(target) - length + 1):
        if _lies_at(place, rule, target, grammar, work):
            return place
    return NOTHING


@inlined
def goal_of(choice: int, place: int, length: int, work: GoalWorkspace) -> int:
    """The goal of this choice for that part of the target, made if it is new; NOTHING when room ran out."""
    goal: int = work.goal_at[place]
    while goal != NOTHING and work.lengths[goal] != length:
        goal = work.older_goal[goal]
    if goal == NOTHING:
        goal = work.used[GOALS]
        if goal == len(work.places):
            work.used[OUT_OF_ROOM] = 1
            return NOTHING
        work.owners[goal], work.places[goal], work.lengths[goal] = choice, place, length
        work.older_goal[goal] = work.goal_at[place]
        work.goal_at[place] = goal
        work.used[GOALS] += 1
    return goal


@inlined
def _add(
    choice: int, rule: int, arity: int, whole: bool, target: Integers, grammar: GrammarArrays, work: GoalWorkspace
) -> None:
    """Add the application of `rule` to the picked goals if it yields a part of the target (at the root: all of it)."""
    length = yield_length(rule, grammar, work)
    if length > len(target) or (whole and length < len(target)):
        return
    place = first_place(rule, length, target, grammar, work)
    if place == NOTHING:
        return
    _record(choice, place, length, rule, arity, work)


@inlined
def _add_leaf(choice: int, leaf: int, target: Integers, work: GoalWorkspace) -> None:
    """A leaf yields itself, wherever it stands first in the target."""
    for place in range(len(target)):
        if target[place] == leaf:
            _record(choice, place, 1, leaf, 0, work)
            return


@inlined
def _record(choice: int, place: int, length: int, rule: int, arity: int, work: GoalWorkspace) -> None:
    """Add an application that yields that part of the target over the picked goals."""
    goal, application = goal_of(choice, place, length, work), work.used[APPLICATIONS]
    if goal == NOTHING or application == len(work.rules):
        work.used[OUT_OF_ROOM] = 1
        return
    work.heads[application], work.rules[application] = goal, rule
    for at in range(work.children.shape[1]):
        work.children[application, at] = work.picked[at] if at < arity else NOTHING
    work.used[APPLICATIONS] += 1


@inlined
def _refine(
    choice: int,
    application: int,
    whole: bool,
    first_choice: int,
    target: Integers,
    grammar: GrammarArrays,
    charts: Graphs,
    work: GoalWorkspace,
) -> None:
    """Try `application` of the chart with every combination of its children's goals."""
    rule = charts.rules[application]
    if rule <= LEAF:
        _add_leaf(choice, rule, target, work)
        return
    arity = grammar.arities[rule]
    for at in range(arity):
        work.choices[at] = charts.children[application, at] - first_choice
    more = pick_first(arity, work)
    while more and not work.used[OUT_OF_ROOM]:
        _add(choice, rule, arity, whole, target, grammar, work)
        more = pick_next(arity, work)


@inlined
def pick_first(arity: int, work: GoalWorkspace) -> bool:
    """Pick the first goal of each of `choices`, but for those that are NOTHING; whether all have one."""
    for at in range(arity):
        choice = work.choices[at]
        if choice != NOTHING:
            work.picked[at] = work.first_goal[choice]
            if work.first_goal[choice] == work.first_goal[choice + 1]:
                return False
    return True


@inlined
def pick_next(arity: int, work: GoalWorkspace) -> bool:
    """Pick the next combination of goals, the last choice's changing fastest; whether there is one."""
    for at in range(arity - 1, -1, -1):
        choice = work.choices[at]
        if choice != NOTHING:
            work.picked[at] += 1
            if work.picked[at] < work.first_goal[choice + 1]:
                return True
            work.picked[at] = work.first_goal[choice]
    return False


@inlined
def find_goals(
    sentence: int, target: Integers, rooted: bool, grammar: GrammarArrays, charts: Graphs, work: GoalWorkspace
) -> bool:
    """Fill the workspace with all goals of one pair; False when its room ran out.

    Where the charts are `rooted` (pruned), the last choice covers the source, and only the whole target will do for it.
    """
    work.used[:] = 0
    first, last = charts.first_choice[sentence], charts.first_choice[sentence + 1]
    for choice in range(last - first):
        begin = work.used[GOALS]
        work.first_goal[choice] = begin
        whole = rooted and choice == last - first - 1
        for application in range(
            charts.first_application[first + choice], charts.first_application[first + choice + 1]
        ):
            _refine(choice, application, whole, first, target, grammar, charts, work)
        for goal in range(begin, work.used[GOALS]):
            work.goal_at[work.places[goal]] = NOTHING
        work.first_goal[choice + 1] = work.used[GOALS]
        if work.used[OUT_OF_ROOM]:
            return False
    return True


@inlined
def _keep_reachable_goals(first_root: int, work: GoalWorkspace) -> int:
    """Number the goals that the root leads to; applications run from the last to the first, parents before children."""
    goals = work.used[GOALS]
    work.kept[:goals] = NOTHING
    if first_root == goals:
        return 0
    work.kept[goals - 1] = 0
    for application in range(work.used[APPLICATIONS] - 1, -1, -1):
        if work.kept[work.heads[application]] != NOTHING:
            for child in work.children[application]:
                if child != NOTHING:
                    work.kept[child] = 0
    return numbered(work.kept[:goals])


@inlined
def _emit_goals(first_choice: int, kept: int, charts: Graphs, work: GoalWorkspace, out: Graphs) -> bool:
    """Append the kept goals and their applications, grouped by goal, to `out`; False where they do not fit."""
    base = out.sizes[1]
    if base + kept > len(out.starts) or out.sizes[2] + work.used[APPLICATIONS] > len(out.rules):
        return False
    _make_way(base, kept, work, out)
    for application in range(work.used[APPLICATIONS]):
        head = work.kept[work.heads[application]]
        if head != NOTHING:
            _emit_goal_application(application, head, base, work, out)
    for goal in range(work.used[GOALS]):
        if work.kept[goal] != NOTHING:
            at, choice = base + work.kept[goal], first_choice + work.owners[goal]
            out.starts[at], out.ends[at] = charts.starts[choice], charts.ends[choice]
            out.target_starts[at], out.target_lengths[at] = work.places[goal], work.lengths[goal]
    out.sizes[1] += kept
    return True


@inlined
def _make_way(base: int, kept: int, work: GoalWorkspace, out: Graphs) -> None:
    """Count each kept goal's applications and set where they will be written."""
    work.order[:kept] = 0
    for application in range(work.used[APPLICATIONS]):
        head = work.kept[work.heads[application]]
        if head != NOTHING:
            work.order[head] += 1
    for goal in range(kept):
        count = work.order[goal]
        work.order[goal] = out.sizes[2]
        out.sizes[2] += count
        out.first_application[base + goal + 1] = out.sizes[2]


@inlined
def _emit_goal_application(application: int, head: int, base: int, work: GoalWorkspace, out: Graphs) -> None:
    at = work.order[head]
    out.rules[at] = work.rules[application]
    for position in range(out.children.shape[1]):
        child = work.children[application, position]
        out.children[at, position] = NOTHING if child == NOTHING else work.kept[child] + base
    work.order[head] += 1


@unmanaged_kernel
def fill_goals(
    first_token: Integers,
    tokens: Integers,
    begin: int,
    grammar: GrammarArrays,
    charts: Graphs,
    work: GoalWorkspace,
    out: Graphs,
) -> int:
    """Goal graphs of the pairs from `begin` on into `out`; returns the first one that did not fit, or their number.

    `charts` are the pruned charts of the sources, `tokens` the targets end to end.
    """
    for sentence in range(begin, len(first_token) - 1):
        target = tokens[first_token[sentence] : first_token[sentence + 1]]
        first, last = charts.first_choice[sentence], charts.first_choice[sentence + 1]
        if first < last:
            if not find_goals(sentence, target, True, grammar, charts, work):
                return sentence
            kept = _keep_reachable_goals(work.first_goal[last - first - 1], work)
            if not _emit_goals(first, kept, charts, work, out):
                return sentence
        out.sizes[0] += 1
        out.first_choice[out.sizes[0]] = out.sizes[1]
    return len(first_token) - 1
