"""Induction with a target grammar: every proposal can be a part of a legal program."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings

from nqg.data.examples import Example
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.types import Signatures
from nqg.induction.candidates import SplitSettings
from nqg.induction.description_length import LabelRule
from nqg.induction.induce import Induction, induce
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from strategies import corpora, induction_settings

LISTS = TargetGrammar.parse("""
<program> ::= largest ( <program> ) | <program> <program> | J | W | m0
""")


@given(corpora(), induction_settings())
@hypothesis_settings(max_examples=60)
def test_every_rule_that_a_step_proposes_has_a_signature(corpus: list[Example], settings: InductionSettings) -> None:
    signatures = Signatures(LISTS)
    for step in Induction(corpus, settings, target_grammar=LISTS).steps():
        own = {(example.source_tokens, example.target_tokens) for example in corpus}
        new = step.added if step.phase is not Phase.SAMPLING else ()
        found = [rule for rule in new if (rule.source, rule.target) not in own]
        assert all(signatures.fits(rule.target) for rule in found)


def test_what_does_not_fit_is_not_allowed() -> None:
    rule = LabelRule((1,), (2,))
    assert SplitSettings(fits=lambda target: target == (2,)).allows(rule)
    assert not SplitSettings(fits=lambda target: target != (2,)).allows(rule)


def test_bare_targets_can_be_switched_off() -> None:
    for bare_targets in (True, False):
        pairs = [Example(f"{please}{thing}", thing) for please in ("", "please ") for thing in ("lamp", "fan")]
        grammar = induce(pairs, InductionSettings(bare_targets=bare_targets))
        assert any(str(rule).endswith("### NT_1") for rule in grammar) is bare_targets
