"""Pictures as PNG or SVG files; Matplotlib is optional and loads late."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nqg.errors import MissingExtra, NqgError
from nqg.files import written_atomically

FORMATS = (".png", ".svg")
Draw = Callable[[Any], Any]  # makes a figure with the class that it is given, Matplotlib's `Figure`


def check_picture(path: Path | None) -> None:
    """Refuse, before hours of work, a picture that could not be written after them."""
    if path is None:
        return
    if path.suffix not in FORMATS:
        raise NqgError(f"{path}: a plot is written as {' or '.join(FORMATS)}, found '{path.suffix}'")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("drawing a plot", "plots")


def write_picture(path: Path, draw: Draw) -> None:
    """Draw a picture, in the format that the file's name says, whole or not at all."""
    check_picture(path)
    raw = _drawn(draw, path.suffix[1:])
    with written_atomically(path) as file:
        file.write(raw)


def svg(draw: Draw) -> str:
    """A picture as SVG that can stand inside an HTML page."""
    text = _drawn(draw, "svg").decode()
    return text[text.index("<svg") :]


def _drawn(draw: Draw, form: str) -> bytes:
    """The bytes of a picture; without a date and with a fixed salt for its ids, the same picture has the same bytes."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("drawing a plot", "plots") from error
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "nqg"}):
        metadata = {"Date": None} if form == "svg" else None
        draw(matplotlib.figure.Figure).savefig(file, format=form, dpi=150, metadata=metadata)
    return file.getvalue()
