"""Kill commands of nqg at random moments, run them again, and compare what they write with an undisturbed run.

    python benchmarks/kills.py --kills 50
    python benchmarks/kills.py --work train --kills 50 --seed 1

Half of the moments are right before a change of a file, the others at any time; a command is killed one to five times
before it may end. The exit code is 1 where a result differs, or a command fails.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from faults.kills import (
    Results,
    Work,
    killed_again_and_again,
    random_moments,
    undisturbed,
)
from faults.works import works


def differences(found: Results, expected: Results) -> list[str]:
    return sorted(
        name
        for name in found.keys() | expected.keys()
        if found.get(name) != expected.get(name)
    )


def torment(
    name: str, work: Work, kills: int, rng: random.Random, folder: Path
) -> bool:
    """Kill a command so many times; whether all results were the same."""
    begun = time.perf_counter()
    reference, expected = undisturbed(work, folder / "undisturbed")
    moments, struck, rounds = random_moments(reference, rng), 0, 0
    while struck < kills:
        rounds += 1
        some = list(islice(moments, rng.randint(1, 5)))
        more, found = killed_again_and_again(work, folder / f"round-{rounds}", some)
        struck += more
        if differing := differences(found, expected):
            print(
                f"{name}: after {some} these files differ: {', '.join(differing)}",
                flush=True,
            )
            return False
    taken = time.perf_counter() - begun
    print(
        f"{name}: {struck} kills in {rounds} runs, {len(expected)} files the same each time, {taken:.0f} s",
        flush=True,
    )
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--work",
        action="append",
        help="induce, split, prepare, train, reproduce; default: all",
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        all_works = works(Path(folder) / "cache")
        same = []
        for name in asked.work or all_works:
            place = Path(folder) / name
            place.mkdir()
            same.append(
                torment(
                    name,
                    all_works[name],
                    asked.kills,
                    random.Random(f"{name} {asked.seed}"),
                    place,
                )
            )
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
