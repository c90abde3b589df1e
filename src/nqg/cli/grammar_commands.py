"""Commands about grammars: `show-grammar`, `sample`, `types` of programs, and `rule` for rules written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nqg.cli.options import Model, TrainFile, changes_option, command
from nqg.cli.terminal import detail, err, out, output, report_written
from nqg.data.example import Example, distinct_pairs
from nqg.data.example_files import format_of, required_examples, write_examples
from nqg.errors import FAILED, NqgError, Place
from nqg.evaluation.legality import Rejections, target_grammar_named
from nqg.files import write_text
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.induction.inspection import GrammarReport, coverage
from nqg.induction.sampling import GrammarSampler
from nqg.induction.search_log import settings_in_comments
from nqg.induction.settings import InductionSettings, SamplingSettings
from nqg.inference.rules_by_hand import read_rules, with_rules, without_rules
from nqg.model.checkpoint import SavedModel, load_model, save_rules
from nqg.preprocessing.preprocessor import FILE as TEXT
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import (
    SlotExamples,
    TrainingText,
    fit_text,
    read_tokenized,
    tokenized,
)
from nqg.settings_reader import changed_settings
from nqg.types.inference import Coarseness, InferredTypes, infer_types

ANY_ARITY = 9999  # as many non-terminals as the text form of a rule can number
COARSENESS = {level.name.lower().replace("_", "-"): level for level in Coarseness}
SHOWN_POSITIONS = 3

GrammarOrModel = Annotated[
    Path,
    typer.Argument(
        metavar="GRAMMAR|MODEL",
        help="A file of rules, plain or .gz, or a folder that `nqg train` wrote.",
        show_default=False,
    ),
]


def _read_grammar(source: Path) -> Grammar:
    """The rules of a file, or of a model's folder."""
    if not source.is_dir():
        return Grammar.read(source, ANY_ARITY)
    inner = sorted(source.glob("*/grammar.txt"))
    if inner and not (source / "grammar.txt").exists():
        raise NqgError(
            f"{source} is not a model folder: it has no grammar.txt; did you mean {inner[0].parent}?"
        )
    return Grammar.read(source / "grammar.txt", ANY_ARITY)


def _text_for(source: Path, examples: Sequence[Example]) -> Preprocessor:
    """How a model with this grammar reads text or, where it is just a file, one that is fitted to the examples."""
    text = source / TEXT
    return Preprocessor.read(text) if text.exists() else fit_text(examples)


def _has_slots(grammar: Grammar) -> bool:
    return any(str(rule.source[0]).startswith(SLOT) for rule in grammar)


@dataclass(frozen=True, kw_only=True)
class ShowGrammarOptions:
    """Which grammar is shown, and beside what."""

    source: GrammarOrModel
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="FILE", help="Examples to derive: .tsv or .jsonl, plain or .gz."
        ),
    ] = None
    top: Annotated[
        int,
        typer.Option(
            "--top", metavar="N", min=0, help="How many of the longest and most used rules to list."
        ),
    ] = 5


@command(ShowGrammarOptions)
def show_grammar(options: ShowGrammarOptions) -> None:
    """Show what a grammar is made of and how well it fits a dataset.

    Example: nqg show-grammar grammar.txt --data test.tsv

    Prints the bits per rule and the longest and the most used rules; with --data,
    also how many examples the grammar derives. Given a model folder, it shows the
    model's grammar. `nqg plot` draws how a search or a training went.
    """
    source = options.source
    grammar = _read_grammar(source)

    # A symbol costs what it cost in the search.
    recorded = settings_in_comments(source / "grammar.txt" if source.is_dir() else source)
    names = ("terminal_bits", "non_terminal_bits")
    settings = InductionSettings(
        **{name: recorded[name] for name in names if isinstance(recorded.get(name), float)}
    )

    covered = None
    if options.data:
        examples = required_examples(options.data)
        training_text = TrainingText.of(examples, _text_for(source, examples))
        if _has_slots(grammar):
            grammar = replace(grammar, slots=training_text.slots)
        covered = coverage(grammar, training_text.examples)
    report = GrammarReport(grammar, settings, options.top, covered)
    if output.as_json:
        out.print_json(data=report.to_dict())
    else:
        out.print(str(report))


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """How many pairs are drawn, from what, like what."""

    source: GrammarOrModel
    count: Annotated[
        int,
        typer.Option(
            "-n", "--count", metavar="N", min=1, help="How many different pairs to draw, at most."
        ),
    ] = 20
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the pairs, .tsv or .jsonl.",
            show_default="stdout",
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Examples whose rules are drawn as often as there, .tsv or .jsonl.",
            show_default="all rules are equally likely",
        ),
    ] = None
    dev: Annotated[
        Path | None,
        typer.Option("--dev", metavar="FILE", help="Print the perplexity of these other examples."),
    ] = None
    target_grammar: Annotated[
        str | None,
        typer.Option(
            "--target-grammar",
            metavar="FILE|funql",
            help="Draw legal programs only.",
            show_default="the model's, if it has one",
        ),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Another seed draws other pairs.")
    ] = 0
    changes: Annotated[
        list[str], changes_option("depth=12, explore=0.1 (for new combinations)")
    ] = field(default_factory=list)


