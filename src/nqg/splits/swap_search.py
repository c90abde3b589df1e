"""The searches behind TMCD splits: arrangements of examples in train and test, improved by swaps.

Atoms and compounds are counted on both sides, and how far the two lie apart (Keysers et al., 2020) is worked out anew
for every swap that is weighed, millions of times: in compiled code.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from nqg.data.dataset import Split
from nqg.errors import NqgError, SettingsError, counted
from nqg.grammar.arrays import FloatArray, Int64Array, kernel
from nqg.splits.divergence import Bags, Decomposed
from nqg.splits.partition import Sizes
from nqg.splits.tmcd import DEFAULT_SETTINGS, Goal, Method, TmcdSettings

COMPOUND_ALPHA = (
    0.1  # little weight on train: what matters is whether a test compound occurs there at all
)
ATOM_ALPHA = 0.5  # equal weights: atoms should be about as frequent on both sides
NO_FEATURE = np.iinfo(np.int32).max


class Tally(NamedTuple):
    """Feature counts on both sides of a split, with every power that their divergence can need."""

    bags: Bags
    train: Int64Array  # (F,)
    test: Int64Array  # (F,)
    totals: Int64Array  # (2,): occurrences of all features in train, in test
    overlap: FloatArray  # (1,)
    train_powers: FloatArray  # count ** alpha
    test_powers: FloatArray  # count ** (1 - alpha)
    alpha: float


class SwapOutcome(NamedTuple):
    overlap: float
    divergence: float


def tally(bags: Bags, train: Int64Array, test: Int64Array, alpha: float) -> Tally:
    """The features of the examples `train` and `test` counted, ready for swaps."""
    in_train, in_test = bags.totals(train), bags.totals(test)
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
    return divergence_of(tally.overlap[0], tally.totals[0], tally.totals[1], tally.alpha)


@kernel
def divergence_of(overlap: float, train_total: int, test_total: int, alpha: float) -> float:
    """One minus the Chernoff coefficient, the sum over k of p_k ** alpha * q_k ** (1 - alpha) of normalised counts.

    It is 0 where the counts are proportional or a side counts nothing, and 1 where they share nothing.
    """
    if train_total == 0 or test_total == 0:
        return 0.0
    scale = math.exp(alpha * math.log(train_total) + (1.0 - alpha) * math.log(test_total))
    return max(0.0, 1.0 - overlap / scale)  # rounding can carry equal counts below 0


@kernel
def overlap_change(tally: Tally, leaving: int, entering: int) -> float:
    """By how much the overlap grows if `leaving` goes from train to test and `entering` comes the other way."""
    ids, counts = tally.bags.ids, tally.bags.counts
    here, there = tally.bags.starts[leaving], tally.bags.starts[entering]
    end_here, end_there = tally.bags.starts[leaving + 1], tally.bags.starts[entering + 1]
    change = 0.0
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
            in_train, in_test = tally.train[feature], tally.test[feature]
            before = tally.train_powers[in_train] * tally.test_powers[in_test]
            change += (
                tally.train_powers[in_train + gain] * tally.test_powers[in_test - gain] - before
            )
    return change


@kernel
def outcome_of_swap(tally: Tally, leaving: int, entering: int) -> SwapOutcome:
    """Overlap and divergence after a swap that is not made yet."""
    overlap = tally.overlap[0] + overlap_change(tally, leaving, entering)
    gain = tally.bags.sizes[entering] - tally.bags.sizes[leaving]
    return SwapOutcome(
        overlap, divergence_of(overlap, tally.totals[0] + gain, tally.totals[1] - gain, tally.alpha)
    )


@kernel
def removes_last_atom(tally: Tally, leaving: int, entering: int) -> bool:
    """Whether a swap would take the last occurrence of some feature out of train."""
    starts, ids, counts, _, _ = tally.bags
    there = starts[entering]
    for here in range(starts[leaving], starts[leaving + 1]):
        if tally.train[ids[here]] == counts[here]:
            while there < starts[entering + 1] and ids[there] < ids[here]:
                there += 1
            if there == starts[entering + 1] or ids[there] != ids[here]:
                return True
    return False


@kernel
def swap(tally: Tally, leaving: int, entering: int, overlap: float) -> None:
    """Make a swap, whose overlap was weighed before."""
    _, ids, counts, sizes, _ = tally.bags
    for example, direction in ((leaving, -1), (entering, 1)):
        for at in range(tally.bags.starts[example], tally.bags.starts[example + 1]):
            tally.train[ids[at]] += direction * counts[at]
            tally.test[ids[at]] -= direction * counts[at]
    gain = sizes[entering] - sizes[leaving]
    tally.totals[0] += gain
    tally.totals[1] -= gain
    tally.overlap[0] = overlap


class Arrangement(NamedTuple):
    """The examples on both sides, by position, with their compounds and atoms counted; swaps change it in place."""

    train: Int64Array
    test: Int64Array
    compounds: Tally
    atoms: Tally


def arrangement(data: Decomposed, train: Int64Array, test: Int64Array) -> Arrangement:
    compounds = tally(data.compounds, train, test, COMPOUND_ALPHA)
    return Arrangement(train, test, compounds, tally(data.atoms, train, test, ATOM_ALPHA))


@kernel
def gap(arrangement: Arrangement, goal: Goal) -> float:
    return abs(goal.aim - tallied_divergence(arrangement.compounds))


def objective(arrangement: Arrangement, goal: Goal) -> tuple[float, float]:
    """What is wrong with an arrangement, to compare several: first atoms beyond their bound, then the gap."""
    return max(tallied_divergence(arrangement.atoms) - goal.atom_bound, 0.0), gap(arrangement, goal)


@kernel
def gap_after_swap(compounds: Tally, goal: Goal, leaving: int, entering: int) -> float:
    return abs(goal.aim - outcome_of_swap(compounds, leaving, entering).divergence)


@kernel
def swap_if_legal(arrangement: Arrangement, goal: Goal, at: int, other: int) -> bool:
    """Swap `train[at]` with `test[other]`, unless that takes an atom out of train or atoms too far apart.

    Above the bound on atom divergence, swaps that lower it are still welcome.
    """
    leaving, entering = arrangement.train[at], arrangement.test[other]
    if removes_last_atom(arrangement.atoms, leaving, entering):
        return False
    atoms = outcome_of_swap(arrangement.atoms, leaving, entering)
    if atoms.divergence > goal.atom_bound and atoms.divergence >= tallied_divergence(
        arrangement.atoms
    ):
        return False
    compounds = outcome_of_swap(arrangement.compounds, leaving, entering)
    swap(arrangement.compounds, leaving, entering, compounds.overlap)
    swap(arrangement.atoms, leaving, entering, atoms.overlap)
    arrangement.train[at], arrangement.test[other] = entering, leaving
    return True


@kernel
def lower_atom_divergence(
    arrangement: Arrangement, goal: Goal, moves: int, randomness: np.random.Generator
) -> None:
    """Bring the atom divergence under its bound by random swaps, before compounds are looked at."""
    for _ in range(moves):
        if tallied_divergence(arrangement.atoms) <= goal.atom_bound:
            return
        at = int(randomness.random() * arrangement.train.size)
        swap_if_legal(arrangement, goal, at, int(randomness.random() * arrangement.test.size))


def random_start(data: Decomposed, train_size: int, rng: random.Random) -> Arrangement:
    """A random arrangement in which every atom occurs in train; a train set too small for that is refused."""
    count = len(data.atoms.sizes)
    order = np.array(rng.sample(range(count), count), dtype=np.int64)
    train, test = order[:train_size].copy(), order[train_size:].copy()
    if not _cover_atoms(arrangement(data, train, test), rng):
        cover = greedy_cover(data.atoms, order)
        if len(cover) > train_size:
            raise SettingsError(
                f"train is to have {counted(train_size, 'example')}, but {len(cover)} were needed to hold each of the "
                f"{data.atoms.width} atoms at least once; make train larger, or the atoms fewer (blank out rare names)"
            )
        order = np.concatenate([cover, order[~np.isin(order, cover)]])
        train, test = order[:train_size].copy(), order[train_size:].copy()
    return arrangement(data, train, test)


def _cover_atoms(start: Arrangement, rng: random.Random) -> bool:
    """Bring every missing atom into train by a swap that takes no other out; false where no such swap is left.

    Of the test examples that hold the atom a random one comes, for the first after a random one that train can spare.
    """
    train, test, _, atoms = start
    holders: dict[int, list[int]] = defaultdict(list)
    for row, example in enumerate(test):
        for atom in atoms.bags.row(example):
            if atoms.train[atom] == 0:
                holders[atom].append(row)
    for atom in sorted(holders):
        if atoms.train[atom]:
            continue
        row = rng.choice(holders[atom])
        first = rng.randrange(train.size)
        for at in chain(range(first, train.size), range(first)):
            if not removes_last_atom(atoms, train[at], test[row]):
                swap(atoms, train[at], test[row], 0.0)
                train[at], test[row] = test[row], train[at]
                break
        else:
            return False
    return True


def greedy_cover(atoms: Bags, order: Int64Array) -> Int64Array:
    """Examples that hold all atoms between them, always the one that adds most; ties go by `order`."""
    missing = set(range(atoms.width))
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
    """Weigh random swaps; one that widens the gap is made if it widens it less than a random allowance.

    The allowance is exponential with mean `temperature`: Metropolis's rule. Stops early once the goal is met.
    """
    now = gap(arrangement, goal)
    for _ in range(moves):
        if now <= goal.tolerance:
            return
        at = int(randomness.random() * arrangement.train.size)
        other = int(randomness.random() * arrangement.test.size)
        allowance = -temperature * math.log(1.0 - randomness.random())
        after = gap_after_swap(
            arrangement.compounds, goal, arrangement.train[at], arrangement.test[other]
        )
        if after <= now + allowance and swap_if_legal(arrangement, goal, at, other):
            now = after


@kernel
def typical_change(
    arrangement: Arrangement, samples: int, randomness: np.random.Generator
) -> float:
    """By how much a random swap changes the compound divergence, on average: the scale of temperatures."""
    here = tallied_divergence(arrangement.compounds)
    change = 0.0
    for _ in range(samples):
        leaving = arrangement.train[int(randomness.random() * arrangement.train.size)]
        entering = arrangement.test[int(randomness.random() * arrangement.test.size)]
        change += abs(outcome_of_swap(arrangement.compounds, leaving, entering).divergence - here)
    return change / samples


LEAST_GAIN = 1e-12  # smaller ones are rounding errors, and could be made for ever


@kernel
def hill_climb(arrangement: Arrangement, goal: Goal, cursor: Int64Array, weighings: int) -> None:
    """Weigh the next pairs; `cursor` keeps the pair to go on from and how many in a row have not helped."""
    pairs = arrangement.train.size * arrangement.test.size
    now = gap(arrangement, goal)
    for _ in range(weighings):
        if cursor[1] == pairs or now <= goal.tolerance:
            return
        at, other = cursor[0] // arrangement.test.size, cursor[0] % arrangement.test.size
        cursor[0] = (cursor[0] + 1) % pairs
        cursor[1] += 1
        after = gap_after_swap(
            arrangement.compounds, goal, arrangement.train[at], arrangement.test[other]
        )
        if after < now - LEAST_GAIN and swap_if_legal(arrangement, goal, at, other):
            now = after
            cursor[1] = 0


Clock = Callable[[], float]
TEMPERATURE_STEPS = 100  # temperatures of one annealing
# First and last temperature, in units of the change that a random swap makes at the start. On GeoQuery and Spider the
# divergence rises between 3 and 1 of these units; below 0.2 next to nothing moves.
HOT, COLD = 3.0, 0.2
SAMPLES = 10_000  # swaps that the unit of temperature is measured on


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be divided, into parts of which size, and what makes a division good."""

    data: Decomposed
    train_size: int
    goal: Goal


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take: swaps weighed in one annealing, annealings, and seconds."""

    moves: int
    restarts: float = math.inf
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Where a search stands: the share of its budget that is spent, the start it is on, the divergence now."""

    done: float
    start: int
    divergence: float


