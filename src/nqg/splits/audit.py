"""What a split measures: sizes, unseen atoms, divergences, shared templates and lengths (section 6.1 of the paper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.splits.compounds import Language, language_of
from nqg.splits.partition import Side

Histogram = Mapping[int, int]  # how many examples have each length, shortest first


@dataclass(frozen=True, slots=True)
class Audit:
    """A split, measured; `dev` is counted but takes no part in the comparison of test with train."""

    name: str
    language: str
    train: int
    dev: int
    test: int
    unseen_atom_examples: int
    compound_divergence: float
    atom_divergence: float
    test_templates: int
    shared_templates: int
    lengths: Mapping[
        str, Mapping[Side, Histogram]
    ]  # of sources and targets in each part, in tokens

    @property
    def unseen_atom_share(self) -> float:
        """The share of test examples with an atom that train does not have."""
        return self.unseen_atom_examples / self.test

    def to_dict(self) -> dict[str, object]:
        return asdict(self) | {"unseen_atom_share": self.unseen_atom_share}


def audit(
    examples: Sequence[Example],
    split: Split,
    language: Language | str | None = None,
    name: str = "split",
) -> Audit:
    """Measure a split of a dataset, whose targets are in `language`, by default the one that they look like.

    >>> examples = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk", "W")]
    >>> found = audit(examples, Split(train=(0, 1), test=(2,)))
    >>> found.language, found.unseen_atom_share, found.atom_divergence
    ('tokens', 1.0, 1.0)
    """
    return audits(examples, {name: split}, language_of(examples, language))[0]


def audits(
    examples: Sequence[Example], splits: Mapping[str, Split], language: Language
) -> list[Audit]:
    """Measure several splits of one dataset, whose targets are taken apart only once."""
    from nqg.splits.divergence import decomposed
    from nqg.splits.swap_search import arrangement, tallied_divergence  # which loads Numba

    data = decomposed(examples, language.decomposition)
    atoms = data.atoms
    templates = [language.template(example.target) for example in examples]
    found = []
    for name, split in splits.items():
        parts = split.parts(examples)
        if not parts.train or not parts.test:
            sizes = f"train has {len(parts.train)} examples and test {len(parts.test)}"
            raise SettingsError(f"{name}: {sizes}; both need some")
        test = np.array(split.test)
        measured = arrangement(data, np.array(split.train), test)
        unseen = np.concatenate([[0], np.cumsum(measured.atoms.train[atoms.ids] == 0)])
        test_templates = {templates[position] for position in split.test}
        lengths = {
            part: {
                Side.SOURCE: dict(
                    sorted(Counter(len(example.source_tokens) for example in held).items())
                ),
                Side.TARGET: dict(
                    sorted(Counter(len(example.target_tokens) for example in held).items())
                ),
            }
            for part, held in (("train", parts.train), ("dev", parts.dev), ("test", parts.test))
        }
        found.append(
            Audit(
                name=name,
                language=language.name,
                train=len(parts.train),
                dev=len(parts.dev),
                test=len(parts.test),
                unseen_atom_examples=int(
                    np.count_nonzero(unseen[atoms.starts[test + 1]] > unseen[atoms.starts[test]])
                ),
                compound_divergence=tallied_divergence(measured.compounds),
                atom_divergence=tallied_divergence(measured.atoms),
                test_templates=len(test_templates),
                shared_templates=len(
                    test_templates & {templates[position] for position in split.train}
                ),
                lengths=lengths,
            )
        )
    return found


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
    """The table, then the lengths: a line for each side and part that has examples, the bars of a side on one scale."""
    rows = [HEADER]
    for audit in audits:
        unseen = f"{audit.unseen_atom_examples} ({audit.unseen_atom_share:.2%})"
        divergences = f"{audit.compound_divergence:.4f}", f"{audit.atom_divergence:.4f}"
        shared = f"{audit.shared_templates} of {audit.test_templates}"
        rows.append(
            (
                audit.name,
                str(audit.train),
                str(audit.dev),
                str(audit.test),
                unseen,
                *divergences,
                shared,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *aligned]).rstrip())
    lines.append("")
    for audit in audits:
        for side in Side:
            histograms = {
                part: lengths[side] for part, lengths in audit.lengths.items() if lengths[side]
            }
            longest = max(max(histogram) for histogram in histograms.values())
            for part, histogram in histograms.items():
                figures = f"mean {mean_length(histogram):5.1f}, at most {max(histogram):3}"
                lines.append(
                    f"{audit.name}: {side} tokens, {part:5}  {figures}  |{bars(histogram, longest)}|"
                )
    return "\n".join(lines)


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
