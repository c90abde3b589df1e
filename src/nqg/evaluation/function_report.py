"""How a system does on each function: which ones it gets right, and which sentences it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nqg.answers import program_tokens
from nqg.calls import calls_or_none
from nqg.data.example import Example


@dataclass(frozen=True)
class FunctionReport:
    """The examples of one function: how many are right, and the sentences of the others."""

    function: str
    right: int
    wrong: tuple[str, ...]
    abstained: tuple[str, ...]

    @property
    def examples(self) -> int:
        return self.right + len(self.wrong) + len(self.abstained)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def function_of(program: str) -> str:
    """The function that a program calls first, or its first token where it is no call.

    >>> function_of('{"name": "move", "arguments": {"robot": 3}}'), function_of("SELECT a FROM b")
    ('move', 'SELECT')
    """
    calls = calls_or_none(program)
    if calls:
        return calls[0].name
    tokens = program_tokens(program)
    return tokens[0] if tokens else ""


def function_reports(
    examples: Sequence[Example], verdicts: Sequence[bool | None]
) -> list[FunctionReport]:
    """A report of each function of the right programs, the worst first.

    >>> examples = [Example("stop", "stop()"), Example("halt", "stop()"), Example("go", "go()")]
    >>> [report.function for report in function_reports(examples, [True, None, True])]
    ['stop', 'go']
    """
    by_function: dict[str, list[tuple[str, bool | None]]] = {}
    for example, verdict in zip(examples, verdicts, strict=True):
        function = function_of(example.target)
        by_function.setdefault(function, []).append((example.source, verdict))
    reports = []
    for function, sentences in by_function.items():
        right = sum(verdict is True for _, verdict in sentences)
        wrong = tuple(source for source, verdict in sentences if verdict is False)
        abstained = tuple(source for source, verdict in sentences if verdict is None)
        reports.append(FunctionReport(function, right, wrong, abstained))
    return sorted(
        reports,
        key=lambda report: (report.right / report.examples, -report.examples),
    )
