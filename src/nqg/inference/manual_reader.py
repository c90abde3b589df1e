"""Rules by hand are believed: what they alone make of a sentence, where a model is not sure.

The folds that teach a model confidence never see a rule that a person wrote, so that they say nothing
about it. Here the rules by hand are read as a grammar of their own, with the words and values that
training shows for their non-terminals. A reading counts if a rule by hand is its root. Its confidence
is its share among all such readings; of two rules the one wins that has more words in common with
the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np

from nqg.answers import GRAMMAR, Answer
from nqg.grammar.arrays import FloatArray
from nqg.grammar.grammar import SLOT, Grammar, NonTerminal
from nqg.inference.charts import BatchCharts
from nqg.inference.decoding import DecodeOptions, ScoredCharts
from nqg.model.checkpoint import SavedModel
from nqg.model.rule_scorer import MANUAL_RULE_BONUS
from nqg.slots.instantiate import mentions_of
from nqg.text.sentences import TokenizedSentence


@dataclass(frozen=True)
class ManualReader:
    """The rules by hand of a model, and what may stand for their non-terminals."""

    model: SavedModel
    grammar: Grammar
    options: DecodeOptions

    @classmethod
    def of(
        cls, model: SavedModel, grammar: Grammar, options: DecodeOptions
    ) -> ManualReader:
        """The reader of a model whose parser has this grammar, typed or not."""
        # Of the learned rules those without non-terminals: words and their programs.
        words = [rule for rule in model.trained_rules if not rule.arity]
        rules = dict.fromkeys([*model.by_hand, *words])
        return cls(model, replace(grammar, rules=tuple(rules)), options)

    def answer(self, sentence: TokenizedSentence) -> Answer | None:
        """The answer to a sentence that rules by hand read; None where they do not."""
        today = self.options.today or date.today()
        mentions = mentions_of(self.grammar, [sentence], today)
        charts = BatchCharts.of(
            self.grammar, [sentence], mentions, prune=True, limit=self.options.limit
        )
        full = charts.typed_forests
        if not charts.derivable(full):
            return None
        scores = self._bonuses[charts.grammar.model_rule_ids(full.rules)]
        is_typed = self.grammar.typing is not None
        legal = None if is_typed else self.model.legal_programs
        scored = ScoredCharts(charts.grammar, full, scores, legal, self.model)
        abstention = Answer(sentence.raw, system=GRAMMAR, words=sentence.words)
        (answer,) = scored.answers([abstention], self.options)
        if answer.reading is None:
            return None
        root = answer.reading.derivation.hyperedges[0].rule
        if root not in self.model.by_hand:
            return None
        return replace(answer, confidence=answer.probability)

    @cached_property
    def _bonuses(self) -> FloatArray:
        """What each rule scores: one by hand the more, the more words it reads itself.

        A rule with one word more takes over 0.9999 of the probability.
        """
        bonuses = np.zeros(len(self.grammar))
        # The rules by hand come first.
        for number, rule in enumerate(self.model.by_hand):
            words = 0
            for symbol in rule.source:
                is_slot = str(symbol).startswith(SLOT)
                words += not isinstance(symbol, NonTerminal) and not is_slot
            bonuses[number] = MANUAL_RULE_BONUS * words
        return bonuses
