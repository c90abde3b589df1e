"""Tokens in text formats: a backslash marks one that could be taken for a sign."""

from __future__ import annotations

import re

Signs = re.Pattern[str]


def signs(pattern: str) -> Signs:
    """What must be escaped: the signs of a pattern and, lest two tokens merge, escaped signs."""
    return re.compile(rf"\\*(?:{pattern})", re.DOTALL)


def escape(token: str, special: Signs) -> str:
    r"""The token as it is written.

    >>> [escape(token, signs("#.*")) for token in ("#1", r"\#1", "one")]
    ['\\#1', '\\\\#1', 'one']
    """
    return f"\\{token}" if special.fullmatch(token) else token


def unescape(text: str, special: Signs) -> str:
    r"""The token that is written so.

    >>> [unescape(text, signs("#.*")) for text in (r"\#1", r"\\#1", "one", r"\one")]
    ['#1', '\\#1', 'one', '\\one']
    """
    return text[1:] if text.startswith("\\") and special.fullmatch(text) else text
