"""`nqg demo`: what a newcomer sees first, here on a few commands and a few steps; the README's test runs all of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nqg.cli import project_commands as page
from nqg.data.scan import scan_examples
from nqg.model.settings import TrainingSettings

SHORT = [example for example in scan_examples() if len(example.source_tokens) <= 4]
LONG = [
    example
    for example in scan_examples()
    if example.source.startswith("walk twice after jump around left")
]
QUICK = TrainingSettings(steps=24, batch_size=48, warm_up=4, learning_rate=3e-3)


def screen(width: int, *, is_terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=is_terminal,
        width=width,
        color_system=None,
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def shown_on(console: Console, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(page, "out", console)
    page.lesson(SHORT, LONG, QUICK)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def shown() -> str:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return shown_on(screen(200, is_terminal=False), monkeypatch)


def test_the_search_can_be_followed_from_every_command_a_rule_to_its_end(
    shown: str,
) -> None:
    rows = [line.split() for line in shown.splitlines()[4:]]
    rows = rows[1 : rows.index([])]
    assert rows[0][0] == "0"
    assert " ".join(rows[0][3:]) == "(every command is a rule)"
    bits = [int(row[2].replace(",", "")) for row in rows]
    assert bits == sorted(bits, reverse=True)
    assert bits[-1] < bits[0] / 10


def test_few_rules_are_left(shown: str) -> None:
    lines = shown.splitlines()
    start = next(
        at for at, line in enumerate(lines) if line.endswith(" rules are left:")
    )
    rules = lines[start + 2 : lines.index("", start + 2)]
    assert len(rules) == int(lines[start].split()[0]) <= 22
    assert "  NT_1 twice → NT_1 NT_1" in rules


def test_the_share_of_longer_commands_that_are_right_is_counted(shown: str) -> None:
    line = next(line for line in shown.splitlines() if line.startswith("It gets "))
    right = int(line.split()[2].replace(",", ""))
    assert 0 <= right <= len(LONG)
    assert line == (
        f"It gets {right:,} of the {len(LONG):,} longer commands right ({right / len(LONG):.1%}), such as this one:"
    )


def test_the_derivation_has_scores_and_the_meaning_that_it_yields(shown: str) -> None:
    lines = shown.splitlines()
    start = next(
        at
        for at, line in enumerate(lines)
        if line.startswith(f"{page.DEMO_SENTENCE}    score     p  rule")
    )
    root = lines[start + 1].split()
    assert root[0] == "╰" + "─" * (len(page.DEMO_SENTENCE) - 2) + "╯"
    float(root[1])
    assert 0 < float(root[2]) <= 1
    program = root[root.index("⇒") + 1 :]
    assert lines[-1] == f"= {' '.join(program)}"


def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown_on(screen(60, is_terminal=True), monkeypatch).splitlines()
    assert max(map(len, lines)) <= 60
    assert not any(line.endswith("I_") for line in lines)


def test_the_demo_ends_by_saying_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[TrainingSettings] = []
    console = screen(100, is_terminal=False)
    monkeypatch.setattr(page, "out", console)
    monkeypatch.setattr(
        page, "lesson", lambda train, test, training: seen.append(training)
    )
    page.demo()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert seen[0].steps == 64
    assert "seconds." in text
    assert "nqg train my-pairs.tsv -o models/mine" in text
