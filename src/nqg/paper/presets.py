"""Settings of induction for the paper's datasets: the paper's, but for an exact data term instead
of a sample.

A sample of ten gives the data term less weight than it has. So does `data_weight`, without chance;
a quarter leads to shorter grammars that cover more, at the price of more readings a sentence
(docs/performance.md).
"""

from nqg.induction.settings import InductionSettings

_SPIDER = InductionSettings(repeated_targets=True, shortest=1000)
INDUCTION = {
    "geoquery": InductionSettings(data_weight=0.25, factoring=True),
    "scan": InductionSettings(
        terminal_bits=32.0, identity_rules=False, repeated_targets=True, shortest=500
    ),
    "spider-ssp": _SPIDER,
    "spider-xsp": _SPIDER,
}
