"""Pictures: refused before the work where they could not be written after it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from nqg.errors import MissingExtra, NqgError
from nqg.plotting import check_picture, svg, write_picture


def test_no_picture_and_known_formats_are_fine() -> None:
    for path in (None, Path("a.png"), Path("a.svg")):
        check_picture(path)


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"a\.gif: a plot is written as \.png or \.svg, found '\.gif'"):
        check_picture(Path("a.gif"))
    with pytest.raises(NqgError, match=r"found '\.gif'"):
        write_picture(tmp_path / "a.gif", lambda figure_class: figure_class())


def test_without_matplotlib_the_error_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints.txt -e '.\[plots\]'"):
        check_picture(Path("a.png"))


def test_a_picture_for_a_page_begins_with_its_element() -> None:
    assert svg(lambda figure_class: figure_class()).startswith("<svg")
