"""Audits as text: a table with a row for each split, and the lengths of its parts as small bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nqg.splits.audit import Audit, Histogram
from nqg.splits.length import Side

BARS = " ▁▂▃▄▅▆▇█"
BINS = 30
HEADER = (
    "split",
    "train",
    "dev",
    "test",
    "unseen atoms",
    "compound divergence",
    "atom divergence",
    "shared templates",
)


def audit_text(audits: Sequence[Audit]) -> str:
    """The table, then the lengths."""
    return "\n".join([*_table([HEADER, *map(_row, audits)]), "", *(line for each in audits for line in _lengths(each))])


def _row(audit: Audit) -> tuple[str, ...]:
    return (
        audit.name,
        str(audit.train),
        str(audit.dev),
        str(audit.test),
        f"{audit.unseen_atom_examples} ({audit.unseen_atom_share:.2%})",
        f"{audit.compound_divergence:.4f}",
        f"{audit.atom_divergence:.4f}",
        f"{audit.shared_templates} of {audit.test_templates}",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_aligned(row, widths)).rstrip() for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


def _lengths(audit: Audit) -> Iterator[str]:
    """One line for each side and part that has examples, the bars of one side on one scale."""
    for side in Side:
        histograms = {part: lengths.of(side) for part, lengths in audit.lengths.items()}
        longest = max(max(histogram, default=0) for histogram in histograms.values())
        for part, histogram in histograms.items():
            if histogram:
                figures = f"mean {mean_length(histogram):5.1f}, at most {max(histogram):3}"
                yield f"{audit.name}: {side} tokens, {part:5}  {figures}  |{bars(histogram, longest)}|"


def mean_length(histogram: Histogram) -> float:
    """The average length.

    >>> mean_length({2: 3, 6: 1})
    3.0
    """
    return sum(length * count for length, count in histogram.items()) / sum(histogram.values())


def bars(histogram: Histogram, longest: int) -> str:
    """A histogram as one line: a bar for each length from 1 to `longest`, or for some neighbouring lengths together.

    >>> bars({1: 4, 3: 8}, 4)
    '▄ █ '
    """
    width = -(-longest // BINS)
    counts = [0] * -(-longest // width)
    for length, count in histogram.items():
        counts[(length - 1) // width] += count
    return "".join(BARS[-(-count * (len(BARS) - 1) // max(counts))] for count in counts)