@command(SampleOptions)
def sample(options: SampleOptions) -> None:
    """Draw pairs of sentences and programs from a grammar.

    Example: nqg sample model --data train.tsv -n 20000 -o samples.tsv

    With --data, pairs resemble the examples: rules are drawn under other rules
    about as often as in them, and slots have values of the examples. The same
    seed draws the same pairs.
    """
    if options.output:
        format_of(options.output)  # which refuses other endings before any work
    settings = changed_settings(SamplingSettings(), options.changes)
    source = options.source
    grammar = _read_grammar(source)
    given = SlotExamples([])
    if options.data:
        given = _slot_examples(options.data, source, grammar, is_distinct=True)
    own = source / "target.grammar"
    legal = options.target_grammar or (str(own) if own.exists() else None)
    if legal:
        grammar = grammar.typed_by(target_grammar_named(legal))
    sampler = GrammarSampler(grammar, given.examples, settings)
    if options.data:
        fit = sampler.fit(given.examples)
        if 2 * fit.derivable < fit.pairs:
            err.print(
                f"warning: {options.data}: {fit}; the others do not count for how often rules are drawn"
            )
        else:
            detail(f"{options.data}: {fit}")
    if options.dev:
        others = _slot_examples(options.dev, source, grammar, is_distinct=False)
        err.print(f"{options.dev}: {sampler.fit(others.examples)}")
    drawn = sampler.samples(options.count, options.seed)
    pairs = distinct_pairs(given.with_values(drawn, random.Random(options.seed)))
    if not pairs:
        raise NqgError("no pair was found; raise the depth, --set depth=N, or give other --data")
    if len(pairs) < options.count:
        err.print(
            f"{len(pairs)} pairs instead of {options.count}: the others are repeated, or too long"
        )
    if options.output:
        write_examples(options.output, pairs)
        report_written(options.output)
    else:
        for pair in pairs:
            typer.echo(f"{pair.source}\t{pair.target}")


def _slot_examples(
    path: Path, source: Path, grammar: Grammar, *, is_distinct: bool
) -> SlotExamples:
    """The examples in a file, delexicalised as in training; a grammar without slots sees the values themselves."""
    examples = required_examples(path)
    text = _text_for(source, examples)
    if _has_slots(grammar):
        return SlotExamples.of(examples, text, is_distinct=is_distinct)
    tokens = tokenized(examples, text)
    return SlotExamples(distinct_pairs(tokens) if is_distinct else tokens)


@dataclass(frozen=True, kw_only=True)
class TypesOptions:
    """Whose types are inferred or checked."""

    data: TrainFile
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the grammar.",
            show_default="stdout",
        ),
    ] = None
    coarseness: Annotated[
        str | None,
        typer.Option(
            "--coarseness",
            metavar="LEVEL",
            help=f"How alike positions of one type are: {', '.join(COARSENESS)}.",
            show_default="chosen on folds of the programs",
        ),
    ] = None
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="GRAMMAR",
            help="Hold this target grammar, a file or 'funql', against the examples.",
        ),
    ] = None


@command(TypesOptions)
def types(options: TypesOptions) -> None:
    """Infer a grammar of the programs in a dataset, or hold one against them.

    Example: nqg types train.tsv -o mine.grammar

    The categories of the grammar are the types of programs. Edit them, and check:
    nqg types train.tsv --check mine.grammar names the first program that is
    rejected, and where; the exit code is then 1.
    """
    coarseness = options.coarseness
    if options.check and (options.output or coarseness):
        raise typer.BadParameter(
            "a grammar that is checked is not inferred; omit --check, or the others"
        )
    if coarseness and coarseness not in COARSENESS:
        raise typer.BadParameter(
            f"'{coarseness}' is none of {', '.join(COARSENESS)}", param_hint="--coarseness"
        )
    examples = read_tokenized(options.data)
    if options.check:
        rejections = Rejections.of(target_grammar_named(options.check), examples, options.data)
        _report_rejections(rejections, len(examples))
        return
    level = COARSENESS[coarseness] if coarseness else None
    inferred = infer_types((example.target_tokens for example in examples), level)
    head = (
        f"# Types of the programs in {options.data.name}, inferred by nqg. Edit them as you like."
    )
    text = f"{head}\n{inferred.grammar}"
    if options.output:
        write_text(options.output, text)
    if output.as_json:
        out.print_json(data=_types_to_dict(inferred))
    elif options.output:
        out.print(_types_table(inferred))
    else:
        err.print(_types_table(inferred))
        out.print(text, end="")
    if options.output:
        report_written(options.output)


