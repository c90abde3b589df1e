"""The average rank of systems over evaluations (the last column of the paper's table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from nqg.errors import NqgError


def average_ranks(results: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean rank of each system; `results` has for each system its figure in every evaluation, more being better.

    A system's rank is one more than the number of systems that are better, so systems that tie share the better rank:
    this gives the ranks that the paper prints.

    >>> average_ranks({"T5": {"jump": 99.5, "length": 14.4}, "NQG": {"jump": 100, "length": 100}})
    {'T5': 2.0, 'NQG': 1.0}
    """
    evaluations = list(dict.fromkeys(name for figures in results.values() for name in figures))
    if not evaluations:
        raise NqgError("expected the results of at least one evaluation, found none")
    for system, figures in results.items():
        if missing := [name for name in evaluations if name not in figures]:
            raise NqgError(f"'{system}' has no result for '{missing[0]}'; ranks need every system in every evaluation")
    return {system: fmean(_rank(system, results, name) for name in evaluations) for system in results}


def _rank(system: str, results: Mapping[str, Mapping[str, float]], evaluation: str) -> int:
    return 1 + sum(other[evaluation] > results[system][evaluation] for other in results.values())
