"""`nqg types`: a target grammar inferred from examples, its types, and any target grammar held against data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from nqg.cli.terminal import EXAMPLES, JSON, err, out, report_written
from nqg.data.examples import Example, read_tokenized
from nqg.errors import FAILED, NqgError, Place
from nqg.files import write_text
from nqg.grammar.earley import Verdict
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.type_inference import Coarseness, InferredTypes, infer_types

FUNQL = "funql"
COARSENESS = {level.name.lower().replace("_", "-"): level for level in Coarseness}
SHOWN_POSITIONS = 3

OUTPUT = typer.Option(None, "-o", "--output", metavar="FILE", help="Where to write the grammar.", show_default="stdout")
COARSE = typer.Option(
    None,
    "--coarseness",
    metavar="LEVEL",
    help=f"How alike positions of one type are: {', '.join(COARSENESS)}.",
    show_default="chosen on folds of the programs",
)
CHECK = typer.Option(
    None, "--check", metavar="GRAMMAR", help=f"Hold this target grammar, a file or '{FUNQL}', against the examples."
)


def types(
    data: Path = EXAMPLES,
    output: Path | None = OUTPUT,
    coarseness: str | None = COARSE,
    check: str | None = CHECK,
    as_json: bool = JSON,
) -> None:
    """Infer a grammar of the programs in a dataset, or hold one against them.

    Example: nqg types train.tsv -o mine.grammar

    The categories of the grammar are the types of programs. Edit them, and check:
    nqg types train.tsv --check mine.grammar names the first program that is
    rejected, and where; the exit code is then 1.
    """
    if check and (output or coarseness):
        raise typer.BadParameter("a grammar that is checked is not inferred; omit --check, or the others")
    if coarseness and coarseness not in COARSENESS:
        raise typer.BadParameter(f"'{coarseness}' is none of {', '.join(COARSENESS)}", param_hint="--coarseness")
    examples = read_tokenized(data)
    if check:
        _report_check(Rejections.of(target_grammar_named(check), examples, data), len(examples), as_json)
        return
    level = COARSENESS[coarseness] if coarseness else None
    inferred = infer_types((example.target_tokens for example in examples), level)
    text = f"# Types of the programs in {data.name}, inferred by nqg. Edit them as you like.\n{inferred.grammar}"
    if output:
        write_text(output, text)
    if as_json:
        out.print_json(data=_facts(inferred))
    elif output:
        out.print(_table(inferred))
    else:
        err.print(_table(inferred))
        out.print(text, end="")
    if output:
        report_written(output)


def target_grammar_named(name: str) -> TargetGrammar:
    """The grammar that an option names: the one of FunQL, or a file."""
    if name == FUNQL:
        from nqg.data.funql import funql_target_grammar

        return funql_target_grammar()
    return TargetGrammar.read(name)


@dataclass(frozen=True, slots=True)
class Rejections:
    """Programs of a file that a target grammar rejects; the numbers are those of examples."""

    numbers: frozenset[int]
    place: Place
    verdict: Verdict | None  # on the first

    @classmethod
    def of(cls, grammar: TargetGrammar, examples: Sequence[Example], path: Path) -> Rejections:
        accepts: dict[tuple[str, ...], bool] = {}
        numbers: list[int] = []
        for number, example in enumerate(examples):
            tokens = example.target_tokens
            if tokens not in accepts:
                accepts[tokens] = grammar.accepts(tokens)
            if not accepts[tokens]:
                numbers.append(number)
        first = numbers[0] if numbers else 0
        verdict = grammar.explain(examples[first].target_tokens) if numbers else None
        return cls(frozenset(numbers), Place(path, first + 1), verdict)

    def __str__(self) -> str:
        if self.verdict is None:
            return "no program is rejected"
        return f"{self.place}: the target grammar rejects '{' '.join(self.verdict.tokens)}': {self.verdict}"


def legal_examples(
    grammar: TargetGrammar, examples: Sequence[Example], path: Path, *, keep_going: bool
) -> Sequence[Example]:
    """The examples whose programs are legal; the others are refused, or left out if work is to go on."""
    found = Rejections.of(grammar, examples, path)
    if not found.numbers:
        return examples
    share = f"{len(found.numbers):,} of {len(examples):,} programs"
    if not keep_going or len(found.numbers) == len(examples):
        remedy = f"{share} are rejected. Correct one or the other (`nqg types {path} --check GRAMMAR` helps)"
        raise NqgError(f"{found}; {remedy}, or leave such pairs out with --keep-going")
    err.print(f"{found}; {share} are left out")
    return [example for number, example in enumerate(examples) if number not in found.numbers]


def _report_check(found: Rejections, total: int, as_json: bool) -> None:
    rejected, verdict = len(found.numbers), found.verdict
    if as_json:
        first: dict[str, Any] | None = None
        if verdict:
            program = " ".join(verdict.tokens)
            first = {"line": found.place.line, "program": program, "legal_tokens": verdict.legal_tokens}
            first["reason"] = str(verdict)
        out.print_json(data={"programs": total, "rejected": rejected, "first": first})
    else:
        out.print(f"{total - rejected:,} of {total:,} programs are legal")
        if verdict:
            out.print(str(found))
    if rejected:
        raise typer.Exit(FAILED)


def _facts(inferred: InferredTypes) -> dict[str, Any]:
    names = {level: name for name, level in COARSENESS.items()}
    return {
        "coarseness": inferred.coarseness and names[inferred.coarseness],
        "held_out_accepted": {names[level]: round(share, 4) for level, share in inferred.accepted.items()},
        "types": [
            {
                "type": each.category.name,
                "occurrences": each.occurrences,
                "positions": list(each.positions),
                "examples": list(each.examples),
            }
            for each in inferred.types
        ],
        "grammar": str(inferred.grammar),
    }


def _table(inferred: InferredTypes) -> Table:
    table = Table("type", "where it stands", "times", "for example", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for each in inferred.types:
        places = list(dict.fromkeys(each.positions))
        more = [f"{len(places) - SHOWN_POSITIONS} more"] if len(places) > SHOWN_POSITIONS else []
        where = "  ".join([*places[:SHOWN_POSITIONS], *more])
        table.add_row(str(each.category), where, f"{each.occurrences:,}", "  ".join(each.examples))
    return table
