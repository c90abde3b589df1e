"""The benchmark of the order of named arguments trains nothing where it changes nothing."""

from __future__ import annotations

from argument_order import row
from nqg import Example
from real_use_datasets import RealDataset


def test_a_dataset_without_an_order_has_no_figures() -> None:
    pairs = [
        Example("lamp in the attic", 'on(kind="lamp", room="attic")'),
        Example("attic lamp", 'on(room="attic", kind="lamp")'),
    ]
    dataset = RealDataset("lamps", tuple(pairs), (), frozenset())
    assert row(dataset, folds=1) == "| lamps | 0 | | | | | |"
