"""What is drawn while a training or a search runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nqg.cli import terminal, training_display
from nqg.cli.training_display import SearchLine, TrainingDisplay
from nqg.pipeline.events import Level, Notice, SearchProgress, Stage, StageStarted, WorkDone


def test_the_line_says_where_the_search_is_and_how_fast_it_goes() -> None:
    line = SearchLine()
    assert str(line).startswith("looking at the examples")
    line.show(SearchProgress("splitting", 1000, 5000.0, 1.0))
    assert str(line) == "splitting · 1,000 rules · 5,000 bits"
    line.show(SearchProgress("splitting", 900, 4000.0, 1.5))
    assert str(line) == "splitting · 900 rules · 4,000 bits · 2 steps/s · 0 bits in ~2 s"
    line.show(SearchProgress("pruning", 899, 4000.0, 1.5))
    assert str(line) == "pruning · 899 rules · 4,000 bits · 4 steps/s · 0 bits in ~2 s"


def test_speed_is_that_of_the_last_steps_and_nothing_is_promised_without_savings() -> None:
    line = SearchLine()
    for number in range(100):
        seconds = float(number if number < 50 else 50 + (number - 50) / 10)
        line.show(SearchProgress("splitting", 10, 1000.0, seconds))
    assert str(line) == "splitting · 10 rules · 1,000 bits · 10 steps/s"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bars_and_lines_are_drawn_on_terminals_only_and_messages_always(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=is_terminal, width=100, highlight=False)
    for module in (terminal, training_display):
        monkeypatch.setattr(module, "err", console)
    with TrainingDisplay() as display:
        display(StageStarted(Stage.GRAMMAR))
        display(SearchProgress("splitting", 1000, 5000.0, 1.0))
        display(StageStarted(Stage.PARSER))
        display(WorkDone("fold 1 of 2 · training", 1, 2))
        display(Notice("7 rules induced"))
        display(Notice("[text] auto", Level.DETAIL))
    assert ("1,000 rules" in screen.getvalue()) is is_terminal
    assert ("fold 1 of 2" in screen.getvalue()) is is_terminal
    assert "7 rules induced" in screen.getvalue()
    assert "[text]" not in screen.getvalue()
