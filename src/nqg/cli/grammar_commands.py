"""Commands about grammars: `show-grammar`, `sample`, `types` and their `export`, `rule` by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nqg.answers import System
from nqg.cli import terminal
from nqg.cli.options import (
    Model,
    SettingsFile,
    TrainFile,
    argument,
    changes_option,
    option,
)
from nqg.cli.terminal import (
    detail,
    err,
    new_table,
    out,
    output,
    print_results,
    report_written,
)
from nqg.data.example import Example, distinct_pairs
from nqg.data.example_files import (
    format_of,
    is_example_file,
    required_examples,
    write_examples,
)
from nqg.errors import FAILED, NqgError, Place, counted
from nqg.evaluation.legality import Rejections, target_grammar_named
from nqg.evaluation.rule_trial import Change, rule_trial
from nqg.files import numbered_lines, write_text
from nqg.grammar.grammar import SEPARATOR, Grammar, Rule
from nqg.induction.inspection import GrammarReport, coverage
from nqg.induction.sampling import GrammarSampler
from nqg.induction.search_log import settings_in_comments
from nqg.induction.settings import InductionSettings, SamplingSettings
from nqg.inference.hybrid import Hybrid, load_with_grammar
from nqg.inference.parser import Parser
from nqg.inference.rules_by_hand import read_rules, with_rules, without_rules
from nqg.model.checkpoint import (
    TARGET_GRAMMAR_FILE,
    SavedModel,
    load_model,
    save_rules,
)
from nqg.model.export import FORMATS, export_types
from nqg.pipeline.program_types import TrainingTypes, no_place_for, training_types
from nqg.pipeline.settings import TrainSettings
from nqg.pipeline.task import reads_slots
from nqg.preprocessing.preprocessor import TEXT_FILE, Preprocessor
from nqg.preprocessing.training_text import (
    SlotExamples,
    TrainingText,
    fit_text,
    tokenized,
)
from nqg.settings_reader import changed_settings
from nqg.text.sentence_templates import slot_names
from nqg.types.inference import Coarseness
from nqg.types.rule_groups import function_names, rule_groups
from nqg.types.target_grammar import TargetGrammar

# As many non-terminals as the text form of a rule can number.
ANY_ARITY = 9999
SHOWN_POSITIONS = 3

GrammarOrModel = Annotated[
    Path,
    argument(
        "GRAMMAR|MODEL",
        "A file of rules, plain or .gz, or a folder that `nqg train` wrote.",
    ),
]


def _read_grammar(source: Path) -> Grammar:
    """The rules of a file, or of a model's folder."""
    if not source.is_dir():
        return Grammar.read(source, ANY_ARITY)
    inner = sorted(source.glob("*/grammar.txt"))
    if inner and not (source / "grammar.txt").exists():
        advice = f"did you mean {inner[0].parent}?"
        raise NqgError(
            f"{source} is not a model folder: it has no grammar.txt; {advice}"
        )
    return Grammar.read(source / "grammar.txt", ANY_ARITY)


def _text_for(source: Path, examples: Sequence[Example]) -> Preprocessor:
    """How a model with this grammar reads text or, of a mere file, what fits the examples."""
    text = source / TEXT_FILE
    return Preprocessor.read(text) if text.exists() else fit_text(examples)