def _report_rejections(rejections: Rejections, total: int) -> None:
    rejected, verdict = len(rejections.numbers), rejections.verdict
    if output.as_json:
        first: dict[str, Any] | None = None
        if verdict:
            first = {
                "line": rejections.place.line,
                "program": " ".join(verdict.tokens),
                "legal_tokens": verdict.legal_tokens,
                "reason": str(verdict),
            }
        out.print_json(data={"programs": total, "rejected": rejected, "first": first})
    else:
        out.print(f"{total - rejected:,} of {total:,} programs are legal")
        if verdict:
            out.print(str(rejections))
    if rejected:
        raise typer.Exit(FAILED)


def _types_to_dict(inferred: InferredTypes) -> dict[str, Any]:
    names = {level: name for name, level in COARSENESS.items()}
    types = [
        {
            "type": inferred_type.category.name,
            "occurrences": inferred_type.occurrences,
            "positions": list(inferred_type.positions),
            "examples": list(inferred_type.examples),
        }
        for inferred_type in inferred.types
    ]
    return {
        "coarseness": inferred.coarseness and names[inferred.coarseness],
        "held_out_accepted": {
            names[level]: round(share, 4) for level, share in inferred.accepted.items()
        },
        "types": types,
        "grammar": str(inferred.grammar),
    }


def _types_table(inferred: InferredTypes) -> Table:
    table = Table("type", "where it stands", "times", "for example", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for inferred_type in inferred.types:
        positions = list(dict.fromkeys(inferred_type.positions))
        shown = positions[:SHOWN_POSITIONS]
        if len(positions) > SHOWN_POSITIONS:
            shown.append(f"{len(positions) - SHOWN_POSITIONS} more")
        examples = "  ".join(inferred_type.examples)
        table.add_row(
            str(inferred_type.category),
            "  ".join(shown),
            f"{inferred_type.occurrences:,}",
            examples,
        )
    return table


RULE_HELP = """Add rules written by hand to a model, list and remove them.

Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"
"""
rule = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=RULE_HELP
)


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Which rules of which model."""

    model: Model
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RULE…", help="Rules, each in quotes: 'source ### target'.", show_default=False
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Read rules from this file, one a line."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RuleListOptions:
    """Which rules of a model are listed."""

    model: Model
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="Also list the rules that were learned.")
    ] = False


@rule.command()
@command(RuleOptions)
def add(options: RuleOptions) -> None:
    """Add rules to a model, without training.

    Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"

    A rule that the model has already, or that belongs to no legal program, is
    refused with the reason; then none is added. `nqg train` keeps the rules of
    the model that it replaces.
    """
    _change_rules(options, with_rules)


@rule.command()
@command(RuleOptions)
def remove(options: RuleOptions) -> None:
    """Remove rules that were added by hand.

    Example: nqg rule remove models/mine "NT_1 lights off ### off ( NT_1 )"
    """
    _change_rules(options, without_rules)


@rule.command("list")
@command(RuleListOptions)
def list_rules(options: RuleListOptions) -> None:
    """List the rules written by hand, with the types of their targets.

    Example: nqg rule list models/mine
    """
    model = load_model(options.model, "cpu")
    _print_rules(model, model.grammar.rules if options.everything else model.by_hand)


def _change_rules(
    options: RuleOptions,
    change: Callable[[SavedModel, Sequence[Rule | str], dict[Rule, Place]], SavedModel],
) -> None:
    texts = options.rules or []
    if not texts and not options.file:
        raise typer.BadParameter("expected a rule, or a --file with rules", param_hint="RULE…")
    model = load_model(options.model, "cpu")
    places = read_rules(options.file, model.text) if options.file else {}
    changed = change(model, [*texts, *places], places)
    save_rules(options.model, changed.by_hand)
    _print_rules(changed, changed.by_hand)
    report_written(options.model)


def _print_rules(model: SavedModel, rules: Sequence[Rule]) -> None:
    grammar = model.grammar.typed_by(model.target_grammar)
    rows: list[dict[str, Any]] = []
    for written in rules:
        number = grammar.numbers[written]
        signatures = grammar.typing.signatures[number] if grammar.typing else ()
        rows.append(
            {
                "rule": str(written),
                "by_hand": written in model.by_hand,
                "trained": number < len(model.trained_rules),
                "types": [str(signature) for signature in signatures],
            }
        )
    if output.as_json:
        out.print_json(data=rows)
        return
    for row in rows:
        origins = [
            words for key, words in (("by_hand", "by hand"), ("trained", "trained")) if row[key]
        ]
        print(f"{row['rule']}\t{', '.join(origins)}\t{'; '.join(row['types'])}")
    print(f"{len(grammar):,} rules, {len(model.by_hand):,} of them written by hand")
