"""GECA's recombined pairs on SCAN: how many there are, how many are right by SCAN's own grammar, and the CPU time.

python benchmarks/recombination.py --mirror ../shared/data
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from nqg.data.catalogue import load_dataset
from nqg.data.scan import scan_examples
from nqg.induction.recombination import recombined

SPLITS = ("jump", "turn-left", "around-right", "length", "mcd1", "mcd2", "mcd3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, help="folder of the datasets; without it they are downloaded")
    parser.add_argument("--count", type=int, default=20_000, help="pairs to draw")
    asked = parser.parse_args()
    dataset, truth = load_dataset("scan", asked.mirror), {(each.source, each.target) for each in scan_examples()}
    print(f"{'split':<14}{'pairs':>8}{'right':>8}{'CPU s':>8}")
    for split in SPLITS:
        train = dataset.positions(split).parts(dataset.examples).train
        begin = time.process_time()
        pairs = recombined(train, asked.count)
        seconds = time.process_time() - begin
        right = sum((pair.source, pair.target) in truth for pair in pairs)
        print(f"{split:<14}{len(pairs):>8,}{right:>8,}{seconds:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
