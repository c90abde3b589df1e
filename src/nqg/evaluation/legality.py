"""Which programs of a dataset a target grammar rejects, and why the first of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nqg.data.example import Example
from nqg.errors import NqgError, Place
from nqg.extensions import load_extension
from nqg.types.earley import Verdict
from nqg.types.target_grammar import TargetGrammar

# Languages of the paper are loaded by name.
NAMED_GRAMMARS = {"funql": "nqg.paper.funql:funql_target_grammar"}


def target_grammar_named(name: str) -> TargetGrammar:
    """The grammar that an option names: one of the paper's languages, or a file."""
    if name in NAMED_GRAMMARS:
        grammar: TargetGrammar = load_extension(NAMED_GRAMMARS[name])()
        return grammar
    return TargetGrammar.read(name)


@dataclass(frozen=True)
class Rejections:
    """The numbers of programs that a grammar rejects, and why it rejects the first."""

    numbers: frozenset[int]
    place: Place
    verdict: Verdict | None

    @classmethod
    def of(
        cls, grammar: TargetGrammar, programs: Sequence[tuple[str, ...]], path: Path
    ) -> Rejections:
        # Programs repeat, and checking one takes a chart.
        accepts = cache(grammar.accepts)
        numbers = []
        for number, program in enumerate(programs):
            if not accepts(program):
                numbers.append(number)
        if not numbers:
            return cls(frozenset(), Place(path, 1), None)
        verdict = grammar.explain(programs[numbers[0]])
        return cls(frozenset(numbers), Place(path, numbers[0] + 1), verdict)

    def __str__(self) -> str:
        if self.verdict is None:
            return "no program is rejected"
        program = " ".join(self.verdict.tokens)
        return f"{self.place}: the target grammar rejects '{program}': {self.verdict}"


def legal_examples(
    grammar: TargetGrammar,
    examples: Sequence[Example],
    programs: Sequence[tuple[str, ...]],
    path: Path,
    *,
    skips_illegal: bool,
    note: Callable[[str], None],
) -> Sequence[Example]:
    """The examples whose programs are legal; the others are refused, or left out with a note.

    `programs` are those of the examples, as the grammar speaks of them: with slots for values.
    """
    rejections = Rejections.of(grammar, programs, path)
    illegal = rejections.numbers
    if not illegal:
        return examples
    share = f"{len(illegal):,} of {len(examples):,} programs"
    # Where all programs are illegal, the grammar is wrong, so skipping would not help.
    if not skips_illegal or len(illegal) == len(examples):
        raise NqgError(
            f"{rejections}; {share} are rejected. Correct one or the other "
            f"(`nqg types {path} --check GRAMMAR` helps), "
            "or leave such pairs out with --set types.skip_illegal=true"
        )
    note(f"{rejections}; {share} are left out")
    return [example for number, example in enumerate(examples) if number not in illegal]