def show_grammar(
    source: GrammarOrModel,
    data: Annotated[
        Path | None,
        option("--data", "FILE", "Examples to derive: .tsv or .jsonl, plain or .gz."),
    ] = None,
    top: Annotated[
        int,
        option(
            "--top", "N", "How many of the longest and most used rules to list.", min=0
        ),
    ] = 5,
) -> None:
    """Show the size and the rules of a grammar, and how well it fits a dataset.

    Example: nqg show-grammar grammar.txt --data test.tsv

    Prints the bits per rule and the longest and the most used rules; with --data,
    also how many examples the grammar derives. `nqg -v show-grammar` lists all
    rules by the function that they write, and those that only join others at
    the end. Given a model folder, it shows the model's grammar. `nqg plot` draws
    how a search or a training went.
    """
    grammar = _read_grammar(source)
    # A symbol costs what it cost in the search.
    recorded = settings_in_comments(
        source / "grammar.txt" if source.is_dir() else source
    )
    settings = InductionSettings()
    for name in ("terminal_bits", "non_terminal_bits"):
        if isinstance(recorded.get(name), float):
            settings = settings.changed(**{name: recorded[name]})
    covered = None
    if data:
        examples = required_examples(data)
        training_text = TrainingText.of(examples, _text_for(source, examples))
        if reads_slots(grammar):
            grammar = replace(grammar, slots=training_text.slots)
        covered = coverage(grammar, training_text.examples)
    report = GrammarReport(grammar, settings, top, covered)
    types, path = None, source / TARGET_GRAMMAR_FILE
    if path.exists():
        types = TargetGrammar.read(path)
    facts, groups = report.to_dict(), {}
    for group in rule_groups(grammar, function_names(types)):
        groups[group.title] = list(map(str, group.rules))
        detail("\n  ".join([f"{group.title}:", *groups[group.title]]))
    print_results(facts | {"groups": groups}, str(report))


PairCount = Annotated[
    int, option("-n --count", "N", "How many different pairs to draw, at most.", min=1)
]
SampleFile = Annotated[
    Path | None,
    option(
        "-o --output",
        "FILE",
        "Where to write the pairs, .tsv or .jsonl.",
        show_default="stdout",
    ),
]
SampledData = Annotated[
    Path | None,
    option(
        "--data",
        "FILE",
        "Examples whose rules are drawn as often as there, .tsv or .jsonl.",
        show_default="all rules are equally likely",
    ),
]
DevData = Annotated[
    Path | None,
    option("--dev", "FILE", "Print the perplexity of these other examples."),
]
LegalPrograms = Annotated[
    str | None,
    option(
        "--target-grammar",
        "FILE|funql",
        "Draw legal programs only.",
        show_default="the model's, if it has one",
    ),
]
SamplingSeed = Annotated[int, option("--seed", "N", "Another seed draws other pairs.")]
SamplingChanges = Annotated[
    list[str] | None, changes_option("depth=12, explore=0.1 (for new combinations)")
]


def sample(
    source: GrammarOrModel,
    count: PairCount = 20,
    output: SampleFile = None,
    data: SampledData = None,
    dev: DevData = None,
    target_grammar: LegalPrograms = None,
    seed: SamplingSeed = 0,
    changes: SamplingChanges = None,
) -> None:
    """Draw pairs of sentences and programs from a grammar.

    Example: nqg sample model --data train.tsv -n 20000 -o samples.tsv

    With --data, pairs resemble the examples: rules are combined about as often as
    there, and slots have values of the examples. The same seed draws the same
    pairs.
    """
    if output:
        # Other endings are refused before any work.
        format_of(output)
    settings = changed_settings(SamplingSettings(), changes or [])
    grammar = _read_grammar(source)
    pairs_of = partial(_slot_examples, source, grammar)
    # The sampler learns from the examples how often rules are used.
    observed = pairs_of(data, is_distinct=True) if data else SlotExamples([])
    models_grammar = source / "target.grammar"
    if target_grammar is None and models_grammar.exists():
        target_grammar = str(models_grammar)
    if target_grammar:
        grammar = grammar.typed_by(target_grammar_named(target_grammar))
    sampler = GrammarSampler(grammar, observed.examples, settings)
    if data:
        fit = sampler.fit(observed.examples)
        if 2 * fit.derivable < fit.pairs:
            others = "the others do not count for how often rules are drawn"
            err.print(f"warning: {data}: {fit}; {others}")
        else:
            detail(f"{data}: {fit}")
    if dev:
        err.print(f"{dev}: {sampler.fit(pairs_of(dev, is_distinct=False).examples)}")
    # Slots get values of the examples.
    drawn = sampler.samples(count, seed)
    pairs = distinct_pairs(observed.with_values(drawn, random.Random(seed)))
    if (source / TEXT_FILE).exists():
        # Programs that are learned as calls are JSON again.
        programs = Preprocessor.read(source / TEXT_FILE).programs
        if programs.calls:
            pairs = [
                replace(pair, target=" ".join(programs.decoded(pair.target_tokens)))
                for pair in pairs
            ]
    if not pairs:
        raise NqgError(
            "no pair was found; raise the depth, --set depth=N, or give other --data"
        )
    if len(pairs) < count:
        err.print(
            f"{len(pairs)} pairs instead of {count}: the others are repeated, or too long"
        )
    if output:
        write_examples(output, pairs)
        report_written(output)
        return
    for pair in pairs:
        typer.echo(f"{pair.source}\t{pair.target}")


