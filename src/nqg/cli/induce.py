"""`nqg induce`: from a file of examples to a file of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nqg.cli.terminal import STOPPED, complain, detail, err, in_words, out, report_written
from nqg.data.examples import read_examples
from nqg.errors import NqgError
from nqg.grammar.grammar import Grammar
from nqg.induction.settings import InductionSettings
from nqg.inference.settings_file import read_settings
from nqg.plotting import check_picture

if TYPE_CHECKING:
    from nqg.cli.induction_run import Induced

ALL = "all"

FILES, OBJECTIVE, SEARCH = "Files", "What is made small", "How it is searched for"
DATA = typer.Argument(metavar="TRAIN", help="Examples: a .tsv or .jsonl file, plain or .gz.", show_default=False)
OUTPUT = typer.Option(..., "-o", "--output", metavar="FILE", help="Where to write the rules.", rich_help_panel=FILES)
TRACE = typer.Option(
    None, "--trace", metavar="FILE", help="Keep every step as a line of JSON, as it is made.", rich_help_panel=FILES
)
RESUME = typer.Option(
    None, "--resume", metavar="FILE", help="Go on where this trace ends, and keep adding to it.", rich_help_panel=FILES
)
SEED_RULES = typer.Option(
    None, "--seed-rules", metavar="FILE", help="Rules to begin with, beside the examples.", rich_help_panel=FILES
)
PLOT = typer.Option(
    None, "--plot", metavar="FILE", help="Draw description length over the steps, .png or .svg.", rich_help_panel=FILES
)
SETTINGS = typer.Option(
    None, "--settings", metavar="FILE", help="Take settings from this TOML file; `nqg init` writes one."
)
LIKE = typer.Option(None, "--like", metavar="NAME", help="Settings for: geoquery, scan, spider-ssp, spider-xsp.")
JSON = typer.Option(False, "--json", metavar="", help="Print JSON.")


def _setting(name: str, help_text: str, panel: str, metavar: str | None = None) -> Any:
    """An option for a setting; where it is not given, --like or the default decides."""
    default, flag = getattr(InductionSettings(), name), f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        flag, shown = f"{flag}/--no-{flag[2:]}", "yes" if default else "no"
    else:
        shown = ALL if default is None else f"{default:g}"
    full_help = f"{help_text} Default: {shown}."
    return typer.Option(None, flag, metavar=metavar, help=full_help, rich_help_panel=panel, show_default=False)


TERMINAL_BITS = _setting("terminal_bits", "What a word in a rule costs.", OBJECTIVE, "BITS")
NON_TERMINAL_BITS = _setting("non_terminal_bits", "What a non-terminal costs.", OBJECTIVE, "BITS")
DATA_WEIGHT = _setting("data_weight", "Weight of ambiguity in the ranking.", OBJECTIVE, "W")
MINIMUM_GAIN = _setting("minimum_gain", "Stop when no rule saves more than this.", OBJECTIVE, "BITS")
SHORTEST = _setting("shortest", "Search on the N shortest examples only.", SEARCH, "N|all")
STAGES = _setting("stages", "Then double these, up to K times, by what is not derivable yet.", SEARCH, "K")
SAMPLE = _setting("sample", "Judge a rule on K examples that it touches.", SEARCH, "K|all")
IDENTITY_RULES = _setting("identity_rules", "Begin with rules for strings that both sides share.", SEARCH)
REPEATED_TARGETS = _setting("repeated_targets", "Allow NT_1 more than once in a target.", SEARCH)
BALANCED = _setting("balanced", "Only rules with balanced parentheses.", SEARCH)
FACTORING = _setting("factoring", "At the end, split rules into two new ones.", SEARCH)
PRUNING = _setting("pruning", "At last, remove rules that no example needs.", SEARCH)
MAX_NON_TERMINALS = _setting("max_non_terminals", "Most non-terminals in a rule.", SEARCH, "N")
SEED = _setting("seed", "Another seed, another --sample.", SEARCH, "S")


def induce(
    context: typer.Context,
    data: Path = DATA,
    output: Path = OUTPUT,
    settings: Path | None = SETTINGS,
    like: str | None = LIKE,
    terminal_bits: float | None = TERMINAL_BITS,
    non_terminal_bits: float | None = NON_TERMINAL_BITS,
    data_weight: float | None = DATA_WEIGHT,
    minimum_gain: float | None = MINIMUM_GAIN,
    identity_rules: bool | None = IDENTITY_RULES,
    repeated_targets: bool | None = REPEATED_TARGETS,
    balanced: bool | None = BALANCED,
    shortest: str | None = SHORTEST,
    stages: int | None = STAGES,
    sample: str | None = SAMPLE,
    factoring: bool | None = FACTORING,
    pruning: bool | None = PRUNING,
    max_non_terminals: int | None = MAX_NON_TERMINALS,
    seed: int | None = SEED,
    seed_rules: Path | None = SEED_RULES,
    trace: Path | None = TRACE,
    resume: Path | None = RESUME,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
) -> None:
    """Learn the smallest grammar that explains pairs of strings.

    Example: nqg induce train.tsv -o grammar.txt --like scan --trace steps.jsonl

    Every example can be derived from the grammar after each step of the search.
    Ctrl-C stops it: the grammar reached so far is written, and the exit code is
    130. A second Ctrl-C ends the command at once, without a grammar.

    Options override --like, which overrides the induction table of --settings,
    which overrides the defaults.
    """
    from nqg.cli.induction_run import run
    from nqg.induction.inspection import write_plot

    _check_files(data, output, trace, resume)
    check_picture(plot)
    chosen = chosen_settings(like, context.params, read_settings(settings).induction if settings else None)
    detail(f"[induction] {in_words(chosen)}")
    examples = read_examples(data)
    seeds = Grammar.read(seed_rules, chosen.max_non_terminals) if seed_rules else ()
    try:
        induced = run(examples, chosen, seeds, trace, resume)
    except KeyboardInterrupt:
        complain(f"interrupted; {output} was not written")
        raise typer.Exit(STOPPED) from None
    induced.write(output)
    _report(induced, output, as_json)
    if plot:
        write_plot(plot, induced.trace)
    report_written(output, *filter(None, [resume or trace, plot]))
    if not induced.is_finished:
        raise typer.Exit(STOPPED)


def chosen_settings(
    like: str | None, given: Mapping[str, Any], base: InductionSettings | None = None
) -> InductionSettings:
    """The settings for a dataset, else those of `base`, else the defaults, changed by what the command line says."""
    named = InductionSettings.named(like) if like else base or InductionSettings()
    values = {field.name: given[field.name] for field in fields(named) if given.get(field.name) is not None}
    for name in ("shortest", "sample"):
        if name in values:
            values[name] = _number_or_all(values[name], f"--{name}")
    return named.changed(**values)


def _number_or_all(text: str, option: str) -> int | None:
    try:
        return None if text == ALL else int(text)
    except ValueError as error:
        raise typer.BadParameter(f"'{text}' is neither a number nor '{ALL}'", param_hint=option) from error


def _check_files(data: Path, output: Path, trace: Path | None, resume: Path | None) -> None:
    """Refuse, before any work is done, what could not be written at its end."""
    if trace and resume:
        raise typer.BadParameter("--resume goes on with its own trace; leave --trace away", param_hint="--trace")
    if output.resolve() in [path.resolve() for path in (data, trace, resume) if path]:
        raise NqgError(f"{output}: the grammar would be written over a file that is in use; choose another with -o")
    if output.is_dir():
        raise NqgError(f"{output}: expected a file to write the grammar to, found a folder")
    if not output.parent.is_dir():
        raise NqgError(f"{output}: the folder {output.parent} does not exist")


def _report(induced: Induced, output: Path, as_json: bool) -> None:
    if as_json:
        out.print_json(data=_facts(induced, output))
        return
    if not induced.is_finished:
        err.print(f"stopped after step {induced.steps:,}: the grammar is valid, but not yet as small as it can be")
    length = induced.length
    out.print(f"{len(induced.grammar):,} rules from {induced.config.data.examples:,} examples, {induced.steps:,} steps")
    out.print(f"{length.total:,.1f} bits: {length.grammar_bits:,.1f} grammar, {length.data_bits:,.1f} data")


def _facts(induced: Induced, output: Path) -> dict[str, Any]:
    return {
        "rules": len(induced.grammar),
        "examples": induced.config.data.examples,
        "steps": induced.steps,
        "finished": induced.is_finished,
        **asdict(induced.length),
        "seconds": round(induced.seconds, 3),
        "settings": dict(induced.config.settings),
        "data_sha256": induced.config.data.fingerprint,
        "file": str(output),
    }