ArrangementSearch = Generator[
    SearchStep, None, Arrangement
]  # which returns the best that was found


def greedy_search(
    problem: Problem, budget: Budget, rng: random.Random, clock: Clock = time.monotonic
) -> ArrangementSearch:
    """The search of the paper: one random start, then swaps that help until none is left."""
    deadline = clock() + budget.seconds
    found = _start(problem, budget, rng)
    pairs = found.train.size * found.test.size
    for unhelpful in _hill_climbing(found, problem.goal, pairs // 10 + 1):
        yield SearchStep(unhelpful / pairs, 1, tallied_divergence(found.compounds))
        if clock() >= deadline:
            break
    return found


def annealing_search(
    problem: Problem, budget: Budget, rng: random.Random, clock: Clock = time.monotonic
) -> ArrangementSearch:
    """Annealings from several random starts; the best of them is then climbed from."""
    goal, begun = problem.goal, clock()
    deadline = begun + budget.seconds
    best = current = _start(problem, budget, rng)
    for start in itertools.count(1):
        for share in _annealing(current, goal, budget, rng, clock, deadline):
            spent = max((start - 1 + share) / budget.restarts, (clock() - begun) / budget.seconds)
            yield SearchStep(min(spent, 1.0), start, tallied_divergence(current.compounds))
        best = min(best, current, key=lambda found: objective(found, goal))
        if start >= budget.restarts or clock() >= deadline or gap(best, goal) <= goal.tolerance:
            break
        current = _start(problem, budget, rng)
    for _ in itertools.islice(_hill_climbing(best, goal, budget.moves // 10 + 1), 10):
        yield SearchStep(1.0, start, tallied_divergence(best.compounds))
        if clock() >= deadline:
            break
    return best


def _start(problem: Problem, budget: Budget, rng: random.Random) -> Arrangement:
    start = random_start(problem.data, problem.train_size, rng)
    lower_atom_divergence(
        start, problem.goal, budget.moves, np.random.default_rng(rng.getrandbits(64))
    )
    return start


def _annealing(
    current: Arrangement,
    goal: Goal,
    budget: Budget,
    rng: random.Random,
    clock: Clock,
    deadline: float,
) -> Iterator[float]:
    """One annealing, which yields how far it has cooled: evenly, or faster where time runs short.

    It ends early where the goal is met.
    """
    randomness = np.random.default_rng(rng.getrandbits(64))
    unit = typical_change(current, SAMPLES, randomness)
    begun = clock()
    for step in range(TEMPERATURE_STEPS):
        share = max(step / TEMPERATURE_STEPS, (clock() - begun) / max(deadline - begun, 1e-9))
        if share >= 1:
            return
        anneal(
            current,
            goal,
            unit * HOT * (COLD / HOT) ** share,
            budget.moves // TEMPERATURE_STEPS + 1,
            randomness,
        )
        refresh(current.compounds)
        refresh(current.atoms)
        yield share
        if gap(current, goal) <= goal.tolerance:
            return


def _hill_climbing(found: Arrangement, goal: Goal, weighings: int) -> Iterator[int]:
    """Climb until no swap helps; yields how many pairs in a row did not, every so many weighings."""
    cursor = np.zeros(2, dtype=np.int64)
    while cursor[1] < found.train.size * found.test.size and gap(found, goal) > goal.tolerance:
        hill_climb(found, goal, cursor, weighings)
        refresh(found.compounds)
        refresh(found.atoms)
        yield int(cursor[1])


MOVES_PER_EXAMPLE = 1_000
USUAL_MOVES = 25_000_000
MOST_RESTARTS = 15  # small datasets have many local optima; one annealing of a large one is enough
DRAWN_SWAPS = 100  # dev sets to choose from


def usual_budget(settings: TmcdSettings, examples: int) -> Budget:
    """How long to search in a dataset of so many examples, where the settings leave it open."""
    moves = settings.moves or MOVES_PER_EXAMPLE * examples
    restarts = (
        min(max(USUAL_MOVES // moves, 1), MOST_RESTARTS) if settings.seconds is None else math.inf
    )
    return Budget(moves, settings.restarts or restarts, settings.seconds or math.inf)


def tmcd_search(
    data: Decomposed, sizes: Sizes, rng: random.Random, settings: TmcdSettings = DEFAULT_SETTINGS
) -> Generator[SearchStep, None, Split]:
    """Steps on the way to a TMCD split, which is the value that the generator returns.

    With a dev part the goal holds for train and all that is held out, and nearly for train and test: of some random
    dev sets the one is taken with which test alone comes nearest to the goal.
    """
    sizes.check(len(data.atoms.sizes))
    search = greedy_search if settings.method is Method.GREEDY else annealing_search
    goal = settings.goal
    found = yield from search(
        Problem(data, sizes.train, goal), usual_budget(settings, sizes.total), rng
    )
    atoms, compounds = tallied_divergence(found.atoms), tallied_divergence(found.compounds)
    if atoms > goal.atom_bound:
        missed = f"no split with an atom divergence of at most {goal.atom_bound} was found"
        raise NqgError(f"{missed}, the nearest has {atoms:.4f}; allow more, or search longer")
    if settings.target_divergence is not None and gap(found, goal) > settings.tolerance:
        missed = f"no split with a compound divergence of {goal.aim} was found"
        raise NqgError(
            f"{missed}, the nearest has {compounds:.4f}; ask for one nearer to that, or search longer"
        )
    held_out = sorted(found.test.tolist())
    draws = [
        sorted(rng.sample(held_out, sizes.dev)) for _ in range(DRAWN_SWAPS if sizes.dev else 1)
    ]
    tests = [np.setdiff1d(held_out, dev) for dev in draws]
    best = min(
        range(len(draws)),
        key=lambda draw: objective(arrangement(data, found.train, tests[draw]), goal),
    )
    train = np.sort(found.train)
    reached = arrangement(data, train, tests[best])
    idle = {"method"} if settings.target_divergence is not None else {"method", "tolerance"}
    made_by = {
        "method": "tmcd",
        "search": str(settings.method),
        **{
            name: value
            for name, value in asdict(settings).items()
            if name not in idle and value is not None
        },
        "compound_divergence": round(tallied_divergence(reached.compounds), 6),
        "atom_divergence": round(tallied_divergence(reached.atoms), 6),
    }
    return Split(tuple(train.tolist()), tuple(tests[best].tolist()), tuple(draws[best]), made_by)
