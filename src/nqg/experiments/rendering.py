"""Tables as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from nqg.experiments.tables import Table

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
tr.paper { opacity: .7; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; background: white; }
"""


def markdown(tables: Iterable[Table]) -> str:
    """The tables as Markdown.

    >>> print(markdown([Table(8, "Sizes", ("dataset", "rules"), (("scan", "20"),))]))
    ## Table 8: Sizes
    <BLANKLINE>
    | dataset | rules |
    |---|--:|
    | scan | 20 |
    <BLANKLINE>
    """
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    lines = [
        f"## {table.heading}",
        "",
        _line(table.header),
        "|---|" + "--:|" * (len(table.header) - 1),
        *map(_line, table.rows),
        "",
        *((f"Stand-ins. {' '.join(table.notes)}\n",) if table.notes else ()),
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(tables: Iterable[Table], pictures: Iterable[str] = ()) -> str:
    """The tables, and pictures that are SVG already, as one HTML page."""
    body = [*map(_html, tables), *(f"<figure>{picture}</figure>" for picture in pictures)]
    head = f'<meta charset="utf-8"><title>nqg results</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _html(table: Table) -> str:
    header = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in table.header)
    rows = "\n".join(map(_html_row, table.rows))
    notes = f"<p>Stand-ins. {html.escape(' '.join(table.notes))}</p>" if table.notes else ""
    title = html.escape(table.heading)
    return f"<h2>{title}</h2>\n<table><thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>{notes}"


def _html_row(row: Sequence[str]) -> str:
    kind = ' class="paper"' if row[0].startswith("paper") else ""
    cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
    return f"<tr{kind}>{cells}</tr>"
