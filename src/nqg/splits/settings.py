"""What a TMCD search is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nqg.errors import SettingsError


class Method(StrEnum):
    """How a TMCD split is looked for."""

    ANNEALING = "annealing"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class TmcdSettings:
    """What to look for and for how long; what is not given is chosen by the size of the dataset.

    `moves` are swaps weighed in one annealing, `restarts` annealings. With `seconds` the result depends on the speed of
    the machine; without, only on the data and the seed.
    """

    method: Method = Method.ANNEALING
    target_divergence: float | None = None
    tolerance: float = 0.001
    max_atom_divergence: float | None = None
    moves: int | None = None
    restarts: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("target_divergence", "max_atom_divergence"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise SettingsError(f"{name} is {value}; a divergence lies between 0 and 1")
        for name in ("tolerance", "moves", "restarts", "seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"{name} is {value}; expected more than 0")
