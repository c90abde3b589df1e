"""What a parser needs of a scorer of anchored rules, in NumPy or in torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

from numpy.typing import NDArray

from nqg.grammar.arrays import FloatArray, Int64Array
from nqg.grammar.grammar import NonTerminal, Rule
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import Subwords

# What a rule by hand scores for each word after its first: about the highest score of a trained
# rule. Chosen on training sentences; docs/rules-by-hand.md has the table.
MANUAL_RULE_BONUS = 10.0


class SentenceEncoder(Protocol):
    """What can be read by an encoder, and the config of which it is made."""

    @property
    def hidden_size(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def max_length(self) -> int:
        """How many subwords of a sentence it reads at most."""

    def config_json(self) -> str:
        """Its config as Hugging Face writes it."""


class RuleScorer(Protocol):
    """An encoder and an embedding for every rule; `NumpyScorer` and torch's `Scorer` are such."""

    @property
    def encoder(self) -> SentenceEncoder: ...

    @property
    def rules(self) -> Sized:
        """The embeddings of the rules that were trained."""

    def score(
        self,
        sentences: Sequence[Subwords],
        spans: Anchors[Int64Array],
        pairs: Pairs[Int64Array],
        bonuses: Sequence[float] = (),
    ) -> FloatArray:
        """The scores of pairs of span and rule: (P,).

        Rules without embeddings come last: they score what their span does, and a bonus.
        """

    def weights(self) -> Mapping[str, NDArray[Any]]:
        """All weights by their names in a model folder."""


def untrained_bonuses(rules: Iterable[Rule]) -> list[float]:
    """What untrained rules score more than the bare span: the more, the more specific a rule is.

    A rule scores what its span does, as if its embedding were 0. A further word in its source is
    worth as much as a trained rule that fits well, and less beside non-terminals: somebody has
    written down what these very words mean.

    >>> rules = "off ### off", "good night ### all_off", "NT_1 lights off ### off ( NT_1 )"
    >>> untrained_bonuses(map(Rule.parse, rules))
    [0.0, 10.0, 5.0]
    """
    bonuses = []
    for rule in rules:
        words = sum(not isinstance(symbol, NonTerminal) for symbol in rule.source)
        bonuses.append(MANUAL_RULE_BONUS * max(words - 1, 0) / (rule.arity + 1))
    return bonuses
