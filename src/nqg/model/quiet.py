"""Loading without noise: the reports and bars of transformers are for its developers, not for users of a parser."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as reports


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers report errors alone, and draw no bars; afterwards it is as talkative as before."""
    level, has_bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
    reports.set_verbosity(logging.ERROR)
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        reports.set_verbosity(level)
        if has_bars:
            reports.enable_progress_bar()  # type: ignore[no-untyped-call]
