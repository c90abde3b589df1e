"""Training programs against the tools that they call: what does not fit is refused by its line."""

from __future__ import annotations

from dataclasses import replace

from nqg.calls import read_calls
from nqg.errors import FormatError, counted
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TypeSettings
from nqg.pipeline.sources import NamedExamples
from nqg.pipeline.task import TrainingInput
from nqg.types.tool_calls import program_misfit
from nqg.types.tools import Tool


def check_tools(
    inputs: TrainingInput, settings: TypeSettings, run: Run
) -> TrainingInput:
    """The input without what is left out: examples whose calls do not fit, if that is asked for.

    Otherwise they are refused. A tool without examples is told: no sentence will call it.
    """
    train = _fitting(inputs.train, inputs.tools, settings, run)
    dev = inputs.dev
    if dev:
        dev = _fitting(dev, inputs.tools, settings, run)
    called: set[str] = set()
    for example in train.examples:
        called.update(call.name for call in read_calls(example.target))
    unlearned = [tool.name for tool in inputs.tools if tool.name not in called]
    if unlearned:
        run.warn(
            f"{train.path} has no example of {', '.join(unlearned)}: "
            f"{counted(len(unlearned), 'tool')} unlearned, no sentence will call "
            f"{'it' if len(unlearned) == 1 else 'them'}"
        )
    return replace(inputs, train=train, dev=dev)


def _fitting(
    source: NamedExamples, tools: tuple[Tool, ...], settings: TypeSettings, run: Run
) -> NamedExamples:
    """The examples whose calls fit; the first of the others is refused, or told."""
    fitting = []
    errors = []
    for number, example in enumerate(source.examples):
        reason = program_misfit(example.target, tools)
        if reason:
            errors.append(FormatError(reason, source.place(number)))
        else:
            fitting.append(example)
    if not errors:
        return source
    share = f"{len(errors):,} of {counted(len(source.examples), 'program')}"
    share += " with calls that do not fit the tools"
    # Where no program fits, the tools are others, so skipping would not help.
    if not settings.skip_illegal or not fitting:
        raise FormatError(
            f"{errors[0].reason}; found {share}. Correct one or the other, or leave such "
            "pairs out with --set types.skip_illegal=true",
            errors[0].place,
        )
    run.note(f"{errors[0]}; {share} are left out")
    return replace(source, examples=tuple(fitting))
