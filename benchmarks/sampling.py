"""The sampler on folds of training data: draws a second, whether pairs are legal, and how well it foresees other pairs.

Each recipe's grammar is induced from three quarters of its training examples, as `--set held_out=` splits them; the
perplexity of the quarter (source and target together, a token) is printed for several shares of exploration, beside
one of SCAN, in which a word never stands where a similar one does. Legal is what the target grammar accepts when it
parses the programs anew. A grammar that has fewer likely pairs than asked for is drawn from four times as often.

    python benchmarks/sampling.py --mirror ../shared/data
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from nqg import Example
from nqg.data.scan import scan_examples
from nqg.grammar.grammar import Grammar
from nqg.induction.induce import induce
from nqg.induction.sampling import DRAWS, GrammarSampler
from nqg.induction.settings import SamplingSettings
from nqg.induction.tuning import chosen_settings
from nqg.paper.recipe import read_recipe
from nqg.paper.systems import RecipeData, induced
from nqg.types.inference import infer_target_grammar

FOLDS = {
    "standard": "template",
    "template": "template",
    "length": "length",
    "tmcd": "tmcd",
}
SHARES = (0.0, 0.1, 0.2, 0.3)
Fold = tuple[str, Grammar, Sequence[Example], Sequence[Example]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--mirror",
        type=Path,
        help="folder of the datasets; without it they are downloaded",
    )
    parser.add_argument("--count", type=int, default=20_000, help="pairs to draw")
    asked = parser.parse_args()
    print(
        f"{'fold':<34}{'pairs':>7}{'draws a second':>16}{'legal':>8}   perplexity for shares explored of {SHARES}"
    )
    for name, grammar, train, held_out in folds(asked.mirror):
        sampler = GrammarSampler(grammar, train)
        begin = time.process_time()
        pairs = sampler.samples(asked.count)
        seconds = time.process_time() - begin
        draws = asked.count * (DRAWS if len(pairs) < asked.count else 1)
        assert grammar.target_grammar
        legal = sum(
            grammar.target_grammar.accepts(pair.target_tokens) for pair in pairs
        ) / len(pairs)
        fits = [
            GrammarSampler(grammar, train, SamplingSettings(explore=share)).fit(
                held_out
            )
            for share in SHARES
        ]
        told = "  ".join(f"{fit.perplexity:.3f}" for fit in fits)
        print(
            f"{name:<34}{len(pairs):>7,}{draws / seconds:>16,.0f}{legal:>8.1%}   {told}",
            flush=True,
        )


def folds(mirror: Path | None) -> Iterator[Fold]:
    for split, kind in FOLDS.items():
        data = RecipeData.load(
            read_recipe(f"geoquery-{split}", [f"held_out={kind}"]), mirror
        )
        train, held_out = data.for_grammar(data.train), data.for_grammar(data.test)
        grammar = induced(data.recipe, train, data.target_grammar)
        yield (
            f"geoquery {split}",
            grammar.typed_by(data.target_grammar),
            train,
            held_out,
        )
    known = [
        example for example in scan_examples() if "around right" not in example.source
    ]
    train = [example for example in known if "opposite right" not in example.source]
    types = infer_target_grammar(example.target_tokens for example in train)
    grammar = induce(
        train, chosen_settings(train, types), target_grammar=types
    ).typed_by(types)
    yield (
        "SCAN without opposite right",
        grammar,
        train,
        [each for each in known if "opposite right" in each.source],
    )


if __name__ == "__main__":
    main()
