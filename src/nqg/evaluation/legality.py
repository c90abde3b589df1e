"""Which programs are legal: those of a dataset under a target grammar, and one under the types of a
model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nqg.data.example import Example
from nqg.errors import FormatError, NqgError, Place
from nqg.extensions import load_extension
from nqg.model.checkpoint import SavedModel
from nqg.text.brackets import CODE_QUOTES, bracket_error
from nqg.types.earley import Verdict
from nqg.types.target_grammar import TargetGrammar

# Languages of the paper are loaded by name.
NAMED_GRAMMARS = {"funql": "nqg.paper.funql:funql_target_grammar"}
# Tokens before the one that is new, as a message shows them.
SHOWN_BEFORE = 4


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


@dataclass(frozen=True)
class ProgramCheck:
    """What is wrong with a program, in words: nothing if it is legal.

    What is `new` is outside of the model's types, and a person may want to teach it. Any other
    `problem` is a mistake.
    """

    problem: str = ""
    new: str = ""

    @property
    def is_legal(self) -> bool:
        return not self.problem and not self.new


@dataclass(frozen=True)
class ModelTypes:
    """The types of a model, to which raw programs are held."""

    model: SavedModel
    grammar: TargetGrammar | None

    @classmethod
    def of(cls, model: SavedModel) -> ModelTypes:
        return cls(model, model.legal_programs)

    def check(self, program: str) -> ProgramCheck:
        """Whether both readers of the model could give this program as an answer."""
        try:
            tokens = self._tokens(program)
        except FormatError as error:
            return ProgramCheck(error.reason)
        problem = bracket_error(tokens, CODE_QUOTES) or self.model.problem(program)
        if problem or self.grammar is None or self.grammar.accepts(tokens):
            return ProgramCheck(problem)
        # Several commands are legal if each of them is.
        sequence = self.model.text.sequence
        commands = sequence.commands(program) if sequence else ()
        if len(commands) > 1:
            for command in commands:
                check = self.check(command)
                if not check.is_legal:
                    return check
            return ProgramCheck()
        return ProgramCheck(new=why_illegal(self.grammar.explain(tokens)))

    def is_legal(self, program: str) -> bool:
        return self.check(program).is_legal

    def _tokens(self, program: str) -> tuple[str, ...]:
        if self.model.language:
            return self.model.language.tokenize(program)
        return self.model.text.programs.normalized(program)


def why_illegal(verdict: Verdict) -> str:
    """The first token that makes a program illegal, and what may stand in its stead.

    >>> lights = TargetGrammar.parse("<program> ::= on ( <lamp> )\\n<lamp> ::= desk | floor")
    >>> why_illegal(lights.explain("on ( moon )".split()))
    "no legal program has 'moon' after 'on ('; expected 'desk' or 'floor'"
    """
    legal = verdict.legal_tokens
    before = " ".join(verdict.tokens[max(0, legal - SHOWN_BEFORE) : legal])
    place = f"after '{before}'" if before else "at the beginning"
    if legal == len(verdict.tokens):
        return f"no legal program ends {place}; expected {verdict.expected}"
    token = verdict.tokens[legal]
    return f"no legal program has '{token}' {place}; expected {verdict.expected}"
