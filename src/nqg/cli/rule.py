"""`nqg rule`: the rules of a model that were written by hand; they are added, listed and removed without training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from nqg.cli.terminal import JSON, MODEL, out, report_written
from nqg.errors import Place
from nqg.grammar.grammar import Rule
from nqg.inference.rules_by_hand import read_rules, with_rules, without_rules
from nqg.model.checkpoint import SavedModel, load_model, save_rules

HELP = """Add rules written by hand to a model, list and remove them.

Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"
"""
rule = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=HELP)
RULES = typer.Argument(None, metavar="RULE…", help="Rules, each in quotes: 'source ### target'.", show_default=False)
FILE = typer.Option(None, "--file", metavar="FILE", help="Read rules from this file, one a line.")
ALL = typer.Option(False, "--all", metavar="", help="Also list the rules that were learned.")


@rule.command()
def add(model: Path = MODEL, rules: list[str] | None = RULES, file: Path | None = FILE, as_json: bool = JSON) -> None:
    """Add rules to a model, without training.

    Example: nqg rule add models/mine "NT_1 lights off ### off ( NT_1 )"

    A rule that the model has already, or that belongs to no legal program, is
    refused with the reason; then none is added. `nqg train` keeps the rules of
    the model that it replaces.
    """
    _change(model, rules or (), file, with_rules, as_json)


@rule.command()
def remove(
    model: Path = MODEL, rules: list[str] | None = RULES, file: Path | None = FILE, as_json: bool = JSON
) -> None:
    """Remove rules that were added by hand.

    Example: nqg rule remove models/mine "NT_1 lights off ### off ( NT_1 )"
    """
    _change(model, rules or (), file, without_rules, as_json)


@rule.command("list")
def list_rules(model: Path = MODEL, everything: bool = ALL, as_json: bool = JSON) -> None:
    """List the rules written by hand, with the types of their targets.

    Example: nqg rule list models/mine
    """
    loaded = load_model(model, "cpu")
    _report(loaded, loaded.grammar.rules if everything else loaded.by_hand, as_json)


def _change(
    model: Path,
    texts: Sequence[str],
    file: Path | None,
    changed: Callable[[SavedModel, Sequence[Rule | str], dict[Rule, Place]], SavedModel],
    as_json: bool,
) -> None:
    if not texts and not file:
        raise typer.BadParameter("expected a rule, or a --file with rules", param_hint="RULE…")
    loaded = load_model(model, "cpu")
    places = read_rules(file, loaded.text) if file else {}
    found = changed(loaded, [*texts, *places], places)
    save_rules(model, found.by_hand)
    _report(found, found.by_hand, as_json)
    report_written(model)


def _report(model: SavedModel, rules: Sequence[Rule], as_json: bool) -> None:
    grammar = model.grammar.typed_by(model.target_grammar)
    values: list[dict[str, Any]] = []
    for each in rules:
        signatures = grammar.typing.signatures[grammar.numbers[each]] if grammar.typing else ()
        is_trained = grammar.numbers[each] < len(model.trained_rules)
        types = [str(signature) for signature in signatures]
        values.append({"rule": str(each), "by_hand": each in model.by_hand, "trained": is_trained, "types": types})
    if as_json:
        out.print_json(data=values)
        return
    for value in values:
        how = [words for words, is_true in (("by hand", value["by_hand"]), ("trained", value["trained"])) if is_true]
        print(f"{value['rule']}\t{', '.join(how)}\t{'; '.join(value['types'])}")
    print(f"{len(grammar):,} rules, {len(model.by_hand):,} of them written by hand")