def _slot_examples(
    source: Path, grammar: Grammar, path: Path, *, is_distinct: bool
) -> SlotExamples:
    """The examples in a file, delexicalised as in training if the grammar has slots."""
    examples = required_examples(path)
    text = _text_for(source, examples)
    if reads_slots(grammar):
        return SlotExamples.of(examples, text, is_distinct=is_distinct)
    tokens = tokenized(examples, text)
    return SlotExamples(distinct_pairs(tokens) if is_distinct else tokens)


GrammarFile = Annotated[
    Path | None,
    option("-o --output", "FILE", "Where to write the grammar.", show_default="stdout"),
]


def types(
    data: TrainFile,
    output: GrammarFile = None,
    settings: SettingsFile = None,
    changes: Annotated[list[str] | None, changes_option("text.slots=given")] = None,
    tools: Annotated[
        str | None,
        option("--tools", "FILE|MODULE", "Show the types of calls of these tools."),
    ] = None,
    check: Annotated[
        str | None,
        option(
            "--check",
            "GRAMMAR",
            "Check the examples with this target grammar, a file or 'funql'.",
        ),
    ] = None,
    other_data: Annotated[
        Path | None,
        option("--data", "FILE", "With --check: check these examples instead."),
    ] = None,
) -> None:
    """Show the types of programs that training finds, or check a grammar.

    Example: nqg types train.tsv -o mine.grammar

    The categories of the grammar are the types of programs, with slots for
    values. Edit the file, and check it: `nqg types train.tsv --check
    mine.grammar` names the first program that is rejected, and the exit code is
    then 1. `nqg train --target-grammar mine.grammar` trains with the types.
    """
    # Refuse what does not go together.
    if check and output:
        raise typer.BadParameter(
            "a grammar that is checked is not inferred; omit --check or --output"
        )
    if other_data and not check:
        raise typer.BadParameter("needs a grammar to --check", param_hint="--data")
    # Find the types as training does.
    chosen = changed_settings(TrainSettings.of(settings), changes or [])
    types = training_types(data, settings=chosen, tools=tools)
    if check:
        checked = types.check(target_grammar_named(check), other_data)
        for slot in checked.slots_without_place:
            err.print(no_place_for(slot))
        _report_rejections(checked.rejections, checked.programs)
        return
    # Show them, and write them.
    origin = "from its tools" if tools else "inferred by nqg"
    head = f"# Types of the programs in {data.name}, {origin}. Edit them as you like."
    text = f"{head}\n{types.grammar}"
    if output:
        write_text(output, text)
        print_results(_types_to_dict(types), _types_table(types))
        report_written(output)
    else:
        if not terminal.output.as_json:
            err.print(_types_table(types))
        print_results(_types_to_dict(types), text.removesuffix("\n"))


def _report_rejections(rejections: Rejections, total: int) -> None:
    rejected, verdict = len(rejections.numbers), rejections.verdict
    values: dict[str, Any] = {"programs": total, "rejected": rejected, "first": None}
    texts = [f"{total - rejected:,} of {total:,} programs are legal"]
    if verdict:
        texts.append(str(rejections))
        values["first"] = {
            "line": rejections.place.line,
            "program": " ".join(verdict.tokens),
            "legal_tokens": verdict.legal_tokens,
            "reason": str(verdict),
        }
    # Print the result first: a script reads it even where the command fails.
    print_results(values, *texts)
    if verdict:
        raise typer.Exit(FAILED)


