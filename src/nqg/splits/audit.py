"""What a split measures: sizes, unseen atoms, divergences, templates, lengths (section 6.1)."""

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

# How many examples have each length, shortest first.
Histogram = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Audit:
    """A split, measured. `dev` takes no part in the comparison of test with train.

    `lengths` has the lengths of sources and targets in each subset, in tokens.

    >>> from nqg import Split, audit
    >>> pairs = [Example(word, f"{word} ( all )") for word in ("city", "state", "river")]
    >>> found = audit(pairs, Split((0, 1), (2,)))
    >>> found.unseen_atom_share
    1.0
    """

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
    lengths: Mapping[str, Mapping[Side, Histogram]]

    @property
    def unseen_atom_share(self) -> float:
        """The share of test examples with an atom that train does not have."""
        return self.unseen_atom_examples / self.test

    def to_dict(self) -> dict[str, object]:
        """Everything, for JSON."""
        return asdict(self) | {"unseen_atom_share": self.unseen_atom_share}


def audit(
    examples: Sequence[Example],
    split: Split,
    language: Language | str | None = None,
    name: str = "split",
) -> Audit:
    """Measure a split of a dataset with targets in `language`, by default what they look like.

    >>> examples = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk", "W")]
    >>> measured = audit(examples, Split(train=(0, 1), test=(2,)))
    >>> measured.language, measured.unseen_atom_share, measured.atom_divergence
    ('tokens', 1.0, 1.0)
    """
    return audits(examples, {name: split}, language_of(examples, language))[0]


def audits(
    examples: Sequence[Example], splits: Mapping[str, Split], language: Language
) -> list[Audit]:
    """Measure several splits of one dataset, whose targets are taken apart only once."""
    # The second import loads Numba.
    from nqg.grammar.ragged import offsets_from_lengths
    from nqg.splits.swap_search import arrangement, decomposed, tallied_divergence

    data = decomposed(examples, language.decomposition)
    starts, ids, _, _, _ = data.atoms
    templates = [language.template(example.target) for example in examples]
    measured = []
    for name, split in splits.items():
        parts = split.parts(examples)
        train, dev, test = map(len, parts)
        if not train or not test:
            sizes = f"train has {train} examples and test {test}"
            raise SettingsError(f"{name}: {sizes}; both need some")
        sides = arrangement(data, np.array(split.train), np.array(split.test))
        # How many atoms of the examples before each one are not in train.
        unseen = offsets_from_lengths(sides.atoms.train[ids] == 0)
        has_unseen = unseen[starts[sides.test + 1]] > unseen[starts[sides.test]]
        test_templates = {templates[position] for position in split.test}
        train_templates = {templates[position] for position in split.train}
        lengths = dict(zip(parts._fields, map(_lengths, parts)))
        measured.append(
            Audit(
                name=name,
                language=language.name,
                train=train,
                dev=dev,
                test=test,
                unseen_atom_examples=int(has_unseen.sum()),
                compound_divergence=float(tallied_divergence(sides.compounds)),
                atom_divergence=float(tallied_divergence(sides.atoms)),
                test_templates=len(test_templates),
                shared_templates=len(test_templates & train_templates),
                lengths=lengths,
            )
        )
    return measured


def _lengths(examples: Sequence[Example]) -> dict[Side, Histogram]:
    sources = sorted(len(example.source_tokens) for example in examples)
    targets = sorted(len(example.target_tokens) for example in examples)
    return {Side.SOURCE: dict(Counter(sources)), Side.TARGET: dict(Counter(targets))}


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
    """The table, then the lengths: a line for each side and subset that has examples.

    The bars of a side are on one scale.
    """
    rows = [HEADER, *map(_cells, audits)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for name, *cells in rows:
        aligned = map(str.rjust, cells, widths[1:])
        lines.append("  ".join([name.ljust(widths[0]), *aligned]).rstrip())
    lines.append("")
    for audit in audits:
        for side in Side:
            longest = max(
                max(lengths[side], default=0) for lengths in audit.lengths.values()
            )
            for subset, lengths in audit.lengths.items():
                histogram = lengths[side]
                if histogram:
                    figures = f"mean {mean_length(histogram):5.1f}, at most {max(histogram):3}"
                    title = f"{audit.name}: {side} tokens, {subset:5}"
                    lines.append(f"{title}  {figures}  |{bars(histogram, longest)}|")
    return "\n".join(lines)


def _cells(audit: Audit) -> tuple[str, ...]:
    """The row of an audit in the table."""
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


def mean_length(histogram: Histogram) -> float:
    """The average length.

    >>> mean_length({2: 3, 6: 1})
    3.0
    """
    return sum(length * count for length, count in histogram.items()) / sum(
        histogram.values()
    )


def bars(histogram: Histogram, longest: int) -> str:
    """A histogram as one line: a bar for each length up to `longest`, or for some neighbours.

    >>> bars({1: 4, 3: 8}, 4)
    '▄ █ '
    """
    width = -(-longest // BINS)
    counts = [0] * -(-longest // width)
    for length, count in histogram.items():
        counts[(length - 1) // width] += count
    return "".join(BARS[-(-count * (len(BARS) - 1) // max(counts))] for count in counts)
