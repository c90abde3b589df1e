"""What is drawn while a training or a search runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nqg.cli import terminal, training_display
from nqg.cli.training_display import TrainingDisplay
from nqg.pipeline.events import Level, Notice, Stage, StageStarted, WorkDone


@pytest.mark.parametrize("is_terminal", [True, False])
def test_bars_are_drawn_on_terminals_only_and_messages_always(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=is_terminal, width=100, highlight=False
    )
    for module in (terminal, training_display):
        monkeypatch.setattr(module, "err", console)
    with TrainingDisplay() as display:
        display(StageStarted(Stage.GRAMMAR))
        display(WorkDone("splitting · 1,000 rules · 5,000 bits", 1, None))
        display(StageStarted(Stage.CONFIDENCE, 5, 5))
        display(WorkDone("fold 1 of 2 · training", 1, 2))
        display(Notice("7 rules induced"))
        display(Notice("[text] auto", Level.DETAIL))
    assert ("1,000 rules" in screen.getvalue()) is is_terminal
    shown = "5/5 confidence · fold 1 of 2 · training"
    assert (shown in screen.getvalue()) is is_terminal
    assert "7 rules induced" in screen.getvalue()
    assert "[text]" not in screen.getvalue()


def test_the_bar_of_folds_counts_them_and_says_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, highlight=False)
    for module in (terminal, training_display):
        monkeypatch.setattr(module, "err", console)
    seconds = iter([0.0, 100.0, 120.0])
    with TrainingDisplay(clock=lambda: next(seconds)) as display:
        display(StageStarted(Stage.CONFIDENCE, 5, 5))
        display(WorkDone("fold 1 of 3 · training", 94, 256, 1, 3))
        display(WorkDone("fold 2 of 3 · training", 17, 256, 2, 3))
    shown = screen.getvalue()
    assert "5/5 confidence · fold 2 of 3 · training · ~40 s left" in shown
    assert "1/3" in shown
    assert "256" not in shown
