"""What a split measures: sizes, unseen atoms, divergences, shared templates and lengths (section 6.1 of the paper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from nqg.data.example import Example
from nqg.data.split import Split
from nqg.errors import SettingsError
from nqg.splits.arrangement import arrangement
from nqg.splits.bags import Bags, Decomposed, Integers, decomposed
from nqg.splits.languages import Language
from nqg.splits.length import Side
from nqg.splits.tally import tallied_divergence

Histogram = Mapping[int, int]
"""How many examples have each length, shortest first."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of a part's sources and targets, in tokens."""

    source: Histogram
    target: Histogram

    def of(self, side: Side) -> Histogram:
        """The histogram of one side."""
        return self.source if side is Side.SOURCE else self.target


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
    lengths: Mapping[str, Lengths]

    @property
    def unseen_atom_share(self) -> float:
        """The share of test examples with an atom that train does not have."""
        return self.unseen_atom_examples / self.test

    def as_json(self) -> dict[str, object]:
        """All figures, as JSON has them."""
        return asdict(self) | {"unseen_atom_share": self.unseen_atom_share}


def audit(examples: Sequence[Example], split: Split, language: Language, name: str = "split") -> Audit:
    """Measure one split of a dataset."""
    return audits(examples, {name: split}, language)[0]


def audits(examples: Sequence[Example], splits: Mapping[str, Split], language: Language) -> list[Audit]:
    """Measure several splits of one dataset, whose targets are taken apart only once."""
    data = decomposed(examples, language.decomposition)
    templates = [language.template(example.target) for example in examples]
    return [_audit(name, examples, split, language, data, templates) for name, split in splits.items()]


def _audit(
    name: str,
    examples: Sequence[Example],
    split: Split,
    language: Language,
    data: Decomposed,
    templates: Sequence[str],
) -> Audit:
    parts = split.parts(examples)
    if not parts.train or not parts.test:
        raise SettingsError(f"{name}: train has {len(parts.train)} examples and test {len(parts.test)}; both need some")
    train, test = np.array(split.train), np.array(split.test)
    measured = arrangement(data, train, test)
    test_templates = {templates[position] for position in split.test}
    return Audit(
        name=name,
        language=language.name,
        train=len(parts.train),
        dev=len(parts.dev),
        test=len(parts.test),
        unseen_atom_examples=_with_unseen(data.atoms, measured.atoms.train, test),
        compound_divergence=tallied_divergence(measured.compounds),
        atom_divergence=tallied_divergence(measured.atoms),
        test_templates=len(test_templates),
        shared_templates=len(test_templates & {templates[position] for position in split.train}),
        lengths={"train": _lengths(parts.train), "dev": _lengths(parts.dev), "test": _lengths(parts.test)},
    )


def _with_unseen(atoms: Bags, in_train: Integers, test: Integers) -> int:
    """How many test examples hold an atom that train does not."""
    unseen = np.concatenate([[0], np.cumsum(in_train[atoms.ids] == 0)])
    return int(np.count_nonzero(unseen[atoms.starts[test + 1]] > unseen[atoms.starts[test]]))


def _lengths(examples: Sequence[Example]) -> Lengths:
    return Lengths(
        source=_histogram(len(example.source_tokens) for example in examples),
        target=_histogram(len(example.target_tokens) for example in examples),
    )


def _histogram(lengths: Iterable[int]) -> Histogram:
    return dict(sorted(Counter(lengths).items()))
