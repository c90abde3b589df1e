"""How far the compounds (or atoms) of train and test lie apart: Keysers et al. (2020), section 3 of the paper."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

Feature = TypeVar("Feature", bound=Hashable)

COMPOUND_ALPHA = 0.1
"""Little weight on train: what matters is whether a test compound occurs there at all."""

ATOM_ALPHA = 0.5
"""Equal weights: atoms should be about as frequent on both sides."""


def divergence(train: Mapping[Feature, int], test: Mapping[Feature, int], alpha: float) -> float:
    """One minus the Chernoff coefficient of two counts: 0 where they are proportional, 1 where they share nothing.

    Where one side counts nothing at all there is nothing to compare, and the divergence is 0.

    >>> divergence({"longest(river)": 3}, {"longest(river)": 1}, COMPOUND_ALPHA)
    0.0
    >>> divergence({"longest(river)": 3}, {"shortest(river)": 1}, COMPOUND_ALPHA)
    1.0
    """
    if not any(train.values()) or not any(test.values()):
        return 0.0
    return max(0.0, 1.0 - chernoff_coefficient(train, test, alpha))


def chernoff_coefficient(train: Mapping[Feature, int], test: Mapping[Feature, int], alpha: float) -> float:
    """The sum over k of p_k ** alpha * q_k ** (1 - alpha), with p and q the normalised counts."""
    in_train, in_test = sum(train.values()), sum(test.values())
    shared = (feature for feature in train if feature in test)
    return math.fsum((train[k] / in_train) ** alpha * (test[k] / in_test) ** (1 - alpha) for k in shared)
