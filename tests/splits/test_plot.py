"""Audits as a picture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nqg.data.dataset import Split
from nqg.data.examples import Example
from nqg.errors import MissingExtra, NqgError
from nqg.splits.audit import MEASURES, Audit, audits, write_plot
from nqg.splits.compounds import LANGUAGES

EXAMPLES = [Example("a " * number, f"f ( {number % 3} )") for number in range(1, 13)]


@pytest.fixture(scope="module")
def measured() -> list[Audit]:
    splits = {"halves": Split(tuple(range(6)), tuple(range(6, 12))), "thirds": Split((0, 3), (1, 4), (2, 5))}
    return audits(EXAMPLES, splits, LANGUAGES["brackets"])


def test_a_png_is_a_png(tmp_path: Path, measured: list[Audit]) -> None:
    write_plot(tmp_path / "plot.png", measured)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_an_svg_has_a_panel_for_every_measure_and_every_split(
    tmp_path: Path, measured: list[Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    write_plot(tmp_path / "plot.svg", measured)
    text = (tmp_path / "plot.svg").read_text()
    assert all(title in text for title in MEASURES)
    for name in ("halves", "thirds"):
        assert f"{name}: source length, share of examples" in text
        assert f"{name}: target length, share of examples" in text
    assert text.count(">dev<") == 2  # in the legends of the one split that has a dev part
    assert f">{measured[0].compound_divergence:.3f}<" in text


def test_one_split_alone_can_be_drawn(tmp_path: Path, measured: list[Audit]) -> None:
    write_plot(tmp_path / "plot.png", measured[:1])
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_the_same_audits_give_the_same_bytes(tmp_path: Path, measured: list[Audit]) -> None:
    for name in ("first.svg", "again.svg"):
        write_plot(tmp_path / name, measured)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_another_format_is_refused(tmp_path: Path, measured: list[Audit]) -> None:
    with pytest.raises(NqgError, match=r"plot\.pdf: a plot is written as \.png or \.svg, found '\.pdf'"):
        write_plot(tmp_path / "plot.pdf", measured)


def test_without_matplotlib_the_error_says_how_to_install_it(
    tmp_path: Path, measured: list[Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"drawing a plot needs .* pip install -c constraints.txt -e '.\[plots\]'"):
        write_plot(tmp_path / "plot.png", measured)
    assert not list(tmp_path.iterdir())
