"""HTML and SVG from values: the one place where text becomes markup, and therefore the one place that escapes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# Control characters, halves of surrogate pairs and non-characters: XML has no way to write them.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is markup already; every other string is user text and gets escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """`text` as markup that shows it, and does nothing else.

    >>> escaped('<b> "NT_1" & \\x00')
    '&lt;b&gt; &quot;NT_1&quot; &amp; \\ufffd'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_UNPRINTABLE.sub("\ufffd", text)))


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """An element with its content; of attributes' names `_` becomes `-`, a last `_` goes, and None leaves one out.

    >>> element("a", "1 < 2", class_="word", data_node=3, title=None)
    '<a class="word" data-node="3">1 &lt; 2</a>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_spelled(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{joined(content)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Several pieces one after the other, those that are no markup escaped."""
    return Markup("".join(map(escaped, parts)))


def _spelled(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