def _types_to_dict(found: TrainingTypes) -> dict[str, Any]:
    values: dict[str, Any] = {"grammar": str(found.grammar)}
    inferred = found.inferred
    if inferred is None:
        return values
    types = [
        {
            "type": inferred_type.category.name,
            "occurrences": inferred_type.occurrences,
            "positions": inferred_type.positions,
            "examples": inferred_type.examples,
        }
        for inferred_type in inferred.types
    ]
    return {
        "coarseness": inferred.coarseness and _name(inferred.coarseness),
        "held_out_accepted": {
            _name(level): round(share, 4) for level, share in inferred.accepted.items()
        },
        "types": types,
        **values,
    }


def _name(level: Coarseness) -> str:
    return level.name.lower().replace("_", "-")


def _types_table(found: TrainingTypes) -> Table:
    """Where each type stands; types of tools have no places but those that the grammar shows."""
    table = new_table("type", "where it stands", "times", "for example")
    table.columns[2].justify = "right"
    if found.inferred is None:
        for category in found.grammar.categories:
            table.add_row(str(category), "", "", "")
        return table
    for inferred_type in found.inferred.types:
        # The same position may be listed twice; show each one once, in the first order.
        positions = list(dict.fromkeys(inferred_type.positions))
        more = len(positions) - SHOWN_POSITIONS
        if more > 0:
            positions[SHOWN_POSITIONS:] = [f"{more} more"]
        table.add_row(
            str(inferred_type.category),
            "  ".join(positions),
            f"{inferred_type.occurrences:,}",
            "  ".join(inferred_type.examples),
        )
    return table


def export(
    model: Model,
    export_format: Annotated[
        str,
        option("--format", "|".join(FORMATS), "The format that the decoder reads."),
    ],
    output: GrammarFile = None,
) -> None:
    """Write a model's types as a grammar for other decoders.

    Example: nqg export models/mine --format gbnf -o mine.gbnf

    The grammar describes programs as strings, with values for slots: gbnf is
    for llama.cpp, lark for Lark and llguidance. json-schema is the schema of
    calls, for models of tools and models whose programs are JSON.
    """
    text = export_types(load_model(model, "cpu"), export_format)
    if output:
        write_text(output, text)
        report_written(output)
    else:
        typer.echo(text, nl=False)


RULE_HELP = """Add rules written by hand to a model; try, list and remove them.

Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"
"""
rule = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=RULE_HELP
)
Rules = Annotated[
    list[str] | None, argument("RULE…", "Rules, each in quotes: 'source ### target'.")
]
RulesFile = Annotated[
    Path | None, option("--file", "FILE", "Read rules from this file, one a line.")
]


@rule.command()
def add(model: Model, rules: Rules = None, file: RulesFile = None) -> None:
    """Add rules to a model, without training.

    Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"

    A rule may be a template with alternatives, optional words and {slots}; see
    docs/rules-by-hand.md.
    A rule that the model has already, or that belongs to no legal program, is
    refused with the reason; then none is added. `nqg train` keeps the rules of
    the model that it replaces.
    """
    _change_rules(with_rules, model, rules, file)


@rule.command()
def remove(model: Model, rules: Rules = None, file: RulesFile = None) -> None:
    """Remove rules that were added by hand.

    Example: nqg rule remove models/mine "NT_1 lights off ### off ( NT_1 )"
    """
    _change_rules(without_rules, model, rules, file)


