"""The searches behind TMCD splits: arrangements of examples in train and test, improved by swaps.

Atoms and compounds of all examples become numbers (`Bags`), are counted on both sides of a split
(`Tally`), and how far the two sides lie apart (Keysers et al., 2020) is worked out anew for every
swap that is weighed, millions of times: in compiled code. A swap changes a tally in place. Train
holds every atom from the start of a search to its end.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError, SettingsError, counted
from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.compilation import compile_kernels, kernel
from nqg.grammar.ragged import offsets_from_lengths
from nqg.progress import Progress, silent
from nqg.splits.compounds import Decomposition
from nqg.splits.partition import Sizes
from nqg.splits.tmcd import DEFAULT_SETTINGS, Goal, Method, TmcdSettings

# The weights of train in the two divergences, as Keysers et al. chose them: little for compounds,
# because what matters is whether train has a compound of test at all, and half for atoms.
COMPOUND_ALPHA, ATOM_ALPHA = 0.1, 0.5
NO_FEATURE = np.iinfo(np.int32).max


class Bags(NamedTuple):
    """The features of every example, with their counts.

    Those of example e are `ids[starts[e]:starts[e + 1]]`, ascending. `sizes` has the occurrences of
    all features in each example, `width` the number of different features (F).
    """

    starts: Int64Array
    ids: Int32Array
    counts: Int32Array
    sizes: Int64Array
    width: int

    def row(self, example: int) -> list[int]:
        row: list[int] = self.ids[
            self.starts[example] : self.starts[example + 1]
        ].tolist()
        return row

    def totals(self, positions: Int64Array) -> Int64Array:
        """How often each feature occurs in the examples at `positions`, which may repeat."""
        times = np.bincount(positions, minlength=len(self.sizes))
        weights = self.counts * np.repeat(times, np.diff(self.starts))
        return np.bincount(self.ids, weights, minlength=self.width).astype(np.int64)


class Decomposed(NamedTuple):
    """The atoms and compounds of every example."""

    atoms: Bags
    compounds: Bags


def decomposed(examples: Sequence[Example], decomposition: Decomposition) -> Decomposed:
    """Every target taken apart, each different one once; the error names a target that
    cannot be.
    """

    def counters(features: Callable[[str], Counter[str]]) -> Iterator[Counter[str]]:
        by_target: dict[str, Counter[str]] = {}
        for number, example in enumerate(examples, start=1):
            target = example.target
            if target not in by_target:
                try:
                    by_target[target] = features(target)
                except FormatError as error:
                    reason = (
                        f"the target of example {number}, '{target}': {error.reason}"
                    )
                    raise FormatError(reason) from error
            yield by_target[target]

    return Decomposed(*(bags(counters(features)) for features in decomposition))


def bags(counters: Iterable[Counter[str]]) -> Bags:
    """Counted features with an integer for each, in the order of their first appearance."""
    vocabulary: dict[str, int] = {}
    lengths, sizes, ids, counts = array("q"), array("q"), array("i"), array("i")
    for counter in counters:
        for feature in counter:
            vocabulary.setdefault(feature, len(vocabulary))
        # Rows ascend, because the kernels merge them.
        for feature in sorted(counter, key=vocabulary.__getitem__):
            ids.append(vocabulary[feature])
            counts.append(counter[feature])
        lengths.append(len(counter))
        sizes.append(counter.total())
    starts = offsets_from_lengths(lengths)
    columns = (
        np.array(ids, np.int32),
        np.array(counts, np.int32),
        np.array(sizes, np.int64),
    )
    return Bags(starts, *columns, width=len(vocabulary))


class Tally(NamedTuple):
    """Feature counts on both sides of a split, with every power that their divergence can need.

    `train` and `test` count each feature, `totals` all features of either side. `overlap` has one
    number: the sum of train ** alpha * test ** (1 - alpha) over all features.
    """

    bags: Bags
    train: Int64Array
    test: Int64Array
    totals: Int64Array
    overlap: FloatArray
    train_powers: FloatArray
    test_powers: FloatArray
    alpha: float


class SwapOutcome(NamedTuple):
    overlap: float
    divergence: float


def tally(bags: Bags, train: Int64Array, test: Int64Array, alpha: float) -> Tally:
    """The features of the examples `train` and `test` counted, ready for swaps."""
    in_train, in_test = bags.totals(train), bags.totals(test)
    # Swaps move counts between the sides, so none ever exceeds the sum of both.
    counts = np.arange((in_train + in_test).max(initial=0) + 1, dtype=np.float64)
    powers = counts**alpha, counts ** (1 - alpha)
    totals = np.array([in_train.sum(), in_test.sum()])
    result = Tally(bags, in_train, in_test, totals, np.zeros(1), *powers, alpha)
    refresh(result)
    return result


@kernel
def refresh(tally: Tally) -> None:
    """Add the overlap up anew, so that millions of swaps leave no rounding error in it."""
    overlap = 0.0
    for in_train, in_test in zip(tally.train, tally.test):
        overlap += tally.train_powers[in_train] * tally.test_powers[in_test]
    tally.overlap[0] = overlap


@kernel
def tallied_divergence(tally: Tally) -> float:
    return divergence_of(tally, tally.overlap[0], 0)


@kernel
def divergence_of(tally: Tally, overlap: float, gain: int) -> float:
    """One minus the Chernoff coefficient of the counts, once train has `gain` more of test's.

    The coefficient is the sum over k of p_k ** alpha * q_k ** (1 - alpha) of normalised counts. The
    divergence is 0 where counts are proportional or a side counts nothing, 1 if nothing is shared.
    """
    train_total, test_total = tally.totals[0] + gain, tally.totals[1] - gain
    if train_total == 0 or test_total == 0:
        return 0.0
    alpha = tally.alpha
    scale = math.exp(
        alpha * math.log(train_total) + (1.0 - alpha) * math.log(test_total)
    )
    # Rounding can carry equal counts below 0.
    return max(0.0, 1.0 - overlap / scale)


@kernel
def overlap_change(tally: Tally, leaving: int, entering: int) -> float:
    """By how much the overlap grows if `leaving` goes from train to test, `entering` back."""
    starts, ids, counts, _, _ = tally.bags
    here, there = starts[leaving], starts[entering]
    end_here, end_there = starts[leaving + 1], starts[entering + 1]
    change = 0.0
    # Both rows are ascending: merge them.
    while here < end_here or there < end_there:
        feature_here = ids[here] if here < end_here else NO_FEATURE
        feature_there = ids[there] if there < end_there else NO_FEATURE
        feature, gain = min(feature_here, feature_there), 0
        if feature_here == feature:
            gain -= counts[here]
            here += 1
        if feature_there == feature:
            gain += counts[there]
            there += 1
        if gain != 0:
            train, test = tally.train[feature], tally.test[feature]
            before = tally.train_powers[train] * tally.test_powers[test]
            after = tally.train_powers[train + gain] * tally.test_powers[test - gain]
            change += after - before
    return change


@kernel
def outcome_of_swap(tally: Tally, leaving: int, entering: int) -> SwapOutcome:
    """Overlap and divergence after a swap that is not made yet."""
    overlap = tally.overlap[0] + overlap_change(tally, leaving, entering)
    gain = tally.bags.sizes[entering] - tally.bags.sizes[leaving]
    return SwapOutcome(overlap, divergence_of(tally, overlap, gain))


@kernel
def removes_last_atom(tally: Tally, leaving: int, entering: int) -> bool:
    """Whether a swap would take the last occurrence of some feature out of train."""
    starts, ids, counts, _, _ = tally.bags
    there = starts[entering]
    for here in range(starts[leaving], starts[leaving + 1]):
        # All that train has of the feature is in the example that leaves.
        if tally.train[ids[here]] == counts[here]:
            while there < starts[entering + 1] and ids[there] < ids[here]:
                there += 1
            if there == starts[entering + 1] or ids[there] != ids[here]:
                return True
    return False


@kernel
def swap(tally: Tally, leaving: int, entering: int, overlap: float) -> None:
    """Make a swap, whose overlap was weighed before."""
    starts, ids, counts, sizes, _ = tally.bags
    for example, direction in ((leaving, -1), (entering, 1)):
        for at in range(starts[example], starts[example + 1]):
            tally.train[ids[at]] += direction * counts[at]
            tally.test[ids[at]] -= direction * counts[at]
    gain = sizes[entering] - sizes[leaving]
    tally.totals[0] += gain
    tally.totals[1] -= gain
    tally.overlap[0] = overlap


class Arrangement(NamedTuple):
    """The examples on both sides, by position, with their compounds and atoms counted."""

    train: Int64Array
    test: Int64Array
    compounds: Tally
    atoms: Tally


def arrangement(data: Decomposed, train: Int64Array, test: Int64Array) -> Arrangement:
    compounds = tally(data.compounds, train, test, COMPOUND_ALPHA)
    return Arrangement(
        train, test, compounds, tally(data.atoms, train, test, ATOM_ALPHA)
    )


@kernel
def gap(arrangement: Arrangement, goal: Goal) -> float:
    return abs(goal.aim - tallied_divergence(arrangement.compounds))


def objective(arrangement: Arrangement, goal: Goal) -> tuple[float, float]:
    """What is wrong with an arrangement: first atoms beyond their bound, then the gap."""
    return max(tallied_divergence(arrangement.atoms) - goal.atom_bound, 0.0), gap(
        arrangement, goal
    )


@kernel
def gap_after_swap(
    arrangement: Arrangement, goal: Goal, train_row: int, test_row: int
) -> float:
    leaving, entering = arrangement.train[train_row], arrangement.test[test_row]
    return abs(
        goal.aim - outcome_of_swap(arrangement.compounds, leaving, entering).divergence
    )


@kernel
def swap_if_legal(
    arrangement: Arrangement, goal: Goal, train_row: int, test_row: int
) -> bool:
    """Swap two examples, unless that takes an atom out of train or atoms too far apart.

    Above the bound on atom divergence, swaps that lower it are still welcome.
    """
    train, test, compounds, atoms = arrangement
    leaving, entering = train[train_row], test[test_row]
    if removes_last_atom(atoms, leaving, entering):
        return False
    outcome = outcome_of_swap(atoms, leaving, entering)
    if (
        goal.atom_bound < outcome.divergence
        and tallied_divergence(atoms) <= outcome.divergence
    ):
        return False
    overlap = outcome_of_swap(compounds, leaving, entering).overlap
    swap(compounds, leaving, entering, overlap)
    swap(atoms, leaving, entering, outcome.overlap)
    train[train_row], test[test_row] = entering, leaving
    return True


@kernel
def _random_row(rows: Int64Array, randomness: np.random.Generator) -> int:
    return int(randomness.random() * rows.size)


@kernel
def lower_atom_divergence(
    arrangement: Arrangement, goal: Goal, moves: int, randomness: np.random.Generator
) -> None:
    """Bring the atom divergence under its bound by random swaps, before compounds are looked at."""
    for _ in range(moves):
        if tallied_divergence(arrangement.atoms) <= goal.atom_bound:
            return
        train_row = _random_row(arrangement.train, randomness)
        test_row = _random_row(arrangement.test, randomness)
        swap_if_legal(arrangement, goal, train_row, test_row)


def random_start(data: Decomposed, train_size: int, rng: random.Random) -> Arrangement:
    """A random arrangement with every atom in train; a train set too small for that is refused."""

    def divided(order: Int64Array) -> Arrangement:
        return arrangement(data, order[:train_size].copy(), order[train_size:].copy())

    count = len(data.atoms.sizes)
    order = np.array(rng.sample(range(count), count), dtype=np.int64)
    start = divided(order)
    if not _cover_atoms(start, rng):
        cover = greedy_cover(data.atoms, order)
        if len(cover) > train_size:
            raise SettingsError(
                f"train is to have {counted(train_size, 'example')}, but {len(cover)} were needed "
                f"to hold each of the {data.atoms.width} atoms at least once; make train larger, "
                "or the atoms fewer (blank out rare names)"
            )
        start = divided(np.concatenate([cover, order[~np.isin(order, cover)]]))
    # Covering atoms does not keep count of compounds.
    return arrangement(data, start.train, start.test)


def _cover_atoms(start: Arrangement, rng: random.Random) -> bool:
    """Bring every missing atom into train by a swap that takes no other out.

    Of the test examples that hold the atom a random one comes, for the first after a random one
    that train can spare. False where no such swap is left.
    """
    train, test, _, atoms = start
    holders = defaultdict[int, list[int]](list)
    for row, example in enumerate(test):
        for atom in atoms.bags.row(example):
            if atoms.train[atom] == 0:
                holders[atom].append(row)
    for atom in sorted(holders):
        # A swap for another atom may have brought this one along.
        if atoms.train[atom]:
            continue
        # The rows are still right: a row that was swapped gave train all of its atoms.
        row = rng.choice(holders[atom])
        for train_row in np.roll(range(train.size), -rng.randrange(train.size)):
            leaving, entering = train[train_row], test[row]
            if not removes_last_atom(atoms, leaving, entering):
                # The overlap is not kept here; `random_start` counts everything anew.
                swap(atoms, leaving, entering, 0.0)
                train[train_row], test[row] = entering, leaving
                break
        else:
            return False
    return True


def greedy_cover(atoms: Bags, order: Int64Array) -> Int64Array:
    """Examples that hold all atoms between them, always the one that adds most; ties by `order`."""
    missing = set(range(atoms.width))
    # An example adds at most what it added when it was last looked at (lazy greedy).
    waiting = [(-len(atoms.row(example)), rank) for rank, example in enumerate(order)]
    heapq.heapify(waiting)
    cover = []
    while missing:
        _, rank = heapq.heappop(waiting)
        added = missing.intersection(atoms.row(order[rank]))
        if waiting and (-len(added), rank) > waiting[0]:
            heapq.heappush(waiting, (-len(added), rank))
        else:
            cover.append(order[rank])
            missing -= added
    return np.array(cover, dtype=np.int64)


@kernel
def anneal(
    arrangement: Arrangement,
    goal: Goal,
    temperature: float,
    moves: int,
    randomness: np.random.Generator,
) -> None:
    """Weigh random swaps; one that widens the gap is made if it widens it less than an allowance.

    The allowance is exponential with mean `temperature`: Metropolis's rule. Stops early once the
    goal is met.
    """
    now = gap(arrangement, goal)
    for _ in range(moves):
        if now <= goal.tolerance:
            return
        train_row = _random_row(arrangement.train, randomness)
        test_row = _random_row(arrangement.test, randomness)
        # The generator never returns 1, so the logarithm is finite.
        allowance = -temperature * math.log(1.0 - randomness.random())
        after = gap_after_swap(arrangement, goal, train_row, test_row)
        if after <= now + allowance and swap_if_legal(
            arrangement, goal, train_row, test_row
        ):
            now = after


@kernel
def typical_change(
    arrangement: Arrangement, samples: int, randomness: np.random.Generator
) -> float:
    """The mean change of the compound divergence by a random swap: the scale of temperatures."""
    train, test, compounds, _ = arrangement
    now = tallied_divergence(compounds)
    change = 0.0
    for _ in range(samples):
        leaving = train[_random_row(train, randomness)]
        entering = test[_random_row(test, randomness)]
        change += abs(outcome_of_swap(compounds, leaving, entering).divergence - now)
    return change / samples


# Smaller gains are rounding errors, and swaps for them could be made for ever.
MIN_GAIN = 1e-12


@kernel
def hill_climb(
    arrangement: Arrangement, goal: Goal, cursor: Int64Array, weighings: int
) -> None:
    """Weigh the next pairs; `cursor` has the pair to go on from and how many in a row
    have not helped.
    """
    rows = arrangement.test.size
    pairs = arrangement.train.size * rows
    now = gap(arrangement, goal)
    for _ in range(weighings):
        if cursor[1] == pairs or now <= goal.tolerance:
            return
        # The cursor runs through all pairs, and begins again behind the last.
        train_row, test_row = cursor[0] // rows, cursor[0] % rows
        cursor[0] = (cursor[0] + 1) % pairs
        cursor[1] += 1
        after = gap_after_swap(arrangement, goal, train_row, test_row)
        if after < now - MIN_GAIN and swap_if_legal(
            arrangement, goal, train_row, test_row
        ):
            now = after
            cursor[1] = 0


TEMPERATURE_STEPS = 100
# First and last temperature, in units of the change that a random swap makes at the start. On
# GeoQuery and Spider the divergence rises between 3 and 1 of these units; below 0.2 next to nothing
# moves. benchmarks/splits.py shows what the search reaches, not the curve.
HOT, COLD = 3.0, 0.2
# Swaps that the unit of temperature is measured on.
SAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be divided, how many examples train gets, and what makes a division good."""

    data: Decomposed
    train_size: int
    goal: Goal


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take: swaps weighed in one annealing, annealings, and seconds."""

    moves: int
    restarts: float = math.inf
    seconds: float = math.inf


Clock = Callable[[], float]
# Called with the share of the budget that is spent, the start that the search is on, and where it
# is.
Report = Callable[[float, int, Arrangement], None]


def greedy_search(
    problem: Problem,
    budget: Budget,
    rng: random.Random,
    report: Report,
    clock: Clock = time.monotonic,
) -> Arrangement:
    """The search of the paper: one random start, then swaps that help until none is left."""
    deadline = clock() + budget.seconds
    current = _start(problem, budget, rng)
    pairs = current.train.size * current.test.size
    for unhelpful in _hill_climbing(current, problem.goal, pairs // 10 + 1):
        report(unhelpful / pairs, 1, current)
        if clock() >= deadline:
            break
    return current


def annealing_search(
    problem: Problem,
    budget: Budget,
    rng: random.Random,
    report: Report,
    clock: Clock = time.monotonic,
) -> Arrangement:
    """Annealings from several random starts; the best of them is then climbed from.

    A temperature falls evenly, or faster where time runs short. An annealing ends early where the
    goal is met.
    """
    goal, begun = problem.goal, clock()
    deadline = begun + budget.seconds
    best = current = _start(problem, budget, rng)
    for start in itertools.count(1):
        # One annealing.
        randomness = np.random.default_rng(rng.getrandbits(64))
        unit = typical_change(current, SAMPLES, randomness)
        heated = clock()
        for step in range(TEMPERATURE_STEPS):
            late = (clock() - heated) / max(deadline - heated, 1e-9)
            share = max(step / TEMPERATURE_STEPS, late)
            if share >= 1:
                break
            temperature = unit * HOT * (COLD / HOT) ** share
            anneal(
                current,
                goal,
                temperature,
                budget.moves // TEMPERATURE_STEPS + 1,
                randomness,
            )
            refresh(current.compounds)
            refresh(current.atoms)
            spent = max(
                (start - 1 + share) / budget.restarts,
                (clock() - begun) / budget.seconds,
            )
            report(min(spent, 1.0), start, current)
            if gap(current, goal) <= goal.tolerance:
                break
        # The best so far; another start if there is time.
        best = min(best, current, key=lambda candidate: objective(candidate, goal))
        if (
            start >= budget.restarts
            or clock() >= deadline
            or gap(best, goal) <= goal.tolerance
        ):
            break
        current = _start(problem, budget, rng)
    # The last climb weighs about as many swaps as one annealing, at most.
    for _ in itertools.islice(_hill_climbing(best, goal, budget.moves // 10 + 1), 10):
        report(1.0, start, best)
        if clock() >= deadline:
            break
    return best


def _start(problem: Problem, budget: Budget, rng: random.Random) -> Arrangement:
    start = random_start(problem.data, problem.train_size, rng)
    randomness = np.random.default_rng(rng.getrandbits(64))
    lower_atom_divergence(start, problem.goal, budget.moves, randomness)
    return start


def _hill_climbing(current: Arrangement, goal: Goal, weighings: int) -> Iterator[int]:
    """Climb until no swap helps; yields how many pairs in a row did not, every so many
    weighings.
    """
    cursor = np.zeros(2, dtype=np.int64)
    pairs = current.train.size * current.test.size
    while cursor[1] < pairs and gap(current, goal) > goal.tolerance:
        hill_climb(current, goal, cursor, weighings)
        refresh(current.compounds)
        refresh(current.atoms)
        yield int(cursor[1])


# Small datasets have many local optima; one annealing of a large one is enough. Chosen on GeoQuery
# and Spider; benchmarks/splits.py shows what they give.
MOVES_PER_EXAMPLE = 1_000
USUAL_MOVES = 25_000_000
MAX_RESTARTS = 15
# A bound of work: dev sets to choose from, which leave test parts nearer to the goal or farther.
DRAWS_WITH_DEV = 100


def usual_budget(settings: TmcdSettings, examples: int) -> Budget:
    """How long to search in a dataset of so many examples, where the settings leave it open."""
    moves = settings.moves or MOVES_PER_EXAMPLE * examples
    restarts: float = min(max(USUAL_MOVES // moves, 1), MAX_RESTARTS)
    if settings.seconds is not None:
        restarts = math.inf
    return Budget(moves, settings.restarts or restarts, settings.seconds or math.inf)


def tmcd_search(
    data: Decomposed,
    sizes: Sizes,
    rng: random.Random,
    settings: TmcdSettings = DEFAULT_SETTINGS,
    progress: Progress = silent,
) -> Split:
    """A TMCD split.

    With a dev part the goal holds for train and all that is held out, and nearly for train and
    test: of some random dev sets the one is taken with which test alone comes nearest to the goal.
    """

    def report(spent: float, start: int, current: Arrangement) -> None:
        divergence = tallied_divergence(current.compounds)
        progress(
            f"start {start}: compound divergence {divergence:.3f}",
            int(100 * spent),
            100,
        )

    compile_kernels()
    sizes.check(len(data.atoms.sizes))
    goal = settings.goal
    search = greedy_search if settings.method is Method.GREEDY else annealing_search
    problem = Problem(data, sizes.train, goal)
    best = search(problem, usual_budget(settings, sizes.total), rng, report)
    _check_goal(best, settings)

    # Divide what is held out into dev and test.
    held_out = sorted(best.test.tolist())

    def without(dev: list[int]) -> Arrangement:
        return arrangement(data, best.train, np.setdiff1d(held_out, dev))

    draws = DRAWS_WITH_DEV if sizes.dev else 1
    devs = [sorted(rng.sample(held_out, sizes.dev)) for _ in range(draws)]
    dev = min(devs, key=lambda dev: objective(without(dev), goal))
    reached = without(dev)
    made_by: dict[str, str | int | float] = {
        "method": "tmcd",
        "search": str(settings.method),
    }
    for name, value in asdict(settings).items():
        is_idle = name == "tolerance" and settings.target_divergence is None
        if name != "method" and value is not None and not is_idle:
            made_by[name] = value
    made_by["compound_divergence"] = round(tallied_divergence(reached.compounds), 6)
    made_by["atom_divergence"] = round(tallied_divergence(reached.atoms), 6)
    train, test = np.sort(best.train).tolist(), reached.test.tolist()
    return Split(tuple(train), tuple(test), tuple(dev), made_by)


def _check_goal(best: Arrangement, settings: TmcdSettings) -> None:
    """Refuse an arrangement that misses what the settings ask for."""
    goal, atoms = settings.goal, tallied_divergence(best.atoms)
    if atoms > goal.atom_bound:
        raise NqgError(
            f"no split with an atom divergence of at most {goal.atom_bound} was found, "
            f"the nearest has {atoms:.4f}; allow more, or search longer"
        )
    if settings.target_divergence is not None and gap(best, goal) > settings.tolerance:
        raise NqgError(
            f"no split with a compound divergence of {goal.aim} was found, the nearest has "
            f"{tallied_divergence(best.compounds):.4f}; ask for one nearer to that, or search longer"
        )
