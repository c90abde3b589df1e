"""Traces: what a search did, line by line, whole or cut short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError
from nqg.grammar.grammar import Rule
from nqg.induction.description_length import DescriptionLength
from nqg.induction.induce import Induction, InductionStep
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import (
    Header,
    Trace,
    TracedStep,
    TraceFile,
    grammar_comments,
    induction_config,
    read_trace,
    recorded_settings,
)
from strategies import corpora, induction_settings, tokens

PAIRS = [
    Example("jump", "J"),
    Example("jump twice", "J J"),
    Example("walk twice", "W W"),
    Example("run thrice", "R R R"),
]
SCAN = InductionSettings.named("scan")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def header_of(examples: list[Example], chosen: InductionSettings) -> Header:
    induction = Induction(examples, chosen)
    return Header.of(induction_config(examples, chosen), induction.searched_rules, induction.length)


def traced(examples: list[Example], chosen: InductionSettings) -> list[TracedStep]:
    steps = Induction(examples, chosen).steps()
    return [TracedStep(number, step, number / 8) for number, step in enumerate(steps, start=1)]


def written(path: Path, examples: list[Example] = PAIRS, chosen: InductionSettings = SCAN) -> list[TracedStep]:
    steps = traced(examples, chosen)
    with TraceFile.opened(path, header_of(examples, chosen)) as file:
        for step in steps:
            file.add(step)
    return steps


@settings(max_examples=25)
@given(examples=corpora(), chosen=induction_settings())
def test_a_trace_that_was_written_is_read_back(examples: list[Example], chosen: InductionSettings) -> None:
    with TemporaryDirectory() as name:
        path = Path(name, "steps.jsonl")
        steps = written(path, examples, chosen)
        trace = read_trace(path)
        assert list(trace.steps) == steps
        assert trace.header == header_of(examples, chosen)
        assert (trace.is_cut, trace.size) == (False, path.stat().st_size)
        assert path.read_text().count("\n") == 1 + len(steps)


@given(words=st.lists(tokens(), min_size=1, max_size=4), bits=st.floats(allow_nan=False, allow_infinity=False))
def test_any_token_and_any_number_of_bits_survives(words: list[str], bits: float) -> None:
    rule = Rule(tuple(words), tuple(reversed(words)))
    step = InductionStep(
        Phase.FACTORING, (rule,), (rule, rule), DescriptionLength(bits, -bits), 7, DescriptionLength(0.1, bits)
    )
    with TemporaryDirectory() as name:
        path = Path(name, "steps.jsonl")
        path.write_bytes((header_of(PAIRS, SCAN).line() + TracedStep(1, step, 2.5).line()).encode())
        assert read_trace(path).steps == (TracedStep(1, step, 2.5),)


def test_a_trace_cut_at_any_byte_loses_no_whole_line(folder: Path) -> None:
    whole = folder / "whole.jsonl"
    steps = written(whole)
    raw = whole.read_bytes()
    for size in range(raw.index(b"\n") + 1, len(raw)):
        (folder / "cut.jsonl").write_bytes(raw[:size])
        trace = read_trace(folder / "cut.jsonl")
        assert len(trace.steps) == raw[:size].count(b"\n") - 1
        assert list(trace.steps) == steps[: len(trace.steps)]
        assert trace.is_cut is (raw[size - 1 : size] != b"\n")


def test_a_cut_trace_goes_on_behind_its_last_whole_line(folder: Path) -> None:
    path = folder / "steps.jsonl"
    steps = written(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    trace = read_trace(path)
    with TraceFile.opened(path, trace) as file:
        for step in steps[len(trace.steps) :]:
            file.add(step)
    assert path.read_bytes() == whole


def test_the_end_of_a_search_is_the_last_line_or_missing(folder: Path) -> None:
    path = folder / "steps.jsonl"
    steps = written(path)
    with TraceFile.opened(path, read_trace(path)) as file:
        file.add(None)
    raw = path.read_bytes()
    assert raw.splitlines()[-1] == b'{"finished": true}'
    assert (read_trace(path).steps, read_trace(path).is_finished) == (tuple(steps), True)
    path.write_bytes(raw[:-1])
    assert (read_trace(path).steps, read_trace(path).is_finished) == (tuple(steps), False)
    path.write_bytes(raw + raw.splitlines(keepends=True)[1])
    with pytest.raises(FormatError, match=f"steps.jsonl:{len(steps) + 2}: "):
        read_trace(path)


def test_every_line_is_in_the_file_as_soon_as_it_was_added(folder: Path) -> None:
    path, steps = folder / "steps.jsonl", traced(PAIRS, SCAN)
    with TraceFile.opened(path, header_of(PAIRS, SCAN)) as file:
        for step in steps:
            file.add(step)
            assert read_trace(path).steps[-1] == step


def test_the_end_of_a_trace_is_its_last_step_or_its_header(folder: Path) -> None:
    steps = written(folder / "steps.jsonl")
    trace = read_trace(folder / "steps.jsonl")
    assert (trace.rules, trace.length, trace.seconds) == (steps[-1].step.rules, steps[-1].step.length, len(steps) / 8)
    empty = Trace(trace.header, (), 0)
    assert (empty.rules, empty.length, empty.seconds) == (trace.header.rules, trace.header.length, 0.0)


@pytest.mark.parametrize("left", [b"", b'{"kind": "nqg ind'], ids=["nothing", "the beginning of the header"])
def test_a_trace_that_was_killed_in_its_header_can_be_begun_anew(folder: Path, left: bytes) -> None:
    path = folder / "steps.jsonl"
    path.write_bytes(left)
    with pytest.raises(FormatError, match=r"steps\.jsonl: .* found no whole line; begin one with --trace"):
        read_trace(path)
    written(path)
    assert read_trace(path).steps


@pytest.mark.parametrize("content", [b"notes", b'{"kind": "nqg induction trace"}\n'])
def test_a_file_that_holds_anything_else_is_never_written_over(folder: Path, content: bytes) -> None:
    path = folder / "steps.jsonl"
    path.write_bytes(content)
    with pytest.raises(
        NqgError, match=r"steps\.jsonl: the file exists already; continue it with --resume .*, or remove"
    ):
        written(path)
    assert path.read_bytes() == content


def test_files_that_cannot_be_opened_are_named(folder: Path) -> None:
    with pytest.raises(NqgError, match=r"none\.jsonl: no such file"):
        read_trace(folder / "none.jsonl")
    with pytest.raises(NqgError, match="cannot be read"):
        read_trace(folder)
    with pytest.raises(NqgError, match=r"steps\.jsonl: the folder .*none does not exist"):
        written(folder / "none" / "steps.jsonl")
    with pytest.raises(NqgError, match="cannot write there"):
        written(folder)


def test_a_full_disk_is_an_error_in_words() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with (
        FileIO("/dev/full", "w") as file,
        pytest.raises(NqgError, match=r"/dev/full: cannot be written \(No space left"),
    ):
        TraceFile(Path("/dev/full"), file).add(header_of(PAIRS, SCAN))


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (1, {"kind": "other"}, "expected the header of a trace ('kind': 'nqg induction trace'), found something else"),
        (1, {"version": 2}, "written in version 2 of the format; this nqg reads version 1"),
        (1, {"settings": []}, "expected an object as 'settings' of the header, found []"),
        (1, {"rules": 2.5}, "expected an integer as 'rules' of the header, found 2.5"),
        (2, {"step": 3}, "expected step 1, found step 3"),
        (2, {"phase": "dreaming"}, "returning, sampling, framing as 'phase' of the step, found 'dreaming'"),
        (2, {"added": ["jump"]}, "expected 'source ### target', found '###' 0 times"),
        (2, {"data_bits": "few"}, "expected a number as 'data_bits' of the step, found 'few'"),
        (2, {"mood": "good"}, "no key of the step 'mood'. Known: added, data_bits, grammar_bits"),
        (2, {"seconds": None}, "expected a number as 'seconds' of the step, found None"),
    ],
)
def test_a_bad_line_is_refused_with_its_place(
    folder: Path, line: int, changes: dict[str, object], message: str
) -> None:
    path = folder / "steps.jsonl"
    written(path)
    lines = path.read_text().splitlines(keepends=True)
    lines[line - 1] = json.dumps(json.loads(lines[line - 1]) | changes) + "\n"
    path.write_text("".join(lines))
    with pytest.raises(FormatError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_missing_keys_and_broken_json_are_refused_with_their_place(folder: Path) -> None:
    path = folder / "steps.jsonl"
    header = header_of(PAIRS, SCAN).line()
    for text, message in [
        ('{"step": 1}\n', "the key 'phase' of the step is missing"),
        ("[1]\n", "expected an object as the step, found [1]"),
        ('{"step": 1\n', "not valid JSON"),
        ("\n", "not valid JSON"),
    ]:
        path.write_text(header + text)
        with pytest.raises(FormatError) as caught:
            read_trace(path)
        assert str(caught.value).startswith(f"{path}:2: ")
        assert message in str(caught.value)


def test_the_configuration_survives_the_trace(folder: Path) -> None:
    config = induction_config(PAIRS, SCAN, [Rule.parse("jump ### J")])
    with TraceFile.opened(folder / "steps.jsonl", Header.of(config, 5, DescriptionLength(1.0, 2.0))):
        pass
    assert read_trace(folder / "steps.jsonl").header.config == config


def test_the_settings_on_top_of_a_grammar_can_be_read_back(folder: Path) -> None:
    path = folder / "grammar.txt"
    config = induction_config(PAIRS, SCAN)
    path.write_text("\n".join([*grammar_comments(config), "jump ### J\n"]))
    assert recorded_settings(path) == config.settings
    for text in ("jump ### J\n# settings: {}\n", "# settings: many\njump ### J\n", "# settings: 3\n", ""):
        path.write_text(text)
        assert recorded_settings(path) == {}