@rule.command("test")
def try_rules(
    model: Model,
    data: Annotated[
        Path,
        argument(
            "SENTENCES",
            "What to try: examples as .tsv or .jsonl, or sentences, a line each.",
        ),
    ],
    rules: Rules = None,
    file: RulesFile = None,
) -> None:
    """Show which sentences rules would newly answer and break; write nothing.

    Example: nqg rule test models/mine train.tsv --file rules.txt

    The exit code is 1 where a right answer would be lost.
    """
    before = load_with_grammar(model, "cpu")
    parser = before.parser if isinstance(before, Hybrid) else before
    assert isinstance(parser, Parser)
    loaded = parser.model
    changed = with_rules(loaded, *_given_rules(loaded, rules, file))
    after: System = replace(parser, model=changed)
    if isinstance(before, Hybrid):
        after = replace(before, parser=after)
    sentences: list[tuple[str, str | None]] = []
    if is_example_file(data):
        examples = required_examples(data, allows_out_of_scope=True)
        sentences += [(example.source, example.target) for example in examples]
    else:
        sentences += [(line, None) for _, line in numbered_lines(data) if line.strip()]
    trial = rule_trial(before, after, sentences)
    new = len(changed.by_hand) - len(loaded.by_hand)
    rows = [answer.to_dict() for answer in trial.answers]
    values = {"rules": new, "tried": trial.tried, "changes": rows}
    print_results(values, *trial.lines(), f"{counted(new, 'rule')}; {trial}")
    if trial.of_kind(Change.BROKEN):
        raise typer.Exit(FAILED)


@rule.command("list")
def list_rules(
    model: Model,
    everything: Annotated[
        bool, option("--all", "", "Also list the rules that were learned.")
    ] = False,
) -> None:
    """List the rules written by hand, with the types of their targets.

    Example: nqg rule list models/mine
    """
    loaded = load_model(model, "cpu")
    _print_rules(loaded, loaded.grammar.rules if everything else loaded.by_hand)


def _change_rules(
    change: Callable[[SavedModel, Sequence[Rule | str], dict[Rule, Place]], SavedModel],
    folder: Path,
    rules: Sequence[str] | None,
    file: Path | None,
) -> None:
    model = load_model(folder, "cpu")
    changed = change(model, *_given_rules(model, rules, file))
    save_rules(folder, changed.by_hand)
    # New rules are shown, or those that are left.
    shown = [written for written in changed.by_hand if written not in model.by_hand]
    _print_rules(changed, shown or changed.by_hand)
    report_written(folder)


def _given_rules(
    model: SavedModel, rules: Sequence[str] | None, file: Path | None
) -> tuple[list[Rule | str], dict[Rule, Place]]:
    """The rules that a user names, and where those of a file stand, so that errors name the line."""
    if not rules and not file:
        raise typer.BadParameter(
            "expected a rule, or a --file with rules", param_hint="RULE…"
        )
    lines = list(rules or [])
    if file:
        lines += [line for _, line in numbered_lines(file)]
    _note_unknown_slots(model, lines)
    places = read_rules(file, model.text) if file else {}
    return [*(rules or []), *places], places


def _note_unknown_slots(model: SavedModel, lines: Sequence[str]) -> None:
    """Print the names in templates that are not slots of a model."""
    slots = [slot.name for slot in model.text.slots.slots]
    listed = f"its slots are {', '.join(slots)}" if slots else "it has none"
    names: dict[str, None] = {}
    for line in lines:
        source = line.partition(f" {SEPARATOR} ")[0]
        if not line.startswith("#"):
            names.update(dict.fromkeys(slot_names(source)))
    for name in names:
        if name not in slots:
            err.print(
                f"note: '{name}' is not a slot of this model ({listed}). "
                f"{{{name}}} stands for what other rules read",
                markup=False,
            )


def _print_rules(model: SavedModel, rules: Sequence[Rule]) -> None:
    grammar = model.grammar.typed_by(model.target_grammar)
    rows = []
    lines = []
    for written in rules:
        # The trained rules come first in the grammar, so the number tells them from
        # others.
        number = grammar.numbers[written]
        signatures = grammar.typing.signatures[number] if grammar.typing else ()
        row = {
            "rule": str(written),
            "by_hand": written in model.by_hand,
            "trained": number < len(model.trained_rules),
            "types": list(map(str, signatures)),
        }
        rows.append(row)
        origins = [key.replace("_", " ") for key in ("by_hand", "trained") if row[key]]
        lines.append(
            f"{written}\t{', '.join(origins)}\t{'; '.join(map(str, signatures))}"
        )
    if output.as_json:
        out.print_json(data=rows)
        return
    for line in lines:
        print(line)
    print(f"{len(grammar):,} rules, {len(model.by_hand):,} of them written by hand")
