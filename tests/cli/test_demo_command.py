"""`nqg demo`: what a newcomer sees first."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nqg.cli import demo as page
from nqg.cli.main import app


@pytest.fixture(scope="module")
def shown() -> str:
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.exception
    assert result.stderr == ""
    return result.stdout


def test_the_search_can_be_followed_from_every_command_a_rule_to_its_end(shown: str) -> None:
    rows = [line.split() for line in shown.splitlines()[2:]]
    rows = rows[1 : rows.index([])]
    assert " ".join(rows[0]) == "0 500 126,464 (every command is a rule)"
    bits = [int(row[2].replace(",", "")) for row in rows]
    assert bits == sorted(bits, reverse=True)
    assert bits[-1] < bits[0] / 50


def test_every_longer_command_is_derived_by_few_rules(shown: str) -> None:
    lines = shown.splitlines()
    start = next(at for at, line in enumerate(lines) if line.endswith(" rules are left:"))
    rules = lines[start + 2 : lines.index("", start + 2)]
    assert len(rules) == int(lines[start].split()[0]) <= 22
    assert "  NT_1 twice → NT_1 NT_1" in rules
    assert "They derive 3,920 of the 3,920 longer commands, such as this one:" in lines


def test_the_derivation_yields_the_meaning_of_its_command(shown: str) -> None:
    lines = shown.splitlines()
    drawn = lines[lines.index(page.SENTENCE) :]
    assert drawn[1].startswith("╰" + "─" * (len(page.SENTENCE) - 2) + "╯  NT_1 after NT_2 → NT_2 NT_1")
    jumps = "I_TURN_LEFT I_JUMP " * 12
    assert f"= {jumps}I_WALK I_WALK" in lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=width, color_system=None, highlight=False, soft_wrap=True)
    monkeypatch.setattr(page, "out", console)
    page.demo()
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.endswith("I_") for line in lines)
