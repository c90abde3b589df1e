"""Which programs of a dataset a target grammar rejects, and why the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nqg.data.example import Example
from nqg.errors import NqgError, Place
from nqg.extensions import load_extension
from nqg.types.earley import Verdict
from nqg.types.target_grammar import TargetGrammar

NAMED_GRAMMARS = {"funql": "nqg.paper.funql:funql_target_grammar"}


def target_grammar_named(name: str) -> TargetGrammar:
    """The grammar that an option names: one of the paper's languages, or a file."""
    if name in NAMED_GRAMMARS:
        grammar: TargetGrammar = load_extension(NAMED_GRAMMARS[name])()
        return grammar
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
    grammar: TargetGrammar,
    examples: Sequence[Example],
    path: Path,
    *,
    skips_illegal: bool,
    note: Callable[[str], None],
) -> Sequence[Example]:
    """The examples whose programs are legal; the others are refused, or left out with a note."""
    found = Rejections.of(grammar, examples, path)
    if not found.numbers:
        return examples
    share = f"{len(found.numbers):,} of {len(examples):,} programs"
    if not skips_illegal or len(found.numbers) == len(examples):
        remedy = f"{share} are rejected. Correct one or the other (`nqg types {path} --check GRAMMAR` helps)"
        raise NqgError(
            f"{found}; {remedy}, or leave such pairs out with --set types.skip_illegal=true"
        )
    note(f"{found}; {share} are left out")
    return [example for number, example in enumerate(examples) if number not in found.numbers]
