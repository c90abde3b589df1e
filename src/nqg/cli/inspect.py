"""`nqg inspect` and `nqg sample`: a grammar in figures, how its search or its training went; pairs drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from nqg.cli.terminal import JSON, detail, err, out, report_written
from nqg.cli.types import target_grammar_named
from nqg.data.examples import (
    Example,
    Values,
    distinct_pairs,
    fit_text,
    format_of,
    required_examples,
    tokenized,
    write_examples,
)
from nqg.errors import NqgError
from nqg.grammar.grammar import SLOT, Grammar
from nqg.induction.inspection import Report, coverage, write_plot
from nqg.induction.sampling import GrammarSampler
from nqg.induction.settings import InductionSettings, SamplingSettings
from nqg.induction.trace import read_trace, recorded_settings
from nqg.plotting import check_picture
from nqg.text.preprocessing import FILE as TEXT
from nqg.text.preprocessing import Preprocessor
from nqg.training import records as training

ANY_ARITY = 9999  # as many non-terminals as the text form of a rule can number

GRAMMAR = typer.Argument(
    metavar="GRAMMAR|MODEL",
    help="A file of rules, plain or .gz, or a folder that `nqg train` wrote.",
    show_default=False,
)
DATA = typer.Option(None, "--data", metavar="FILE", help="Examples to derive: .tsv or .jsonl, plain or .gz.")
TRACE = typer.Option(None, "--trace", metavar="FILE", help="A trace of `nqg induce` to summarise; --plot draws it.")
PLOT = typer.Option(
    None, "--plot", metavar="FILE", help="Draw the steps of --trace, or of MODEL's training, .png or .svg."
)
TOP = typer.Option(5, "--top", metavar="N", min=0, help="How many of the longest and most used rules to list.")
TERMINAL_BITS = typer.Option(
    None, "--terminal-bits", metavar="BITS", help="Cost of a terminal in a rule.", show_default="as in the search, or 8"
)
NON_TERMINAL_BITS = typer.Option(
    None, "--non-terminal-bits", metavar="BITS", help="Cost of a non-terminal.", show_default="as in the search, or 1"
)


def inspect(
    file: Path = GRAMMAR,
    data: Path | None = DATA,
    trace: Path | None = TRACE,
    plot: Path | None = PLOT,
    top: int = TOP,
    terminal_bits: float | None = TERMINAL_BITS,
    non_terminal_bits: float | None = NON_TERMINAL_BITS,
    as_json: bool = JSON,
) -> None:
    """Show what a grammar is made of and how well it fits a dataset.

    Example: nqg inspect grammar.txt --data test.tsv --trace steps.jsonl

    Prints the bits per rule and the longest and the most used rules; with --data,
    also how many examples the grammar derives. Given a model folder, it shows the
    model's grammar, and --plot draws loss and dev accuracy over its training.
    """
    if plot and not trace and not file.is_dir():
        raise typer.BadParameter("a plot shows the steps of a search; give its --trace", param_hint="--plot")
    check_picture(plot)
    rules = file / "grammar.txt" if file.is_dir() else file
    grammar = Grammar.read(rules, ANY_ARITY)
    given = {"terminal_bits": terminal_bits, "non_terminal_bits": non_terminal_bits}
    recorded = recorded_settings(rules)
    costs = {name: recorded.get(name) if bits is None else bits for name, bits in given.items()}
    settings = InductionSettings().changed(**{name: bits for name, bits in costs.items() if isinstance(bits, float)})
    covered = None
    if data:
        raw = required_examples(data)
        text = _text_for(file, raw)
        values = Values.of(raw, text) if any(str(rule.source[0]).startswith(SLOT) for rule in grammar) else None
        grammar = replace(grammar, slots=values.mentions) if values else grammar
        covered = coverage(grammar, tokenized(raw, text))
    steps = read_trace(trace) if trace else None
    report = Report(grammar, settings, top, covered, steps)
    if as_json:
        out.print_json(data=report.to_dict())
    else:
        out.print(str(report))
    if plot:
        if steps:
            write_plot(plot, steps)
        else:
            training.write_plot(plot, training.read_steps(file / "training.jsonl"))
        report_written(plot)


def _text_for(grammar: Path, examples: Sequence[Example]) -> Preprocessor:
    """How a model with this grammar reads text or, where it is just a file, one that is fitted to the examples."""
    text = grammar / TEXT
    return Preprocessor.read(text) if text.exists() else fit_text(examples)


def tokenized_for(grammar: Path, path: Path) -> Sequence[Example]:
    """The examples in a file, as the model with this grammar, or one that is fitted to them, sees them."""
    raw = required_examples(path)
    return tokenized(raw, _text_for(grammar, raw))


DEFAULTS = SamplingSettings()

COUNT = typer.Option(20, "-n", "--count", metavar="N", min=1, help="How many different pairs to draw, at most.")
OUTPUT = typer.Option(
    None, "-o", "--output", metavar="FILE", help="Where to write the pairs, .tsv or .jsonl.", show_default="stdout"
)
LIKE_DATA = typer.Option(
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
PER_TARGET = typer.Option(
    DEFAULTS.per_target, "--per-target", metavar="N", min=1, help="How many sentences a program may have."
)
SEED = typer.Option(0, "--seed", metavar="N", help="Another seed draws other pairs.")


def sample(
    source: Path = GRAMMAR,
    count: int = COUNT,
    output: Path | None = OUTPUT,
    data: Path | None = LIKE_DATA,
    held_out: Path | None = HELD_OUT,
    target_grammar: str | None = TARGET_GRAMMAR,
    depth: int = DEPTH,
    smoothing: float = SMOOTHING,
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
    settings = SamplingSettings(depth=depth, smoothing=smoothing, per_target=per_target)
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
