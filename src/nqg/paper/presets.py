"""The paper's settings of fine-tuning, and those of induction for its datasets.

The latter are the paper's, but for an exact data term instead of a sample.

A sample of ten gives the data term less weight than it has. So does `data_weight`, without chance;
a quarter leads to shorter grammars that cover more, at the price of more readings a sentence
(docs/performance.md).
"""

from nqg.induction.settings import InductionSettings
from nqg.seq2seq.settings import FineTuningSettings

# Without a learning rate, `default_learning_rate` has it.
FINE_TUNING = FineTuningSettings(
    steps=3000,
    batch_size=128,
    optimizer="adafactor",
    schedule="constant",
    clip=None,
    freeze_embeddings=False,
    learned=0.0,
)

_SPIDER = InductionSettings(repeated_targets=True, shortest=1000)
INDUCTION = {
    "geoquery": InductionSettings(data_weight=0.25, factoring=True),
    "scan": InductionSettings(
        terminal_bits=32.0, identity_rules=False, repeated_targets=True, shortest=500
    ),
    "spider-ssp": _SPIDER,
    "spider-xsp": _SPIDER,
}
