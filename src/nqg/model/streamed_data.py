"""Training data of which only the batch at hand is in memory: the examples and their forests stay on disk.

Processes that train together read their own shares of a batch, so that none holds the forests of the others' examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.forests.folder import ForestFolder
from nqg.grammar.graph import Longs
from nqg.model.objective import NOTHING_TO_LEARN, TrainingData


@dataclass(frozen=True, slots=True)
class StreamedData:
    """Examples and forests on disk, and which of them have a derivation to learn from."""

    examples: Sequence[Example]
    forests: ForestFolder
    tokenizer: Any
    longest: int  # word pieces that the encoder reads
    derivable: Longs

    @classmethod
    def of(cls, examples: Sequence[Example], forests: ForestFolder, tokenizer: Any, longest: int) -> StreamedData:
        """What training reads of `examples`; pairs that no derivation yields are left out."""
        if len(forests) != len(examples):
            raise NqgError(f"there are {len(examples)} examples but forests of {len(forests)}; expected as many")
        derivable = np.delete(np.arange(len(examples)), forests.underivable())
        if not len(derivable):
            raise NqgError(NOTHING_TO_LEARN)
        return cls(examples, forests, tokenizer, longest, derivable)

    def __len__(self) -> int:
        return len(self.derivable)

    def rows(self, batch: Sequence[int]) -> tuple[TrainingData, Sequence[int]]:
        """The data of a batch, read now; sentences that the encoder cannot read whole are refused."""
        numbers = self.derivable[np.asarray(batch, dtype=np.int64)].tolist()
        examples = [self.examples[number] for number in numbers]
        data = TrainingData.of(examples, self.forests.select(numbers), self.tokenizer)
        data.check_lengths(self.longest)
        return data, range(len(numbers))
