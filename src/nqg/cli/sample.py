"""`nqg sample`: pairs drawn from a grammar, to read, to test a parser or to teach another model."""

from __future__ import annotations

from pathlib import Path

import typer

from nqg.cli.inspect import ANY_ARITY, GRAMMAR, tokenized_for
from nqg.cli.terminal import detail, err, report_written
from nqg.cli.types import target_grammar_named
from nqg.data.examples import distinct_pairs, format_of, write_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import SamplingSettings

DEFAULTS = SamplingSettings()

COUNT = typer.Option(20, "-n", "--count", metavar="N", min=1, help="How many different pairs to draw, at most.")
OUTPUT = typer.Option(
    None, "-o", "--output", metavar="FILE", help="Where to write the pairs, .tsv or .jsonl.", show_default="stdout"
)
DATA = typer.Option(
    None,
    "--data",
    metavar="FILE",
    help="Examples whose rules are drawn as often as there, .tsv or .jsonl.",
    show_default="all rules are equally likely",
)
HELD_OUT = typer.Option(None, "--held-out", metavar="FILE", help="Print the perplexity of these other examples.")
TARGET_GRAMMAR = typer.Option(
    None,
    "--target-grammar",
    metavar="FILE|funql",
    help="Draw legal programs only.",
    show_default="the model's, if it has one",
)
DEPTH = typer.Option(DEFAULTS.depth, "--depth", metavar="N", min=1, help="Rules from the root to the deepest one.")
SMOOTHING = typer.Option(
    DEFAULTS.smoothing, "--smoothing", metavar="N", help="How many examples the uniform distribution is worth."
)
EXPLORE = typer.Option(
    DEFAULTS.explore,
    "--explore",
    metavar="SHARE",
    help="Make this share of the choices as in similar places, for combinations that no example has.",
)
PER_TARGET = typer.Option(
    DEFAULTS.per_target, "--per-target", metavar="N", min=1, help="How many sentences a program may have."
)
SEED = typer.Option(0, "--seed", metavar="N", help="Another seed draws other pairs.")


def sample(
    source: Path = GRAMMAR,
    count: int = COUNT,
    output: Path | None = OUTPUT,
    data: Path | None = DATA,
    held_out: Path | None = HELD_OUT,
    target_grammar: str | None = TARGET_GRAMMAR,
    depth: int = DEPTH,
    smoothing: float = SMOOTHING,
    explore: float = EXPLORE,
    per_target: int = PER_TARGET,
    seed: int = SEED,
) -> None:
    """Draw pairs of sentences and programs from a grammar.

    Example: nqg sample model --data train.tsv -n 20000 -o samples.tsv

    With --data, pairs resemble the examples: rules are drawn under other rules
    about as often as in them. The same seed draws the same pairs.
    """
    if output:
        format_of(output)  # which refuses other endings before any work
    settings = SamplingSettings(depth=depth, smoothing=smoothing, explore=explore, per_target=per_target)
    examples = distinct_pairs(tokenized_for(source, data)) if data else []
    grammar = Grammar.read(source / "grammar.txt" if source.is_dir() else source, ANY_ARITY)
    own = source / "target.grammar"
    if legal := target_grammar or (str(own) if own.exists() else None):
        grammar = grammar.typed_by(target_grammar_named(legal))
    sampler = GrammarSampler(grammar, examples, settings)
    if data:
        detail(f"{data}: {sampler.fit(examples)}")
    if held_out:
        err.print(f"{held_out}: {sampler.fit(tokenized_for(source, held_out))}")
    pairs = sampler.samples(count, seed)
    if not pairs:
        raise NqgError("no pair was found; raise --depth, or give other --data")
    if len(pairs) < count:
        err.print(f"{len(pairs)} pairs instead of {count}: the others that were drawn are repeated, or too long")
    if output:
        write_examples(output, pairs)
        report_written(output)
    else:
        for pair in pairs:
            typer.echo(f"{pair.source}\t{pair.target}")
